//! A host that lies: each lie as §7, §11 and §12 say, others unharmed.

use super::harness::{assert_nothing_left, closed, feed, routed, routed_frame, settled, settled_code, unary};
use crate::raw::{T0, frame, take_all};
use hostwire_core::fault::{CloseReason, PeerMisbehaved};
use hostwire_core::outcome::Outcome;
use hostwire_core::wire::{FrameType, HeaderError, Illegal};

#[test]
fn f1_a_frame_of_the_wrong_direction_or_shape_retires_the_generation() {
    use FrameType as T;
    let big = vec![b' '; 65_537];
    let cases: [(Vec<u8>, PeerMisbehaved); 15] = [
        (frame(T::Request, 2, (0, 0, 5), b"{}"), PeerMisbehaved::Illegal(Illegal::Direction)), // V42
        (frame(T::Request, 2, (7, 77, 5), b""), PeerMisbehaved::Illegal(Illegal::Direction)),
        (frame(T::Cancel, 0, (7, 77, 3), b""), PeerMisbehaved::Illegal(Illegal::Direction)),
        (frame(T::Pong, 0, (0, 0, 3), b""), PeerMisbehaved::Illegal(Illegal::Direction)),
        (frame(T::Hello, 0, (0, 0, 3), b""), PeerMisbehaved::Illegal(Illegal::Direction)),
        (frame(T::HelloAck, 0, (0, 0, 0), b""), PeerMisbehaved::Illegal(Illegal::Direction)),
        (frame(T::Push, 0, (7, 77, 3), b""), PeerMisbehaved::Illegal(Illegal::Identity)), // F4
        (frame(T::Response, 0x0A, (7, 77, 0), b""), PeerMisbehaved::Illegal(Illegal::Identity)),
        (frame(T::StreamData, 2, (0, 0, 3), b""), PeerMisbehaved::Illegal(Illegal::Identity)),
        (frame(T::Ping, 0, (0, 0, 0), b""), PeerMisbehaved::Illegal(Illegal::Identity)),
        (frame(T::StreamEnd, 0x0A, (7, 77, 3), b"x"), PeerMisbehaved::Illegal(Illegal::Body)), // F3
        (frame(T::Response, 0x0B, (0, 0, 3), b"{}"), PeerMisbehaved::Illegal(Illegal::Body)),  // F4
        (frame(T::Error, 0x0A, (0, 0, 3), &big), PeerMisbehaved::Illegal(Illegal::Body)),
        (vec![0, 0, 0, 0, 1], PeerMisbehaved::Header(HeaderError::Version)), // W1
        (frame(T::Ping, 0, (0, 0, 3), b"x"), PeerMisbehaved::Header(HeaderError::PureHeaderLength)),
    ];
    for (bytes, how) in cases {
        let (mut conn, route) = routed();
        let sent = unary(&mut conn, route, b"a");
        take_all(&mut conn);
        let queued = unary(&mut conn, route, b"b");
        assert!(conn.handle_input(T0, &bytes).is_err(), "{how:?}");
        assert_eq!(settled_code(&mut conn, sent), ("connection_lost", 22));
        assert_eq!(settled_code(&mut conn, queued), ("connection_retired", 0));
        assert_eq!(closed(&mut conn), CloseReason::Peer(how));
        assert!(conn.poll_transmit(T0).is_none(), "G3: nothing is said");
        assert_nothing_left(&conn);
    }
}

#[test]
fn b007_an_unknown_type_is_never_skipped_over_its_body() {
    for kind in [12, 0xEE] {
        let (mut conn, _) = routed();
        let mut bytes = frame(FrameType::Request, 0, (0, 0, 1), &frame(FrameType::Ping, 0, (0, 0, 8), b""));
        bytes[5] = kind;
        bytes.extend(frame(FrameType::Ping, 0, (0, 0, 9), b""));
        assert!(conn.handle_input(T0, &bytes).is_err());
        assert!(conn.poll_transmit(T0).is_none(), "the decoy is never answered");
        assert_eq!(closed(&mut conn), CloseReason::Peer(PeerMisbehaved::Header(HeaderError::Type)));
    }
}

#[test]
fn v19_a_second_terminal_is_dropped_and_counted() {
    let (mut conn, route) = routed();
    let op = unary(&mut conn, route, b"");
    take_all(&mut conn);
    for _ in 0..3 {
        feed(&mut conn, &routed_frame(FrameType::Response, 3, b"x"));
    }
    assert!(matches!(settled(&mut conn, op), (Outcome::Terminal(_), _)));
    assert!(conn.poll_event().is_none()); // F5
    assert_eq!(conn.counters().dropped_unmatched, 2);
}

#[test]
fn a_flood_for_nobody_leaves_memory_flat() {
    let (mut conn, _) = routed();
    let mut flood = Vec::new();
    for n in 0..50 {
        flood.extend(routed_frame(FrameType::Response, 100 + n, &[0; 100]));
        flood.extend(frame(FrameType::StreamData, 2, (7, 77, 100 + n), b""));
        flood.extend(frame(FrameType::StreamEnd, 0x0A, (7, 77, 100 + n), b""));
        flood.extend(frame(FrameType::Push, 0x20, (7, 77, 0), b"shed"));
        flood.extend(frame(FrameType::Goodbye, 0, (9, 77, 0), b""));
        flood.extend(frame(FrameType::Error, 0x0A, (0, 0, 100), b"{}"));
    }
    for _ in 0..200 {
        feed(&mut conn, &flood);
    }
    assert_eq!(conn.footprint(), [1, 0, 0, 0]);
    assert!(conn.poll_event().is_none() && conn.poll_transmit(T0).is_none());
    assert_eq!((conn.counters().dropped_unmatched, conn.counters().dropped_push), (50_000, 10_000));
}
