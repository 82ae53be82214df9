//! One connection: its core under one mutex, and the task that drives it.
//!
//! Owns the core, the running handlers' slots and the routes of one client. Invariant: the mutex is held for one step of the core and
//! never while a handler or a waker runs; whoever changes the core from outside its task raises the signal afterwards.

use super::candidate::Candidate;
use super::handler::{Handler, Work};
use super::hub::Hub;
use super::report::{Callback, Cause};
use super::route::{self, Route};
use crate::component::{ErrorReply, Handled, Link, Reply, RequestContext, SendError, Slot, TrySend, contain};
use crate::drive::{Driver, Signal};
use crate::runtime::Runtime;
use crate::trace::Span;
use crate::turn;
use hostwire_core::body::Body;
use hostwire_core::budget::Charge;
use hostwire_core::control::{ErrorBody, HostCode};
use hostwire_core::endpoint::Disconnect;
use hostwire_core::host::{
    Connection, Counters, Event, ItemRefusal, Owner, RequestId, RouteGrant, TaskPermit,
};
use hostwire_core::time::Instant;
use hostwire_core::wire::{Priority, RouteHandle};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

/// Events that are taken under the lock at once.
const BATCH: usize = 32;

/// How a handler has ended.
pub(super) enum Answer {
    Reply(Reply),
    StreamEnd,
    Panicked,
    /// Its future was dropped.
    Stopped,
}

/// What the connection's task and its handlers share.
pub(super) struct Conn<R: Runtime> {
    hub: Arc<Hub<R>>,
    owner: Owner,
    core: Mutex<Connection>,
    signal: Signal,
    book: Mutex<Book>,
    span: Span,
    /// The socket, but while its task drives it. The host's end may take it away.
    driver: Mutex<Option<Driver<R>>>,
}

