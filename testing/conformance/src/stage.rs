//! Where scenarios begin and end: a client, a route, and the raw host behind them.

use crate::Bench;
use crate::raw_host::{Frame, RawHost, credentials};
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
    connected_with(bench, &config()).await
}

/// As [`connected`], with another configuration.
///
/// # Panics
/// If that fails.
pub async fn connected_with<R: Runtime>(bench: &Bench<R>, config: &ClientConfig) -> (Client, Route, RawHost) {
    let (mut host, socket) = RawHost::new();
    let setting_up = bench.blocking(move || {
        host.set_up();
        host.grant(7, 77);
        host
    });
    let client = Client::from_socket(bench, socket, credentials(), config).await.expect("connected");
    let route = client.open(some_route()).await.expect("a route");
    (client, route, setting_up.await.expect("set up"))
}

/// Drops the handles and reads what the client still sends: the end of a scenario that left its connection in order.
///
/// # Panics
/// If the connection does not end.
pub async fn rest_of<R: Runtime>(
    bench: &Bench<R>,
    mut host: RawHost,
    client: Client,
    route: Route,
) -> Vec<Frame> {
    let closing = bench.blocking(move || host.rest());
    drop((client, route));
    closing.await.expect("closed")
}
