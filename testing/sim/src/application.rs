//! A host's embedder. A request's first byte says what its handler does:
//!
//! | byte | handler |
//! | --- | --- |
//! | `e` | answers with the body |
//! | `f` | answers `Error{application_error}` |
//! | `s` | sends as many items as the second byte says, then the end |
//! | `h` | never answers; ends when it is told to |
//! | other | answers with an empty body |

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

/// The embedder of one connection.
#[derive(Debug)]
pub struct Application {
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
    /// Takes one event and does what it asks for; sends one stream item if there is none. Returns whether anything happened.
    pub fn turn(&mut self, conn: &mut Connection, now: Instant) -> bool {
        if let Some(event) = conn.poll_event() {
            self.on_event(conn, now, event);
            return true;
        }
        let sent = self.send_item(conn, now);
        self.settle_routes() || sent
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
        let corr = id.correlation().value();
        *self.dispatched.entry(corr).or_default() += 1;
        match body.as_slice() {
            [b'e', ..] => drop(conn.respond(now, id, false, body)),
            [b'f', ..] => drop(conn.fail(now, id, &ErrorBody::from_handler("application_error", "no", None))),
            [b's', items, ..] => self.sending.push(Sending { id, left: *items, sent: 0, permit }),
            [b'h', ..] => drop(self.hanging.insert(corr, (id, permit))),
            _ => drop(conn.respond(now, id, false, Body::default())),
        }
    }

    fn send_item(&mut self, conn: &mut Connection, now: Instant) -> bool {
        let Some(one) = self.sending.first_mut() else { return false };
        if one.left == 0 {
            let one = self.sending.remove(0);
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
                self.sending.remove(0);
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
