//! Floods: memory flat, others untouched, counted by tables and pools.

use super::harness::*;
use crate::raw::{T0, route};
use hostwire_core::host::*;
use hostwire_core::wire::{FrameType, RouteHandle};

/// Writes all that waits, without looking at it.
fn drain(conn: &mut Connection) {
    while let Some(offer) = conn.poll_transmit(T0) {
        let n = offer.len();
        offer.written(n).unwrap();
    }
}

fn assert_in_bounds(host: &Host, conn: &Conn) {
    let admission = host.shared.admission();
    assert!(admission.pending_high_water(RouteClass::General) <= 1_020);
    assert!(admission.tasks_high_water(RouteClass::General) <= 254);
    assert!(conn.inner.table_capacity() <= 4_096, "{}", conn.inner.table_capacity());
    assert!(host.shared.resident().small().high_water() <= host.shared.resident().split().small);
}

/// `n` pairs of request and cancel in one burst.
fn pairs(conn: &mut Conn, route: RouteHandle, n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..n {
        bytes.extend(conn.request_bytes(route, b"x"));
        bytes.extend(routed(FrameType::Cancel, 0, route, conn.corr, b""));
    }
    bytes
}

#[test]
fn b078_100_000_requests_and_cancels_that_nobody_reads_the_answers_of_stop_being_read() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let burst = pairs(&mut conn, route, 100_000);
    let mut at = 0;
    let mut handlers = Vec::new();
    loop {
        let taken = conn.inner.handle_input(T0, &burst[at..]).unwrap();
        at += taken;
        for event in conn.events() {
            if let Event::Request { permit, .. } = event {
                handlers.push(permit); // cancelled, and not joined
            }
        }
        if taken == 0 {
            break;
        }
    }
    assert!(at < burst.len() && !conn.inner.interest().read, "B6");
    assert_eq!(conn.inner.counters().refused.server_busy, 64);
    assert!(conn.inner.pending() <= 1_020 && handlers.len() <= 254);
    assert_in_bounds(&host, &conn);
    // Another connection works: what it asks for is refused, never delayed, until there is room again.
    let mut other = host.active();
    other.control(br#"{"op":"catalog.list"}"#);
    assert_eq!(other.said(), [(2, "server_busy".into())]);
    drain(&mut conn.inner);
    other.control(br#"{"op":"catalog.list"}"#);
    assert_eq!(other.said(), [(3, "Response".into())]);
}

#[test]
fn b078_the_same_flood_with_handlers_that_are_joined_late_keeps_tasks_bounded() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let mut running = std::collections::VecDeque::new();
    for _ in 0..1_000 {
        let burst = pairs(&mut conn, route, 100);
        let mut at = 0;
        while at < burst.len() {
            // One frame at a time, so that each request is handed over before its cancel.
            let one = if (burst[at + 5]) == FrameType::Cancel as u8 { HEADER } else { HEADER + 1 };
            let taken = conn.inner.handle_input(T0, &burst[at..at + one]).unwrap();
            at += taken;
            if taken == 0 {
                drain(&mut conn.inner);
            }
            while let Some(event) = conn.inner.poll_event() {
                match event {
                    Event::Request { id, permit, .. } => running.push_back((id, permit)),
                    Event::Stop { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(running.len() <= 254);
        }
        for (id, permit) in running.drain(..) {
            conn.inner.stopped(T0, id).unwrap();
            drop(permit);
        }
    }
    drain(&mut conn.inner);
    assert_in_bounds(&host, &conn);
    let counters = conn.inner.counters();
    assert_eq!(counters.settled.cancelled + counters.refused.server_busy, 100_000);
    assert!(counters.settled.cancelled >= 100_000 / 2);
    assert_eq!(conn.inner.pending(), 0);
    assert_eq!(host.registry.work(route), 0);
}

#[test]
fn b094_a_million_requests_beyond_the_limits_are_refused_with_flat_memory() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let mut jobs = Vec::new();
    for _ in 0..254 {
        jobs.push(conn.start(route));
    }
    let before = conn.inner.table_capacity();
    for _ in 0..20_000 {
        let mut burst = Vec::new();
        for _ in 0..50 {
            burst.extend(conn.request_bytes(route, b"more"));
        }
        conn.feed(&burst);
        drain(&mut conn.inner);
    }
    assert_eq!(conn.inner.counters().refused.server_busy, 1_000_000);
    assert!(conn.inner.poll_event().is_none(), "no dispatch");
    assert_eq!(conn.inner.table_capacity(), before);
    assert_in_bounds(&host, &conn);
    drop(jobs);
    conn.start(route);
}

#[test]
fn b077_a_million_late_cancels_leave_nothing_behind() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let mut before = 0;
    for n in 0..1_000_000_u64 {
        let job = conn.start(route);
        conn.inner.respond(T0, job.id, false, Default::default()).unwrap();
        drain(&mut conn.inner);
        conn.cancel(route, conn.corr);
        if n == 1_000 {
            before = conn.inner.table_capacity();
        }
    }
    for n in 0..1_000 {
        conn.cancel(route, 5_000_000 + n); // never used
    }
    assert_eq!(conn.inner.counters().dropped.stale_cancel, 1_001_000);
    assert_eq!(conn.inner.table_capacity(), before, "memory is flat");
    assert_eq!(conn.inner.pending(), 0);
}

#[test]
fn w12_64_connections_that_each_declare_64_mib_and_send_nothing_hold_nothing() {
    let mut host = Host::new();
    let mut all = Vec::new();
    for _ in 0..64 {
        let (mut conn, route) = host.routed();
        let mut head = conn.request_bytes(route, b"");
        head[..4].copy_from_slice(&67_108_864_u32.to_le_bytes());
        conn.feed(&head);
        all.push((conn, route));
    }
    let resident = host.shared.resident();
    assert_eq!((resident.ingress().high_water(), resident.small().used()), (0, 0));
    let (conn, _) = &mut all[0];
    conn.feed(&[0; 1_000]);
    assert!(host.shared.resident().ingress().used() <= 65_536, "what arrived, and one step");
}

/// B8: what comes of a body is charged to its connection's share; small requests have a slice of their own.
#[test]
fn b8_63_connections_that_hold_all_large_bodies_leave_the_last_one_its_small_requests() {
    let mut host = Host::new();
    let (mut conn, mine) = host.routed();
    let split = *host.shared.resident().split();
    let part = vec![0; split.ingress / 63];
    let mut hoarders = Vec::new();
    for _ in 0..63 {
        let (mut hoarder, route) = host.routed();
        let mut head = hoarder.request_bytes(route, b"");
        head[..4].copy_from_slice(&67_108_864_u32.to_le_bytes());
        hoarder.feed(&head);
        hoarder.feed(&part);
        hoarders.push(hoarder);
        // Each turn of theirs is one of ours, and ours is answered in it.
        let job = conn.start(mine);
        conn.inner.respond(T0, job.id, false, Default::default()).unwrap();
        assert_eq!(conn.said(), [(conn.corr, "Response".into())]);
    }
    let resident = host.shared.resident();
    assert!(resident.ingress().used() > split.ingress / 4 * 3 && resident.ingress().used() <= split.ingress);
    for hoarder in &mut hoarders {
        hoarder.feed(&part);
    }
    assert!(host.shared.resident().ingress().high_water() <= split.ingress);
    let job = conn.start(mine);
    conn.inner.respond(T0, job.id, false, job.body).unwrap();
    assert_eq!(conn.said(), [(conn.corr, "Response".into())]);
    drop(hoarders);
    assert_eq!(host.shared.resident().ingress().used(), 0);
}

#[test]
fn a_flood_of_stale_frames_and_of_malformed_control_requests_is_flat() {
    let mut host = Host::new();
    let (mut conn, mine) = host.routed();
    for _ in 0..20_000 {
        conn.goodbye(route(mine.channel.value(), 99));
        conn.cancel(mine, 77);
        conn.control(b"{");
        drain(&mut conn.inner);
    }
    assert!(conn.events().is_empty());
    assert!(conn.inner.table_capacity() <= 64, "{}", conn.inner.table_capacity());
    assert!(conn.inner.memory_bound() <= host.shared.memory_bound());
}

#[test]
fn b094_one_connection_at_its_limits_leaves_another_its_turns() {
    let mut host = Host::new();
    let (mut flooder, theirs) = host.routed();
    let (mut conn, mine) = host.routed();
    let flood = pairs(&mut flooder, theirs, 5_000);
    let mut at = 0;
    for turn in 0..200 {
        let end = flood.len().min(at + 4_300);
        at += flooder.inner.handle_input(T0, &flood[at..end]).unwrap();
        flooder.events();
        drain(&mut flooder.inner);
        let job = conn.start(mine);
        conn.inner.respond(T0, job.id, false, Default::default()).unwrap();
        assert_eq!(conn.said().len(), 1, "answered in its own turn, {turn}");
    }
    assert!(at > 0);
}
