//! One generation, shared by its handles and its task: the core under one lock, the table of waiters, and the flags by which a dropped
//! handle is noticed.
//!
//! Invariants: the lock is held for one command or one step of the task, never while wakers or user code run, never across an
//! await; dropping a handle takes no lock at all. An entry of the table stands for a request without a result, or for a stream
//! whose items may still be read.

use super::result::Evidence;
use super::route::{RouteGuard, RouteSlot};
use super::slot::{Finished, Slot};
use crate::drive::{Driver, Signal};
use crate::runtime::Runtime;
use crate::sync::lock;
use crate::trace::{Notes, Span};
use crate::turn::Seat;
use hostwire_core::auth::DaemonId;
use hostwire_core::body::Body;
use hostwire_core::client::{Connection, Counters, Event, OpId, Stage, StreamPoll, SubmitError, Transport};
use hostwire_core::endpoint::Disconnect;
use hostwire_core::fault::CloseReason;
use hostwire_core::negotiate::Grant;
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use hostwire_core::wire::RouteHandle;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

pub(super) struct Shared {
    state: Mutex<State>,
    root: Arc<Root>,
    /// Some slot or route is flagged as abandoned.
    dropped: AtomicBool,
    /// Where every generation of the client ends.
    farewell: AtomicBool,
    daemon_id: DaemonId,
    span: Span,
}

/// What all generations of a client share, and a dropped handle can reach without a lock.
pub(super) struct Root {
    pub(super) signal: Signal,
    pub(super) notes: Notes,
    /// Connections that were tried.
    tried: AtomicU64,
    /// The last handle of the client is gone.
    orphaned: AtomicBool,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
}

impl Root {
    pub(super) fn new<R: Runtime>(runtime: R) -> Arc<Self> {
        Arc::new(Self {
            signal: Signal::default(),
            notes: Notes::default(),
            tried: AtomicU64::new(0),
            orphaned: AtomicBool::new(false),
            clock: Box::new(move || runtime.now()),
        })
    }

    pub(super) fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Notes that the last handle is gone. Takes no lock.
    pub(super) fn orphan(&self) {
        self.orphaned.store(true, Ordering::Release);
        self.signal.raise();
    }

    pub(super) fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Acquire)
    }
}

struct State {
    conn: Connection,
    /// By the operation's slot.
    table: Vec<Option<Entry>>,
    routes: Vec<Arc<RouteSlot>>,
    ready: Option<Transport>,
    /// A grant that nobody has taken yet.
    granted: Option<Grant>,
    closed: Option<(CloseReason, Stage)>,
    /// Who waits for `ready` or `closed`.
    waiting: Vec<Waker>,
}

struct Entry {
    op: OpId,
    slot: Arc<Slot>,
    /// It stays when it is settled, until its items are read. The core may then hold nothing of it any more, and give its
    /// place to another.
    stream: bool,
}

/// What is to be done once the lock is free: all that may run code of others, destructors of wakers included.
enum Delivery {
    Result(Arc<Slot>, Finished),
    Items(Arc<Slot>),
    Wake(Waker),
    Drop(Arc<Slot>),
    Discard(Finished),
}

impl Delivery {
    #[inline]
    fn run(self) {
        match self {
            Self::Result(slot, finished) => slot.deliver(finished),
            Self::Items(slot) => slot.wake(),
            Self::Wake(waker) => waker.wake(),
            Self::Drop(slot) => drop(slot),
            Self::Discard(finished) => drop(finished),
        }
    }
}

/// A request in the table, or one that was refused and has its result already. Dropping it gives the request up, without a lock.
pub(super) struct Ticket {
    slot: Arc<Slot>,
    /// Until its result is taken.
    op: Option<(Arc<Shared>, OpId)>,
    /// The route that it was sent on.
    route: Option<RouteHandle>,
}

impl Ticket {
    /// A request that was never made.
    pub(super) fn settled(finished: Finished) -> Self {
        Self { slot: Arc::new(Slot::settled(finished)), op: None, route: None }
    }

    pub(super) const fn route(&self) -> Option<RouteHandle> {
        self.route
    }

