//! Unary requests: submission, answers, stops, deadlines.

use super::harness::{
    LATE, active, assert_nothing_left, at, closed, feed, feed_at, routed, routed_frame, routed_with, settled,
    settled_code, stream, unary,
};
use crate::raw::{T0, frame, frames, route, take, take_all};
use hostwire_core::body::Body;
use hostwire_core::client::{CancelResult, CatalogFilter, Connection, Event, OpId, Request};
use hostwire_core::endpoint::{DeadlineReason, Disconnect};
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::ClientLimits;
use hostwire_core::outcome::{NotSentCode, Outcome, Terminal};
use hostwire_core::wire::{FrameType, Identity, MAX_BODY, Priority};
use std::time::Duration;

#[test]
fn a_unary_call_gets_its_answer_and_its_byte_count() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"hello");
    let out = frames(&take_all(&mut conn));
    assert_eq!((out[0].kind, out[0].flags, out[0].identity.raw()), (FrameType::Request, 0x02, (7, 77, 3))); // W11
    feed(&mut conn, &frame(FrameType::Response, 0x0B, (7, 77, 3), b"world"));
    match settled(&mut conn, op) {
        (Outcome::Terminal(Terminal::Response { binary: true, body }), 26) => {
            assert_eq!(body.as_slice(), b"world");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((conn.pending_requests(), conn.deadline()), (0, None)); // X6
}

#[test]
fn w11_the_flags_are_the_callers_choice_of_priority_and_kind() {
    let (mut conn, route) = routed();
    let request = Request { binary: true, priority: Priority::Background, ..Request::unary(&b""[..], LATE) };
    conn.request(T0, route, request).unwrap();
    assert_eq!(frames(&take_all(&mut conn))[0].flags, 0x05);
}

#[test]
fn q1_q2_requests_leave_in_allocation_order_with_correlations_that_rise_one_by_one() {
    let (mut conn, route) = routed();
    for n in 0..40_u8 {
        unary(&mut conn, route, &[n]);
    }
    let out = frames(&take_all(&mut conn));
    let order: Vec<_> = out.iter().map(|f| (f.identity.raw().2, f.body[0])).collect();
    let rising: Vec<_> = (0..40_u8).map(|n| (u64::from(n) + 3, n)).collect();
    assert_eq!(order, rising);
}

/// X6: whichever way a request ends, its entry, its timer and its place in the index go with it.
#[test]
fn x6_a_request_leaves_nothing_behind_whichever_way_it_ends() {
    let ends: [fn(&mut Connection, OpId); 7] = [
        |conn, op| assert_eq!(conn.cancel(T0, op), CancelResult::Withdrawn),
        |conn, _| conn.handle_timeout(at(100)),
        |conn, _| {
            take_all(conn);
            feed(conn, &routed_frame(FrameType::Response, 3, b"yes"));
        },
        |conn, _| {
            take_all(conn);
            feed(conn, &routed_frame(FrameType::Error, 3, br#"{"code":"server_busy","message":"no"}"#));
        },
        |conn, op| {
            take_all(conn);
            assert_eq!(conn.cancel(T0, op), CancelResult::Cancelled);
        },
        |conn, op| {
            take_all(conn);
            conn.confirm_cancel(T0, op, at(50));
            conn.handle_timeout(at(50));
        },
        |conn, _| {
            take_all(conn);
            conn.handle_timeout(at(100));
        },
    ];
    for (n, end) in ends.iter().enumerate() {
        let (mut conn, route) = routed();
        let op = conn.request(T0, route, Request::unary(&b"hello"[..], at(100))).unwrap();
        assert_eq!((conn.pending_requests(), conn.footprint()[1]), (1, 1));
        end(&mut conn, op);
        drop(settled(&mut conn, op));
        take_all(&mut conn);
        assert_eq!((conn.pending_requests(), conn.footprint()), (0, [1, 0, 0, 0]), "{n}: the route alone");
    }
}

/// B3: each check in its place; a failed submission burns no correlation and gives the body back.
#[test]
fn b3_the_first_failing_check_names_the_code() {
    let limits = ClientLimits {
        pending_requests: 2,
        live_streams: 1,
        queued_bytes: MAX_BODY as usize,
        data_slots: 2,
        ..ClientLimits::default()
    };
    let (mut conn, live) = routed_with(limits);
    let dead = route(9, 9);
    let refused = |conn: &mut Connection, which, request: Request, code| {
        let len = request.body.len();
        let error = conn.request(at(5), which, request).unwrap_err();
        assert_eq!((error.code, error.body.len()), (code, len));
    };
    let over = || Body::from(vec![0; MAX_BODY as usize + 1]);
    // Everything is wrong with it; one fault after the other is mended.
    refused(&mut conn, dead, Request::stream(over(), at(5)), NotSentCode::DeadlineExpired); // E4
    refused(&mut conn, dead, Request::stream(over(), LATE), NotSentCode::RouteNotLive);
    let first = conn.request(at(5), live, Request::stream(&b"a"[..], LATE)).unwrap();
    let second = conn.request(at(5), live, Request::unary(&b"b"[..], LATE)).unwrap();
    refused(&mut conn, live, Request::stream(over(), LATE), NotSentCode::PendingFull);
    conn.drop_op(at(5), second);
    refused(&mut conn, live, Request::stream(over(), LATE), NotSentCode::PendingFull); // untaken settlements count
    assert_eq!(settled_code(&mut conn, second), ("cancelled_unsent", 0));
    refused(&mut conn, live, Request::stream(over(), LATE), NotSentCode::StreamsFull);
    refused(&mut conn, live, Request::unary(over(), LATE), NotSentCode::BodyTooLarge); // W7
    refused(&mut conn, live, Request::unary(vec![0; MAX_BODY as usize - 20], LATE), NotSentCode::QueueFull);
    conn.drop_op(at(5), first);
    assert_eq!(settled_code(&mut conn, first), ("cancelled_unsent", 0));
    let op = conn.request(at(5), live, Request::unary(&b"c"[..], LATE)).unwrap();
    assert_eq!(
        frames(&take_all(&mut conn))[0].identity.raw().2,
        5,
        "3 and 4 were admitted, nothing else burned"
    );
    conn.shutdown(at(5));
    assert_eq!(settled_code(&mut conn, op), ("connection_lost", 22));
    refused(&mut conn, dead, Request::stream(over(), at(5)), NotSentCode::ClientClosed);
}

#[test]
fn b2_the_queue_is_full_by_slots_and_by_bytes_and_a_cancelled_frame_gives_both_back() {
    let limits = ClientLimits { data_slots: 2, queued_bytes: 200, ..ClientLimits::default() };
    let (mut conn, route) = routed_with(limits);
    let full = |conn: &mut Connection, len| {
        let request = Request::unary(vec![0; len], LATE);
        conn.request(T0, route, request).err().map(|error| error.code)
    };
    let first = unary(&mut conn, route, &[0; 100]);
    assert_eq!(full(&mut conn, 59), Some(NotSentCode::QueueFull));
    let second = unary(&mut conn, route, &[0; 58]);
    assert_eq!(full(&mut conn, 0), Some(NotSentCode::QueueFull));
    assert_eq!(conn.cancel(T0, first), CancelResult::Withdrawn);
    assert_eq!(full(&mut conn, 58), Some(NotSentCode::QueueFull), "its body is still on the way back");
    assert_eq!(settled_code(&mut conn, first), ("cancelled_unsent", 0));
    assert_eq!(full(&mut conn, 100), None);
    conn.cancel(T0, second);
    settled(&mut conn, second);
    assert_eq!(full(&mut conn, 58), None);
    assert_eq!(full(&mut conn, 0), Some(NotSentCode::QueueFull), "by slots");
}

#[test]
fn x2_a_queued_request_is_withdrawn_and_its_body_comes_back() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"mine");
    assert_eq!(conn.cancel(T0, op), CancelResult::Withdrawn);
    match settled(&mut conn, op) {
        (Outcome::NotSent { code: NotSentCode::CancelledUnsent, body }, 0) => {
            assert_eq!(body.as_slice(), b"mine");
        }
        other => panic!("{other:?}"),
    }
    assert!(conn.poll_transmit(T0).is_none(), "X2: no Cancel is sent");
    assert_eq!(conn.cancel(T0, op), CancelResult::AlreadySettled); // B062
}

#[test]
fn x3_a_sent_request_is_unknown_at_once_and_a_cancel_follows() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"mine");
    take_all(&mut conn);
    assert_eq!(conn.cancel(T0, op), CancelResult::Cancelled);
    assert_eq!(settled_code(&mut conn, op), ("cancelled", 25));
    let out = frames(&take_all(&mut conn));
    assert_eq!(
        (out.len(), out[0].kind, out[0].flags, out[0].identity.raw()),
        (1, FrameType::Cancel, 0, (7, 77, 3))
    );
    // B019, B052: its late answer reaches nobody, the next one is the next one's.
    let next = unary(&mut conn, route, b"next");
    take_all(&mut conn);
    feed(&mut conn, &routed_frame(FrameType::Response, 3, b"late"));
    feed(&mut conn, &routed_frame(FrameType::Response, 4, b"right"));
    match settled(&mut conn, next) {
        (Outcome::Terminal(Terminal::Response { body, .. }), _) => assert_eq!(body.as_slice(), b"right"),
        other => panic!("{other:?}"),
    }
    assert_eq!(conn.counters().dropped_unmatched, 1);
}