/// Who runs, who waits, which routes stand.
#[derive(Default)]
struct Book {
    running: HashMap<RequestId, Arc<Slot>>,
    /// Weak: a context that outlives its request must not keep its connection.
    waiting: Vec<Weak<Slot>>,
    routes: HashMap<RouteHandle, Arc<Route>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Runtime> Conn<R> {
    pub(super) fn new(hub: Arc<Hub<R>>, owner: Owner, core: Connection, driver: Driver<R>) -> Arc<Self> {
        Arc::new(Self {
            hub,
            owner,
            core: Mutex::new(core),
            signal: Signal::default(),
            book: Mutex::default(),
            span: Span::of_host(owner),
            driver: Mutex::new(Some(driver)),
        })
    }

    pub(super) const fn hub(&self) -> &Arc<Hub<R>> {
        &self.hub
    }

    pub(super) const fn owner(&self) -> Owner {
        self.owner
    }

    /// A request's slot: the spare one, if nobody else holds that, or a new one.
    fn slot(
        self: &Arc<Self>,
        spare: Option<Arc<Slot>>,
        id: RequestId,
        permit: &TaskPermit,
        route: &Route,
    ) -> Arc<Slot> {
        if let Some(mut spare) = spare
            && let Some(slot) = Arc::get_mut(&mut spare)
        {
            slot.reuse(id);
            return spare;
        }
        let link: Arc<dyn Link> = Arc::clone(self) as _;
        Arc::new(Slot::new(Some(id), permit.parking(), Arc::clone(&route.info), link))
    }

    fn book<T>(&self, f: impl FnOnce(&mut Book) -> T) -> T {
        f(&mut lock(&self.book))
    }

    /// One command on the core; then its task looks again.
    pub(super) fn command<T>(&self, f: impl FnOnce(&mut Connection, Instant) -> T) -> T {
        let now = self.hub.now();
        let done = f(&mut lock(&self.core), now);
        self.signal.raise();
        done
    }

    // What the host's end asks for.

    /// §17 (1): nothing new runs; who is not active yet is cut off (H5).
    pub(super) fn begin_drain(&self) {
        self.command(Connection::begin_drain);
    }

    /// §17 (3): handlers are told to stop; a real terminal still counts.
    pub(super) fn stop_all(&self) {
        self.command(Connection::stop_all);
    }

    /// §17 (3), (4): what is pending gets `cancelled`; behind all terminals goes the `Goodbye`.
    pub(super) fn finish_drain(&self) {
        self.command(Connection::finish_drain);
    }

    /// Z2: what it has counted.
    pub(super) fn counters(&self) -> Counters {
        *lock(&self.core).counters()
    }

    /// H3: the latch has moved; whoever waits for it looks again.
    pub(super) fn latch_moved(&self) {
        self.command(Connection::latch_moved);
    }

    /// §17: the time to end by itself is over for every handler that still runs.
    pub(super) fn stop_handlers(&self) {
        let running: Vec<Arc<Slot>> = self.book(|book| book.running.values().cloned().collect());
        running.iter().for_each(|slot| slot.stop());
    }

    /// The drain's time is over: the connection ends as it stands.
    pub(super) fn abandon(&self) {
        self.command(|core, now| core.handle_disconnect(now, Disconnect::Abandoned));
    }

    /// The runtime is dead: the socket is closed here and now.
    pub(super) fn close_socket(&self) {
        let driver = lock(&self.driver).take();
        drop(driver);
    }

    // What handlers and binds answer.

    /// For people: how a handler has ended.
    pub(super) fn say(&self, span: &Span, module_id: &str, answer: &Answer) {
        span.end(match answer {
            Answer::Reply(Reply::Response { .. }) => "response",
            Answer::Reply(Reply::Error(_)) => "error",
            Answer::StreamEnd => "stream_end",
            Answer::Panicked => "panicked",
            Answer::Stopped => "stopped",
        });
        if matches!(answer, Answer::Panicked) {
            let hub = &self.hub;
            hub.notes.callback_failed(hub.now(), module_id, Callback::Handle, Cause::Panicked);
        }
    }

    /// A handler has ended; its permit is free already.
    pub(super) fn ended(&self, id: RequestId, answer: Answer) {
        let slot = self.book(|book| {
            let slot = book.running.remove(&id)?;
            book.waiting.retain(|waiting| waiting.as_ptr() != Arc::as_ptr(&slot));
            Some(slot)
        });
        drop(slot);
        self.command(|core, now| answer_to(core, now, id, answer));
    }

    /// R1: installs the route, then answers. False: the connection has gone, close wins.
    pub(super) fn accept_route(&self, id: RequestId, route: &Arc<Route>, grant: RouteGrant) -> bool {
        let handle = route.handle();
        self.book(|book| book.routes.insert(handle, Arc::clone(route)));
        let accepted = self.command(|core, now| core.accept_route(now, id, grant)).is_ok();
        if !accepted {
            let gone = self.book(|book| book.routes.remove(&handle));
            drop(gone);
        }
        accepted
    }

    /// R2: what the component said.
    pub(super) fn reject_route(&self, id: RequestId, error: &ErrorReply) {
        let body = ErrorBody::from_bind(error.code(), error.message(), error.retry_after());
        // Too late is as good: the requester is gone.
        let _ = self.command(|core, now| core.reject_route(now, id, &body));
    }

    pub(super) fn refuse_route(&self, id: RequestId, code: HostCode) {
        let _ = self.command(|core, now| core.reject_route(now, id, &code.into()));
    }
}

fn answer_to(core: &mut Connection, now: Instant, id: RequestId, answer: Answer) {
    // Too late is as good: the request was settled without it.
    let _ = match answer {
        Answer::Reply(Reply::Response { binary, body }) => core.respond(now, id, binary, body),
        Answer::Reply(Reply::Error(error)) if error.is_busy() => core.busy(now, id),
        Answer::Reply(Reply::Error(error)) => {
            core.fail(now, id, &ErrorBody::from_handler(error.code(), error.message(), error.retry_after()))
        }
        Answer::StreamEnd => core.end_stream(now, id),
        Answer::Panicked => core.fail(now, id, &HostCode::InternalError.into()), // B132
        Answer::Stopped => core.stopped(now, id),
    };
}

impl<R: Runtime> Link for Conn<R> {
    fn try_send(&self, request: Option<RequestId>, binary: bool, item: Body) -> TrySend {
        let Some(id) = request else { return TrySend::Refused(SendError::Ended) };
        let sent = {
            let mut core = lock(&self.core);
            // Of the clock the core wants to know since when the next frame to leave waits (B10): what stands behind that needs no reading.
            // One before the last counts as the last.
            let now = if core.interest().write { Instant::ZERO } else { self.hub.now() };
            core.item(now, id, binary, item)
        };
        self.signal.raise();
        match sent {
            Ok(()) => TrySend::Queued,
            Err(refused) => match refused.why {
                ItemRefusal::Full => TrySend::Full(refused.body),
                ItemRefusal::NoMemory => TrySend::Refused(SendError::NoMemory),
                ItemRefusal::TooLarge => TrySend::Refused(SendError::TooLarge),
                ItemRefusal::Stopped | _ => TrySend::Refused(SendError::Ended),
            },
        }
    }

