//! A client against an arbitrary host.

use super::STEPS;
use super::wire::{frame, give, wait, write};
use crate::choices::Choices;
use hostwire_core::client::{CatalogFilter, Connection, Event, OpId, Request, StreamPoll};
use hostwire_core::endpoint::Disconnect;
use hostwire_core::host::HostLimits;
use hostwire_core::limits::ClientLimits;
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use hostwire_core::wire::{FrameType, RouteHandle};
use hostwire_sim::{World, route_open};
use std::collections::BTreeSet;

struct Run {
    conn: Connection,
    limits: ClientLimits,
    now: Instant,
    ops: Vec<OpId>,
    settled: BTreeSet<OpId>,
    routes: Vec<RouteHandle>,
    closed: bool,
}

/// Plays an input's choices: commands, a host's frames, writes, time.
///
/// # Panics
/// If an operation settles twice or never, or something is left at the end.
pub fn client_session(data: &[u8]) {
    let mut u = Choices::new(data);
    let limits = ClientLimits {
        pending_requests: 1 + u.below(12),
        live_streams: 1 + u.below(4),
        stream_items: 1 + u.below(4),
        data_slots: 1 + u.below(12),
        retained_bytes: 500 + u.below(100_000),
        ..ClientLimits::default()
    };
    let world = World::with(limits, HostLimits::default()).with_route();
    let mut run = Run {
        conn: world.client,
        limits,
        now: world.now,
        ops: Vec::new(),
        settled: BTreeSet::new(),
        routes: world.route.into_iter().collect(),
        closed: false,
    };
    for _ in 0..STEPS {
        if u.is_empty() {
            break;
        }
        run.step(&mut u);
        run.check();
    }
    run.end();
}

impl Run {
    fn step(&mut self, u: &mut Choices<'_>) {
        match u.below(16) {
            0..=2 => self.request(u),
            3 => self.control(u),
            4 => self.cancel(u),
            5..=8 => self.frame(u),
            9 => {
                let bytes = u.bytes(40);
                give(u, &mut self.conn, self.now, &bytes);
            }
            10 | 11 => {
                if write(u, &mut self.conn, self.now) && u.once_in(2) {
                    self.conn.handle_disconnect(self.now, Disconnect::Exhausted);
                }
            }
            12 => wait(u, &mut self.conn, &mut self.now),
            13 => self.take_events(1 + u.below(8)),
            14 => self.take_items(),
            _ => self.rare(u),
        }
    }

    fn request(&mut self, u: &mut Choices<'_>) {
        let route = u.pick(&self.routes).or(RouteHandle::new(1 + u.below(3) as u16, 1 + u.below(2) as u32));
        let mut body = u.bytes(60);
        if u.once_in(12) {
            body.resize(70_000, 0);
        }
        let deadline = if u.once_in(3) { Instant::FAR_FUTURE } else { self.now + u.duration() };
        let request =
            Request { stream: u.once_in(3), binary: u.once_in(2), ..Request::unary(body.clone(), deadline) };
        match self.conn.request(self.now, route.expect("not zero"), request) {
            Ok(op) => self.ops.push(op),
            Err(refused) => assert_eq!(refused.body.as_slice(), body, "O1: the body comes back"),
        }
    }

    fn control(&mut self, u: &mut Choices<'_>) {
        let deadline = self.now + u.duration();
        let asked = match u.below(3) {
            0 => self.conn.open_route(self.now, &route_open(), deadline),
            1 => self.conn.catalog(self.now, CatalogFilter::new(None).expect("no filter"), deadline),
            _ => self.conn.host_shutdown(self.now, deadline),
        };
        self.ops.extend(asked.ok());
    }

    fn cancel(&mut self, u: &mut Choices<'_>) {
        let Some(op) = u.pick(&self.ops) else { return };
        match u.below(3) {
            0 => drop(self.conn.cancel(self.now, op)),
            1 => drop(self.conn.drop_op(self.now, op)),
            _ => drop(self.conn.confirm_cancel(self.now, op, self.now + u.duration())),
        }
    }