/// E3, B116: a deadline with half a frame written settles the call; the frame is finished, `Cancel` comes behind it.
#[test]
fn e3_a_deadline_never_tears_a_frame() {
    for written in 1..26 {
        let (mut conn, route) = routed();
        let op = conn.request(T0, route, Request::unary(&b"hello"[..], at(100))).unwrap();
        let sibling = unary(&mut conn, route, b"other");
        let mut wire = take(&mut conn, T0, written, written);
        conn.handle_timeout(at(99));
        assert!(conn.poll_event().is_none(), "CC5");
        assert_eq!(conn.deadline().map(|d| (d.at, d.reason)), Some((at(100), DeadlineReason::Operation)));
        conn.handle_timeout(at(100));
        assert_eq!(settled_code(&mut conn, op), ("deadline_expired", written as u64));
        wire.extend(take_all(&mut conn));
        let kinds: Vec<_> = frames(&wire).iter().map(|f| (f.kind, f.identity.raw().2)).collect();
        assert_eq!(kinds, [(FrameType::Request, 3), (FrameType::Cancel, 3), (FrameType::Request, 4)]);
        feed(&mut conn, &routed_frame(FrameType::Response, 4, b""));
        assert!(matches!(settled(&mut conn, sibling), (Outcome::Terminal(_), 26)));
    }
}

