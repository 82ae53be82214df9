//! Requests, streams, cancellation, permits, what handlers may say.

use super::harness::*;
use crate::raw::{T0, corr, route};
use hostwire_core::body::Body;
use hostwire_core::control::{ErrorBody, HostCode};
use hostwire_core::fault::{CloseReason, PeerMisbehaved};
use hostwire_core::host::*;
use hostwire_core::wire::FrameType;

fn body(bytes: &[u8]) -> Body {
    bytes.to_vec().into()
}

fn say(conn: &mut Conn, job: &Job, bytes: &[u8]) -> Result<(), TooLate> {
    conn.inner.respond(T0, job.id, false, body(bytes))
}

#[test]
fn v18_b073_each_connection_gets_its_own_reply_whatever_the_order() {
    let mut host = Host::new();
    let (mut a, ra) = host.routed();
    let (mut b, rb) = host.routed();
    let (ja, jb) = (a.start(ra), b.start(rb));
    assert_eq!(ja.id.correlation(), jb.id.correlation());
    say(&mut b, &jb, b"for b").unwrap();
    say(&mut a, &ja, b"for a").unwrap();
    let (fa, fb) = (a.frames().remove(0), b.frames().remove(0));
    assert_eq!((&fa.body[..], &fb.body[..]), (&b"for a"[..], &b"for b"[..]));
    assert_eq!(fa.flags, 0x0A, "W11");
    assert_eq!(fa.identity.raw(), (ra.channel.value(), ra.epoch.value(), 3), "F9");
    assert_ne!(ra.channel, rb.channel, "R4");
}

#[test]
fn v44_b074_q2_a_correlation_at_or_below_the_watermark_closes_before_dispatch() {
    for (second, same_route) in [(5, true), (4, true), (5, false)] {
        let mut host = Host::new();
        let (mut conn, first) = host.routed();
        conn.corr = 4;
        let job = conn.start(first);
        let to = if same_route { first } else { route(9, 9) };
        let reason = conn.feed_fatal(&routed(FrameType::Request, 2, to, second, b"again"));
        assert_eq!(reason, CloseReason::Peer(PeerMisbehaved::Watermark));
        let (events, _) = conn.closed();
        assert!(matches!(events[0], Event::Stop { id, why: StopReason::ConnectionLost } if id == job.id));
        assert!(matches!(events[1], Event::RouteClosed { .. }));
        assert_eq!(events.len(), 2, "its handler ran once, its route_gone comes once");
    }
    let mut host = Host::new();
    let (mut conn, first) = host.routed();
    conn.feed_fatal(&routed(FrameType::Request, 2, first, 0, b"zero"));
}

#[test]
fn q2_the_watermark_moves_whatever_becomes_of_the_request() {
    let oversize = {
        let mut frame = crate::raw::frame(FrameType::Request, 2, (0, 0, 1_000), b"");
        frame[..4].copy_from_slice(&65_537_u32.to_le_bytes());
        frame.extend(vec![0; 65_537]);
        frame
    };
    let control = |body| crate::raw::frame(FrameType::Request, 2, (0, 0, 1_000), body);
    for (refused, code) in [
        (routed(FrameType::Request, 2, route(9, 9), 1_000, b""), "unknown_channel"),
        (oversize, "invalid_control_request"),
        (control(b"no JSON"), "invalid_control_request"),
        (control(br#"{"op":"of.nobody"}"#), "unsupported_operation"),
    ] {
        for again in [999, 1_000] {
            let mut host = Host::new();
            let (mut conn, first) = host.routed();
            conn.feed(&refused);
            let said = conn.said();
            assert_eq!(said.len(), 1);
            assert_eq!((said[0].0, said[0].1.as_ref()), (1_000, code));
            let reason = conn.feed_fatal(&routed(FrameType::Request, 2, first, again, b""));
            assert_eq!(reason, CloseReason::Peer(PeerMisbehaved::Watermark), "{code}");
        }
    }
}

#[test]
fn q1_q2_gaps_are_legal_up_to_the_last_correlation() {
    let mut host = Host::new();
    let (mut conn, first) = host.routed();
    for corr in [1_000, 1 << 40, u64::MAX] {
        conn.feed(&routed(FrameType::Request, 2, first, corr, b""));
        conn.job();
    }
}

#[test]
fn b016_correlations_of_any_width_come_back_unchanged() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    for corr in [3, 1 << 31, 1 << 32, (1 << 53) + 1, 1 << 63, u64::MAX - 1] {
        conn.feed(&routed(FrameType::Request, 2, route, corr, b"echo"));
        let job = conn.job();
        say(&mut conn, &job, b"echo").unwrap();
        assert_eq!(conn.said(), [(corr, "Response".into())]);
    }
}

#[test]
fn v38_q5_a_stream_is_its_items_in_order_and_one_end() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    for n in 0..5_u8 {
        conn.inner.item(T0, job.id, n == 3, body(&[n])).unwrap();
    }
    conn.inner.end_stream(T0, job.id).unwrap();
    let frames = conn.frames();
    let items: Vec<_> = frames[..5].iter().map(|f| (f.kind, f.flags, f.body[0])).collect();
    let data = FrameType::StreamData;
    assert_eq!(items, [(data, 2, 0), (data, 2, 1), (data, 2, 2), (data, 3, 3), (data, 2, 4)]);
    assert_eq!((frames[5].kind, frames[5].flags, frames[5].body.len()), (FrameType::StreamEnd, 0x0A, 0));
    assert_eq!(conn.inner.end_stream(T0, job.id), Err(TooLate));
    let job = conn.start(route);
    conn.inner.item(T0, job.id, false, body(b"x")).unwrap();
    conn.inner.fail(T0, job.id, &ErrorBody::from_handler("broken", "m", Some(5))).unwrap();
    assert_eq!(conn.said().iter().map(|s| s.1.clone()).collect::<Vec<_>>(), ["StreamData", "broken"]);
}

