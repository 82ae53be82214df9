//! The host: from a set of components to something that clients can find, call and shut down.
//!
//! [`Host::start`] spawns one supervisor task that owns the listener, the run directory and the order of start and end (protocol.md §4,
//! §17). Each connection is one task; a handler that is not ready at once is one more; binds and closing routes run side by side.

pub(crate) mod bell;
mod candidate;
mod config;
mod conn;
mod handle;
mod handler;
mod hub;
mod keep;
mod report;
mod route;
mod supervisor;

pub use config::{HostConfig, StartError};
pub use handle::{Host, HostHandle, Stopper};
pub use report::{Callback, Cause, Ended, Failure};
