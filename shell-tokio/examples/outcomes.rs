//! A client that looks at what became of each request: `terminal`, `outcome_unknown` or `not_sent`.
//!
//! `cargo run -p hostwire-tokio --example outcomes`

use hostwire_tokio::hostwire::client::{Call, CallError, Client, ClientConfig, Failure, Request};
use hostwire_tokio::hostwire::component::{
    Component, ErrorReply, Handled, Manifest, Reply, RequestContext, Role,
};
use hostwire_tokio::hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire_tokio::hostwire::discovery::{Environment, Location, Place};
use hostwire_tokio::{Tokio, hostwire::Host, hostwire::HostConfig};
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Transfers money: says yes, says no, or never says anything.
#[derive(Default)]
struct Bank {
    thinking: Notify,
}

impl Component for Bank {
    fn manifest(&self) -> Manifest {
        Manifest::new("bank", "1.0.0", Role::ToolProvider)
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        match cx.body().as_slice() {
            b"transfer 10" => Reply::text("done").into(),
            b"transfer 1000000" => ErrorReply::new("insufficient_funds", "there is not that much").into(),
            _ => {
                self.thinking.notify_one();
                Handled::future(pending::<Result<Reply, ErrorReply>>())
            }
        }
    }
}

/// What the caller of a transfer has to be told.
#[derive(Debug, PartialEq, Eq)]
enum Transfer {
    Done,
    Refused(String),
    /// It may have happened: ask the bank before anything else.
    Unknown,
    /// It has not happened, and may be tried again.
    NotSent,
}

async fn transfer(call: Call) -> Transfer {
    match call.await {
        Ok(_reply) => Transfer::Done,
        // The bank's own answer. Whether to try again is for whoever knows what the code means.
        Err(CallError::Failed { failure: Failure::Host(error), .. }) => {
            Transfer::Refused(error.code().into())
        }
        // It was carried out, and its answer could not be used.
        Err(CallError::Failed { failure: Failure::Local(_), .. }) => Transfer::Done,
        // Some of its bytes may have arrived. The library never sends it again.
        Err(CallError::Unknown { evidence, .. }) => {
            println!("{} bytes were handed over, and no answer came", evidence.bytes_handed);
            Transfer::Unknown
        }
        // Proof that no byte of it arrived; the body comes back.
        Err(CallError::NotSent { code, body, .. }) => {
            println!("not sent: {code}; {} bytes given back", body.as_slice().len());
            Transfer::NotSent
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Tokio::current()?;
    let dir = tempfile::tempdir()?;
    let place = Place::DataDir(dir.path().to_owned());
    let location = Location::resolve(&Environment::from_process(), &place)?;
    let bank = Arc::new(Bank::default());
    let config = HostConfig::new(location, "example/1.0.0");
    let host = Host::start(runtime.clone(), config, vec![Arc::clone(&bank) as _]).await?;
    let client = Client::connect(&runtime, &ClientConfig { place, ..ClientConfig::default() }).await?;
    let target = Target::new("tool_provider", "bank")?;
    let route =
        client.open(RouteOpen::new(target, Identity::new("/project", "example", "session-1")?)).await?;

    assert_eq!(transfer(route.request("transfer 10")).await, Transfer::Done);
    let refused = Transfer::Refused("insufficient_funds".into());
    assert_eq!(transfer(route.request("transfer 1000000")).await, refused);
    // Given up while the bank thinks, as a deadline would.
    let call = route.request("think about it");
    let canceller = call.canceller();
    let give_up = async {
        bank.thinking.notified().await;
        canceller.cancel();
    };
    assert_eq!(tokio::join!(transfer(call), give_up).0, Transfer::Unknown);
    // A deadline that is over before anything leaves settles at once.
    let late = Request::from("transfer 10").within(Duration::ZERO);
    assert_eq!(transfer(route.request(late)).await, Transfer::NotSent);

    host.shutdown();
    host.wait().await;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
