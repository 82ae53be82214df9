//! Connecting: discovery, dial, authentication, negotiation, under one deadline.

use crate::Bench;
use crate::raw_host::{RawHost, credentials};
use crate::stage::{config, some_route};
use hostwire::Runtime;
use hostwire::client::{Client, ClientConfig, ConnectError, Consumer};
use hostwire::core::auth::{Credentials, Key};
use hostwire::core::control::ConsumerIdentity;
use hostwire::core::discovery::Document;
use hostwire::discovery::{Environment, Place};
use hostwire::socket::{accept, listen_tcp};
use std::fs;
use std::future::Future;
use std::future::poll_fn;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::task::Poll;
use std::time::Duration;

/// Writes a discovery file as a host would.
///
/// # Panics
/// If it cannot.
pub fn publish(directory: &Path, port: u16, credentials: Credentials) -> ClientConfig {
    let run = directory.join("run");
    if !run.exists() {
        fs::DirBuilder::new().mode(0o700).create(&run).expect("a directory");
    }
    let file = run.join("subc-connection.json");
    let document =
        Document { port: NonZeroU16::new(port).expect("a port"), credentials, pid: std::process::id() };
    let _ = fs::remove_file(&file);
    let mut out =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file).expect("a file");
    std::io::Write::write_all(&mut out, &document.render()).expect("written");
    ClientConfig { place: Place::File(file), ..config() }
}

/// What a host does with its one connection.
type Play = fn(RawHost);

/// The next connection, when it comes.
///
/// # Panics
/// If none can be accepted.
#[must_use]
pub fn accept_one(listener: &OwnedFd) -> RawHost {
    let mut ready = [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut ready, None).expect("polled");
    RawHost::over(UnixStream::from(accept(listener.as_fd()).result.expect("accepted")))
}

async fn fails<R: Runtime>(bench: &Bench<R>, config: &ClientConfig) -> ConnectError {
    Client::connect(bench, config).await.expect_err("no connection")
}

/// AE1 from the file on: what the file says is where the client goes and whom it believes.
pub async fn ae1_the_discovery_file_leads_to_the_host<R: Runtime>(bench: Bench<R>) {
    let directory = tempfile::tempdir().expect("a directory");
    let listener = listen_tcp(0).expect("listening");
    let config = publish(directory.path(), listener.port, credentials());
    let serving = bench.blocking(move || {
        let mut host = accept_one(&listener.fd);
        host.set_up();
        host.grant(7, 77);
        host
    });
    let client = Client::connect(&bench, &config).await.expect("connected");
    assert_eq!(client.daemon_id(), credentials().daemon_id);
    let route = client.open(some_route()).await.expect("a route");
    let mut host = serving.await.expect("served");
    let closing = bench.blocking(move || host.rest());
    drop((client, route));
    closing.await.expect("closed");
}

/// Every way not to get a connection has its code, and leaves nothing.
pub async fn every_failure_to_connect_has_its_code<R: Runtime>(bench: Bench<R>) {
    let directory = tempfile::tempdir().expect("a directory");
    let missing =
        ClientConfig { place: Place::File(directory.path().join("none/subc-connection.json")), ..config() };
    assert_eq!(fails(&bench, &missing).await.code(), "discovery_missing");
    let nowhere = ClientConfig { environment: Environment::default(), place: Place::Default, ..config() };
    assert_eq!(fails(&bench, &nowhere).await.code(), "discovery_invalid"); // B160
    let port = listen_tcp(0).expect("listening").port;
    let refused = publish(directory.path(), port, credentials());
    assert_eq!(fails(&bench, &refused).await.code(), "dial_failed"); // B152
    let mut zero = refused.clone();
    zero.limits.pending_requests = 0;
    assert_eq!(fails(&bench, &zero).await.code(), "client_failed"); // B1: before anything is opened

    let listener = listen_tcp(0).expect("listening");
    let found = publish(directory.path(), listener.port, credentials());

    let cases: [(&str, Play); 4] = [
        ("authentication_failed", drop),
        // K3: a host that fails to prove itself is looked for once more.
        ("authentication_failed", |mut host| host.send_raw(b"SSH-2.0-something else\r\n")),
        ("negotiation_failed", |mut host| host.authenticate()),
        ("negotiation_failed", |mut host| {
            host.authenticate();
            let request = host.frame();
            host.refuse(&request, "unsupported_operation");
            host.rest();
        }),
    ];
    for (index, (code, play)) in cases.into_iter().enumerate() {
        let fd = listener.fd.try_clone().expect("a clone");
        let times = if index == 1 { 2 } else { 1 };
        let serving = bench.blocking(move || (0..times).for_each(|_| play(accept_one(&fd))));
        assert_eq!(fails(&bench, &found).await.code(), code);
        serving.await.expect("served");
        bench.inner().assert_nothing_left().await;
    }
}

