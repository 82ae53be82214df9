//! Many clients at one discovery file, and a file system that hangs.

use crate::Bench;
use crate::clogged::Clogged;
use crate::host::{Site, ended};
use crate::stage::config;
use hostwire::Runtime;
use hostwire::client::{Client, ClientConfig, ConnectError};
use hostwire_lab::Lab;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Results = Arc<Mutex<Vec<Result<Client, ConnectError>>>>;

/// Connects so many clients at once.
fn storm<R: Runtime>(runtime: &Clogged<Bench<R>>, config: &ClientConfig, clients: usize) -> Results {
    let results = Results::default();
    for _ in 0..clients {
        let (own, config, results) = (runtime.clone(), config.clone(), Arc::clone(&results));
        runtime.spawn(async move {
            let connected = Client::connect(&own, &config).await;
            results.lock().expect("unpoisoned").push(connected);
        });
    }
    results
}

/// A hung file system holds one thread, however many clients wait for it and give up, again and again; the runtime goes on, and so do
/// they when it comes back.
pub async fn a_hung_file_system_holds_one_thread_and_no_runtime<R: Runtime>(bench: Bench<R>) {
    const CLIENTS: usize = 40;
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let place = hostwire::discovery::Place::File(site.location.connection_file().to_owned());
    let config = ClientConfig { place, ..config() };
    let runtime = Clogged::new(bench.clone());
    runtime.hang(true);
    for round in 1..=3 {
        let results = storm(&runtime, &config, CLIENTS);
        bench.inner().until("a read", || runtime.begun() == 1).await;
        let count = || results.lock().expect("unpoisoned").len();
        let late = || {
            bench.advance(Duration::from_secs(2)); // again for those that have begun since
            count() == CLIENTS
        };
        bench.inner().until("their deadline", late).await;
        let results = std::mem::take(&mut *results.lock().expect("unpoisoned"));
        assert!(results.iter().all(|result| matches!(result, Err(ConnectError::TimedOut))), "round {round}");
        assert_eq!(runtime.begun(), 1, "one thread");
    }
    // Others of the same process are not held up: another file is another read.
    let other = Site::default();
    let place = hostwire::discovery::Place::File(other.location.connection_file().to_owned());
    let elsewhere = ClientConfig { place, ..config.clone() };
    let error = Client::connect(&bench, &elsewhere).await;
    assert!(matches!(error, Err(ConnectError::Discovery(_))));
    runtime.hang(false);
    bench.inner().until("its return", || runtime.inside() == 0).await;
    let client = Client::connect(&runtime, &config).await.expect("connected");
    client.close().await;
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// Clients that come at once do not queue for each other's reads: all of them share a few.
pub async fn clients_that_come_at_once_share_a_read<R: Runtime>(bench: Bench<R>) {
    const CLIENTS: usize = 60;
    let site = Site::default();
    let mut settings = site.config();
    (settings.limits.handshakes, settings.limits.connections) = (CLIENTS, CLIENTS);
    let host = site.try_start(&bench, settings, vec![Arc::new(Lab::new())]).await.expect("a host");
    let place = hostwire::discovery::Place::File(site.location.connection_file().to_owned());
    let config = ClientConfig { place, ..config() };
    let runtime = Clogged::new(bench.clone());
    runtime.hang(true);
    let before = bench.timers();
    let results = storm(&runtime, &config, CLIENTS);
    bench.inner().until("their timers", || bench.timers() >= before + CLIENTS).await;
    runtime.hang(false);
    let count = || results.lock().expect("unpoisoned").len();
    bench.inner().until("all of them", || count() == CLIENTS).await;
    let results = std::mem::take(&mut *results.lock().expect("unpoisoned"));
    assert!(results.iter().all(Result::is_ok), "{:?}", results.iter().find(|result| result.is_err()));
    assert!(runtime.begun() <= 2, "{} times blocking work", runtime.begun());
    drop(results);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}
