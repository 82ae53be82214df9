//! A host with one component, and a call on it.
//!
//! `cargo run -p hostwire-tokio --example minimal_host`

use hostwire_tokio::hostwire::client::{Client, ClientConfig};
use hostwire_tokio::hostwire::component::{Component, Handled, Manifest, Reply, RequestContext, Role};
use hostwire_tokio::hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire_tokio::hostwire::discovery::{Environment, Location, Place};
use hostwire_tokio::{Tokio, hostwire::Host, hostwire::HostConfig};
use std::error::Error;
use std::sync::Arc;

/// Answers each request with its own body, in capitals.
struct Shout;

impl Component for Shout {
    fn manifest(&self) -> Manifest {
        Manifest::new("shout", "1.0.0", Role::ToolProvider)
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        Reply::text(cx.body().as_slice().to_ascii_uppercase()).into()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Tokio::current()?;
    // A program would take `Place::Default`: below the user's data directory, where its clients look.
    let dir = tempfile::tempdir()?;
    let place = Place::DataDir(dir.path().to_owned());
    let location = Location::resolve(&Environment::from_process(), &place)?;
    let host =
        Host::start(runtime.clone(), HostConfig::new(location, "example/1.0.0"), vec![Arc::new(Shout)])
            .await?;
    println!("serving; clients find it by {}", host.connection_file().display());

    let client = Client::connect(&runtime, &ClientConfig { place, ..ClientConfig::default() }).await?;
    let target = Target::new("tool_provider", "shout")?;
    let route =
        client.open(RouteOpen::new(target, Identity::new("/project", "example", "session-1")?)).await?;
    let reply = route.request("hello").await?;
    println!("answer: {}", String::from_utf8_lossy(reply.body.as_slice()));
    assert_eq!(reply.body.as_slice(), b"HELLO");

    client.close().await;
    host.shutdown();
    assert!(host.wait().await.graceful());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