    /// Where the request is, while it has no result.
    pub(super) const fn target(&self) -> Option<&(Arc<Shared>, OpId)> {
        self.op.as_ref()
    }

    #[inline]
    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<Finished> {
        let polled = self.slot.poll(cx);
        if polled.is_ready() {
            self.op = None;
        }
        polled
    }

    /// The request's body, once it has its result.
    pub(super) fn reclaim(&mut self) -> Body {
        self.slot.reclaim()
    }

    /// The next item; `Ended` when only the result is left.
    pub(super) fn poll_item(&mut self, cx: &Context<'_>) -> StreamPoll {
        let Some((shared, op)) = &self.op else { return StreamPoll::Ended };
        match shared.take_item(*op) {
            // Asked again behind the registration: an item that came in between wakes nobody.
            StreamPoll::Pending => {
                self.slot.listen(cx);
                shared.take_item(*op)
            }
            front @ (StreamPoll::Item(_) | StreamPoll::Ended) => front,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some((shared, _)) = &self.op {
            self.slot.abandon();
            shared.look_for_dropped();
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("daemon_id", &self.daemon_id).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(root: Arc<Root>, conn: Connection, daemon_id: DaemonId) -> Arc<Self> {
        let span = Span::of_client(root.tried.fetch_add(1, Ordering::Relaxed) + 1);
        Arc::new(Self {
            span,
            state: Mutex::new(State {
                conn,
                table: Vec::new(),
                routes: Vec::new(),
                ready: None,
                granted: None,
                closed: None,
                waiting: Vec::new(),
            }),
            root,
            dropped: AtomicBool::new(false),
            farewell: AtomicBool::new(false),
            daemon_id,
        })
    }

    pub(super) fn now(&self) -> Instant {
        self.root.now()
    }

    pub(super) const fn daemon_id(&self) -> DaemonId {
        self.daemon_id
    }

    pub(super) fn counters(&self) -> Counters {
        lock(&self.state).conn.counters()
    }

    pub(super) const fn evidence(&self, bytes_handed: u64, attempts: u32) -> Evidence {
        Evidence { bytes_handed, attempts, daemon_id: self.daemon_id }
    }

    /// Submits a request with this body. A refusal is a result like any other.
    pub(super) fn submit(
        self: &Arc<Self>,
        stream: bool,
        route: Option<RouteHandle>,
        body: Body,
        command: impl FnOnce(&mut Connection, Body) -> Result<OpId, SubmitError>,
    ) -> Ticket {
        let mut slot = Arc::new(Slot::new(body));
        let ticket = self.step(|shared, state, later| {
            // What has ended leaves the table first, so that its place is free for this one.
            shared.collect(state, later);
            match command(&mut state.conn, slot.lend()) {
                Ok(op) => {
                    let index = op.slot();
                    if index >= state.table.len() {
                        state.table.resize_with(index + 1, || None);
                    }
                    if let Some(place) = state.table.get_mut(index) {
                        // A stream that stood there has its result, and the core has nothing of it any more.
                        let before = place.replace(Entry { op, slot: Arc::clone(&slot), stream });
                        later.extend(before.map(|entry| Delivery::Drop(entry.slot)));
                    }
                    Ticket { slot, op: Some((Arc::clone(shared), op)), route }
                }
                Err(SubmitError { code, body }) => {
                    drop(body);
                    let outcome = Outcome::NotSent { code, body: slot.reclaim() };
                    let finished = Finished { outcome, evidence: shared.evidence(0, 0), route: None };
                    Ticket::settled(finished)
                }
            }
        });
        if ticket.op.is_some() {
            self.root.signal.raise();
        }
        ticket
    }

    /// A command on the core that may settle things.
    pub(super) fn command(self: &Arc<Self>, command: impl FnOnce(&mut Connection, Instant)) {
        let now = self.now();
        self.step(|shared, state, later| {
            command(&mut state.conn, now);
            shared.collect(state, later);
        });
        self.root.signal.raise();
    }

    /// The front of a stream. `Ended` leaves nothing of it in the table.
    pub(super) fn take_item(self: &Arc<Self>, op: OpId) -> StreamPoll {
        self.step(|shared, state, later| {
            // The result finds its waiter while that is in the table.
            shared.collect(state, later);
            let front = state.conn.take_item(op);
            if matches!(front, StreamPoll::Ended) {
                state.forget(op);
            }
            front
        })
    }

    /// Some flag was set.
    pub(super) fn look_for_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
        self.root.signal.raise();
    }

    pub(super) fn is_live(&self, route: RouteHandle) -> bool {
        lock(&self.state).conn.is_live(route)
    }

    /// Whether routes can be opened, and if the generation has ended, why and how far it had come.
    pub(super) fn standing(&self) -> (bool, Option<(CloseReason, Stage)>) {
        let state = lock(&self.state);
        (state.ready.is_some(), state.closed)
    }

    /// The host wants to go on elsewhere (N6).
    pub(super) fn take_grant(&self) -> Option<Grant> {
        lock(&self.state).granted.take()
    }

    /// What was selected; TCP before that.
    pub(super) fn transport(&self) -> Transport {
        lock(&self.state).ready.unwrap_or(Transport::Tcp { reason: None })
    }

    /// Whether a terminal was received: the generation has been useful (K3).
    pub(super) fn was_useful(&self) -> bool {
        lock(&self.state).conn.counters().settlements.terminal > 0
    }

    /// Ready when the generation has ended.
    pub(super) fn poll_closed(&self, cx: &Context<'_>) -> Poll<CloseReason> {
        let mut state = lock(&self.state);
        match state.closed {
            Some((reason, _)) => Poll::Ready(reason),
            None => state.wait(cx),
        }
    }

    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        lock(&self.state).conn.close_reason()
    }

    /// One step under the lock, behind whatever handles that were dropped before it have left; and what follows from it after.
    fn step<T>(self: &Arc<Self>, step: impl FnOnce(&Arc<Self>, &mut State, &mut Vec<Delivery>) -> T) -> T {
        let mut later = Vec::new();
        let dropped = self.dropped.load(Ordering::Acquire).then(|| self.now());
        let mut state = lock(&self.state);
        // Who drops a call and makes another finds its place free (B2), whether the task has come round or not.
        if let Some(now) = dropped.filter(|_| self.dropped.swap(false, Ordering::AcqRel)) {
            self.sweep(&mut state, now, &mut later);
        }
        let result = step(self, &mut state, &mut later);
        drop(state);
        later.into_iter().for_each(Delivery::run);
        result
    }

    /// Takes the core's events. Returns whether there were any.
    fn collect(self: &Arc<Self>, state: &mut State, later: &mut Vec<Delivery>) -> bool {
        let mut any = false;
        while let Some(event) = state.conn.poll_event() {
            any = true;
            match event {
                Event::Settled { op, outcome, bytes_handed } => {
                    let slot = state.settle(op);
                    let route = if let Outcome::Terminal(Terminal::RouteOpened(handle)) = outcome {
                        let route = Arc::new(RouteSlot::new(handle));
                        state.routes.push(Arc::clone(&route));
                        Some(RouteGuard::new(Arc::clone(self), route))
                    } else {
                        None
                    };
                    let finished = Finished { outcome, evidence: self.evidence(bytes_handed, 1), route };
                    // Without a slot its handle is gone; a route that it opened is closed by its guard.
                    later.push(match slot {
                        Some(slot) => Delivery::Result(slot, finished),
                        None => Delivery::Discard(finished),
                    });
                }
                Event::Readable { op } => later.extend(state.find(op).map(Delivery::Items)),
                Event::RouteGone { route } => state.routes.retain(|slot| slot.handle() != route),
                Event::Ready { transport } => {
                    state.ready = Some(transport);
                    later.extend(state.waiting.drain(..).map(Delivery::Wake));
                }
                Event::Closed { reason, stage } => {
                    state.closed = Some((reason, stage));
                    state.routes.clear(); // K1
                    later.extend(state.waiting.drain(..).map(Delivery::Wake));
                }
                Event::Granted { grant } => state.granted = Some(grant),
                // What is not known here is nobody's.
                _ => {}
            }
        }
        any
    }

    /// Gives up what dropped handles have left behind.
    fn sweep(self: &Arc<Self>, state: &mut State, now: Instant, later: &mut Vec<Delivery>) {
        let State { conn, table, routes, .. } = state;
        for place in table.iter_mut() {
            if let Some(entry) = place.take_if(|entry| entry.slot.is_abandoned()) {
                conn.drop_op(now, entry.op); // B5: its items are freed at once
                later.push(Delivery::Drop(entry.slot));
            }
        }
        for slot in routes.extract_if(.., |slot| slot.is_abandoned()) {
            conn.close_route(now, slot.handle());
        }
        self.collect(state, later);
    }

    /// Acts on dropped handles, also where nobody does anything else.
    fn take_dropped(self: &Arc<Self>) {
        if self.dropped.load(Ordering::Acquire) {
            self.step(|_, _, _| ());
        }
        if self.root.is_orphaned() && !self.farewell.swap(true, Ordering::AcqRel) {
            self.command(Connection::shutdown); // G3: as a local close, and nobody waits
        }
    }

    /// The task is over, or was dropped with its runtime: nobody drives this any more.
    pub(super) fn end(self: &Arc<Self>) {
        self.command(|conn, now| conn.handle_disconnect(now, Disconnect::Abandoned));
    }
}

impl State {
    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        if !self.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn place(&mut self, op: OpId) -> Option<&mut Option<Entry>> {
        self.table.get_mut(op.slot()).filter(|place| place.as_ref().is_some_and(|entry| entry.op == op))
    }

