//! A client that says exactly what a test wants: the core's connection, driven by hand inside the test's own task.

use crate::candidate::unix_first;
use hostwire::core::auth::Nonce;
use hostwire::core::client::{
    CancelResult, CandidateConfig, CatalogFilter, Config, Connection, Event, OpId, Request, Stage, StreamPoll,
};
use hostwire::core::control::{ErrorBody, Identity, RouteOpen, Target};
use hostwire::core::fault::CloseReason;
use hostwire::core::limits::{ClientLimits, ClientTimeouts};
use hostwire::core::negotiate::{Grant, OfferList};
use hostwire::core::outcome::{Outcome, Terminal};
use hostwire::core::time::Instant;
use hostwire::core::wire::{Priority, RouteHandle};
use hostwire::discovery::{Location, read_snapshot};
use hostwire::drive::{Driver, Signal};
use hostwire::runtime::Runtime;
use hostwire::socket::{Socket, connect_tcp, connect_unix};
use hostwire::turn::Seat;
use std::collections::HashMap;
use std::future::poll_fn;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;
use std::time::Duration;

/// One connection of a client.
pub struct Peer<R: Runtime> {
    driver: Driver<R>,
    signal: Signal,
    seat: Table,
    runtime: R,
    fd: OwnedFd,
}

/// What has happened so far.
pub struct Table {
    core: Connection,
    ready: bool,
    outcomes: HashMap<OpId, Outcome>,
    items: HashMap<OpId, Vec<Vec<u8>>>,
    granted: Option<Grant>,
    closed: Option<(CloseReason, Stage)>,
}

impl Seat for Table {
    type Core = Connection;

    fn with<T>(&mut self, step: impl FnOnce(&mut Connection) -> T) -> T {
        step(&mut self.core)
    }

    fn settle(&mut self, _: Instant) -> bool {
        let mut any = false;
        while let Some(event) = self.core.poll_event() {
            any = true;
            match event {
                Event::Ready { .. } => self.ready = true,
                Event::Settled { op, outcome, .. } => drop(self.outcomes.insert(op, outcome)),
                Event::Readable { op } => {
                    while let StreamPoll::Item(item) = self.core.take_item(op) {
                        self.items.entry(op).or_default().push(item.body.into_vec());
                    }
                }
                Event::Closed { reason, stage } => self.closed = Some((reason, stage)),
                Event::Granted { grant } => self.granted = Some(grant),
                Event::RouteGone { .. } | _ => {}
            }
        }
        any
    }
}

/// What a route to the lab is asked for with.
///
/// # Panics
/// On a session that is none.
#[must_use]
pub fn to(kind: &str, module_id: &str, session: &str) -> RouteOpen {
    let target = Target::new(kind, module_id).expect("a target");
    RouteOpen::new(target, Identity::new("/project", "test", session).expect("an identity"))
}

/// The error that ended a request.
///
/// # Panics
/// If something else did.
#[must_use]
pub fn error_of(outcome: Outcome) -> ErrorBody {
    let seen = format!("{outcome:?}");
    let Outcome::Terminal(Terminal::Error(error)) = outcome else { panic!("{seen}") };
    error
}

/// The answer of a request: its binary bit and its body.
///
/// # Panics
/// If something else ended it.
#[must_use]
pub fn response_of(outcome: Outcome) -> (bool, Vec<u8>) {
    let seen = format!("{outcome:?}");
    let Outcome::Terminal(Terminal::Response { binary, body }) = outcome else { panic!("{seen}") };
    (binary, body.into_vec())
}

/// Where a granted candidate is.
///
/// # Panics
/// If the descriptor does not say.
#[must_use]
pub fn path_of(grant: &Grant) -> PathBuf {
    let descriptor = grant.descriptor().value().object().expect("an object");
    let path = descriptor.field("path").required().expect("a path");
    PathBuf::from(path.string(4_096).expect("text").into_owned())
}

impl<R: Runtime> Peer<R> {
    /// Dials the published host; the handshake has not begun.
    ///
    /// # Panics
    /// If there is none.
    pub async fn dial(runtime: &R, location: &Location) -> Self {
        Self::dial_offering(runtime, location, OfferList::tcp_only()).await
    }

