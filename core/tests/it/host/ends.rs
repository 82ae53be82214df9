//! How a generation ends: G3 row by row, and what lingers.

use super::harness::*;
use crate::raw::{T0, frame, frames};
use hostwire_core::endpoint::{DeadlineReason, Disconnect, WriteFailure};
use hostwire_core::fault::{ApiMisuse, CloseReason, PeerMisbehaved};
use hostwire_core::host::*;
use hostwire_core::wire::FrameType;

/// A running handler, an answer that has begun to leave, one that has not, a route.
fn busy(host: &mut Host) -> (Conn, Job, Vec<u8>) {
    let (mut conn, route) = host.routed();
    let running = conn.start(route);
    for _ in 0..2 {
        let job = conn.start(route);
        conn.inner.respond(T0, job.id, false, b"answer".to_vec().into()).unwrap();
    }
    let first = crate::raw::take(&mut conn.inner, T0, 1, 1);
    (conn, running, first)
}

type Cause = fn(&mut Conn);

#[test]
fn g3_what_is_discarded_is_discarded_and_whoever_runs_is_told() {
    let causes: [(Cause, CloseReason); 9] = [
        (|conn| conn.inner.handle_eof(T0), CloseReason::Eof),
        (|conn| conn.feed_any(&frame(FrameType::Goodbye, 0, (0, 0, 0), b"")), CloseReason::PeerGoodbye),
        (|conn| conn.feed_any(&frame(FrameType::Ping, 0, (0, 0, 1), b"")), CloseReason::Eof),
        (|conn| conn.inner.handle_disconnect(T0, Disconnect::ReadFailed), CloseReason::Io),
        (|conn| conn.inner.handle_disconnect(T0, Disconnect::Exhausted), CloseReason::Io),
        (|conn| conn.inner.handle_disconnect(T0, Disconnect::Abandoned), CloseReason::Abandoned),
        (|conn| conn.inner.poll_transmit(T0).unwrap().failed(WriteFailure::NothingAccepted), CloseReason::Io),
        (|conn| conn.inner.handle_timeout(secs(30)), CloseReason::FrameOutTimeout),
        (|conn| drop(conn.inner.poll_transmit(T0)), CloseReason::Misuse(ApiMisuse::OfferUnanswered)),
    ];
    for (number, (cause, want)) in causes.into_iter().enumerate() {
        let mut host = Host::new();
        let (mut conn, running, _) = busy(&mut host);
        cause(&mut conn);
        assert!(conn.take_bytes().is_empty(), "no Goodbye, no rest: {number}");
        let (events, reason) = conn.closed();
        if number == 2 {
            assert!(matches!(reason, CloseReason::Peer(PeerMisbehaved::Illegal(_))));
        } else {
            assert_eq!(reason, want);
        }
        assert!(
            matches!(events[..], [Event::Stop { id, why: StopReason::ConnectionLost }, Event::RouteClosed { .. }] if id == running.id),
            "K2, B080: {events:?}"
        );
        assert_nothing_left(&conn.inner);
        assert_eq!(host.shared.admission().pending_in_use(RouteClass::General), 0);
        assert_eq!(host.shared.admission().connections_in_use(), 0);
        assert_eq!(conn.inner.respond(T0, running.id, false, Default::default()), Err(TooLate));
        conn.inner.handle_eof(T0);
        conn.inner.handle_timeout(secs(99));
        conn.inner.handle_disconnect(T0, Disconnect::Abandoned);
        conn.inner.finish_drain(T0);
        assert!(conn.events().is_empty(), "CC6: nothing after the end");
    }
}

