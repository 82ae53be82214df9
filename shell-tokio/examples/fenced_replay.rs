//! Sending a request again whose outcome is unknown: the application's decision, behind a fence (O7).
//!
//! The library never sends it twice. The application may, if a repetition is harmless: here each request has an ID of its own and the
//! component remembers what it has done. That memory lives as long as the host does, so the same bytes go out again only while the
//! daemon ID and the route are the ones of the first attempt.
//!
//! `cargo run -p hostwire-tokio --example fenced_replay`

use hostwire_tokio::hostwire::client::{CallError, Client, ClientConfig, Request, Route};
use hostwire_tokio::hostwire::component::{
    Component, ErrorReply, Handled, Manifest, Reply, RequestContext, Role,
};
use hostwire_tokio::hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire_tokio::hostwire::discovery::{Environment, Location, Place};
use hostwire_tokio::{Tokio, hostwire::Host, hostwire::HostConfig};
use std::collections::HashSet;
use std::error::Error;
use std::future::{Future, pending, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Adds a line to a list, once for each ID; the first answer never comes.
#[derive(Default)]
struct Ledger {
    lines: Mutex<HashSet<Vec<u8>>>,
    added: Notify,
}

impl Ledger {
    fn lines(&self) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Component for Ledger {
    fn manifest(&self) -> Manifest {
        Manifest::new("ledger", "1.0.0", Role::ToolProvider)
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        let id = cx.body().as_slice().to_vec();
        let first = self.lines.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        if !first {
            return Reply::text("was there").into();
        }
        self.added.notify_one();
        Handled::future(pending::<Result<Reply, ErrorReply>>())
    }
}

/// Sends, waits until `patience` is over, and sends the same bytes once more if that is safe.
async fn add(
    client: &Client,
    route: &Route,
    id: &'static str,
    patience: impl Future<Output = ()>,
) -> Result<&'static str, Box<dyn Error>> {
    let call = route.request(id);
    let canceller = call.canceller();
    let give_up = async {
        patience.await;
        canceller.cancel();
    };
    let fence = match tokio::join!(call, give_up).0 {
        Ok(_) => return Ok("at the first attempt"),
        Err(CallError::Unknown { evidence, .. }) => (evidence.daemon_id, route.handle()),
        // Proof that nothing arrived: this would be a fresh request, without a fence.
        Err(CallError::NotSent { .. }) => return Err("not sent".into()),
        Err(error @ CallError::Failed { .. }) => return Err(error.into()),
    };
    // O7: another incarnation knows nothing of the first attempt, and another route may be somebody else's.
    if (client.daemon_id(), route.handle()) != fence || !route.is_live() {
        return Err("the host is another one: nobody can say whether it was done".into());
    }
    route.request(Request::from(id).within(Duration::from_secs(10))).await?;
    Ok("at the second attempt")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Tokio::current()?;
    let dir = tempfile::tempdir()?;
    let place = Place::DataDir(dir.path().to_owned());
    let location = Location::resolve(&Environment::from_process(), &place)?;
    let ledger = Arc::new(Ledger::default());
    let config = HostConfig::new(location, "example/1.0.0");
    let host = Host::start(runtime.clone(), config, vec![Arc::clone(&ledger) as _]).await?;
    let client = Client::connect(&runtime, &ClientConfig { place, ..ClientConfig::default() }).await?;
    let target = Target::new("tool_provider", "ledger")?;
    let route =
        client.open(RouteOpen::new(target, Identity::new("/project", "example", "session-1")?)).await?;

    println!("added {}", add(&client, &route, "line-0001", ledger.added.notified()).await?);
    assert_eq!(ledger.lines(), 1, "sent twice, done once");

    host.shutdown();
    host.wait().await;
    assert!(add(&client, &route, "line-0002", ready(())).await.is_err(), "the fence holds");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