    fn wait_for_room(&self, slot: &Arc<Slot>) {
        self.book(|book| {
            let slot = Arc::downgrade(slot);
            if !book.waiting.iter().any(|waiting| waiting.ptr_eq(&slot)) {
                book.waiting.push(slot);
            }
        });
    }

    fn charge_egress(&self, bytes: usize) -> Option<Charge> {
        self.hub.core.resident().egress().try_charge(bytes)
    }

    fn charge_scratch(&self, bytes: usize) -> Option<Charge> {
        self.hub.core.resident().scratch().try_charge(bytes)
    }
}

/// The connection's task.
///
/// Dropped with its runtime, it ends the core and every handler is stopped by its own task's drop; it waits for nobody.
pub(super) struct Task<R: Runtime> {
    conn: Arc<Conn<R>>,
    batch: Vec<Event>,
    /// Ready answers of this batch: they are given to the core together, when it is asked for the next.
    answers: Vec<(RequestId, Answer)>,
    /// A slot of the last route's that nobody uses, so that a ready answer allocates nothing.
    spare: Option<Arc<Slot>>,
    /// Where the last request went. A handle is never used again (R1), so it names this route until that is closed.
    last_route: Option<Arc<Route>>,
    candidate: Candidate<R>,
    done: bool,
}

impl<R: Runtime> Task<R> {
    pub(super) fn new(conn: Arc<Conn<R>>, candidate: Candidate<R>) -> Self {
        Self {
            conn,
            batch: Vec::new(),
            answers: Vec::new(),
            spare: None,
            last_route: None,
            candidate,
            done: false,
        }
    }

    fn finish(&mut self) {
        self.done = true;
        self.conn.close_socket();
        self.candidate.end();
        let reason = lock(&self.conn.core).close_reason();
        if let Some(reason) = reason {
            self.conn.hub.notes.connection_ended(self.conn.hub.now(), &self.conn.span, reason);
        }
        self.conn.hub.leave(self.conn.owner);
    }

    fn act(&mut self, event: Event) {
        self.candidate.observe(&event);
        let conn = &self.conn;
        match event {
            Event::RouteOpen { id, open, component, .. } => route::open(conn, id, *open, component),
            Event::Request { id, route, binary, priority, body, permit, .. } => {
                self.dispatch(id, route, (binary, priority, body), permit);
            }
            Event::Stop { id, .. } => {
                let slot = conn.book(|book| book.running.get(&id).cloned());
                if let Some(slot) = slot {
                    slot.cancel();
                }
            }
            Event::RouteClosed { route, .. } => {
                let gone = conn.book(|book| book.routes.remove(&route));
                drop((gone, self.last_route.take(), self.spare.take()));
                route::closed(&conn.hub, route);
            }
            Event::Room => {
                let waiting = conn.book(|book| std::mem::take(&mut book.waiting));
                waiting.iter().filter_map(Weak::upgrade).for_each(|slot| slot.room());
            }
            Event::ShutdownCommitted => conn.hub.commit(),
            Event::ShutdownReopened => conn.hub.conns().iter().for_each(|conn| conn.latch_moved()),
            Event::CandidateWanted { offer } => self.candidate = Candidate::wanted(conn, offer),
            Event::Active => conn.span.transport(self.candidate.transport()),
            // A bind whose connection is gone finds that out when it is to be published.
            Event::RouteOpenWithdrawn { .. } | Event::Closed { .. } | _ => {}
        }
    }

