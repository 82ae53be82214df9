//! Generations one after the other, and what is sent again.

use crate::Bench;
use crate::connect::{accept_one, publish};
use crate::raw_host::{RawHost, credentials};
use crate::stage::{connected, rest_of, some_route};
use hostwire::Runtime;
use hostwire::client::{CallError, Client, Patience, Request};
use hostwire::core::auth::{Credentials, DaemonId};
use hostwire::core::outcome::{NotSentCode, UnknownCode};
use hostwire::core::wire::{FrameType, RouteHandle};
use hostwire::socket::listen_tcp;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// AE7, K1 to K5, B025: the host goes, another incarnation comes. What was pending is settled by then; the old route stays dead; the next
/// open reads the file again and finds the new one.
pub async fn ae7_the_next_open_finds_the_hosts_next_incarnation<R: Runtime>(bench: Bench<R>) {
    let directory = tempfile::tempdir().expect("a directory");
    let listener = listen_tcp(0).expect("listening");
    let config = publish(directory.path(), listener.port, credentials());
    let fd = listener.fd.try_clone().expect("a clone");
    let serving = bench.blocking(move || {
        let mut host = accept_one(&fd);
        host.set_up();
        host.grant(7, 77);
        host.frame(); // and gone
    });
    let client = Client::connect(&bench, &config).await.expect("connected");
    let route = client.open(some_route()).await.expect("a route");
    let error = route.request("lost").await.expect_err("lost");
    assert!(matches!(error, CallError::Unknown { code: UnknownCode::ConnectionLost, .. }), "{error}");
    serving.await.expect("served");
    client.closed().await;

    let other = Credentials { daemon_id: DaemonId::new([10; 16]), ..credentials() };
    publish(directory.path(), listener.port, other);
    // K4: the host that it knew is gone, and the next one is not shut down in its place.
    let mut asked = client.shutdown_host(Patience::Default);
    let asked = poll_fn(|cx| Poll::Ready(Pin::new(&mut asked).poll(cx))).await;
    let retired =
        |error: &CallError| matches!(error, CallError::NotSent { code: NotSentCode::ConnectionRetired, .. });
    assert!(matches!(&asked, Poll::Ready(Err(error)) if retired(error)), "{asked:?}");
    let serving = bench.blocking(move || {
        let mut host = accept_one(&listener.fd);
        host.set_up_as(DaemonId::new([10; 16]));
        host.grant(7, 1);
        host
    });
    let fresh = client.open(some_route()).await.expect("a route");
    assert_eq!((fresh.daemon_id(), client.daemon_id()), (DaemonId::new([10; 16]), DaemonId::new([10; 16])));
    let counts = client.generations();
    assert_eq!((counts.generations, counts.incarnations), (2, 2));
    // K1, B050: never the new route's handler.
    let error = route.request("old").await.expect_err("not sent");
    assert!(matches!(error, CallError::NotSent { code: NotSentCode::ConnectionRetired, .. }), "{error}");
    drop(route);
    rest_of(&bench, serving.await.expect("served"), client, fresh).await;
}

/// K4, B030, B166: nobody there, for good: growing pauses until the operation's deadline, then `not_sent`.
pub async fn k4_an_open_waits_for_a_host_no_longer_than_its_deadline<R: Runtime>(bench: Bench<R>) {
    let directory = tempfile::tempdir().expect("a directory");
    let listener = listen_tcp(0).expect("listening");
    let config = publish(directory.path(), listener.port, credentials());
    let serving = bench.blocking(move || {
        accept_one(&listener.fd).set_up();
    });
    let client = Client::connect(&bench, &config).await.expect("connected");
    serving.await.expect("served");
    client.closed().await;
    let mut opening = Box::pin(client.open_within(some_route(), Patience::For(Duration::from_secs(10))));
    let mut steps = 0;
    let error = loop {
        let polled = poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx))).await;
        if let Poll::Ready(result) = polled {
            break result.expect_err("nobody");
        }
        bench.inner().pause().await;
        steps += usize::from(bench.advance_to_next());
    };
    assert!(matches!(error, CallError::NotSent { code: NotSentCode::DeadlineExpired, .. }), "{error}");
    assert!(steps < 40, "a pause between attempts: {steps}");
    drop(client);
}

