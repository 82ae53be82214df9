//! Everything that can happen to one small exchange: every cut, in both directions, of every kind, at the acceptance sizes that matter,
//! with one concurrent stop at every step. The world judges each settlement by arithmetic on offsets, and that nothing is left.
//!
//! The whole scope is millions of runs (`HOSTWIRE_SIM_SCOPE=whole`); otherwise a part of it: every cut without a stop, and every stop at
//! a few cuts.

use hostwire_core::client::{Connection as Client, OpId};
use hostwire_core::time::Instant;
use hostwire_sim::{Cut, World, WriteCut, route_open};

/// The exchanges, each behind what it builds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchange {
    Unary,
    Stream,
    RouteOpen,
    RouteClose,
    HostShutdown,
    /// Authentication and negotiation.
    Setup,
}

/// What the application does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Cancel,
    Deadline,
    Close,
}

const HOW: [WriteCut; 4] =
    [WriteCut::NothingAccepted, WriteCut::Indeterminate, WriteCut::Unanswered, WriteCut::Silent];
const DEADLINE: Instant = Instant::from_micros(10);

impl Exchange {
    /// A set-up has no operation that could be cancelled.
    const fn stops(self) -> &'static [Stop] {
        match self {
            Self::Unary | Self::Stream | Self::RouteOpen | Self::RouteClose | Self::HostShutdown => {
                &[Stop::Cancel, Stop::Deadline, Stop::Close]
            }
            Self::Setup => &[Stop::Deadline, Stop::Close],
        }
    }
}

/// One run: where it is cut, how much a write takes, and a stop after so many steps.
#[derive(Clone, Copy, Debug)]
struct Plan {
    exchange: Exchange,
    accept: usize,
    cut: Option<(bool, Cut)>,
    stop: Option<(Stop, usize)>,
}

/// A world in which the exchange has not begun, and nothing is under way.
fn before(exchange: Exchange) -> World {
    match exchange {
        Exchange::Unary | Exchange::Stream | Exchange::RouteClose => World::routed(),
        Exchange::RouteOpen | Exchange::HostShutdown => {
            let mut world = World::fresh();
            world.run();
            world
        }
        Exchange::Setup => World::fresh(),
    }
}

fn begin(world: &mut World, exchange: Exchange) -> Option<OpId> {
    let corr = match exchange {
        Exchange::Unary => world.call(b"e", false, DEADLINE).ok(),
        Exchange::Stream => world.call(&[b's', 2], true, DEADLINE).ok(),
        Exchange::RouteOpen => world.open(&route_open(), DEADLINE).ok(),
        Exchange::RouteClose => {
            let corr = world.call(b"h", false, DEADLINE).ok();
            let route = world.route.expect("an open route");
            world.act(|client, now| client.close_route(now, route));
            corr
        }
        Exchange::HostShutdown => world.host_shutdown(DEADLINE).ok(),
        Exchange::Setup => None,
    };
    corr.and_then(|corr| world.op(corr))
}

/// Runs a plan to its end. Returns how many steps its exchange takes, and how many bytes pass up and down.
fn run(plan: Plan) -> (usize, usize, usize) {
    let mut world = before(plan.exchange);
    let (up, down) = (world.up.accepted.len(), world.down.accepted.len());
    (world.up.knobs.accept, world.down.knobs.accept) = (plan.accept, plan.accept);
    if let Some((upward, cut)) = plan.cut {
        let pipe = if upward { &mut world.up } else { &mut world.down };
        pipe.knobs.cut = Some(Cut { after: pipe.accepted.len() + cut.after, ..cut });
    }
    let op = begin(&mut world, plan.exchange);
    let mut steps = 0;
    loop {
        if let Some((stop, _)) = plan.stop.filter(|(_, at)| *at == steps) {
            match (stop, op) {
                (Stop::Cancel, Some(op)) => drop(world.act(|client, now| client.cancel(now, op))),
                // The operation's, or the set-up's own; the host's clock goes with it.
                (Stop::Deadline, _) => {
                    world.now = world.client.deadline().map_or(DEADLINE, |deadline| deadline.at);
                    world.act(Client::handle_timeout);
                    world.host.handle_timeout(world.now);
                }
                (Stop::Cancel, None) | (Stop::Close, _) => world.act(Client::shutdown),
            }
        }
        if !world.step() {
            break;
        }
        steps += 1;
    }
    let passed = (world.up.accepted.len() - up, world.down.accepted.len() - down);
    world.run_until(Instant::from_micros(100));
    world.close_and_check();
    (steps, passed.0, passed.1)
}

/// Runs an exchange in its scope; how many runs that were.
fn explore(exchange: Exchange, whole: bool) -> u64 {
    let uncut = Plan { exchange, accept: usize::MAX, cut: None, stop: None };
    let (_, up, down) = run(uncut);
    let frame = up.min(400); // one write's worth of the exchange's own bytes
    let sizes = [1, 2, 3, 20, 21, 22, frame - 1, frame];
    let mut runs = 1;
    for accept in sizes.into_iter().filter(|size| *size > 0) {
        for (upward, length) in [(true, up), (false, down)] {
            for after in 0..=length {
                for how in HOW {
                    let plan = Plan { accept, cut: Some((upward, Cut { after, how })), ..uncut };
                    let (steps, ..) = run(plan);
                    runs += 1;
                    // In the part: cuts around the first header's end.
                    if whole || accept == 21 && [0, 1, 20, 21, 22].contains(&after) {
                        runs += stops(plan, steps);
                    }
                }
            }
        }
        let (steps, ..) = run(Plan { accept, ..uncut });
        runs += stops(Plan { accept, ..uncut }, steps);
    }
    runs
}

/// Every stop at every step of a plan; how many runs that were.
fn stops(plan: Plan, steps: usize) -> u64 {
    let mut runs = 0;
    for at in 0..=steps {
        for stop in plan.exchange.stops() {
            run(Plan { stop: Some((*stop, at)), ..plan });
            runs += 1;
        }
    }
    runs
}

fn all(exchange: Exchange) {
    let whole = std::env::var("HOSTWIRE_SIM_SCOPE").is_ok_and(|scope| scope == "whole");
    let runs = explore(exchange, whole);
    println!("{exchange:?}: {runs} runs");
    assert!(runs > 500, "{exchange:?} has become too small to prove anything: {runs}");
}

#[test]
fn unary_calls_end_with_the_truth_at_every_cut_and_stop() {
    all(Exchange::Unary);
}

#[test]
fn streams_end_with_the_truth_at_every_cut_and_stop() {
    all(Exchange::Stream);
}

#[test]
fn route_opens_end_with_the_truth_at_every_cut_and_stop() {
    all(Exchange::RouteOpen);
}

#[test]
fn route_closes_settle_their_calls_at_every_cut_and_stop() {
    all(Exchange::RouteClose);
}

#[test]
fn host_shutdowns_end_with_the_truth_at_every_cut_and_stop() {
    all(Exchange::HostShutdown);
}

#[test]
fn setups_end_with_nothing_left_at_every_cut_and_stop() {
    all(Exchange::Setup);
}