#[test]
fn e2_a_deadline_before_a_byte_left_is_not_sent() {
    let (mut conn, route) = routed();
    let op = conn.request(T0, route, Request::unary(&b"hello"[..], at(100))).unwrap();
    conn.handle_timeout(at(100));
    assert_eq!(settled_code(&mut conn, op), ("deadline_expired", 0)); // B124
    assert!(conn.poll_transmit(T0).is_none());
    assert!(matches!(conn.handle_input(T0, &[]), Ok(0)));
}

#[test]
fn x5_a_terminal_that_has_arrived_wins_over_a_deadline_long_past() {
    let (mut conn, route) = routed();
    let op = conn.request(T0, route, Request::unary(&b"hello"[..], at(100))).unwrap();
    take_all(&mut conn);
    let later = T0 + Duration::from_secs(43_200); // B057: the clock jumps twelve hours
    feed_at(&mut conn, later, &routed_frame(FrameType::Response, 3, b"in time"));
    conn.handle_timeout(later);
    assert!(matches!(settled(&mut conn, op), (Outcome::Terminal(Terminal::Response { .. }), _)));
    assert_eq!(conn.cancel(later, op), CancelResult::AlreadySettled);
    assert!(conn.poll_event().is_none());
}

#[test]
fn x4_a_confirmed_cancel_waits_for_proof() {
    let cancelled = br#"{"code":"cancelled","message":""}"#;
    for case in 0..4 {
        let (mut conn, route) = routed();
        let op = unary(&mut conn, route, b"hello");
        take_all(&mut conn);
        assert_eq!(conn.confirm_cancel(T0, op, at(500)), CancelResult::Confirming);
        assert!(conn.poll_event().is_none(), "no result yet");
        assert_eq!(frames(&take_all(&mut conn))[0].kind, FrameType::Cancel);
        assert_eq!(conn.deadline().unwrap().at, at(500), "its deadline replaces the request's own");
        match case {
            0 => {
                feed(&mut conn, &routed_frame(FrameType::Error, 3, cancelled));
                let (outcome, _) = settled(&mut conn, op);
                assert!(
                    matches!(outcome, Outcome::Terminal(Terminal::Error(error)) if error.code() == "cancelled")
                );
            }
            1 => {
                feed(&mut conn, &routed_frame(FrameType::Response, 3, b"done"));
                assert!(matches!(settled(&mut conn, op), (Outcome::Terminal(Terminal::Response { .. }), _)));
            }
            2 => {
                conn.handle_timeout(at(500));
                assert_eq!(settled_code(&mut conn, op), ("cancelled", 26));
                assert!(conn.poll_transmit(T0).is_none(), "one Cancel is enough");
            }
            _ => {
                conn.handle_disconnect(T0, Disconnect::ReadFailed);
                assert_eq!(settled_code(&mut conn, op), ("connection_lost", 26));
            }
        }
    }
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"hello");
    assert_eq!(
        conn.confirm_cancel(T0, op, at(500)),
        CancelResult::Withdrawn,
        "what never left needs no proof"
    );
    assert_eq!(settled_code(&mut conn, op), ("cancelled_unsent", 0));
}

