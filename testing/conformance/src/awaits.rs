//! Dropping a future of the library at every point at which it can wait (B163).
//!
//! Each promise here stands in the docs of the item it is about.

use crate::Bench;
use crate::host::peer::Peer;
use crate::host::{Site, ended};
use crate::stage::{config, connected, rest_of, some_route};
use hostwire::Runtime;
use hostwire::client::{CatalogFilter, Client, ClientConfig, Patience, Route};
use hostwire::core::fault::CloseReason;
use hostwire::core::lifecycle::HostState;
use hostwire_lab::Lab;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

/// Polls a future until it has had to wait for the `waits`th time, and drops it there. Its value, if it ends before.
async fn dropped_at<T>(waits: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    let mut waited = 0;
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if waited == waits => Poll::Ready(None),
        Poll::Pending => {
            waited += 1;
            Poll::Pending
        }
    })
    .await
}

/// A host with the lab, and a client's configuration that finds it.
async fn lab<R: Runtime>(bench: &Bench<R>) -> (Site, hostwire::HostHandle, ClientConfig) {
    let site = Site::default();
    let host = site.start(bench, vec![Arc::new(Lab::new())]).await;
    let place = hostwire::discovery::Place::File(site.location.connection_file().to_owned());
    (site, host, ClientConfig { place, ..config() })
}

/// What the lab has counted under this name.
async fn stat(route: &Route, name: &str) -> u64 {
    let reply = route.request(r#"{"do":"stats"}"#).await.expect("an answer");
    let stats: serde_json::Value = serde_json::from_slice(reply.body.as_slice()).expect("JSON");
    stats[name].as_u64().expect("a number")
}

/// A connect: whatever had been opened is closed, and the host forgets it.
pub async fn b163_a_connect_may_be_dropped_at_every_await<R: Runtime>(bench: Bench<R>) {
    let (_site, host, config) = lab(&bench).await;
    let (tasks, ios) = (bench.inner().tasks(), bench.inner().ios());
    for waits in 0.. {
        let connected = dropped_at(waits, Client::connect(&bench, &config)).await;
        let over = connected.is_some();
        drop(connected.transpose().expect("no failure"));
        bench
            .inner()
            .until("nothing left", || bench.inner().tasks() == tasks && bench.inner().ios() == ios)
            .await;
        if over {
            assert!(waits > 0, "it waits at least once");
            break;
        }
    }
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// `open`, a call and a stream: what the host has begun for them ends, and the connection goes on.
pub async fn b163_what_is_asked_may_be_dropped_at_every_await<R: Runtime>(bench: Bench<R>) {
    let (_site, host, config) = lab(&bench).await;
    let client = Client::connect(&bench, &config).await.expect("connected");
    let watch = client.open(some_route()).await.expect("a route");
    for waits in 0.. {
        let opened = dropped_at(waits, client.open(some_route())).await;
        let over = opened.is_some();
        drop(opened);
        while stat(&watch, "binds").await != stat(&watch, "route_gone").await + 1 {
            bench.inner().pause().await; // R8: it is closed again
        }
        if over {
            break;
        }
    }
    // It never answers, and nothing wakes who waits for it.
    for _ in 0..3 {
        assert!(dropped_at(0, watch.request(r#"{"do":"hang"}"#)).await.is_none());
        while stat(&watch, "running").await > 0 {
            bench.inner().pause().await; // X3: it is cancelled
        }
    }
    for waits in 0.. {
        let filter = CatalogFilter::new(None).expect("a filter");
        if dropped_at(waits, client.catalog(filter, Patience::Default)).await.is_some() {
            break;
        }
        assert_eq!(stat(&watch, "running").await, 0);
    }
    // A stream is not its `next`: that may be dropped at any point, and no item is lost.
    let mut stream = watch.stream(r#"{"do":"stream","items":16,"size":8}"#);
    let mut items = 0_u64;
    loop {
        match dropped_at(0, stream.next()).await {
            None => bench.inner().pause().await,
            Some(Some(item)) => {
                assert_eq!(item.expect("an item").body.as_slice(), items.to_le_bytes());
                items += 1;
            }
            Some(None) => break,
        }
    }
    assert_eq!(items, 16);
    assert!(stream.outcome().flatten().is_some_and(|end| end.items == 16));
    assert_eq!(client.close_reason(), None);
    assert_eq!(client.generations().generations, 1, "the same connection all the while");
    drop((stream, watch));
    client.close().await;
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// `close` goes on when nobody waits for it; `closed` gives the same answer to whoever asks again.
pub async fn b163_a_close_may_be_dropped_at_every_await<R: Runtime>(bench: Bench<R>) {
    for waits in 0.. {
        let (client, route, mut host) = connected(&bench).await;
        let closing = bench.blocking(move || host.rest());
        let over = dropped_at(waits, client.close()).await.is_some();
        while dropped_at(waits, client.closed()).await.is_none() {
            bench.inner().pause().await;
        }
        assert_eq!(client.closed().await, CloseReason::Local);
        closing.await.expect("closed");
        assert_eq!(client.close().await, CloseReason::Local);
        drop(route);
        if over {
            break;
        }
    }
    let (client, route, host) = connected(&bench).await;
    rest_of(&bench, host, client, route).await;
}

/// The host's start is abandoned in order; waiting for its end and asking for its health lose nothing.
pub async fn b163_a_hosts_futures_may_be_dropped_at_every_await<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    for waits in 0.. {
        let start = site.try_start(&bench, site.config(), vec![Arc::new(Lab::new())]);
        let started = dropped_at(waits, start).await;
        let over = started.is_some();
        drop(started);
        bench.inner().until("its end", || site.state() == HostState::Stopped).await;
        bench.inner().assert_nothing_left().await;
        assert!(!site.location.connection_file().exists());
        if over {
            break;
        }
    }
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    for _ in 0..3 {
        assert!(dropped_at(0, host.wait()).await.is_none(), "it runs");
        let _ = dropped_at(0, host.health()).await;
    }
    assert_eq!(host.health().await.len(), 1);
    let mut peer = Peer::connect(&bench, &site.location).await;
    peer.lab().await;
    drop(peer);
    host.shutdown();
    let end = ended(&bench, &host).await;
    assert!(end.graceful());
    for waits in 0..3 {
        assert_eq!(dropped_at(waits, host.wait()).await, Some(end.clone()));
    }
}

/// `host.shutdown`: the host either shuts down or goes on; nobody hangs.
pub async fn b163_a_shutdown_request_may_be_dropped_at_every_await<R: Runtime>(bench: Bench<R>) {
    for waits in 0.. {
        let (_site, host, config) = lab(&bench).await;
        let client = Client::connect(&bench, &config).await.expect("connected");
        let over = dropped_at(waits, client.shutdown_host(Patience::Default)).await.is_some();
        // H2: if it has not committed, the next request does.
        let _ = client.shutdown_host(Patience::Default).await;
        drop(client);
        assert!(ended(&bench, &host).await.graceful());
        if over {
            break;
        }
    }
}
