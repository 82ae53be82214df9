//! A host's embedder. A request's first byte says what its handler does:
//!
//! | byte | handler |
//! | --- | --- |
//! | `e` | answers with the body |
//! | `f` | answers `Error{application_error}` |
//! | `s` | sends as many items as the second byte says, then the end |
//! | `h` | never answers; ends when it is told to |
//! | other | answers with an empty body |
//!
//! With an order of its own it answers whom it likes next, before or after it looks at what has happened meanwhile.

use crate::rng::Rng;
use hostwire_core::body::Body;
use hostwire_core::control::{ErrorBody, HostCode};
use hostwire_core::fault::CloseReason;
use hostwire_core::host::{Connection, Event, ItemRefusal, Owner, Registry, RequestId, Step, TaskPermit};
use hostwire_core::time::Instant;
use hostwire_core::wire::RouteHandle;
use std::collections::BTreeMap;

/// A stream that still has items to send.
#[derive(Debug)]
struct Sending {
    id: RequestId,
    left: u8,
    sent: u8,
    permit: TaskPermit,
}

/// A request that has not been looked at.
#[derive(Debug)]
struct Waiting {
    id: RequestId,
    body: Body,
    permit: TaskPermit,
}

/// The embedder of one connection.
#[derive(Debug)]
pub struct Application {
    /// The order in which it acts, where that is not the order in which it was asked.
    pub order: Option<Rng>,
    waiting: Vec<Waiting>,
    registry: Registry,
    owner: Owner,
    hanging: BTreeMap<u64, (RequestId, TaskPermit)>,
    sending: Vec<Sending>,
    closing: Vec<RouteHandle>,
    /// How often each correlation was dispatched.
    pub dispatched: BTreeMap<u64, usize>,
    /// Accepted binds.
    pub binds: usize,
    /// `route_gone` callbacks.
    pub gone: usize,
    /// Whether the shutdown was committed.
    pub shutdown: usize,
    /// Why the connection ended.
    pub closed: Option<CloseReason>,
}

impl Default for Application {
    fn default() -> Self {
        Self {
            order: None,
            waiting: Vec::new(),
            registry: Registry::new(16),
            owner: Owner(1),
            hanging: BTreeMap::new(),
            sending: Vec::new(),
            closing: Vec::new(),
            dispatched: BTreeMap::new(),
            binds: 0,
            gone: 0,
            shutdown: 0,
            closed: None,
        }
    }
}

impl Application {
    /// Takes one event and does what it asks for; answers one request or sends one stream item if there is none. Returns whether anything
    /// happened.
    pub fn turn(&mut self, conn: &mut Connection, now: Instant) -> bool {
        let own_work_first = self.order.as_mut().is_some_and(|order| order.once_in(2));
        if own_work_first && self.answer(conn, now) {
            return true;
        }
        if let Some(event) = conn.poll_event() {
            self.on_event(conn, now, event);
            return true;
        }
        let did = self.answer(conn, now) || self.send_item(conn, now);
        self.settle_routes() || did
    }

    /// Which of `len` is next.
    fn pick(&mut self, len: usize) -> usize {
        self.order.as_mut().map_or(0, |order| order.below(len))
    }

    fn answer(&mut self, conn: &mut Connection, now: Instant) -> bool {
        let next = self.pick(self.waiting.len());
        if next >= self.waiting.len() {
            return false;
        }
        let Waiting { id, body, permit } = self.waiting.remove(next);
        match body.as_slice() {
            [b'e', ..] => drop(conn.respond(now, id, false, body)),
            [b'f', ..] => drop(conn.fail(now, id, &ErrorBody::from_handler("application_error", "no", None))),
            [b's', items, ..] => self.sending.push(Sending { id, left: *items, sent: 0, permit }),
            [b'h', ..] => drop(self.hanging.insert(id.correlation().value(), (id, permit))),
            _ => drop(conn.respond(now, id, false, Body::default())),
        }
        true
    }

    /// Routes that the registry still holds.
    #[must_use]
    pub fn routes(&self) -> usize {
        self.registry.len()
    }

    fn on_event(&mut self, conn: &mut Connection, now: Instant, event: Event) {
        match event {
            Event::RouteOpen { id, .. } => self.bind(conn, now, id),
            Event::Request { id, body, permit, .. } => self.dispatch(conn, now, id, body, permit),
            Event::Stop { id, .. } => {
                self.hanging.remove(&id.correlation().value());
                self.sending.retain(|one| one.id != id);
                self.waiting.retain(|one| one.id != id);
                let _ = conn.stopped(now, id);
            }
            Event::RouteClosed { route, .. } => self.close(route),
            Event::ShutdownCommitted => self.shutdown += 1,
            Event::ShutdownReopened => conn.latch_moved(now),
            Event::CandidateWanted { .. } => conn.decline_candidate(now),
            Event::Closed { reason } => {
                assert!(self.closed.is_none(), "CC6: the close is said once");
                self.closed = Some(reason);
                self.hanging.clear();
                self.sending.clear();
                self.waiting.clear();
            }
            Event::Active | Event::RouteOpenWithdrawn { .. } | Event::Room => {}
            other => unreachable!("an event that this embedder does not know: {other:?}"),
        }
    }

    fn bind(&mut self, conn: &mut Connection, now: Instant, id: RequestId) {
        let Ok(route) = self.registry.claim(self.owner) else {
            let _ = conn.reject_route(now, id, &HostCode::TargetUnavailable.into());
            return;
        };
        let Step::Publish(grant) = self.registry.bind_accepted(route) else {
            unreachable!("a fresh claim can be published")
        };
        self.binds += 1;
        if conn.accept_route(now, id, grant).is_err() {
            self.close(route);
        }
    }

    fn close(&mut self, route: RouteHandle) {
        match self.registry.close(route) {
            Step::RouteGone => {
                self.gone += 1;
                self.closing.push(route);
            }
            Step::Publish(_) | Step::Released | Step::Busy | Step::Nothing => {}
        }
    }

    fn dispatch(
        &mut self,
        conn: &mut Connection,
        now: Instant,
        id: RequestId,
        body: Body,
        permit: TaskPermit,
    ) {
        *self.dispatched.entry(id.correlation().value()).or_default() += 1;
        self.waiting.push(Waiting { id, body, permit });
        if self.order.is_none() {
            self.answer(conn, now);
        }
    }

    fn send_item(&mut self, conn: &mut Connection, now: Instant) -> bool {
        let next = self.pick(self.sending.len());
        let Some(one) = self.sending.get_mut(next) else { return false };
        if one.left == 0 {
            let one = self.sending.remove(next);
            let _ = conn.end_stream(now, one.id);
            drop(one.permit);
            return true;
        }
        match conn.item(now, one.id, true, Body::from(vec![one.sent; usize::from(one.sent)])) {
            Ok(()) => {
                one.left -= 1;
                one.sent += 1;
                true
            }
            Err(refused) if refused.why == ItemRefusal::Full => false,
            Err(_) => {
                self.sending.remove(next);
                true
            }
        }
    }

    fn settle_routes(&mut self) -> bool {
        let before = self.closing.len();
        let registry = &mut self.registry;
        self.closing.retain(|route| matches!(registry.gone(*route), Step::Busy));
        before != self.closing.len()
    }
}
