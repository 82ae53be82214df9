//! Streams: order, saturation, drop, what stays readable.

use super::harness::{
    LATE, active_with, assert_nothing_left, at, closed, feed, open, routed, routed_frame, routed_with,
    settled, settled_code, stream, unary,
};
use crate::raw::{T0, frame, frames, take_all};
use hostwire_core::client::{CancelResult, Connection, Event, OpId, Request, StreamPoll};
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::ClientLimits;
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::wire::FrameType;

fn item(n: u64, body: &[u8]) -> Vec<u8> {
    frame(FrameType::StreamData, 0x02, (7, 77, n), body)
}

fn readable(conn: &mut Connection, op: OpId) {
    assert!(matches!(conn.poll_event(), Some(Event::Readable { op: which }) if which == op));
}

fn next(conn: &mut Connection, op: OpId) -> Vec<u8> {
    match conn.take_item(op) {
        StreamPoll::Item(item) => item.body.as_slice().to_vec(),
        other => panic!("{other:?}"),
    }
}

fn sent_stream() -> (Connection, OpId) {
    let (mut conn, route) = routed();
    let op = stream(&mut conn, route);
    take_all(&mut conn);
    (conn, op)
}

#[test]
fn v38_items_come_in_order_and_then_one_end() {
    let (mut conn, op) = sent_stream();
    let mut wire = item(3, b"a");
    wire.extend(item(3, b""));
    wire.extend(item(3, b"c"));
    wire.extend(frame(FrameType::StreamEnd, 0x0A, (7, 77, 3), b""));
    feed(&mut conn, &wire); // B039: the last item and the end in one read
    readable(&mut conn, op);
    assert!(matches!(settled(&mut conn, op), (Outcome::Terminal(Terminal::StreamEnd { items: 3 }), 23)));
    assert_eq!([next(&mut conn, op), next(&mut conn, op), next(&mut conn, op)], [&b"a"[..], b"", b"c"]);
    assert!(matches!(conn.take_item(op), StreamPoll::Ended));
    assert_eq!(conn.footprint(), [1, 0, 0, 0]);
}

#[test]
fn f5_q4_a_frame_for_nobody_does_nothing_to_the_request_that_the_frame_before_was_for() {
    let (mut conn, op) = sent_stream();
    feed(&mut conn, &item(3, b"a"));
    readable(&mut conn, op);
    let strays = [
        item(9, b"z"),
        routed_frame(FrameType::Response, 9, b"x"),
        routed_frame(FrameType::Error, 9, b"{}"),
        frame(FrameType::StreamEnd, 0x0A, (7, 77, 9), b""),
    ];
    for (before, stray) in (0..).zip(strays) {
        assert_eq!(conn.counters().dropped_unmatched, before);
        feed(&mut conn, &stray);
        assert_eq!(conn.counters().dropped_unmatched, before + 1);
    }
    assert!(conn.poll_event().is_none());
    assert_eq!(next(&mut conn, op), b"a");
    assert!(matches!(conn.take_item(op), StreamPoll::Pending));
}

#[test]
fn readable_is_said_once_until_the_queue_has_been_emptied() {
    let (mut conn, op) = sent_stream();
    feed(&mut conn, &item(3, b"a"));
    feed(&mut conn, &item(3, b"b"));
    readable(&mut conn, op);
    assert!(conn.poll_event().is_none());
    next(&mut conn, op);
    next(&mut conn, op);
    assert!(matches!(conn.take_item(op), StreamPoll::Pending));
    feed(&mut conn, &item(3, b"c"));
    readable(&mut conn, op);
}

#[test]
fn b038_the_seventeenth_unread_item_saturates_and_leaves_a_prefix_without_gaps() {
    for empty in [false, true] {
        // B055: empty items count too.
        let (mut conn, op) = sent_stream();
        let body = |n: u8| if empty { vec![] } else { vec![n] };
        (0..17).for_each(|n| feed(&mut conn, &item(3, &body(n))));
        readable(&mut conn, op);
        assert_eq!(settled_code(&mut conn, op), ("stream_saturated", 23));
        assert_eq!(
            frames(&take_all(&mut conn)).iter().map(|f| f.kind).collect::<Vec<_>>(),
            [FrameType::Cancel]
        );
        assert_eq!(next(&mut conn, op), body(0));
        feed(&mut conn, &item(3, &body(18)));
        for n in 1..16 {
            assert_eq!(next(&mut conn, op), body(n));
        }
        assert!(matches!(conn.take_item(op), StreamPoll::Ended));
        for _ in 0..1000 {
            feed(&mut conn, &item(3, &body(19)));
        }
        assert_eq!(conn.counters().saturated, 1);
        assert!(conn.poll_transmit(T0).is_none() && conn.poll_event().is_none());
        assert_eq!(conn.footprint(), [1, 0, 0, 0]);
    }
}

#[test]
fn b4_a_stream_without_bytes_left_is_saturated_and_others_go_on() {
    let limits = ClientLimits { retained_bytes: 100, ..ClientLimits::default() };
    let (mut conn, route) = routed_with(limits);
    let hog = stream(&mut conn, route);
    let other = unary(&mut conn, route, b"");
    take_all(&mut conn);
    feed(&mut conn, &item(3, &[1; 90]));
    feed(&mut conn, &item(3, &[2; 20]));
    readable(&mut conn, hog);
    assert_eq!(settled_code(&mut conn, hog), ("stream_saturated", 23));
    feed(&mut conn, &routed_frame(FrameType::Response, 4, b"fine")); // B040
    assert!(matches!(settled(&mut conn, other), (Outcome::Terminal(Terminal::Response { .. }), _)));
    assert_eq!(next(&mut conn, hog), [1; 90]);
    assert_eq!(conn.footprint()[3], 0);
}

