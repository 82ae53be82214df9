//! What a `tracing` subscriber is told, and what it is never told.

use crate::Bench;
use crate::alone::{self, Place as Where};
use crate::capture::{Capture, Traced};
use crate::host::{Log, Puppet, Site, ended};
use hostwire::client::{CallError, Client, ClientConfig, Consumer, Request};
use hostwire::component::{ErrorReply, Handled, Reply};
use hostwire::core::control::{ConsumerIdentity, Identity, RouteOpen, Target};
use hostwire::core::json::RawJson;
use hostwire::discovery::{Environment, Place, read_snapshot};
use hostwire::{Host, HostHandle, Runtime};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// A word that is said nowhere else.
const SECRET: &str = "hush0723";

/// A component that says the secret wherever it can: not in an error's code, which is a name that errors show (C6).
fn indiscreet() -> Puppet {
    let mut puppet = Puppet::new("lab", &Log::default());
    puppet.bind = Box::new(|cx| {
        let rejects = cx.open().identity().session().contains("reject");
        Box::pin(async move { if rejects { Err(ErrorReply::new("rejected_here", SECRET)) } else { Ok(()) } })
    });
    puppet.handle = Box::new(|mut cx| {
        let body = cx.take_body();
        let text = String::from_utf8_lossy(body.as_slice()).into_owned();
        match text.split(' ').next() {
            Some("panic") => panic!("{text}"),
            Some("fail") => Handled::Ready(Reply::Error(ErrorReply::new("failed_here", &text))),
            Some("later") => Handled::Future(Box::pin(async move { Reply::text(body) })),
            Some("stream") => Handled::Stream(Box::pin(async move {
                cx.send(body).await.ok();
                Ok(())
            })),
            _ => Reply::text(body).into(),
        }
    });
    puppet.shutdown = Box::new(|_| Box::pin(async { Err(SECRET.into()) }));
    puppet
}

fn config(site: &Site) -> ClientConfig {
    let place = Place::File(site.location.connection_file().to_owned());
    ClientConfig {
        environment: Environment::default(),
        place,
        role: SECRET.into(),
        consumer: Consumer::Anonymous,
        ..ClientConfig::default()
    }
}

fn secret_route(session: &str) -> RouteOpen {
    let identity = Identity::new(&format!("/{SECRET}"), SECRET, session).expect("an identity");
    let consumer = ConsumerIdentity::new(SECRET, SECRET).expect("an identity");
    let facts = RawJson::new(&format!(r#"{{"fact":"{SECRET}"}}"#)).expect("JSON");
    RouteOpen::new(Target::new("tool_provider", "lab").expect("a target"), identity)
        .with_consumer_identity(consumer)
        .with_admission_facts(&facts)
        .expect("facts")
}

/// The forms in which bytes get into a text.
fn forms(bytes: &[u8]) -> Vec<String> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let numbers = |separator: &str| bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(separator);
    vec![hex.to_uppercase(), hex, numbers(", "), numbers(",")]
}

/// Each of the three outcomes, each way to fail, on a client's and on a host's side.
async fn temptations<R: Runtime>(site: &Site, runtime: &Traced<Bench<R>>, host: &HostHandle) -> Vec<String> {
    let mut printed = Vec::new();
    let client = Client::connect(runtime, &config(site)).await.expect("connected");
    let route = client.open(secret_route(SECRET)).await.expect("a route");
    let refused = client.open(secret_route(&format!("reject {SECRET}"))).await.expect_err("rejected");
    printed.push(format!("{refused} {refused:?}"));
    let say = |what: &str| Request::from(format!("{what} {SECRET}"));
    assert!(route.request(say("echo")).await.is_ok());
    assert!(route.request(say("later")).await.is_ok());
    for what in ["fail", "panic"] {
        let error = route.request(say(what)).await.expect_err("failed");
        printed.push(error.to_string());
    }
    let mut stream = route.stream(say("stream"));
    while let Some(Ok(item)) = stream.next().await {
        printed.push(format!("{item:?}"));
    }
    let late = route.request(say("late").within(Duration::ZERO)).await.expect_err("no patience");
    assert!(matches!(late, CallError::NotSent { .. }));
    printed.push(format!("{late} {late:?} {client:?} {route:?} {stream:?} {host:?}"));
    // A wrong proof, and no handshake at all.
    let credentials = read_snapshot(&site.location).expect("a file").credentials;
    for hello in [&b"\x04\0\0\0null"[..], &[0xff; 8]] {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, host.port())).expect("dialled");
        socket.write_all(hello).expect("written");
        let ended = runtime.blocking(move || socket.read(&mut [0; 1])).await.expect("read");
        assert!(matches!(ended, Ok(0) | Err(_)));
    }
    printed.push(format!("{credentials:?} {:?} {:?}", config(site), secret_route(SECRET)));
    // Lost in the middle.
    let lost = route.request(say("echo"));
    client.close().await;
    if let Err(error) = lost.await {
        printed.push(format!("{error} {error:?}"));
    }
    printed
}

