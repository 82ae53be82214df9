//! A host's connections with a raw client before each.

use crate::raw::{Frame, T0, client_nonce, credentials, daemon_id, frame, frames, key, message, take, unhex};
use hostwire_core::auth::{ClientHandshake, MessageReader, Nonce};
use hostwire_core::body::Body;
use hostwire_core::control::{Manifest, Role, RouteClass};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::fault::{CloseReason, Fault};
use hostwire_core::host::*;
use hostwire_core::negotiate::Served;
use hostwire_core::time::Instant;
use hostwire_core::wire::{FrameType, HEADER_LEN, RouteHandle};
use std::sync::Arc;

pub(crate) const NEGOTIATE: &[u8] =
    br#"{"op":"transport.negotiate","negotiation_version":1,"offers":[{"transport":"tcp","capability_version":1}]}"#;
pub(crate) const SHUTDOWN: &[u8] = br#"{"op":"host.shutdown"}"#;
pub(crate) const CATALOG: &[u8] = br#"{"op":"catalog.list"}"#;
pub(crate) const OPEN_LAB: &str = r#"{"op":"route.open","target":{"kind":"tool_provider","module_id":"lab"},"identity":{"project_root":"/","harness":"h","session":"s"}}"#;

pub(crate) fn at(micros: u64) -> Instant {
    Instant::from_micros(micros)
}

pub(crate) fn secs(n: u64) -> Instant {
    at(n * 1_000_000)
}

/// `lab` (general) and `lab-reserved` (reserved class: 4 pending, 2 tasks).
pub(crate) fn config() -> HostConfig {
    let spec = |id: &str, role, class, reserved: (usize, usize)| ComponentSpec {
        manifest: Manifest::new(id, "1", role).unwrap().with_provides(["echo"]).unwrap().with_class(class),
        declaration: Declaration {
            reserved_pending: reserved.0,
            reserved_tasks: reserved.1,
            ..Declaration::default()
        },
    };
    HostConfig {
        limits: HostLimits::default(),
        timeouts: HostTimeouts::default(),
        key: key(),
        daemon_id: daemon_id(),
        daemon_ver: "example/0.1.0".into(),
        components: vec![
            spec("lab", Role::ToolProvider, RouteClass::General, (0, 0)),
            spec("lab-reserved", Role::ManagementSurface, RouteClass::Reserved, (4, 2)),
        ],
        served: Served::tcp_only(),
        catalog_generation: 1,
    }
}

/// The embedder: a registry over some connections.
pub(crate) struct Host {
    pub(crate) shared: Arc<Shared>,
    pub(crate) registry: Registry,
    owners: u64,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: HostConfig) -> Self {
        let registry = Registry::new(config.limits.routes);
        Self { shared: Shared::new(config).unwrap(), registry, owners: 0 }
    }

    pub(crate) fn limited(change: impl FnOnce(&mut HostLimits)) -> Self {
        let mut config = config();
        change(&mut config.limits);
        Self::with(config)
    }

    /// Accepted, nothing said yet.
    pub(crate) fn accept(&mut self) -> Conn {
        self.owners += 1;
        let slot = self.shared.admit_handshake().unwrap();
        let nonce = Nonce::new(std::array::from_fn(|n| 0x40 + n as u8));
        Conn {
            inner: Connection::new(T0, slot, nonce, Arc::clone(&self.shared)),
            owner: Owner(self.owners),
            corr: 0,
        }
    }

    /// Authenticated, nothing negotiated.
    pub(crate) fn authenticated(&mut self) -> Conn {
        let mut conn = self.accept();
        let (hello, auth) = handshake();
        conn.feed(&hello);
        conn.take_bytes();
        conn.feed(&auth);
        conn
    }

    /// The transport is selected, nothing to say and nothing to tell; the next correlation is 2.
    pub(crate) fn active(&mut self) -> Conn {
        let mut conn = self.authenticated();
        conn.control(NEGOTIATE);
        assert_eq!(conn.frames().len(), 1);
        assert!(matches!(conn.inner.poll_event(), Some(Event::Active)));
        assert!(conn.inner.poll_event().is_none());
        conn
    }

    /// Opens a route to `lab`.
    pub(crate) fn open(&mut self, conn: &mut Conn) -> RouteHandle {
        self.open_to(conn, OPEN_LAB)
    }

    pub(crate) fn open_reserved(&mut self, conn: &mut Conn) -> RouteHandle {
        let text =
            OPEN_LAB.replace("tool_provider", "management_surface").replace("\"lab\"", "\"lab-reserved\"");
        self.open_to(conn, &text)
    }

    fn open_to(&mut self, conn: &mut Conn, text: &str) -> RouteHandle {
        conn.control(text.as_bytes());
        let Some(Event::RouteOpen { id, .. }) = conn.inner.poll_event() else { panic!() };
        let route = self.registry.claim(conn.owner).unwrap();
        let Step::Publish(grant) = self.registry.bind_accepted(route) else { panic!() };
        conn.inner.accept_route(T0, id, grant).unwrap();
        let answer = conn.frames().remove(0);
        assert_eq!(answer.kind, FrameType::Response);
        route
    }

    /// An active connection with a route to `lab`.
    pub(crate) fn routed(&mut self) -> (Conn, RouteHandle) {
        let mut conn = self.active();
        let route = self.open(&mut conn);
        (conn, route)
    }
}

/// Both client messages for the fixed secrets: hello, and the auth that answers the fixed server hello.
pub(crate) fn handshake() -> (Vec<u8>, Vec<u8>) {
    let client = ClientHandshake::new(credentials(), client_nonce(), "client").unwrap();
    let hello = client.hello();
    let (_, body) = MessageReader::new().handle_input(&crate::raw::server_hello()).unwrap();
    let (auth, _) = client.handle_server_hello(&body.unwrap()).unwrap();
    (hello, auth)
}

