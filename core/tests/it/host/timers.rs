//! Deadlines and probes.

use super::harness::*;
use crate::raw::{T0, frame, frames, take};
use hostwire_core::endpoint::DeadlineReason;
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::LivenessTimes;
use hostwire_core::wire::FrameType;
use std::time::Duration;

/// Interval 5 s, timeout 2 s.
fn probing() -> Host {
    let mut config = config();
    config.timeouts.liveness =
        Some(LivenessTimes { interval: Duration::from_secs(5), timeout: Duration::from_secs(2) });
    config.limits.writer_frames = 2;
    Host::with(config)
}

/// Its `Ping` is due and written at `now`.
fn pinged(conn: &mut Conn, now: u64) -> u64 {
    conn.inner.handle_timeout(secs(now));
    let bytes = take(&mut conn.inner, secs(now), usize::MAX, usize::MAX);
    let all = frames(&bytes);
    let ping = all.first().unwrap();
    assert_eq!((ping.kind, ping.flags), (FrameType::Ping, 0));
    ping.identity.raw().2
}

fn pong(corr: u64) -> Vec<u8> {
    frame(FrameType::Pong, 0, (0, 0, corr), b"")
}

#[test]
fn l2_n13_probes_start_after_the_selection_and_an_answered_one_is_followed_at_the_interval() {
    let mut host = probing();
    assert_eq!(host.authenticated().inner.deadline().unwrap().reason, DeadlineReason::Handshake);
    let mut conn = host.active();
    assert_eq!(
        (conn.inner.deadline().unwrap().at, conn.inner.deadline().unwrap().reason),
        (secs(5), DeadlineReason::Liveness)
    );
    let first = pinged(&mut conn, 5);
    conn.feed_at(secs(6), &pong(first));
    assert_eq!(conn.inner.deadline().unwrap().at, secs(11));
    let second = pinged(&mut conn, 11);
    assert_eq!((first, second), (1, 2));
    conn.feed_at(secs(12), &pong(first));
    assert_eq!(conn.inner.counters().dropped.stale_pong, 1);
    conn.inner.handle_timeout(secs(13));
    assert!(!conn.inner.is_closed(), "a complete frame has come");
    let mut off = Host::new().active();
    assert_eq!(off.inner.deadline(), None, "L2: off unless configured; idle costs no timer");
    off.feed(&pong(7));
    assert_eq!(off.inner.counters().dropped.stale_pong, 1);
}

#[test]
fn l2_v35_a_silent_peer_is_retired_at_the_timeout_and_not_before() {
    let mut host = probing();
    let mut conn = host.active();
    pinged(&mut conn, 5);
    conn.inner.handle_timeout(at(6_999_999));
    assert!(!conn.inner.is_closed());
    conn.inner.handle_timeout(secs(7));
    assert_eq!(conn.closed().1, CloseReason::Liveness);
}

#[test]
fn b070_bulk_that_keeps_arriving_before_the_pong_is_life() {
    let mut host = probing();
    let (mut conn, route) = host.routed();
    let ping = pinged(&mut conn, 5);
    for second in 6..12 {
        let bytes = conn.request_bytes(route, &[0; 60_000]);
        conn.feed_at(secs(second), &bytes);
        conn.events();
        conn.inner.handle_timeout(secs(second));
        assert!(!conn.inner.is_closed(), "at {second} s");
    }
    assert_eq!(ping, 1);
    // A frame that is only half here is no complete one.
    let mut conn = host.active();
    pinged(&mut conn, 5);
    conn.feed_at(secs(6), &[0; 4]);
    conn.inner.handle_timeout(secs(7));
    assert_eq!(conn.closed().1, CloseReason::Liveness);
}