#[test]
fn b2_cancels_have_sixteen_slots_and_the_rest_are_not_sent() {
    let (mut conn, route) = routed();
    let ops: Vec<_> = (0..20).map(|_| unary(&mut conn, route, b"")).collect();
    take_all(&mut conn);
    for op in ops {
        assert_eq!(conn.cancel(T0, op), CancelResult::Cancelled);
        assert_eq!(settled_code(&mut conn, op), ("cancelled", 21));
    }
    assert_eq!(frames(&take_all(&mut conn)).len(), 16);
    assert_eq!(conn.counters().cancels_unsent, 4);
    assert!(!conn.is_closed());
}

#[test]
fn v22_the_last_correlation_is_used_once_and_then_none() {
    // B048: nothing wraps; an old reply reaches only the old caller.
    let (mut conn, route) = routed();
    conn.skip_correlations_to(hostwire_core::wire::Correlation::new(u64::MAX - 1).unwrap());
    let old = unary(&mut conn, route, b"a");
    let last = unary(&mut conn, route, b"b");
    let error = conn.request(T0, route, Request::unary(&b"c"[..], LATE)).unwrap_err();
    assert_eq!((error.code, error.body.as_slice()), (NotSentCode::CorrelationsExhausted, &b"c"[..]));
    let out = frames(&take_all(&mut conn));
    assert_eq!(out[1].identity.raw().2, u64::MAX);
    feed(&mut conn, &routed_frame(FrameType::Response, u64::MAX - 1, b"old"));
    assert!(matches!(settled(&mut conn, old), (Outcome::Terminal(_), _)));
    feed(&mut conn, &routed_frame(FrameType::Response, u64::MAX, b"last"));
    assert!(matches!(settled(&mut conn, last), (Outcome::Terminal(_), _)));
}

#[test]
fn v43_a_ping_with_a_pending_correlation_touches_nothing() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"a");
    take_all(&mut conn);
    for (flags, n) in [(0x00, 3), (0x02, 3), (0x04, 3)] {
        feed(&mut conn, &frame(FrameType::Ping, flags, (0, 0, n), &[])); // V35: at each priority
        let out = frames(&take_all(&mut conn));
        assert_eq!(
            (out.len(), out[0].kind, out[0].flags, out[0].identity.raw()),
            (1, FrameType::Pong, flags, (0, 0, n))
        );
    }
    assert!(conn.poll_event().is_none());
    feed(&mut conn, &routed_frame(FrameType::Response, 3, b""));
    assert!(matches!(settled(&mut conn, op), (Outcome::Terminal(_), _)));
}

#[test]
fn b068_a_pong_without_room_retires_the_generation() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"a");
    let ping = frame(FrameType::Ping, 0, (0, 0, 9), &[]);
    for _ in 0..32 {
        feed(&mut conn, &ping);
    }
    assert!(conn.handle_input(T0, &ping).is_err());
    assert_eq!(settled_code(&mut conn, op), ("connection_retired", 0));
    assert_eq!(closed(&mut conn), CloseReason::ControlBacklog);
    assert_nothing_left(&conn);
}

