//! A component that says what it needs before the host starts, and asks for memory before it uses it (B7, B8).
//!
//! `cargo run -p hostwire-tokio --example reservations`

use hostwire_tokio::hostwire::client::{Client, ClientConfig};
use hostwire_tokio::hostwire::component::{
    Component, Declaration, ErrorReply, Handled, Manifest, Reply, RequestContext, Role,
};
use hostwire_tokio::hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire_tokio::hostwire::discovery::{Environment, Location, Place};
use hostwire_tokio::{Tokio, hostwire::Host, hostwire::HostConfig};
use std::error::Error;
use std::sync::Arc;

/// Administers: has to answer when all others are busy.
struct Admin {
    pending: usize,
}

impl Component for Admin {
    fn manifest(&self) -> Manifest {
        // B7: summed over all components and checked before anything is published.
        Manifest::new("admin", "1.0.0", Role::ManagementSurface).reserved().declare(Declaration {
            reserved_pending: self.pending,
            reserved_tasks: 2,
            ..Declaration::default()
        })
    }

    fn handle(self: Arc<Self>, _: RequestContext) -> Handled {
        Reply::text("at your service").into()
    }
}

/// Writes a body backwards: needs as much memory again as the body has.
struct Backwards;

impl Component for Backwards {
    fn manifest(&self) -> Manifest {
        // It waits for a lock inside, in at most four handlers at once.
        Manifest::new("backwards", "1.0.0", Role::ToolProvider)
            .declare(Declaration { parked_tasks: 4, ..Declaration::default() })
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        // Before anything is done: over the declared number it is `server_busy`, which says that nothing ran.
        let parked = match cx.park() {
            Ok(parked) => parked,
            Err(refused) => return refused.into(),
        };
        Handled::future(async move {
            tokio::task::yield_now().await; // the lock
            drop(parked);
            let len = cx.body().as_slice().len();
            // B8: asked for before it is made; given back when the answer has left.
            let space =
                cx.reserve_output(len).ok_or_else(|| ErrorReply::new("no_memory", "try again later"))?;
            let mut bytes = cx.body().as_slice().to_vec();
            bytes.reverse();
            Ok::<_, ErrorReply>(Reply::text(space.fill(bytes)))
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Tokio::current()?;
    let dir = tempfile::tempdir()?;
    let place = Place::DataDir(dir.path().to_owned());
    let location = Location::resolve(&Environment::from_process(), &place)?;
    let config = HostConfig::new(location, "example/1.0.0");

    // Declarations that cannot hold: nothing is published, and the bound is named.
    let greedy = vec![Arc::new(Admin { pending: config.limits.pending_requests }) as Arc<dyn Component>];
    let refused = Host::start(runtime.clone(), config.clone(), greedy).await.err().ok_or("it is too much")?;
    assert_eq!(refused.bound(), Some("pending_requests"));
    println!("refused: {refused}");

    let components: Vec<Arc<dyn Component>> = vec![Arc::new(Admin { pending: 8 }), Arc::new(Backwards)];
    let host = Host::start(runtime.clone(), config, components).await?;
    let client = Client::connect(&runtime, &ClientConfig { place, ..ClientConfig::default() }).await?;
    let identity = Identity::new("/project", "example", "session-1")?;
    let tools = Target::new("tool_provider", "backwards")?;
    let route = client.open(RouteOpen::new(tools, identity.clone())).await?;
    assert_eq!(route.request("desserts").await?.body.as_slice(), b"stressed");
    let management = Target::new("management_surface", "admin")?;
    let route = client.open(RouteOpen::new(management, identity)).await?;
    println!("{}", String::from_utf8_lossy(route.request("status").await?.body.as_slice()));

    host.shutdown();
    host.wait().await;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
