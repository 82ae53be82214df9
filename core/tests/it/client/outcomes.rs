//! Outcomes against arithmetic: every cut point, every acceptance size, every kind of failure.

use super::harness::{
    LATE, assert_nothing_left, at, closed, feed, feed_at, routed, routed_frame, settled, settled_code,
    stream, unary,
};
use crate::raw::{T0, frame, frames, take, take_all};
use hostwire_core::client::{Connection, Event, Request};
use hostwire_core::endpoint::{DeadlineReason, Disconnect, WriteFailure};
use hostwire_core::fault::{ApiMisuse, CloseReason, Fault};
use hostwire_core::outcome::{Outcome, UnknownCode};
use hostwire_core::wire::FrameType;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    ReadFailed,
    NothingAccepted,
    Indeterminate,
    Unanswered,
}

/// Writes `total` bytes, `size` at a time, then cuts; the outcomes are what arithmetic on offsets says.
fn cut(sizes: &[usize], total: usize, size: usize, how: Cut) {
    let (mut conn, route) = routed();
    let ops: Vec<_> = sizes.iter().map(|len| unary(&mut conn, route, &vec![0xAB; *len])).collect();
    assert_eq!(take(&mut conn, T0, total, size).len(), total);
    match how {
        Cut::ReadFailed => conn.handle_disconnect(T0, Disconnect::ReadFailed),
        Cut::NothingAccepted | Cut::Indeterminate => {
            let kind = if how == Cut::Indeterminate {
                WriteFailure::Indeterminate
            } else {
                WriteFailure::NothingAccepted
            };
            let offered = match conn.poll_transmit(T0) {
                Some(offer) => {
                    offer.failed(kind);
                    true
                }
                None => false,
            };
            if offered {
                assert!(conn.poll_event().is_none(), "G4: outcomes wait");
                assert!(conn.interest().read && !conn.interest().write);
            }
            conn.handle_disconnect(T0, Disconnect::Exhausted);
        }
        Cut::Unanswered => {
            drop(conn.poll_transmit(T0));
            conn.handle_disconnect(T0, Disconnect::ReadFailed);
        }
    }
    let mut start = 0;
    for (op, len) in ops.iter().zip(sizes) {
        let end = start + 21 + len;
        let handed = total.saturating_sub(start).min(21 + len);
        let tainted = matches!(how, Cut::Indeterminate | Cut::Unanswered) && handed < 21 + len;
        let (outcome, bytes) = settled(&mut conn, *op);
        assert_eq!(bytes, handed as u64);
        match outcome {
            Outcome::NotSent { body, .. } => {
                assert!(handed == 0 && !tainted, "CC7, CC8: {sizes:?} {total} {size} {how:?}");
                assert_eq!(body.len(), *len, "the body comes back");
            }
            Outcome::Unknown { code: UnknownCode::ConnectionLost } => assert!(handed > 0 || tainted),
            other => panic!("{other:?}"),
        }
        start = end;
    }
    closed(&mut conn);
    assert_nothing_left(&conn);
}

#[test]
fn cc7_cc8_every_cut_point_is_classified_exactly() {
    let mut runs = 0;
    for sizes in [&[0_usize][..], &[5], &[0, 7, 1], &[1, 1, 1, 1]] {
        let all: usize = sizes.iter().map(|len| len + 21).sum();
        let frame = sizes[0] + 21;
        for total in 0..=all {
            for size in [1, 2, 3, 20, 21, 22, frame - 1, frame, usize::MAX] {
                for how in [Cut::ReadFailed, Cut::NothingAccepted, Cut::Indeterminate, Cut::Unanswered] {
                    cut(sizes, total, size, how);
                    runs += 1;
                }
            }
        }
    }
    assert_eq!(runs, 36 * (22 + 27 + 72 + 89));
}

#[test]
fn b022_a_frame_taken_one_half_taken_and_one_untouched() {
    let (mut conn, route) = routed();
    let ops: Vec<_> = (0..3).map(|_| unary(&mut conn, route, &[1; 30])).collect();
    take(&mut conn, T0, 61, usize::MAX);
    conn.poll_transmit(T0).unwrap().failed(WriteFailure::NothingAccepted);
    conn.handle_disconnect(T0, Disconnect::Exhausted);
    assert_eq!(settled_code(&mut conn, ops[0]), ("connection_lost", 51));
    assert_eq!(settled_code(&mut conn, ops[1]), ("connection_lost", 10));
    assert_eq!(settled_code(&mut conn, ops[2]), ("connection_retired", 0));
}

