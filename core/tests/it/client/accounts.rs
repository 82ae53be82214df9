//! What a client's connection counts, holds and says of itself, to the last unit.

use super::harness::*;
use crate::raw::{T0, frame, take, take_all};
use hostwire_core::body::Body;
use hostwire_core::client::{CancelResult, Config, Connection, Event, Request, StreamPoll};
use hostwire_core::endpoint::{Deadline, DeadlineReason, Disconnect, Endpoint, WriteFailure};
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::ClientLimits;
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::transmit::MAX_SEGMENTS;
use hostwire_core::wire::{FrameType, RouteHandle};
use std::time::Duration;

fn open_on(conn: &mut Connection, corr: u64, channel: u16) -> RouteHandle {
    open(conn, corr, channel, 1)
}

#[test]
fn b3_before_the_selection_there_is_no_live_route() {
    let mut conn = fresh();
    let (_, route) = routed();
    let error = conn.request(T0, route, Request::unary(&b"x"[..], LATE)).unwrap_err();
    assert_eq!((error.code.as_str(), error.body.as_slice()), ("route_not_live", &b"x"[..]));
}

#[test]
fn w7_a_body_of_64_mib_is_admitted_and_one_byte_more_comes_back() {
    let (mut conn, route) = routed();
    let sized = |len: usize| Request::unary(Body::from(vec![0; len]), LATE);
    let error = conn.request(T0, route, sized(67_108_865)).unwrap_err();
    assert_eq!((error.code.as_str(), error.body.len()), ("body_too_large", 67_108_865));
    conn.request(T0, route, sized(67_108_864)).unwrap();
}

#[test]
fn g4_reading_on_waits_for_events_as_well() {
    let (mut conn, route) = routed_with(ClientLimits { data_slots: 400, ..ClientLimits::default() });
    let ops: Vec<_> = (0..300).map(|_| unary(&mut conn, route, b"")).collect();
    take_all(&mut conn);
    unary(&mut conn, route, b"more");
    conn.poll_transmit(T0).unwrap().failed(WriteFailure::NothingAccepted);
    let wire: Vec<u8> = (3..303).flat_map(|corr| routed_frame(FrameType::Response, corr, b"abc")).collect();
    assert_eq!(conn.handle_input(T0, &wire), Ok(256 * 24));
    let mut settled = 0;
    while let Some(Event::Settled { outcome: Outcome::Terminal(_), .. }) = conn.poll_event() {
        settled += 1;
    }
    assert_eq!(conn.handle_input(T0, &wire[256 * 24..]), Ok(44 * 24));
    while let Some(Event::Settled { outcome: Outcome::Terminal(_), .. }) = conn.poll_event() {
        settled += 1;
    }
    assert_eq!(settled, ops.len());
}

#[test]
fn g4_what_is_read_on_ends_at_a_mebibyte_within_one_input() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"a");
    take_all(&mut conn);
    unary(&mut conn, route, b"b");
    conn.poll_transmit(T0).unwrap().failed(WriteFailure::NothingAccepted);
    let junk = routed_frame(FrameType::Response, 99, &[0; 65_536 - 21]).repeat(17);
    assert!(conn.handle_input(T0, &junk).is_err());
    assert_eq!(settled_code(&mut conn, op).0, "connection_lost");
}

#[test]
fn z2_bytes_that_came_by_lease_are_counted_as_those_that_were_fed() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    let before = conn.counters().received.bytes;
    let answer = routed_frame(FrameType::Response, 3, &[7; 100_000]);
    feed(&mut conn, &answer[..1_000]);
    let mut lease = conn.lease_body().unwrap();
    let n = lease.room().min(30_000);
    lease.buffer().extend_from_slice(&answer[1_000..1_000 + n]);
    conn.return_body(T0, lease);
    assert_eq!(conn.counters().received.bytes, before + 1_000 + n as u64);
    feed(&mut conn, &answer[1_000 + n..]);
    assert!(matches!(settled(&mut conn, op), (Outcome::Terminal(_), 21)));
    assert_eq!(conn.counters().received.bytes, before + answer.len() as u64);
}

