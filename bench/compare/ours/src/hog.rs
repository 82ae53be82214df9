//! Connections that take all they can get: `kind=bodies` keeps 24 bodies of 8 MiB in flight, `kind=stalled` does not read its answers,
//! `kind=cancels` floods cancels.

use crate::{config, credentials, dial, open};
use harness::{Args, Rt, body, ready};
use hostwire::Runtime;
use hostwire::client::{Client, Request};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub async fn run<R: Runtime>(rt: Rt, runtime: R, args: Args) {
    match args.text("kind", "bodies") {
        "bodies" => bodies(rt, runtime, args).await,
        "stalled" => stalled(rt, runtime, args).await,
        "cancels" => cancels(rt, runtime, args).await,
        other => panic!("no hog {other}"),
    }
}

async fn bodies<R: Runtime>(rt: Rt, runtime: R, args: Args) {
    let (port, credentials, config) = (args.number("port", 0), credentials(&args), config(&args));
    let route = dial(&runtime, &config, port, &credentials).await.open(open()).await.expect("a route");
    let template = Arc::new(body(8 << 20));
    for _ in 0..24 {
        let (route, template) = (route.clone(), Arc::clone(&template));
        rt.detach(async move {
            loop {
                // Over a budget of the host's it is refused, and asked again.
                let _ = route.request(Request::new(template.to_vec()).binary()).await;
            }
        });
    }
    forever(rt).await;
}

/// Pumps what the host sends until the gate closes; from then on nobody reads it.
fn between(port: u16) -> (UnixStream, Arc<AtomicBool>) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let host = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    host.set_nodelay(true).expect("set");
    let gate = Arc::new(AtomicBool::new(true));
    let mut out = (theirs.try_clone().expect("a clone"), host.try_clone().expect("a clone"));
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut out.0, &mut out.1);
        let _ = out.1.shutdown(Shutdown::Write);
    });
    let (open, mut from, mut to) = (Arc::clone(&gate), host, theirs);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while open.load(Ordering::Acquire)
            && let Ok(n @ 1..) = from.read(&mut buffer)
            && to.write_all(&buffer[..n]).is_ok()
        {}
        loop {
            std::thread::park(); // the sockets stay open
        }
    });
    ours.set_nonblocking(true).expect("set");
    (ours, gate)
}

async fn stalled<R: Runtime>(rt: Rt, runtime: R, args: Args) {
    let (port, credentials, config) = (args.number("port", 0), credentials(&args), config(&args));
    let (socket, gate) = between(port);
    let client = Client::from_socket(&runtime, socket.into(), credentials, &config).await.expect("accepted");
    let route = client.open(open()).await.expect("a route");
    gate.store(false, Ordering::Release);
    let mut calls = Vec::new();
    for _ in 0..900 {
        calls.push(route.request(Request::new(body(64 << 10)).binary().within(Duration::from_secs(3_600))));
    }
    forever(rt).await;
}

async fn cancels<R: Runtime>(rt: Rt, runtime: R, args: Args) {
    let (port, credentials, config) = (args.number("port", 0), credentials(&args), config(&args));
    let route = dial(&runtime, &config, port, &credentials).await.open(open()).await.expect("a route");
    rt.detach(async move {
        loop {
            // As many as a client's control lane has room for cancels (B2), so that none of their handlers is left behind.
            let calls: Vec<_> = (0..12).map(|_| route.request(crate::echo::HANG)).collect();
            // One answered round trip behind them: all have left, and now their cancels do.
            let _ = route.request(Request::new(body(16))).await;
            drop(calls);
        }
    });
    forever(rt).await;
}

async fn forever(rt: Rt) {
    ready(0);
    loop {
        rt.sleep(Duration::from_secs(3_600)).await;
    }
}
