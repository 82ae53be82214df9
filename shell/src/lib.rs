//! Authenticated, multiplexed requests and streams between a local host process and its clients, on any async runtime.
//!
//! This crate is the layer between the pure core ([`core`]) and a runtime: it owns handles, sockets and the one loop
//! that drives a connection ([`turn`]), and asks a [`Runtime`] for readiness, timers and tasks. `hostwire-tokio` and
//! `hostwire-smol` are such runtimes; another is a page of code.
//!
//! # `tracing`
//!
//! With the feature `tracing` the program's subscriber gets these spans, at the level DEBUG; without it nothing is there and nothing is paid.
//!
//! | span | fields |
//! | --- | --- |
//! | `connection` | `role` (`client`, `host`), `connection` (a number), `transport`, `reason` of its end |
//! | `call`: a client's operation with its retries, in the caller's span | `op`, `channel`, `epoch`, `outcome`, `code`, `bytes_handed`, `attempts` |
//! | `request`: a handler, in its connection's span; what the handler says itself is inside | `module_id`, `channel`, `epoch`, `correlation`, `end` |
//!
//! Events tell of hosts that run and end (INFO), connections that end (DEBUG, or WARN if the peer or the transport is why), attempts to connect
//! and to accept that fail, full handshake slots (WARN), and callbacks that fail (ERROR). A host or a client tells at most eight of a kind in a
//! row, then one a second, with the number of those between in `silent`; counters are never limited (Z3). Nothing of a key, nonce, proof,
//! token, body, identity, or of a text that a peer chose, an error's code included, is in any of it (Z1).
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod client;
pub mod component;
pub mod discovery;
pub mod drive;
pub mod host;
pub mod runtime;
pub mod socket;
mod sync;
pub mod testing;
mod trace;
pub mod turn;

pub use host::{Host, HostConfig, HostHandle};
pub use hostwire_core as core;
pub use runtime::Runtime;
