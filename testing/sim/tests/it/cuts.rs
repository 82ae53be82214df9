//! An AE1 exchange, cut after every byte, in both directions, with every kind of failure; with a stop at every point.

use hostwire_core::time::Instant;
use hostwire_sim::{Cut, Settled, World, WriteCut, route_open};

const KINDS: [WriteCut; 4] =
    [WriteCut::NothingAccepted, WriteCut::Indeterminate, WriteCut::Unanswered, WriteCut::Silent];

/// Runs an exchange as far as it goes; the cut is in the pipes.
fn exchange(world: &mut World) {
    world.run();
    if world.ready && world.closed.is_none() && world.open(&route_open(), Instant::FAR_FUTURE).is_ok() {
        world.run();
    }
    if world.route.is_some() {
        for (body, stream) in [(&b"echo"[..], false), (b"hang", false), (&[b's', 3], true), (b"fail", false)]
        {
            if world.call(body, stream, Instant::FAR_FUTURE).is_err() {
                break;
            }
        }
        world.run();
    }
}

fn lengths() -> (usize, usize) {
    let mut world = World::fresh();
    exchange(&mut world);
    (world.up.accepted.len(), world.down.accepted.len())
}

/// Every admitted request settles exactly once, by what arithmetic on offsets says (the world checks it at each settlement).
fn cut(upward: bool, after: usize, how: WriteCut, accept: usize) -> World {
    let mut world = World::fresh();
    world.up.knobs.accept = accept;
    world.down.knobs.accept = accept;
    let pipe = if upward { &mut world.up } else { &mut world.down };
    pipe.knobs.cut = Some(Cut { after, how });
    exchange(&mut world);
    world.close_and_check();
    world
}

#[test]
fn every_cut_of_an_exchange_settles_every_call_exactly_once() {
    let (up, down) = lengths();
    let mut runs = 0;
    for (upward, length) in [(true, up), (false, down)] {
        for after in 0..=length {
            for how in KINDS {
                for accept in [1, 3, 21, usize::MAX] {
                    cut(upward, after, how, accept);
                    runs += 1;
                }
            }
        }
    }
    assert_eq!(runs, (up + down + 2) * 16);
}

#[test]
fn b023_a_request_written_to_a_host_that_died_is_unknown() {
    let (up, _) = lengths();
    let mut world = World::fresh();
    world.up.knobs.cut = Some(Cut { after: up, how: WriteCut::Silent });
    exchange(&mut world);
    let hanging = world.settled.get(&4).copied();
    assert_eq!(hanging, None, "still pending: nothing was lost yet");
    world.close_and_check();
    assert!(matches!(world.settled[&4], Settled::Unknown("connection_lost")));
}

/// One concurrent stop at every step of the exchange, at several acceptance sizes.
#[test]
fn a_stop_at_every_step_is_judged_by_the_bytes() {
    #[derive(Clone, Copy)]
    enum Stop {
        Cancel,
        Confirm,
        Drop,
        Deadline,
        CloseRoute,
        Shutdown,
        HostShutdown,
    }
    use Stop::{Cancel, CloseRoute, Confirm, Deadline, Drop, HostShutdown, Shutdown};
    let mut runs = 0;
    for stop in [Cancel, Confirm, Drop, Deadline, CloseRoute, Shutdown, HostShutdown] {
        for accept in [1, 2, 20, 21, 22, usize::MAX] {
            for body in [&b"e"[..], b"h", &[b's', 2]] {
                let mut at = 0;
                loop {
                    let mut world = World::routed();
                    world.up.knobs.accept = accept;
                    world.down.knobs.accept = accept;
                    let route = world.route.unwrap();
                    let deadline = Instant::from_micros(10);
                    let corr = world.call(body, body[0] == b's', deadline).unwrap();
                    let mut rested = false;
                    for _ in 0..at {
                        rested = !world.step();
                    }
                    let op = world.op(corr).unwrap();
                    match stop {
                        Cancel => {
                            world.act(|client, now| client.cancel(now, op));
                        }
                        Confirm => {
                            let until = Instant::from_micros(9);
                            world.act(|client, now| client.confirm_cancel(now, op, until));
                        }
                        Drop => {
                            world.act(|client, now| client.drop_op(now, op));
                        }
                        Deadline => {
                            world.now = deadline;
                            world.act(hostwire_core::client::Connection::handle_timeout);
                        }
                        CloseRoute => world.act(|client, now| client.close_route(now, route)),
                        Shutdown => world.act(hostwire_core::client::Connection::shutdown),
                        HostShutdown => drop(world.host_shutdown(Instant::FAR_FUTURE)),
                    }
                    world.run_until(Instant::from_micros(100));
                    assert!(world.settled.contains_key(&corr));
                    world.close_and_check();
                    runs += 1;
                    if rested {
                        break;
                    }
                    at += 1;
                }
            }
        }
    }
    println!("{runs} stops");
}
