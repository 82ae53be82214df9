//! What a host counts, holds and says of itself, to the last unit.

use super::harness::*;
use crate::raw::{T0, frame};
use hostwire_core::body::Body;
use hostwire_core::control::{ErrorBody, HostCode};
use hostwire_core::endpoint::{Deadline, DeadlineReason, Disconnect, Endpoint};
use hostwire_core::fault::CloseReason;
use hostwire_core::host::*;
use hostwire_core::wire::FrameType;
use std::time::Duration;

fn zeros(len: usize) -> Body {
    vec![0; len].into()
}

fn drain(conn: &mut Connection) {
    while let Some(offer) = conn.poll_transmit(T0) {
        let n = offer.len();
        offer.written(n).unwrap();
    }
}

#[test]
fn z2_a_connection_counts_what_it_did_under_its_own_name() {
    let mut host = Host::new();
    let mut conn = host.authenticated();
    let (hello, auth) = handshake();
    assert_eq!(conn.inner.counters().received.bytes, (hello.len() + auth.len()) as u64);
    conn.control(NEGOTIATE);
    assert_eq!(conn.frames().len(), 1);
    assert!(matches!(conn.inner.poll_event(), Some(Event::Active)));
    let routes = [host.open(&mut conn), host.open(&mut conn)]; // 2 responses
    let jobs: Vec<_> = (0..9).map(|_| conn.start(routes[0])).collect();
    let say = |conn: &mut Conn, n: usize| conn.inner.respond(T0, jobs[n].id, false, zeros(1));
    say(&mut conn, 0).unwrap();
    say(&mut conn, 1).unwrap();
    let error = ErrorBody::from_handler("application_error", "no", None);
    conn.inner.fail(T0, jobs[2].id, &error).unwrap();
    conn.inner.fail(T0, jobs[3].id, &error).unwrap();
    conn.inner.end_stream(T0, jobs[4].id).unwrap();
    conn.inner.end_stream(T0, jobs[5].id).unwrap();
    conn.inner.stopped(T0, jobs[6].id).unwrap();
    conn.inner.stopped(T0, jobs[7].id).unwrap();
    conn.cancel(routes[0], jobs[8].id.correlation().value());
    say(&mut conn, 8).unwrap();
    conn.control(CATALOG); // a response
    conn.control(CATALOG);
    conn.control(br#"{"op":"unheard_of"}"#); // an error
    conn.control(br#"{"op":"unheard_of"}"#);
    conn.control(SHUTDOWN); // a response
    drain(&mut conn.inner);
    let counters = conn.inner.counters();
    let settled = counters.settled;
    assert_eq!((counters.dispatched, counters.routes), (9, 2));
    assert_eq!((settled.response, settled.error, settled.stream_end), (7, 4, 2));
    assert_eq!((settled.internal_error, settled.cancelled, settled.silent), (2, 1, 0));
    assert_eq!((counters.sent.frames(FrameType::Response), counters.sent.frames(FrameType::Error)), (8, 7));
    assert_eq!(counters.sent.frames(FrameType::StreamEnd), 2);
}

#[test]
fn z2_each_byte_that_left_is_counted_once() {
    let mut host = Host::new();
    let mut conn = host.accept();
    let (hello, auth) = handshake();
    conn.feed(&hello);
    let mut sent = conn.take_bytes().len();
    let negotiate = frame(FrameType::Request, 0x02, (0, 0, conn.next()), NEGOTIATE);
    conn.feed(&[&auth[..], &negotiate].concat());
    let received = hello.len() + auth.len() + negotiate.len();
    assert_eq!(conn.inner.counters().received.bytes, received as u64, "A10: two messages of one input");
    sent += conn.take_bytes().len();
    conn.control(CATALOG);
    begin(&mut conn.inner);
    sent += 1 + conn.take_bytes().len();
    assert_eq!(conn.inner.counters().sent.bytes, sent as u64);
    let before = conn.inner.counters().received.bytes;
    let two = [
        conn.request_bytes(crate::raw::route(9, 9), b"one"),
        conn.request_bytes(crate::raw::route(9, 9), b""),
    ];
    conn.feed(&two.concat());
    assert_eq!(conn.inner.counters().received.bytes, before + 45, "two frames of one input");
}

#[test]
fn k2_requests_that_go_silently_with_their_connection_are_counted_and_answered_ones_are_not() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let jobs: Vec<_> = (0..3).map(|_| conn.start(route)).collect();
    conn.inner.respond(T0, jobs[0].id, false, zeros(1)).unwrap();
    conn.inner.handle_disconnect(T0, Disconnect::ReadFailed);
    assert_eq!(conn.inner.counters().settled.silent, 2);
    assert_eq!((conn.inner.pending(), host.shared.admission().pending_in_use(RouteClass::General)), (0, 0));
}

#[test]
fn g6_a_drain_that_is_cut_gives_the_permits_of_its_unsent_terminals_back() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let _job = conn.start(route);
    host.shared.set_draining();
    conn.inner.begin_drain(T0);
    conn.inner.finish_drain(T0);
    assert_eq!(host.shared.admission().pending_in_use(RouteClass::General), 1, "B9: its terminal waits");
    conn.inner.handle_disconnect(T0, Disconnect::ReadFailed);
    assert_nothing_left(&conn.inner);
    assert_eq!(host.shared.admission().pending_in_use(RouteClass::General), 0);
}

