//! Both roles in the simulator, whose rules are checked after each step.

use super::STEPS;
use crate::choices::Choices;
use hostwire_core::client::Connection as Client;
use hostwire_core::host::HostLimits;
use hostwire_core::limits::ClientLimits;
use hostwire_core::time::Instant;
use hostwire_sim::{Cut, Knobs, World, WriteCut, route_open};
use std::time::Duration;

/// Plays an input's choices to two connections: commands, knobs, cuts, time.
///
/// # Panics
/// If a rule of the simulator does not hold.
pub fn pair(data: &[u8]) {
    let mut u = Choices::new(data);
    let client = ClientLimits {
        pending_requests: 1 + u.below(20),
        live_streams: 1 + u.below(4),
        stream_items: 1 + u.below(6),
        data_slots: 1 + u.below(20),
        retained_bytes: 2_000 + u.below(100_000),
        ..ClientLimits::default()
    };
    let host = HostLimits {
        pending_requests: 2 + u.below(20),
        handler_tasks: 2 + u.below(20),
        writer_frames: 1 + u.below(8),
        ..HostLimits::default()
    };
    let mut world = World::with(client, host).with_route();
    let (mut corrs, mut large) = (Vec::new(), 0);
    for _ in 0..STEPS {
        if u.is_empty() {
            break;
        }
        step(&mut u, &mut world, &mut corrs, &mut large);
    }
    (world.up.knobs.accept, world.down.knobs.accept) = (usize::MAX, usize::MAX);
    world.reading = true;
    world.run_until(world.now + Duration::from_secs(1));
    world.close_and_check();
}

fn step(u: &mut Choices<'_>, world: &mut World, corrs: &mut Vec<u64>, large: &mut usize) {
    match u.below(20) {
        0..=6 => call(u, world, corrs, large),
        7 | 8 => cancel(u, world, corrs),
        9 => world.reading = !world.reading,
        10 => {
            let turned = [knobs(u), knobs(u)];
            [world.up.knobs, world.down.knobs] = if *large > 0 { turned.map(coarse) } else { turned };
        }
        11 => {
            if let Some(route) = world.route.take() {
                world.act(|client, now| client.close_route(now, route));
            }
        }
        12 if world.route.is_none() => corrs.extend(world.open(&route_open(), Instant::FAR_FUTURE).ok()),
        13 if u.once_in(8) => {
            let kinds =
                [WriteCut::NothingAccepted, WriteCut::Indeterminate, WriteCut::Unanswered, WriteCut::Silent];
            let how = u.pick(&kinds).expect("there are some");
            let pipe = if u.once_in(2) { &mut world.up } else { &mut world.down };
            pipe.knobs.cut = Some(Cut { after: pipe.accepted.len() + u.below(200), how });
        }
        14 if u.once_in(12) => corrs.extend(world.host_shutdown(Instant::FAR_FUTURE).ok()),
        15 => world.run_until(world.now + u.duration().min(Duration::from_millis(30))),
        16 if u.once_in(20) => world.act(Client::shutdown),
        _ => {
            for _ in 0..1 + u.below(20) {
                world.step();
            }
        }
    }
}

fn call(u: &mut Choices<'_>, world: &mut World, corrs: &mut Vec<u64>, large: &mut usize) {
    let kind = u.pick(b"eefhxs").unwrap_or(b'e');
    let mut body = vec![kind; 1 + u.below(40)];
    if *large < 4 && u.once_in(40) {
        body.resize(70_000, 1);
        *large += 1;
        (world.up.knobs, world.down.knobs) = (coarse(world.up.knobs), coarse(world.down.knobs));
    }
    if let Some(items) = body.get_mut(1) {
        *items = u.below(20) as u8;
    }
    let deadline = world.now + u.duration();
    if world.route.is_some() {
        let stream = kind == b's' || u.once_in(10);
        corrs.extend(world.call(&body, stream, deadline).ok());
    }
}

fn cancel(u: &mut Choices<'_>, world: &mut World, corrs: &[u64]) {
    if let Some(op) = u.pick(corrs).and_then(|corr| world.op(corr)) {
        let until = world.now + u.duration();
        match u.below(3) {
            0 => world.act(|client, now| client.cancel(now, op)),
            1 => world.act(|client, now| client.drop_op(now, op)),
            _ => world.act(|client, now| client.confirm_cancel(now, op, until)),
        };
    }
}

fn knobs(u: &mut Choices<'_>) -> Knobs {
    Knobs {
        accept: if u.once_in(12) { 0 } else { u.size() },
        deliver: u.size(),
        lease: u.once_in(2),
        delay: Duration::from_micros(u.below(50) as u64),
        cut: None,
    }
}

/// With large bodies about, pieces of a few hundred bytes at least: byte by byte they take minutes.
fn coarse(knobs: Knobs) -> Knobs {
    let size = |size: usize| if size == 0 { 0 } else { size.max(500) };
    Knobs { accept: size(knobs.accept), deliver: size(knobs.deliver), ..knobs }
}