/// AE5: a route that the host has forgotten is opened again, once, and the request is sent again, once.
pub async fn ae5_a_forgotten_route_is_opened_again_once<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let serving = bench.blocking(move || {
        let request = host.frame();
        host.refuse(&request, "unknown_channel");
        host.grant(8, 1);
        // The old handle is given up, the request goes out on the new one; in whichever order.
        let again = loop {
            let frame = host.frame();
            if frame.header.kind == FrameType::Request {
                break frame;
            }
            assert_eq!(frame.header.kind, FrameType::Goodbye);
        };
        assert_eq!(again.body, request.body);
        assert!(again.correlation() > request.correlation());
        host.respond(&again, b"found");
        let third = loop {
            let frame = host.frame();
            if frame.header.kind == FrameType::Request {
                break frame;
            }
        };
        host.refuse(&third, "unknown_channel");
        host.grant(9, 1);
        let fourth = loop {
            let frame = host.frame();
            if frame.header.kind == FrameType::Request {
                break frame;
            }
        };
        host.refuse(&fourth, "unknown_channel");
        host
    });
    let reply = route.request("where").await.expect("an answer");
    assert_eq!((reply.body.as_slice(), reply.evidence.attempts), (&b"found"[..], 2));
    assert_eq!(route.handle(), RouteHandle::new(8, 1).expect("a route"));
    let error = route.request("where").await.expect_err("never there");
    assert_eq!(
        (error.outcome(), error.code(), error.evidence().attempts),
        ("terminal", "unknown_channel", 2)
    );
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// O5: `server_busy` is followed by another attempt after a pause, within the deadline; and by none that would pass it.
pub async fn o5_a_busy_host_is_asked_again_within_the_deadline<R: Runtime>(bench: Bench<R>) {
    let (client, route, host) = connected(&bench).await;
    let serving = bench.blocking(move || {
        let mut host = host;
        for _ in 0..2 {
            let request = host.frame();
            host.refuse(&request, "server_busy");
        }
        let request = host.frame();
        host.respond(&request, b"now");
        let request = host.frame();
        host.refuse(&request, "server_busy");
        host
    });
    let mut call = Box::pin(route.request("please"));
    let reply = loop {
        let polled = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
        if let Poll::Ready(result) = polled {
            break result.expect("an answer");
        }
        bench.inner().pause().await;
        bench.advance(Duration::from_millis(1));
    };
    assert_eq!((reply.body.as_slice(), reply.evidence.attempts), (&b"now"[..], 3));
    // A pause of 25 ms would pass this deadline: the answer comes back at once.
    let error =
        route.request(Request::from("please").within(Duration::from_millis(20))).await.expect_err("busy");
    assert_eq!((error.code(), error.evidence().attempts), ("server_busy", 1));
    drop(call);
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// O5: an attempt for which no time is left does not hide the answer before it.
pub async fn o5_the_last_answer_stands_when_time_runs_out_before_the_next_attempt<R: Runtime>(
    bench: Bench<R>,
) {
    let (client, route, mut host) = connected(&bench).await;
    let mut call = Box::pin(route.request(Request::from("please").within(Duration::from_millis(30))));
    let serving = bench.blocking(move || {
        let request = host.frame();
        host.refuse(&request, "server_busy");
        host
    });
    let host = serving.await.expect("served");
    bench.inner().until("the refusal", || client.counters().settlements.terminal >= 2).await;
    // The next attempt is due in 25 ms of 30, and comes late.
    assert!(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
    bench.advance(Duration::from_millis(50));
    let error = call.as_mut().await.expect_err("busy");
    assert_eq!((error.code(), error.evidence().attempts), ("server_busy", 1));
    drop(call);
    rest_of(&bench, host, client, route).await;
}

/// B029, O4: dropping, or cancelling, a call between two attempts ends it: nothing more is sent.
pub async fn a_call_stopped_between_two_attempts_sends_nothing_more<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let mut call = Box::pin(route.request("please"));
    let canceller = call.canceller();
    let refusing = |mut host: RawHost| {
        let request = host.frame();
        host.refuse(&request, "server_busy");
        host
    };
    host = bench.blocking(move || refusing(host)).await.expect("served");
    let busy = || client.counters().settlements.terminal >= 2;
    bench.inner().until("the refusal", busy).await;
    assert!(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
    canceller.cancel();
    assert_eq!(call.as_mut().await.expect_err("stopped").code(), "server_busy");
    let mut dropped = Box::pin(route.request("please"));
    host = bench.blocking(move || refusing(host)).await.expect("served");
    bench.inner().until("the refusal", || client.counters().settlements.terminal >= 3).await;
    assert!(poll_fn(|cx| Poll::Ready(dropped.as_mut().poll(cx).is_pending())).await);
    drop((dropped, call));
    bench.advance(Duration::from_secs(1));
    let rest = rest_of(&bench, host, client, route).await;
    assert!(rest.iter().all(|frame| frame.header.kind == FrameType::Goodbye));
}