#[test]
fn q5_a_response_after_an_item_is_an_internal_error() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    conn.inner.item(T0, job.id, false, body(b"item")).unwrap();
    say(&mut conn, &job, b"response").unwrap();
    assert_eq!(conn.said(), [(3, "StreamData".into()), (3, "internal_error".into())]);
}

#[test]
fn v33_x1_b075_cancel_wins_and_its_terminal_waits_until_the_handler_has_stopped() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    conn.cancel(route, 3);
    assert!(conn.take_bytes().is_empty(), "not before it is stopped and joined");
    assert!(
        matches!(conn.inner.poll_event(), Some(Event::Stop { id, why: StopReason::Cancelled }) if id == job.id)
    );
    conn.cancel(route, 3);
    assert!(conn.inner.poll_event().is_none(), "told once");
    assert_eq!(host.shared.admission().tasks_in_use(RouteClass::General), 1);
    conn.inner.stopped(T0, job.id).unwrap();
    assert_eq!(conn.said(), [(3, "cancelled".into())]);
    assert_eq!(host.shared.admission().tasks_in_use(RouteClass::General), 1, "the permit is the handler's");
    assert_eq!(host.registry.work(route), 1);
    drop(job);
    assert_eq!(host.shared.admission().tasks_in_use(RouteClass::General), 0);
}

#[test]
fn x1_a_visible_cancel_beats_a_completion_of_the_same_instant() {
    type Ending = fn(&mut Conn, &Job) -> Result<(), TooLate>;
    let endings: [Ending; 3] = [
        |conn, job| say(conn, job, b"done"),
        |conn, job| conn.inner.fail(T0, job.id, &HostCode::InternalError.into()),
        |conn, job| conn.inner.end_stream(T0, job.id),
    ];
    for ending in endings {
        let (mut conn, route) = Host::new().routed();
        let job = conn.start(route);
        conn.cancel(route, 3);
        ending(&mut conn, &job).unwrap();
        assert_eq!(conn.said(), [(3, "cancelled".into())]);
        assert_eq!(conn.inner.stopped(T0, job.id), Err(TooLate));
        assert!(conn.take_bytes().is_empty());
    }
}

#[test]
fn v34_f5_a_completion_that_came_first_is_the_only_terminal() {
    let (mut conn, route) = Host::new().routed();
    let job = conn.start(route);
    say(&mut conn, &job, b"done").unwrap();
    conn.cancel(route, 3);
    assert!(conn.inner.poll_event().is_none());
    assert_eq!(say(&mut conn, &job, b"again"), Err(TooLate));
    assert_eq!(conn.said(), [(3, "Response".into())]);
    conn.cancel(route, 3);
    assert_eq!(
        (conn.inner.counters().dropped.stale_cancel, conn.inner.counters().dropped.late_answer),
        (1, 1)
    );
}

