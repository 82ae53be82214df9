//! The host's side: connections, and what they share.
//!
//! ```text
//!            Shared (Arc): permits, pools, latch, catalog          Registry: channels, epochs
//!               ▲                ▲                                    ▲ claim, bind, close, gone
//!          Connection       Connection  ── events ──▶  embedder ──────┘
//!               ▲                ▲      ◀─ answers ──
//!             bytes            bytes
//! ```
//!
//! A [`Connection`] emits [`Event`]s; the embedder asks the [`Registry`] for channels, runs the components' callbacks, and answers.
//! Where a request passes, what connections share are counters: no lock is taken and nothing is allocated beyond its body.

#[doc = include_str!("states.md")]
pub mod states {}

mod admission;
mod bound;
mod commands;
mod connection;
mod control;
mod counters;
mod declare;
mod end;
mod event;
mod input;
mod latch;
mod liveness;
mod output;
mod registry;
mod requests;
mod resident;
mod routes;
mod setup;
mod shared;

pub use crate::control::RouteClass;
pub use crate::limits::{HostLimits, HostTimeouts, LINGER_BYTES, LivenessTimes};
pub use admission::{Admission, Parked, Slot, TaskPermit};
pub use connection::Connection;
pub use counters::{Counters, Dropped, Refused, Retired, Settled};
pub use declare::{BoundViolation, Declaration};
pub use event::{Event, ItemRefusal, ItemRefused, StopReason, TooLate};
pub use latch::ShutdownLatch;
pub use registry::{NoChannel, Owner, Registry, RouteGrant, Step};
pub use requests::RequestId;
pub use resident::{Resident, SMALL_BODY, Split};
pub use setup::CandidateTicket;
pub use shared::{ComponentSpec, HostConfig, Shared, StartError};