    /// Has the route at hand, and no slot of another one.
    fn turn_to(&mut self, handle: RouteHandle) {
        if self.last_route.as_ref().is_none_or(|last| last.handle() != handle) {
            self.last_route = self.conn.book(|book| book.routes.get(&handle).cloned());
            self.spare = None;
        }
    }

    /// Runs a handler up to its first answer: what is ready at once is sent in this turn.
    fn dispatch(
        &mut self,
        id: RequestId,
        route: RouteHandle,
        (binary, priority, body): (bool, Priority, Body),
        permit: TaskPermit,
    ) {
        self.turn_to(route);
        let Some(route) = &self.last_route else {
            drop(permit);
            return self.conn.ended(id, Answer::Stopped);
        };
        let slot = self.conn.slot(self.spare.take(), id, &permit, route);
        let cx = RequestContext { slot: Arc::clone(&slot), binary, priority, body };
        let component = Arc::clone(&route.component);
        let span = self.conn.span.request(&route.module_id, route.handle(), id);
        let answer = match span.run(|| contain(move || component.handle(cx))) {
            Ok(Handled::Ready(reply)) => Answer::Reply(reply),
            Ok(Handled::Future(future)) => return self.spawn(slot, route, Work::unary(future), permit, span),
            Ok(Handled::Stream(future)) => {
                return self.spawn(slot, route, Work::stream(future), permit, span);
            }
            Err(_) => Answer::Panicked,
        };
        self.conn.say(&span, &route.module_id, &answer);
        slot.ended();
        drop(permit); // B9
        self.answers.push((id, answer));
        self.spare = Some(slot);
    }

    fn spawn(&self, slot: Arc<Slot>, route: &Arc<Route>, work: Work, permit: TaskPermit, span: Span) {
        let (conn, hub) = (&self.conn, &self.conn.hub);
        conn.book(|book| slot.request().and_then(|id| book.running.insert(id, Arc::clone(&slot))));
        hub.runtime.spawn(Handler::new(
            work,
            slot,
            permit,
            Arc::clone(route),
            Arc::clone(conn),
            hub.hold(),
            span,
        ));
    }
}

impl<R: Runtime> turn::Seat for Task<R> {
    type Core = Connection;

    fn with<T>(&mut self, step: impl FnOnce(&mut Connection) -> T) -> T {
        step(&mut lock(&self.conn.core))
    }

    fn settle(&mut self, now: Instant) -> bool {
        let mut any = false;
        loop {
            let mut batch = std::mem::take(&mut self.batch);
            {
                let mut core = lock(&self.conn.core);
                for (id, answer) in self.answers.drain(..) {
                    answer_to(&mut core, now, id, answer);
                }
                batch.extend(std::iter::from_fn(|| core.poll_event()).take(BATCH));
            }
            let none = batch.is_empty();
            for event in batch.drain(..) {
                self.act(event);
            }
            self.batch = batch;
            if none {
                return any;
            }
            any = true;
        }
    }
}

/// Nothing in it is pinned in place.
impl<R: Runtime> Unpin for Task<R> {}

impl<R: Runtime> Future for Task<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.done {
            return Poll::Ready(());
        }
        // Out of its mutex while it is driven: handlers run in there.
        let Some(mut driver) = lock(&this.conn.driver).take() else {
            this.finish();
            return Poll::Ready(());
        };
        let conn = Arc::clone(&this.conn);
        let driven = conn.span.run(|| driver.poll(cx, &conn.signal, this));
        *lock(&conn.driver) = Some(driver);
        if driven.is_pending() {
            this.candidate.poll(&conn, cx);
        }
        driven.map(|()| this.finish())
    }
}

impl<R: Runtime> Drop for Task<R> {
    fn drop(&mut self) {
        if !self.done {
            lock(&self.conn.core).handle_disconnect(self.conn.hub.now(), Disconnect::Abandoned);
            self.finish();
        }
    }
}
