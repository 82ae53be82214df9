//! hostwire on smol: a [`Runtime`] and nothing else. Everything that a program uses is in [`hostwire`], re-exported here.
//!
//! ```
//! use hostwire_smol::{Smol, hostwire::Runtime};
//! use std::sync::Arc;
//!
//! let executor = Arc::new(async_executor::Executor::new());
//! let runtime = Smol::new(&executor); // the program runs the executor, here and on as many threads as it likes
//! assert!(runtime.now() <= runtime.now());
//! ```
//!
//! # What is awaited
//!
//! The library awaits three things of others, and each may be dropped at any poll: [`Timer`], whose drop removes it;
//! [`Async::poll_readable`] and [`Async::poll_writable`], which hold nothing between polls; and the task of [`blocking::unblock`], whose
//! drop leaves work that has begun to its end. All else that a hostwire future waits for is hostwire's own.

pub use hostwire;
pub use hostwire::core;

use async_executor::Executor;
use async_io::{Async, Timer};
use hostwire::core::time::Instant;
use hostwire::runtime::{BlockingLost, Direction, Io, Runtime, Tried, process_clock, to_std};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

/// smol's reactor and blocking pool, with an executor that the program runs.
///
/// It does not keep the executor alive, and nor do the tasks on it: when the program drops it, they are dropped, as with any other
/// runtime's end. From then on what is spawned is dropped unpolled.
#[derive(Clone, Debug)]
pub struct Smol(Weak<Executor<'static>>);

impl Smol {
    /// Spawns on this executor.
    #[must_use]
    pub fn new(executor: &Arc<Executor<'static>>) -> Self {
        Self(Arc::downgrade(executor))
    }
}

impl Runtime for Smol {
    type Io = SmolIo;
    type Sleep = SmolSleep;

    fn now(&self) -> Instant {
        process_clock()
    }

    fn sleep_until(&self, at: Instant) -> SmolSleep {
        SmolSleep(Timer::at(to_std(at)))
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        if let Some(executor) = self.0.upgrade() {
            executor.spawn(task).detach();
        }
    }

    fn blocking<T, F>(&self, work: F) -> impl Future<Output = Result<T, BlockingLost>> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let task = blocking::unblock(move || catch_unwind(AssertUnwindSafe(work)));
        async move { task.await.map_err(|_| BlockingLost) }
    }

    fn register(&self, fd: OwnedFd) -> io::Result<SmolIo> {
        Ok(SmolIo(Async::new_nonblocking(fd)?))
    }
}

/// A timer of smol's reactor.
#[derive(Debug)]
pub struct SmolSleep(Timer);

impl Future for SmolSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

/// A descriptor registered with smol's reactor.
#[derive(Debug)]
pub struct SmolIo(Async<OwnedFd>);

impl AsFd for SmolIo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}

impl Io for SmolIo {
    // The reactor arms a descriptor when it is polled, and asks the kernel for its state, not for a change of it: whatever was there
    // before wakes as well. So there is no readiness to keep, and `try_io` is the call alone.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_readable(cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_writable(cx)
    }

    fn try_io<T>(&self, _direction: Direction, call: impl FnOnce(BorrowedFd<'_>) -> Tried<T>) -> Tried<T> {
        call(self.0.get_ref().as_fd())
    }
}
