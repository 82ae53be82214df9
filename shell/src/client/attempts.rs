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
use hostwire_core::body::Body;
use hostwire_core::client::session::{Attempt, Retry, RetryPolicy, Verdict};
use hostwire_core::client::{self as core, CatalogFilter, StreamPoll};
use hostwire_core::control::RouteOpen;
use hostwire_core::outcome::{NotSentCode, Outcome, Terminal};
use hostwire_core::time::Instant;
use hostwire_core::wire::{Priority, RouteHandle};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// What is asked, as often as it takes; a routed request's body goes from attempt to attempt.
#[derive(Clone)]
pub(super) enum What {
    /// Boxed: it is large, and routed requests are moved around with the room for it.
    Open(Box<RouteOpen>),
    Catalog(CatalogFilter),
    /// Of the host behind this generation, the client's last: another incarnation is never asked for it (K4).
    Shutdown(Option<Arc<Shared>>),
    Routed {
        route: Route,
        binary: bool,
        priority: Priority,
        stream: bool,
    },
}

impl What {
    /// In the words of a span.
    const fn word(&self) -> &'static str {
        match self {
            Self::Open(_) => "route.open",
            Self::Catalog(_) => "catalog.list",
            Self::Shutdown(_) => "host.shutdown",
            Self::Routed { stream: false, .. } => "request",
            Self::Routed { stream: true, .. } => "stream",
        }
    }

    const fn kind(&self) -> Attempt {
        match self {
            Self::Open(_) => Attempt::RouteOpen,
            Self::Catalog(_) | Self::Shutdown(_) => Attempt::Control,
            Self::Routed { .. } => Attempt::Routed,
        }
    }

    /// Sends it on this generation.
    fn submit(&self, shared: &Arc<Shared>, body: Body, now: Instant, deadline: Instant) -> Ticket {
        match self {
            Self::Open(open) => shared.submit(false, body, |conn, _| conn.open_route(now, open, deadline)),
            Self::Catalog(filter) => {
                shared.submit(false, body, |conn, _| conn.catalog(now, filter.clone(), deadline))
            }
            Self::Shutdown(_) => shared.submit(false, body, |conn, _| conn.host_shutdown(now, deadline)),
            Self::Routed { route, binary, priority, stream } => {
                let (binary, priority, stream) = (*binary, *priority, *stream);
                let handle = route.handle();
                let ticket = shared.submit(stream, body, |conn, body| {
                    conn.request(now, handle, core::Request { body, binary, priority, stream, deadline })
                });
                ticket.on(handle)
            }
        }
    }
}

enum Phase {
    /// An attempt is under way.
    Trying(Ticket),
    /// The way to the next one: a pause, a fresh route, a generation.
    Between(Pin<Box<dyn Future<Output = Option<Ticket>> + Send>>),
    Done,
}

pub(super) struct Attempts {
    managed: Arc<Managed>,
    what: Option<What>,
    retry: Retry,
    /// Attempts that were admitted.
    made: u32,
    /// The answer that the next attempt was made for. It stands if there is none, or if time ran out before a byte of it left.
    last: Option<Box<Finished>>,
    phase: Phase,
    /// Items of a stream were handed over: it is not begun again.
    begun: bool,
    stop: OnceLock<Stop>,
    span: Span,
}

impl Attempts {
    pub(super) fn new(
        managed: Arc<Managed>,
        what: What,
        body: Body,
        policy: RetryPolicy,
        now: Instant,
        deadline: Instant,
    ) -> Self {
        let retry = Retry::new(policy, deadline);
        let span = Span::call(what.word());
        if let What::Routed { route, .. } = &what {
            span.on(|| route.handle());
        }
        let live;
        let shared = match &what {
            What::Routed { route, .. } => Some(route.shared()), // a route belongs to its generation, and dies with it (K1)
            What::Shutdown(last) => last.as_ref(),
            What::Open(_) | What::Catalog(_) => {
                live = managed.live();
                live.as_ref()
            }
        };
        let phase = match shared {
            Some(shared) => Phase::Trying(what.submit(shared, body, now, deadline)),
            // E4
            None if deadline <= now => {
                Phase::Trying(Ticket::settled(managed.unsent(NotSentCode::DeadlineExpired, Body::default())))
            }
            None if matches!(what, What::Shutdown(_)) => Phase::Trying(Ticket::settled(
                managed.unsent(NotSentCode::ConnectionRetired, Body::default()),
            )),
            None => Phase::Between(Box::pin(connect_and_try(Arc::clone(&managed), what.clone(), deadline))),
        };
        Self {
            managed,
            what: Some(what),
            retry,
            made: 0,
            last: None,
            phase,
            begun: false,
            stop: OnceLock::new(),
            span,
        }
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
                Phase::Between(_) => {
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
            Phase::Between(_) => self.poll_between(cx).map(|()| None),
            Phase::Done => Poll::Pending,
        }
    }

