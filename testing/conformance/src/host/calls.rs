//! Requests, from the frame to the terminal.

use super::peer::{Peer, error_of, response_of, to};
use super::{Log, Puppet, Site, ended, pass};
use crate::Bench;
use hostwire::Runtime;
use hostwire::component::{Component, Declaration, Handled, Reply};
use hostwire::core::outcome::{Outcome, Terminal};
use hostwire_lab::Lab;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

async fn lab<R: Runtime>(bench: &Bench<R>, site: &Site) -> hostwire::HostHandle {
    site.start(bench, vec![Arc::new(Lab::new())]).await
}

/// AE1, and each way to answer.
pub async fn ae1_every_kind_of_answer_arrives<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = lab(&bench, &site).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    assert_eq!(peer.text(route, r#"{"do":"echo","value":[1]}"#).await, r#"{"echo":[1]}"#);
    let slept = peer.start(route, r#"{"do":"sleep","ms":50}"#, false);
    pass(&bench, &mut peer, Duration::from_millis(10), |peer| peer.has_outcome(slept)).await;
    assert!(matches!(peer.outcome(slept).await, Outcome::Terminal(Terminal::Response { .. })));
    let stream = peer.start(route, r#"{"do":"stream","items":1000,"size":9}"#, true);
    assert!(matches!(peer.outcome(stream).await, Outcome::Terminal(Terminal::StreamEnd { items: 1_000 })));
    let order = peer.items(stream).iter().zip(0_u64..);
    assert!(order.clone().all(|(item, index)| item[..8] == index.to_le_bytes()));
    assert_eq!(order.count(), 1_000);
    let fail = peer.start(route, r#"{"do":"fail","code":"c","message":"m","retry_after_ms":7}"#, false);
    let error = error_of(peer.outcome(fail).await);
    assert_eq!((error.code(), error.message(), error.retry_after_ms()), ("c", "m", Some(7)));
    let failed = peer.start(route, r#"{"do":"stream_fail","items":2,"code":"torn"}"#, true);
    assert_eq!(peer.code(failed).await, "torn");
    assert_eq!(peer.items(failed).len(), 2);
    let (binary, body) = response_of(peer.ask(route, r#"{"do":"big","size":1000000}"#).await);
    assert!(binary && body.len() == 1_000_000);
    // B11: a handler cannot claim that nothing ran.
    for code in ["server_busy", "unknown_channel", "", "no good"] {
        let op = peer.start(route, &format!(r#"{{"do":"fail","code":"{code}"}}"#), false);
        assert_eq!(peer.code(op).await, "internal_error");
    }
    let stats = peer.text(route, r#"{"do":"stats"}"#).await;
    assert!(stats.ends_with(r#""cancelled":0,"running":0}"#), "{stats}");
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// Design §5: a ready answer is sent in the same turn.
pub async fn a_ready_answer_costs_no_task_and_a_later_one_costs_one<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = lab(&bench, &site).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    let before = bench.inner().spawned();
    for _ in 0..100 {
        peer.text(route, r#"{"do":"echo","value":1}"#).await;
    }
    assert_eq!(bench.inner().spawned(), before);
    let ops: Vec<_> = (0..10).map(|_| peer.start(route, r#"{"do":"sleep","ms":0}"#, false)).collect();
    for op in ops {
        peer.outcome(op).await;
    }
    assert_eq!(bench.inner().spawned(), before + 10);
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("secret: in a destructor");
        }
    }
}

/// B132: before the first await, after one, in a destructor, in the call itself.
pub async fn b132_a_panic_anywhere_is_one_internal_error_and_the_next_request_works<R: Runtime>(
    bench: Bench<R>,
) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    puppet.handle = Box::new(|cx| {
        let timer = cx.timer().clone();
        match cx.body().as_slice() {
            b"call" => panic!("secret: in the call"),
            b"first" => Handled::Future(Box::pin(async { panic!("secret: at once") })),
            b"later" => Handled::Future(Box::pin(async move {
                timer.sleep(Duration::from_millis(1)).await;
                panic!("secret: later")
            })),
            b"destructor" => Handled::Future(Box::pin(async move {
                let _bomb = Bomb;
                timer.sleep(Duration::from_millis(1)).await;
                Reply::text(b"fine".as_slice())
            })),
            b"stream" => Handled::Stream(Box::pin(async { panic!("secret: in a stream") })),
            _ => Reply::text(b"fine".as_slice()).into(),
        }
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    for body in ["call", "first", "later", "destructor", "stream"] {
        let op = peer.start(route, body, body == "stream");
        if matches!(body, "later" | "destructor") {
            pass(&bench, &mut peer, Duration::from_millis(1), |peer| peer.has_outcome(op)).await;
        }
        let error = error_of(peer.outcome(op).await);
        assert_eq!(error.code(), "internal_error", "{body}");
        assert!(!error.message().contains("secret"), "{body}");
        assert_eq!(peer.text(route, "next").await, "fine");
    }
    drop(peer);
    host.shutdown();
    // A request's panic is the request's; the host's end is as good as ever.
    assert!(ended(&bench, &host).await.graceful());
}

/// Q5.
pub async fn q5_a_response_after_an_item_is_an_internal_error<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = lab(&bench, &site).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    let op = peer.start(route, r#"{"do":"item_then_response"}"#, true);
    assert_eq!(peer.code(op).await, "internal_error");
    assert_eq!(peer.items(op).len(), 1);
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// X1, V33.
pub async fn x1_a_cancelled_handler_is_dropped_at_once<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = lab(&bench, &site).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    let op = peer.start(route, r#"{"do":"hang"}"#, false);
    assert!(peer.text(route, r#"{"do":"stats"}"#).await.ends_with(r#""running":1}"#));
    peer.confirm_cancel(op);
    assert_eq!(peer.code(op).await, "cancelled");
    let stats = peer.text(route, r#"{"do":"stats"}"#).await;
    assert!(stats.ends_with(r#""dispatched":1,"cancelled":1,"running":0}"#), "{stats}");
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// Says how long it has lived since it was told.
struct Lived(Log, hostwire::component::Timer, hostwire::core::time::Instant);

impl Drop for Lived {
    fn drop(&mut self) {
        self.0.say(format!("lived {}", self.1.now().saturating_since(self.2).as_millis() / 1_000));
    }
}

/// X1, B075: told, it stops in its own time; past the grace it is dropped.
pub async fn x1_a_handler_that_asked_to_be_told_has_its_grace_and_no_more<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    let said = log.clone();
    puppet.handle = Box::new(move |cx| {
        let said = said.clone();
        let seconds = u64::from(cx.body().as_slice()[0]);
        let told = cx.cancellation();
        Handled::Future(Box::pin(async move {
            told.await;
            let timer = cx.timer().clone();
            let _lived = Lived(said.clone(), timer.clone(), timer.now());
            said.say("told");
            timer.sleep(Duration::from_secs(seconds)).await;
            said.say("stopped by itself");
            Reply::text(b"too late".as_slice())
        }))
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    for (body, lived) in [("\u{1}", "lived 1"), ("\u{40}", "lived 5")] {
        let op = peer.start(route, body, false);
        let runs = log.count("lab handle") + 1;
        pass(&bench, &mut peer, Duration::ZERO, |_| log.count("lab handle") == runs).await;
        peer.confirm_cancel(op);
        pass(&bench, &mut peer, Duration::from_millis(0), |_| {
            log.said().last().is_some_and(|said| said == "told")
        })
        .await;
        assert!(!peer.has_outcome(op), "`cancelled` follows the real end");
        pass(&bench, &mut peer, Duration::from_millis(100), |peer| peer.has_outcome(op)).await;
        assert_eq!(peer.code(op).await, "cancelled");
        assert_eq!(log.count(lived), 1, "{:?}", log.said());
    }
    assert_eq!(log.count("stopped by itself"), 1);
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// B083, B095: items beyond the output's room wait; a cancel ends the wait at once, though nothing is read.
pub async fn b083_a_handler_that_waits_for_room_fails_at_once_when_it_is_cancelled<R: Runtime>(
    bench: Bench<R>,
) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    let said = log.clone();
    puppet.handle = Box::new(move |cx| {
        let said = said.clone();
        Handled::Stream(Box::pin(async move {
            let told = cx.cancellation();
            let mut sent = 0_usize;
            let how = loop {
                // 256 KiB: the sockets' buffers hold a few.
                match cx.send(vec![0; 262_144]).await {
                    Ok(()) => sent += 1,
                    Err(error) => break error,
                }
            };
            said.say(format!("ended {how:?} {} {}", told.is_cancelled(), sent >= 64));
            Ok(())
        }))
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    let op = peer.start(route, "go", true);
    peer.flushed().await;
    // The peer is not driven here: nothing is read, so the output fills.
    bench.inner().until("a handler", || log.count("lab handle") == 1).await;
    for _ in 0..200 {
        bench.inner().pause().await;
    }
    assert!(!log.said().iter().any(|said| said.starts_with("ended")), "{:?}", log.said());
    peer.confirm_cancel(op);
    peer.during(bench.inner().until("the end", || log.said().iter().any(|said| said.starts_with("ended"))))
        .await;
    assert_eq!(log.count("ended Ended true true"), 1, "{:?}", log.said());
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// B7: what does not fit has done nothing, and the client is told so.
pub async fn b7_over_the_declared_number_a_parked_handler_is_server_busy<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    puppet.manifest = puppet.manifest.declare(Declaration { parked_tasks: 1, ..Declaration::default() });
    let said = log.clone();
    puppet.handle = Box::new(move |cx| {
        let said = said.clone();
        Handled::future(async move {
            let _place = cx.park()?;
            said.say("parked");
            pending::<Result<Reply, hostwire::component::ParkRefused>>().await
        })
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    let first = peer.start(route, "a", false);
    peer.during(bench.inner().until("a parked one", || log.count("parked") == 1)).await;
    let second = peer.start(route, "b", false);
    assert_eq!(peer.code(second).await, "server_busy");
    peer.confirm_cancel(first);
    assert_eq!(peer.code(first).await, "cancelled");
    let third = peer.start(route, "c", false);
    peer.during(bench.inner().until("a parked one", || log.count("parked") == 2)).await;
    let fourth = peer.start(route, "d", false);
    assert_eq!(peer.code(fourth).await, "server_busy");
    peer.confirm_cancel(third);
    assert_eq!(peer.code(third).await, "cancelled");
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// B134: no lock of ours is held while a handler runs.
pub async fn b134_a_handler_may_call_its_own_host<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let own: Arc<Mutex<Option<hostwire::HostHandle>>> = Arc::default();
    let mut puppet = Puppet::new("lab", &log);
    let handle = Arc::clone(&own);
    puppet.handle = Box::new(move |cx| {
        let mut own = handle.lock().unwrap();
        if let Some(host) = own.take() {
            assert!(host.port() > 0);
            host.shutdown();
            drop(host); // the last one: it asks again
        }
        drop(own);
        let _ = cx.reserve_output(1);
        Reply::text(b"called".as_slice()).into()
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    *own.lock().unwrap() = Some(host);
    // The drain that it asked for may be quicker than its answer.
    let outcome = peer.ask(route, "x").await;
    if let Outcome::Terminal(Terminal::Response { body, .. }) = &outcome {
        assert_eq!(body.as_slice(), b"called");
    } else {
        assert_eq!(error_of(outcome).code(), "cancelled");
    }
    peer.closed().await;
    let location = site.location.clone();
    drop(peer);
    bench
        .inner()
        .until("the end", || {
            bench.advance(Duration::from_millis(100));
            hostwire::discovery::probe(&location, hostwire::discovery::unix_now_ms)
                .is_ok_and(|probe| probe.state.as_str() == "stopped")
        })
        .await;
}

/// B110, B168, G3, B080: half-close means disconnect.
pub async fn b110_a_half_close_is_a_disconnect_and_stops_the_work<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    let said = log.clone();
    puppet.handle = Box::new(move |cx| {
        let said = said.clone();
        let told = cx.cancellation();
        Handled::Future(Box::pin(async move {
            told.await;
            said.say("told");
            Reply::text(b"late".as_slice())
        }))
    });
    let component: Arc<dyn Component> = Arc::new(puppet);
    let host = site.start(&bench, vec![component]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.open(&to("tool_provider", "lab", "s")).await.unwrap();
    peer.start(route, "x", false);
    peer.flushed().await;
    bench.inner().until("a handler", || log.count("lab handle") == 1).await;
    peer.half_close();
    bench.inner().until("route_gone", || log.count("lab gone") == 1).await;
    assert_eq!(log.said(), ["lab initialize", "lab bind", "lab handle", "told", "lab gone"]);
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}