#[test]
fn b2_a_pong_goes_before_frames_that_were_offered_but_not_begun() {
    let (mut conn, route) = routed();
    unary(&mut conn, route, b"a");
    unary(&mut conn, route, b"b");
    conn.poll_transmit(T0).unwrap().blocked();
    let mut wire = take(&mut conn, T0, 5, 5);
    feed(&mut conn, &frame(FrameType::Ping, 0, (0, 0, 9), &[]));
    wire.extend(take_all(&mut conn));
    let kinds: Vec<_> = frames(&wire).iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FrameType::Request, FrameType::Pong, FrameType::Request]);
}

#[test]
fn v25_an_error_is_a_typed_terminal() {
    let (mut conn, route) = routed();
    let cases: [(&[u8], Option<&str>); 5] = [
        (br#"{"code":"bad","message":"m","retry_after_ms":50}"#, Some("bad")),
        (br#"{"code":"","message":"m"}"#, None), // F7
        (br#"{"code":"bad","code":"bad","message":"m"}"#, None),
        (b"not json", None),
        (b"", None),
    ];
    for (n, (body, code)) in (3..).zip(cases) {
        let op = unary(&mut conn, route, b"");
        take_all(&mut conn);
        feed(&mut conn, &routed_frame(FrameType::Error, n, body));
        match (settled(&mut conn, op).0, code) {
            (Outcome::Terminal(Terminal::Error(error)), Some(code)) => assert_eq!(error.code(), code),
            (outcome, None) => assert_eq!(outcome.code(), Some("malformed_error")),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn b4_a_response_without_room_completes_without_its_body() {
    let limits = ClientLimits { retained_bytes: 100, ..ClientLimits::default() };
    let (mut conn, route) = routed_with(limits);
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    feed(&mut conn, &routed_frame(FrameType::Response, 3, &[1; 101]));
    assert_eq!(settled_code(&mut conn, op), ("response_discarded", 21));
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    let answer = routed_frame(FrameType::Response, 4, &[1; 100]);
    feed(&mut conn, &answer);
    let kept = settled(&mut conn, op);
    assert!(matches!(&kept.0, Outcome::Terminal(Terminal::Response { body, .. }) if body.charge() == 100));
    // While the caller holds that answer, the next one has no room; a cut in its drain is no terminal.
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    feed(&mut conn, &routed_frame(FrameType::Response, 5, &[1; 50])[..60]);
    conn.handle_eof(T0);
    assert_eq!(settled_code(&mut conn, op), ("connection_lost", 21));
    drop(kept);
    assert_eq!(closed(&mut conn).to_string(), "the peer broke the protocol: the stream ended inside a frame");
    assert_nothing_left(&conn);
}

#[test]
fn x6_a_body_nobody_waits_for_any_more_is_freed_while_it_arrives() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    let answer = routed_frame(FrameType::Response, 3, &[1; 50_000]);
    feed(&mut conn, &answer[..20_000]);
    assert!(conn.footprint()[3] >= 19_000);
    conn.cancel(T0, op);
    assert_eq!(conn.footprint()[3], 0);
    feed(&mut conn, &answer[20_000..]);
    assert_eq!(settled_code(&mut conn, op), ("cancelled", 21));
    assert!(conn.poll_event().is_none());
}

#[test]
fn control_requests_settle_by_their_own_success_or_error() {
    let mut conn = active();
    let catalog = conn.catalog(T0, CatalogFilter::new(None).unwrap(), LATE).unwrap();
    let shutdown = conn.host_shutdown(T0, LATE).unwrap();
    let bodies: Vec<_> =
        frames(&take_all(&mut conn)).into_iter().map(|f| String::from_utf8(f.body).unwrap()).collect();
    assert_eq!(bodies, [r#"{"op":"catalog.list"}"#, r#"{"op":"host.shutdown"}"#]);
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 3), br#"{"op":"host.shutdown"}"#));
    assert!(matches!(settled(&mut conn, shutdown), (Outcome::Terminal(Terminal::ShutdownCommitted), _)));
    let list = br#"{"op":"catalog.list","generation":1,"modules":[],"subc_ops":[]}"#;
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 2), list));
    assert!(matches!(settled(&mut conn, catalog), (Outcome::Terminal(Terminal::Catalog(_)), _)));
    // F8: any other malformed success is a terminal, and the connection lives.
    let shutdown = conn.host_shutdown(T0, LATE).unwrap();
    take_all(&mut conn);
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 4), br#"{"op":"catalog.list"}"#));
    assert_eq!(settled_code(&mut conn, shutdown), ("malformed_response", 43));
    assert!(!conn.is_closed());
}

/// As many as the field reports say where the code is optimized; enough to see growth where it is not.
const FLOOD: u64 = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };

#[test]
fn b060_a_million_answered_requests_leave_no_timer_and_no_entry() {
    let (mut conn, route) = routed();
    for n in 3..3 + FLOOD {
        let op = unary(&mut conn, route, b"");
        take_all(&mut conn);
        feed(&mut conn, &routed_frame(FrameType::Response, n, b""));
        settled(&mut conn, op);
    }
    assert_eq!(conn.footprint(), [1, 0, 0, 0], "the route alone");
    assert_eq!(conn.counters().pending_high_water, 1);
}

#[test]
fn b059_a_million_timed_out_requests_and_their_late_answers_leave_memory_flat() {
    let (mut conn, route) = routed();
    for n in 0..FLOOD {
        let op = conn.request(at(n), route, Request::unary(&b"x"[..], at(n + 1))).unwrap();
        take(&mut conn, at(n), usize::MAX, usize::MAX);
        conn.handle_timeout(at(n + 1));
        assert_eq!(settled_code(&mut conn, op), ("deadline_expired", 22));
        feed_at(&mut conn, at(n), &routed_frame(FrameType::Response, n + 3, b"late"));
    }
    take_all(&mut conn);
    assert_eq!(conn.footprint(), [1, 0, 0, 0]);
    assert_eq!(conn.counters().dropped_unmatched, FLOOD);
    assert_eq!((conn.counters().pending_high_water, conn.counters().retained_high_water), (1, 0));
}

#[test]
fn b037_a_million_cancelled_requests_are_not_remembered_and_their_late_ends_are_dropped() {
    let (mut conn, route) = routed();
    for n in 0..FLOOD {
        let op = stream(&mut conn, route);
        take_all(&mut conn);
        assert_eq!(conn.cancel(T0, op), CancelResult::Cancelled);
        assert_eq!(settled_code(&mut conn, op), ("cancelled", 23));
        take_all(&mut conn);
        feed(&mut conn, &routed_frame(FrameType::StreamData, n + 3, b"late"));
    }
    feed(&mut conn, &routed_frame(FrameType::StreamEnd, 3, b""));
    assert_eq!(conn.footprint(), [1, 0, 0, 0], "no tombstone");
    assert_eq!(conn.counters().dropped_unmatched, FLOOD + 1);
    assert_eq!(conn.counters().sent.frames(FrameType::Cancel), FLOOD);
    assert_eq!((conn.counters().streams_high_water, conn.counters().retained_high_water), (1, 0));
}

#[test]
fn a_million_late_frames_in_a_row_leave_nothing_behind() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    let late: Vec<u8> = [FrameType::Response, FrameType::Error, FrameType::StreamData, FrameType::StreamEnd]
        .iter()
        .flat_map(|kind| routed_frame(*kind, 99, if *kind == FrameType::StreamEnd { b"" } else { b"{}" }))
        .collect();
    for _ in 0..FLOOD / 4 {
        feed(&mut conn, &late);
    }
    assert_eq!(conn.counters().dropped_unmatched, FLOOD);
    assert_eq!(
        (conn.footprint(), conn.interest().events),
        ([2, 1, 0, 0], false),
        "the route and the one that waits"
    );
    feed(&mut conn, &routed_frame(FrameType::Response, 3, b""));
    assert!(matches!(settled(&mut conn, op), (Outcome::Terminal(_), 21)));
}

