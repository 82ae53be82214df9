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
use hostwire_core::client::session::{Attempt, Retry, Verdict};
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
    Control(Arc<Managed>, Operation),
    Routed { route: Route, binary: bool, priority: Priority, stream: bool },
}

/// What is asked of the host itself.
#[derive(Clone)]
pub(super) enum Operation {
    /// Boxed: it is large, and routed requests are moved around with the room for it.
    Open(Box<RouteOpen>),
    Catalog(CatalogFilter),
    /// Of the host behind this generation, the client's last: another incarnation is never asked for it (K4).
    Shutdown(Option<Arc<Shared>>),
}

impl What {
    /// In the words of a span.
    const fn word(&self) -> &'static str {
        match self {
            Self::Control(_, Operation::Open(_)) => "route.open",
            Self::Control(_, Operation::Catalog(_)) => "catalog.list",
            Self::Control(_, Operation::Shutdown(_)) => "host.shutdown",
            Self::Routed { stream: false, .. } => "request",
            Self::Routed { stream: true, .. } => "stream",
        }
    }

    const fn kind(&self) -> Attempt {
        match self {
            Self::Control(_, Operation::Open(_)) => Attempt::RouteOpen,
            Self::Control(_, Operation::Catalog(_) | Operation::Shutdown(_)) => Attempt::Control,
            Self::Routed { .. } => Attempt::Routed,
        }
    }

    fn managed(&self) -> &Arc<Managed> {
        match self {
            Self::Control(managed, _) => managed,
            Self::Routed { route, .. } => route.client().managed(),
        }
    }

    /// Sends it on this generation.
    fn submit(&self, shared: &Arc<Shared>, body: Body, now: Instant, deadline: Instant) -> Ticket {
        match self {
            Self::Control(_, operation) => shared.submit(false, None, body, |conn, _| match operation {
                Operation::Open(open) => conn.open_route(now, open, deadline),
                Operation::Catalog(filter) => conn.catalog(now, filter.clone(), deadline),
                Operation::Shutdown(_) => conn.host_shutdown(now, deadline),
            }),
            Self::Routed { route, binary, priority, stream } => {
                let (binary, priority, stream) = (*binary, *priority, *stream);
                let handle = route.handle();
                shared.submit(stream, Some(handle), body, |conn, body| {
                    conn.request(now, handle, core::Request { body, binary, priority, stream, deadline })
                })
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

/// What another attempt was made for.
struct Again {
    retry: Retry,
    /// The answer before it. It stands if there is none after it, or if time ran out before a byte of the attempt left.
    last: Option<Finished>,
}

pub(super) struct Attempts {
    /// Until the result is handed over: from then on nothing is kept alive.
    what: Option<What>,
    deadline: Instant,
    /// Attempts that were admitted.
    made: u32,
    /// Items of a stream were handed over: it is not begun again.
    begun: bool,
    phase: Phase,
    /// From the first answer on that might be followed by another attempt.
    again: Option<Box<Again>>,
    stop: OnceLock<Stop>,
    span: Span,
}

impl Attempts {
    pub(super) fn new(what: What, body: Body, now: Instant, deadline: Instant) -> Self {
        let span = Span::call(what.word());
        if let What::Routed { route, .. } = &what {
            span.on(|| route.handle());
        }
        let live;
        let shared = match &what {
            What::Routed { route, .. } => Some(route.shared()), // a route belongs to its generation, and dies with it (K1)
            What::Control(_, Operation::Shutdown(last)) => last.as_ref(),
            What::Control(managed, Operation::Open(_) | Operation::Catalog(_)) => {
                live = managed.live();
                live.as_ref()
            }
        };
        let unsent = |code| Phase::Trying(Ticket::settled(what.managed().unsent(code, Body::default())));
        let phase = match shared {
            Some(shared) => Phase::Trying(what.submit(shared, body, now, deadline)),
            None if deadline <= now => unsent(NotSentCode::DeadlineExpired), // E4
            None if matches!(what, What::Control(_, Operation::Shutdown(_))) => {
                unsent(NotSentCode::ConnectionRetired)
            }
            None => Phase::Between(Box::pin(connect_and_try(what.clone(), deadline))),
        };
        let (what, made, begun, again) = (Some(what), 0, false, None);
        Self { what, deadline, made, begun, phase, again, stop: OnceLock::new(), span }
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

    #[inline]
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
    #[inline]
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Finished>> {
        match &mut self.phase {
            Phase::Trying(ticket) => {
                let admitted = ticket.target().is_some();
                let Poll::Ready(mut finished) = ticket.poll(cx) else { return Poll::Pending };
                self.made += u32::from(admitted);
                // O4: nothing but an `Error` is followed by another attempt.
                if matches!(finished.outcome, Outcome::Terminal(Terminal::Error(_))) {
                    return Poll::Ready(self.judge(finished));
                }
                // O5: what was said before outlives an attempt for which there was no time.
                if matches!(finished.outcome, Outcome::NotSent { code: NotSentCode::DeadlineExpired, .. }) {
                    self.recall(&mut finished);
                }
                self.finish(&mut finished);
                Poll::Ready(Some(finished))
            }
            Phase::Between(_) => self.poll_between(cx).map(|()| None),
            Phase::Done => Poll::Pending,
        }
    }

    /// What becomes of an `Error`.
    fn judge(&mut self, mut finished: Finished) -> Option<Finished> {
        let stopped = self.stop.get().is_some_and(Stop::is_set);
        let verdict = match &self.what {
            Some(what) if !self.begun && !stopped => {
                let (managed, deadline) = (what.managed(), self.deadline);
                let again = self.again.get_or_insert_with(|| {
                    Box::new(Again { retry: Retry::new(managed.retry(), deadline), last: None })
                });
                again.retry.judge(managed.now(), what.kind(), &finished.outcome)
            }
            Some(_) | None => Verdict::Return,
        };
        let (what, at) = match (verdict, &self.what) {
            (Verdict::Return, _) | (_, None) => {
                self.finish(&mut finished);
                return Some(finished);
            }
            (Verdict::Again(at), Some(what)) => (what.clone(), Some(at)),
            (Verdict::Reopen, Some(what)) => (what.clone(), None),
        };
        let (gone, body) = match &mut self.phase {
            Phase::Trying(ticket) => (ticket.route(), ticket.reclaim()),
            Phase::Between(_) | Phase::Done => (None, Body::default()),
        };
        let deadline = self.deadline;
        let next: Pin<Box<dyn Future<Output = Option<Ticket>> + Send>> = match at {
            Some(at) => Box::pin(pause_and_try(at, what, body, deadline)),
            None => Box::pin(reopen_and_try(what, gone, body, deadline)),
        };
        if let Some(again) = &mut self.again {
            again.last = Some(finished);
        }
        self.phase = Phase::Between(next);
        None
    }

    /// Puts the answer before, if there is one, in the place of this result.
    fn recall(&mut self, finished: &mut Finished) {
        if let Some(last) = self.again.as_mut().and_then(|again| again.last.take()) {
            *finished = last;
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
        let ticket = match ticket {
            Some(ticket) => ticket,
            None => {
                let Some(what) = self.what.take() else {
                    self.phase = Phase::Done;
                    return Poll::Ready(());
                };
                // Nothing ran, and nothing will: the last answer is the result.
                let mut finished = what.managed().unsent(NotSentCode::CancelledUnsent, Body::default()); // X2
                self.recall(&mut finished);
                Ticket::settled(finished)
            }
        };
        if let Some(stop) = self.stop.get() {
            stop.aim(ticket.target());
        }
        self.phase = Phase::Trying(ticket);
        Poll::Ready(())
    }

    fn finish(&mut self, finished: &mut Finished) {
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
    }
}

/// Only what has no body waits for a generation: a route has its own (K1), and so has a shutdown.
async fn connect_and_try(what: What, deadline: Instant) -> Option<Ticket> {
    let managed = what.managed();
    Some(match managed.generation(deadline).await {
        Ok(shared) => what.submit(&shared, Body::default(), managed.now(), deadline),
        Err(code) => Ticket::settled(managed.unsent(code, Body::default())),
    })
}

async fn pause_and_try(at: Instant, what: What, body: Body, deadline: Instant) -> Option<Ticket> {
    let managed = what.managed();
    managed.sleep(at).await;
    let shared = match &what {
        What::Routed { route, .. } => Arc::clone(route.shared()),
        What::Control(_, Operation::Shutdown(last)) => Arc::clone(last.as_ref()?),
        What::Control(_, Operation::Open(_) | Operation::Catalog(_)) => {
            managed.generation(deadline).await.ok()?
        }
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