/// B156: a host that does not have the key hears the hello, and nothing after it.
pub async fn b156_a_host_without_the_key_hears_nothing_after_the_hello<R: Runtime>(bench: Bench<R>) {
    let (mut host, socket) = RawHost::new();
    let mut other = credentials();
    other.key = Key::new([8; 32]);
    let serving = bench.blocking(move || {
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| host.authenticate()));
        assert!(refused.is_err(), "the client does not go on");
        host.half_close();
    });
    let error = Client::from_socket(&bench, socket, other, &config()).await.expect_err("not believed");
    assert_eq!(error.code(), "authentication_failed");
    serving.await.expect("served");
}

/// E1: one deadline for all of it; a host that says nothing is left at it.
pub async fn e1_a_silent_host_is_left_at_the_one_deadline<R: Runtime>(bench: Bench<R>) {
    let steps: [fn(&mut RawHost); 2] = [|_| {}, RawHost::authenticate];
    for step in steps {
        let (mut host, socket) = RawHost::new();
        let (bench_, config) = (bench.clone(), config());
        let mut connecting =
            Box::pin(async move { Client::from_socket(&bench_, socket, credentials(), &config).await });
        assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
        let serving = bench.blocking(move || {
            step(&mut host);
            host
        });
        let host = serving.await.expect("served");
        bench.inner().until("the timer", || bench.timers() > 0).await;
        bench.advance(Duration::from_micros(1_999_999));
        assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
        bench.advance(Duration::from_micros(1));
        assert_eq!(connecting.await.expect_err("not connected").code(), "handshake_timeout");
        drop(host);
    }
}

/// C11: who the client is comes from the environment, unless it is switched off or the caller says it.
pub async fn c11_the_environment_says_who_the_client_is<R: Runtime>(bench: Bench<R>) {
    let environment = Environment {
        module_id: Some("from-env".into()),
        launch_nonce: Some("nonce-1".into()),
        ..Environment::default()
    };
    let own = ConsumerIdentity::new("own", "nonce-2").expect("an identity");
    let cases = [
        (Consumer::FromEnvironment, some_route(), Some("from-env")),
        (Consumer::FromEnvironment, some_route().with_consumer_identity(own), Some("own")),
        (Consumer::Anonymous, some_route(), None),
    ];
    for (consumer, open, expected) in cases {
        let (mut host, socket) = RawHost::new();
        let config = ClientConfig { environment: environment.clone(), consumer, ..config() };
        let serving = bench.blocking(move || {
            host.set_up();
            (host.grant(7, 77), host)
        });
        let client = Client::from_socket(&bench, socket, credentials(), &config).await.expect("connected");
        let route = client.open(open).await.expect("a route");
        let (request, mut host) = serving.await.expect("served");
        let text = String::from_utf8(request.body).expect("text");
        let identity = expected.map(|name| format!(r#""consumer_identity":{{"module_id":"{name}""#));
        assert_eq!(text.contains("consumer_identity"), expected.is_some(), "{text}");
        assert!(identity.is_none_or(|identity| text.contains(&identity)), "{text}");
        let closing = bench.blocking(move || host.rest());
        drop((client, route));
        closing.await.expect("closed");
    }
}
