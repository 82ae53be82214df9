//! A granted candidate: activate, commit, and everything that must not happen on the way (N10, N11).

use super::harness::{LATE, assert_nothing_left, closed, feed, opened, route_open, settled};
use crate::raw::{T0, frame, frames, server_hello, take_all};
use hostwire_core::client::{CandidateConfig, Config, Connection, Event, Transport};
use hostwire_core::endpoint::DeadlineReason;
use hostwire_core::fault::CloseReason;
use hostwire_core::json::RawJson;
use hostwire_core::limits::{ClientLimits, ClientTimeouts};
use hostwire_core::negotiate::{Grant, Offer, OfferList, TransportName};
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::wire::FrameType;
use std::num::NonZeroU32;
use std::time::Duration;

const GRANTED: &[u8] = br#"{"op":"transport.negotiate","negotiation_version":1,"selected":{"transport":"unix","capability_version":1},"activation_token":"000102030405060708090a0b0c0d0e0f","descriptor":{"path":"/run/x"}}"#;
const ACTIVATED: &[u8] = br#"{"op":"transport.activate","negotiation_version":1}"#;
const COMMITTED: &[u8] = br#"{"op":"transport.commit","negotiation_version":1}"#;

fn offers() -> OfferList {
    let offer = |name: &str| {
        Offer::new(TransportName::new(name).unwrap(), NonZeroU32::MIN, None::<&RawJson>).unwrap()
    };
    OfferList::new(vec![offer("unix"), offer("tcp")]).unwrap()
}

/// The bootstrap, with its grant.
fn granted() -> (Connection, Grant) {
    let config = Config { offers: offers(), ..super::harness::config(ClientLimits::default()) };
    let mut conn = Connection::new(T0, config).unwrap();
    take_all(&mut conn);
    feed(&mut conn, &server_hello());
    take_all(&mut conn);
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 1), GRANTED));
    match conn.poll_event() {
        Some(Event::Granted { grant }) => (conn, grant),
        other => panic!("{other:?}"),
    }
}

fn candidate() -> Connection {
    let (_, grant) = granted();
    let config = CandidateConfig {
        grant,
        limits: ClientLimits::default(),
        timeouts: ClientTimeouts::default(),
        setup_deadline: T0 + Duration::from_secs(2),
    };
    Connection::candidate(T0, config).unwrap()
}

fn answer(corr: u64, body: &[u8]) -> Vec<u8> {
    frame(FrameType::Response, 0x0A, (0, 0, corr), body)
}

#[test]
fn n10_a_candidate_activates_commits_and_goes_on_from_correlation_three() {
    let mut conn = candidate();
    let out = frames(&take_all(&mut conn));
    assert_eq!(out[0].identity.raw(), (0, 0, 1));
    let activate = r#"{"op":"transport.activate","negotiation_version":1,"activation_token":"000102030405060708090a0b0c0d0e0f"}"#;
    assert_eq!(String::from_utf8_lossy(&out[0].body), activate);
    feed(&mut conn, &frame(FrameType::Ping, 0, (0, 0, 1), b"")); // N13
    assert_eq!(frames(&take_all(&mut conn))[0].kind, FrameType::Pong);
    feed(&mut conn, &answer(1, ACTIVATED));
    let out = frames(&take_all(&mut conn));
    assert_eq!((out[0].identity.raw(), &out[0].body[..]), ((0, 0, 2), COMMITTED));
    assert!(conn.poll_event().is_none());
    assert!(conn.open_route(T0, &route_open(), LATE).is_err(), "N10: not routable until committed");
    feed(&mut conn, &answer(2, COMMITTED));
    assert!(matches!(conn.poll_event(), Some(Event::Ready { transport: Transport::Candidate })));
    assert_eq!(conn.deadline(), None);
    let op = conn.open_route(T0, &route_open(), LATE).unwrap();
    assert_eq!(frames(&take_all(&mut conn))[0].identity.raw(), (0, 0, 3));
    feed(&mut conn, &answer(3, &opened(7, 77)));
    assert!(matches!(settled(&mut conn, op).0, Outcome::Terminal(Terminal::RouteOpened(_))));
}

#[test]
fn n11_anything_else_on_a_candidate_retires_it() {
    let cases: [(u8, Vec<u8>); 8] = [
        (0, answer(2, ACTIVATED)),
        (0, answer(1, COMMITTED)),
        (0, frame(FrameType::Error, 0x0A, (0, 0, 1), br#"{"code":"x","message":""}"#)),
        (0, frame(FrameType::StreamData, 2, (7, 77, 1), b"")),
        (0, frame(FrameType::Goodbye, 0, (7, 77, 0), b"")),
        (1, answer(1, ACTIVATED)),
        (1, answer(2, ACTIVATED)),
        (1, frame(FrameType::Push, 2, (7, 77, 0), b"")),
    ];
    for (activated, bytes) in cases {
        let mut conn = candidate();
        take_all(&mut conn);
        if activated == 1 {
            feed(&mut conn, &answer(1, ACTIVATED));
            take_all(&mut conn);
        }
        assert!(conn.handle_input(T0, &bytes).is_err());
        assert!(matches!(closed(&mut conn), CloseReason::Candidate(_)));
        assert_nothing_left(&conn);
    }
}

#[test]
fn the_bootstrap_carries_nothing_more_and_shares_the_setup_deadline() {
    let (mut conn, grant) = granted();
    assert!(conn.poll_transmit(T0).is_none());
    assert!(conn.open_route(T0, &route_open(), LATE).is_err());
    let deadline = conn.deadline().unwrap();
    assert_eq!((deadline.at, deadline.reason), (T0 + Duration::from_secs(2), DeadlineReason::Handshake));
    feed(&mut conn, &frame(FrameType::Ping, 0, (0, 0, 1), b""));
    assert_eq!(frames(&take_all(&mut conn))[0].kind, FrameType::Pong);
    conn.handle_timeout(deadline.at);
    assert_eq!(closed(&mut conn), CloseReason::HandshakeTimeout);
    assert!(!format!("{grant:?}").contains("0001"), "N15");
}

#[test]
fn n11_the_end_of_the_bootstrap_is_the_candidates_until_the_commit_may_have_been_answered() {
    let mut conn = candidate();
    take_all(&mut conn);
    conn.bootstrap_ended(T0);
    assert_eq!(closed(&mut conn), CloseReason::Abandoned);
    assert_nothing_left(&conn);

    // A host that has committed may close the bootstrap at once: its answer is still on its way here.
    let mut conn = candidate();
    take_all(&mut conn);
    feed(&mut conn, &answer(1, ACTIVATED));
    take_all(&mut conn);
    conn.bootstrap_ended(T0);
    feed(&mut conn, &answer(2, COMMITTED));
    assert!(matches!(conn.poll_event(), Some(Event::Ready { transport: Transport::Candidate })));
    conn.bootstrap_ended(T0);
    assert!(conn.close_reason().is_none(), "N10");
}