#[test]
fn b044_dropped_unread_streams_give_everything_back() {
    let limits = ClientLimits { pending_requests: 100, ..ClientLimits::default() };
    let mut conn = active_with(limits);
    let route = open(&mut conn, 2, 7, 77);
    let ops: Vec<_> = (0..64).map(|_| stream(&mut conn, route)).collect();
    take_all(&mut conn);
    for n in 3..67 {
        (0..16).for_each(|_| feed(&mut conn, &item(n, &[5; 1024])));
        if n % 2 == 0 {
            feed(&mut conn, &frame(FrameType::StreamEnd, 0x0A, (7, 77, n), b"")); // B047
        }
    }
    assert_eq!(conn.footprint()[3], 64 * 16 * 1024);
    assert!(conn.request(T0, route, Request::stream(&b""[..], LATE)).is_err());
    for op in ops {
        conn.drop_op(T0, op);
        assert!(matches!(conn.take_item(op), StreamPoll::Ended));
    }
    while conn.poll_event().is_some() {}
    take_all(&mut conn);
    assert_eq!(conn.footprint(), [1, 0, 0, 0]);
    stream(&mut conn, route);
}

#[test]
fn b5_a_deadline_leaves_the_items_and_a_drop_frees_them() {
    let (mut conn, route) = routed();
    let op = conn.request(T0, route, Request::stream(&b""[..], at(50))).unwrap();
    take_all(&mut conn);
    feed(&mut conn, &item(3, b"kept"));
    conn.handle_timeout(at(50));
    readable(&mut conn, op);
    assert_eq!(settled_code(&mut conn, op), ("deadline_expired", 21));
    assert_eq!(next(&mut conn, op), b"kept");
    assert!(matches!(conn.take_item(op), StreamPoll::Ended));
    let op = stream(&mut conn, route);
    take_all(&mut conn);
    feed(&mut conn, &item(4, b"lost"));
    assert_eq!(conn.drop_op(T0, op), CancelResult::Cancelled);
    assert_eq!(conn.footprint()[3], 0);
    readable(&mut conn, op);
    assert_eq!(settled_code(&mut conn, op), ("dropped", 23));
}

#[test]
fn v26_a_cut_stream_has_no_fabricated_end() {
    // B061, B041: EOF and Goodbye alike.
    for goodbye in [false, true] {
        let (mut conn, op) = sent_stream();
        (0..3).for_each(|n| feed(&mut conn, &item(3, &[n])));
        readable(&mut conn, op);
        if goodbye {
            assert!(conn.handle_input(T0, &frame(FrameType::Goodbye, 0, (0, 0, 0), b"")).is_err());
        } else {
            conn.handle_eof(T0);
        }
        assert_eq!(settled_code(&mut conn, op), ("connection_lost", 23));
        let reason = if goodbye { CloseReason::PeerGoodbye } else { CloseReason::Eof };
        assert_eq!(closed(&mut conn), reason);
        for n in 0..3 {
            assert_eq!(next(&mut conn, op), [n]);
        }
        assert!(matches!(conn.take_item(op), StreamPoll::Ended));
        assert_nothing_left(&conn);
    }
}

#[test]
fn f6_the_wrong_kind_of_answer_is_named() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    feed(&mut conn, &item(3, b"x"));
    assert_eq!(settled_code(&mut conn, op), ("unexpected_stream", 21));
    assert_eq!(frames(&take_all(&mut conn))[0].kind, FrameType::Cancel);

    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    feed(&mut conn, &frame(FrameType::StreamEnd, 0x0A, (7, 77, 4), b""));
    let (outcome, _) = settled(&mut conn, op);
    assert!(matches!(&outcome, Outcome::Terminal(_)) && outcome.code() == Some("unexpected_stream"));
    assert!(conn.poll_transmit(T0).is_none());

    let op = stream(&mut conn, route);
    take_all(&mut conn);
    feed(&mut conn, &item(5, b"first"));
    feed(&mut conn, &routed_frame(FrameType::Response, 5, b"x"));
    readable(&mut conn, op);
    let (outcome, _) = settled(&mut conn, op);
    assert!(matches!(&outcome, Outcome::Terminal(_)) && outcome.code() == Some("unexpected_response"));
    assert_eq!(next(&mut conn, op), b"first");
    assert!(!conn.is_closed());
}

#[test]
fn b035_frames_that_cross_a_cancel_are_dropped_and_a_sibling_is_untouched() {
    let (mut conn, route) = routed();
    let gone = stream(&mut conn, route);
    let sibling = stream(&mut conn, route);
    take_all(&mut conn);
    conn.cancel(T0, gone);
    assert_eq!(settled_code(&mut conn, gone), ("cancelled", 23));
    feed(&mut conn, &item(3, b"late"));
    feed(&mut conn, &frame(FrameType::StreamEnd, 0x0A, (7, 77, 3), b""));
    feed(&mut conn, &routed_frame(FrameType::Error, 3, b"x"));
    feed(&mut conn, &item(4, b"mine"));
    readable(&mut conn, sibling);
    assert_eq!(next(&mut conn, sibling), b"mine");
    assert_eq!(conn.counters().dropped_unmatched, 3);
}