#[test]
fn cc4_a_client_stops_reading_only_while_its_events_are_not_taken() {
    let (mut conn, route) = routed_with(ClientLimits { data_slots: 300, ..ClientLimits::default() });
    let ops: Vec<_> = (0..300).map(|_| unary(&mut conn, route, b"")).collect();
    let mut taken = 0;
    while taken < ops.len() * 21 {
        taken += take_all(&mut conn).len();
    }
    let mut wire = Vec::new();
    (3..303).for_each(|n| wire.extend(routed_frame(FrameType::Response, n, b"abc")));
    let consumed = conn.handle_input(T0, &wire).unwrap();
    assert_eq!(consumed, 256 * 24);
    assert!(!conn.interest().read);
    assert_eq!(conn.handle_input(T0, &wire[consumed..]), Ok(0));
    let mut events = 0;
    while let Some(Event::Settled { .. }) = conn.poll_event() {
        events += 1;
    }
    assert!(conn.interest().read);
    feed(&mut conn, &wire[consumed..]);
    while let Some(Event::Settled { .. }) = conn.poll_event() {
        events += 1;
    }
    assert_eq!(events, 300);
}

#[test]
fn f9_an_identity_matches_as_a_whole_or_not_at_all() {
    // Q4: the right correlation on the wrong channel or epoch.
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    for identity in [(7, 78, 3), (8, 77, 3), (7, 77, 4)] {
        feed(&mut conn, &frame(FrameType::Response, 0x0A, identity, b"x"));
    }
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 3), b"{}"));
    assert!(conn.poll_event().is_none());
    assert_eq!(conn.counters().dropped_unmatched, 4);
    let again = Identity::Routed(route, crate::raw::corr(3));
    assert_eq!(again.raw(), (7, 77, 3));
    feed(&mut conn, &routed_frame(FrameType::Response, 3, b""));
    assert!(matches!(settled(&mut conn, op), (Outcome::Terminal(_), _)));
}

