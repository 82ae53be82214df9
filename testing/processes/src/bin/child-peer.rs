//! The protocol over a process's own input and output: `child-peer host|client`, started by a parent that speaks it too. And
//! `child-peer reads tokio|smol`: a runtime that ends while a read of the process's own input is pending.

use async_executor::Executor;
use hostwire::Runtime;
use hostwire::client::ClientConfig;
use hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire::discovery::{Environment, Location, Place};
use hostwire::host::{Host, HostConfig};
use hostwire::process::{connect_parent, own_credentials, own_stdin, serve_parent};
use hostwire::runtime::Io;
use hostwire_lab::{LAB, Lab};
use hostwire_smol::Smol;
use hostwire_tokio::Tokio;
use std::future::poll_fn;
use std::process::exit;
use std::sync::Arc;
use std::task::Poll;

fn main() {
    let role = std::env::args().nth(1);
    if role.as_deref() == Some("reads") {
        match std::env::args().nth(2).as_deref() {
            Some("tokio") => {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
                runtime.block_on(reads(&Tokio::new(runtime.handle().clone())));
                drop(runtime);
            }
            _ => {
                let executor = Arc::new(Executor::new());
                async_io::block_on(executor.run(reads(&Smol::new(&executor))));
            }
        }
        // Nothing of the read is left: the process ends though its input is open.
        let flags = rustix::fs::fcntl_getfl(std::io::stdin()).expect("flags");
        exit(i32::from(flags.contains(rustix::fs::OFlags::NONBLOCK)));
    }
    let executor = Arc::new(Executor::new());
    let smol = Smol::new(&executor);
    let code = async_io::block_on(executor.run(async {
        match role.as_deref() {
            Some("host") => host(smol).await,
            Some("client") => client(smol).await,
            _ => 64,
        }
    }));
    exit(code);
}

/// Begins to read its own input, in which nothing comes, and leaves it.
async fn reads<R: Runtime>(runtime: &R) {
    let input = runtime.register(own_stdin().expect("a pipe")).expect("registered");
    let pending = poll_fn(|cx| Poll::Ready(input.poll_read_ready(cx).is_pending())).await;
    assert!(pending, "nothing has come");
}

/// Serves `lab` to the parent until that has gone.
async fn host(smol: Smol) -> i32 {
    let Ok(dir) = tempfile::tempdir() else { return 70 };
    let place = Place::DataDir(dir.path().to_owned());
    let Ok(location) = Location::resolve(&Environment::default(), &place) else { return 70 };
    let mut config = HostConfig::new(location, "child-peer");
    config.credentials = own_credentials().ok();
    let Ok(host) = Host::start(smol, config, vec![Arc::new(Lab::new())]).await else { return 70 };
    let Ok(parent) = serve_parent(&host) else { return 70 };
    parent.await;
    host.shutdown();
    i32::from(!host.wait().await.graceful())
}

/// Asks the parent's `lab` for an echo.
async fn client(smol: Smol) -> i32 {
    let config = ClientConfig::default();
    let client = match connect_parent(&smol, &config).await {
        Ok(client) => client,
        Err(error) => {
            eprintln!("{error}");
            return 2;
        }
    };
    let (Ok(target), Ok(identity)) = (Target::new("tool_provider", LAB), Identity::new("/", "child", "s"))
    else {
        return 70;
    };
    let Ok(route) = client.open(RouteOpen::new(target, identity)).await else { return 3 };
    let reply = route.request(r#"{"do":"echo","value":"over stdio"}"#).await;
    let right = reply.is_ok_and(|reply| reply.body.as_slice() == br#"{"echo":"over stdio"}"#);
    client.close().await;
    i32::from(!right)
}
