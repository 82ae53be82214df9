//! Authenticated, multiplexed requests and streams between a local host process and its clients, on any async runtime.
//!
//! This crate is the layer between the pure core ([`core`]) and a runtime: it owns handles, sockets and the one loop
//! that drives a connection ([`turn`]), and asks a [`Runtime`] for readiness, timers and tasks. `hostwire-tokio` and
//! `hostwire-smol` are such runtimes; another is a page of code.
//!
//! ```
//! use hostwire::client::{CallError, Client, ClientConfig};
//! use hostwire::component::{Component, Handled, Manifest, Reply, RequestContext, Role};
//! use hostwire::core::control::{Identity, RouteOpen, Target};
//! use hostwire::discovery::{Environment, Location, Place};
//! use hostwire::{Host, HostConfig, Runtime};
//! use std::sync::Arc;
//!
//! struct Echo;
//!
//! impl Component for Echo {
//!     fn manifest(&self) -> Manifest {
//!         Manifest::new("echo", "1.0.0", Role::ToolProvider)
//!     }
//!
//!     fn handle(self: Arc<Self>, mut cx: RequestContext) -> Handled {
//!         Reply::text(cx.take_body()).into()
//!     }
//! }
//!
//! /// On the one side …
//! async fn serve<R: Runtime>(runtime: R) -> Result<(), Box<dyn std::error::Error>> {
//!     let location = Location::resolve(&Environment::from_process(), &Place::Default)?;
//!     let host = Host::start(runtime, HostConfig::new(location, "example/1.0.0"), vec![Arc::new(Echo)]).await?;
//!     assert!(host.wait().await.graceful()); // until somebody calls `shutdown`, here or over the wire
//!     Ok(())
//! }
//!
//! /// … and on the other.
//! async fn call<R: Runtime>(runtime: R) -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::connect(&runtime, &ClientConfig::default()).await?;
//!     let target = Target::new("tool_provider", "echo")?;
//!     let route = client.open(RouteOpen::new(target, Identity::new("/project", "example", "session-1")?)).await?;
//!     match route.request("hello").await {
//!         Ok(reply) => println!("{} bytes", reply.body.as_slice().len()),
//!         Err(CallError::NotSent { .. }) => println!("nothing of it arrived: a new try is safe"),
//!         Err(CallError::Unknown { .. }) => println!("it may have run"),
//!         Err(CallError::Failed { .. }) => println!("it ran, and failed"),
//!     }
//!     Ok(())
//! }
//! # fn main() {}
//! ```
//!
//! One page each: the examples of `hostwire-tokio`.
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
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
pub mod runner;
pub mod runtime;
pub mod socket;
mod sync;
pub mod testing;
mod trace;
pub mod turn;

pub use host::{Host, HostConfig, HostHandle};
pub use hostwire_core as core;
pub use runtime::Runtime;
