//! What a host says of its end.
//!
//! Owns the list of what went wrong in components. Reported once, redacted: whose callback, which one, and how it failed; never a text
//! of the component's own (H4, Z1).

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A component's callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Callback {
    /// `initialize`.
    Initialize,
    /// `bind`.
    Bind,
    /// A handler.
    Handle,
    /// `route_gone`.
    RouteGone,
    /// `health`.
    Health,
    /// `shutdown`.
    Shutdown,
}

impl fmt::Display for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initialize => "initialize",
            Self::Bind => "bind",
            Self::Handle => "handle",
            Self::RouteGone => "route_gone",
            Self::Health => "health",
            Self::Shutdown => "shutdown",
        })
    }
}

/// How a callback failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// It returned an error.
    Failed,
    /// It panicked.
    Panicked,
    /// It did not end in its time.
    Overran,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "it failed",
            Self::Panicked => "it panicked",
            Self::Overran => "it did not end in time",
        })
    }
}

/// One failed callback that makes the host's end non-graceful (H4, H5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Whose it was.
    pub module_id: String,
    /// Which one.
    pub callback: Callback,
    /// How it failed.
    pub cause: Cause,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "component {}, {}: {}", self.module_id, self.callback, self.cause)
    }
}

/// How a host ended. By the time it is known, every callback has ended, the sockets are closed and the lock is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// The first failures, in order, at most [`Ended::KEPT`].
    pub failures: Vec<Failure>,
    /// All of them, counted.
    pub failed: u64,
    /// The lifecycle record could not be written, or the publication not be removed, as P7 wants.
    pub files_failed: bool,
    /// The runtime ended before the host did: no callback was called any more, the files were taken back.
    pub cut_short: bool,
}

impl Ended {
    /// Failures that are kept by name.
    pub const KEPT: usize = 16;

    /// Whether everything went as it should: no callback failed, panicked or overran, and the files are in order (H4).
    /// What clients did, or did not read, never counts.
    #[must_use]
    pub const fn graceful(&self) -> bool {
        self.failed == 0 && !self.files_failed && !self.cut_short
    }
}

/// The failures of one incarnation, so far.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Ended>);

impl Failures {
    fn with<T>(&self, f: impl FnOnce(&mut Ended) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn add(&self, module_id: &str, callback: Callback, cause: Cause) {
        self.with(|ended| {
            ended.failed += 1;
            if ended.failures.len() < Ended::KEPT {
                ended.failures.push(Failure { module_id: module_id.into(), callback, cause });
            }
        });
    }

    pub(super) fn files_failed(&self) {
        self.with(|ended| ended.files_failed = true);
    }

    pub(super) fn report(&self, cut_short: bool) -> Ended {
        self.with(|ended| Ended { cut_short, ..ended.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h4_failures_are_counted_without_end_and_kept_by_name_up_to_a_number() {
        let failures = Failures::default();
        assert!(failures.report(false).graceful());
        for _ in 0..100 {
            failures.add("m", Callback::RouteGone, Cause::Panicked);
        }
        let ended = failures.report(false);
        assert!(!ended.graceful());
        assert_eq!((ended.failed, ended.failures.len()), (100, Ended::KEPT));
        assert_eq!(ended.failures[0].to_string(), "component m, route_gone: it panicked");
        assert!(!Failures::default().report(true).graceful(), "a host whose runtime died has not ended well");
    }
}
