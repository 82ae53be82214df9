//! A runtime on a file system that hangs, when told to: blocking work begins and does not come back.

use hostwire::Runtime;
use hostwire::core::time::Instant;
use hostwire::runtime::BlockingLost;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Context;

#[derive(Debug, Default)]
struct State {
    hangs: bool,
    begun: usize,
    inside: usize,
}

/// A runtime whose blocking work can be made to hang.
#[derive(Clone, Debug)]
pub struct Clogged<R> {
    inner: R,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl<R> Clogged<R> {
    /// It flows, for now.
    pub fn new(inner: R) -> Self {
        Self { inner, state: Arc::default() }
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on blocking work hangs, or no longer does.
    pub fn hang(&self, hangs: bool) {
        self.with(|state| state.hangs = hangs);
        self.state.1.notify_all();
    }

    /// How much blocking work has begun.
    #[must_use]
    pub fn begun(&self) -> usize {
        self.with(|state| state.begun)
    }

    /// How much of it is not over.
    #[must_use]
    pub fn inside(&self) -> usize {
        self.with(|state| state.inside)
    }
}

impl<R: Runtime> Runtime for Clogged<R> {
    type Io = R::Io;
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
        let own = Arc::clone(&self.state);
        self.inner.blocking(move || {
            let (state, changed) = &*own;
            let mut now = state.lock().unwrap_or_else(PoisonError::into_inner);
            now.begun += 1;
            now.inside += 1;
            while now.hangs {
                now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
            }
            drop(now);
            let done = work();
            state.lock().unwrap_or_else(PoisonError::into_inner).inside -= 1;
            done
        })
    }

    fn give_way(&self, cx: &mut Context<'_>) {
        self.inner.give_way(cx);
    }

    fn register(&self, fd: OwnedFd) -> io::Result<Self::Io> {
        self.inner.register(fd)
    }
}
