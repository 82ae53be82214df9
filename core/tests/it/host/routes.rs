//! Routes: bind, publication, close, and the races between them.

use super::harness::*;
use crate::raw::{T0, route};
use hostwire_core::control::{ErrorBody, HostCode};
use hostwire_core::host::*;
use hostwire_core::wire::RouteHandle;

fn binding(host: &mut Host, conn: &mut Conn) -> (RequestId, RouteHandle) {
    conn.control(OPEN_LAB.as_bytes());
    let Some(Event::RouteOpen { id, open, component: 0, class: RouteClass::General }) =
        conn.inner.poll_event()
    else {
        panic!()
    };
    assert_eq!(open.target().module_id(), "lab");
    (id, host.registry.claim(conn.owner).unwrap())
}

#[test]
fn r1_a_route_is_installed_then_answered_and_unknown_before_that() {
    let mut host = Host::new();
    let mut conn = host.active();
    let (id, route) = binding(&mut host, &mut conn);
    conn.request(route, b"early");
    assert_eq!(conn.said(), [(3, "unknown_channel".into())], "R5: mid-bind it is unknown");
    let Step::Publish(grant) = host.registry.bind_accepted(route) else { panic!() };
    assert_eq!(grant.handle(), route);
    conn.inner.accept_route(T0, id, grant).unwrap();
    conn.request(route, b"pipelined"); // visible before the next frame is judged
    assert!(matches!(conn.inner.poll_event(), Some(Event::Request { component: 0, .. })));
    let answer = conn.frames().remove(0);
    assert_eq!(
        answer.body,
        format!(r#"{{"op":"route.open","route_channel":{},"route_epoch":{}}}"#, route.channel, route.epoch)
            .into_bytes()
    );
    assert_eq!(conn.inner.routes().collect::<Vec<_>>(), [route]);
    assert_eq!(host.shared.admission().pending_in_use(RouteClass::General), 1);
}

#[test]
fn v36_r2_a_rejected_bind_is_answered_after_route_gone_and_frees_its_channel() {
    let mut host = Host::new();
    let mut conn = host.active();
    for (error, want) in [
        (ErrorBody::from_bind("", "m", None), "bind_rejected"),
        (ErrorBody::from_bind("server_busy", "m", None), "server_busy"), // B11: a bind may say it
        (ErrorBody::from(HostCode::InternalError), "internal_error"),    // it panicked
    ] {
        let (id, route) = binding(&mut host, &mut conn);
        assert!(matches!(host.registry.bind_rejected(route), Step::RouteGone));
        assert!(matches!(host.registry.bind_rejected(route), Step::Nothing), "once");
        assert!(matches!(host.registry.gone(route), Step::Released));
        conn.inner.reject_route(T0, id, &error).unwrap();
        assert_eq!(conn.said(), [(conn.corr, want.into())]);
        assert_eq!(conn.inner.reject_route(T0, id, &error), Err(TooLate));
    }
    assert!(host.registry.is_empty() && conn.inner.routes().next().is_none());
}

#[test]
fn r2_an_overrun_bind_is_answered_at_once_and_keeps_its_channel_until_it_has_ended() {
    let mut host = Host::limited(|limits| limits.routes = 1);
    let mut conn = host.active();
    let (id, route) = binding(&mut host, &mut conn);
    conn.inner.reject_route(T0, id, &HostCode::ModuleTimeout.into()).unwrap();
    assert!(matches!(host.registry.close(route), Step::Nothing));
    assert_eq!(conn.said(), [(2, "module_timeout".into())]);
    assert_eq!(host.registry.claim(conn.owner), Err(NoChannel));
    // It ends well after all, and too late.
    assert!(matches!(host.registry.bind_accepted(route), Step::RouteGone));
    assert!(matches!(host.registry.gone(route), Step::Released));
    assert!(host.registry.claim(conn.owner).is_ok());
}

#[test]
fn a_close_during_the_bind_wins_and_publishes_nothing() {
    let mut host = Host::new();
    let mut conn = host.active();
    let (id, route) = binding(&mut host, &mut conn);
    conn.inner.handle_eof(T0);
    let (events, _) = conn.closed();
    assert!(matches!(events[..], [Event::RouteOpenWithdrawn { id: which }] if which == id));
    assert!(matches!(host.registry.close(route), Step::Nothing));
    assert!(matches!(host.registry.bind_accepted(route), Step::RouteGone));

    // The other order: published in the registry, and the connection is gone by then.
    let mut conn = host.active();
    let (id, route) = binding(&mut host, &mut conn);
    let Step::Publish(grant) = host.registry.bind_accepted(route) else { panic!() };
    conn.inner.handle_eof(T0);
    assert_eq!(conn.inner.accept_route(T0, id, grant), Err(TooLate));
    assert!(matches!(host.registry.close(route), Step::RouteGone));
    assert!(matches!(host.registry.close(route), Step::Nothing), "once");
}

#[test]
fn r6_a_goodbye_tells_the_work_to_stop_and_a_real_terminal_still_counts() {
    let mut host = Host::new();
    let mut conn = host.active();
    let (mine, other) = (host.open(&mut conn), host.open(&mut conn));
    let jobs = [conn.start(mine), conn.start(mine), conn.start(other)];
    conn.request(mine, b"not handed over");
    conn.goodbye(mine);
    let events = conn.events();
    let told = |event: &Event| matches!(event, Event::Stop { why: StopReason::RouteClosed, .. });
    assert_eq!(events.iter().filter(|event| told(event)).count(), 2, "the other route's goes on");
    assert!(matches!(events.last(), Some(Event::RouteClosed { route, component: 0 }) if *route == mine));
    assert_eq!(conn.said(), [(6 + 1, "cancelled".into())], "what nobody ran is cancelled at once");
    conn.inner.respond(T0, jobs[0].id, false, Default::default()).unwrap();
    conn.inner.stopped(T0, jobs[1].id).unwrap();
    assert_eq!(conn.said(), [(4, "Response".into()), (5, "cancelled".into())]);
    conn.goodbye(mine);
    assert!(conn.events().is_empty(), "repeats are ignored");
    conn.request(mine, b"late");
    assert_eq!(conn.said().pop().unwrap().1, "unknown_channel");
    assert!(matches!(host.registry.close(mine), Step::RouteGone));
    assert!(matches!(host.registry.gone(mine), Step::Busy), "R3: its work has not ended");
    drop(jobs);
    assert!(matches!(host.registry.gone(mine), Step::Released));
    assert_eq!(conn.inner.routes().collect::<Vec<_>>(), [other]);
}

#[test]
fn v31_v32_ae5_frames_of_an_old_epoch_or_another_connections_route_are_stale() {
    let mut host = Host::limited(|limits| limits.routes = 1);
    let (mut conn, old) = host.routed();
    conn.goodbye(old);
    conn.events();
    assert!(matches!(host.registry.close(old), Step::RouteGone));
    assert!(matches!(host.registry.gone(old), Step::Released));
    let new = host.open(&mut conn);
    assert_eq!((new.channel, new.epoch.value()), (old.channel, old.epoch.value() + 1));
    let job = conn.start(new);
    conn.request(old, b"old epoch");
    assert_eq!(conn.said(), [(conn.corr, "unknown_channel".into())]);
    conn.cancel(old, job.id.correlation().value());
    conn.goodbye(old);
    assert!(conn.events().is_empty(), "the new binding is intact");
    let mut stranger = host.active();
    stranger.request(new, b"not mine");
    stranger.goodbye(new);
    stranger.goodbye(route(500, 1));
    assert_eq!(stranger.said(), [(2, "unknown_channel".into())]);
    assert!(stranger.events().is_empty() && stranger.inner.counters().dropped.stale_goodbye == 2);
    conn.inner.respond(T0, job.id, false, Default::default()).unwrap();
}

#[test]
fn v27_the_same_session_twice_is_two_routes() {
    let mut host = Host::new();
    let mut conn = host.active();
    let (a, b) = (host.open(&mut conn), host.open(&mut conn));
    assert_ne!(a.channel, b.channel);
    assert_eq!(conn.inner.counters().routes, 2);
}

#[test]
fn r3_no_channel_left_is_target_unavailable_without_a_bind() {
    let mut host = Host::limited(|limits| limits.routes = 1);
    let (mut conn, _) = host.routed();
    conn.control(OPEN_LAB.as_bytes());
    let Some(Event::RouteOpen { id, .. }) = conn.inner.poll_event() else { panic!() };
    assert_eq!(host.registry.claim(conn.owner), Err(NoChannel));
    conn.inner.reject_route(T0, id, &HostCode::TargetUnavailable.into()).unwrap();
    assert_eq!(conn.said(), [(3, "target_unavailable".into())]);
}

#[test]
fn a_route_that_the_embedder_closes_ends_as_by_a_goodbye() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    conn.inner.close_route(T0, route);
    let events = conn.events();
    assert!(matches!(events[0], Event::Stop { id, .. } if id == job.id));
    assert!(matches!(events[1], Event::RouteClosed { .. }));
    assert!(conn.take_bytes().is_empty(), "our host sends no route Goodbye");
    conn.inner.close_route(T0, route);
    assert!(conn.events().is_empty());
}
