//! `counts MEASURE N` does one thing N times. `counts.py` runs it under callgrind with two values of N; their difference is what the
//! thing costs, without the start and the end of the process.

use hostwire_core::auth::{DaemonId, Domain, Key, Nonce, proof};
use hostwire_core::body::Body;
use hostwire_core::client::{self, Event, Request};
use hostwire_core::control::{ErrorBody, decode_request};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::host::{self, HostLimits};
use hostwire_core::limits::ClientLimits;
use hostwire_core::time::Instant;
use hostwire_core::transmit::MAX_SEGMENTS;
use hostwire_core::wire::{
    Channel, Correlation, Epoch, Flags, FrameType, HEADER_LEN, Header, Identity, IdentityShape, LEGALITY,
    Priority, RouteHandle, Row, judge,
};
use hostwire_sim::{World, route_open};
use std::hint::black_box;
use std::process::ExitCode;

const ROUTE: RouteHandle = RouteHandle { channel: Channel::FIRST, epoch: Epoch::FIRST };

/// A routed request of 44 bytes (section 6).
const RAW: [u8; HEADER_LEN] = [0x2C, 0, 0, 0, 2, 0, 4, 7, 0, 0x4D, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];

fn header_decode(n: usize) {
    for _ in 0..n {
        black_box(Header::decode(black_box(&RAW))).expect("a header");
    }
}

fn header_encode(n: usize) {
    let header = Header::decode(&RAW).expect("a header");
    for _ in 0..n {
        black_box(black_box(&header).encode());
    }
}

/// Each row of the table in turn.
fn legality(n: usize) {
    let header = |row: &Row| Header {
        len: 0,
        kind: row.kind,
        flags: Flags::data(false, Priority::Interactive),
        identity: match row.identity {
            IdentityShape::Connection => Identity::Connection,
            IdentityShape::Control => Identity::Control(Correlation::FIRST),
            IdentityShape::Route => Identity::Route(ROUTE),
            IdentityShape::Routed => Identity::Routed(ROUTE, Correlation::FIRST),
        },
    };
    let headers = LEGALITY.map(|row| (row.from, header(&row)));
    for (from, header) in headers.iter().cycle().take(n) {
        black_box(judge(black_box(*from), black_box(header))).expect("legal");
    }
}

fn route_open_parse(n: usize) {
    let body = route_open().encode();
    for _ in 0..n {
        black_box(decode_request(black_box(&body), false)).expect("well-formed");
    }
}

fn error_body_write(n: usize) {
    let error = ErrorBody::from_handler("application_error", "the thing is not there", Some(50));
    for _ in 0..n {
        black_box(black_box(&error).encode());
    }
}

fn proof_of_a_key(n: usize) {
    let (key, id) = (Key::new([1; 32]), DaemonId::new([2; 16]));
    let (client, server) = (Nonce::new([3; 32]), Nonce::new([4; 32]));
    for _ in 0..n {
        black_box(proof(black_box(&key), Domain::Server, &client, &server, &id));
    }
}

/// A request of 64 bytes and its echo, through both cores, without sockets.
fn echo_round_trip(n: usize) {
    let mut world = World::routed();
    let route = world.route.expect("a route");
    let mut wire = Vec::with_capacity(4096);
    for _ in 0..n {
        let body: Body = vec![b'e'; 64].into();
        world
            .client
            .request(Instant::ZERO, route, Request::unary(body, Instant::FAR_FUTURE))
            .expect("admitted");
        carry(&mut world.client, &mut world.host, &mut wire);
        let Some(host::Event::Request { id, body, permit, .. }) = world.host.poll_event() else {
            panic!("no request")
        };
        world.host.respond(Instant::ZERO, id, false, body).expect("in time");
        drop(permit);
        carry(&mut world.host, &mut world.client, &mut wire);
        assert!(matches!(world.client.poll_event(), Some(Event::Settled { .. })));
    }
}

/// Client and host with a route and room for many requests at once; the next correlation is 3.
fn roomy() -> (World, RouteHandle) {
    const ROOM: usize = 16_384;
    let client = ClientLimits { pending_requests: ROOM, ..ClientLimits::default() };
    let host = HostLimits { pending_requests: ROOM, handler_tasks: ROOM, ..HostLimits::default() };
    let world = World::with(client, host).with_route();
    let route = world.route.expect("a route");
    (world, route)
}

/// Which of `len` is next: spread over all of them, the same in every run.
fn pick(seed: &mut u64, len: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize % len
}

