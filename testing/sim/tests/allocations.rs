//! What the cores take from the allocator: pinned for a small request, held under the bound that each side says in advance.

use hostwire_core::auth::Nonce;
use hostwire_core::client::Connection as Client;
use hostwire_core::endpoint::Endpoint;
use hostwire_core::host::{
    self, Connection as Host, HostLimits, HostTimeouts, Owner, Registry, Shared, Step,
};
use hostwire_core::limits::ClientLimits;
use hostwire_core::time::Instant;
use hostwire_core::transmit::MAX_SEGMENTS;
use hostwire_core::wire::{Correlation, Flags, FrameType, Header, Identity, Priority, RouteHandle};
use hostwire_sim::{World, client_config, host_shared, route_open};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One after the other, on one thread: the counter is the process's.
fn main() {
    let tests: [(&str, fn()); 5] = [
        (
            "small_requests_allocate_their_bodies_and_nothing_else",
            small_requests_allocate_their_bodies_and_nothing_else,
        ),
        (
            "a_client_fills_most_of_its_bound_and_never_passes_it",
            a_client_fills_most_of_its_bound_and_never_passes_it,
        ),
        (
            "a_host_fills_most_of_its_bound_and_never_passes_it",
            a_host_fills_most_of_its_bound_and_never_passes_it,
        ),
        (
            "a_routed_request_costs_the_host_no_allocation_beyond_its_body",
            a_routed_request_costs_the_host_no_allocation_beyond_its_body,
        ),
        (
            "reading_a_control_body_takes_no_more_than_the_bound_counts_for_it",
            reading_a_control_body_takes_no_more_than_the_bound_counts_for_it,
        ),
    ];
    println!("running {} tests", tests.len());
    for (name, test) in tests {
        test(); // a failure panics, and cargo reports it
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", tests.len());
}

/// CC9: live bytes of one connection, with its queue and its retained budget full, against `memory_bound()`.
fn a_client_fills_most_of_its_bound_and_never_passes_it() {
    use hostwire_core::client::Request;

    let bound = Client::memory_bound(&ClientLimits::default());
    let mut world = World::routed();
    let route = world.route.expect("a route");
    let mut wire = Vec::with_capacity(70_000);
    let item = vec![7_u8; 66_000];
    let region = Region::new(COUNTED);
    let mut most = 0;
    let mut judge = || {
        let change = region.change();
        let live = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
        assert!(live <= bound, "{live} of {bound}");
        most = most.max(live);
    };
    for _ in 0..64 {
        let request = Request::stream(b"h".to_vec(), Instant::FAR_FUTURE);
        world.client.request(Instant::ZERO, route, request).expect("admitted");
    }
    while let Some(offer) = world.client.poll_transmit(Instant::ZERO) {
        let n = offer.len();
        offer.written(n).expect("all of it");
    }
    // The streams' unread items, up to the retained budget and beyond it.
    for corr in 3..67 {
        for _ in 0..17 {
            let identity = Identity::Routed(route, Correlation::new(corr).expect("not zero"));
            let len = u32::try_from(item.len()).expect("small");
            let flags = Flags::data(true, Priority::Interactive);
            wire.clear();
            wire.extend_from_slice(&Header { len, kind: FrameType::StreamData, flags, identity }.encode());
            wire.extend_from_slice(&item);
            assert_eq!(world.client.handle_input(Instant::ZERO, &wire), Ok(wire.len()));
            judge();
        }
    }
    // The queue, up to its last byte and beyond it.
    for _ in 0..100 {
        drop(world.client.request(
            Instant::ZERO,
            route,
            Request::unary(vec![1; 1 << 20], Instant::FAR_FUTURE),
        ));
        judge();
    }
    assert!(most * 10 >= bound * 6, "the bound is not fantasy: {most} of {bound}");
    println!("{most} of {bound} bytes");
}

/// CC9: the request's body (the caller's), its copy at the host, the answer's copy at the client; the world's own book-keeping is
/// measured by the same round with the cores taken out of it.
fn small_requests_allocate_their_bodies_and_nothing_else() {
    use hostwire_core::body::Body;
    use hostwire_core::client::{Event, Request};

    const ROUNDS: usize = 10_000;
    let mut world = World::routed();
    let route = world.route.expect("a route");
    let mut wire = Vec::with_capacity(4096);
    let mut round = |world: &mut World| {
        let body: Body = vec![b'e'; 64].into(); // 1: the caller's
        world
            .client
            .request(Instant::ZERO, route, Request::unary(body, Instant::FAR_FUTURE))
            .expect("admitted");
        carry(&mut world.client, &mut world.host, &mut wire); // 2: the host's copy
        let Some(host::Event::Request { id, body, permit, .. }) = world.host.poll_event() else {
            panic!("no request")
        };
        world.host.respond(Instant::ZERO, id, false, body).expect("in time"); // echoed as it is
        drop(permit);
        carry(&mut world.host, &mut world.client, &mut wire); // 3: the client's copy
        assert!(matches!(world.client.poll_event(), Some(Event::Settled { .. })));
    };
    (0..100).for_each(|_| round(&mut world));
    let region = Region::new(COUNTED);
    (0..ROUNDS).for_each(|_| round(&mut world));
    let change = region.change();
    assert_eq!(change.allocations, 3 * ROUNDS, "{change:?}");
    assert_eq!(change.reallocations, 0, "{change:?}");
    assert_eq!(change.deallocations, 3 * ROUNDS, "{change:?}");
}

/// A host with `shared` and connections that are active; whoever brought them there is gone.
struct Hosted {
    shared: Arc<Shared>,
    registry: Registry,
    wire: Vec<u8>,
}

impl Hosted {
    fn new(limits: HostLimits) -> Self {
        let shared = host_shared(limits, HostTimeouts::default());
        Self { registry: Registry::new(shared.limits().routes), shared, wire: Vec::with_capacity(70_000) }
    }

    fn active(&mut self) -> Host {
        let slot = self.shared.admit_handshake().expect("a free slot");
        let mut host = Host::new(Instant::ZERO, slot, Nonce::new([0x40; 32]), Arc::clone(&self.shared));
        let mut client = Client::new(Instant::ZERO, client_config(ClientLimits::default())).expect("limits");
        carry(&mut client, &mut host, &mut self.wire);
        carry(&mut host, &mut client, &mut self.wire);
        carry(&mut client, &mut host, &mut self.wire);
        say_all(&mut host);
        assert!(matches!(host.poll_event(), Some(host::Event::Active)));
        host
    }

    /// Feeds a frame whose body is `len` bytes of `body`, again and again.
    fn feed(&mut self, host: &mut Host, identity: Identity, body: &[u8], len: usize) {
        let declared = u32::try_from(len).expect("a legal length");
        let flags = Flags::data(false, Priority::Interactive);
        self.wire.clear();
        let header = Header { len: declared, kind: FrameType::Request, flags, identity };
        self.wire.extend_from_slice(&header.encode());
        let mut left = len;
        loop {
            let part = left.min(body.len());
            self.wire.extend_from_slice(&body[..part]);
            assert_eq!(host.handle_input(Instant::ZERO, &self.wire), Ok(self.wire.len()));
            self.wire.clear();
            left -= part;
            if left == 0 {
                return;
            }
        }
    }

    fn open(&mut self, host: &mut Host, corr: u64) -> RouteHandle {
        let body = route_open().encode();
        self.feed(host, Identity::Control(correlation(corr)), &body, body.len());
        let Some(host::Event::RouteOpen { id, .. }) = host.poll_event() else { panic!("no bind") };
        let route = self.registry.claim(Owner(1)).expect("a channel");
        let Step::Publish(grant) = self.registry.bind_accepted(route) else { panic!("not published") };
        host.accept_route(Instant::ZERO, id, grant).expect("in time");
        say_all(host);
        route
    }
}

fn correlation(n: u64) -> Correlation {
    Correlation::new(n).expect("not zero")
}

fn say_all(from: &mut impl Endpoint) {
    while let Some(offer) = from.poll_transmit(Instant::ZERO) {
        let n = offer.len();
        offer.written(n).expect("all of it");
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

/// B1, CC9: connections whose tables each held all of the host's requests and routes once, then every pool full at once.
fn a_host_fills_most_of_its_bound_and_never_passes_it() {
    const CONNECTIONS: usize = 8;
    let limits = HostLimits {
        handshakes: 1,
        connections: CONNECTIONS,
        routes: 256,
        pending_requests: 512,
        handler_tasks: 512,
        resident_bytes: 128 << 20,
        ..HostLimits::default()
    };
    let chunk = vec![7_u8; 65_536];
    let region = Region::new(COUNTED);
    let mut hosted = Hosted::new(limits);
    let (bound, split) = (hosted.shared.memory_bound(), *hosted.shared.resident().split());
    let mut most = 0;
    let mut judge = || {
        let change = region.change();
        let live = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
        assert!(live <= bound, "{live} of {bound}");
        most = most.max(live);
        most
    };
    let mut hosts = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut host = hosted.active();
        let routes: Vec<_> = (2..2 + limits.routes as u64).map(|corr| hosted.open(&mut host, corr)).collect();
        let mut corr = 1_000;
        let mut running = Vec::new();
        while host.counters().refused.server_busy == 0 {
            hosted.feed(&mut host, Identity::Routed(routes[0], correlation(corr)), b"x", 1);
            corr += 1;
            running.extend(host.poll_event());
        }
        assert_eq!(running.len(), limits.pending_requests);
        _ = judge();
        host.stop_all(Instant::ZERO);
        for route in &routes {
            host.close_route(Instant::ZERO, *route);
            assert!(matches!(hosted.registry.close(*route), Step::RouteGone));
        }
        for event in running {
            let host::Event::Request { id, body, permit, .. } = event else { panic!("{event:?}") };
            host.respond(Instant::ZERO, id, false, body).expect("in time");
            drop(permit);
        }
        _ = judge();
        say_all(&mut host);
        routes.iter().for_each(|route| assert!(matches!(hosted.registry.gone(*route), Step::Released)));
        while host.poll_event().is_some() {}
        hosts.push((host, corr));
    }
    let tables = judge();
    // One largest body, as many small ones as fit, answers up to the last byte, and what handlers reserve.
    let mut bodies = Vec::new();
    for (place, (host, corr)) in hosts.iter_mut().enumerate() {
        let route = hosted.open(host, *corr);
        let sizes = if place == 0 { vec![split.ingress] } else { vec![65_536; 40] };
        for len in sizes {
            *corr += 1;
            hosted.feed(host, Identity::Routed(route, correlation(*corr)), &chunk, len);
            bodies.extend(host.poll_event().map(|event| (place, event)));
            _ = judge();
        }
    }
    for (place, event) in &bodies[bodies.len() - 10..] {
        let host::Event::Request { id, .. } = event else { panic!("{event:?}") };
        let (host, _) = &mut hosts[*place];
        host.respond(Instant::ZERO, *id, false, vec![1; split.egress / 10].into()).expect("in time");
        _ = judge();
    }
    let scratch = hosted
        .shared
        .resident()
        .scratch()
        .try_charge(split.scratch)
        .map(|charge| (charge, vec![1_u8; split.scratch]));
    assert!(scratch.is_some());
    let most = judge();
    assert!(most * 10 >= bound * 6, "the bound is not fantasy: {most} of {bound}");
    println!("{most} of {bound} bytes; of these {tables} in the tables of {CONNECTIONS} connections");
}

/// A routed request costs the host no allocation beyond its body.
fn a_routed_request_costs_the_host_no_allocation_beyond_its_body() {
    const ROUNDS: u64 = 10_000;
    let mut hosted = Hosted::new(HostLimits::default());
    let mut host = hosted.active();
    let route = hosted.open(&mut host, 2);
    let mut round = |corr: u64| {
        hosted.feed(&mut host, Identity::Routed(route, correlation(corr)), &[7; 64], 64);
        let Some(host::Event::Request { id, body, permit, .. }) = host.poll_event() else {
            panic!("no request")
        };
        host.respond(Instant::ZERO, id, false, body).expect("in time");
        drop(permit);
        say_all(&mut host);
    };
    (3..100).for_each(&mut round);
    let region = Region::new(COUNTED);
    (100..100 + ROUNDS).for_each(&mut round);
    let change = region.change();
    let counts = [change.allocations, change.reallocations, change.deallocations];
    assert_eq!(counts.map(|n| n as u64), [ROUNDS, 0, ROUNDS], "{change:?}");
}

/// What the bound counts for reading a control body, beyond the body itself: 2 × 65,536 bytes.
fn reading_a_control_body_takes_no_more_than_the_bound_counts_for_it() {
    const MOST: usize = 65_536;
    let fill = |head: &str, part: &dyn Fn(usize) -> String, tail: &str| {
        let mut text = head.to_owned();
        for n in 0.. {
            let next = part(n);
            if text.len() + next.len() + tail.len() > MOST {
                break;
            }
            text += &next;
        }
        text + tail
    };
    let open = String::from_utf8(route_open().encode()).expect("text");
    let open = open.strip_suffix('}').expect("an object");
    let bodies = [
        fill(&format!("{open},\"x\":{{\"z\":0"), &|n| format!(",\"{n:x}\":0"), "}}"),
        fill(&format!("{open},\"x\":[0"), &|_| ",[]".to_owned(), "]}"),
        fill(&format!("{open},\"x\":[0"), &|_| format!(",{}{}", "[".repeat(30), "]".repeat(30)), "]}"),
        fill(
            &format!("{open},\"admission_facts\":[0"),
            &|n| if n < 4_000 { ",1".to_owned() } else { " ".to_owned() },
            "]}",
        ),
        fill(
            &format!("{open},\"consumer_capabilities\":[\"a\""),
            &|n| if n < 31 { ",\"\\u0061\"".to_owned() } else { " ".to_owned() },
            "]}",
        ),
        fill(&format!("{open},\"x\":\""), &|_| "\\u0061".to_owned(), "\"}"),
    ];
    let mut hosted = Hosted::new(HostLimits::default());
    let mut host = hosted.active();
    for (corr, body) in (2..).zip(bodies) {
        let region = Region::new(COUNTED);
        hosted.feed(&mut host, Identity::Control(correlation(corr)), body.as_bytes(), body.len());
        let taken = region.change().bytes_allocated;
        assert!(taken <= body.len() + 2 * MOST, "{taken} for {}", &body[..200]);
        assert!(matches!(host.poll_event(), Some(host::Event::RouteOpen { .. })), "{}", &body[..200]);
    }
}
