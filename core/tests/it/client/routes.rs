//! Routes: open, close, the host's Goodbye, and the races between them.

use super::harness::{
    LATE, active, active_with, assert_nothing_left, at, closed, feed, open, opened, route_open, routed,
    settled, settled_code, stream, unary,
};
use crate::raw::{T0, frame, frames, route, take_all};
use hostwire_core::client::{Event, Request};
use hostwire_core::fault::{CloseReason, PeerMisbehaved};
use hostwire_core::limits::ClientLimits;
use hostwire_core::outcome::{NotSentCode, Outcome, Terminal};
use hostwire_core::wire::FrameType;

fn success(corr: u64, channel: u16, epoch: u32) -> Vec<u8> {
    frame(FrameType::Response, 0x0A, (0, 0, corr), &opened(channel, epoch))
}

#[test]
fn a_closed_route_settles_its_requests_by_evidence_and_sends_one_goodbye() {
    let (mut conn, route) = routed();
    let other = open(&mut conn, 3, 8, 1);
    let sent = unary(&mut conn, route, b"a");
    let bystander = unary(&mut conn, other, b"b");
    take_all(&mut conn);
    let queued = stream(&mut conn, route);
    conn.close_route(T0, route);
    assert_eq!(settled_code(&mut conn, sent), ("route_closed", 22));
    assert_eq!(settled_code(&mut conn, queued), ("route_not_live", 0));
    let out = frames(&take_all(&mut conn));
    assert_eq!(
        out.iter().map(|f| (f.kind, f.identity.raw())).collect::<Vec<_>>(),
        [(FrameType::Goodbye, (7, 77, 0))]
    ); // R9
    conn.close_route(T0, route);
    assert!(conn.poll_transmit(T0).is_none(), "a repeat says nothing");
    let error = conn.request(T0, route, Request::unary(&b""[..], LATE)).unwrap_err();
    assert_eq!(error.code, NotSentCode::RouteNotLive); // B050
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (8, 1, 5), b""));
    assert!(matches!(settled(&mut conn, bystander), (Outcome::Terminal(_), _)));
}

#[test]
fn a_hosts_goodbye_ends_the_route_once_and_says_so() {
    let (mut conn, route) = routed();
    let sent = unary(&mut conn, route, b"a");
    take_all(&mut conn);
    let goodbye = frame(FrameType::Goodbye, 0, (7, 77, 0), b"");
    feed(&mut conn, &frame(FrameType::Goodbye, 0, (7, 76, 0), b"")); // F2: another epoch
    feed(&mut conn, &goodbye);
    assert_eq!(settled_code(&mut conn, sent), ("route_closed", 22));
    assert!(matches!(conn.poll_event(), Some(Event::RouteGone { route: which }) if which == route));
    feed(&mut conn, &goodbye);
    assert!(conn.poll_event().is_none() && conn.poll_transmit(T0).is_none());
    assert!(!conn.is_live(route));
}

#[test]
fn b050_a_reused_channel_does_not_know_its_old_handle() {
    let (mut conn, old) = routed();
    conn.close_route(T0, old);
    take_all(&mut conn);
    let new = open(&mut conn, 3, 7, 78);
    assert!(conn.is_live(new) && !conn.is_live(old));
    let error = conn.request(T0, old, Request::unary(&b""[..], LATE)).unwrap_err();
    assert_eq!(error.code, NotSentCode::RouteNotLive);
    conn.close_route(T0, old);
    assert!(conn.is_live(new), "R5");
}

#[test]
fn r8_an_abandoned_open_that_binds_after_all_is_released() {
    let mut conn = active();
    let op = conn.open_route(T0, &route_open(), at(50)).unwrap();
    take_all(&mut conn);
    conn.handle_timeout(at(50));
    let (code, handed) = settled_code(&mut conn, op);
    assert_eq!(code, "deadline_expired");
    assert!(handed > 21);
    assert!(conn.poll_transmit(T0).is_none(), "0/0 has no legal Cancel");
    feed(&mut conn, &success(2, 9, 4));
    let out = frames(&take_all(&mut conn));
    assert_eq!((out.len(), out[0].kind, out[0].identity.raw()), (1, FrameType::Goodbye, (9, 4, 0)));
    // A route that belongs to somebody is left alone.
    let live = open(&mut conn, 3, 7, 77);
    feed(&mut conn, &success(2, 7, 77));
    assert!(conn.is_live(live) && conn.poll_transmit(T0).is_none());
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 2), b"{}"));
    assert!(conn.poll_transmit(T0).is_none(), "no route, no Goodbye");
}

#[test]
fn ae8_a_close_that_races_an_open_wins() {
    let mut conn = active();
    let op = conn.open_route(T0, &route_open(), LATE).unwrap();
    take_all(&mut conn);
    conn.shutdown(T0); // R7
    assert_eq!(settled_code(&mut conn, op).0, "connection_lost");
    feed(&mut conn, &success(2, 9, 4));
    assert!(!conn.is_live(route(9, 4)));
    let out = frames(&take_all(&mut conn));
    assert_eq!((out.len(), out[0].kind, out[0].identity.raw()), (1, FrameType::Goodbye, (0, 0, 0)));
    assert_eq!(closed(&mut conn), CloseReason::Local);
    assert_nothing_left(&conn);
}

#[test]
fn f8_a_bad_route_success_retires_the_generation() {
    let cases: [(&[u8], PeerMisbehaved); 3] = [
        (br#"{"op":"route.open"}"#, PeerMisbehaved::RouteOpenMalformed),
        (&opened(3, 0), PeerMisbehaved::RouteOpenMalformed),
        (&opened(7, 99), PeerMisbehaved::RouteOpenLiveChannel),
    ];
    for (body, how) in cases {
        let (mut conn, _) = routed();
        let op = conn.open_route(T0, &route_open(), LATE).unwrap();
        take_all(&mut conn);
        assert!(conn.handle_input(T0, &frame(FrameType::Response, 0x0A, (0, 0, 3), body)).is_err());
        assert_eq!(settled_code(&mut conn, op).0, "connection_lost");
        assert_eq!(closed(&mut conn), CloseReason::Peer(how));
        assert_nothing_left(&conn);
    }
}

#[test]
fn v29_each_route_error_ends_one_correlation() {
    let mut conn = active();
    for n in 2..5 {
        let op = conn.open_route(T0, &route_open(), LATE).unwrap();
        assert_eq!(frames(&take_all(&mut conn))[0].identity.raw(), (0, 0, n));
        let body = br#"{"code":"unknown_module","message":""}"#;
        feed(&mut conn, &frame(FrameType::Error, 0x0A, (0, 0, n), body));
        let (outcome, _) = settled(&mut conn, op);
        assert!(
            matches!(outcome, Outcome::Terminal(Terminal::Error(error)) if error.code() == "unknown_module")
        );
    }
}

#[test]
fn r7_a_goodbye_without_room_closes_the_connection() {
    let mut conn = active_with(ClientLimits::default());
    let routes: Vec<_> = (0..29_u16).map(|n| open(&mut conn, u64::from(n) + 2, n + 1, 1)).collect();
    for route in &routes[..28] {
        conn.close_route(T0, *route); // B2: 28 of them
        assert!(!conn.is_closed());
    }
    conn.close_route(T0, routes[28]);
    assert_eq!(closed(&mut conn), CloseReason::ControlBacklog);
    assert_nothing_left(&conn);
}
