//! What dropping a handle means, wherever that happens.

use crate::Bench;
use crate::raw_host::{RawHost, credentials};
use crate::stage::{config, connected, rest_of, some_route};
use hostwire::Runtime;
use hostwire::client::{Client, Patience};
use hostwire::core::client::CatalogFilter;
use hostwire::core::fault::CloseReason;
use hostwire::core::wire::{FrameType, Identity, RouteHandle};
use std::future::Future;
use std::future::poll_fn;
use std::task::Poll;

fn kinds(frames: &[crate::raw_host::Frame]) -> Vec<FrameType> {
    frames.iter().map(|frame| frame.header.kind).collect()
}

/// B128: handles are dropped on a thread that knows no runtime; the connection ends in order.
pub async fn b128_handles_may_be_dropped_on_a_foreign_thread<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let call = route.request("call");
    let stream = route.stream("stream");
    let opening = client.open(some_route());
    let catalog = client.catalog(CatalogFilter::new(None).expect("a filter"), Patience::Default);
    let serving = bench.blocking(move || {
        for _ in 0..4 {
            host.frame();
        }
        host
    });
    let host = serving.await.expect("served");
    std::thread::spawn(move || {
        drop(call);
        drop(stream);
        drop(opening);
        drop(catalog);
        drop(route);
        drop(client);
    })
    .join()
    .expect("no panic");
    let mut host = host;
    let closing = bench.blocking(move || host.rest());
    let rest = closing.await.expect("closed");
    // How much of it is still said depends on when the task looks; the last word is the connection's `Goodbye`.
    let last = rest.last().expect("a frame");
    assert_eq!((last.header.kind, last.header.identity), (FrameType::Goodbye, Identity::Connection));
    assert!(rest.iter().all(|frame| matches!(frame.header.kind, FrameType::Cancel | FrameType::Goodbye)));
}

/// The last clone of a route closes it, but not while a call of it lives.
pub async fn a_route_lives_as_long_as_its_calls<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let clone = route.clone();
    let call = clone.request("ping");
    drop((route, clone));
    let serving = bench.blocking(move || {
        let request = host.frame();
        host.respond(&request, b"pong");
        host
    });
    assert_eq!(call.await.expect("an answer").body.as_slice(), b"pong");
    let mut host = serving.await.expect("served");
    // The call has its answer and is gone, and with it the route.
    let serving = bench.blocking(move || (host.frame(), host));
    let (goodbye, mut host) = serving.await.expect("served");
    let handle = RouteHandle::new(7, 77).expect("a route");
    assert_eq!((goodbye.header.kind, goodbye.header.identity), (FrameType::Goodbye, Identity::Route(handle)));
    let closing = bench.blocking(move || host.rest());
    drop(client);
    assert_eq!(kinds(&closing.await.expect("closed")), [FrameType::Goodbye]);
}

/// R9: closing a route settles its calls and says it once, for all clones.
pub async fn r9_closing_a_route_settles_its_calls<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let call = route.request("ping");
    let serving = bench.blocking(move || (host.frame(), host));
    let (_, host) = serving.await.expect("served");
    route.close();
    assert_eq!(call.await.expect_err("closed").code(), "route_closed");
    let error = route.clone().request("after").await.expect_err("closed");
    assert_eq!((error.outcome(), error.code()), ("not_sent", "route_not_live"));
    route.close();
    let mut host = host;
    let serving = bench.blocking(move || (host.frame(), host));
    let (goodbye, host) = serving.await.expect("served");
    let handle = RouteHandle::new(7, 77).expect("a route");
    assert_eq!((goodbye.header.kind, goodbye.header.identity), (FrameType::Goodbye, Identity::Route(handle)));
    let rest = rest_of(&bench, host, client, route).await;
    assert_eq!(kinds(&rest), [FrameType::Goodbye]);
}

/// R8: a route whose opener has gone is closed, whether the answer comes before or after that.
pub async fn r8_a_route_that_nobody_waits_for_is_closed<R: Runtime>(bench: Bench<R>) {
    for answer_first in [true, false] {
        let (client, route, mut host) = connected(&bench).await;
        let opening = client.open(some_route());
        let serving = bench.blocking(move || (host.frame(), host));
        let (request, mut host) = serving.await.expect("served");
        let grant = hostwire::core::control::encode_route_opened(RouteHandle::new(8, 78).expect("a route"));
        if answer_first {
            let frames_in = client.counters();
            let serving = bench.blocking(move || {
                host.respond(&request, &grant);
                host
            });
            host = serving.await.expect("served");
            let settled = |counters: &hostwire::core::client::Counters| counters.settlements.terminal;
            bench.inner().until("the answer", || settled(&client.counters()) > settled(&frames_in)).await;
            drop(opening);
        } else {
            drop(opening);
            // The task has seen that it is gone when its request is settled.
            bench.inner().until("the drop", || client.counters().settlements.unknown > 0).await;
            host.respond(&request, &grant);
        }
        let serving = bench.blocking(move || (host.frame(), host));
        let (goodbye, host) = serving.await.expect("served");
        let handle = RouteHandle::new(8, 78).expect("a route");
        assert_eq!(
            (goodbye.header.kind, goodbye.header.identity),
            (FrameType::Goodbye, Identity::Route(handle))
        );
        rest_of(&bench, host, client, route).await;
    }
}

/// Dropping the future of a connect at every point at which it waits: the socket is closed, nothing is left.
pub async fn a_connect_that_is_dropped_at_any_point_leaves_nothing<R: Runtime>(bench: Bench<R>) {
    let steps: [fn(&mut RawHost); 3] = [|_| {}, RawHost::authenticate, RawHost::set_up];
    for step in steps {
        let (mut host, socket) = RawHost::new();
        let (bench_, config) = (bench.clone(), config());
        let mut connecting =
            Box::pin(async move { Client::from_socket(&bench_, socket, credentials(), &config).await });
        let done = poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_ready())).await;
        assert!(!done, "the host has not said a word");
        let serving = bench.blocking(move || {
            step(&mut host);
            host
        });
        let mut host = serving.await.expect("served");
        drop(connecting);
        let closing = bench.blocking(move || {
            // The handshake's own bytes may still lie there: the end is what counts.
            let mut sink = Vec::new();
            let _ = std::io::Read::read_to_end(&mut host.stream(), &mut sink);
            host.half_close();
        });
        closing.await.expect("closed");
        bench.inner().assert_nothing_left().await;
    }
}

/// Waiting for the end keeps nothing alive.
pub async fn waiting_for_the_end_does_not_delay_it<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let closed = client.closed();
    let closing = bench.blocking(move || host.rest());
    drop((client, route));
    assert_eq!(closed.await, CloseReason::Local);
    assert!(kinds(&closing.await.expect("closed")).contains(&FrameType::Goodbye));
}
