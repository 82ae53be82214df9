//! Authenticated, multiplexed requests and streams between a local host process and its clients, on any async runtime.
//!
//! This crate is the layer between the pure core ([`core`]) and a runtime: it owns handles, sockets and the one loop
//! that drives a connection ([`turn`]), and asks a [`Runtime`] for readiness, timers and tasks. `hostwire-tokio` and
//! `hostwire-smol` are such runtimes; another is a page of code.
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
pub mod turn;

pub use host::{Host, HostConfig, HostHandle};
pub use hostwire_core as core;
pub use runtime::Runtime;
