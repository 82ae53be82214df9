//! The managed client's policy, without I/O: when to read discovery, dial and back off ([`Session`]), and what may be sent again ([`Retry`]).
//!
//! Owns decisions only. It never holds a body and never touches a socket; nothing but what O4 lists is ever sent again.

mod backoff;
mod reconnect;
mod retry;

pub use backoff::Backoff;
pub use reconnect::{Ending, Need, Session, SessionPolicy};
pub use retry::{Attempt, Retry, RetryPolicy, Verdict};
