//! Recorded wire vectors of the hostwire protocol, their loader and their replay.
//!
//! A vector says, byte by byte, what goes over the wire and what each side must send and report. The format, and the world
//! that all vectors share, are described in this crate's README. [`load_all`] reads vectors; whatever is wrong in a file is
//! one line that says where.
//!
//! ```
//! use hostwire_vectors::{files, load_all, replay_core};
//!
//! for vector in load_all(&files().join("proof"))? {
//!     for case in &vector.cases {
//!         replay_core(&vector, case)?; // or, over a socket against any program: `Peer`
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Recorder`] writes such a file of what passes between two programs, and [`Entries`] reads one that is too large, or not over yet.
//!
//! The bytes were made by a program in another language from protocol.md, never by hostwire itself.

mod bytes;
mod entries;
mod format;
mod lex;
mod load;
mod parse;
mod peer;
mod record;
mod replay;

pub use bytes::Bytes;
pub use entries::{Entries, Entry};
pub use format::{
    Action, Auth, Body, Case, Exchange, Expect, Field, HeaderResult, Pattern, Report, Schema, Step, Subject,
    Vector,
};
pub use lex::LoadError;
pub use load::{files, find_all, load, load_all};
pub use peer::{CoreOnly, LabHost, Peer, Surroundings};
pub use record::{DEFAULT_MAX_BODY, Recorded, Recorder, without_secrets};
pub use replay::{Difference, Divergence, close_cause, compare_report, replay_core};