#[test]
fn a_request_that_was_cancelled_before_it_was_handed_over_never_runs() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    conn.request(route, b"work");
    conn.cancel(route, 3);
    assert_eq!(conn.said(), [(3, "cancelled".into())]);
    assert!(conn.inner.poll_event().is_none(), "no dispatch");
    assert_eq!(conn.inner.counters().dispatched, 0);
    assert_eq!(host.shared.admission().tasks_in_use(RouteClass::General), 0);
    assert_eq!(host.shared.resident().small().used(), 0);
}

#[test]
fn v32_q4_a_cancel_on_another_channel_epoch_or_correlation_touches_nothing() {
    let mut host = Host::new();
    let (mut conn, mine) = host.routed();
    let (mut other, _) = host.routed();
    let job = conn.start(mine);
    conn.cancel(route(mine.channel.value(), mine.epoch.value() + 1), 3);
    conn.cancel(route(mine.channel.value() + 1, mine.epoch.value()), 3);
    conn.cancel(mine, 4);
    other.cancel(mine, 3);
    assert!(conn.inner.poll_event().is_none() && other.inner.poll_event().is_none());
    assert_eq!(conn.inner.counters().dropped.stale_cancel, 3);
    say(&mut conn, &job, b"").unwrap();
}

#[test]
fn b081_a_handler_that_ends_without_an_answer_is_one_internal_error() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    conn.inner.stopped(T0, job.id).unwrap();
    drop(job);
    assert_eq!(conn.said(), [(3, "internal_error".into())]);
    assert_eq!(host.shared.admission().tasks_in_use(RouteClass::General), 0);
    assert_eq!(host.shared.admission().pending_in_use(RouteClass::General), 0);
}

#[test]
fn b9_a_pending_permit_is_freed_by_the_first_byte_of_the_terminal() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    let pending = |host: &Host| host.shared.admission().pending_in_use(RouteClass::General);
    say(&mut conn, &job, b"answer").unwrap();
    assert_eq!((pending(&host), conn.inner.pending()), (1, 1));
    conn.inner.poll_transmit(T0).unwrap().blocked();
    assert_eq!(pending(&host), 1);
    begin(&mut conn.inner);
    assert_eq!((pending(&host), conn.inner.pending()), (0, 0));
}

#[test]
fn v48_a_class_saturated_by_blocked_settlement_refuses_its_own_and_leaves_the_other() {
    let mut host = Host::limited(|limits| {
        limits.pending_requests = 6;
        limits.handler_tasks = 8;
    });
    let mut conn = host.active();
    let (general, reserved) = (host.open(&mut conn), host.open_reserved(&mut conn));
    let settle = |conn: &mut Conn, route, n: usize| {
        for _ in 0..n {
            let job = conn.start(route);
            say(conn, &job, b"").unwrap();
        }
    };
    settle(&mut conn, reserved, 4);
    conn.request(reserved, b"");
    assert!(conn.inner.poll_event().is_none());
    settle(&mut conn, general, 2);
    conn.request(general, b"");
    assert!(conn.inner.poll_event().is_none());
    let said: Vec<_> = conn.said().into_iter().map(|said| said.1).collect();
    assert_eq!(said.iter().filter(|code| *code == "server_busy").count(), 2);
    settle(&mut conn, general, 2);
    settle(&mut conn, reserved, 4);
    // Tasks: two reserved handlers at once, general ones go on.
    conn.take_bytes();
    let jobs = [conn.start(reserved), conn.start(reserved)];
    conn.request(reserved, b"");
    assert_eq!(conn.said().pop().unwrap().1, "server_busy");
    drop((conn.start(general), jobs));
}

