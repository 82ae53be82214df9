//! Frames that must not be, frames in pieces, big bodies, reading that pauses.

use super::harness::*;
use crate::raw::{T0, frame, route};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::fault::{ApiMisuse, CloseReason, PeerMisbehaved};
use hostwire_core::host::*;
use hostwire_core::wire::{FrameType, Illegal, Sender, judge};

#[test]
fn f1_v17_every_illegal_frame_closes_without_an_error_and_without_dispatch() {
    let mut closed = 0;
    for kind in FrameType::ALL {
        for identity in [(0, 0, 0), (0, 0, 900), (1, 1, 0), (1, 1, 900)] {
            let body: &[u8] = if kind.is_pure_header() { b"" } else { b"x" };
            let flags = if kind.is_pure_header() { 0 } else { 2 };
            let bytes = frame(kind, flags, identity, body);
            let header = hostwire_core::wire::Header::decode(bytes.first_chunk().unwrap()).unwrap();
            let mut host = Host::new();
            let (mut conn, _) = host.routed();
            match judge(Sender::Client, &header) {
                Ok(()) => assert!(conn.inner.handle_input(T0, &bytes).is_ok() || identity == (0, 0, 0)),
                Err(how) => {
                    assert_eq!(conn.feed_fatal(&bytes), CloseReason::Peer(PeerMisbehaved::Illegal(how)));
                    assert!(!conn.closed().0.iter().any(|event| matches!(event, Event::Request { .. })));
                    closed += 1;
                }
            }
        }
    }
    assert_eq!(closed, 12 * 4 - 6);
    let mut conn = Host::new().active();
    let reason = conn.feed_fatal(&frame(FrameType::Cancel, 0, (1, 1, 0), b""));
    assert_eq!(
        reason,
        CloseReason::Peer(PeerMisbehaved::Illegal(Illegal::Identity)),
        "B077: the zero Cancel closes"
    );
}

#[test]
fn ae2_v13_v15_w2_corruption_closes_without_an_error() {
    let good = frame(FrameType::Request, 0x02, (1, 1, 3), b"");
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let mut too_long = good.clone();
    too_long[..4].copy_from_slice(&67_108_865_u32.to_le_bytes());
    let control_epoch = frame(FrameType::Request, 0x02, (0, 1, 3), b"");
    let zero_epoch = frame(FrameType::Request, 0x02, (1, 0, 3), b"");
    for bytes in [
        with(4, 1),
        with(5, 12),
        with(6, 0x06),
        with(6, 0x30),
        with(6, 0x40),
        with(6, 0x20),
        too_long,
        control_epoch,
        zero_epoch,
    ] {
        let mut host = Host::new();
        let (mut conn, _) = host.routed();
        assert!(matches!(conn.feed_fatal(&bytes), CloseReason::Peer(PeerMisbehaved::Header(_))));
        assert_eq!(host.shared.resident().ingress().used(), 0, "before anything is allocated");
    }
    let mut conn = Host::new().active();
    conn.feed_fatal(&[0, 0, 0, 0, 3]); // W1: five bytes are enough
}

#[test]
fn v14_b110_an_end_inside_a_frame_is_corruption_and_one_between_frames_is_an_end() {
    let (mut conn, route) = Host::new().routed();
    let bytes = conn.request_bytes(route, b"body");
    for cut in 0..bytes.len() {
        let mut host = Host::new();
        let (mut conn, _) = host.routed();
        conn.feed(&bytes[..cut]);
        conn.inner.handle_eof(T0);
        let want = if cut == 0 { CloseReason::Eof } else { CloseReason::Peer(PeerMisbehaved::Truncated) };
        assert_eq!(conn.closed().1, want, "cut at {cut}");
        assert_nothing_left(&conn.inner);
    }
}

/// What a byte stream leads to: answers and events, as text.
fn outcome(conn: &mut Conn) -> String {
    let events: Vec<_> = conn
        .events()
        .iter()
        .map(|event| match event {
            Event::Request { id, body, .. } => format!("request {id:?} {:?}", body.as_slice()),
            other => format!("{other:?}"),
        })
        .collect();
    format!("{:?} {:?} {events:?}", conn.said(), conn.inner.counters().received)
}

