//! Random workloads from a seed, with knobs that turn while they run, and with peers that misbehave. `HOSTWIRE_SIM_SEED` replays one;
//! `HOSTWIRE_SIM_RUNS` says how many, or `HOSTWIRE_SIM_MINUTES` how long, and `HOSTWIRE_SIM_FROM` which is the first.

use hostwire_core::host::HostLimits;
use hostwire_core::limits::ClientLimits;
use hostwire_core::time::Instant as Virtual;
use hostwire_sim::{Cut, Knobs, Rng, Settled, World, WriteCut, route_open};
use std::time::{Duration, Instant};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn knobs(rng: &mut Rng) -> Knobs {
    let sizes = [1, 2, 3, 20, 21, 22, 100, 5000, usize::MAX];
    Knobs {
        accept: if rng.once_in(12) { 0 } else { sizes[rng.below(sizes.len())] },
        deliver: sizes[rng.below(sizes.len())],
        lease: rng.once_in(2),
        delay: Duration::from_micros(rng.next() % 50),
        cut: None,
    }
}

/// Whether what is carried is what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peers {
    Honest,
    /// The one for a while, then the other.
    LieInTurn,
}

/// A frame that nobody sent, about routes and requests that there are, or nearly; or a bit that is turned.
fn lie(world: &mut World, rng: &mut Rng, client: bool) {
    let now = world.now;
    let route = world.route.map_or((0, 0), |route| (route.channel.value(), route.epoch.value()));
    let pipe = if client { &mut world.up } else { &mut world.down };
    if rng.once_in(3) && pipe.garble(rng.below(400)) {
        return;
    }
    let kinds: &[u8] = if client { &[0, 0, 0, 6, 6, 6, 8, 11] } else { &[1, 1, 2, 3, 3, 4, 5, 5, 7, 11] };
    let any: Vec<u8> = (0..13).collect(); // 12 is none
    let kinds = if rng.once_in(12) { &any } else { kinds };
    let kind = kinds[rng.below(kinds.len())];
    let (channel, epoch) = match rng.below(6) {
        0 => (0, 0),
        1 => (route.0, route.1.wrapping_add(1)),
        2 => (route.0.wrapping_add(1), route.1),
        _ => route,
    };
    let corr = if kind == 11 || rng.once_in(12) { 0 } else { 1 + rng.below(400) as u64 };
    let bodies: [&[u8]; 6] = [
        b"",
        b"e",
        b"s\x05",
        br#"{"op":"host.shutdown"}"#,
        br#"{"code":"server_busy","message":"no","retry_after_ms":1}"#,
        br#"{"code":"unknown_channel","message":"no"}"#,
    ];
    let body = if (6..=8).contains(&kind) || kind == 11 { b"" } else { bodies[rng.below(bodies.len())] };
    let flags = if (6..=8).contains(&kind) || kind == 11 { 4 } else { 2 };
    let mut frame = Vec::from(u32::try_from(body.len()).expect("a small body").to_le_bytes());
    frame.extend([2, kind, flags]);
    frame.extend(channel.to_le_bytes());
    frame.extend(epoch.to_le_bytes());
    frame.extend(corr.to_le_bytes());
    frame.extend(body);
    for _ in 0..1 + usize::from(rng.once_in(4)) {
        pipe.forge(&frame, now);
    }
}

/// What a run came to.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    up: Vec<u8>,
    down: Vec<u8>,
    steps: u64,
    settled: Vec<Settled>,
}

