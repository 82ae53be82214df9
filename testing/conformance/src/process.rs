//! What a process has of the library: descriptors, threads, signals, children.

use crate::Bench;
use crate::alone::{self, Place};
use crate::faults::b137_an_answer_before_a_failed_write_is_still_read;
use crate::host::{Site, ended};
use crate::stage::{config, connected, some_route};
use hostwire::Runtime;
use hostwire::client::{Client, ClientConfig};
use hostwire_lab::Lab;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Descriptors and threads of this process.
fn held() -> (usize, usize) {
    let count = |what: &str| std::fs::read_dir(what).expect("Linux's /proc").count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// B126: a thousand times connect, call, close: no descriptor, task or thread stays.
pub async fn b126_a_thousand_connects_calls_and_closes_leave_nothing<R: Runtime>(bench: Bench<R>) {
    if alone::alone() == Place::Passed {
        return;
    }
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let place = hostwire::discovery::Place::File(site.location.connection_file().to_owned());
    let config = ClientConfig { place, ..config() };
    let round = async || {
        let client = Client::connect(&bench, &config).await.expect("connected");
        let route = client.open(some_route()).await.expect("a route");
        assert_eq!(route.request("call").await.expect("an answer").body.as_slice(), b"call");
        drop(route);
        client.close().await;
    };
    let base = bench.inner().ios();
    let quiet = async |tasks: usize| {
        bench
            .inner()
            .until("the ends", || bench.inner().ios() == base && bench.inner().tasks() <= tasks)
            .await;
    };
    let tasks = bench.inner().tasks();
    // The runtime makes its own threads and descriptors as they are needed first.
    for _ in 0..20 {
        round().await;
    }
    quiet(tasks).await;
    let before = held();
    for _ in 0..1_000 {
        round().await;
    }
    quiet(tasks).await;
    // A pool may have grown for a moment; what it keeps, it does not grow with every round.
    bench
        .inner()
        .until("the descriptors and threads of before", || {
            let now = held();
            now.0 <= before.0 && now.1 <= before.1 + 4
        })
        .await;
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// Makes SIGPIPE end this process again, as it does in a program that was not begun by Rust.
fn restore_sigpipe() {
    let always = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_default(signal_hook::consts::SIGPIPE, always)
        .expect("registered");
}

/// B125: where SIGPIPE ends the process, a peer that has gone is an error all the same.
pub async fn b125_a_closed_socket_raises_no_signal<R: Runtime>(bench: Bench<R>) {
    if alone::is_alone_as("control") {
        restore_sigpipe();
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        drop(reader);
        let written = rustix::io::write(&writer, b"x");
        panic!("SIGPIPE ended nothing: {written:?}");
    }
    if !alone::is_alone() {
        let control = alone::run_again("control");
        let signal = control.map(|status| status.signal());
        assert!(matches!(signal, None | Some(Some(13))), "the default action is in force: {signal:?}");
    }
    if alone::alone() == Place::Passed {
        return;
    }
    restore_sigpipe();
    // A client whose host goes in the middle of a frame.
    b137_an_answer_before_a_failed_write_is_still_read(bench.clone()).await;
    // A host whose clients go with answers unread, and under way.
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let base = bench.inner().ios();
    for _ in 0..20 {
        let mut peer = crate::host::peer::Peer::connect(&bench, &site.location).await;
        let route = peer.lab().await;
        peer.start(route, r#"{"do":"big","size":8000000}"#, false);
        peer.flushed().await;
        bench.inner().pause().await;
        drop(peer);
    }
    bench.inner().until("the ends", || bench.inner().ios() == base).await;
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// A child that does nothing, until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        let mut command = Command::new("sleep");
        let silent = command.arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(silent.spawn().expect("a child"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// B119: a child that outlives a connection and a host keeps neither a socket nor the port.
pub async fn b119_a_child_inherits_no_socket<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let child = Sleeper::new();
    let closing = bench.blocking(move || host.rest());
    drop((client, route));
    closing.await.expect("the end comes at once");
    drop(child);

    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let (port, base) = (host.port(), bench.inner().ios());
    let mut accepted = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("dialled");
    bench.inner().until("an accept", || bench.inner().ios() == base + 1).await;
    let child = Sleeper::new();
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
    let end = bench.blocking(move || accepted.read(&mut [0; 1])).await.expect("read");
    assert!(matches!(end, Ok(0)), "{end:?}");
    drop(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port is free"));
    drop(child);
}