#[test]
fn g4_a_terminal_that_arrives_after_a_failed_write_is_a_terminal() {
    // B137: the host answered early and closed; its answer is still readable.
    let (mut conn, route) = routed();
    let answered = unary(&mut conn, route, b"a");
    let lost = unary(&mut conn, route, b"b");
    let queued = unary(&mut conn, route, b"c");
    take(&mut conn, T0, 44, usize::MAX);
    conn.poll_transmit(T0).unwrap().failed(WriteFailure::NothingAccepted);
    let error = conn.request(T0, route, Request::unary(&b"d"[..], LATE)).unwrap_err();
    assert_eq!(error.code.as_str(), "connection_retired");
    let answer = routed_frame(FrameType::Response, 3, b"in time");
    feed(&mut conn, &answer[..10]);
    feed(&mut conn, &answer[10..]);
    assert!(matches!(settled(&mut conn, answered), (Outcome::Terminal(_), 22)));
    conn.handle_eof(T0);
    assert_eq!(settled_code(&mut conn, lost), ("connection_lost", 22));
    assert_eq!(settled_code(&mut conn, queued), ("connection_retired", 0));
    assert_eq!(closed(&mut conn), CloseReason::Io); // G5: the first cause
}

#[test]
fn g4_at_most_a_mebibyte_is_read_on() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"a");
    take_all(&mut conn);
    unary(&mut conn, route, b"b");
    conn.poll_transmit(T0).unwrap().failed(WriteFailure::NothingAccepted);
    let junk = routed_frame(FrameType::Response, 99, &vec![0; 65_536 - 21]);
    for _ in 0..16 {
        feed(&mut conn, &junk);
    }
    assert!(conn.handle_input(T0, &junk).is_err());
    assert_eq!(settled_code(&mut conn, op).0, "connection_lost");
}

#[test]
fn b011_more_bytes_than_were_offered_poison_and_never_panic() {
    for n in [31, usize::MAX] {
        let (mut conn, route) = routed();
        let op = unary(&mut conn, route, &[0; 9]);
        let offer = conn.poll_transmit(T0).unwrap();
        assert_eq!(offer.len(), 30);
        assert_eq!(offer.written(n), Err(ApiMisuse::WroteMoreThanOffered));
        assert_eq!(settled_code(&mut conn, op), ("connection_lost", 0), "CC8: it may have left");
        let reason = CloseReason::Misuse(ApiMisuse::WroteMoreThanOffered);
        assert_eq!(conn.handle_input(T0, b"x"), Err(Fault(reason)));
        assert_eq!(closed(&mut conn), reason);
        assert_nothing_left(&conn);
    }
}

#[test]
fn cc1_an_offer_is_the_same_until_it_is_answered() {
    let (mut conn, route) = routed();
    unary(&mut conn, route, b"abc");
    unary(&mut conn, route, b"d");
    let peek = |conn: &mut Connection| {
        let offer = conn.poll_transmit(T0).unwrap();
        let mut segments = [&[][..]; 8];
        let filled = offer.segments(&mut segments);
        let bytes = segments[..filled].concat();
        offer.blocked();
        bytes
    };
    let first = peek(&mut conn);
    assert_eq!(first, peek(&mut conn));
    assert_eq!(first.len(), 46);
    conn.poll_transmit(T0).unwrap().written(0).unwrap();
    assert_eq!(first, peek(&mut conn));
}

#[test]
fn k1_b032_after_goodbye_nothing_is_accepted_and_queued_requests_are_not_sent() {
    let (mut conn, route) = routed();
    let queued = unary(&mut conn, route, b"a"); // B033
    assert!(conn.handle_input(T0, &frame(FrameType::Goodbye, 0, (0, 0, 0), b"")).is_err());
    assert_eq!(settled_code(&mut conn, queued), ("connection_retired", 0));
    let error = conn.request(T0, route, Request::unary(&b"b"[..], LATE)).unwrap_err();
    assert_eq!(error.code.as_str(), "connection_retired");
    assert_eq!(closed(&mut conn), CloseReason::PeerGoodbye);
    assert!(conn.poll_transmit(T0).is_none());
}

