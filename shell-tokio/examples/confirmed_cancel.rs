//! A cancel that waits for proof that the work has stopped (X4), and a handler that cleans up before it stops (X1).
//!
//! `cargo run -p hostwire-tokio --example confirmed_cancel`

use hostwire_tokio::hostwire::client::{CallError, Client, ClientConfig, Failure};
use hostwire_tokio::hostwire::component::{
    Component, ErrorReply, Handled, Manifest, Reply, RequestContext, Role,
};
use hostwire_tokio::hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire_tokio::hostwire::discovery::{Environment, Location, Place};
use hostwire_tokio::{Tokio, hostwire::Host, hostwire::HostConfig};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Writes a file for ever; a half-written one is removed before the request ends.
#[derive(Default)]
struct Writer {
    begun: Notify,
    cleaned: AtomicBool,
}

impl Component for Writer {
    fn manifest(&self) -> Manifest {
        Manifest::new("writer", "1.0.0", Role::ToolProvider)
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        // Asked for before the work begins: without it, the future would be dropped where it stands.
        let cancelled = cx.cancellation();
        Handled::future(async move {
            self.begun.notify_one();
            cancelled.await; // the work: nothing else ends it
            self.cleaned.store(true, Ordering::SeqCst);
            Err::<Reply, ErrorReply>(ErrorReply::new("stopped", "nobody gets this: a cancel won"))
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Tokio::current()?;
    let dir = tempfile::tempdir()?;
    let place = Place::DataDir(dir.path().to_owned());
    let location = Location::resolve(&Environment::from_process(), &place)?;
    let writer = Arc::new(Writer::default());
    let config = HostConfig::new(location, "example/1.0.0");
    let host = Host::start(runtime.clone(), config, vec![Arc::clone(&writer) as _]).await?;
    let client = Client::connect(&runtime, &ClientConfig { place, ..ClientConfig::default() }).await?;
    let target = Target::new("tool_provider", "writer")?;
    let route =
        client.open(RouteOpen::new(target, Identity::new("/project", "example", "session-1")?)).await?;

    let call = route.request("write");
    let canceller = call.canceller();
    let call = tokio::spawn(call);
    writer.begun.notified().await;
    // Plain `cancel` would settle it at once, `outcome_unknown`. This one waits for the host's word, up to 10 s.
    canceller.cancel_confirmed(Duration::from_secs(10));
    match call.await? {
        Err(CallError::Failed { failure: Failure::Host(error), .. }) if error.code() == "cancelled" => {
            assert!(writer.cleaned.load(Ordering::SeqCst), "the proof comes after the handler's end");
            println!("stopped, and nothing half-written is left");
        }
        Err(CallError::Failed { .. }) | Ok(_) => println!("it had ended by itself"),
        Err(CallError::Unknown { .. } | CallError::NotSent { .. }) => return Err("no proof in time".into()),
    }
    assert!(writer.cleaned.load(Ordering::SeqCst));

    host.shutdown();
    host.wait().await;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
