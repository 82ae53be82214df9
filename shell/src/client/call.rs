//! A unary request under way.

use super::request::Request;
use super::result::{CallError, Evidence, Failure, Reply};
use super::route::Route;
use super::shared::{Shared, Ticket};
use super::slot::Finished;
use hostwire_core::client::{self as core, OpId};
use hostwire_core::outcome::{Outcome, Terminal};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
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
/// Polled again after its end it stays pending.
#[must_use = "dropping a call cancels it"]
pub struct Call {
    /// Until it has its result: from then on it keeps nothing alive.
    route: Option<Route>,
    ticket: Ticket,
}

impl Call {
    pub(super) fn new(route: Route, request: Request) -> Self {
        let Request { body, binary, priority, patience } = request;
        let (handle, default) = (route.handle(), route.client().timeouts().request);
        let ticket = route.shared().submit(false, |conn, now| {
            let deadline = patience.deadline(now, default);
            conn.request(now, handle, core::Request { body, binary, priority, stream: false, deadline })
        });
        Self { route: Some(route), ticket }
    }

    /// Stops it now: the future then resolves to `not_sent` or `outcome_unknown`, or to the answer if that is there already (X5).
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// Asks the host to stop it, and waits for proof for at most `time`, which replaces the request's own deadline (X4).
    pub fn cancel_confirmed(&self, time: Duration) {
        self.canceller().cancel_confirmed(time);
    }

    /// A handle that stops it from elsewhere, while this is being awaited.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller::new(
            self.route.as_ref().and_then(|route| Some((Arc::clone(route.shared()), self.ticket.op?))),
        )
    }
}

impl Future for Call {
    type Output = Result<Reply, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.route.is_none() {
            return Poll::Pending;
        }
        let Poll::Ready(finished) = self.ticket.slot.poll(cx) else { return Poll::Pending };
        self.route = None;
        let Finished { outcome, evidence, .. } = finished;
        Poll::Ready(if let Outcome::Terminal(Terminal::Response { binary, body }) = outcome {
            Ok(Reply { binary, body, evidence })
        } else {
            Err(failure(outcome, evidence))
        })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let (Some(route), Some(_)) = (&self.route, self.ticket.op) {
            route.shared().abandon(&self.ticket.slot);
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("route", &self.route).finish_non_exhaustive()
    }
}

/// Stops one request from elsewhere. Cheap to clone; dropping it does nothing, and it keeps no connection alive.
#[derive(Clone, Debug)]
pub struct Canceller {
    /// None for a request that was refused, or had its result before this was made.
    target: Option<(Arc<Shared>, OpId)>,
}

impl Canceller {
    pub(super) const fn new(target: Option<(Arc<Shared>, OpId)>) -> Self {
        Self { target }
    }

    /// As [`Call::cancel`]. After the request's end it does nothing (X5).
    pub fn cancel(&self) {
        if let Some((shared, op)) = &self.target {
            shared.command(|conn, now| {
                conn.cancel(now, *op);
            });
        }
    }

    /// As [`Call::cancel_confirmed`].
    pub fn cancel_confirmed(&self, time: Duration) {
        if let Some((shared, op)) = &self.target {
            shared.command(|conn, now| {
                conn.confirm_cancel(now, *op, now + time);
            });
        }
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