#[test]
fn cc3_input_split_anywhere_gives_the_same_events() {
    let script = |conn: &mut Conn, route| {
        let mut bytes = conn.request_bytes(route, b"one");
        bytes.extend(frame(FrameType::Request, 0x02, (0, 0, conn.next()), CATALOG));
        bytes.extend(conn.request_bytes(crate::raw::route(9, 9), b"unknown"));
        bytes.extend(routed(FrameType::Cancel, 0, route, 3, b""));
        bytes.extend(frame(FrameType::Pong, 0, (0, 0, 8), b""));
        bytes.extend(conn.request_bytes(route, b""));
        bytes.extend(routed(FrameType::Goodbye, 0, route, 0, b""));
        bytes
    };
    let (mut conn, route) = Host::new().routed();
    let bytes = script(&mut conn, route);
    conn.feed(&bytes);
    let whole = outcome(&mut conn);
    for split in 0..=bytes.len() {
        let mut host = Host::new();
        let (mut conn, _) = host.routed();
        conn.feed(&bytes[..split]);
        conn.feed(&bytes[split..]);
        assert_eq!(outcome(&mut conn), whole, "split at {split}");
    }
}

#[test]
fn b009_a_frame_whose_first_bytes_end_a_read_comes_with_the_next() {
    for k in 1..21 {
        let mut host = Host::new();
        let (mut conn, route) = host.routed();
        let first = routed(FrameType::Request, 2, route, 10, b"a");
        let second = routed(FrameType::Request, 2, route, 11, b"b");
        conn.feed(&[&first[..], &second[..k]].concat());
        assert_eq!(conn.job().id.correlation().value(), 10);
        assert!(conn.inner.poll_event().is_none());
        conn.feed(&second[k..]);
        assert_eq!(conn.job().id.correlation().value(), 11, "{k} bytes ended the first read");
    }
}

#[test]
fn v12_w7_a_body_of_64_mib_is_taken_by_lease_and_is_charged_while_it_lives() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let mut head = conn.request_bytes(route, b"");
    head[..4].copy_from_slice(&67_108_864_u32.to_le_bytes());
    conn.feed(&head);
    assert_eq!(host.shared.resident().ingress().used(), 0, "W12: a declared length commits no memory");
    let chunk = vec![5_u8; 1 << 20];
    let mut left = 67_108_864;
    while left > 0 {
        let n = left.min(chunk.len());
        match conn.inner.lease_body() {
            Some(mut lease) => {
                let n = n.min(lease.room());
                lease.buffer().extend_from_slice(&chunk[..n]);
                left -= n;
                conn.inner.return_body(T0, lease);
            }
            None => {
                conn.feed(&chunk[..n.min(1_000)]);
                left -= n.min(1_000);
            }
        }
    }
    let job = conn.job();
    assert_eq!(job.body.len(), 67_108_864);
    assert_eq!(host.shared.resident().ingress().used(), 67_108_864);
    // B8: another connection's small requests do not notice; its large ones are refused, and none of it waits.
    let (mut other, theirs) = host.routed();
    other.request(theirs, &[1; 65_536]);
    drop(other.job());
    conn.request(route, &[1; 65_537]);
    assert_eq!(conn.said(), [(conn.corr, "server_busy".into())], "its own share is used up");
    drop(job);
    assert_eq!(host.shared.resident().ingress().used(), 0);
}

