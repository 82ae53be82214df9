//! What output costs, counted and not timed: calls on the descriptors, and hand-overs to the reader.

use crate::chaos::run;
use crate::fake::Fake;
use crate::on_both_runtimes;
use hostwire::Runtime;
use hostwire::core::child::Cause;
use hostwire::core::time::Instant;
use hostwire::process::{Extras, Session};
use hostwire::runtime::{BlockingLost, Direction, Io, Tried};
use rustix::io::Errno;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// A runtime whose readers' calls are counted.
#[derive(Clone)]
struct Counting<R> {
    inner: R,
    reads: Arc<AtomicUsize>,
}

struct CountedIo<I> {
    inner: I,
    reads: Arc<AtomicUsize>,
}

impl<R: Runtime> Runtime for Counting<R> {
    type Io = CountedIo<R::Io>;
    type Sleep = R::Sleep;

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn sleep_until(&self, at: Instant) -> Self::Sleep {
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

    fn register(&self, fd: OwnedFd) -> io::Result<Self::Io> {
        Ok(CountedIo { inner: self.inner.register(fd)?, reads: Arc::clone(&self.reads) })
    }
}

impl<I: AsFd> AsFd for CountedIo<I> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<I: Io> Io for CountedIo<I> {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_read_ready(cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_write_ready(cx)
    }

    fn try_io<T>(&self, direction: Direction, call: impl FnOnce(BorrowedFd<'_>) -> Tried<T>) -> Tried<T> {
        self.inner.try_io(direction, |fd| {
            self.reads.fetch_add(usize::from(direction == Direction::Read), Ordering::SeqCst);
            call(fd)
        })
    }
}

/// Writes until the pipe is full; how much that was.
fn fill(pipe: &OwnedFd) -> usize {
    let mut written = 0;
    loop {
        match rustix::io::write(pipe, &[b'x'; 1 << 16]) {
            Ok(count) => written += count,
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                return written;
            }
        }
    }
}

on_both_runtimes! {
    /// However fast a child writes, its pipe is full at worst: that much is one read, one look for more, and one hand-over.
    async fn a_full_pipe_is_one_read_and_one_hand_over(bench) {
        const ROUNDS: usize = 16;
        let reads = Arc::new(AtomicUsize::new(0));
        let counting = Counting { inner: bench.clone(), reads: Arc::clone(&reads) };
        let (spawned, child_ends) = Fake::default().spawned();
        let session = Session::adopt(&counting, spawned, run(), None, Extras::default()).unwrap();
        bench.pause().await;
        let before = reads.load(Ordering::SeqCst);
        for _ in 0..ROUNDS {
            // Nobody reads meanwhile: its reader is a task of this thread.
            let written = fill(&child_ends[0]);
            let (_, bytes) = session.read().await.unwrap();
            assert_eq!(bytes.len(), written);
        }
        bench.pause().await;
        let counted = reads.load(Ordering::SeqCst) - before;
        assert!(counted <= 3 * ROUNDS, "{counted} reads for {ROUNDS} full pipes");
        session.close(Cause::Cancelled);
        drop(child_ends);
        assert!(session.ended().await.verdict().is_completed());
    }
}