#[test]
fn z2_the_most_that_was_retained_and_the_bodies_that_were_lost_are_counted() {
    let (mut conn, route) = routed_with(ClientLimits { retained_bytes: 100, ..ClientLimits::default() });
    let ops = [unary(&mut conn, route, b""), unary(&mut conn, route, b""), unary(&mut conn, route, b"")];
    take_all(&mut conn);
    feed(&mut conn, &routed_frame(FrameType::Response, 3, &[1; 90]));
    feed(&mut conn, &routed_frame(FrameType::Response, 4, &[1; 90]));
    feed(&mut conn, &routed_frame(FrameType::Error, 5, &[b'x'; 90]));
    let kept = settled(&mut conn, ops[0]);
    for op in &ops[1..] {
        assert_eq!(settled_code(&mut conn, *op), ("response_discarded", 21), "B4");
    }
    assert_eq!((conn.counters().retained_high_water, conn.counters().discarded), (90, 2));
    drop(kept);
}

#[test]
fn g6_a_footprint_counts_each_thing_that_is_held() {
    let (mut conn, route) = routed();
    let answered = stream(&mut conn, route);
    take_all(&mut conn);
    feed(&mut conn, &routed_frame(FrameType::StreamData, 3, b"item"));
    let withdrawn = unary(&mut conn, route, &[1; 50]);
    assert_eq!(conn.cancel(T0, withdrawn), CancelResult::Withdrawn);
    unary(&mut conn, route, &[2; 30]);
    assert_eq!(conn.pending_requests(), 2);
    // Two entries, a readable stream and a settlement to tell, one route; two timers; a frame and a body on its way back; one item.
    assert_eq!(conn.footprint(), [5, 2, 51 + 50, 4]);
    assert!(matches!(conn.poll_event(), Some(Event::Readable { op }) if op == answered));
    assert!(matches!(conn.take_item(answered), StreamPoll::Item(_)));
    assert!(matches!(conn.take_item(answered), StreamPoll::Pending));
    assert!(matches!(settled(&mut conn, withdrawn), (Outcome::NotSent { .. }, 0)));
    assert_eq!(conn.footprint(), [3, 2, 51, 0]);
}

#[test]
fn g3_a_close_ends_with_the_last_byte_of_its_goodbye_and_not_before() {
    let (mut conn, _) = routed();
    conn.shutdown(T0);
    assert_eq!(take(&mut conn, T0, 20, 1).len(), 20);
    assert!(!conn.is_closed() && conn.poll_event().is_none());
    assert_eq!(take(&mut conn, T0, 1, 1).len(), 1);
    assert_eq!(closed(&mut conn), CloseReason::Local);
}

#[test]
fn b2_cancels_and_goodbyes_together_have_28_slots() {
    let mut conn = active();
    let routes: Vec<_> = (0..13).map(|n| open_on(&mut conn, 2 + u64::from(n), 10 + n)).collect();
    let route = open_on(&mut conn, 15, 100);
    let ops: Vec<_> = (0..16).map(|_| unary(&mut conn, route, b"x")).collect();
    take_all(&mut conn);
    routes.iter().for_each(|route| conn.close_route(T0, *route));
    for op in &ops {
        conn.cancel(T0, *op);
    }
    assert_eq!(conn.counters().cancels_unsent, 1, "13 and 15 are 28");
    let said = crate::raw::frames(&take_all(&mut conn));
    let count = |kind| said.iter().filter(|frame| frame.kind == kind).count();
    assert_eq!((count(FrameType::Goodbye), count(FrameType::Cancel)), (13, 15));
}

#[test]
fn x4_without_time_to_wait_a_confirmed_cancel_is_a_cancel() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"x");
    take_all(&mut conn);
    assert_eq!(conn.confirm_cancel(at(5), op, at(5)), CancelResult::Cancelled);
    assert_eq!(settled_code(&mut conn, op), ("cancelled", 22));
}

#[test]
fn n1_only_the_first_correlation_answers_the_negotiation_and_only_once() {
    let mut conn = Connection::new(T0, config(ClientLimits::default())).unwrap();
    take_all(&mut conn);
    feed(&mut conn, &crate::raw::server_hello());
    take_all(&mut conn);
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 2), TCP_SELECTED));
    assert!(conn.poll_event().is_none());
    assert_eq!(conn.counters().dropped_unmatched, 1, "F5");
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 1), TCP_SELECTED));
    assert!(matches!(conn.poll_event(), Some(Event::Ready { .. })));
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 1), TCP_SELECTED));
    assert_eq!(conn.counters().dropped_unmatched, 2, "F5");
    assert!(!conn.is_closed() && conn.poll_event().is_none());
}

