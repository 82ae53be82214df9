//! Both connections, both pipes and the clock: one step at a time, with the contract's rules checked on the way.

use crate::application::Application;
use crate::model::Model;
use crate::pipe::Pipe;
use crate::secrets::{client_config, host_shared, route_open, server_nonce};
use hostwire_core::client::{Connection as Client, Event, OpId, Request, StreamPoll, SubmitError};
use hostwire_core::control::RouteOpen;
use hostwire_core::endpoint::{Disconnect, Endpoint, Interest};
use hostwire_core::fault::CloseReason;
use hostwire_core::host::{Connection as Host, HostLimits, HostTimeouts, RouteClass, Shared};
use hostwire_core::limits::ClientLimits;
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use hostwire_core::wire::RouteHandle;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The result of a request, reduced to what the model can check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// With its code and whether its body came back whole.
    NotSent(&'static str),
    /// With its code.
    Unknown(&'static str),
    /// A terminal; its local code if it has one.
    Terminal(Option<&'static str>),
}

/// A client and a host.
pub struct World {
    /// The client's connection.
    pub client: Client,
    /// The host's connection.
    pub host: Host,
    /// What the host's connections share.
    pub shared: Arc<Shared>,
    /// From client to host.
    pub up: Pipe,
    /// From host to client.
    pub down: Pipe,
    /// The virtual clock.
    pub now: Instant,
    /// The host's embedder.
    pub app: Application,
    /// Results by correlation.
    pub settled: BTreeMap<u64, Settled>,
    /// Items taken, by correlation.
    pub items: BTreeMap<u64, Vec<Vec<u8>>>,
    /// The route that was opened last.
    pub route: Option<RouteHandle>,
    /// Why the client's connection ended.
    pub closed: Option<CloseReason>,
    /// The negotiation is done.
    pub ready: bool,
    /// Whether stream items are taken as they come.
    pub reading: bool,
    /// Steps made so far.
    pub steps: u64,
    ops: BTreeMap<OpId, u64>,
    /// Streams that may have items.
    readable: BTreeSet<OpId>,
    next: u64,
}

impl World {
    /// Two fresh connections with these limits.
    ///
    /// # Panics
    /// If the limits cannot hold.
    #[must_use]
    pub fn with(client: ClientLimits, host: HostLimits) -> Self {
        let shared = host_shared(host, HostTimeouts::default());
        let slot = shared.admit_handshake().expect("a free slot");
        Self {
            client: Client::new(Instant::ZERO, client_config(client)).expect("limits that hold"),
            host: Host::new(Instant::ZERO, slot, server_nonce(), Arc::clone(&shared)),
            shared,
            up: Pipe::default(),
            down: Pipe::default(),
            now: Instant::ZERO,
            app: Application::default(),
            settled: BTreeMap::new(),
            items: BTreeMap::new(),
            route: None,
            closed: None,
            ready: false,
            reading: true,
            steps: 0,
            ops: BTreeMap::new(),
            readable: BTreeSet::new(),
            next: 2,
        }
    }

    /// Two fresh connections with the defaults.
    #[must_use]
    pub fn fresh() -> Self {
        Self::with(ClientLimits::default(), HostLimits::default())
    }

    /// As [`World::fresh`], authenticated, negotiated, with one open route.
    ///
    /// # Panics
    /// If the route does not open.
    #[must_use]
    pub fn routed() -> Self {
        Self::fresh().with_route()
    }

    /// Goes on to one open route.
    ///
    /// # Panics
    /// If the route does not open.
    #[must_use]
    pub fn with_route(mut self) -> Self {
        self.run();
        self.open(&route_open(), Instant::FAR_FUTURE).expect("an active connection");
        self.run();
        assert!(self.route.is_some(), "{:?}", self.settled);
        self
    }

    /// Asks for a route; the correlation.
    ///
    /// # Errors
    /// As [`Client::open_route`].
    pub fn open(&mut self, open: &RouteOpen, deadline: Instant) -> Result<u64, SubmitError> {
        let op = self.client.open_route(self.now, open, deadline)?;
        Ok(self.admitted(op))
    }

    /// Sends a request on the open route; the correlation.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Panics
    /// Without a route.
    pub fn call(&mut self, body: &[u8], stream: bool, deadline: Instant) -> Result<u64, SubmitError> {
        let route = self.route.expect("a route");
        let request = Request { stream, ..Request::unary(body.to_vec(), deadline) };
        let op = self.client.request(self.now, route, request)?;
        Ok(self.admitted(op))
    }

    /// Asks the host to shut down; the correlation.
    ///
    /// # Errors
    /// As [`Client::host_shutdown`].
    pub fn host_shutdown(&mut self, deadline: Instant) -> Result<u64, SubmitError> {
        let op = self.client.host_shutdown(self.now, deadline)?;
        Ok(self.admitted(op))
    }

    /// Does something with the client at this moment and judges what it settles by the bytes so far.
    pub fn act<R>(&mut self, action: impl FnOnce(&mut Client, Instant) -> R) -> R {
        let result = action(&mut self.client, self.now);
        self.take_events();
        result
    }

    /// The operation of a correlation, while it is pending.
    #[must_use]
    pub fn op(&self, corr: u64) -> Option<OpId> {
        self.ops.iter().find(|(_, of)| **of == corr).map(|(op, _)| *op)
    }

    fn admitted(&mut self, op: OpId) -> u64 {
        let corr = self.next;
        self.next += 1;
        self.ops.insert(op, corr);
        corr
    }

    /// One round: each side writes, reads and handles what happened, once. Returns whether anything did.
    pub fn step(&mut self) -> bool {
        let mut moved = self.up.write(&mut self.client, self.now);
        moved |= self.take_events(); // at once: the model is asked about this very moment
        moved |= self.up.read(&mut self.host, self.now);
        moved |= self.app.turn(&mut self.host, self.now);
        moved |= self.down.write(&mut self.host, self.now);
        moved |= self.down.read(&mut self.client, self.now);
        moved |= self.take_events();
        moved |= self.note_ends();
        self.check();
        self.steps += 1;
        moved
    }

    /// Steps until nothing happens any more at this moment.
    ///
    /// # Panics
    /// If it never comes to rest.
    pub fn run(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Runs, and lets time pass whenever nothing happens, until `end` or until nothing is left to wait for.
    ///
    /// # Panics
    /// If time does not get there.
    pub fn run_until(&mut self, end: Instant) {
        for _ in 0..100_000 {
            self.run();
            let next = [
                self.client.deadline().map(|d| d.at),
                self.host.deadline().map(|d| d.at),
                // What has arrived already waits for its reader, not for time.
                self.up.next_arrival().filter(|at| *at > self.now),
                self.down.next_arrival().filter(|at| *at > self.now),
            ];
            match next.into_iter().flatten().min() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    self.run();
                    // X5: what has arrived by now has been read before timers are judged.
                    self.act(Client::handle_timeout);
                    self.host.handle_timeout(self.now);
                    let deadlines = [self.client.deadline(), self.host.deadline()];
                    let due = deadlines.into_iter().flatten().find(|deadline| deadline.at <= self.now);
                    assert_eq!(due, None, "CC5: progress at the deadline");
                }
                Some(_) | None => {
                    self.now = self.now.max(end);
                    return;
                }
            }
        }
        panic!("time does not pass: {:?} {:?}", self.client.deadline(), self.host.deadline());
    }

    fn take_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.client.poll_event() {
            any = true;
            assert!(self.closed.is_none(), "CC6: nothing comes after the close");
            match event {
                Event::Ready { .. } => self.ready = true,
                Event::Settled { op, outcome, bytes_handed } => self.on_settled(op, &outcome, bytes_handed),
                Event::Readable { op } => {
                    self.readable.insert(op);
                }
                Event::Granted { .. } => {}
                Event::RouteGone { route } => {
                    if self.route == Some(route) {
                        self.route = None;
                    }
                }
                Event::Closed { reason, .. } => self.closed = Some(reason),
                other => unreachable!("an event that the world does not know: {other:?}"),
            }
        }
        if self.reading {
            any |= self.take_items();
        }
        any
    }

    /// Takes every item that waits.
    pub fn take_items(&mut self) -> bool {
        let mut any = false;
        let Self { client, items, ops, readable, .. } = self;
        readable.retain(|op| {
            while let StreamPoll::Item(item) = client.take_item(*op) {
                any = true;
                items.entry(ops[op]).or_default().push(item.body.as_slice().to_vec());
            }
            false // until it says that it is readable again
        });
        any
    }

    fn on_settled(&mut self, op: OpId, outcome: &Outcome, handed: u64) {
        let corr = *self.ops.get(&op).expect("CC6: only what was admitted settles");
        let model = self.model();
        let evidence = model.evidence(corr);
        let handed = usize::try_from(handed).expect("a small frame");
        // The bytes of a header that is not whole belong to the one frame that has begun.
        let counted = if evidence.handed > 0 { evidence.handed } else { handed.min(model.tail()) };
        assert_eq!(handed, counted, "bytes handed of {corr}");
        let settled = match outcome {
            Outcome::NotSent { code, .. } => {
                assert_eq!(handed, 0, "CC7: {corr}");
                assert!(self.up.maybe == 0 || evidence.handed == 0, "CC8: {corr}");
                Settled::NotSent(code.as_str())
            }
            Outcome::Unknown { code } => {
                assert!(handed > 0 || self.up.maybe > 0, "O2: a byte may have left: {corr}");
                // A forged answer may be none, and that to a forged request comes before its time.
                let excused = outcome.code() == Some("stream_saturated") || self.forged();
                assert!(!evidence.answered || excused, "X5: {corr}");
                Settled::Unknown(code.as_str())
            }
            Outcome::Terminal(terminal) => {
                assert!(evidence.answered, "a terminal that nobody sent: {corr}");
                if let Terminal::RouteOpened(route) = terminal {
                    self.route = Some(*route);
                }
                Settled::Terminal(outcome.code())
            }
        };
        assert!(self.settled.insert(corr, settled).is_none(), "CC6: {corr} settled twice");
    }

    /// Sockets follow their connections: a closed one is closed, a failed write is followed by reading what has arrived (G4).
    fn note_ends(&mut self) -> bool {
        let quiet = |pipe: &Pipe| pipe.arrived(self.now) == 0 && pipe.next_arrival().is_none();
        let (no_more_down, no_more_up) = (quiet(&self.down), quiet(&self.up));
        let client = note_end(&mut self.client, &mut self.up, no_more_down, self.now);
        note_end(&mut self.host, &mut self.down, no_more_up, self.now) || client
    }

    /// Somebody was lied to.
    const fn forged(&self) -> bool {
        self.up.forged || self.down.forged
    }

    /// What the bytes say so far.
    ///
    /// # Panics
    /// If they are no frames (CC2).
    #[must_use]
    pub fn model(&self) -> Model {
        let sent = skip_messages(&self.up.accepted, 2);
        let reached = skip_messages(self.up.seen(), 2);
        let seen = skip_messages(self.down.seen(), 1);
        Model::of(sent, reached, seen, !self.down.forged)
    }

    /// Rules that hold after every step.
    fn check(&mut self) {
        wait(&mut self.client, self.now);
        wait(&mut self.host, self.now);
        // Whatever it could not write, a client whose events were taken reads on.
        let Interest { read, events, .. } = self.client.interest();
        assert!(read || events || self.client.is_closed() || self.down.ended, "CC4");
        for (corr, times) in &self.app.dispatched {
            assert_eq!(*times, 1, "V30: {corr} was dispatched more than once");
        }
        assert!(self.app.gone <= self.app.binds, "R6: route_gone at most once a bind");
    }

    /// Rules that hold once both connections have ended and everything was taken (G6).
    ///
    /// # Panics
    /// If one does not.
    pub fn check_ended(&mut self) {
        self.take_items();
        let model = self.model();
        for (corr, _) in self.app.dispatched.clone() {
            assert!(model.evidence(corr).arrived, "a dispatch without a whole frame: {corr}");
            if let (false, Some(Settled::NotSent(code))) = (self.up.forged, self.settled.get(&corr)) {
                panic!("CC7: {corr} ran and was called not_sent ({code})");
            }
        }
        assert_eq!(self.settled.len() as u64, self.next - 2, "CC6: every admitted operation settles");
        assert!(self.closed.is_some() && self.app.closed.is_some());
        assert_eq!(self.client.footprint(), [0; 4], "G6: client");
        assert_eq!((self.host.pending(), self.app.routes()), (0, 0), "G6: host");
        assert_eq!(self.app.gone, self.app.binds, "R6: route_gone once for each bind");
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

    /// Ends both sides by the client's own close and checks that nothing is left.
    ///
    /// # Panics
    /// If something is.
    pub fn close_and_check(&mut self) {
        self.act(Client::shutdown);
        self.run_until(Instant::FAR_FUTURE);
        self.check_ended();
    }
}

/// CC5: before the deadline the clock changes nothing.
fn wait(conn: &mut impl Endpoint, now: Instant) {
    let before = (conn.deadline(), conn.interest(), conn.is_closed());
    if before.0.is_none_or(|deadline| deadline.at > now) {
        conn.handle_timeout(now);
        assert_eq!((conn.deadline(), conn.interest(), conn.is_closed()), before, "CC5: no effect before");
    }
}

fn note_end(conn: &mut impl Endpoint, out: &mut Pipe, no_more: bool, now: Instant) -> bool {
    let over = conn.is_closed() || conn.interest().half_close;
    if over && !out.broken {
        out.broken = true;
        return true;
    }
    if out.broken && !over && no_more {
        conn.handle_disconnect(now, Disconnect::Exhausted);
        return true;
    }
    false
}

/// The bytes behind the first `n` length-prefixed messages; nothing if those are not whole.
fn skip_messages(bytes: &[u8], n: usize) -> &[u8] {
    let mut start = 0;
    for _ in 0..n {
        let Some(prefix) = bytes.get(start..).and_then(|rest| rest.first_chunk::<4>()) else { return &[] };
        start += 4 + u32::from_le_bytes(*prefix) as usize;
    }
    bytes.get(start..).unwrap_or_default()
}
