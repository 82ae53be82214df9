//! One operation and its retries, all within one deadline: whatever is asked runs through here.
//!
//! The first attempt is made at once, when there is a generation. Only what proves that nothing ran is followed by another (O4), and only
//! while this is polled.

use super::call::Stop;
use super::managed::Managed;
use super::route::Route;
use super::shared::{Shared, Ticket};
use super::slot::Finished;
use crate::trace::Span;
use bytes::Bytes;
use hostwire_core::body::Body;
use hostwire_core::client::session::{Attempt, Retry, RetryPolicy, Verdict};
use hostwire_core::client::{self as core, CatalogFilter, StreamPoll};
use hostwire_core::control::RouteOpen;
use hostwire_core::outcome::NotSentCode;
use hostwire_core::time::Instant;
use hostwire_core::wire::{Priority, RouteHandle};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// What is asked, as often as it takes.
#[derive(Clone)]
pub(super) enum What {
    Open(RouteOpen),
    Catalog(CatalogFilter),
    Shutdown,
    Routed { route: Route, body: Bytes, binary: bool, priority: Priority, stream: bool },
}

impl What {
    /// In the words of a span.
    const fn word(&self) -> &'static str {
        match self {
            Self::Open(_) => "route.open",
            Self::Catalog(_) => "catalog.list",
            Self::Shutdown => "host.shutdown",
            Self::Routed { stream: false, .. } => "request",
            Self::Routed { stream: true, .. } => "stream",
        }
    }

    const fn kind(&self) -> Attempt {
        match self {
            Self::Open(_) => Attempt::RouteOpen,
            Self::Catalog(_) | Self::Shutdown => Attempt::Control,
            Self::Routed { .. } => Attempt::Routed,
        }
    }

    /// Sends it on this generation.
    fn submit(&self, shared: &Arc<Shared>, deadline: Instant) -> Ticket {
        match self {
            Self::Open(open) => shared.submit(false, |conn, now| conn.open_route(now, open, deadline)),
            Self::Catalog(filter) => {
                shared.submit(false, |conn, now| conn.catalog(now, filter.clone(), deadline))
            }
            Self::Shutdown => shared.submit(false, |conn, now| conn.host_shutdown(now, deadline)),
            Self::Routed { route, body, binary, priority, stream } => {
                let (binary, priority, stream) = (*binary, *priority, *stream);
                let (handle, body) = (route.handle(), Body::from(body.clone()));
                let ticket = shared.submit(stream, |conn, now| {
                    conn.request(now, handle, core::Request { body, binary, priority, stream, deadline })
                });
                ticket.on(handle)
            }
        }
    }

    fn into_body(self) -> Body {
        match self {
            Self::Routed { body, .. } => Body::from(body),
            Self::Open(_) | Self::Catalog(_) | Self::Shutdown => Body::default(),
        }
    }
}

enum Phase {
    /// An attempt is under way.
    Trying(Ticket),
    /// The way to the next one: a pause, a fresh route, a generation. What is reported if there is none is beside it.
    Between(Pin<Box<dyn Future<Output = Option<Ticket>> + Send>>, Option<Finished>),
    Done,
}

pub(super) struct Attempts {
    managed: Arc<Managed>,
    what: Option<What>,
    retry: Retry,
    /// Attempts that were admitted.
    made: u32,
    phase: Phase,
    /// Items of a stream were handed over: it is not begun again.
    begun: bool,
    stop: OnceLock<Stop>,
    span: Span,
}

impl Attempts {
    pub(super) fn new(managed: Arc<Managed>, what: What, policy: RetryPolicy, deadline: Instant) -> Self {
        let retry = Retry::new(policy, deadline);
        let span = Span::call(what.word());
        if let What::Routed { route, .. } = &what {
            span.on(|| route.handle());
        }
        // A route belongs to its generation, and dies with it (K1).
        let shared = if let What::Routed { route, .. } = &what {
            Some(Arc::clone(route.shared()))
        } else {
            managed.live()
        };
        let phase = match shared {
            Some(shared) => Phase::Trying(what.submit(&shared, deadline)),
            // E4
            None if deadline <= managed.now() => {
                Phase::Trying(Ticket::settled(managed.unsent(NotSentCode::DeadlineExpired, Body::default())))
            }
            None => {
                Phase::Between(Box::pin(connect_and_try(Arc::clone(&managed), what.clone(), deadline)), None)
            }
        };
        Self { managed, what: Some(what), retry, made: 0, phase, begun: false, stop: OnceLock::new(), span }
    }

    /// What stops it from elsewhere.
    pub(super) fn stop(&self) -> &Stop {
        self.stop.get_or_init(|| {
            let stop = Stop::default();
            if let Phase::Trying(ticket) = &self.phase {
                stop.aim(ticket.target());
            }
            stop
        })
    }