#[test]
fn b11_a_handler_cannot_say_that_nothing_ran() {
    let long_code = "c".repeat(129);
    let long_message = "m".repeat(4_097);
    for (error, want) in [
        (ErrorBody::from(HostCode::ServerBusy), "internal_error"),
        (ErrorBody::from(HostCode::UnknownChannel), "internal_error"),
        (ErrorBody::from_handler("unknown_channel", "", None), "internal_error"),
        (ErrorBody::from_handler("", "m", None), "internal_error"),
        (ErrorBody::from_handler("no spaces", "m", None), "internal_error"),
        (ErrorBody::from_handler(&long_code, "m", None), "internal_error"),
        (ErrorBody::from_handler("own", &long_message, None), "internal_error"),
        (ErrorBody::from_handler("own", &long_message[1..], None), "own"),
        (ErrorBody::from(HostCode::Cancelled), "cancelled"),
    ] {
        let (mut conn, route) = Host::new().routed();
        let job = conn.start(route);
        conn.inner.fail(T0, job.id, &error).unwrap();
        assert_eq!(conn.said(), [(3, want.into())]);
        let settled = conn.inner.counters().settled;
        let internal = u64::from(want == "internal_error");
        assert_eq!((settled.internal_error, settled.error), (internal, 1 - internal), "Z2: {want}");
    }
    let mut host = Host::limited(|limits| (limits.error_code, limits.error_message) = (4, 4));
    let (mut conn, route) = host.routed();
    for (code, message, want) in
        [("four", "four", "four"), ("fives", "x", "internal_error"), ("x", "fives", "internal_error")]
    {
        let job = conn.start(route);
        conn.inner.fail(T0, job.id, &ErrorBody::from_handler(code, message, None)).unwrap();
        assert_eq!(conn.said().pop().unwrap().1, want);
    }
}

#[test]
fn b095_64_items_wait_then_the_handler_does_until_there_is_room() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    for n in 0..64 {
        conn.inner.item(T0, job.id, false, body(&[n])).unwrap();
    }
    for _ in 0..3 {
        let refused = conn.inner.item(T0, job.id, false, body(b"back")).unwrap_err();
        assert_eq!((refused.why, refused.body.as_slice()), (ItemRefusal::Full, &b"back"[..]));
    }
    assert!(conn.inner.poll_event().is_none());
    begin(&mut conn.inner);
    assert!(matches!(conn.inner.poll_event(), Some(Event::Room)));
    assert!(conn.inner.poll_event().is_none(), "once");
    conn.inner.item(T0, job.id, false, body(b"in")).unwrap();
    assert!(conn.inner.item(T0, job.id, false, body(b"full")).is_err());
    // Another connection's stream does not notice.
    let (mut other, theirs) = host.routed();
    let job = other.start(theirs);
    other.inner.item(T0, job.id, false, body(b"x")).unwrap();
}

#[test]
fn b083_a_cancelled_handlers_send_fails_at_once_although_nothing_is_read() {
    let (mut conn, route) = Host::new().routed();
    let job = conn.start(route);
    while conn.inner.item(T0, job.id, false, body(b"x")).is_ok() {}
    conn.cancel(route, 3);
    assert!(matches!(conn.inner.poll_event(), Some(Event::Stop { .. })));
    assert_eq!(conn.inner.item(T0, job.id, false, body(b"x")).unwrap_err().why, ItemRefusal::Stopped);
    conn.inner.stopped(T0, job.id).unwrap();
    assert_eq!(conn.said().pop().unwrap(), (3, "cancelled".into()));
}

#[test]
fn b061_a_stream_that_lost_an_item_never_ends_well() {
    // Told to stop, an item refused: what it says then is no clean end.
    let (mut conn, route) = Host::new().routed();
    let job = conn.start(route);
    conn.inner.stop_all(T0);
    conn.events();
    assert_eq!(conn.inner.item(T0, job.id, false, body(b"x")).unwrap_err().why, ItemRefusal::Stopped);
    conn.inner.end_stream(T0, job.id).unwrap();
    assert_eq!(conn.said(), [(3, "cancelled".into())]);
    // An item over 64 MiB.
    let job = conn.start(route);
    let refused = conn.inner.item(T0, job.id, false, vec![0; 67_108_865].into()).unwrap_err();
    assert_eq!(refused.why, ItemRefusal::TooLarge);
    assert_eq!(conn.inner.end_stream(T0, job.id), Err(TooLate));
    assert_eq!(conn.said(), [(4, "internal_error".into())]);
}

