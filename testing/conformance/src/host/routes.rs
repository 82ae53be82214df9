//! Routes, from the bind to `route_gone`.

use super::peer::{Peer, error_of, to};
use super::{Log, Puppet, Site, ended, pass};
use crate::Bench;
use hostwire::Runtime;
use hostwire::component::{ErrorReply, Handled, Reply};
use hostwire::host::{Callback, Cause};
use hostwire_lab::Lab;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

/// A door that a callback waits at until the test opens it.
#[derive(Clone, Default)]
pub struct Door(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Door {
    /// Lets everyone through.
    ///
    /// # Panics
    /// Never.
    pub fn open(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let waiting = std::mem::take(&mut state.1);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits at the door.
    pub async fn pass(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// R2, V36: the error comes last.
pub async fn r2_a_rejected_bind_is_answered_after_route_gone<R: Runtime>(bench: Bench<R>) {
    let (site, log, door) = (Site::default(), Log::default(), Door::default());
    let mut puppet = Puppet::new("lab", &log);
    puppet.bind = Box::new(|cx| {
        let code = cx.open().identity().session().to_owned();
        let code = if code == "empty" { String::new() } else { code };
        Box::pin(std::future::ready(Err(ErrorReply::new(code, "no").retry_after_ms(9))))
    });
    let at = door.clone();
    puppet.gone = Box::new(move || {
        let at = at.clone();
        Box::pin(async move { at.pass().await })
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let op = peer.start_open(&to("tool_provider", "lab", "store_unavailable"));
    peer.during(bench.inner().until("route_gone", || log.count("lab gone") == 1)).await;
    for _ in 0..20 {
        peer.during(bench.inner().pause()).await;
    }
    assert!(!peer.has_outcome(op), "route_gone has not returned");
    door.open();
    let error = error_of(peer.outcome(op).await);
    assert_eq!((error.code(), error.retry_after_ms()), ("store_unavailable", Some(9)));
    let error = peer.open(&to("tool_provider", "lab", "empty")).await.unwrap_err();
    assert_eq!(error.code(), "bind_rejected");
    // O4: what a bind may say, a handler may not.
    let error = peer.open(&to("tool_provider", "lab", "server_busy")).await.unwrap_err();
    assert_eq!(error.code(), "server_busy");
    assert_eq!((log.count("lab bind"), log.count("lab gone")), (3, 3));
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// R2.
pub async fn r2_a_bind_that_panics_is_an_internal_error<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let error = peer.open(&to("tool_provider", "lab", "panic")).await.unwrap_err();
    assert_eq!(error.code(), "internal_error");
    let route = peer.lab().await;
    let stats = peer.text(route, r#"{"do":"stats"}"#).await;
    assert!(stats.starts_with(r#"{"binds":1,"rejected":0,"route_gone":1,"#), "{stats}");
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// R2: the requester hears at once, the channel stays claimed, and `route_gone` waits for the bind's real end.
pub async fn r2_a_bind_that_overruns_is_a_module_timeout_and_its_channel_stays_claimed<R: Runtime>(
    bench: Bench<R>,
) {
    let (site, log, door) = (Site::default(), Log::default(), Door::default());
    let mut puppet = Puppet::new("lab", &log);
    let at = door.clone();
    puppet.bind = Box::new(move |cx| {
        let at = at.clone();
        Box::pin(async move {
            if cx.open().identity().session() == "slow" {
                at.pass().await;
            }
            Ok(())
        })
    });
    let mut config = site.config();
    config.limits.routes = 1;
    let host = site.try_start(&bench, config, vec![Arc::new(puppet)]).await.unwrap();
    let mut peer = Peer::connect(&bench, &site.location).await;
    let op = peer.start_open(&to("tool_provider", "lab", "slow"));
    peer.during(bench.inner().until("a bind", || log.count("lab bind") == 1)).await;
    pass(&bench, &mut peer, Duration::from_secs(1), |peer| peer.has_outcome(op)).await;
    assert_eq!(peer.code(op).await, "module_timeout");
    let full = peer.open(&to("tool_provider", "lab", "quick")).await.unwrap_err();
    assert_eq!(full.code(), "target_unavailable", "the only channel is still claimed");
    assert_eq!(log.count("lab gone"), 0);
    door.open();
    peer.during(bench.inner().until("route_gone", || log.count("lab gone") == 1)).await;
    let route = loop {
        match peer.open(&to("tool_provider", "lab", "quick")).await {
            Ok(route) => break route,
            Err(error) => assert_eq!(error.code(), "target_unavailable"),
        }
    };
    assert_eq!((route.channel.value(), route.epoch.value()), (1, 2), "R3: the epoch has grown");
    assert_eq!(peer.text(route, "hello").await, "hello");
    drop(peer);
    host.shutdown();
    let end = ended(&bench, &host).await;
    assert_eq!((end.failures[0].callback, end.failures[0].cause), (Callback::Bind, Cause::Overran));
    assert_eq!(log.count("lab gone"), 2);
}

/// H4, R2: a bind that never ends is dropped at the end of the drain; `route_gone` follows, and the host ends.
pub async fn h4_a_bind_that_hangs_does_not_hold_the_end<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    peer.start_open(&to("tool_provider", "lab", "hang"));
    let route = peer.lab().await;
    peer.text(route, "both have begun").await;
    host.shutdown();
    let before = bench.now();
    let end = peer.during(ended(&bench, &host)).await;
    assert!(
        bench.now().saturating_since(before) < Duration::from_secs(20),
        "the drain, and no callback's time"
    );
    assert_eq!((end.failed, end.failures[0].callback), (1, Callback::Bind));
}

/// R6, R3, V20.
pub async fn r6_route_gone_comes_once_and_after_the_work_has_ended<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    let said = log.clone();
    puppet.handle = Box::new(move |cx| {
        let said = said.clone();
        let told = cx.cancellation(); // before the first poll, which a cancel may precede
        Handled::Future(Box::pin(async move {
            told.await;
            said.say("told");
            cx.timer().sleep(Duration::from_secs(2)).await;
            said.say("stopped");
            Reply::text(b"real".as_slice())
        }))
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    peer.start(route, "x", false);
    peer.during(bench.inner().until("a handler", || log.count("lab handle") == 1)).await;
    peer.close_route(route);
    pass(&bench, &mut peer, Duration::ZERO, |_| log.count("told") == 1).await;
    for _ in 0..20 {
        peer.during(bench.inner().pause()).await;
    }
    assert_eq!(log.count("lab gone"), 0);
    pass(&bench, &mut peer, Duration::from_millis(100), |_| log.count("lab gone") == 1).await;
    let again = loop {
        let again = peer.lab().await;
        if again.channel == route.channel {
            break again;
        }
    };
    assert!(again.epoch > route.epoch);
    let said = log.said();
    assert_eq!(said[2..6], ["lab handle", "told", "stopped", "lab gone"]);
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
    assert_eq!(log.count("lab bind"), log.count("lab gone"));
}

/// K2, §17 (5): one slow `route_gone` does not hold up another.
pub async fn k2_a_lost_connection_ends_its_routes_side_by_side<R: Runtime>(bench: Bench<R>) {
    let (site, log, door) = (Site::default(), Log::default(), Door::default());
    let mut puppet = Puppet::new("lab", &log);
    let at = door.clone();
    puppet.gone = Box::new(move || {
        let at = at.clone();
        Box::pin(async move { at.pass().await })
    });
    puppet.handle = Box::new(|_| Handled::Future(Box::pin(pending())));
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    for _ in 0..5 {
        let route = peer.lab().await;
        peer.start(route, "x", false);
    }
    peer.during(bench.inner().until("handlers", || log.count("lab handle") == 5)).await;
    drop(peer);
    bench.inner().until("five at once", || log.count("lab gone") == 5).await;
    door.open();
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// R2, R7: a client that goes while its bind is out; the bind's end publishes nothing.
pub async fn k2_a_connection_lost_during_a_bind_ends_the_route_once<R: Runtime>(bench: Bench<R>) {
    for rejects in [false, true] {
        let (site, log, door) = (Site::default(), Log::default(), Door::default());
        let mut puppet = Puppet::new("lab", &log);
        let at = door.clone();
        puppet.bind = Box::new(move |_| {
            let at = at.clone();
            Box::pin(async move {
                at.pass().await;
                if rejects { Err(ErrorReply::new("no", "no")) } else { Ok(()) }
            })
        });
        let host = site.start(&bench, vec![Arc::new(puppet)]).await;
        let base = bench.inner().ios();
        let mut peer = Peer::connect(&bench, &site.location).await;
        peer.start_open(&to("tool_provider", "lab", "s"));
        peer.during(bench.inner().until("a bind", || log.count("lab bind") == 1)).await;
        drop(peer);
        bench.inner().until("the connection's end", || bench.inner().ios() == base).await;
        for _ in 0..20 {
            bench.inner().pause().await;
        }
        assert_eq!(log.count("lab gone"), 0, "R2: the bind is still out");
        door.open();
        bench.inner().until("route_gone", || log.count("lab gone") == 1).await;
        host.shutdown();
        assert!(ended(&bench, &host).await.graceful());
        assert_eq!(log.count("lab gone"), 1);
    }
}

/// H5.
pub async fn h5_a_failing_route_gone_costs_its_route_and_nothing_else<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    let first = std::sync::atomic::AtomicBool::new(true);
    puppet.gone = Box::new(move || {
        if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            panic!("secret: in route_gone");
        }
        Box::pin(pending())
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let (panics, overruns, stays) = (peer.lab().await, peer.lab().await, peer.lab().await);
    peer.close_route(panics);
    peer.during(bench.inner().until("route_gone", || log.count("lab gone") == 1)).await;
    peer.close_route(overruns);
    peer.during(bench.inner().until("route_gone", || log.count("lab gone") == 2)).await;
    assert_eq!(peer.text(stays, "on").await, "on");
    peer.close_route(stays);
    peer.flushed().await;
    drop(peer);
    host.shutdown();
    let end = ended(&bench, &host).await;
    assert!(!end.graceful());
    let causes: Vec<_> = end.failures.iter().map(|one| (one.callback, one.cause)).collect();
    assert_eq!(
        causes,
        [
            (Callback::RouteGone, Cause::Panicked),
            (Callback::RouteGone, Cause::Overran),
            (Callback::RouteGone, Cause::Overran)
        ]
    );
    assert!(!format!("{end:?}").contains("secret"), "Z1");
    assert_eq!((log.count("lab bind"), log.count("lab gone")), (3, 3));
}
