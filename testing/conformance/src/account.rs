//! Counting what a runtime holds: tasks, and registered descriptors; and what of it is about to go on.

use hostwire::Runtime;
use hostwire::core::time::Instant;
use hostwire::runtime::{BlockingLost, Direction, Io, Tried};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[derive(Debug, Default)]
struct Counts {
    tasks: AtomicUsize,
    spawned: AtomicUsize,
    ios: AtomicUsize,
    reads: AtomicUsize,
    writes: AtomicUsize,
    /// Tasks that were woken or are being polled, and blocking work that is waited for.
    busy: AtomicUsize,
}

/// A runtime that counts what it was given.
#[derive(Clone, Debug)]
pub struct Accounted<R> {
    inner: R,
    counts: Arc<Counts>,
}

/// Which count is meant.
type Which = fn(&Counts) -> &AtomicUsize;

/// One more for as long as it lives.
struct One<F: Fn(&Counts) -> &AtomicUsize>(Arc<Counts>, F);

impl<F: Fn(&Counts) -> &AtomicUsize> One<F> {
    fn new(counts: &Arc<Counts>, which: F) -> Self {
        which(counts).fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counts), which)
    }
}

impl<F: Fn(&Counts) -> &AtomicUsize> Drop for One<F> {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::SeqCst);
    }
}

impl<R: Runtime> Accounted<R> {
    /// Counts from zero.
    pub fn new(inner: R) -> Self {
        Self { inner, counts: Arc::default() }
    }

    /// Tasks that live.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.counts.tasks.load(Ordering::SeqCst)
    }

    /// Tasks that were ever spawned.
    #[must_use]
    pub fn spawned(&self) -> usize {
        self.counts.spawned.load(Ordering::SeqCst)
    }

    /// Registered descriptors that live.
    #[must_use]
    pub fn ios(&self) -> usize {
        self.counts.ios.load(Ordering::SeqCst)
    }

    /// Calls that were tried on descriptors, by direction: reads, writes.
    #[must_use]
    pub fn calls(&self) -> (usize, usize) {
        (self.counts.reads.load(Ordering::SeqCst), self.counts.writes.load(Ordering::SeqCst))
    }

    /// A moment for others, on the runtime's own clock.
    pub async fn pause(&self) {
        self.inner.sleep_until(self.inner.now() + Duration::from_millis(1)).await;
    }

    /// Waits until no task is about to go on and no blocking work is waited for, or for long: a clock that is moved before that outruns who
    /// has not been scheduled yet, on a machine that is busy.
    pub async fn settled(&self) {
        let mut quiet = 0;
        for _ in 0..200 {
            self.pause().await;
            quiet = if self.counts.busy.load(Ordering::SeqCst) == 0 { quiet + 1 } else { 0 };
            if quiet == 3 {
                return;
            }
        }
    }

    /// Lets others go on until `done`.
    ///
    /// # Panics
    /// If that does not come about.
    pub async fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        for _ in 0..20_000 {
            if done() {
                return;
            }
            self.pause().await;
        }
        panic!("never came: {what}");
    }

    /// Waits until every task has ended and every descriptor is closed.
    ///
    /// # Panics
    /// If one stays.
    pub async fn assert_nothing_left(&self) {
        for _ in 0..20_000 {
            if self.tasks() == 0 && self.ios() == 0 {
                return;
            }
            self.pause().await;
        }
        panic!("left: {} tasks, {} descriptors", self.tasks(), self.ios());
    }
}

impl<R: Runtime> Runtime for Accounted<R> {
    type Io = AccountedIo<R::Io>;
    type Sleep = R::Sleep;

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn sleep_until(&self, at: Instant) -> R::Sleep {
        self.inner.sleep_until(at)
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        let one = One::new(&self.counts, |counts| &counts.tasks);
        self.counts.spawned.fetch_add(1, Ordering::SeqCst);
        let watched = Watched::new(&self.counts, task);
        self.inner.spawn(async move {
            let _one = one;
            watched.await;
        });
    }

    fn blocking<T, F>(&self, work: F) -> impl Future<Output = Result<T, BlockingLost>> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let busy = One::new(&self.counts, |counts| &counts.busy);
        let done = self.inner.blocking(work);
        async move {
            let _busy = busy;
            done.await
        }
    }

    fn give_way(&self, cx: &mut Context<'_>) {
        // At once, and not when the runtime likes: between the two it would not count as about to go on, and a clock could outrun it.
        cx.waker().wake_by_ref();
    }

    fn register(&self, fd: OwnedFd) -> io::Result<Self::Io> {
        let one = One::new(&self.counts, (|counts| &counts.ios) as Which);
        Ok(AccountedIo { inner: self.inner.register(fd)?, one })
    }
}

/// Whether a task is about to go on; known until it ends.
struct Turn {
    counts: Arc<Counts>,
    /// Its own waker, and whether it was woken since its last poll began.
    state: Mutex<Option<(Waker, bool)>>,
}

impl Turn {
    fn state(&self) -> MutexGuard<'_, Option<(Waker, bool)>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, waker: Option<&Waker>) {
        let next = waker.map(|waker| (waker.clone(), false));
        let before = std::mem::replace(&mut *self.state(), next);
        if before.is_some_and(|(_, woken)| woken) {
            self.counts.busy.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        let waker = self.state().as_mut().map(|(waker, woken)| {
            if !std::mem::replace(woken, true) {
                self.counts.busy.fetch_add(1, Ordering::SeqCst);
            }
            waker.clone()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A task whose turns are counted.
struct Watched<F> {
    task: Pin<Box<F>>,
    turn: Arc<Turn>,
    /// Spawned, and not polled yet.
    fresh: Option<One<Which>>,
}

impl<F> Watched<F> {
    fn new(counts: &Arc<Counts>, task: F) -> Self {
        let turn = Turn { counts: Arc::clone(counts), state: Mutex::new(None) };
        let fresh = One::new(counts, (|counts| &counts.busy) as Which);
        Self { task: Box::pin(task), turn: Arc::new(turn), fresh: Some(fresh) }
    }
}

impl<F: Future<Output = ()>> Future for Watched<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let _polling = One::new(&this.turn.counts, |counts| &counts.busy);
        this.fresh = None;
        this.turn.set(Some(cx.waker()));
        let waker = Waker::from(Arc::clone(&this.turn));
        this.task.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

impl<F> Drop for Watched<F> {
    fn drop(&mut self) {
        self.turn.set(None);
    }
}

/// A descriptor that is counted while it lives.
pub struct AccountedIo<I> {
    inner: I,
    one: One<Which>,
}

impl<I> std::fmt::Debug for AccountedIo<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccountedIo").finish_non_exhaustive()
    }
}

impl<I: Io> AsFd for AccountedIo<I> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<I: Io> Io for AccountedIo<I> {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_read_ready(cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_write_ready(cx)
    }

    fn try_io<T>(&self, direction: Direction, call: impl FnOnce(BorrowedFd<'_>) -> Tried<T>) -> Tried<T> {
        self.inner.try_io(direction, |fd| {
            let calls = match direction {
                Direction::Read => &self.one.0.reads,
                Direction::Write => &self.one.0.writes,
            };
            calls.fetch_add(1, Ordering::SeqCst);
            call(fd)
        })
    }
}
