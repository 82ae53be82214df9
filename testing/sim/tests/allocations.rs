//! What a small request costs in allocations, both cores together: counted over ten thousand echo round trips, and pinned.

use hostwire_core::time::Instant;
use hostwire_sim::World;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    println!("running 1 test");
    small_requests_allocate_their_bodies_and_nothing_else();
    println!("test small_requests_allocate_their_bodies_and_nothing_else ... ok");
    println!(
        "\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s"
    );
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
