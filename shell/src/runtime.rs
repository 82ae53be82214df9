//! What the library asks of an async runtime, and nothing more: a clock, timers, tasks, and readiness of descriptors.
//!
//! A runtime never sees a protocol byte: it says *when* a descriptor may be tried, and the calls on it are made here
//! ([`socket`](crate::socket)).

use hostwire_core::endpoint::WriteFailure;
use hostwire_core::time::Instant;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

/// An async runtime as a value: cheap to clone, usable from any thread.
///
/// None of the methods blocks. Futures that they return may be dropped at any point: a dropped timer is no timer, a dropped
/// [`blocking`](Runtime::blocking) future loses the answer, and a closure that has begun runs on.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// A registered descriptor.
    type Io: Io;
    /// A timer.
    type Sleep: Future<Output = ()> + Send + 'static;

    /// A monotonic reading, from one origin for the whole process ([`process_clock`] unless the runtime has its own).
    fn now(&self) -> Instant;

    /// Ends at `at`, or soon after; at once if that has passed.
    fn sleep_until(&self, at: Instant) -> Self::Sleep;

    /// Runs a future to its end, detached. A runtime that is shutting down may drop it unpolled.
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F);

    /// Runs a closure where blocking is allowed.
    ///
    /// The future resolves to [`BlockingLost`] if the closure panicked or the runtime ended before it ran.
    fn blocking<T, F>(&self, work: F) -> impl Future<Output = Result<T, BlockingLost>> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static;

    /// Has the task that is being polled polled again, behind others that have something to do. A task that has used its share
    /// calls it and returns `Pending`.
    ///
    /// Those whose sockets have become ready meanwhile are others too: a runtime that looks at its sockets only now and then should do
    /// so before it polls this task again. What stands here leaves that to chance.
    fn give_way(&self, cx: &mut Context<'_>) {
        cx.waker().wake_by_ref();
    }

    /// Registers a non-blocking descriptor; dropping the result closes it.
    ///
    /// # Errors
    /// The descriptor cannot be registered, for instance because the runtime has ended.
    fn register(&self, fd: OwnedFd) -> io::Result<Self::Io>;
}

/// A registered descriptor: readiness to wait for, and calls that keep it true.
///
/// The contract that the driver relies on: when a call through [`try_io`](Io::try_io) ends with `exhausted`, a later
/// `poll_*_ready` wakes as soon as the kernel has something again, however the two race. `poll_*_ready` may be ready for
/// nothing; it never sleeps through something.
pub trait Io: AsFd + Send + Sync + 'static {
    /// What a failing write on such a descriptor may have done. Plain sockets accept nothing in a call that fails; a layer that
    /// buffers or encrypts says [`WriteFailure::Indeterminate`].
    const WRITE_FAILURE: WriteFailure = WriteFailure::NothingAccepted;

    /// Ready when a read may get something, or at the end of input. One waiting task per direction.
    ///
    /// # Errors
    /// The runtime has ended.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when a write may be taken.
    ///
    /// # Errors
    /// The runtime has ended.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Makes one call, and forgets the direction's readiness if the call used it up. May answer `WouldBlock` without
    /// calling, if it knows better.
    fn try_io<T>(&self, direction: Direction, call: impl FnOnce(BorrowedFd<'_>) -> Tried<T>) -> Tried<T>;
}

/// Which readiness a call depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Input: reading, accepting.
    Read,
    /// Output: writing, connecting.
    Write,
}

/// What one call on a descriptor came to.
#[derive(Debug)]
pub struct Tried<T> {
    /// Its result.
    pub result: io::Result<T>,
    /// Whether that used the readiness up: it would have blocked, or moved less than it could have.
    pub exhausted: bool,
}

impl<T> Tried<T> {
    /// A call that would have blocked.
    #[must_use]
    pub fn would_block() -> Self {
        Self { result: Err(io::ErrorKind::WouldBlock.into()), exhausted: true }
    }

    /// A call that either succeeded, failed, or would have blocked.
    #[must_use]
    pub fn whole(result: io::Result<T>) -> Self {
        let exhausted = result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        Self { result, exhausted }
    }
}

/// The answer of blocking work is lost: it panicked, or its runtime ended before it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("blocking work was lost")]
pub struct BlockingLost;

static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();

fn origin() -> std::time::Instant {
    // An hour before the first reading, so that moments shortly before it exist as well.
    *ORIGIN.get_or_init(|| {
        let now = std::time::Instant::now();
        now.checked_sub(Duration::from_secs(3_600)).unwrap_or(now)
    })
}

/// The process's monotonic clock as the core's time: what a [`Runtime`] without a clock of its own returns from `now`.
#[must_use]
pub fn process_clock() -> Instant {
    from_std(std::time::Instant::now())
}

/// The core's name for a moment of the process's clock.
#[must_use]
pub fn from_std(at: std::time::Instant) -> Instant {
    Instant::ZERO + at.saturating_duration_since(origin())
}

/// The process clock's name for a moment of the core's, at most a century away.
#[must_use]
pub fn to_std(at: Instant) -> std::time::Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    let since = at.saturating_since(Instant::ZERO).min(CENTURY);
    origin().checked_add(since).unwrap_or_else(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_names_of_a_moment_agree() {
        let now = process_clock();
        assert_eq!(from_std(to_std(now)), now);
        let later = now + Duration::from_secs(30);
        assert_eq!(to_std(later).duration_since(to_std(now)), Duration::from_secs(30));
        assert!(to_std(Instant::FAR_FUTURE) > to_std(later));
        assert!(now.saturating_since(Instant::ZERO) >= Duration::from_secs(60));
    }

    #[test]
    fn only_a_call_that_would_block_is_exhausted_as_a_whole() {
        assert!(!Tried::whole(Ok(())).exhausted);
        assert!(!Tried::<()>::whole(Err(io::ErrorKind::BrokenPipe.into())).exhausted);
        assert!(Tried::<()>::whole(Err(io::ErrorKind::WouldBlock.into())).exhausted);
        assert!(Tried::<()>::would_block().exhausted);
    }
}