#[test]
fn b071_b084_b10_a_peer_that_does_not_read_is_retired_by_the_frame_deadline() {
    let mut host = probing();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    conn.inner.respond(secs(1), job.id, false, b"never read".to_vec().into()).unwrap();
    conn.inner.handle_timeout(secs(5)); // the Ping cannot leave: its clock does not start
    let deadline = conn.inner.deadline().unwrap();
    assert_eq!((deadline.at, deadline.reason), (secs(31), DeadlineReason::FrameOut));
    conn.inner.poll_transmit(secs(30)).unwrap().blocked();
    conn.inner.handle_timeout(at(30_999_999));
    assert!(!conn.inner.is_closed(), "CC5");
    conn.inner.handle_timeout(secs(31));
    assert_eq!(conn.closed().1, CloseReason::FrameOutTimeout);
    host.routed(); // others are untouched
}

#[test]
fn b2_a_ping_goes_before_data_at_the_next_frame_boundary() {
    let mut host = probing();
    let (mut conn, route) = host.routed();
    for _ in 0..2 {
        let job = conn.start(route);
        conn.inner.respond(T0, job.id, false, b"data".to_vec().into()).unwrap();
    }
    let first = take(&mut conn.inner, T0, 1, 1);
    conn.inner.handle_timeout(secs(5));
    let bytes = [first, take(&mut conn.inner, secs(5), usize::MAX, 3)].concat();
    let kinds: Vec<_> = frames(&bytes).iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FrameType::Response, FrameType::Ping, FrameType::Response]);
}

#[test]
fn q3_v43_a_ping_and_a_request_of_the_same_number_touch_each_other_not() {
    let mut config = config();
    config.timeouts.liveness =
        Some(LivenessTimes { interval: Duration::from_secs(1), timeout: Duration::from_secs(1) });
    let mut host = Host::with(config);
    let (mut conn, route) = host.routed();
    let job = conn.start(route); // 3
    for n in 0..3 {
        let ping = pinged(&mut conn, 1 + n);
        conn.feed_at(secs(1 + n), &pong(ping));
    }
    assert_eq!(conn.inner.pending(), 1);
    conn.inner.respond(secs(4), job.id, false, Default::default()).unwrap();
    assert_eq!(conn.said().last().unwrap(), &(3, "Response".into()));
}

#[test]
fn b6_l2_while_the_host_does_not_read_the_probes_clock_stands() {
    let mut host = probing();
    let mut conn = host.active();
    pinged(&mut conn, 5);
    for _ in 0..2 {
        let bytes = conn.request_bytes(crate::raw::route(9, 9), b"");
        conn.feed_at(at(5_500_000), &bytes);
    }
    assert!(!conn.inner.interest().read);
    assert_eq!(conn.inner.deadline().unwrap().reason, DeadlineReason::FrameOut, "that one ends it");
    conn.inner.handle_timeout(secs(20));
    assert!(!conn.inner.is_closed());
    take(&mut conn.inner, secs(20), usize::MAX, usize::MAX);
    assert_eq!(conn.inner.deadline().unwrap().at, at(21_500_000));
}

#[test]
fn w6_a_frame_has_one_absolute_deadline_from_its_first_byte() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    assert_eq!(conn.inner.deadline(), None, "waiting for a first byte has no limit");
    let bytes = conn.request_bytes(route, &[1; 100]);
    for (n, byte) in bytes[..60].iter().enumerate() {
        conn.feed_at(at(n as u64 * 500_000), &[*byte]);
        assert_eq!(conn.inner.deadline().unwrap().at, secs(30), "progress does not extend it");
    }
    conn.inner.handle_timeout(at(29_999_999));
    assert!(!conn.inner.is_closed());
    conn.inner.handle_timeout(secs(30));
    assert_eq!(conn.closed().1, CloseReason::FrameInTimeout);
}

#[test]
fn each_outgoing_frame_has_its_own_deadline_and_slow_reading_in_time_lives() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    for _ in 0..3 {
        let job = conn.start(route);
        conn.inner.respond(T0, job.id, false, b"x".to_vec().into()).unwrap();
    }
    for n in 1..=3 {
        conn.inner.handle_timeout(secs(n * 29));
        assert!(!conn.inner.is_closed());
        assert_eq!(take(&mut conn.inner, secs(n * 29), HEADER + 1, HEADER + 1).len(), HEADER + 1);
    }
    assert_eq!(conn.inner.deadline(), None);
}
