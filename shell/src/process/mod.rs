//! Child processes: spawned in groups of their own, read without ever being able to hang on them, and torn down in one order.
//!
//! What is decided is decided in [`hostwire_core::child`]; here it is done, on any [`Runtime`](crate::Runtime), by `rustix`, without `unsafe`.
//! Every child has one task, which owns its pipes, its exit notice (a pidfd) and its timer; so there is nothing that could stay behind.
//!
//! | value | dropping it |
//! | --- | --- |
//! | [`Session`] | the last one kills the child's group and closes its pipes, before the drop returns |
//! | the future of [`connect()`] | the same for its child |
//! | [`Slot`] | room for another child |
//! | the runtime | the same for all of its children |
//!
//! ```
//! # async fn demo<R: hostwire::Runtime>(runtime: R) -> std::io::Result<()> {
//! use hostwire::core::child::{Config, Stream};
//! use hostwire::process::Session;
//! use std::process::Command;
//!
//! let mut command = Command::new("sh");
//! command.args(["-c", "echo hello; exit 3"]);
//! let child = Session::spawn(&runtime, command, Config { stdin: false, ..Config::default() })?;
//! while let Some((stream, bytes)) = child.read().await {
//!     println!("{}: {} bytes", stream.as_str(), bytes.len());
//! }
//! let ended = child.ended().await;
//! assert!(ended.verdict().is_completed(), "it and all that it started are gone, and every byte was read");
//! # Ok(())
//! # }
//! ```

mod connect;
mod engine;
mod linux;
mod pass;
mod pool;
mod port;
mod session;
mod stdio;
mod table;
mod transport;

pub use connect::{ConnectError, Keeper, close_all, connect};
pub use engine::Observer;
pub use linux::{become_subreaper, reap_orphans, spawn};
pub use pool::{Pool, Slot};
pub use port::{Looking, Port, Spawned};
pub use session::{Extras, Session};
pub use stdio::{own_stdin, own_stdout};
pub use transport::{
    CHILD_FILE, ChildHost, OwnError, Transport, TransportError, connect_parent, own_credentials, serve_parent,
};
