//! `counts MEASURE N` does one thing N times. `counts.py` runs it under callgrind with two values of N; their difference is what the
//! thing costs, without the start and the end of the process.

use hostwire_core::auth::{DaemonId, Domain, Key, Nonce, proof};
use hostwire_core::body::Body;
use hostwire_core::client::{Event, Request};
use hostwire_core::control::{ErrorBody, decode_request};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::host;
use hostwire_core::time::Instant;
use hostwire_core::transmit::MAX_SEGMENTS;
use hostwire_core::wire::{
    Channel, Correlation, Epoch, Flags, HEADER_LEN, Header, Identity, IdentityShape, LEGALITY, Priority,
    RouteHandle, Row, judge,
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

const MEASURES: [Measure; 7] = [
    ("header_decode", header_decode),
    ("header_encode", header_encode),
    ("legality", legality),
    ("route_open_parse", route_open_parse),
    ("error_body_write", error_body_write),
    ("proof", proof_of_a_key),
    ("echo_round_trip", echo_round_trip),
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
