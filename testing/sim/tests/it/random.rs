//! Random workloads from a seed, with knobs that turn while they run. `HOSTWIRE_SIM_SEED` replays one; `HOSTWIRE_SIM_RUNS` says how many.

use hostwire_core::host::HostLimits;
use hostwire_core::limits::ClientLimits;
use hostwire_core::time::Instant;
use hostwire_sim::{Cut, Knobs, Rng, World, WriteCut, route_open};
use std::time::Duration;

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

fn run(seed: u64) -> (Vec<u8>, Vec<u8>) {
    let mut rng = Rng::new(seed);
    let client = ClientLimits {
        pending_requests: 1 + rng.below(60),
        live_streams: 1 + rng.below(8),
        stream_items: 1 + rng.below(16),
        data_slots: 1 + rng.below(60),
        retained_bytes: 2_000 + rng.below(300_000),
        ..ClientLimits::default()
    };
    let host = HostLimits {
        pending_requests: 2 + rng.below(60),
        handler_tasks: 2 + rng.below(60),
        writer_frames: 1 + rng.below(20),
        ..HostLimits::default()
    };
    let mut world = World::with(client, host).with_route();
    (world.up.knobs, world.down.knobs) = (knobs(&mut rng), knobs(&mut rng));
    let mut corrs = Vec::new();
    for _ in 0..400 {
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
            13 if world.route.is_none() => drop(world.open(&route_open(), Instant::FAR_FUTURE)),
            14 if rng.once_in(12) => {
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
            15 if rng.once_in(20) => drop(world.host_shutdown(Instant::FAR_FUTURE)),
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
    assert!(world.now <= Instant::FAR_FUTURE);
    (world.up.accepted, world.down.accepted)
}

#[test]
fn random_workloads_keep_every_rule() {
    if let Some(seed) = number("HOSTWIRE_SIM_SEED") {
        run(seed);
        return;
    }
    let runs = number("HOSTWIRE_SIM_RUNS").unwrap_or(24);
    for seed in 0..runs {
        println!("seed {seed}"); // shown when it fails
        run(seed);
    }
}

#[test]
fn cc10_a_seed_replays_to_the_same_bytes() {
    for seed in [3, 17, 99] {
        assert_eq!(run(seed), run(seed));
    }
}