#[test]
fn an_answer_to_a_request_that_has_not_left_answers_nothing() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"");
    feed(&mut conn, &routed_frame(FrameType::Response, 3, b"liar"));
    assert!(conn.poll_event().is_none());
    conn.cancel(T0, op);
    assert_eq!(settled_code(&mut conn, op), ("cancelled_unsent", 0));
}

#[test]
fn q6_w10_bodies_are_opaque_and_their_length_is_their_own() {
    let (mut conn, route) = routed();
    for body in [&b""[..], b"\xFF\xFE not utf-8", b"{\"op\":\"host.shutdown\"}", &[0; 300]] {
        unary(&mut conn, route, body);
        let out = frames(&take_all(&mut conn));
        assert_eq!(out[0].body, body);
    }
}

#[test]
fn v30_ae6_a_deadline_after_a_possible_send_leaves_one_body_and_no_replay() {
    let (mut conn, route) = routed();
    let op = conn.request(T0, route, Request::unary(&b"once"[..], at(100))).unwrap();
    let mut wire = take_all(&mut conn);
    conn.handle_timeout(at(100));
    assert_eq!(settled_code(&mut conn, op), ("deadline_expired", 25));
    wire.extend(take_all(&mut conn));
    let bodies = frames(&wire).iter().filter(|frame| frame.body == b"once").count();
    assert_eq!(bodies, 1);
}

#[test]
fn z2_traffic_and_settlements_are_counted_by_kind() {
    let (mut conn, route) = routed();
    let answered = unary(&mut conn, route, b"a");
    let unknown = unary(&mut conn, route, b"b");
    let sent = take_all(&mut conn).len() as u64;
    let withdrawn = unary(&mut conn, route, b"c");
    conn.cancel(T0, withdrawn);
    feed(&mut conn, &routed_frame(FrameType::Response, 3, b"x"));
    conn.cancel(T0, unknown);
    let cancel = take_all(&mut conn).len() as u64;
    let counters = conn.counters();
    let settled = counters.settlements;
    // The route's success is the other terminal.
    assert_eq!((settled.terminal, settled.unknown, settled.not_sent), (2, 1, 1));
    assert_eq!((counters.sent.frames(FrameType::Request), counters.sent.frames(FrameType::Cancel)), (4, 1));
    assert_eq!(counters.received.frames(FrameType::Response), 3);
    assert!(counters.sent.bytes > sent + cancel && counters.received.bytes > 22);
    assert_eq!((counters.pending_high_water, counters.queued_high_water), (3, 161), "161: the route.open");
    assert!(matches!(conn.cancel(T0, answered), CancelResult::AlreadySettled));
}
