//! The ordered end of a host (§17): what runs gets its time, what comes late is told so, and the end says whether all went well.
//!
//! `cargo run -p hostwire-tokio --example graceful_shutdown`

use hostwire_tokio::hostwire::client::{Client, ClientConfig};
use hostwire_tokio::hostwire::component::{
    BoxError, BoxFuture, Component, ErrorReply, Handled, Manifest, Reply, RequestContext, Role, RouteInfo,
};
use hostwire_tokio::hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire_tokio::hostwire::discovery::{Environment, Location, Place};
use hostwire_tokio::{Tokio, hostwire::Host, hostwire::HostConfig};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Works when it is told to, and notes what the host does with it.
#[derive(Default)]
struct Worker {
    begun: Notify,
    finish: Notify,
    notes: Mutex<Vec<&'static str>>,
}

impl Worker {
    fn note(&self, what: &'static str) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

impl Component for Worker {
    fn manifest(&self) -> Manifest {
        Manifest::new("worker", "1.0.0", Role::ToolProvider)
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        // Told when the host drains, and not dropped: the work has a little time to end well.
        let told = cx.cancellation();
        Handled::future(async move {
            self.begun.notify_one();
            tokio::select! {
                () = self.finish.notified() => {}
                () = told => {}
            }
            self.note("work done");
            Ok::<_, ErrorReply>(Reply::text("done"))
        })
    }

    fn route_gone(&self, _: Arc<RouteInfo>) -> BoxFuture<'_, ()> {
        self.note("route gone");
        Box::pin(std::future::ready(()))
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        self.note("component shut down");
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Tokio::current()?;
    let dir = tempfile::tempdir()?;
    let place = Place::DataDir(dir.path().to_owned());
    let location = Location::resolve(&Environment::from_process(), &place)?;
    let mut config = HostConfig::new(location, "example/1.0.0");
    config.timeouts.drain = Duration::from_secs(5);
    let worker = Arc::new(Worker::default());
    let host = Host::start(runtime.clone(), config, vec![Arc::clone(&worker) as _]).await?;
    let file = host.connection_file().to_owned();
    let client = Client::connect(&runtime, &ClientConfig { place, ..ClientConfig::default() }).await?;
    let target = Target::new("tool_provider", "worker")?;
    let route =
        client.open(RouteOpen::new(target, Identity::new("/project", "example", "session-1")?)).await?;
    let call = tokio::spawn(route.request("work"));
    worker.begun.notified().await;

    // A program does this at SIGTERM: the handle only signals, so that it can be kept anywhere.
    host.shutdown();
    worker.finish.notify_one();
    assert_eq!(call.await??.body.as_slice(), b"done", "its answer leaves before the connection's Goodbye");

    let ended = host.wait().await;
    for failure in &ended.failures {
        println!("{failure}");
    }
    assert!(ended.graceful());
    assert!(!file.exists(), "nobody finds a host that has ended");
    let notes = worker.notes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(notes, ["work done", "route gone", "component shut down"]);
    println!("ended in order: {}", notes.join(", "));
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