    fn frame(&mut self, u: &mut Choices<'_>) {
        let kinds = [
            FrameType::Response,
            FrameType::StreamData,
            FrameType::StreamEnd,
            FrameType::Error,
            FrameType::Response,
            FrameType::StreamData,
            FrameType::Ping,
            FrameType::Goodbye,
            FrameType::Push,
        ];
        let kind =
            if u.once_in(60) { u.pick(&FrameType::ALL) } else { u.pick(&kinds) }.expect("there are some");
        let corr = 2 + u.below(self.ops.len() + 3) as u64;
        let route = u.pick(&self.routes).or(RouteHandle::new(1, 1)).expect("not zero");
        let (channel, epoch) = (route.channel.value(), route.epoch.value());
        let identity = match kind {
            FrameType::Ping => (0, 0, corr),
            FrameType::Goodbye if u.once_in(30) => (0, 0, 0),
            FrameType::Goodbye | FrameType::Push => (channel, epoch, 0),
            _ if u.once_in(4) => (0, 0, corr),
            _ => (channel, epoch, corr),
        };
        let opened = format!(r#"{{"op":"route.open","route_channel":{},"route_epoch":1}}"#, 1 + u.below(4))
            .into_bytes();
        let catalog = br#"{"op":"catalog.list","generation":1,"modules":[],"subc_ops":[]}"#.to_vec();
        let mut body = match u.below(6) {
            _ if matches!(kind, FrameType::StreamEnd | FrameType::Ping | FrameType::Goodbye) => Vec::new(),
            0 => Vec::new(),
            1 => br#"{"code":"unknown_channel","message":"no"}"#.to_vec(),
            2 => opened,
            3 => catalog,
            4 => br#"{"op":"host.shutdown"}"#.to_vec(),
            _ => u.bytes(60),
        };
        if u.once_in(20) && !body.is_empty() {
            body.resize(70_000, b' ');
        }
        let binary = identity.0 != 0 && u.once_in(3);
        let bytes = frame(u, kind, identity, binary, &body);
        give(u, &mut self.conn, self.now, &bytes);
    }

    fn rare(&mut self, u: &mut Choices<'_>) {
        match u.below(24) {
            20 => self.conn.handle_eof(self.now),
            21 => self.conn.shutdown(self.now),
            22 => self.conn.handle_disconnect(self.now, Disconnect::ReadFailed),
            0..=6 => {
                if let Some(route) = u.pick(&self.routes) {
                    self.conn.close_route(self.now, route);
                }
            }
            _ => self.take_events(usize::MAX),
        }
    }

    fn take_events(&mut self, most: usize) {
        for _ in 0..most {
            let Some(event) = self.conn.poll_event() else { return };
            assert!(!self.closed, "CC6: nothing comes after the close");
            match event {
                Event::Settled { op, outcome, bytes_handed } => {
                    assert!(self.ops.contains(&op), "CC6: only what was admitted settles");
                    assert!(self.settled.insert(op), "CC6: once");
                    match outcome {
                        Outcome::NotSent { .. } => assert_eq!(bytes_handed, 0, "CC7"),
                        Outcome::Terminal(Terminal::RouteOpened(route)) => self.routes.push(route),
                        Outcome::Unknown { .. } | Outcome::Terminal(_) => {}
                    }
                }
                Event::RouteGone { route } => self.routes.retain(|one| *one != route),
                Event::Closed { .. } => self.closed = true,
                _ => {}
            }
        }
    }

    fn take_items(&mut self) {
        for op in &self.ops {
            while let StreamPoll::Item(_) = self.conn.take_item(*op) {}
        }
    }

    fn check(&self) {
        assert!(self.conn.pending_requests() <= self.limits.pending_requests, "B3");
        let [_, _, _, retained] = self.conn.footprint();
        assert!(retained <= self.limits.retained_bytes, "B4");
    }

    fn end(mut self) {
        self.conn.handle_disconnect(self.now, Disconnect::Abandoned);
        self.take_events(usize::MAX);
        self.take_items();
        assert!(self.closed && self.conn.is_closed(), "CC6: the close is said");
        assert_eq!(self.settled.len(), self.ops.len(), "CC6: every admitted operation settles");
        assert_eq!(self.conn.footprint(), [0; 4], "G6");
        assert!(self.conn.poll_transmit(self.now).is_none() && self.conn.deadline().is_none());
    }
}
