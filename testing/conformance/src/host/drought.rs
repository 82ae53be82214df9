//! A runtime whose listeners find no descriptors left, when told to.

use hostwire::Runtime;
use hostwire::core::endpoint::WriteFailure;
use hostwire::core::time::Instant;
use hostwire::runtime::{BlockingLost, Direction, Io, Tried};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

#[derive(Debug, Default)]
struct Flags {
    dry: AtomicBool,
    failures: AtomicUsize,
}

/// A runtime in which accepting can be made to fail with `EMFILE`.
#[derive(Clone, Debug)]
pub struct Drought<R> {
    inner: R,
    flags: Arc<Flags>,
}

impl<R> Drought<R> {
    /// Plenty, for now.
    pub fn new(inner: R) -> Self {
        Self { inner, flags: Arc::default() }
    }

    /// From now on accepting fails.
    pub fn begin(&self) {
        self.flags.dry.store(true, Ordering::SeqCst);
    }

    /// There are descriptors again.
    pub fn end(&self) {
        self.flags.dry.store(false, Ordering::SeqCst);
    }

    /// Accepts that have failed.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.flags.failures.load(Ordering::SeqCst)
    }
}

/// A descriptor of such a runtime.
#[derive(Debug)]
pub struct DroughtIo<I> {
    inner: I,
    flags: Arc<Flags>,
    listens: bool,
}

impl<R: Runtime> Runtime for Drought<R> {
    type Io = DroughtIo<R::Io>;
    type Sleep = R::Sleep;

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn sleep_until(&self, at: Instant) -> R::Sleep {
        self.inner.sleep_until(at)
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

    fn register(&self, fd: OwnedFd) -> io::Result<Self::Io> {
        let listens = rustix::net::sockopt::socket_acceptconn(&fd).unwrap_or(false);
        Ok(DroughtIo { inner: self.inner.register(fd)?, flags: Arc::clone(&self.flags), listens })
    }
}

impl<I: Io> AsFd for DroughtIo<I> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<I: Io> Io for DroughtIo<I> {
    const WRITE_FAILURE: WriteFailure = I::WRITE_FAILURE;

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_read_ready(cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_write_ready(cx)
    }

    fn try_io<T>(&self, direction: Direction, call: impl FnOnce(BorrowedFd<'_>) -> Tried<T>) -> Tried<T> {
        if !self.listens || !self.flags.dry.load(Ordering::SeqCst) {
            return self.inner.try_io(direction, call);
        }
        // Only what is there to be accepted can fail.
        let mut fds = [rustix::event::PollFd::new(&self.inner, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())) {
            Ok(0) => self.inner.try_io(direction, call),
            _ => {
                self.flags.failures.fetch_add(1, Ordering::SeqCst);
                Tried { result: Err(rustix::io::Errno::MFILE.into()), exhausted: false }
            }
        }
    }
}