fn frame(kind: FrameType, flags: Flags, route: RouteHandle, corr: u64) -> Vec<u8> {
    let identity = Identity::Routed(route, Correlation::new(corr).expect("not zero"));
    let mut bytes = Header { len: 64, kind, flags, identity }.encode().to_vec();
    bytes.extend_from_slice(&[b'e'; 64]);
    bytes
}

fn say_all(from: &mut impl Endpoint) {
    let offer = from.poll_transmit(Instant::ZERO).expect("something to say");
    let n = offer.len();
    offer.written(n).expect("all of it");
}

/// The client alone: a request of 64 bytes is submitted and leaves whole, then one of `pending` is answered, read and settled.
fn submit_to_settle(n: usize, pending: usize) {
    let (World { mut client, .. }, route) = roomy();
    let (mut seed, mut corr, mut waiting) = (1, 3, Vec::with_capacity(pending));
    let mut submit = |client: &mut client::Connection, waiting: &mut Vec<u64>, seed: &mut u64| {
        let deadline = Instant::from_micros(1 + pick(seed, 1_000_000) as u64);
        let body: Body = vec![b'e'; 64].into();
        client.request(Instant::ZERO, route, Request::unary(body, deadline)).expect("admitted");
        say_all(client);
        waiting.push(corr);
        corr += 1;
    };
    (1..pending).for_each(|_| submit(&mut client, &mut waiting, &mut seed));
    for _ in 0..n {
        submit(&mut client, &mut waiting, &mut seed);
        let answered = pick(&mut seed, waiting.len());
        let answer = frame(FrameType::Response, Flags::terminal(true), route, waiting.swap_remove(answered));
        assert_eq!(client.handle_input(Instant::ZERO, &answer), Ok(answer.len()));
        assert!(matches!(client.poll_event(), Some(Event::Settled { .. })));
    }
}

/// The host alone: a request of 64 bytes is read and dispatched, then one of `pending` is answered with its own body, which leaves whole.
fn dispatch_to_settle(n: usize, pending: usize) {
    let (World { mut host, .. }, route) = roomy();
    let (mut seed, mut corr, mut running) = (1, 3, Vec::with_capacity(pending));
    let mut dispatch = |host: &mut host::Connection, running: &mut Vec<_>| {
        let request = frame(FrameType::Request, Flags::data(true, Priority::Interactive), route, corr);
        assert_eq!(host.handle_input(Instant::ZERO, &request), Ok(request.len()));
        let Some(host::Event::Request { id, body, permit, .. }) = host.poll_event() else {
            panic!("no request")
        };
        running.push((id, body, permit));
        corr += 1;
    };
    (1..pending).for_each(|_| dispatch(&mut host, &mut running));
    for _ in 0..n {
        dispatch(&mut host, &mut running);
        let (id, body, permit) = running.swap_remove(pick(&mut seed, pending));
        host.respond(Instant::ZERO, id, true, body).expect("in time");
        drop(permit);
        say_all(&mut host);
    }
}

fn carry(from: &mut impl Endpoint, to: &mut impl Endpoint, wire: &mut Vec<u8>) {
    wire.clear();
    let offer = from.poll_transmit(Instant::ZERO).expect("something to say");
    let mut segments = [&[][..]; MAX_SEGMENTS];
    let filled = offer.segments(&mut segments);
    segments[..filled].iter().for_each(|part| wire.extend_from_slice(part));
    let n = offer.len();
    offer.written(n).expect("all of it");
    assert_eq!(to.handle_input(Instant::ZERO, wire), Ok(n));
}

type Measure = (&'static str, fn(usize));

const MEASURES: [Measure; 11] = [
    ("header_decode", header_decode),
    ("header_encode", header_encode),
    ("legality", legality),
    ("route_open_parse", route_open_parse),
    ("error_body_write", error_body_write),
    ("proof", proof_of_a_key),
    ("echo_round_trip", echo_round_trip),
    ("submit_to_settle", |n| submit_to_settle(n, 1)),
    ("submit_to_settle_10k", |n| submit_to_settle(n, 10_000)),
    ("dispatch_to_settle", |n| dispatch_to_settle(n, 1)),
    ("dispatch_to_settle_10k", |n| dispatch_to_settle(n, 10_000)),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() {
        MEASURES.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let measure = args.first().and_then(|name| MEASURES.iter().find(|(known, _)| known == name));
    let count = args.get(1).and_then(|count| count.parse().ok());
    let (Some((_, measure)), Some(count)) = (measure, count) else {
        eprintln!("usage: counts [MEASURE N]");
        return ExitCode::from(64);
    };
    measure(count);
    ExitCode::SUCCESS
}