/// Z1, V24: whatever goes wrong, nothing of a key, a nonce, a proof, a body, an identity or a peer's text is told, and all is counted.
pub async fn z1_v24_failures_that_tempt_a_logger_show_no_secret<R: Runtime>(bench: Bench<R>) {
    // What a callsite is interested in is the process's, and other tests come and go with subscribers of their own.
    if alone::alone() == Where::Passed {
        return;
    }
    let (site, capture) = (Site::default(), Capture::default());
    let runtime = Traced::new(bench.clone(), capture.clone());
    let (host, file, printed, counters) = runtime
        .run(async {
            let host = Host::start(runtime.clone(), site.config(), vec![Arc::new(indiscreet())])
                .await
                .expect("a host");
            let file = std::fs::read(site.location.connection_file()).expect("a file");
            let printed = temptations(&site, &runtime, &host).await;
            let base = bench.inner().ios();
            bench.inner().until("all ends", || bench.inner().ios() <= base.min(1)).await;
            let counters = host.counters().expect("it runs");
            (host, file, printed, counters)
        })
        .await;
    host.shutdown();
    let end = ended(&bench, &host).await;
    assert_eq!(end.failed, 1, "its shutdown failed");
    assert_eq!((counters.routes, counters.settled.internal_error), (1, 1));
    let mut texts = printed;
    texts.push(capture.text());
    texts.push(format!("{end:?} {}", end.failures[0]));
    let mut secrets = vec![SECRET.to_owned()];
    let document: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
    let key: Vec<u8> = serde_json::from_value(document["key"].clone()).expect("a key");
    secrets.extend(forms(&key));
    for (text, secret) in texts.iter().flat_map(|text| secrets.iter().map(move |secret| (text, secret))) {
        assert!(!text.contains(secret.as_str()), "{secret} is in\n{text}");
    }
    for told in ["host runs", "connection retired", "callback failed", "connection ended", "host ends"] {
        assert!(capture.count(told) > 0, "{told}: {}", capture.text());
    }
}

