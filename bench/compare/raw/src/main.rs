//! Two contenders on plain sockets: `variant=raw` and `variant=mux`, each on `rt=ct|mt|smol`, over `net=tcp` or (tokio) `net=unix`.

mod ceiling;
mod frames;
mod handshake;
mod mux;

use frames::Wire;
use harness::{Args, Control, Histogram, Measured, Rt, Shape, block_on, body, connects, ready, streams};
use mux::Mux;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

fn socket_path(port: u16) -> PathBuf {
    std::env::temp_dir().join(format!("hostwire-bench.{port}.sock"))
}

async fn serve_one(mux: bool, mut wire: impl Wire) {
    if handshake::serve(&mut wire).await.is_err() {
        return;
    }
    // A client that goes away ends its connection, however.
    let _ = if mux { mux::serve(wire).await } else { ceiling::serve(wire).await };
}

async fn serve(rt: Rt, args: Args) {
    let mux = args.text("variant", "raw") == "mux";
    if args.text("net", "tcp") == "unix" {
        let port = args.number("port", 0);
        let _ = std::fs::remove_file(socket_path(port));
        let listener = tokio::net::UnixListener::bind(socket_path(port)).expect("bound");
        ready(port);
        while let Ok((stream, _)) = listener.accept().await {
            rt.detach(serve_one(mux, stream));
        }
        return;
    }
    match rt {
        Rt::Tokio => {
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
            ready(listener.local_addr().expect("an address").port());
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("set");
                rt.detach(serve_one(mux, stream));
            }
        }
        Rt::Smol => {
            let listener = smol::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
            ready(listener.local_addr().expect("an address").port());
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("set");
                rt.detach(serve_one(mux, stream));
            }
        }
    }
}

async fn tokio_tcp(port: u16) -> tokio::net::TcpStream {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
    stream.set_nodelay(true).expect("set");
    handshake::connect(&mut stream).await.expect("accepted");
    stream
}

async fn tokio_unix(port: u16) -> tokio::net::UnixStream {
    let mut stream = tokio::net::UnixStream::connect(socket_path(port)).await.expect("connected");
    handshake::connect(&mut stream).await.expect("accepted");
    stream
}

async fn smol_tcp(port: u16) -> smol::net::TcpStream {
    let mut stream = smol::net::TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
    stream.set_nodelay(true).expect("set");
    handshake::connect(&mut stream).await.expect("accepted");
    stream
}

async fn raw<W, F>(rt: Rt, args: &Args, connect: impl Fn() -> F + Sync) -> Measured
where
    W: Wire,
    F: Future<Output = W> + Send,
{
    let workload = args.text("workload", "ping");
    match workload {
        "stream" => {
            let streamer = Arc::new(futures::lock::Mutex::new(ceiling::Streamer::new(connect().await)));
            streams(args, |items| {
                let streamer = Arc::clone(&streamer);
                async move { streamer.lock().await.stream(items, harness::ITEM).await }
            })
            .await
        }
        "connect" => {
            connects(args, || async {
                let mut wire = connect().await;
                ceiling::echo_once(&mut wire, &body(256)).await;
            })
            .await
        }
        other => {
            let shape = Shape::of(other).expect("a workload");
            let control = Control::new(shape.connections);
            let mut pumps = Vec::new();
            for index in 0..shape.connections {
                let wire = connect().await;
                pumps.push(rt.spawn(ceiling::pump(wire, shape, Arc::clone(&control), index)));
            }
            let measured = control.measure(rt, args).await;
            let mut latency = Histogram::default();
            for pump in pumps {
                latency.merge(&pump.await);
            }
            measured.with(latency)
        }
    }
}

async fn client<W, F>(rt: Rt, args: Args, connect: impl Fn() -> F + Sync)
where
    W: Wire,
    F: Future<Output = W> + Send,
{
    let measured = if args.text("variant", "raw") == "mux" {
        harness::run(rt, &args, || async { Mux::start(rt, connect().await) }).await
    } else {
        raw(rt, &args, connect).await
    };
    measured.print();
}

async fn go(rt: Rt, args: Args) {
    let port = args.number("port", 0);
    match (args.role.as_str(), rt, args.text("net", "tcp")) {
        ("server", ..) => serve(rt, args).await,
        (_, Rt::Tokio, "unix") => client(rt, args, || tokio_unix(port)).await,
        (_, Rt::Tokio, _) => client(rt, args, || tokio_tcp(port)).await,
        (_, Rt::Smol, _) => client(rt, args, || smol_tcp(port)).await,
    }
}

fn main() {
    let args = Args::of_process();
    let name = args.text("rt", "ct").to_owned();
    block_on(&name, move |rt| go(rt, args));
}
