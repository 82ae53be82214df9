//! A host against an arbitrary client, with an arbitrary embedder.

use super::STEPS;
use super::wire::{frame, give, wait, write};
use crate::choices::Choices;
use hostwire_core::body::Body;
use hostwire_core::control::ErrorBody;
use hostwire_core::endpoint::Disconnect;
use hostwire_core::host::{
    Connection, Event, HostLimits, Owner, Registry, RequestId, RouteClass, Shared, Step, TaskPermit,
};
use hostwire_core::limits::ClientLimits;
use hostwire_core::time::Instant;
use hostwire_core::wire::{FrameType, RouteHandle};
use hostwire_sim::{World, route_open};
use std::collections::BTreeSet;
use std::sync::Arc;

struct Run {
    conn: Connection,
    shared: Arc<Shared>,
    now: Instant,
    registry: Registry,
    /// Binds that are out.
    binds: Vec<RequestId>,
    /// Every request that was ever handed over, stale ones included.
    requests: Vec<RequestId>,
    permits: Vec<TaskPermit>,
    routes: Vec<RouteHandle>,
    closing: Vec<RouteHandle>,
    dispatched: BTreeSet<u64>,
    corr: u64,
    closed: bool,
}

/// Plays an input's choices: a client's frames, the embedder's answers, writes, time.
///
/// # Panics
/// If a request is dispatched twice, the close is not the last event, or something is left at the end.
pub fn host_session(data: &[u8]) {
    let mut u = Choices::new(data);
    let limits = HostLimits {
        pending_requests: 2 + u.below(12),
        handler_tasks: 2 + u.below(12),
        writer_frames: 1 + u.below(8),
        ..HostLimits::default()
    };
    let mut world = World::with(ClientLimits::default(), limits);
    world.run();
    let mut run = Run {
        conn: world.host,
        shared: world.shared,
        now: world.now,
        registry: Registry::new(4),
        binds: Vec::new(),
        requests: Vec::new(),
        permits: Vec::new(),
        routes: Vec::new(),
        closing: Vec::new(),
        dispatched: BTreeSet::new(),
        corr: 1,
        closed: false,
    };
    run.first_route();
    for _ in 0..STEPS {
        if u.is_empty() {
            break;
        }
        run.step(&mut u);
    }
    run.end();
}

impl Run {
    /// Most of what can happen needs a route.
    fn first_route(&mut self) {
        let mut plain = Choices::new(&[]);
        self.corr += 1;
        let bytes = frame(&mut plain, FrameType::Request, (0, 0, self.corr), false, &route_open().encode());
        give(&mut plain, &mut self.conn, self.now, &bytes);
        self.take_events(usize::MAX);
        self.bind(&mut plain);
        assert_eq!(self.routes.len(), 1, "a first route");
        while write(&mut plain, &mut self.conn, self.now) || self.conn.interest().write {}
    }

    fn step(&mut self, u: &mut Choices<'_>) {
        match u.below(16) {
            0..=4 => self.frame(u),
            5 => {
                let bytes = u.bytes(40);
                give(u, &mut self.conn, self.now, &bytes);
            }
            6 | 7 => self.take_events(1 + u.below(6)),
            8 | 9 => self.answer(u),
            10 => self.bind(u),
            11 | 12 => {
                if write(u, &mut self.conn, self.now) && u.once_in(2) {
                    self.conn.handle_disconnect(self.now, Disconnect::Exhausted);
                }
            }
            13 => wait(u, &mut self.conn, &mut self.now),
            14 => drop(self.permits.pop()),
            _ => self.rare(u),
        }
    }

    fn frame(&mut self, u: &mut Choices<'_>) {
        let kinds = [
            FrameType::Request,
            FrameType::Request,
            FrameType::Request,
            FrameType::Cancel,
            FrameType::Pong,
            FrameType::Goodbye,
        ];
        let kind =
            if u.once_in(60) { u.pick(&FrameType::ALL) } else { u.pick(&kinds) }.expect("there are some");
        let route = u.pick(&self.routes).or(RouteHandle::new(1 + u.below(3) as u16, 1)).expect("not zero");
        let (channel, epoch) = (route.channel.value(), route.epoch.value());
        if kind == FrameType::Request && !u.once_in(16) {
            self.corr += 1;
        }
        let old = 1 + u.below(usize::try_from(self.corr).unwrap_or(1)) as u64;
        let control = u.once_in(3) || self.routes.is_empty();
        let identity = match kind {
            FrameType::Request if control => (0, 0, self.corr),
            FrameType::Request => (channel, epoch, self.corr),
            FrameType::Pong => (0, 0, old),
            FrameType::Goodbye if u.once_in(30) => (0, 0, 0),
            FrameType::Goodbye => (channel, epoch, 0),
            _ => (channel, epoch, old),
        };
        let mut body = match u.below(8) {
            _ if matches!(kind, FrameType::Cancel | FrameType::Pong | FrameType::Goodbye) => Vec::new(),
            0..=3 if identity.0 == 0 => route_open().encode(),
            4 => br#"{"op":"catalog.list"}"#.to_vec(),
            5 if u.once_in(8) => br#"{"op":"host.shutdown"}"#.to_vec(),
            6 if u.once_in(8) => br#"{"op":"transport.negotiate"}"#.to_vec(),
            _ => u.bytes(60),
        };
        if u.once_in(20) && !body.is_empty() {
            body.resize(70_000, b' ');
        }
        let binary = u.once_in(6);
        let bytes = frame(u, kind, identity, binary, &body);
        give(u, &mut self.conn, self.now, &bytes);
    }

