//! The client over a socket, against a raw host.

use crate::Bench;
use crate::raw_host::{RawHost, credentials};
use hostwire::Runtime;
use hostwire::client::{Client, ClientConfig, Consumer, Route};
use hostwire::core::control::{Identity, RouteOpen, Target};

/// A configuration that takes nothing from the process.
#[must_use]
pub fn config() -> ClientConfig {
    ClientConfig { consumer: Consumer::Anonymous, ..ClientConfig::default() }
}

/// Some route to ask for.
///
/// # Panics
/// Never.
#[must_use]
pub fn some_route() -> RouteOpen {
    let target = Target::new("tool_provider", "lab").expect("a target");
    RouteOpen::new(target, Identity::new("/project", "test", "session").expect("an identity"))
}

/// A client with a route 7/77, and the raw host behind it.
///
/// # Panics
/// If that fails.
pub async fn connected<R: Runtime>(bench: &Bench<R>) -> (Client, Route, RawHost) {
    let (mut host, socket) = RawHost::new();
    let setting_up = bench.blocking(move || {
        host.set_up();
        host.grant(7, 77);
        host
    });
    let client = Client::from_socket(bench, socket, credentials(), &config()).await.expect("connected");
    let route = client.open(some_route()).await.expect("a route");
    (client, route, setting_up.await.expect("set up"))
}

/// AE1: authenticate, negotiate, open, call.
pub async fn ae1_a_fresh_call_gets_its_answer<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    assert_eq!(route.handle().channel.value(), 7);
    let answering = bench.blocking(move || {
        let request = host.frame();
        host.respond(&request, b"pong");
        (request, host)
    });
    let reply = route.request("ping").await.expect("an answer");
    assert_eq!(reply.body.as_slice(), b"pong");
    assert_eq!(reply.evidence.bytes_handed, 25);
    assert_eq!(reply.evidence.attempts, 1);
    assert_eq!(reply.evidence.daemon_id, credentials().daemon_id);
    let (request, mut host) = answering.await.expect("answered");
    assert_eq!(request.body, b"ping");
    let closing = bench.blocking(move || host.rest());
    client.close().await;
    drop((client, route));
    // The connection's `Goodbye`, and nothing else.
    assert_eq!(closing.await.expect("closed").len(), 1);
}
