//! `host.shutdown`: the latch over connections, and the drain.

use super::harness::*;
use crate::raw::{T0, take};
use hostwire_core::endpoint::{Disconnect, WriteFailure};
use hostwire_core::fault::CloseReason;
use hostwire_core::host::*;

fn committed(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::ShutdownCommitted)).count()
}

#[test]
fn v45_b089_h1_the_whole_response_first_then_the_commit() {
    let mut host = Host::new();
    let mut conn = host.active();
    conn.control(SHUTDOWN);
    let whole = conn.waiting_bytes();
    take(&mut conn.inner, T0, whole - 1, 1);
    assert!(!host.shared.latch().is_committed() && conn.events().is_empty());
    conn.take_bytes();
    assert!(host.shared.latch().is_committed());
    assert_eq!(committed(&conn.events()), 1);
    conn.control(SHUTDOWN);
    assert_eq!(conn.said(), [(3, "Response".into())], "H3: its own success");
    assert!(conn.events().is_empty(), "begins once");
}

#[test]
fn v46_h2_every_failure_before_the_last_byte_reopens_the_latch() {
    let failures: [fn(&mut Conn); 6] = [
        |conn| conn.inner.poll_transmit(T0).unwrap().failed(WriteFailure::NothingAccepted),
        |conn| drop(conn.inner.poll_transmit(T0)),
        |conn| conn.inner.handle_eof(T0),
        |conn| conn.inner.handle_timeout(secs(30)),
        |conn| conn.inner.handle_disconnect(T0, Disconnect::ReadFailed),
        |conn| conn.feed_any(&[0xFF; 21]),
    ];
    for fail in failures {
        for partial in [0, 1, 42] {
            let mut host = Host::new();
            let (mut owner, mut waiter) = (host.active(), host.active());
            owner.control(SHUTDOWN);
            waiter.control(SHUTDOWN);
            assert!(waiter.take_bytes().is_empty(), "H3: it waits for the attempt");
            take(&mut owner.inner, T0, partial, 1);
            fail(&mut owner);
            let (events, _) = owner.closed();
            assert!(matches!(events[..], [Event::ShutdownReopened]), "{events:?}");
            waiter.inner.latch_moved(T0);
            assert_eq!(waiter.said(), [(2, "Response".into())], "nobody's later request is lost");
            assert_eq!(committed(&waiter.events()), 1);
        }
    }
}

#[test]
fn h2_a_connection_that_is_dropped_without_a_word_reopens_the_latch() {
    let mut host = Host::new();
    let mut owner = host.active();
    owner.control(SHUTDOWN);
    drop(owner);
    let mut next = host.active();
    next.control(SHUTDOWN);
    next.take_bytes();
    assert!(host.shared.latch().is_committed());
}

#[test]
fn h3_after_the_commit_everyone_who_waits_gets_its_own_success_and_it_begins_once() {
    let mut host = Host::new();
    let mut all: Vec<_> = (0..5).map(|_| host.active()).collect();
    for conn in &mut all {
        conn.control(SHUTDOWN);
        conn.control(SHUTDOWN);
    }
    assert_eq!(
        all[0].said(),
        [(2, "Response".into()), (3, "Response".into())],
        "its own second one follows the commit"
    );
    let mut begun = committed(&all[0].events());
    for conn in &mut all[1..] {
        assert!(conn.take_bytes().is_empty());
        conn.inner.latch_moved(T0);
        assert_eq!(conn.said(), [(2, "Response".into()), (3, "Response".into())]);
        begun += committed(&conn.events());
    }
    assert_eq!(begun, 1);
    assert_eq!(host.shared.admission().pending_in_use(RouteClass::General), 0);
}

#[test]
fn v47_h6_t1_any_authenticated_client_may_and_nobody_before_that() {
    let mut host = Host::new();
    let mut early = host.accept();
    let request = crate::raw::frame(hostwire_core::wire::FrameType::Request, 2, (0, 0, 1), SHUTDOWN);
    early.feed_fatal(&request);
    let mut unselected = host.authenticated();
    unselected.feed_fatal(&request);
    assert!(!host.shared.latch().is_committed());
    let mut conn = host.active();
    conn.control(SHUTDOWN);
    assert_eq!(conn.said(), [(2, "Response".into())]);
}

