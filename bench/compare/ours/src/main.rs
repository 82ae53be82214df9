//! hostwire on `rt=ct|mt|smol`, over `net=tcp|unix`, as programs use it: a component in a host, routes of a client.

mod echo;
mod hog;

use echo::{Echo, MODULE, ask};
use harness::{Args, Rt, block_on, connects, ready};
use hostwire::client::{Client, ClientConfig, Consumer, Request, Route};
use hostwire::core::auth::Credentials;
use hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire::core::negotiate::{Offer, OfferList};
use hostwire::discovery::{Environment, Location, Place, read_snapshot};
use hostwire::{Host, HostConfig, Runtime};
use hostwire_smol::Smol;
use hostwire_tokio::Tokio;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn place(args: &Args) -> Place {
    Place::File(Path::new(args.text("dir", ".")).join("bench.json"))
}

fn location(args: &Args) -> Location {
    Location::resolve(&Environment::default(), &place(args)).expect("a place")
}

fn config(args: &Args) -> ClientConfig {
    let mut config = ClientConfig {
        environment: Environment::default(),
        place: place(args),
        consumer: Consumer::Anonymous,
        ..ClientConfig::default()
    };
    if args.text("net", "tcp") == "unix" {
        config.offers = OfferList::new(vec![Offer::unix(), Offer::tcp()]).expect("two offers");
    }
    // There is no credit on a stream: what the host sends faster than it is read needs room here (B4).
    config.limits.stream_items = harness::ITEMS as usize;
    config.limits.retained_bytes = 256 << 20;
    config.limits.queued_bytes = 256 << 20;
    config
}

fn open() -> RouteOpen {
    let target = Target::new("tool_provider", MODULE).expect("a target");
    RouteOpen::new(target, Identity::new("/", "bench", "bench").expect("an identity"))
}

#[derive(Clone)]
struct Caller(Route);

impl harness::Client for Caller {
    async fn call(&self, body: Vec<u8>) -> usize {
        self.0.request(Request::new(body).binary()).await.expect("an answer").body.len()
    }

    async fn stream(&self, items: u64, size: usize) -> u64 {
        let mut stream = self.0.stream(Request::new(ask(items, size)).binary());
        let mut got = 0;
        while let Some(item) = stream.next().await {
            assert_eq!(item.expect("an item").body.len(), size);
            got += 1;
        }
        got
    }
}

async fn serve<R: Runtime>(runtime: R, args: Args) {
    let mut config = HostConfig::new(location(&args), "bench/0");
    config.unix = args.text("net", "tcp") == "unix";
    config.limits.connections = args.number("connections", 64);
    config.limits.routes = config.limits.routes.max(config.limits.connections);
    config.limits.resident_bytes = 1 << 30;
    let host = Host::start(runtime, config, vec![Arc::new(Echo)]).await.expect("a host");
    ready(host.port());
    host.wait().await;
}

/// Dialled and authenticated, with the credentials at hand: what a connection costs without the file system.
async fn dial<R: Runtime>(
    runtime: &R,
    config: &ClientConfig,
    port: u16,
    credentials: &Credentials,
) -> Client {
    // On loopback it is connected, or refused, when the call returns.
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connected");
    socket.set_nodelay(true).and_then(|()| socket.set_nonblocking(true)).expect("its options");
    Client::from_socket(runtime, socket.into(), credentials.clone(), config).await.expect("accepted")
}

fn credentials(args: &Args) -> Credentials {
    read_snapshot(&location(args)).expect("published").credentials
}

async fn client<R: Runtime>(rt: Rt, runtime: R, args: Args) {
    let config = config(&args);
    let connect = || async { Client::connect(&runtime, &config).await.expect("connected") };
    let measured = match args.text("workload", "ping") {
        "connect" => {
            let (port, credentials) = (args.number("port", 0), credentials(&args));
            connects(&args, || async {
                let client = dial(&runtime, &config, port, &credentials).await;
                client.open(open()).await.expect("a route");
            })
            .await
        }
        "discover" => {
            connects(&args, || async {
                connect().await.open(open()).await.expect("a route");
            })
            .await
        }
        _ => {
            harness::run(rt, &args, || async { Caller(connect().await.open(open()).await.expect("a route")) })
                .await
        }
    };
    measured.print();
}

/// Holds many idle connections, and says so.
async fn idle<R: Runtime>(rt: Rt, runtime: R, args: Args) {
    let config = config(&args);
    let mut clients = Vec::new();
    for _ in 0..args.number("connections", 1_000) {
        clients.push(Client::connect(&runtime, &config).await.expect("connected"));
    }
    ready(0);
    loop {
        rt.sleep(Duration::from_secs(3_600)).await;
    }
}

async fn play<R: Runtime>(rt: Rt, runtime: R, args: Args) {
    match args.role.as_str() {
        "server" => serve(runtime, args).await,
        "client" => client(rt, runtime, args).await,
        "idle" => idle(rt, runtime, args).await,
        "hog" => hog::run(rt, runtime, args).await,
        other => panic!("no role {other}"),
    }
}

async fn go(rt: Rt, args: Args) {
    match rt {
        Rt::Tokio => play(rt, Tokio::current().expect("in a runtime"), args).await,
        Rt::Smol => play(rt, Smol::new(Rt::executor()), args).await,
    }
}

fn main() {
    let args = Args::of_process();
    let name = args.text("rt", "ct").to_owned();
    block_on(&name, move |rt| go(rt, args));
}
