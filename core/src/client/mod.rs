//! The client's side of one generation: authenticate, negotiate, open routes, ask, and know the truth about each request.
//!
//! [`Connection`] owns everything of one generation. It never retries and never reconnects: that is [`session`]'s to decide.
//!
//! | file | owns |
//! | --- | --- |
//! | `config` | what a connection is made from |
//! | `event` | what it says: settlements, readable streams, ended routes, the close |
//! | `connection` | its state, the loop's inputs and outputs, time |
//! | `setup` | authentication and negotiation |
//! | `command` | submission, in the order of B3 |
//! | `stop` | cancel, drop, confirmed cancel, route close |
//! | `input` | what each frame of the host does |
//! | `pending` | the table of requests |
//! | `settle` | outcomes by byte evidence, and the one teardown |
//! | `session` | the managed client's policy: reconnect, retry, backoff |

mod bound;
mod command;
mod config;
mod connection;
mod counters;
mod event;
mod input;
mod pending;
pub mod session;
mod settle;
mod setup;
mod stop;

pub use command::{CatalogFilter, Request, SubmitError};
pub use config::{CandidateConfig, Config, ConfigError};
pub use connection::{Connection, Stage};
pub use counters::Counters;
pub use event::{Event, Item, StreamPoll, Transport};
pub use pending::OpId;
pub use stop::CancelResult;