    /// Dials the published host, to offer these transports.
    ///
    /// # Panics
    /// If there is none.
    pub async fn dial_offering(runtime: &R, location: &Location, offers: OfferList) -> Self {
        let place = location.clone();
        let read = runtime.blocking(move || read_snapshot(&place)).await;
        let document = read.expect("read").expect("a connection file");
        let socket = connect_tcp(runtime, document.port.get()).await.expect("a listener");
        static ATTEMPT: AtomicU8 = AtomicU8::new(0);
        // Items are taken between turns only.
        let limits = ClientLimits { stream_items: 100_000, ..ClientLimits::default() };
        let config = Config {
            credentials: document.credentials,
            nonce: Nonce::new([ATTEMPT.fetch_add(1, Ordering::Relaxed); 32]),
            role: "client".into(),
            offers,
            limits,
            timeouts: ClientTimeouts::default(),
            setup_deadline: runtime.now() + Duration::from_secs(3_000),
        };
        let core = Connection::new(runtime.now(), config).expect("a configuration");
        Self::over(runtime, socket, core)
    }

    fn over(runtime: &R, socket: R::Io, core: Connection) -> Self {
        let seat = Table {
            core,
            ready: false,
            outcomes: HashMap::new(),
            items: HashMap::new(),
            granted: None,
            closed: None,
        };
        let fd = socket.as_fd().try_clone_to_owned().expect("a descriptor");
        let driver = Driver::new(runtime.clone(), Socket::new(socket));
        Self { driver, signal: Signal::default(), seat, runtime: runtime.clone(), fd }
    }

    /// Dials and goes through authentication and negotiation.
    ///
    /// # Panics
    /// If the host does not let it in.
    pub async fn connect(runtime: &R, location: &Location) -> Self {
        let mut peer = Self::dial(runtime, location).await;
        peer.ready().await;
        peer
    }

    /// Dials, and goes as far as the grant of a Unix domain socket.
    ///
    /// # Panics
    /// If the host grants none.
    pub async fn granted(runtime: &R, location: &Location) -> (Self, Grant) {
        let mut peer = Self::dial_offering(runtime, location, unix_first()).await;
        let grant = peer.until(|table| table.granted.take()).await;
        (peer, grant)
    }

    /// The granted candidate, connected and about to activate.
    ///
    /// # Panics
    /// If nobody listens there.
    pub async fn candidate(runtime: &R, grant: Grant) -> Self {
        let socket = connect_unix(runtime, &path_of(&grant)).expect("a door");
        let config = CandidateConfig {
            grant,
            limits: ClientLimits::default(),
            timeouts: ClientTimeouts::default(),
            setup_deadline: runtime.now() + Duration::from_secs(3_000),
        };
        let core = Connection::candidate(runtime.now(), config).expect("a configuration");
        Self::over(runtime, socket, core)
    }

    /// Waits until requests can be made.
    ///
    /// # Panics
    /// If the connection ends first.
    pub async fn ready(&mut self) {
        self.until(|table| (table.ready || table.closed.is_some()).then_some(())).await;
        assert!(self.seat.ready, "{:?}", self.seat.closed);
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.seat.closed.is_some()
    }

