//! Anything in any order, by seed: one terminal a request, `Closed` last, and everything given back.

use super::harness::*;
use crate::raw::{Frame, T0, frame, frames, take};
use hostwire_core::control::{ErrorBody, HostCode};
use hostwire_core::endpoint::Disconnect;
use hostwire_core::host::*;
use hostwire_core::time::Instant;
use hostwire_core::wire::{FrameType, RouteHandle};
use std::collections::HashMap;
use std::time::Duration;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.roll(from.len())])
    }
}

struct Player {
    conn: Conn,
    out: Vec<u8>,
    asked: Vec<(RouteHandle, u64)>,
    jobs: Vec<(RequestId, TaskPermit)>,
    binds: Vec<(RequestId, RouteHandle)>,
    routes: Vec<RouteHandle>,
    closed: bool,
}

impl Player {
    fn new(host: &mut Host) -> Self {
        let conn = host.active();
        let (asked, jobs, binds, routes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { conn, out: Vec::new(), asked, jobs, binds, routes, closed: false }
    }

    fn input(&mut self, dice: &mut Dice, now: Instant) {
        let route = dice.pick(&self.routes).unwrap_or_else(|| crate::raw::route(60_000, 1));
        let bytes = match dice.roll(40) {
            0..16 => {
                let bytes = self.conn.request_bytes(route, &vec![1; dice.roll(300)]);
                self.asked.push((route, self.conn.corr));
                bytes
            }
            16..24 => match dice.pick(&self.asked) {
                Some((route, corr)) => routed(FrameType::Cancel, 0, route, corr, b""),
                None => frame(FrameType::Pong, 0, (0, 0, 3), b""),
            },
            24..30 => {
                let bodies: [&[u8]; 4] = [OPEN_LAB.as_bytes(), CATALOG, SHUTDOWN, b"{"];
                frame(FrameType::Request, 2, (0, 0, self.conn.next()), dice.pick(&bodies).unwrap())
            }
            30..33 => routed(FrameType::Goodbye, 0, route, 0, b""),
            33 => {
                let mut bytes = frame(FrameType::Request, 2, (0, 0, self.conn.next()), &[]);
                bytes[..4].copy_from_slice(&66_000_u32.to_le_bytes());
                bytes.extend(vec![0; 66_000]);
                bytes
            }
            34 if dice.roll(20) == 0 => vec![0xFF; 21],
            _ => frame(FrameType::Pong, 0, (0, 0, 9), b""),
        };
        let mut at = 0;
        while at < bytes.len() {
            let n = (dice.roll(40) + 1).min(bytes.len() - at);
            match self.conn.inner.handle_input(now, &bytes[at..at + n]) {
                Ok(0) => self.write(dice, now, usize::MAX), // B6: refusals are waiting
                Ok(taken) => at += taken,
                Err(_) => return,
            }
        }
    }

    fn write(&mut self, dice: &mut Dice, now: Instant, most: usize) {
        let size = dice.roll(70) + 1;
        self.out.extend(take(&mut self.conn.inner, now, most, size));
    }

    fn command(&mut self, dice: &mut Dice, now: Instant) {
        if self.jobs.is_empty() {
            return;
        }
        let at = dice.roll(self.jobs.len());
        let (id, _) = self.jobs[at];
        let conn = &mut self.conn.inner;
        let _ = match dice.roll(9) {
            0..4 => conn.item(now, id, false, vec![2; dice.roll(100)].into()).map_err(|_| TooLate),
            4 | 5 => conn.respond(now, id, true, vec![3; dice.roll(100)].into()),
            6 => conn.fail(now, id, &ErrorBody::from_handler("own", "m", None)),
            7 => conn.end_stream(now, id),
            _ => conn.stopped(now, id),
        };
        if dice.roll(3) == 0 {
            self.jobs.swap_remove(at);
        }
    }

    fn events(&mut self, dice: &mut Dice, host: &mut Host, gone: &mut Vec<RouteHandle>) {
        for event in self.conn.events() {
            assert!(!self.closed, "CC6: {event:?} after the close");
            match event {
                Event::Request { id, permit, .. } => self.jobs.push((id, permit)),
                Event::RouteOpen { id, .. } => match host.registry.claim(self.conn.owner) {
                    Ok(route) => self.binds.push((id, route)),
                    Err(NoChannel) => {
                        self.conn.inner.reject_route(T0, id, &HostCode::TargetUnavailable.into()).unwrap();
                    }
                },
                Event::RouteClosed { route, .. } => {
                    assert!(matches!(host.registry.close(route), Step::RouteGone), "once");
                    gone.push(route);
                    self.routes.retain(|other| *other != route);
                }
                Event::RouteOpenWithdrawn { id } => {
                    if let Some((_, route)) = self.binds.iter().find(|bind| bind.0 == id) {
                        assert!(matches!(host.registry.close(*route), Step::Nothing));
                    }
                }
                Event::Closed { .. } => self.closed = true,
                _ => {}
            }
        }
        if dice.roll(2) == 0
            && let Some((id, route)) = self.binds.pop()
        {
            match (dice.roll(4), host.registry.is_owner(self.conn.owner, route)) {
                (0, _) => {
                    assert!(matches!(host.registry.bind_rejected(route), Step::RouteGone));
                    gone.push(route);
                    let _ = self.conn.inner.reject_route(T0, id, &HostCode::BindRejected.into());
                }
                _ => match host.registry.bind_accepted(route) {
                    Step::Publish(grant) => match self.conn.inner.accept_route(T0, id, grant) {
                        Ok(()) => self.routes.push(route),
                        Err(TooLate) => {
                            assert!(matches!(host.registry.close(route), Step::RouteGone));
                            gone.push(route);
                        }
                    },
                    Step::RouteGone => gone.push(route),
                    other => panic!("{other:?}"),
                },
            }
        }
    }

    /// F5, Q5, CC2: what left is a prefix of whole frames, with one terminal a request and nothing of it after that.
    fn check(&self) {
        let mut end = 0;
        while let Some(head) = self.out.get(end..end + HEADER) {
            let len = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
            if end + HEADER + len > self.out.len() {
                break;
            }
            end += HEADER + len;
        }
        let whole: Vec<Frame> = frames(&self.out[..end]);
        let mut ended: HashMap<u64, bool> = HashMap::new();
        for frame in &whole {
            let corr = frame.identity.raw().2;
            match frame.kind {
                FrameType::StreamData => assert!(!ended.contains_key(&corr), "an item after the end"),
                FrameType::Response | FrameType::StreamEnd | FrameType::Error => {
                    assert!(ended.insert(corr, true).is_none(), "a second terminal for {corr}");
                    assert!(corr <= self.conn.corr);
                }
                FrameType::Goodbye => assert_eq!(frame, whole.last().unwrap(), "B2"),
                FrameType::Ping => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn play(seed: u64) {
    let mut config = config();
    config.limits.pending_requests = 24;
    config.limits.handler_tasks = 12;
    config.limits.routes = 5;
    config.limits.writer_frames = 4;
    config.timeouts.liveness = Some(hostwire_core::limits::LivenessTimes {
        interval: Duration::from_secs(3),
        timeout: Duration::from_secs(2),
    });
    let mut host = Host::with(config);
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut players: Vec<Player> = (0..3).map(|_| Player::new(&mut host)).collect();
    let mut gone = Vec::new();
    for step in 0..600_u64 {
        let now = at(step * 20_000);
        let who = dice.roll(players.len());
        let player = &mut players[who];
        match dice.roll(100) {
            0..45 => player.input(&mut dice, now),
            45..60 => player.command(&mut dice, now),
            60..75 => {
                let most = dice.roll(200);
                player.write(&mut dice, now, most);
            }
            75..95 => player.events(&mut dice, &mut host, &mut gone),
            95 => player.conn.inner.handle_timeout(now),
            96 => player.conn.inner.latch_moved(now),
            97 if dice.roll(20) == 0 => player.conn.inner.handle_eof(now),
            98 if dice.roll(20) == 0 => player.conn.inner.finish_drain(now),
            _ => player.conn.inner.stop_all(now),
        }
        gone.retain(|route| !matches!(host.registry.gone(*route), Step::Released));
        let deadline = players[who].conn.inner.deadline();
        assert_eq!(deadline, players[who].conn.inner.deadline());
    }
    for player in &mut players {
        let late = at(10_000_000_000);
        player.conn.inner.finish_drain(late);
        player.write(&mut dice, late, usize::MAX);
        player.conn.inner.handle_disconnect(late, Disconnect::Abandoned);
        while !player.closed || !player.binds.is_empty() {
            player.events(&mut dice, &mut host, &mut gone);
        }
        player.check();
        assert_nothing_left(&player.conn.inner);
        player.jobs.clear();
    }
    gone.retain(|route| !matches!(host.registry.gone(*route), Step::Released));
    assert!(gone.is_empty() && host.registry.is_empty(), "R3: every channel is free again");
    let (admission, resident) = (host.shared.admission(), host.shared.resident());
    for class in [RouteClass::General, RouteClass::Reserved] {
        assert_eq!((admission.pending_in_use(class), admission.tasks_in_use(class)), (0, 0));
    }
    assert_eq!(
        (admission.connections_in_use(), resident.small().used(), resident.ingress().used()),
        (0, 0, 0)
    );
    assert_eq!(resident.egress().used(), 0);
}

#[test]
fn g6_cc6_f5_whatever_happens_in_whatever_order_each_request_ends_once_and_all_is_given_back() {
    for seed in 1..400 {
        let result = std::panic::catch_unwind(|| play(seed));
        assert!(result.is_ok(), "seed {seed}");
    }
}