/// The client's proof for the fixed secrets, as protocol.md §5 gives it.
pub(crate) fn fixed_auth() -> Vec<u8> {
    let proof = unhex("a833c73da0b7206ddf520661de0151f0871b8c5bc4ab15a1453bd6754063e4cd");
    let list: Vec<_> = proof.iter().map(u8::to_string).collect();
    message(&format!(r#"{{"client_auth":[{}]}}"#, list.join(",")))
}

/// A handed-over request.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: RequestId,
    pub(crate) body: Body,
    /// Held until the handler has ended (B9).
    pub(crate) _permit: TaskPermit,
}

pub(crate) struct Conn {
    pub(crate) inner: Connection,
    pub(crate) owner: Owner,
    pub(crate) corr: u64,
}

impl Conn {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.feed_at(T0, bytes);
    }

    pub(crate) fn feed_at(&mut self, now: Instant, bytes: &[u8]) {
        assert_eq!(self.inner.handle_input(now, bytes), Ok(bytes.len()));
    }

    /// Feeds whatever becomes of it.
    pub(crate) fn feed_any(&mut self, bytes: &[u8]) {
        let _ = self.inner.handle_input(T0, bytes);
    }

    /// Feeds what must end the generation at once; gives the reason.
    pub(crate) fn feed_fatal(&mut self, bytes: &[u8]) -> CloseReason {
        let Err(Fault(reason)) = self.inner.handle_input(T0, bytes) else { panic!("it goes on") };
        assert_eq!(self.inner.handle_input(T0, b"x"), Err(Fault(reason)), "CC11");
        assert!(self.inner.is_closed() && self.take_bytes().is_empty(), "nothing leaves");
        reason
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.corr += 1;
        self.corr
    }

    /// A control request under the next correlation.
    pub(crate) fn control(&mut self, body: &[u8]) -> u64 {
        let corr = self.next();
        self.feed(&frame(FrameType::Request, 0x02, (0, 0, corr), body));
        corr
    }

    pub(crate) fn request_bytes(&mut self, route: RouteHandle, body: &[u8]) -> Vec<u8> {
        let corr = self.next();
        routed(FrameType::Request, 0x02, route, corr, body)
    }

    /// A routed request under the next correlation.
    pub(crate) fn request(&mut self, route: RouteHandle, body: &[u8]) -> u64 {
        let bytes = self.request_bytes(route, body);
        self.feed(&bytes);
        self.corr
    }

    /// A request that is handed over.
    pub(crate) fn start(&mut self, route: RouteHandle) -> Job {
        self.request(route, b"work");
        self.job()
    }

    pub(crate) fn job(&mut self) -> Job {
        match self.inner.poll_event() {
            Some(Event::Request { id, body, permit, .. }) => Job { id, body, _permit: permit },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn cancel(&mut self, route: RouteHandle, corr: u64) {
        self.feed(&routed(FrameType::Cancel, 0, route, corr, b""));
    }

    pub(crate) fn goodbye(&mut self, route: RouteHandle) {
        self.feed(&routed(FrameType::Goodbye, 0, route, 0, b""));
    }

    /// Bytes that the next offer covers.
    pub(crate) fn waiting_bytes(&mut self) -> usize {
        let offer = self.inner.poll_transmit(T0).unwrap();
        let n = offer.len();
        offer.blocked();
        n
    }

    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        take(&mut self.inner, T0, usize::MAX, usize::MAX)
    }

    /// Whole frames, all that it has to say.
    pub(crate) fn frames(&mut self) -> Vec<Frame> {
        frames(&self.take_bytes())
    }

    /// The one frame that it has to say, as (correlation, code); a success has an empty code.
    pub(crate) fn said(&mut self) -> Vec<(u64, String)> {
        self.frames().iter().map(|frame| (frame.identity.raw().2, code(frame))).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.inner.poll_event()).collect()
    }

    /// All events, the last of which must be the close.
    pub(crate) fn closed(&mut self) -> (Vec<Event>, CloseReason) {
        let mut events = self.events();
        match events.pop() {
            Some(Event::Closed { reason }) => {
                assert!(!events.iter().any(|event| matches!(event, Event::Closed { .. })), "CC6");
                assert_eq!(self.inner.close_reason(), Some(reason));
                (events, reason)
            }
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn routed(kind: FrameType, flags: u8, route: RouteHandle, corr: u64, body: &[u8]) -> Vec<u8> {
    frame(kind, flags, (route.channel.value(), route.epoch.value(), corr), body)
}

/// What a frame says: an error's code, else its type.
pub(crate) fn code(frame: &Frame) -> String {
    match frame.kind {
        FrameType::Error => hostwire_core::control::ErrorBody::decode(&frame.body).unwrap().code().into(),
        kind => format!("{kind:?}"),
    }
}

/// Answers an offer by one byte and leaves the rest: a frame has begun.
pub(crate) fn begin(conn: &mut Connection) {
    conn.poll_transmit(T0).unwrap().written(1).unwrap();
}

/// Nothing of the generation is left (G6).
pub(crate) fn assert_nothing_left(conn: &Connection) {
    assert!(conn.is_closed());
    assert_eq!((conn.pending(), conn.routes().count(), conn.deadline()), (0, 0, None));
    let interest = Endpoint::interest(conn);
    assert!(!interest.read && !interest.write && !interest.half_close);
}

pub(crate) const HEADER: usize = HEADER_LEN;