#[test]
fn h3_a_shutdown_that_waits_is_no_bind_to_be_withdrawn() {
    let mut host = Host::new();
    let (mut owner, mut waiter) = (host.active(), host.active());
    owner.control(SHUTDOWN);
    waiter.control(SHUTDOWN);
    waiter.inner.handle_disconnect(T0, Disconnect::ReadFailed);
    let (events, reason) = waiter.closed();
    assert!(events.is_empty() && reason == CloseReason::Io, "{events:?}");
}

#[test]
fn b7_a_handler_that_found_no_parking_place_says_busy_and_never_after_the_end() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let [running, cancelled] = [conn.start(route), conn.start(route)];
    conn.inner.busy(T0, running.id).unwrap();
    assert_eq!(conn.inner.busy(T0, running.id), Err(TooLate));
    conn.cancel(route, cancelled.id.correlation().value());
    conn.inner.busy(T0, cancelled.id).unwrap();
    assert_eq!(conn.said(), [(3, "server_busy".into()), (4, "cancelled".into())], "X1");
    assert_eq!(conn.inner.counters().dropped.late_answer, 1);
}

#[test]
fn w7_an_item_of_64_mib_is_legal_and_one_byte_more_is_too_large_even_where_neither_has_room() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    conn.inner.item(T0, job.id, true, zeros(67_108_864)).unwrap();
    let mut host = Host::limited(|limits| limits.resident_bytes = Split::LEAST);
    for (len, why) in [(67_108_864, ItemRefusal::NoMemory), (67_108_865, ItemRefusal::TooLarge)] {
        let (mut conn, route) = host.routed();
        let job = conn.start(route);
        let refused = conn.inner.item(T0, job.id, true, zeros(len)).unwrap_err();
        assert_eq!((refused.why, refused.body.len()), (why, len));
    }
}

#[test]
fn b8_a_standard_error_is_constant_and_one_with_words_of_its_own_is_charged_and_kept() {
    let mut host = Host::new();
    let mut conn = host.active();
    for (error, charged) in [
        (ErrorBody::from(HostCode::TargetUnavailable), false),
        (ErrorBody::from_handler("target_unavailable", "not today", Some(5)), true),
    ] {
        conn.control(OPEN_LAB.as_bytes());
        let Some(Event::RouteOpen { id, .. }) = conn.inner.poll_event() else { panic!() };
        conn.inner.reject_route(T0, id, &error).unwrap();
        assert_eq!(host.shared.resident().egress().used() > 0, charged);
        let said = conn.frames().remove(0);
        assert_eq!(ErrorBody::decode(&said.body).unwrap(), error);
        assert_eq!(host.shared.resident().egress().used(), 0);
    }
}

#[test]
fn b6_a_pause_is_counted_when_the_limit_of_refusals_is_reached_and_not_before() {
    let mut host = Host::limited(|limits| limits.writer_frames = 3);
    let mut conn = host.active();
    for paused in [0, 0, 1] {
        let bytes = conn.request_bytes(crate::raw::route(9, 9), b"");
        conn.feed(&bytes);
        assert_eq!(conn.inner.counters().pauses, paused);
    }
    assert_eq!(conn.inner.counters().refused.unknown_channel, 3);
}

#[test]
fn b8_room_is_told_when_an_item_has_begun_to_leave_and_not_for_other_frames() {
    let mut host = Host::limited(|limits| limits.writer_frames = 2);
    let (mut conn, route) = host.routed();
    let (answered, streams) = (conn.start(route), conn.start(route));
    conn.inner.respond(T0, answered.id, false, Body::default()).unwrap();
    for _ in 0..2 {
        conn.inner.item(T0, streams.id, false, zeros(1)).unwrap();
    }
    let refused = conn.inner.item(T0, streams.id, false, zeros(1)).unwrap_err();
    assert_eq!(refused.why, ItemRefusal::Full);
    conn.inner.poll_transmit(T0).unwrap().written(HEADER).unwrap();
    assert!(conn.inner.poll_event().is_none(), "the response alone has left");
    begin(&mut conn.inner);
    assert!(matches!(conn.inner.poll_event(), Some(Event::Room)));
}