    /// Drives the connection until the table says something.
    pub async fn until<T>(&mut self, mut found: impl FnMut(&mut Table) -> Option<T>) -> T {
        let Self { driver, signal, seat, .. } = self;
        poll_fn(|cx| {
            let mut over = seat.closed.is_some();
            loop {
                if let Some(value) = found(seat) {
                    return Poll::Ready(value);
                }
                if over {
                    return Poll::Pending;
                }
                over = driver.poll(cx, signal, seat).is_ready();
                if let Some(value) = found(seat) {
                    return Poll::Ready(value);
                }
                if !over {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Asks for a route.
    ///
    /// # Errors
    /// The host's.
    ///
    /// # Panics
    /// If the connection ends first.
    pub async fn open(&mut self, open: &RouteOpen) -> Result<RouteHandle, ErrorBody> {
        let op = self.start_open(open);
        let outcome = self.outcome(op).await;
        if let Outcome::Terminal(Terminal::RouteOpened(route)) = outcome {
            Ok(route)
        } else {
            Err(error_of(outcome))
        }
    }

    /// A route to `lab`.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn lab(&mut self) -> RouteHandle {
        self.open(&to("tool_provider", "lab", "session")).await.expect("a route")
    }

    /// Asks for a route and does not wait.
    ///
    /// # Panics
    /// If the connection is over.
    pub fn start_open(&mut self, open: &RouteOpen) -> OpId {
        let (now, deadline) = self.times();
        self.seat.core.open_route(now, open, deadline).expect("submitted")
    }

    /// Starts a request and does not wait.
    ///
    /// # Panics
    /// If the connection is over.
    pub fn start(&mut self, route: RouteHandle, body: &str, stream: bool) -> OpId {
        let (now, deadline) = self.times();
        let body = body.as_bytes().to_vec().into();
        let request = Request { body, binary: false, priority: Priority::Interactive, stream, deadline };
        self.seat.core.request(now, route, request).expect("submitted")
    }

    /// The module IDs of the catalog, in its order.
    ///
    /// # Panics
    /// If the connection is over, or the answer is another.
    pub async fn catalog(&mut self) -> Vec<String> {
        let (now, deadline) = self.times();
        let filter = CatalogFilter::new(None).expect("a filter");
        let op = self.seat.core.catalog(now, filter, deadline).expect("submitted");
        let outcome = self.outcome(op).await;
        let seen = format!("{outcome:?}");
        let Outcome::Terminal(Terminal::Catalog(catalog)) = outcome else { panic!("{seen}") };
        catalog.modules.iter().map(|module| module.module_id.to_string()).collect()
    }

    /// Starts `host.shutdown`.
    ///
    /// # Panics
    /// If the connection is over.
    pub fn start_shutdown(&mut self) -> OpId {
        let (now, deadline) = self.times();
        self.seat.core.host_shutdown(now, deadline).expect("submitted")
    }

    fn times(&self) -> (Instant, Instant) {
        let now = self.runtime.now();
        (now, now + Duration::from_secs(3_000))
    }

    /// The outcome of what was started.
    pub async fn outcome(&mut self, op: OpId) -> Outcome {
        self.until(|table| table.outcomes.remove(&op)).await
    }

    /// Whether it is known.
    #[must_use]
    pub fn has_outcome(&self, op: OpId) -> bool {
        self.seat.outcomes.contains_key(&op)
    }

    /// Drives for as long as `other` takes.
    pub async fn during<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = std::pin::pin!(other);
        poll_fn(|cx| {
            if self.seat.closed.is_none() {
                let _ = self.driver.poll(cx, &self.signal, &mut self.seat);
            }
            Pin::new(&mut other).poll(cx)
        })
        .await
    }

    /// Waits until what was queued has left.
    pub async fn flushed(&mut self) {
        self.until(|table| (!table.core.interest().write).then_some(())).await;
    }

    /// A request and its outcome.
    pub async fn ask(&mut self, route: RouteHandle, body: &str) -> Outcome {
        let op = self.start(route, body, false);
        self.outcome(op).await
    }

    /// A request and its text.
    ///
    /// # Panics
    /// If the answer is another.
    pub async fn text(&mut self, route: RouteHandle, body: &str) -> String {
        let (_, body) = response_of(self.ask(route, body).await);
        String::from_utf8(body).expect("text")
    }

    /// The code of a request's error.
    ///
    /// # Panics
    /// If the answer is another.
    pub async fn code(&mut self, op: OpId) -> String {
        error_of(self.outcome(op).await).code().to_owned()
    }

    /// Cancels a request and waits for proof (X4).
    ///
    /// # Panics
    /// If it is over.
    pub fn confirm_cancel(&mut self, op: OpId) {
        let (now, deadline) = self.times();
        let how = self.seat.core.confirm_cancel(now, op, deadline);
        assert!(!matches!(how, CancelResult::AlreadySettled), "{how:?}");
    }

    /// Closes a route.
    pub fn close_route(&mut self, route: RouteHandle) {
        self.seat.core.close_route(self.runtime.now(), route);
    }

    /// The items of a stream so far.
    #[must_use]
    pub fn items(&self, op: OpId) -> &[Vec<u8>] {
        self.seat.items.get(&op).map_or(&[], Vec::as_slice)
    }

    /// Shuts the socket down for writing.
    ///
    /// # Panics
    /// If the socket is none.
    pub fn half_close(&self) {
        rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Write).expect("a connected socket");
    }

    /// Waits for the end of the connection.
    pub async fn closed(&mut self) -> (CloseReason, Stage) {
        self.until(|table| table.closed).await
    }
}