    fn answer(&mut self, u: &mut Choices<'_>) {
        let Some(id) = u.pick(&self.requests) else { return };
        let mut body = u.bytes(40);
        if u.once_in(12) {
            body.resize(70_000, 0);
        }
        let now = self.now;
        match u.below(6) {
            0 => drop(self.conn.respond(now, id, u.once_in(2), Body::from(body))),
            1 => drop(self.conn.fail(now, id, &ErrorBody::from_handler("x", "y", None))),
            2 => drop(self.conn.item(now, id, true, Body::from(body))),
            3 => drop(self.conn.end_stream(now, id)),
            4 => drop(self.conn.busy(now, id)),
            _ => drop(self.conn.stopped(now, id)),
        }
    }

    fn bind(&mut self, u: &mut Choices<'_>) {
        if self.binds.is_empty() {
            return;
        }
        let id = self.binds.swap_remove(u.below(self.binds.len()));
        let Ok(route) = self.registry.claim(Owner(1)) else {
            let _ = self.conn.reject_route(self.now, id, &ErrorBody::from_bind("", "full", None));
            return;
        };
        if u.once_in(4) {
            let step = self.registry.bind_rejected(route);
            self.follow(route, step);
            let _ = self.conn.reject_route(self.now, id, &ErrorBody::from_bind("own_code", "no", Some(5)));
            return;
        }
        let Step::Publish(grant) = self.registry.bind_accepted(route) else { panic!("a fresh claim") };
        match self.conn.accept_route(self.now, id, grant) {
            Ok(()) => self.routes.push(route),
            Err(_) => {
                let step = self.registry.close(route);
                self.follow(route, step);
            }
        }
    }

    fn follow(&mut self, route: RouteHandle, step: Step) {
        match step {
            Step::RouteGone => self.closing.push(route),
            Step::Publish(_) => panic!("nothing is published twice"),
            Step::Released | Step::Busy | Step::Nothing => {}
        }
    }

    fn rare(&mut self, u: &mut Choices<'_>) {
        match u.below(40) {
            30 => self.conn.handle_eof(self.now),
            31 => self.conn.handle_disconnect(self.now, Disconnect::ReadFailed),
            32 => {
                self.shared.set_draining();
                self.conn.begin_drain(self.now);
            }
            33 => self.conn.stop_all(self.now),
            34 => self.conn.finish_drain(self.now),
            35 | 36 => self.conn.latch_moved(self.now),
            0..=5 => {
                if let Some(route) = u.pick(&self.routes) {
                    self.conn.close_route(self.now, route);
                }
            }
            _ => self.take_events(usize::MAX),
        }
    }

    fn take_events(&mut self, most: usize) {
        for _ in 0..most {
            let Some(event) = self.conn.poll_event() else { break };
            assert!(!self.closed, "CC6: nothing comes after the close");
            match event {
                Event::RouteOpen { id, .. } => self.binds.push(id),
                Event::RouteOpenWithdrawn { id } => self.binds.retain(|one| *one != id),
                Event::Request { id, permit, .. } => {
                    assert!(self.dispatched.insert(id.correlation().value()), "V30: once");
                    self.requests.push(id);
                    self.permits.push(permit);
                }
                Event::RouteClosed { route, .. } => {
                    self.routes.retain(|one| *one != route);
                    let step = self.registry.close(route);
                    self.follow(route, step);
                }
                Event::CandidateWanted { .. } => self.conn.decline_candidate(self.now),
                Event::Closed { .. } => self.closed = true,
                _ => {}
            }
        }
        let registry = &mut self.registry;
        self.closing.retain(|route| matches!(registry.gone(*route), Step::Busy));
    }

    fn end(mut self) {
        self.conn.handle_disconnect(self.now, Disconnect::Abandoned);
        self.take_events(usize::MAX);
        self.permits.clear();
        assert!(self.closed && self.conn.is_closed(), "CC6: the close is said");
        for id in self.requests.clone() {
            let _ = self.conn.stopped(self.now, id);
        }
        self.take_events(usize::MAX);
        assert_eq!((self.conn.pending(), self.registry.len(), self.closing.len()), (0, 0, 0), "G6");
        assert!(self.conn.poll_transmit(self.now).is_none() && self.conn.deadline().is_none());
        let admission = self.shared.admission();
        for class in [RouteClass::General, RouteClass::Reserved] {
            assert_eq!((admission.pending_in_use(class), admission.tasks_in_use(class)), (0, 0), "B9");
        }
        assert_eq!((admission.handshakes_in_use(), admission.connections_in_use()), (0, 0), "A8, A9");
        let resident = self.shared.resident();
        for pool in [resident.ingress(), resident.small(), resident.egress(), resident.scratch()] {
            assert_eq!(pool.used(), 0, "every charge was given back");
        }
    }
}