#[test]
fn b8_a_write_that_took_nothing_makes_no_room() {
    let mut host = Host::limited(|limits| limits.resident_bytes = Split::LEAST);
    let egress = host.shared.resident().split().egress_share();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    conn.inner.item(T0, job.id, true, zeros(egress / 2 + 1)).unwrap();
    let refused = conn.inner.item(T0, job.id, true, zeros(egress / 2 + 1)).unwrap_err();
    assert_eq!(refused.why, ItemRefusal::Full);
    conn.inner.poll_transmit(T0).unwrap().written(0).unwrap();
    assert!(conn.inner.poll_event().is_none());
    drain(&mut conn.inner);
    assert!(matches!(conn.inner.poll_event(), Some(Event::Room)));
    conn.inner.item(T0, job.id, true, refused.body).unwrap();
}

#[test]
fn cc9_the_room_of_a_connections_tables_is_what_they_grew_to() {
    let mut host = Host::new();
    let mut owner = host.active();
    owner.control(SHUTDOWN);
    let (mut conn, route) = host.routed();
    let before = conn.inner.table_capacity();
    for _ in 0..9 {
        conn.request(route, b"x"); // 16 requests, 16 events
    }
    conn.control(SHUTDOWN); // waits: 4
    conn.request(crate::raw::route(9, 9), b""); // one frame
    assert!((1..16).contains(&before), "{before}");
    assert_eq!(conn.inner.table_capacity(), 16 + 16 + 4 + 1);
    assert_eq!(conn.inner.memory_bound(), host.shared.connection_bound());
    let split = host.shared.resident().split();
    let bodies = split.ingress_share() + split.small_share() + split.egress_share();
    assert!(host.shared.connection_bound() > bodies && host.shared.memory_bound() > 268_435_456);
}

#[test]
fn shared_says_the_limits_and_durations_that_it_was_made_with() {
    let mut config = config();
    config.limits.routes = 77;
    config.timeouts.frame = Duration::from_secs(7);
    let text = format!("{config:?}");
    assert!(text.starts_with("HostConfig { limits: HostLimits {") && text.contains("routes: 77"), "{text}");
    let host = Host::with(config);
    assert_eq!((host.shared.limits().routes, host.shared.timeouts().frame), (77, Duration::from_secs(7)));
    let text = format!("{:?}", host.shared);
    assert!(text.starts_with("Shared { admission: Admission") && text.contains("resident"), "{text}");
}

#[test]
fn a_connection_shows_its_counts_and_nothing_of_its_peer() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    host.open(&mut conn);
    conn.request(route, b"secret");
    let text = format!("{:?}", conn.inner);
    assert_eq!(text, "Connection { pending: 1, routes: 2, reason: None, .. }", "Z1");
}

#[test]
fn an_endpoint_is_its_connection() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let mut head = conn.request_bytes(route, b"");
    head[..4].copy_from_slice(&70_000_u32.to_le_bytes());
    let end: &mut dyn Endpoint = &mut conn.inner;
    assert_eq!(end.handle_input(T0, &head), Ok(HEADER));
    assert_eq!(end.handle_input(T0, &[1; 100]), Ok(100));
    assert_eq!(end.deadline(), Some(Deadline { at: secs(30), reason: DeadlineReason::FrameIn }));
    let mut lease = end.lease_body().unwrap();
    let n = lease.room().min(69_900);
    lease.buffer().extend_from_slice(&vec![1; n]);
    end.return_body(T0, lease);
    assert_eq!(end.handle_input(T0, &vec![1; 69_900 - n]), Ok(69_900 - n));
    assert!(end.interest().events && end.interest().read && !end.is_closed());
    let job = conn.job();
    assert_eq!(job.body.len(), 70_000);
    let end: &mut dyn Endpoint = &mut conn.inner;
    end.handle_eof(T0);
    assert!(end.is_closed() && end.handle_input(T0, b"x").is_err());
    assert_eq!(conn.closed().1, CloseReason::Eof);
    let mut late = host.accept();
    let end: &mut dyn Endpoint = &mut late.inner;
    end.handle_timeout(secs(2));
    assert_eq!(late.closed().1, CloseReason::HandshakeTimeout);
    let mut given_up = host.active();
    let end: &mut dyn Endpoint = &mut given_up.inner;
    end.handle_disconnect(T0, Disconnect::Abandoned);
    assert_eq!(given_up.closed().1, CloseReason::Abandoned);
}