#[test]
fn v28_b8_many_large_bodies_at_once_are_refused_finitely_and_one_largest_goes() {
    let mut host = Host::new();
    let large = vec![1_u8; 60 << 20];
    let (mut first, route) = host.routed();
    first.request(route, &large);
    let job = first.job();
    let mut refused = 0;
    for _ in 0..3 {
        let (mut conn, route) = host.routed();
        conn.request(route, &large);
        match conn.inner.poll_event() {
            Some(Event::Request { .. }) => {}
            None => {
                assert_eq!(conn.said().pop().unwrap().1, "server_busy");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(refused, 3, "112 MiB of ingress take one of 60 MiB while it lives");
    drop(job);
    let (mut conn, route) = host.routed();
    conn.request(route, &large);
    conn.job();
}

#[test]
fn a_lease_that_comes_back_wrong_or_input_during_one_is_misuse_and_ends_only_this_connection() {
    for wrong in [true, false] {
        let mut host = Host::new();
        let (mut conn, route) = host.routed();
        let mut head = conn.request_bytes(route, b"");
        head[..4].copy_from_slice(&100_000_u32.to_le_bytes());
        head.push(0);
        conn.feed(&head);
        let mut lease = conn.inner.lease_body().unwrap();
        let want = if wrong {
            lease.buffer().clear();
            conn.inner.return_body(T0, lease);
            ApiMisuse::LeaseMismatch
        } else {
            assert!(conn.inner.handle_input(T0, b"x").is_err());
            conn.inner.return_body(T0, lease);
            ApiMisuse::InputDuringLease
        };
        assert_eq!(conn.closed().1, CloseReason::Misuse(want));
        assert_eq!(host.shared.resident().ingress().used(), 0);
    }
}

#[test]
fn b6_unread_refusals_stop_the_reading_between_frames_and_reading_them_starts_it_again() {
    let mut host = Host::limited(|limits| limits.writer_frames = 3);
    let mut conn = host.active();
    let unknown = route(5, 5);
    let burst: Vec<u8> = (0..10).flat_map(|_| conn.request_bytes(unknown, b"abc")).collect();
    let one = HEADER + 3;
    assert_eq!(conn.inner.handle_input(T0, &burst), Ok(3 * one));
    assert!(!conn.inner.interest().read && conn.inner.interest().write);
    assert_eq!(conn.inner.handle_input(T0, &burst[3 * one..]), Ok(0));
    begin(&mut conn.inner);
    assert!(conn.inner.interest().read, "the first one has begun to leave");
    assert_eq!(conn.inner.handle_input(T0, &burst[3 * one..]), Ok(one));
    assert_eq!(conn.inner.counters().pauses, 2);
    conn.take_bytes();
    assert_eq!(conn.inner.handle_input(T0, &burst[4 * one..]), Ok(3 * one));
    assert_eq!(conn.inner.counters().refused.unknown_channel, 7);
}

#[test]
fn b6_waiting_responses_and_items_never_stop_the_reading() {
    let mut host = Host::limited(|limits| limits.writer_frames = 2);
    let (mut conn, route) = host.routed();
    for _ in 0..20 {
        let job = conn.start(route);
        conn.inner.respond(T0, job.id, false, Default::default()).unwrap();
    }
    let job = conn.start(route);
    while conn.inner.item(T0, job.id, false, Default::default()).is_ok() {}
    assert!(conn.inner.interest().read);
    conn.start(route);
}

#[test]
fn untaken_events_stop_the_reading_and_taking_them_starts_it_again() {
    let mut host = Host::limited(|limits| limits.handler_tasks = 1_000);
    let (mut conn, route) = host.routed();
    let burst: Vec<u8> = (0..300).flat_map(|_| conn.request_bytes(route, b"")).collect();
    let taken = conn.inner.handle_input(T0, &burst).unwrap();
    assert_eq!(taken, 256 * HEADER);
    assert!(!Endpoint::interest(&conn.inner).read && conn.inner.interest().events);
    assert_eq!(conn.events().len(), 256);
    assert!(conn.inner.interest().read);
    assert_eq!(conn.inner.handle_input(T0, &burst[taken..]), Ok(44 * HEADER));
}

#[test]
fn input_during_the_lease_of_a_negotiation_is_misuse_too() {
    let mut conn = Host::new().authenticated();
    let mut head = frame(FrameType::Request, 0x02, (0, 0, 1), b"");
    head[..4].copy_from_slice(&65_536_u32.to_le_bytes());
    head.push(b'{');
    conn.feed(&head);
    let lease = conn.inner.lease_body().unwrap();
    assert!(conn.inner.handle_input(T0, b"x").is_err());
    conn.inner.return_body(T0, lease);
    assert_eq!(conn.closed().1, CloseReason::Misuse(ApiMisuse::InputDuringLease));
}

#[test]
fn b6_c1_a_pause_never_stands_inside_a_frame() {
    let mut host = Host::limited(|limits| limits.writer_frames = 1);
    let mut conn = host.active();
    let mut bytes = frame(FrameType::Request, 0x02, (0, 0, conn.next()), b"");
    bytes[..4].copy_from_slice(&70_000_u32.to_le_bytes());
    conn.feed(&bytes);
    assert!(conn.inner.interest().read, "its refusal waits, and its body is still to be drained");
    conn.feed(&vec![0; 70_000]);
    assert!(!conn.inner.interest().read);
    assert_eq!(conn.inner.handle_input(T0, &bytes), Ok(0));
}

#[test]
fn r5_a_route_that_is_published_while_a_request_on_it_arrives_does_not_take_it() {
    let mut host = Host::new();
    let mut conn = host.active();
    conn.control(OPEN_LAB.as_bytes());
    let Some(Event::RouteOpen { id, .. }) = conn.inner.poll_event() else { panic!() };
    let route = host.registry.claim(conn.owner).unwrap();
    let bytes = conn.request_bytes(route, b"guessed");
    conn.feed(&bytes[..HEADER + 3]);
    let Step::Publish(grant) = host.registry.bind_accepted(route) else { panic!() };
    conn.inner.accept_route(T0, id, grant).unwrap();
    conn.feed(&bytes[HEADER + 3..]);
    assert_eq!(conn.said(), [(2, "Response".into()), (3, "unknown_channel".into())]);
    assert!(conn.events().is_empty(), "nothing of it was kept, so nothing is dispatched");
}
