//! A unary request under way.

use super::attempts::{Attempts, What};
use super::request::Request;
use super::result::{CallError, Evidence, Failure, Reply};
use super::route::Route;
use super::shared::Shared;
use super::slot::Finished;
use crate::sync::lock;
use atomic_waker::AtomicWaker;
use hostwire_core::client::OpId;
use hostwire_core::outcome::{Outcome, Terminal};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// A unary request, admitted already: a future of its answer.
///
/// **Cancel safety.** Polling it, or not, loses nothing; it can be awaited in `select!` and timeouts again and again.
///
/// **Drop.** Dropping it cancels the request: what has not begun to leave never leaves (`not_sent`); behind what may have left goes a
/// best-effort `Cancel` (X2, X3), and whether the request was carried out stays unknown. A frame that has begun is finished
/// whatever happens to this future: other requests on the connection never see half of it. Dropping takes no lock, waits for
/// nothing, and works outside a runtime and on any thread.
///
/// **Retries.** While it is polled, it sends the request again where that is proved to be safe (O4): once on a fresh route after
/// `unknown_channel`, and with backoff after `server_busy`; all within its one deadline, each under a new correlation.
///
/// Polled again after its end it stays pending.
#[must_use = "dropping a call cancels it"]
pub struct Call {
    attempts: Attempts,
}

/// The attempts of a request on a route.
pub(super) fn routed(route: Route, request: Request, stream: bool) -> Attempts {
    let Request { body, binary, priority, patience } = request;
    let client = route.client();
    let now = client.managed().now();
    let deadline = patience.deadline(now, client.timeouts().request);
    Attempts::new(What::Routed { route, binary, priority, stream }, body, now, deadline)
}

impl Call {
    pub(super) fn new(route: Route, request: Request) -> Self {
        Self { attempts: routed(route, request, false) }
    }

    /// Stops it now: the future then resolves to `not_sent` or `outcome_unknown`, or to the answer if that is there already (X5).
    pub fn cancel(&self) {
        self.attempts.stop().cancel();
    }

    /// Asks the host to stop it, and waits for proof for at most `time`, which replaces the request's own deadline (X4).
    pub fn cancel_confirmed(&self, time: Duration) {
        self.attempts.stop().cancel_confirmed(time);
    }

    /// A handle that stops it from elsewhere, while this is being awaited.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { stop: self.attempts.stop().clone() }
    }
}

impl Future for Call {
    type Output = Result<Reply, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(finished) = self.attempts.poll(cx) else { return Poll::Pending };
        let Finished { outcome, evidence, .. } = finished;
        Poll::Ready(if let Outcome::Terminal(Terminal::Response { binary, body }) = outcome {
            Ok(Reply { binary, body, evidence })
        } else {
            Err(failure(outcome, evidence))
        })
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// Where to stop a request: it follows the attempts.
#[derive(Clone, Default)]
pub(super) struct Stop(Arc<StopState>);

#[derive(Default)]
struct StopState {
    set: AtomicBool,
    waker: AtomicWaker,
    target: Mutex<Option<(Arc<Shared>, OpId)>>,
}

impl Stop {
    /// The attempt that is under way.
    pub(super) fn aim(&self, target: Option<&(Arc<Shared>, OpId)>) {
        *lock(&self.0.target) = target.cloned();
        if self.is_set() {
            self.cancel(); // it was set in between
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    /// Whether it is set; wakes when it is.
    pub(super) fn poll(&self, cx: &Context<'_>) -> bool {
        self.0.waker.register(cx.waker());
        self.is_set()
    }

    fn target(&self) -> Option<(Arc<Shared>, OpId)> {
        self.0.set.store(true, Ordering::Release);
        self.0.waker.wake();
        lock(&self.0.target).clone()
    }

    pub(super) fn cancel(&self) {
        if let Some((shared, op)) = self.target() {
            shared.command(|conn, now| {
                conn.cancel(now, op);
            });
        }
    }

    pub(super) fn cancel_confirmed(&self, time: Duration) {
        if let Some((shared, op)) = self.target() {
            shared.command(|conn, now| {
                conn.confirm_cancel(now, op, now + time);
            });
        }
    }
}

/// Stops one request from elsewhere. Cheap to clone; dropping it does nothing, and it keeps no connection alive.
#[derive(Clone)]
pub struct Canceller {
    stop: Stop,
}

impl Canceller {
    pub(super) const fn new(stop: Stop) -> Self {
        Self { stop }
    }

    /// As [`Call::cancel`]. After the request's end it does nothing (X5).
    pub fn cancel(&self) {
        self.stop.cancel();
    }

    /// As [`Call::cancel_confirmed`].
    pub fn cancel_confirmed(&self, time: Duration) {
        self.stop.cancel_confirmed(time);
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").field("set", &self.stop.is_set()).finish()
    }
}

/// The error of an outcome that is not the one asked for.
pub(super) fn failure(outcome: Outcome, evidence: Evidence) -> CallError {
    use hostwire_core::outcome::LocalCode;
    match outcome {
        Outcome::NotSent { code, body } => CallError::NotSent { code, body, evidence },
        Outcome::Unknown { code } => CallError::Unknown { code, evidence },
        Outcome::Terminal(Terminal::Error(error)) => {
            CallError::Failed { failure: Failure::Host(error), evidence }
        }
        Outcome::Terminal(Terminal::Local(code)) => {
            CallError::Failed { failure: Failure::Local(code), evidence }
        }
        // The core answers a request with its own kind of terminal only (F6, F8).
        Outcome::Terminal(Terminal::StreamEnd { .. }) => {
            CallError::Failed { failure: Failure::Local(LocalCode::UnexpectedStream), evidence }
        }
        Outcome::Terminal(
            Terminal::Response { .. }
            | Terminal::RouteOpened(_)
            | Terminal::Catalog(_)
            | Terminal::ShutdownCommitted,
        ) => CallError::Failed { failure: Failure::Local(LocalCode::UnexpectedResponse), evidence },
    }
}