#[test]
fn a_shutdown_from_inside_needs_no_response_and_serves_those_who_wait() {
    let mut host = Host::new();
    let (mut owner, mut waiter) = (host.active(), host.active());
    owner.control(SHUTDOWN);
    waiter.control(SHUTDOWN);
    assert!(host.shared.latch().commit_locally());
    assert!(!host.shared.latch().commit_locally());
    waiter.inner.begin_drain(T0);
    assert_eq!(waiter.said(), [(2, "Response".into())]);
    assert_eq!(owner.said(), [(2, "Response".into())]);
    assert_eq!(committed(&owner.events()), 0, "begins once");
}

#[test]
fn b091_terminals_of_what_ran_and_of_what_was_read_precede_the_goodbye() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route); // 3 runs
    conn.control(SHUTDOWN); // 4
    let said = conn.said();
    assert_eq!(said, [(4, "Response".into())]);
    host.shared.set_draining();
    conn.inner.begin_drain(T0);
    conn.request(route, b"read, not dispatched"); // 5
    conn.inner.stop_all(T0);
    let events = conn.events();
    assert!(
        matches!(events[..], [Event::ShutdownCommitted, Event::Stop { id, why: StopReason::Draining }] if id == job.id)
    );
    conn.inner.stopped(T0, job.id).unwrap();
    conn.inner.finish_drain(T0);
    conn.request(route, b"still in the socket"); // 6
    assert_eq!(conn.said(), [(5, "server_busy".into()), (3, "cancelled".into()), (0, "Goodbye".into())]);
    assert!(matches!(conn.events()[..], [Event::RouteClosed { .. }]), "H5: and no route Goodbye was sent");
}

#[test]
fn a_real_terminal_counts_until_the_drains_end_and_a_waiting_bind_is_withdrawn() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let (first, second) = (conn.start(route), conn.start(route));
    conn.control(OPEN_LAB.as_bytes());
    let Some(Event::RouteOpen { id, .. }) = conn.inner.poll_event() else { panic!() };
    conn.control(OPEN_LAB.as_bytes()); // not even taken
    host.shared.set_draining();
    conn.inner.begin_drain(T0);
    conn.inner.stop_all(T0);
    conn.inner.stop_all(T0);
    assert_eq!(
        conn.events().iter().filter(|event| matches!(event, Event::Stop { .. })).count(),
        2,
        "told once"
    );
    conn.inner.respond(T0, first.id, false, b"real".to_vec().into()).unwrap();
    conn.inner.finish_drain(T0);
    let said = conn.said();
    assert_eq!(said[0], (3, "Response".into()));
    let mut rest: Vec<_> = said[1..4].to_vec();
    rest.sort();
    assert_eq!(rest, [(4, "cancelled".into()), (5, "cancelled".into()), (6, "cancelled".into())]);
    assert_eq!(said[4], (0, "Goodbye".into()));
    let events = conn.events();
    assert!(
        events.iter().any(|event| matches!(event, Event::RouteOpenWithdrawn { id: which } if *which == id))
    );
    assert!(!events.iter().any(|event| matches!(event, Event::RouteOpen { .. })));
    assert_eq!(conn.inner.stopped(T0, second.id), Err(TooLate));
    conn.inner.handle_eof(T0);
    assert_eq!(conn.closed().1, CloseReason::Drained);
}

#[test]
fn h3_whoever_still_waits_at_the_drains_end_gets_its_own_success() {
    let mut host = Host::new();
    let (mut owner, mut waiter) = (host.active(), host.active());
    owner.control(SHUTDOWN);
    waiter.control(SHUTDOWN);
    owner.take_bytes();
    waiter.inner.finish_drain(T0); // nobody told it that the latch has moved
    assert_eq!(waiter.said(), [(2, "Response".into()), (0, "Goodbye".into())]);
}