    fn judge(&mut self, finished: Finished) -> Option<Finished> {
        let stopped = self.stop.get().is_some_and(Stop::is_set);
        // O4: nothing but an `Error` is followed by another attempt; what is not judged costs no look at the clock.
        let failed = matches!(finished.outcome, Outcome::Terminal(Terminal::Error(_)));
        let verdict = match &self.what {
            Some(what) if failed && !self.begun && !stopped => {
                self.retry.judge(self.managed.now(), what.kind(), &finished.outcome)
            }
            Some(_) | None => Verdict::Return,
        };
        let deadline = self.retry.deadline();
        let (what, at) = match (verdict, &self.what) {
            (Verdict::Return, _) | (_, None) => return Some(self.settle(finished)),
            (Verdict::Again(at), Some(what)) => (what.clone(), Some(at)),
            (Verdict::Reopen, Some(what)) => (what.clone(), None),
        };
        let managed = Arc::clone(&self.managed);
        let (gone, body) = match &mut self.phase {
            Phase::Trying(ticket) => (ticket.route(), ticket.reclaim()),
            Phase::Between(_) | Phase::Done => (None, Body::default()),
        };
        let next: Pin<Box<dyn Future<Output = Option<Ticket>> + Send>> = match at {
            Some(at) => Box::pin(pause_and_try(managed, at, what, body, deadline)),
            None => Box::pin(reopen_and_try(what, gone, body, deadline)),
        };
        self.last = Some(Box::new(finished));
        self.phase = Phase::Between(next);
        None
    }

    /// O5: what was said before outlives an attempt for which there was no time.
    fn settle(&mut self, finished: Finished) -> Finished {
        let late = matches!(finished.outcome, Outcome::NotSent { code: NotSentCode::DeadlineExpired, .. });
        match self.last.take() {
            Some(last) if late => self.finish(*last),
            Some(_) | None => self.finish(finished),
        }
    }

    fn poll_between(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Phase::Between(next) = &mut self.phase else { return Poll::Ready(()) };
        let stopped = self.stop.get().is_some_and(|stop| stop.poll(cx));
        let ticket = if stopped {
            None
        } else {
            match next.as_mut().poll(cx) {
                Poll::Ready(ticket) => ticket,
                Poll::Pending => return Poll::Pending,
            }
        };
        let ticket = ticket.unwrap_or_else(|| {
            self.what = None;
            // Nothing ran, and nothing will: the last answer is the result.
            Ticket::settled(match self.last.take() {
                Some(last) => *last,
                None => self.managed.unsent(NotSentCode::CancelledUnsent, Body::default()), // X2
            })
        });
        if let Some(stop) = self.stop.get() {
            stop.aim(ticket.target());
        }
        self.phase = Phase::Trying(ticket);
        Poll::Ready(())
    }

    fn finish(&mut self, mut finished: Finished) -> Finished {
        finished.evidence.attempts = self.made;
        self.span.settled(&finished.outcome, finished.evidence.bytes_handed, self.made);
        if let (Outcome::NotSent { body, .. }, Phase::Trying(ticket)) =
            (&mut finished.outcome, &mut self.phase)
            && body.is_lent()
        {
            drop(std::mem::take(body));
            *body = ticket.reclaim(); // the caller's own
        }
        self.what = None;
        self.phase = Phase::Done;
        finished
    }
}

/// Only what has no body waits for a generation: a route has its own (K1), and so has a shutdown.
async fn connect_and_try(managed: Arc<Managed>, what: What, deadline: Instant) -> Option<Ticket> {
    Some(match managed.generation(deadline).await {
        Ok(shared) => what.submit(&shared, Body::default(), managed.now(), deadline),
        Err(code) => Ticket::settled(managed.unsent(code, Body::default())),
    })
}

async fn pause_and_try(
    managed: Arc<Managed>,
    at: Instant,
    what: What,
    body: Body,
    deadline: Instant,
) -> Option<Ticket> {
    managed.sleep(at).await;
    let shared = match &what {
        What::Routed { route, .. } => Arc::clone(route.shared()),
        What::Shutdown(last) => Arc::clone(last.as_ref()?),
        What::Open(_) | What::Catalog(_) => managed.generation(deadline).await.ok()?,
    };
    Some(what.submit(&shared, body, managed.now(), deadline))
}

/// AE5: one reopen and one resend.
async fn reopen_and_try(
    what: What,
    gone: Option<RouteHandle>,
    body: Body,
    deadline: Instant,
) -> Option<Ticket> {
    let What::Routed { route, .. } = &what else { return None };
    let shared = route.shared();
    route.reopen(gone?, deadline).await.then(|| what.submit(shared, body, shared.now(), deadline))
}