#[test]
fn b8_output_is_charged_to_the_connections_share_and_given_back_when_it_has_left() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let share = host.shared.resident().split().egress_share();
    let egress = |host: &Host| host.shared.resident().egress().used();
    let job = conn.start(route);
    conn.inner.item(T0, job.id, false, vec![0; 60 << 20].into()).unwrap();
    assert_eq!(egress(&host), 60 << 20);
    let refused = conn.inner.item(T0, job.id, false, vec![0; share - (60 << 20) + 1].into()).unwrap_err();
    assert_eq!(refused.why, ItemRefusal::Full);
    begin(&mut conn.inner);
    assert!(matches!(conn.inner.poll_event(), Some(Event::Room)));
    assert_eq!(
        conn.inner.item(T0, job.id, false, refused.body).unwrap_err().why,
        ItemRefusal::Full,
        "it has begun, not left"
    );
    conn.take_bytes();
    assert!(matches!(conn.inner.poll_event(), Some(Event::Room)));
    assert_eq!(egress(&host), 0);
    // What was reserved needs no second charge, and a body's own ingress charge counts as well.
    let mut reserved = Body::from(vec![0; 1 << 20]);
    reserved.attach(host.shared.resident().egress().try_charge(1 << 20).unwrap());
    conn.inner.item(T0, job.id, false, reserved).unwrap();
    assert_eq!(egress(&host), 1 << 20);
    conn.take_bytes();
    conn.events();
    // A response that finds no room is an internal error, and never silence.
    let all = host.shared.resident().egress().try_charge(host.shared.resident().egress().limit());
    assert_eq!(conn.inner.item(T0, job.id, false, body(b"x")).unwrap_err().why, ItemRefusal::NoMemory);
    assert_eq!(conn.said(), [(3, "internal_error".into())]);
    let job = conn.start(route);
    say(&mut conn, &job, b"x").unwrap();
    assert_eq!(conn.said(), [(4, "internal_error".into())]);
    let job = conn.start(route);
    let echo = job.body;
    conn.inner.respond(T0, job.id, false, echo).unwrap();
    assert_eq!(conn.said(), [(5, "Response".into())], "an echo carries its charge");
    drop(all);
}

#[test]
fn w7_a_response_over_64_mib_is_an_internal_error() {
    let (mut conn, route) = Host::new().routed();
    let job = conn.start(route);
    conn.inner.respond(T0, job.id, true, vec![0; 67_108_865].into()).unwrap();
    assert_eq!(conn.said(), [(3, "internal_error".into())]);
    let job = conn.start(route);
    conn.inner.respond(T0, job.id, true, vec![0; 67_108_864].into()).unwrap();
    assert_eq!(conn.frames()[0].flags, 0x0B);
}

#[test]
fn b079_a_disconnect_frees_no_work_that_is_still_running() {
    let mut host = Host::limited(|limits| limits.handler_tasks = 10);
    let mut running = Vec::new();
    for _ in 0..100 {
        let (mut conn, route) = host.routed();
        for _ in 0..8 {
            conn.request(route, b"slow");
        }
        running.extend(conn.events().into_iter().filter_map(|event| match event {
            Event::Request { permit, .. } => Some(permit),
            _ => None,
        }));
        conn.inner.handle_eof(T0);
        let (events, _) = conn.closed();
        for event in events {
            if let Event::RouteClosed { route, .. } = event {
                assert!(matches!(host.registry.close(route), Step::RouteGone));
                let _ = host.registry.gone(route);
            }
        }
        assert!(running.len() <= 8, "general tasks: ten less two reserved");
        assert_eq!(host.shared.admission().tasks_in_use(RouteClass::General), running.len());
        assert_eq!(host.shared.admission().pending_in_use(RouteClass::General), 0);
    }
    assert_eq!(running.len(), 8);
    drop(running);
    assert_eq!(host.shared.admission().tasks_in_use(RouteClass::General), 0);
}

#[test]
fn commands_about_requests_that_never_were_change_nothing() {
    let mut host = Host::new();
    let (mut a, ra) = host.routed();
    let (mut b, rb) = host.routed();
    let (ja, _) = (a.start(ra), b.start(rb));
    a.start(ra);
    let foreign = a.start(ra);
    assert_eq!(b.inner.respond(T0, foreign.id, false, body(b"")), Err(TooLate));
    assert_eq!(b.inner.stopped(T0, foreign.id), Err(TooLate));
    assert_eq!(b.inner.item(T0, foreign.id, false, body(b"")).unwrap_err().why, ItemRefusal::Stopped);
    assert_eq!(
        b.inner.reject_route(T0, ja.id, &HostCode::InternalError.into()),
        Err(TooLate),
        "a request is no bind"
    );
    b.control(OPEN_LAB.as_bytes());
    let Some(Event::RouteOpen { id, .. }) = b.inner.poll_event() else { panic!() };
    assert_eq!(b.inner.respond(T0, id, false, body(b"")), Err(TooLate), "a bind is no request");
    assert_eq!(b.inner.stopped(T0, id), Err(TooLate));
    assert!(b.take_bytes().is_empty());
    assert_eq!(ja.id.correlation(), corr(3));
}
