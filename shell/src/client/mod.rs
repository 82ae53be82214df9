//! The client: discover the host, prove each to the other, open routes, ask, and know the truth about each request.
//!
//! Everything here is a handle; one task per client does the work, on whatever [`Runtime`](crate::Runtime) the client was made
//! on. The handles themselves need no runtime and can be used and dropped on any thread.
//!
//! | handle | dropping it |
//! | --- | --- |
//! | [`Client`] | the last one ends the generation, best effort, and nobody waits |
//! | [`Route`] | the last one closes the route |
//! | [`Call`] | cancels the request |
//! | [`ResponseStream`] | cancels it and frees its unread items |
//! | [`Opening`], [`ControlCall`] | gives the request up; a route that opens all the same is closed |
//! | the future of [`Client::connect`] | closes the socket |
//!
//! No drop takes a lock, spawns or waits.

mod attempts;
mod call;
mod candidate;
mod config;
mod control;
mod handle;
mod managed;
mod request;
mod result;
mod route;
mod shared;
mod slot;
mod stream;

pub use call::{Call, Canceller};
pub use config::{CandidateFailure, ClientConfig, ConnectError, Consumer};
pub use control::{ControlCall, Opening};
pub use handle::{Client, Generations};
pub use hostwire_core::client::session::RetryPolicy;
pub use hostwire_core::client::{CatalogFilter, Item, Transport};
pub(crate) use managed::Ends;
pub use request::{Patience, Request};
pub use result::{CallError, Evidence, Failure, Reply, StreamEnd};
pub use route::Route;
pub use stream::ResponseStream;
