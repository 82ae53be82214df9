//! What a lost or refusing host leaves behind: each caller knows at once, machine-readably, and nothing of it reaches the next generation.

use super::harness::{
    LATE, active_with, at, closed, feed, fresh, open, routed, routed_frame, routed_with, settled,
    settled_code, stream, unary,
};
use crate::raw::{T0, frame, frames, take, take_all};
use hostwire_core::client::{Event, Request, StreamPoll};
use hostwire_core::endpoint::WriteFailure;
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::ClientLimits;
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::wire::FrameType;
use std::time::Duration;

#[test]
fn b021_the_first_bytes_of_the_next_generation_are_its_handshake() {
    let (mut conn, route) = routed();
    let ops: Vec<_> = (0..4).map(|_| unary(&mut conn, route, &[7; 40])).collect();
    take(&mut conn, T0, 61 + 30, usize::MAX);
    conn.poll_transmit(T0).unwrap().failed(WriteFailure::NothingAccepted);
    conn.handle_eof(T0);
    let codes: Vec<_> = ops.into_iter().map(|op| settled_code(&mut conn, op)).collect();
    let lost = ("connection_lost", 61);
    let retired = ("connection_retired", 0);
    assert_eq!(codes, [lost, ("connection_lost", 30), retired, retired]);
    let mut next = fresh();
    let bytes = take_all(&mut next);
    assert!(bytes[4..].starts_with(b"{\"client_nonce\""));
    assert!(!bytes.windows(40).any(|part| part == [7; 40]), "no byte of an old frame");
}

#[test]
fn b025_a_request_in_flight_settles_at_the_end_and_not_at_a_later_close() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"a");
    take_all(&mut conn);
    conn.handle_eof(T0);
    assert_eq!(settled_code(&mut conn, op), ("connection_lost", 22));
    assert_eq!(closed(&mut conn), CloseReason::Eof);
    conn.shutdown(T0);
    assert!(conn.poll_event().is_none(), "O3: once");
}

#[test]
fn b027_six_ways_to_fail_have_six_names() {
    let ended = |end: fn(&mut hostwire_core::client::Connection)| {
        let (mut conn, route) = routed();
        let op = unary(&mut conn, route, b"a");
        take_all(&mut conn);
        end(&mut conn);
        let code = settled_code(&mut conn, op).0;
        take_all(&mut conn);
        (code, closed(&mut conn))
    };
    assert_eq!(ended(|conn| conn.handle_eof(T0)), ("connection_lost", CloseReason::Eof));
    assert_eq!(ended(|conn| conn.shutdown(T0)), ("connection_lost", CloseReason::Local));
    let goodbye =
        ended(|conn| assert!(conn.handle_input(T0, &frame(FrameType::Goodbye, 0, (0, 0, 0), b"")).is_err()));
    assert_eq!(goodbye, ("connection_lost", CloseReason::PeerGoodbye));

    let limits = ClientLimits { pending_requests: 1, ..ClientLimits::default() };
    let (mut conn, route) = routed_with(limits);
    let op = conn.request(T0, route, Request::unary(&b"a"[..], at(50))).unwrap();
    let budget = conn.request(T0, route, Request::unary(&b"b"[..], LATE)).unwrap_err();
    assert_eq!(budget.code.as_str(), "pending_full");
    take_all(&mut conn);
    conn.handle_timeout(at(50));
    assert_eq!(settled_code(&mut conn, op), ("deadline_expired", 22));
    let op = unary(&mut conn, route, b"a");
    take_all(&mut conn);
    feed(&mut conn, &routed_frame(FrameType::Error, 4, br#"{"code":"of_the_application","message":""}"#));
    let outcome = settled(&mut conn, op).0;
    assert!(
        matches!(outcome, Outcome::Terminal(Terminal::Error(error)) if error.code() == "of_the_application")
    );
}

#[test]
fn b034_long_after_an_idle_goodbye_a_request_is_refused_at_once() {
    let (mut conn, route) = routed();
    assert!(conn.handle_input(T0, &frame(FrameType::Goodbye, 0, (0, 0, 0), b"")).is_err());
    closed(&mut conn);
    let later = T0 + Duration::from_secs(180);
    let error = conn.request(later, route, Request::unary(&b"a"[..], LATE)).unwrap_err();
    assert_eq!(error.code.as_str(), "connection_retired");
}

#[test]
fn b053_a_cancel_does_not_wait_for_the_write_that_it_cancels() {
    let (mut conn, route) = routed();
    let blocked = unary(&mut conn, route, &[1; 100]);
    let queued = unary(&mut conn, route, b"queued");
    take(&mut conn, T0, 50, 50);
    conn.poll_transmit(T0).unwrap().blocked();
    conn.cancel(T0, queued);
    assert_eq!(settled_code(&mut conn, queued), ("cancelled_unsent", 0));
    conn.cancel(T0, blocked);
    assert_eq!(settled_code(&mut conn, blocked), ("cancelled", 50));
    assert_eq!(
        take_all(&mut conn).len(),
        71 + 21,
        "CC12: the begun frame, then its Cancel; nothing of the other"
    );
}

#[test]
fn b056_a_host_at_full_speed_is_held_to_the_retained_budget() {
    let limits = ClientLimits { retained_bytes: 10_000, ..ClientLimits::default() };
    let mut conn = active_with(limits);
    let route = open(&mut conn, 2, 7, 77);
    let op = stream(&mut conn, route);
    take_all(&mut conn);
    let item = frame(FrameType::StreamData, 2, (7, 77, 3), &[5; 3_000]);
    for _ in 0..10_000 {
        feed(&mut conn, &item);
        assert!(conn.footprint()[3] <= 10_000);
    }
    assert!(matches!(conn.poll_event(), Some(Event::Readable { .. })));
    assert_eq!(settled_code(&mut conn, op).0, "stream_saturated");
    let mut items = 0;
    while let StreamPoll::Item(item) = conn.take_item(op) {
        assert_eq!(item.body.len(), 3_000);
        items += 1;
    }
    assert_eq!(items, 3, "a prefix without gaps");
    let cancels = frames(&take_all(&mut conn));
    assert_eq!(cancels.iter().filter(|frame| frame.kind == FrameType::Cancel).count(), 1);
}