#[test]
fn g3_a_local_close_finishes_the_begun_frame_and_says_goodbye() {
    let (mut conn, route) = routed();
    let begun = unary(&mut conn, route, b"begun");
    let queued = unary(&mut conn, route, b"queued");
    let mut wire = take(&mut conn, T0, 10, 10);
    conn.shutdown(T0);
    conn.shutdown(T0); // B062
    assert_eq!(settled_code(&mut conn, begun), ("connection_lost", 10));
    assert_eq!(settled_code(&mut conn, queued), ("client_closed", 0));
    wire.extend(take_all(&mut conn));
    let kinds: Vec<_> = frames(&wire).iter().map(|f| (f.kind, f.identity.raw())).collect();
    assert_eq!(kinds, [(FrameType::Request, (7, 77, 3)), (FrameType::Goodbye, (0, 0, 0))]);
    assert_eq!(closed(&mut conn), CloseReason::Local);
    assert_nothing_left(&conn);
}

#[test]
fn b136_a_close_that_cannot_write_ends_at_its_deadline() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"a");
    take(&mut conn, T0, 5, 5);
    conn.shutdown(at(10));
    settled(&mut conn, op);
    let deadline = conn.deadline().unwrap();
    assert_eq!((deadline.at, deadline.reason), (at(10) + Duration::from_secs(5), DeadlineReason::Close));
    conn.handle_timeout(deadline.at);
    assert_eq!(closed(&mut conn), CloseReason::Local);
    assert_nothing_left(&conn);
}

#[test]
fn w6_a_frame_that_begins_and_does_not_end_retires_the_generation() {
    let (mut conn, _) = routed();
    feed_at(&mut conn, at(7), &[5]);
    let deadline = conn.deadline().unwrap();
    assert_eq!((deadline.at, deadline.reason), (at(7) + Duration::from_secs(30), DeadlineReason::FrameIn));
    feed_at(&mut conn, at(1_000), &[0, 0, 0]);
    assert_eq!(conn.deadline(), Some(deadline), "progress does not extend it");
    conn.handle_timeout(deadline.at);
    assert_eq!(closed(&mut conn), CloseReason::FrameInTimeout);

    let (mut conn, route) = routed();
    conn.request(at(1), route, Request::stream(vec![0; 100], LATE)).unwrap();
    assert!(conn.deadline().is_some_and(|d| d.reason == DeadlineReason::Operation));
    take(&mut conn, at(9), 50, 50);
    let deadline = conn.deadline().unwrap();
    assert_eq!((deadline.at, deadline.reason), (at(9) + Duration::from_secs(30), DeadlineReason::FrameOut));
    conn.handle_timeout(deadline.at);
    assert!(matches!(conn.poll_event(), Some(Event::Settled { .. })));
    assert_eq!(closed(&mut conn), CloseReason::FrameOutTimeout);
}

#[test]
fn b026_every_pending_call_settles_once_at_a_local_close() {
    let (mut conn, route) = routed();
    for _ in 0..3 {
        unary(&mut conn, route, b"");
    }
    stream(&mut conn, route);
    take_all(&mut conn);
    conn.shutdown(T0);
    let mut settled = 0;
    while let Some(event) = conn.poll_event() {
        assert!(matches!(event, Event::Settled { outcome: Outcome::Unknown { .. }, .. }));
        settled += 1;
    }
    assert_eq!((settled, conn.pending_requests()), (4, 0));
    take_all(&mut conn);
    closed(&mut conn);
}

#[test]
fn cc3_leases_and_copies_give_the_same_events() {
    let body: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
    let answer = routed_frame(FrameType::Response, 3, &body);
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    feed(&mut conn, &answer[..1000]);
    let mut at = 1000;
    while at < answer.len() {
        let mut lease = conn.lease_body().unwrap();
        let n = lease.room().min(answer.len() - at);
        lease.buffer().extend_from_slice(&answer[at..at + n]);
        at += n;
        conn.return_body(T0, lease);
    }
    match settled(&mut conn, op) {
        (Outcome::Terminal(hostwire_core::outcome::Terminal::Response { body: got, .. }), _) => {
            assert_eq!(got.as_slice(), body);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(conn.footprint(), [1, 0, 0, 0]);
    assert_eq!(conn.counters().received.frames(FrameType::Response), 3);
}

#[test]
fn input_while_a_lease_is_out_is_misuse() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    feed(&mut conn, &routed_frame(FrameType::Response, 3, &[0; 70_000])[..100]);
    let lease = conn.lease_body().unwrap();
    assert!(conn.handle_input(T0, b"x").is_err());
    assert_eq!(settled_code(&mut conn, op).0, "connection_lost");
    assert_eq!(closed(&mut conn), CloseReason::Misuse(ApiMisuse::InputDuringLease));
    conn.return_body(T0, lease);
    assert_nothing_left(&conn);
}
