//! What a small request costs in allocations, both cores together: counted over ten thousand echo round trips, and pinned.

use hostwire_core::time::Instant;
use hostwire_sim::World;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One after the other, on one thread: the counter is the process's.
fn main() {
    let tests: [(&str, fn()); 2] = [
        (
            "small_requests_allocate_their_bodies_and_nothing_else",
            small_requests_allocate_their_bodies_and_nothing_else,
        ),
        (
            "a_client_fills_most_of_its_bound_and_never_passes_it",
            a_client_fills_most_of_its_bound_and_never_passes_it,
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
    use hostwire_core::client::{Connection, Request};
    use hostwire_core::limits::ClientLimits;
    use hostwire_core::wire::{Correlation, Flags, FrameType, Header, Identity, Priority};

    let bound = Connection::memory_bound(&ClientLimits::default());
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
    use hostwire_core::host;
    use hostwire_core::transmit::MAX_SEGMENTS;

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

    fn carry(
        from: &mut impl hostwire_core::endpoint::Endpoint,
        to: &mut impl hostwire_core::endpoint::Endpoint,
        wire: &mut Vec<u8>,
    ) {
        wire.clear();
        let offer = from.poll_transmit(Instant::ZERO).expect("something to say");
        let mut segments = [&[][..]; MAX_SEGMENTS];
        let filled = offer.segments(&mut segments);
        segments[..filled].iter().for_each(|part| wire.extend_from_slice(part));
        let n = offer.len();
        offer.written(n).expect("all of it");
        assert_eq!(to.handle_input(Instant::ZERO, wire), Ok(n));
    }
}