/// A span for each connection, each call and each handled request, all of them ended at the end; a handler speaks from inside its own.
pub async fn every_connection_and_every_call_has_its_span<R: Runtime>(bench: Bench<R>) {
    // What a callsite is interested in is the process's, and other tests come and go with subscribers of their own.
    if alone::alone() == Where::Passed {
        return;
    }
    let (site, capture) = (Site::default(), Capture::default());
    let runtime = Traced::new(bench.clone(), capture.clone());
    let mut puppet = indiscreet();
    puppet.shutdown = Box::new(|_| Box::pin(std::future::ready(Ok(()))));
    let handle = puppet.handle;
    puppet.handle = Box::new(move |cx| {
        tracing::info!(target: "hostwire_test", "called");
        match handle(cx) {
            Handled::Future(future) => Handled::Future(Box::pin(async move {
                tracing::info!(target: "hostwire_test", "polled");
                future.await
            })),
            other @ (Handled::Ready(_) | Handled::Stream(_)) => other,
        }
    });
    let host = runtime
        .run(async {
            let host = Host::start(runtime.clone(), site.config(), vec![Arc::new(puppet)]).await;
            let host = host.expect("a host");
            let client = Client::connect(&runtime, &config(&site)).await.expect("connected");
            let route = client.open(secret_route("s")).await.expect("a route");
            for body in ["now", "later", "fail"] {
                let _ = route.request(body).await;
            }
            let mut stream = route.stream("stream");
            while let Some(Ok(_)) = stream.next().await {}
            let everything = hostwire::core::client::CatalogFilter::new(None).expect("a filter");
            assert!(client.catalog(everything, hostwire::client::Patience::Default).await.is_ok());
            drop(stream);
            drop(route);
            client.close().await;
            host
        })
        .await;
    host.shutdown();
    assert!(runtime.run(ended(&bench, &host)).await.graceful());
    bench.inner().assert_nothing_left().await;
    assert_eq!(capture.open(), 0, "{}", capture.text());
    let spans = capture.spans();
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let connections = named("connection");
    let roles: Vec<_> = connections.iter().filter_map(|span| span.field("role")).collect();
    assert_eq!(connections.len(), 2);
    assert!(roles.contains(&"client") && roles.contains(&"host"));
    for connection in &connections {
        assert_eq!(connection.field("transport"), Some("tcp"), "{connection:?}");
        assert!(connection.field("reason").is_some() && connection.parent.is_none(), "{connection:?}");
    }
    let calls: Vec<_> = named("call")
        .iter()
        .map(|call| {
            assert_eq!((call.field("outcome"), call.field("attempts")), (Some("terminal"), Some("1")));
            assert!(call.field("bytes_handed").is_some_and(|bytes| bytes != "0"));
            (call.field("op").unwrap_or_default(), call.field("code"), call.field("epoch").is_some())
        })
        .collect();
    let expected = [
        ("route.open", None, false),
        ("request", None, true),
        ("request", None, true),
        ("request", Some("host_error"), true),
        ("stream", None, true),
        ("catalog.list", None, false),
    ];
    assert_eq!(calls, expected);
    let requests: Vec<_> = named("request")
        .iter()
        .map(|request| {
            let parent = &spans[request.parent.expect("a parent")];
            assert_eq!((parent.name, parent.field("role")), ("connection", Some("host")));
            assert_eq!(request.field("module_id"), Some("lab"));
            assert!(request.field("correlation").is_some());
            request.field("end").unwrap_or_default()
        })
        .collect();
    assert_eq!(requests, ["response", "response", "error", "stream_end"]);
    assert_eq!(capture.count("called in request"), 4, "{}", capture.text());
    assert_eq!(capture.count("polled in request"), 1);
}

/// Z3: a hundred of a kind are told a few times, and counted a hundred times; when it is quiet again, the number of those between is told.
pub async fn z3_repeated_events_are_limited_in_logs_and_never_in_counters<R: Runtime>(bench: Bench<R>) {
    // What a callsite is interested in is the process's, and other tests come and go with subscribers of their own.
    if alone::alone() == Where::Passed {
        return;
    }
    let (site, capture) = (Site::default(), Capture::default());
    let runtime = Traced::new(bench.clone(), capture.clone());
    let host =
        Host::start(runtime.clone(), site.config(), vec![Arc::new(indiscreet())]).await.expect("a host");
    let fail = async |times: usize| {
        for _ in 0..times {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, host.port())).expect("dialled");
            socket.write_all(&[0xff; 8]).expect("written");
            let ended = runtime.blocking(move || socket.read(&mut [0; 1])).await.expect("read");
            assert!(matches!(ended, Ok(0) | Err(_)));
        }
    };
    let counted = || host.counters().map_or(0, |counters| counters.retired.authentication);
    fail(100).await;
    bench.inner().until("a hundred counted", || counted() == 100).await;
    bench.inner().until("eight told", || capture.count("connection retired") == 8).await;
    bench.advance(Duration::from_secs(1));
    fail(2).await;
    bench.inner().until("two more counted", || counted() == 102).await;
    bench.inner().until("one more told", || capture.count("connection retired") == 9).await;
    // The last of the hundred may be told after the clock has moved, and then they are the ones that speak for the rest.
    let silent: usize = (85..=92).map(|silent| capture.count(&format!("silent={silent}"))).sum();
    assert_eq!(silent, 1, "{}", capture.text());
    host.shutdown();
    ended(&bench, &host).await;
}
