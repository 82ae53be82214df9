//! Probes (L2): at most one `Ping` outstanding, and what its silence means.
//!
//! Invariant: only a probe whose last byte has left can be missed, and only if no complete frame came since. A peer that does not read
//! is caught by the frame deadline (B10), not here.

use crate::limits::LivenessTimes;
use crate::time::Instant;
use crate::wire::{Correlation, Flags};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Not begun, or not configured.
    Off,
    /// The next one is due at this time.
    Idle(Instant),
    /// It waits to leave; its clock has not begun.
    Queued(Correlation),
    /// Its last byte has left.
    Sent { corr: Correlation, until: Instant, alive: bool },
}

/// What time asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Ping(Correlation),
    Missed,
}

#[derive(Debug)]
pub(super) struct Liveness {
    times: Option<LivenessTimes>,
    probe: Probe,
    last: u64,
    paused: Option<Instant>,
}

/// W11: our `Ping` has no flags, and its `Pong` repeats them (L1).
pub(super) const PING_FLAGS: Flags = Flags::pure();

impl Liveness {
    pub(super) const fn new(times: Option<LivenessTimes>) -> Self {
        Self { times, probe: Probe::Off, last: 0, paused: None }
    }

    /// N13: not before the selection.
    pub(super) fn start(&mut self, now: Instant) {
        self.rest(now);
    }

    pub(super) const fn stop(&mut self) {
        self.times = None;
        self.probe = Probe::Off;
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        match (self.paused, self.probe) {
            (Some(_), _) | (None, Probe::Off | Probe::Queued(_)) => None,
            (None, Probe::Idle(at) | Probe::Sent { until: at, .. }) => Some(at),
        }
    }

    pub(super) fn due(&mut self, now: Instant) -> Due {
        if self.deadline().is_none_or(|at| now < at) {
            return Due::Nothing;
        }
        match self.probe {
            Probe::Idle(_) => {
                self.last = self.last.saturating_add(1);
                let Some(corr) = Correlation::new(self.last) else { return Due::Nothing };
                self.probe = Probe::Queued(corr);
                Due::Ping(corr)
            }
            Probe::Sent { alive: true, .. } => {
                self.rest(now); // L2: the probe is over, and it was no miss
                Due::Nothing
            }
            Probe::Sent { alive: false, .. } => Due::Missed,
            Probe::Off | Probe::Queued(_) => Due::Nothing,
        }
    }

    /// L2: the clock starts when the last byte has been handed to the socket.
    pub(super) fn written(&mut self, now: Instant) {
        if let (Probe::Queued(corr), Some(times)) = (self.probe, self.times) {
            self.probe = Probe::Sent { corr, until: now + times.timeout, alive: false };
            if self.paused.is_some() {
                self.paused = Some(now);
            }
        }
    }

    /// Whether this `Pong` answers the probe; another is dropped.
    pub(super) fn pong(&mut self, now: Instant, corr: Correlation, flags: Flags) -> bool {
        let answered = match self.probe {
            Probe::Sent { corr: asked, .. } => asked == corr && flags == PING_FLAGS,
            Probe::Off | Probe::Idle(_) | Probe::Queued(_) => false,
        };
        if answered {
            self.rest(now);
        }
        answered
    }

    /// A complete frame arrived: whoever sends is alive (B070).
    pub(super) const fn frame_arrived(&mut self) {
        if let Probe::Sent { alive, .. } = &mut self.probe {
            *alive = true;
        }
    }

    /// L2: while the host itself does not read, the clock stands.
    pub(super) fn set_paused(&mut self, now: Instant, paused: bool) {
        match (self.paused, paused) {
            (None, true) => self.paused = Some(now),
            (Some(since), false) => {
                self.paused = None;
                let stood = now.saturating_since(since);
                match &mut self.probe {
                    Probe::Idle(at) | Probe::Sent { until: at, .. } => *at = *at + stood,
                    Probe::Off | Probe::Queued(_) => {}
                }
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    fn rest(&mut self, now: Instant) {
        if let Some(times) = self.times {
            self.probe = Probe::Idle(now + times.interval);
            if self.paused.is_some() {
                self.paused = Some(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    /// Interval 10, timeout 4.
    fn started() -> Liveness {
        let times = LivenessTimes { interval: Duration::from_micros(10), timeout: Duration::from_micros(4) };
        let mut liveness = Liveness::new(Some(times));
        assert_eq!(liveness.deadline(), None, "N13");
        liveness.start(at(0));
        liveness
    }

    fn sent() -> (Liveness, Correlation) {
        let mut liveness = started();
        assert_eq!(liveness.due(at(9)), Due::Nothing);
        let Due::Ping(corr) = liveness.due(at(10)) else { panic!() };
        assert_eq!(
            (liveness.deadline(), liveness.due(at(99))),
            (None, Due::Nothing),
            "its clock has not begun"
        );
        liveness.written(at(100));
        assert_eq!(liveness.deadline(), Some(at(104)));
        (liveness, corr)
    }

    #[test]
    fn l2_only_the_right_pong_ends_a_probe_and_the_next_follows_at_the_interval() {
        let (mut liveness, corr) = sent();
        assert!(!liveness.pong(at(101), corr.next().unwrap(), PING_FLAGS));
        assert!(!liveness.pong(
            at(101),
            corr,
            Flags { priority: crate::wire::Priority::Interactive, ..PING_FLAGS }
        ));
        assert!(liveness.pong(at(101), corr, PING_FLAGS));
        assert!(!liveness.pong(at(101), corr, PING_FLAGS), "once");
        assert_eq!(liveness.deadline(), Some(at(111)));
        assert_eq!(liveness.due(at(111)), Due::Ping(corr.next().unwrap()));
    }

    #[test]
    fn l2_a_silent_peer_is_missed_and_one_that_sends_is_not() {
        let (mut liveness, _) = sent();
        assert_eq!(liveness.due(at(103)), Due::Nothing);
        assert_eq!(liveness.due(at(104)), Due::Missed);
        let (mut liveness, _) = sent();
        liveness.frame_arrived();
        assert_eq!(liveness.due(at(104)), Due::Nothing);
        assert_eq!(liveness.deadline(), Some(at(114)));
    }

    #[test]
    fn l2_a_frame_before_the_pings_last_byte_is_no_sign_of_life() {
        let mut liveness = started();
        assert!(matches!(liveness.due(at(10)), Due::Ping(_)));
        liveness.frame_arrived();
        liveness.written(at(20));
        assert_eq!(liveness.due(at(24)), Due::Missed);
    }

    #[test]
    fn l2_the_clock_stands_while_the_host_does_not_read() {
        let (mut liveness, _) = sent();
        liveness.set_paused(at(102), true);
        assert_eq!((liveness.deadline(), liveness.due(at(500))), (None, Due::Nothing));
        liveness.set_paused(at(500), false);
        assert_eq!(liveness.deadline(), Some(at(502)));
        assert_eq!(liveness.due(at(502)), Due::Missed);
        let mut off = Liveness::new(None);
        off.start(at(0));
        assert_eq!(off.deadline(), None, "L2: off unless configured");
    }
}
