//! Whole exchanges between the two cores, uncut, with every knob of the pipes.

use hostwire_core::time::Instant;
use hostwire_sim::{Knobs, Settled, World};
use std::time::Duration;

const SIZES: [usize; 8] = [1, 2, 3, 20, 21, 22, 64, usize::MAX];

fn ae1(up: Knobs, down: Knobs) -> World {
    let mut world = World::fresh();
    (world.up.knobs, world.down.knobs) = (up, down);
    world.run_until(Instant::from_micros(1_000_000));
    let mut world = world.with_route();
    let echo = world.call(b"echo", false, Instant::FAR_FUTURE).unwrap();
    let fail = world.call(b"fail", false, Instant::FAR_FUTURE).unwrap();
    let items = world.call(&[b's', 5], true, Instant::FAR_FUTURE).unwrap();
    world.run();
    assert_eq!(world.settled[&echo], Settled::Terminal(None));
    assert_eq!(world.settled[&fail], Settled::Terminal(None));
    assert_eq!(world.settled[&items], Settled::Terminal(None));
    let got: Vec<_> = world.items[&items].iter().map(Vec::len).collect();
    assert_eq!(got, [0, 1, 2, 3, 4]); // V38
    world.close_and_check();
    world
}

#[test]
fn ae1_every_acceptance_size_gives_the_same_bytes_both_ways() {
    let knobs = |accept, deliver| Knobs { accept, deliver, ..Knobs::default() };
    let whole = ae1(Knobs::default(), Knobs::default());
    for accept in SIZES {
        for deliver in SIZES {
            let world = ae1(knobs(accept, deliver), knobs(deliver, accept));
            // CC2, CC3: neither acceptance nor delivery changes what is said.
            assert_eq!(world.up.accepted, whole.up.accepted, "{accept} {deliver}");
            assert_eq!(world.down.accepted.len(), whole.down.accepted.len(), "{accept} {deliver}");
        }
    }
}

#[test]
fn b018_bodies_around_every_boundary_complete_side_by_side() {
    for around in [16_384, 65_536] {
        let mut world = World::routed();
        world.up.knobs = Knobs { accept: 65_536, deliver: 65_536, ..Knobs::default() };
        (world.down.knobs, world.down.knobs.lease) = (world.up.knobs, true);
        let calls: Vec<_> = (0..32)
            .map(|n| {
                let mut body = vec![0; around - 1 + n % 3];
                body[0] = b'e';
                world.call(&body, false, Instant::FAR_FUTURE).unwrap()
            })
            .collect();
        world.run();
        assert!(calls.iter().all(|corr| world.settled[corr] == Settled::Terminal(None)), "{around}");
        world.close_and_check();
    }
}

#[test]
fn leases_carry_big_bodies_both_ways() {
    for lease in [false, true] {
        let mut world = World::routed();
        world.up.knobs = Knobs { lease, deliver: 50_000, ..Knobs::default() };
        world.down.knobs = Knobs { lease, deliver: 70_000, ..Knobs::default() };
        let mut body = vec![7; 3_000_000];
        body[0] = b'e';
        let corr = world.call(&body, false, Instant::FAR_FUTURE).unwrap();
        world.run();
        assert_eq!(world.settled[&corr], Settled::Terminal(None));
        world.close_and_check();
    }
}

#[test]
fn v33_a_cancelled_handler_is_stopped_and_its_late_terminal_reaches_nobody() {
    let mut world = World::routed();
    let corr = world.call(b"hang", false, Instant::FAR_FUTURE).unwrap();
    world.run();
    let op = world.op(corr).unwrap();
    world.act(|client, now| client.cancel(now, op));
    world.run();
    assert_eq!(world.settled[&corr], Settled::Unknown("cancelled"));
    assert!(world.model().evidence(corr).answered, "the host said `cancelled`");
    assert_eq!(world.client.counters().dropped_unmatched, 1);
    world.close_and_check();
}

#[test]
fn x4_a_confirmed_cancel_proves_the_stop() {
    let mut world = World::routed();
    let corr = world.call(b"hang", false, Instant::FAR_FUTURE).unwrap();
    world.run();
    let op = world.op(corr).unwrap();
    world.act(|client, now| client.confirm_cancel(now, op, Instant::FAR_FUTURE));
    world.run();
    assert_eq!(world.settled[&corr], Settled::Terminal(None));
    world.close_and_check();
}

#[test]
fn v45_a_shutdown_is_committed_when_its_response_is_out() {
    let mut world = World::routed();
    world.down.knobs.accept = 0;
    let corr = world.host_shutdown(Instant::FAR_FUTURE).unwrap();
    world.run();
    assert_eq!(world.app.shutdown, 0, "H1: not before the last byte");
    world.down.knobs.accept = usize::MAX;
    world.run();
    assert_eq!(world.app.shutdown, 1);
    assert_eq!(world.settled[&corr], Settled::Terminal(None));
    world.close_and_check();
}

#[test]
fn time_under_way_counts_against_deadlines_and_input_goes_first() {
    // X5: the answer arrives in the very moment when the deadline passes; it was read before the timer was judged.
    for (delay, settled) in [(500, Settled::Terminal(None)), (501, Settled::Unknown("deadline_expired"))] {
        let mut world = World::routed();
        world.up.knobs.delay = Duration::from_micros(delay);
        world.down.knobs.delay = Duration::from_micros(500);
        let corr = world.call(b"echo", false, world.now + Duration::from_micros(1000)).unwrap();
        world.run_until(world.now + Duration::from_micros(5000));
        assert_eq!(world.settled[&corr], settled, "{delay}");
        world.close_and_check();
    }
}

#[test]
fn b135_two_sides_that_cannot_write_still_read() {
    let mut world = World::routed();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let mut body = vec![0; 500_000];
            body[0] = b'e';
            world.call(&body, false, Instant::FAR_FUTURE).unwrap()
        })
        .collect();
    world.up.knobs.accept = 4096;
    world.down.knobs.accept = 4096;
    world.run();
    for corr in calls {
        assert_eq!(world.settled[&corr], Settled::Terminal(None));
    }
    world.close_and_check();
}

#[test]
fn cc10_the_same_actions_give_the_same_bytes() {
    let run = || {
        let world = ae1(Knobs { accept: 7, ..Knobs::default() }, Knobs { deliver: 5, ..Knobs::default() });
        (world.up.accepted, world.down.accepted)
    };
    assert_eq!(run(), run());
}
