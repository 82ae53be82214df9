//! hostwire on tokio: a [`Runtime`] and nothing else. Everything that a program uses is in [`hostwire`], re-exported here.
//!
//! ```
//! use hostwire_tokio::hostwire::client::{Client, ClientConfig};
//! use hostwire_tokio::hostwire::component::{Component, Handled, Manifest, Reply, RequestContext, Role};
//! use hostwire_tokio::hostwire::core::control::{Identity, RouteOpen, Target};
//! use hostwire_tokio::hostwire::discovery::{Environment, Location, Place};
//! use hostwire_tokio::{Tokio, hostwire::Host, hostwire::HostConfig};
//! use std::sync::Arc;
//!
//! struct Echo;
//!
//! impl Component for Echo {
//!     fn manifest(&self) -> Manifest {
//!         Manifest::new("echo", "1.0.0", Role::ToolProvider)
//!     }
//!
//!     fn handle(self: Arc<Self>, mut cx: RequestContext) -> Handled {
//!         Reply::text(cx.take_body()).into()
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let runtime = Tokio::current()?;
//!     # let dir = tempfile::tempdir()?;
//!     # let place = Place::DataDir(dir.path().to_owned());
//!     # #[cfg(any())]
//!     let place = Place::Default;
//!     let location = Location::resolve(&Environment::from_process(), &place)?;
//!     let config = HostConfig::new(location, "example/1.0.0");
//!     let host = Host::start(runtime.clone(), config, vec![Arc::new(Echo)]).await?;
//!
//!     let client = Client::connect(&runtime, &ClientConfig { place, ..ClientConfig::default() }).await?;
//!     let target = Target::new("tool_provider", "echo")?;
//!     let route = client.open(RouteOpen::new(target, Identity::new("/project", "example", "session-1")?)).await?;
//!     assert_eq!(route.request("hello").await?.body.as_slice(), b"hello");
//!
//!     host.shutdown();
//!     assert!(host.wait().await.graceful());
//!     Ok(())
//! }
//! ```
//!
//! More, one page each, in this crate's `examples`: `minimal_host`, `outcomes`, `streaming`, `confirmed_cancel`, `fenced_replay`,
//! `reservations`, `graceful_shutdown`, `testing_a_component`.

pub use hostwire;
pub use hostwire::core;

use hostwire::core::time::Instant;
use hostwire::runtime::{BlockingLost, Direction, Io, Runtime, Tried, process_clock, to_std};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, TryCurrentError};

/// A tokio runtime, of either flavor, with its I/O and time drivers enabled.
#[derive(Clone, Debug)]
pub struct Tokio(Handle);

impl Tokio {
    /// The runtime that this is called in.
    ///
    /// # Errors
    /// Called outside a runtime.
    pub fn current() -> Result<Self, TryCurrentError> {
        Handle::try_current().map(Self)
    }

    /// The runtime of a handle.
    #[must_use]
    pub const fn new(handle: Handle) -> Self {
        Self(handle)
    }
}

impl Runtime for Tokio {
    type Io = TokioIo;
    type Sleep = tokio::time::Sleep;

    fn now(&self) -> Instant {
        process_clock()
    }

    fn sleep_until(&self, at: Instant) -> Self::Sleep {
        let _inside = self.0.enter();
        tokio::time::sleep_until(to_std(at).into())
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        drop(self.0.spawn(task));
    }

    fn blocking<T, F>(&self, work: F) -> impl Future<Output = Result<T, BlockingLost>> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let task = self.0.spawn_blocking(work);
        async move { task.await.map_err(|_| BlockingLost) }
    }

    fn give_way(&self, cx: &mut Context<'_>) {
        // Woken at once it would be polled again up to 60 times before the scheduler looks at its sockets. `yield_now` wakes what has
        // called it only after that look, and needs to be polled for it only once.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
    }

    fn register(&self, fd: OwnedFd) -> io::Result<TokioIo> {
        let _inside = self.0.enter();
        #[allow(
            deprecated,
            reason = "unsound only for types that change their descriptor, which `OwnedFd` does not; its successor is unsafe to \
                      call. A safe constructor for I/O-safe types would let this go."
        )]
        let registered = AsyncFd::new(fd)?;
        Ok(TokioIo(registered))
    }
}

/// A descriptor registered with tokio.
#[derive(Debug)]
pub struct TokioIo(AsyncFd<OwnedFd>);

impl AsFd for TokioIo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}

impl Io for TokioIo {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read_ready(cx).map_ok(drop)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_write_ready(cx).map_ok(drop)
    }

    fn try_io<T>(&self, direction: Direction, call: impl FnOnce(BorrowedFd<'_>) -> Tried<T>) -> Tried<T> {
        let interest = match direction {
            Direction::Read => Interest::READABLE,
            Direction::Write => Interest::WRITABLE,
        };
        let mut tried = None;
        // Readiness is cleared on `WouldBlock` alone, and only if no newer event has come since the call began. So a call that has
        // used it up says so in that way, and its result takes the side door.
        let _ = self.0.try_io(interest, |fd| {
            let outcome = call(fd.as_fd());
            let exhausted = outcome.exhausted;
            tried = Some(outcome);
            if exhausted { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        tried.unwrap_or_else(Tried::would_block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostwire::socket::{pair, send_segments};
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// On one thread nothing but the order of the scheduler decides.
    #[tokio::test]
    async fn a_task_that_gives_way_is_polled_behind_one_whose_socket_has_become_ready() {
        let runtime = Tokio::current().expect("a runtime");
        let (ours, theirs) = pair().expect("a pair");
        let io = runtime.register(ours).expect("registered");
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        let hog = runtime.clone();
        runtime.spawn(poll_fn(move |cx| {
            if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                send_segments(theirs.as_fd(), &[b"x"], 1).result.expect("sent");
            }
            hog.give_way(cx);
            Poll::<()>::Pending
        }));
        poll_fn(|cx| io.poll_read_ready(cx)).await.expect("readiness");
        assert_eq!(polls.load(Ordering::SeqCst), 1);
    }
}