#[test]
fn g3_a_drain_flushes_in_order_and_says_goodbye_last() {
    let mut host = Host::new();
    let (mut conn, running, first) = busy(&mut host);
    host.shared.set_draining();
    conn.inner.begin_drain(T0);
    conn.inner.finish_drain(T0);
    let bytes = [first, conn.take_bytes()].concat();
    let said: Vec<_> = frames(&bytes).iter().map(|f| (f.identity.raw().2, code(f))).collect();
    let want: [(u64, String); 4] =
        [(4, "Response".into()), (5, "Response".into()), (3, "cancelled".into()), (0, "Goodbye".into())];
    assert_eq!(said, want);
    assert!(conn.inner.interest().half_close);
    let events = conn.events();
    assert!(
        matches!(events[..], [Event::Stop { id, why: StopReason::Draining }, Event::RouteClosed { .. }] if id == running.id)
    );
    conn.inner.handle_eof(T0);
    assert_eq!(conn.closed().1, CloseReason::Drained);
    assert_nothing_left(&conn.inner);
}

fn oversize(conn: &mut Conn) -> u64 {
    let corr = conn.next();
    let mut bytes = frame(FrameType::Request, 0x02, (0, 0, corr), b"");
    bytes[..4].copy_from_slice(&100_000_u32.to_le_bytes());
    conn.feed(&bytes);
    corr
}

#[test]
fn g3_c1_a_failed_drain_of_an_oversize_body_lets_its_one_terminal_out_and_nothing_else() {
    for timed_out in [true, false] {
        let mut host = Host::new();
        let (mut conn, _running, first) = busy(&mut host);
        let corr = oversize(&mut conn);
        conn.feed(&[b'x'; 50_000]);
        if timed_out {
            // The answers ahead of it leave in time, one byte; the body does not arrive.
            assert_eq!(conn.inner.deadline().unwrap().at, secs(30));
            let (mut fresh, _) = host.routed();
            let corr = oversize(&mut fresh);
            fresh.take_bytes();
            assert_eq!(fresh.inner.deadline().unwrap().reason, DeadlineReason::Drain);
            fresh.inner.handle_timeout(secs(30));
            assert!(fresh.take_bytes().is_empty(), "{corr}: its terminal has left");
            assert!(fresh.inner.interest().half_close);
            continue;
        }
        conn.inner.handle_eof(T0);
        let bytes = [first, conn.take_bytes()].concat();
        let said: Vec<_> = frames(&bytes).iter().map(|f| (f.identity.raw().2, code(f))).collect();
        assert_eq!(
            said,
            [(4, "Response".into()), (corr, "invalid_control_request".into())],
            "what has begun, then that one"
        );
        let (events, reason) = conn.closed();
        assert_eq!(reason, CloseReason::Peer(PeerMisbehaved::OversizeDrain));
        assert_eq!(events.len(), 2);
    }
}

fn lingering() -> Conn {
    let (mut conn, _) = Host::new().routed();
    conn.inner.finish_drain(T0);
    assert_eq!(conn.said(), [(0, "Goodbye".into())]);
    conn.events();
    assert!(conn.inner.interest().half_close && conn.inner.interest().read && !conn.inner.interest().write);
    conn
}

#[test]
fn a_lingering_close_ends_at_eof_after_256_kib_or_after_500_ms() {
    let mut conn = lingering();
    assert_eq!(
        (conn.inner.deadline().unwrap().at, conn.inner.deadline().unwrap().reason),
        (at(500_000), DeadlineReason::Linger)
    );
    conn.inner.handle_timeout(at(499_999));
    assert!(!conn.inner.is_closed(), "CC5");
    conn.inner.handle_timeout(at(500_000));
    assert_eq!(conn.closed().1, CloseReason::Drained);

    let mut conn = lingering();
    conn.feed(&vec![0xFF; 262_143]);
    assert!(!conn.inner.is_closed());
    assert!(conn.inner.handle_input(T0, b"x").is_err());
    assert_eq!(conn.closed().1, CloseReason::Drained);

    let mut conn = lingering();
    conn.inner.handle_eof(T0);
    assert_eq!(conn.closed().1, CloseReason::Drained);
}