fn run(seed: u64, peers: Peers) -> Ran {
    let mut rng = Rng::new(seed);
    // Most are short and soon cut; every eighth lives for hundreds of requests, many side by side.
    let (turns, most, rarely) = if seed % 8 == 7 { (2_000, 400, 10) } else { (400, 60, 1) };
    let client = ClientLimits {
        pending_requests: 1 + rng.below(most),
        live_streams: 1 + rng.below(8),
        stream_items: 1 + rng.below(16),
        data_slots: 1 + rng.below(most),
        retained_bytes: 2_000 + rng.below(300_000),
        ..ClientLimits::default()
    };
    let host = HostLimits {
        pending_requests: 2 + rng.below(most),
        handler_tasks: 2 + rng.below(most),
        writer_frames: 1 + rng.below(20),
        ..HostLimits::default()
    };
    let mut world = World::with(client, host).with_route();
    (world.up.knobs, world.down.knobs) = (knobs(&mut rng), knobs(&mut rng));
    world.app.order = rng.once_in(2).then(|| Rng::new(seed));
    let mut corrs = Vec::new();
    for turn in 0..turns {
        if peers == Peers::LieInTurn && rng.once_in(40 * rarely) {
            lie(&mut world, &mut rng, turn / 100 % 2 == 0);
        }
        match rng.below(24) {
            0..=7 => {
                let kinds = [b'e', b'e', b'f', b'h', b'x', b's'];
                let kind = kinds[rng.below(kinds.len())];
                let mut body = vec![kind; 1 + rng.below(40)];
                if rng.once_in(80) {
                    body.resize(70_000, 1);
                }
                if let Some(items) = body.get_mut(1) {
                    *items = u8::try_from(rng.below(40)).unwrap_or(1);
                }
                let deadline = world.now + Duration::from_micros(rng.next() % 5_000);
                if world.route.is_some()
                    && let Ok(corr) = world.call(&body, kind == b's' || rng.once_in(10), deadline)
                {
                    corrs.push(corr);
                }
            }
            8 | 9 if !corrs.is_empty() => {
                let corr = corrs[rng.below(corrs.len())];
                if let Some(op) = world.op(corr) {
                    let until = world.now + Duration::from_micros(rng.next() % 2_000);
                    match rng.below(3) {
                        0 => world.act(|client, now| client.cancel(now, op)),
                        1 => world.act(|client, now| client.drop_op(now, op)),
                        _ => world.act(|client, now| client.confirm_cancel(now, op, until)),
                    };
                }
            }
            10 => world.reading = !world.reading,
            11 => (world.up.knobs, world.down.knobs) = (knobs(&mut rng), knobs(&mut rng)),
            12 if rng.once_in(4) => {
                if let Some(route) = world.route.take() {
                    world.act(|client, now| client.close_route(now, route));
                }
            }
            13 if world.route.is_none() => drop(world.open(&route_open(), Virtual::FAR_FUTURE)),
            14 if rng.once_in(12 * rarely) => {
                let kinds = [
                    WriteCut::NothingAccepted,
                    WriteCut::Indeterminate,
                    WriteCut::Unanswered,
                    WriteCut::Silent,
                ];
                let how = kinds[rng.below(kinds.len())];
                let pipe = if rng.once_in(2) { &mut world.up } else { &mut world.down };
                pipe.knobs.cut = Some(Cut { after: pipe.accepted.len() + rng.below(200), how });
            }
            15 if rng.once_in(20 * rarely) => drop(world.host_shutdown(Virtual::FAR_FUTURE)),
            16 => world.run_until(world.now + Duration::from_micros(rng.next() % 3_000)),
            _ => {
                for _ in 0..rng.below(20) {
                    world.step();
                }
            }
        }
    }
    (world.up.knobs.accept, world.down.knobs.accept) = (usize::MAX, usize::MAX);
    world.reading = true;
    world.run_until(world.now + Duration::from_secs(1));
    world.close_and_check();
    assert!(world.now <= Virtual::FAR_FUTURE);
    Ran {
        up: world.up.accepted,
        down: world.down.accepted,
        steps: world.steps,
        settled: world.settled.into_values().collect(),
    }
}

/// Runs with a seed each: as many as are asked for, or for as long.
fn runs(peers: Peers) {
    if let Some(seed) = number("HOSTWIRE_SIM_SEED") {
        run(seed, peers);
        return;
    }
    let end =
        number("HOSTWIRE_SIM_MINUTES").map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let most = number("HOSTWIRE_SIM_RUNS").unwrap_or(24);
    let from = number("HOSTWIRE_SIM_FROM").unwrap_or(0);
    let (mut runs, mut steps, mut sums) = (0, 0, [0_u64; 3]);
    while end.map_or(runs < most, |end| Instant::now() < end) {
        let seed = from.wrapping_add(runs);
        println!("seed {seed}"); // shown when it fails
        let ran = run(seed, peers);
        runs += 1;
        steps += ran.steps;
        for settled in ran.settled {
            sums[match settled {
                Settled::NotSent(_) => 0,
                Settled::Unknown(_) => 1,
                Settled::Terminal(_) => 2,
            }] += 1;
        }
    }
    let [not_sent, unknown, terminal] = sums;
    println!(
        "{peers:?}: {runs} runs, {steps} steps; {not_sent} not sent, {unknown} unknown, {terminal} terminal"
    );
}

#[test]
fn random_workloads_keep_every_rule() {
    runs(Peers::Honest);
}

/// Whoever is lied to tells its own side the truth all the same, and leaves nothing behind.
#[test]
fn random_workloads_keep_every_rule_against_peers_that_misbehave() {
    runs(Peers::LieInTurn);
}

#[test]
fn cc10_a_seed_replays_to_the_same_bytes() {
    for seed in [3, 17, 99] {
        for peers in [Peers::Honest, Peers::LieInTurn] {
            assert_eq!(run(seed, peers), run(seed, peers));
        }
    }
}