#[test]
fn f5_an_error_on_the_control_channel_that_answers_nothing_is_not_buffered() {
    let mut conn = active();
    conn.host_shutdown(T0, LATE).unwrap();
    take_all(&mut conn);
    for (corr, buffered) in [(9, false), (2, true)] {
        let error = frame(FrameType::Error, 0x0A, (0, 0, corr), &[b' '; 65_536]);
        feed(&mut conn, &error[..100]);
        let lease = conn.lease_body();
        assert_eq!(lease.is_some(), buffered);
        lease.into_iter().for_each(|lease| conn.return_body(T0, lease));
        feed(&mut conn, &error[100..]);
    }
    assert_eq!(conn.counters().dropped_unmatched, 1);
}

#[test]
fn f6_a_response_to_a_stream_is_not_buffered_and_its_error_is() {
    let (mut conn, route) = routed();
    let ops = [stream(&mut conn, route), stream(&mut conn, route)];
    take_all(&mut conn);
    for (corr, kind, held) in [(3, FrameType::Response, false), (4, FrameType::Error, true)] {
        let answer = routed_frame(kind, corr, &[b' '; 5_000]);
        feed(&mut conn, &answer[..2_000]);
        assert_eq!(conn.footprint()[3] > 0, held, "{kind:?}");
        feed(&mut conn, &answer[2_000..]);
    }
    assert_eq!(settled_code(&mut conn, ops[0]), ("unexpected_response", 23));
    assert_eq!(settled_code(&mut conn, ops[1]), ("malformed_error", 23));
}

#[test]
fn an_offer_says_how_much_it_covers_and_shows_none_of_it() {
    let (mut conn, route) = routed();
    unary(&mut conn, route, b"secret");
    unary(&mut conn, route, b"");
    let offer = conn.poll_transmit(T0).unwrap();
    assert_eq!((offer.frames(), offer.len(), offer.is_empty()), (2, 48, false));
    assert_eq!(format!("{offer:?}"), "Transmit { offer: Offer { frames: 2, bytes: 48 }, .. }", "Z1");
    offer.blocked();
    assert_eq!(MAX_SEGMENTS, 128, "header and body of 64 frames");
}

/// Whoever drives either role sees what the connection does.
fn drive(conn: &mut impl Endpoint, answer: &[u8]) {
    assert!(conn.interest().write && conn.interest().read && !conn.interest().half_close);
    take_all(conn);
    assert_eq!(conn.deadline(), Some(Deadline { at: LATE, reason: DeadlineReason::Operation }));
    assert_eq!(conn.handle_input(T0, &answer[..100]), Ok(100));
    let mut lease = conn.lease_body().unwrap();
    let n = lease.room().min(answer.len() - 100);
    lease.buffer().extend_from_slice(&answer[100..100 + n]);
    conn.return_body(T0, lease);
    assert_eq!(conn.handle_input(T0, &answer[100 + n..]), Ok(answer.len() - 100 - n));
    assert!(conn.interest().events);
}

#[test]
fn an_endpoint_is_its_connection() {
    let answer = routed_frame(FrameType::Response, 3, &[9; 70_000]);
    let start = || {
        let (mut conn, route) = routed();
        let op = unary(&mut conn, route, b"x");
        (conn, op)
    };
    let (mut conn, op) = start();
    drive(&mut conn, &answer);
    assert!(
        matches!(settled(&mut conn, op), (Outcome::Terminal(Terminal::Response { body, .. }), 22) if body.len() == 70_000)
    );
    assert!(!Endpoint::is_closed(&conn));
    Endpoint::handle_eof(&mut conn, T0);
    assert!(Endpoint::is_closed(&conn) && Endpoint::handle_input(&mut conn, T0, b"x").is_err());
    assert_eq!(closed(&mut conn), CloseReason::Eof);
    let (mut conn, op) = start();
    take_all(&mut conn);
    Endpoint::handle_timeout(&mut conn, LATE);
    assert_eq!(settled_code(&mut conn, op), ("deadline_expired", 22));
    Endpoint::handle_disconnect(&mut conn, T0, Disconnect::Abandoned);
    assert_eq!(closed(&mut conn), CloseReason::Abandoned);
    assert_eq!(conn.default_request_timeout(), Duration::from_secs(30));
}

#[test]
fn b111_a_configuration_shows_its_limits_and_neither_nonce_nor_role_nor_key() {
    let config = Config { role: "a role".into(), ..config(ClientLimits::default()) };
    let text = format!("{config:?}");
    assert!(text.starts_with("Config { credentials: ") && text.contains("pending_requests: 1024"), "{text}");
    // The nonce is 32, 33, 34 …, the key 0, 1, 2 …: in no notation.
    for secret in ["a role", "32, 33, 34", "20, 21, 22", "202122", "0, 1, 2", "000102"] {
        assert!(!text.contains(secret), "Z1: {secret} in {text}");
    }
}
