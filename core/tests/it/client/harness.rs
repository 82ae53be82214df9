//! A client connection with a raw host before it.

use crate::raw::{T0, client_nonce, credentials, frame, server_hello, take_all};
use hostwire_core::client::{Config, Connection, Event, OpId, Request};
use hostwire_core::control::{Identity, RouteOpen, Target};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::{ClientLimits, ClientTimeouts};
use hostwire_core::negotiate::OfferList;
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use hostwire_core::wire::{FrameType, RouteHandle};
use std::time::Duration;

pub(crate) const LATE: Instant = Instant::from_micros(1_000_000_000);

pub(crate) const TCP_SELECTED: &[u8] =
    br#"{"op":"transport.negotiate","negotiation_version":1,"selected":{"transport":"tcp","capability_version":1}}"#;

pub(crate) fn at(micros: u64) -> Instant {
    Instant::from_micros(micros)
}

pub(crate) fn config(limits: ClientLimits) -> Config {
    Config {
        credentials: credentials(),
        nonce: client_nonce(),
        role: "client".into(),
        offers: OfferList::tcp_only(),
        limits,
        timeouts: ClientTimeouts::default(),
        setup_deadline: T0 + Duration::from_secs(2),
    }
}

pub(crate) fn fresh() -> Connection {
    Connection::new(T0, config(ClientLimits::default())).unwrap()
}

pub(crate) fn feed(conn: &mut Connection, bytes: &[u8]) {
    feed_at(conn, T0, bytes);
}

pub(crate) fn feed_at(conn: &mut Connection, now: Instant, bytes: &[u8]) {
    assert_eq!(conn.handle_input(now, bytes), Ok(bytes.len()));
}

/// Authenticated and negotiated, nothing to say and nothing to tell.
pub(crate) fn active_with(limits: ClientLimits) -> Connection {
    let mut conn = Connection::new(T0, config(limits)).unwrap();
    take_all(&mut conn);
    feed(&mut conn, &server_hello());
    take_all(&mut conn);
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 1), TCP_SELECTED));
    assert!(matches!(conn.poll_event(), Some(Event::Ready { .. })));
    assert!(conn.poll_event().is_none());
    conn
}

pub(crate) fn active() -> Connection {
    active_with(ClientLimits::default())
}

pub(crate) fn route_open() -> RouteOpen {
    let target = Target::new("tool_provider", "lab").unwrap();
    RouteOpen::new(target, Identity::new("/", "test", "session").unwrap())
}

pub(crate) fn opened(channel: u16, epoch: u32) -> Vec<u8> {
    format!(r#"{{"op":"route.open","route_channel":{channel},"route_epoch":{epoch}}}"#).into_bytes()
}

/// Opens a route with correlation `corr`; the host names (channel, epoch).
pub(crate) fn open(conn: &mut Connection, corr: u64, channel: u16, epoch: u32) -> RouteHandle {
    let op = conn.open_route(T0, &route_open(), LATE).unwrap();
    take_all(conn);
    feed(conn, &frame(FrameType::Response, 0x0A, (0, 0, corr), &opened(channel, epoch)));
    match settled(conn, op) {
        (Outcome::Terminal(Terminal::RouteOpened(route)), _) => route,
        other => panic!("{other:?}"),
    }
}

/// An active connection with route 7/77; the next correlation is 3.
pub(crate) fn routed() -> (Connection, RouteHandle) {
    routed_with(ClientLimits::default())
}

pub(crate) fn routed_with(limits: ClientLimits) -> (Connection, RouteHandle) {
    let mut conn = active_with(limits);
    let route = open(&mut conn, 2, 7, 77);
    (conn, route)
}

/// The next event, which must settle `op`.
pub(crate) fn settled(conn: &mut Connection, op: OpId) -> (Outcome, u64) {
    match conn.poll_event() {
        Some(Event::Settled { op: which, outcome, bytes_handed }) if which == op => (outcome, bytes_handed),
        other => panic!("{other:?}"),
    }
}

/// The next event, which must settle `op` with one of the closed codes.
pub(crate) fn settled_code(conn: &mut Connection, op: OpId) -> (&'static str, u64) {
    let (outcome, handed) = settled(conn, op);
    (outcome.code().unwrap_or_else(|| panic!("{outcome:?}")), handed)
}

pub(crate) fn closed(conn: &mut Connection) -> CloseReason {
    match conn.poll_event() {
        Some(Event::Closed { reason, .. }) => {
            assert!(conn.poll_event().is_none(), "CC6: the close is the last event");
            assert!(conn.is_closed());
            reason
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn unary(conn: &mut Connection, route: RouteHandle, body: &[u8]) -> OpId {
    conn.request(T0, route, Request::unary(body.to_vec(), LATE)).unwrap()
}

pub(crate) fn stream(conn: &mut Connection, route: RouteHandle) -> OpId {
    conn.request(T0, route, Request::stream(b"{}".to_vec(), LATE)).unwrap()
}

pub(crate) fn routed_frame(kind: FrameType, corr: u64, body: &[u8]) -> Vec<u8> {
    frame(kind, 0x0A, (7, 77, corr), body)
}

/// Nothing of the generation is left (G6).
pub(crate) fn assert_nothing_left(conn: &Connection) {
    assert_eq!(conn.footprint(), [0; 4]);
    assert_eq!(conn.deadline(), None);
    let interest = Endpoint::interest(conn);
    assert!(!interest.read && !interest.write && !interest.events);
}