    pub(super) fn poll_item(&mut self, cx: &mut Context<'_>) -> StreamPoll {
        loop {
            match &mut self.phase {
                Phase::Trying(ticket) => {
                    let front = ticket.poll_item(cx);
                    self.begun |= matches!(front, StreamPoll::Item(_));
                    return front;
                }
                Phase::Between(..) => {
                    if self.poll_between(cx).is_pending() {
                        return StreamPoll::Pending;
                    }
                }
                Phase::Done => return StreamPoll::Ended,
            }
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Finished> {
        loop {
            match self.poll_end(cx) {
                Poll::Ready(Some(finished)) => return Poll::Ready(finished),
                Poll::Ready(None) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The result, or `None` when another attempt has begun.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Finished>> {
        match &mut self.phase {
            Phase::Trying(ticket) => {
                let admitted = ticket.target().is_some();
                let Poll::Ready(finished) = ticket.poll(cx) else { return Poll::Pending };
                self.made += u32::from(admitted);
                Poll::Ready(self.judge(finished))
            }
            Phase::Between(..) => self.poll_between(cx).map(|()| None),
            Phase::Done => Poll::Pending,
        }
    }

    fn judge(&mut self, finished: Finished) -> Option<Finished> {
        let now = self.managed.now();
        let stopped = self.stop.get().is_some_and(Stop::is_set);
        let verdict = match &self.what {
            Some(what) if !self.begun && !stopped => self.retry.judge(now, what.kind(), &finished.outcome),
            Some(_) | None => Verdict::Return,
        };
        let deadline = self.retry.deadline();
        let gone = if let Phase::Trying(ticket) = &self.phase { ticket.route() } else { None };
        let (what, at) = match (verdict, &self.what) {
            (Verdict::Return, _) | (_, None) => return Some(self.finish(finished)),
            (Verdict::Again(at), Some(what)) => (what.clone(), Some(at)),
            (Verdict::Reopen, Some(what)) => (what.clone(), None),
        };
        let managed = Arc::clone(&self.managed);
        let next: Pin<Box<dyn Future<Output = Option<Ticket>> + Send>> = match at {
            Some(at) => Box::pin(pause_and_try(managed, at, what, deadline)),
            None => Box::pin(reopen_and_try(what, gone, deadline)),
        };
        self.phase = Phase::Between(next, Some(finished));
        None
    }

    fn poll_between(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Phase::Between(next, last) = &mut self.phase else { return Poll::Ready(()) };
        let stopped = self.stop.get().is_some_and(|stop| stop.poll(cx));
        let ticket = if stopped {
            None
        } else {
            match next.as_mut().poll(cx) {
                Poll::Ready(ticket) => ticket,
                Poll::Pending => return Poll::Pending,
            }
        };
        let ticket = match (ticket, last.take()) {
            (Some(ticket), _) => ticket,
            // Nothing ran, and nothing will: the last answer is the result.
            (None, Some(last)) => {
                self.what = None;
                Ticket::settled(last)
            }
            (None, None) => {
                let body = self.what.take().map(What::into_body).unwrap_or_default();
                Ticket::settled(self.managed.unsent(NotSentCode::CancelledUnsent, body)) // X2
            }
        };
        if let Some(stop) = self.stop.get() {
            stop.aim(ticket.target());
        }
        self.phase = Phase::Trying(ticket);
        Poll::Ready(())
    }

    fn finish(&mut self, mut finished: Finished) -> Finished {
        finished.evidence.attempts = self.made;
        self.span.settled(&finished.outcome, finished.evidence.bytes_handed, self.made);
        // The caller's body is the only one again.
        self.what = None;
        self.phase = Phase::Done;
        finished
    }
}

async fn connect_and_try(managed: Arc<Managed>, what: What, deadline: Instant) -> Option<Ticket> {
    Some(match managed.generation(deadline).await {
        Ok(shared) => what.submit(&shared, deadline),
        Err(code) => Ticket::settled(managed.unsent(code, what.into_body())),
    })
}

async fn pause_and_try(managed: Arc<Managed>, at: Instant, what: What, deadline: Instant) -> Option<Ticket> {
    managed.sleep(at).await;
    let shared = match &what {
        What::Routed { route, .. } => Arc::clone(route.shared()),
        What::Open(_) | What::Catalog(_) | What::Shutdown => managed.generation(deadline).await.ok()?,
    };
    Some(what.submit(&shared, deadline))
}

/// AE5: one reopen and one resend.
async fn reopen_and_try(what: What, gone: Option<RouteHandle>, deadline: Instant) -> Option<Ticket> {
    let What::Routed { route, .. } = &what else { return None };
    route.reopen(gone?, deadline).await.then(|| what.submit(route.shared(), deadline))
}