#[test]
fn b085_a_peer_that_ignores_the_goodbye_and_answers_pings_is_closed_all_the_same() {
    let mut conn = lingering();
    for n in 0..5 {
        conn.feed_at(at(n * 90_000), &frame(FrameType::Pong, 0, (0, 0, 1), b""));
    }
    conn.inner.handle_timeout(at(500_000));
    assert_nothing_left(&conn.inner);
}

#[test]
fn input_while_the_last_frames_leave_is_thrown_away() {
    let (mut conn, route) = Host::new().routed();
    conn.inner.finish_drain(T0);
    conn.request(route, b"too late");
    conn.feed(&[0xFF; 100]);
    assert_eq!(conn.said(), [(0, "Goodbye".into())]);
    assert!(!conn.events().iter().any(|event| matches!(event, Event::Request { .. })));
}

#[test]
fn a_last_frame_that_cannot_leave_ends_it_for_the_first_reason() {
    for cause in [
        (|conn: &mut Conn| conn.inner.handle_timeout(secs(30))) as Cause,
        |conn| conn.inner.poll_transmit(T0).unwrap().failed(WriteFailure::Indeterminate),
        |conn| conn.inner.handle_disconnect(T0, Disconnect::Abandoned),
    ] {
        let (mut conn, _) = Host::new().routed();
        conn.inner.finish_drain(T0);
        assert_eq!(conn.inner.deadline().unwrap().reason, DeadlineReason::FrameOut);
        cause(&mut conn);
        assert_eq!(conn.closed().1, CloseReason::Drained, "G5");
        assert_nothing_left(&conn.inner);
    }
}

#[test]
fn b092_a_peers_goodbye_in_the_middle_of_a_stream_cuts_it_without_a_terminal() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    conn.inner.item(T0, job.id, false, b"item".to_vec().into()).unwrap();
    begin(&mut conn.inner);
    conn.feed_fatal(&frame(FrameType::Goodbye, 0, (0, 0, 0), b""));
    let (events, reason) = conn.closed();
    assert_eq!(reason, CloseReason::PeerGoodbye);
    assert!(matches!(events[..], [Event::Stop { .. }, Event::RouteClosed { .. }]));
    assert_eq!(conn.inner.item(T0, job.id, false, Default::default()).unwrap_err().why, ItemRefusal::Stopped);
}

#[test]
fn misreported_writes_poison_one_connection_and_never_panic() {
    let mut host = Host::new();
    let (mut conn, _running, _) = busy(&mut host);
    let offer = conn.inner.poll_transmit(T0).unwrap();
    let n = offer.len();
    assert_eq!(offer.written(n + 1), Err(ApiMisuse::WroteMoreThanOffered));
    assert_eq!(conn.closed().1, CloseReason::Misuse(ApiMisuse::WroteMoreThanOffered));
    host.routed();
}

#[test]
fn z1_no_secret_and_no_body_is_printed() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    conn.request(route, b"s3cr3t");
    let job = conn.inner.poll_event().unwrap();
    conn.control(OPEN_LAB.replace(r#""s"}"#, r#""s3cr3t"}"#).as_bytes());
    let open = conn.inner.poll_event().unwrap();
    let printed = format!(
        "{:?} {:?} {job:?} {open:?} {:?} {:?}",
        conn.inner,
        host.shared,
        config(),
        conn.inner.counters()
    );
    for secret in ["s3cr3t", "115, 51, 99", "30, 31", "1e1f", "1E1F"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn c1_an_early_terminal_that_has_left_is_not_mistaken_for_another_frame() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    let corr = oversize(&mut conn);
    assert_eq!(conn.said(), [(corr, "invalid_control_request".into())]);
    conn.inner.respond(T0, job.id, false, b"in its place in the queue".to_vec().into()).unwrap();
    conn.inner.handle_eof(T0);
    assert!(conn.take_bytes().is_empty(), "that correlation stays terminal, and the rest is discarded");
    assert_eq!(conn.closed().1, CloseReason::Peer(PeerMisbehaved::OversizeDrain));
}