    fn find(&mut self, op: OpId) -> Option<Arc<Slot>> {
        self.place(op)?.as_ref().map(|entry| Arc::clone(&entry.slot))
    }

    fn forget(&mut self, op: OpId) {
        if let Some(place) = self.place(op) {
            *place = None;
        }
    }

    /// X6: the waiter of a request that has its result leaves the table, but a stream's, which stays until its items are read.
    fn settle(&mut self, op: OpId) -> Option<Arc<Slot>> {
        let place = self.place(op)?;
        match place.take_if(|entry| !entry.stream) {
            Some(entry) => Some(entry.slot),
            None => place.as_ref().map(|entry| Arc::clone(&entry.slot)),
        }
    }
}

/// The task's view.
struct ClientSeat {
    shared: Arc<Shared>,
    later: Vec<Delivery>,
    /// Callers that were woken since the task last let others run.
    woken: usize,
}

impl Seat for ClientSeat {
    type Core = Connection;

    fn with<R>(&mut self, step: impl FnOnce(&mut Connection) -> R) -> R {
        step(&mut lock(&self.shared.state).conn)
    }

    fn settle(&mut self, _now: Instant) -> bool {
        let any = self.shared.collect(&mut lock(&self.shared.state), &mut self.later);
        self.woken += self.later.len();
        self.later.drain(..).for_each(Delivery::run);
        any
    }
}

/// Whatever ends the task ends the generation.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Drives the generation to its end; `announce` is told once when it is ready.
pub(super) async fn drive<R: Runtime>(mut driver: Driver<R>, shared: Arc<Shared>, announce: impl FnOnce()) {
    let end = EndGuard(Arc::clone(&shared));
    let mut seat = ClientSeat { shared: Arc::clone(&shared), later: Vec::new(), woken: 0 };
    let mut announce = Some(announce);
    poll_fn(|cx| {
        // Before the flags are looked at, so that one set from here on wakes.
        shared.root.signal.listen(cx);
        if std::mem::take(&mut seat.woken) > 1 {
            // Several callers were answered: the first of them that asks again brings this task back, where a runtime runs what was
            // woken last before all others. Behind the others it finds what they all ask, and sends it in one call.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        shared.take_dropped();
        let polled = shared.span.run(|| driver.poll(cx, &shared.root.signal, &mut seat));
        if announce.is_some() && shared.standing().0 {
            shared.span.transport(match shared.transport() {
                Transport::Tcp { .. } => "tcp",
                Transport::Candidate => "candidate",
            });
            announce.take().into_iter().for_each(|announce| announce());
        }
        polled
    })
    .await;
    drop(driver);
    drop(end);
    if let (_, Some((reason, _))) = shared.standing() {
        shared.root.notes.connection_ended(shared.now(), &shared.span, reason);
    }
}
