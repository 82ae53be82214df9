//! For users' tests: a clock that only moves when told, and sockets without a network.

use crate::runtime::{BlockingLost, Runtime};
use crate::sync::lock;
use hostwire_core::time::Instant;
use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub use crate::socket::pair;

/// A runtime whose clock is moved by hand: tasks and sockets are `R`'s own, time is the test's.
///
/// Clones share the clock.
///
/// ```
/// # fn demo<R: hostwire::Runtime>(runtime: R) {
/// use hostwire::{Runtime, testing::ManualClock};
/// use std::time::Duration;
///
/// let runtime = ManualClock::new(runtime);
/// let before = runtime.now();
/// runtime.advance(Duration::from_secs(30)); // every timer due by then ends
/// assert_eq!(runtime.now(), before + Duration::from_secs(30));
/// # }
/// ```
#[derive(Clone)]
pub struct ManualClock<R> {
    inner: R,
    clock: Arc<Mutex<Clock>>,
}

struct Clock {
    now: Instant,
    next: u64,
    sleepers: Vec<(u64, Instant, Waker)>,
}

impl<R: Runtime> ManualClock<R> {
    /// Starts at a fixed moment, an hour after the origin.
    #[must_use]
    pub fn new(inner: R) -> Self {
        let now = Instant::ZERO + Duration::from_secs(3_600);
        Self { inner, clock: Arc::new(Mutex::new(Clock { now, next: 0, sleepers: Vec::new() })) }
    }
}

impl<R> ManualClock<R> {
    fn clock(&self) -> MutexGuard<'_, Clock> {
        lock(&self.clock)
    }

    /// Moves the clock on and ends every timer that is due. Returns without waiting for what those wake.
    pub fn advance(&self, by: Duration) {
        let due: Vec<Waker> = {
            let mut clock = self.clock();
            clock.now = clock.now + by;
            let now = clock.now;
            clock.sleepers.extract_if(.., |(_, at, _)| *at <= now).map(|(_, _, waker)| waker).collect()
        };
        for waker in due {
            waker.wake();
        }
    }

    /// Moves the clock to the earliest timer, if there is one, and ends it. Returns whether there was one.
    pub fn advance_to_next(&self) -> bool {
        let by = {
            let clock = self.clock();
            clock.sleepers.iter().map(|(_, at, _)| at.saturating_since(clock.now)).min()
        };
        if let Some(by) = by {
            self.advance(by);
        }
        by.is_some()
    }

    /// Timers that are being waited for.
    #[must_use]
    pub fn timers(&self) -> usize {
        self.clock().sleepers.len()
    }

    /// The runtime underneath.
    pub const fn inner(&self) -> &R {
        &self.inner
    }
}

impl<R> fmt::Debug for ManualClock<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = self.clock();
        f.debug_struct("ManualClock")
            .field("now", &clock.now)
            .field("timers", &clock.sleepers.len())
            .finish_non_exhaustive()
    }
}

/// A timer of a [`ManualClock`].
pub struct ManualSleep {
    clock: Arc<Mutex<Clock>>,
    at: Instant,
    key: Option<u64>,
}

impl fmt::Debug for ManualSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualSleep").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut clock = lock(&this.clock);
        if this.at <= clock.now {
            return Poll::Ready(());
        }
        let key = *this.key.get_or_insert_with(|| {
            clock.next += 1;
            clock.next
        });
        clock.sleepers.retain(|(other, _, _)| *other != key);
        clock.sleepers.push((key, this.at, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            lock(&self.clock).sleepers.retain(|(other, _, _)| *other != key);
        }
    }
}

impl<R: Runtime> Runtime for ManualClock<R> {
    type Io = R::Io;
    type Sleep = ManualSleep;

    fn now(&self) -> Instant {
        self.clock().now
    }

    fn sleep_until(&self, at: Instant) -> ManualSleep {
        ManualSleep { clock: Arc::clone(&self.clock), at, key: None }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        self.inner.spawn(task);
    }

    fn blocking<T, F>(&self, work: F) -> impl Future<Output = Result<T, BlockingLost>> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.inner.blocking(work)
    }

    fn give_way(&self, cx: &mut Context<'_>) {
        self.inner.give_way(cx);
    }

    fn register(&self, fd: OwnedFd) -> io::Result<R::Io> {
        self.inner.register(fd)
    }
}
