//! Child processes without processes: the order of steps of a teardown, the queue towards a child, and the truth about its end.
//!
//! Owns what is decided; the crate `hostwire` (`process`) does what is asked. One [`Session`] per child: it is told of output, exits, looks at
//! the process table and time, and answers with [`Action`]s in an order that cannot be got wrong: flush, close the input, wait, TERM, KILL,
//! sweep, read to the end, and only then close the pipes and reap. What comes out is an [`Ended`]: a verdict that says `completed` only with
//! proof, and a report. [`Lifecycle`] decides when a child that is lost is made again.

mod action;
mod budget;
mod cause;
mod config;
#[cfg(test)]
mod facts;
mod lifecycle;
mod lines;
mod look;
mod outbox;
mod outcome;
mod ring;
mod session;

pub use action::{Action, Resource, Signal};
pub use budget::{Budget, BudgetError, Phase, Phases};
pub use cause::{Cause, Stage, State};
pub use config::{Capture, Config};
pub use lifecycle::{Lifecycle, LifecycleRefused, Restart, Status};
pub use look::{Leader, Look, Owner};
pub use outbox::{
    CallId, ControlKey, Outbox, OutboxCounters, QueueLimits, Refused, ReplySlot, Sent, Settled, Unanswered,
};
pub use outcome::{
    Ended, EndedBy, Exit, ExitClass, Failure, Group, Proof, Report, Stream, StreamReport, Survivor, Verdict,
};
pub use session::Session;

/// The code of a cancel whose process group could not be seen to be gone: never reported as success.
pub const TEARDOWN_UNCONFIRMED: &str = "teardown_unconfirmed";
/// The code of a run that this incarnation does not know.
pub const MISSING: &str = "missing";
