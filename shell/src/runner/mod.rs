//! A component that runs commands: each run lives apart from the connection that started it.
//!
//! [`Runner`] is a tool provider with the module ID `runner`. A request is one JSON object with `op`:
//!
//! | request | answer |
//! | --- | --- |
//! | `{"op":"run.start","command":[…],"cwd":P,"env":{…},"lossless":B}` | `{"run":ID,"pid":N}`; all but `command` are optional |
//! | `{"op":"run.subscribe","run":ID,"from":I,"items":N}` | a stream, from index I (default 0) on, of at most N output items |
//! | `{"op":"run.status","run":ID}` | `{"run":ID,"state":S,"first":I,"next":I,…}`; S is `running`, `ending`, `ended` or `missing` |
//! | `{"op":"run.cancel","run":ID}` | when its whole process group is gone: `{"run":ID,"cancelled":B,…}` |
//!
//! A run ends when its command does, by `run.cancel`, or with the host; losing every connection does not end it. Its output is kept, the last
//! part of it, and can be subscribed to at any time. An ID of another incarnation is `missing`: never guessed at.
//!
//! # A subscription's items
//!
//! Output is a binary item: one byte for the stream (1 stdout, 2 stderr), the index in 8 little-endian bytes, then what was said. The other
//! items are JSON text: `{"event":"gap","from":I,"to":I}` where the kept output begins later than was asked for, and, last,
//! `{"event":"ended",…}` with the report. A stream without that last item has reached its N items; the next subscription says with `from` what
//! has been taken.
//!
//! With `lossless` the command is not read on while output that nobody has taken fills the replay: it waits for its subscribers, and, where
//! there is none, for the next one as long as [`RunnerConfig::hold`]. Otherwise the oldest output makes room, and a subscriber that is too slow
//! sees a gap; neither the command nor the other subscribers see anything of it (PB14).
//!
//! # Errors
//!
//! `invalid_request`, `missing`, `too_many_runs`, `command_not_found`, `command_not_executable`, `spawn_failed`, `shutting_down`, `no_memory`, and
//! [`TEARDOWN_UNCONFIRMED`](hostwire_core::child::TEARDOWN_UNCONFIRMED): the run was cancelled, and it could not be seen that all of it is gone.

mod ask;
mod component;
mod replay;
mod report;
mod run;

pub use component::{RUNNER, Runner, RunnerConfig};
