//! Generations one after the other: discovery, dial, setup, and the pause after a failure (K1–K5).

use super::backoff::Backoff;
use crate::auth::DaemonId;
use crate::fault::CloseReason;
use crate::time::Instant;
use core::time::Duration;

/// How a session reconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPolicy {
    /// Whether a lost generation is followed by another at all.
    pub reconnect: bool,
    /// Discovery, dial, authentication and negotiation of one attempt together (§15).
    pub setup: Duration,
    /// The pause after a failure.
    pub backoff: Backoff,
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self { reconnect: true, setup: Duration::from_secs(2), backoff: Backoff::RECONNECT }
    }
}

/// What the session needs next, while somebody waits for a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: a generation is live, or an answer is under way.
    Nothing,
    /// Let time pass until then, then ask again.
    Wait(Instant),
    /// Read the discovery file, anew (D7, K4); the attempt has until `deadline`.
    ReadDiscovery {
        /// The attempt's one deadline (E1).
        deadline: Instant,
    },
    /// Dial what was discovered and set the generation up; the attempt's deadline goes on.
    Dial {
        /// The attempt's one deadline (E1).
        deadline: Instant,
    },
    /// No other generation will come.
    GiveUp,
}

/// How an attempt or a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The file could not be read, or the endpoint not be reached.
    Unreachable,
    /// The connection ended, with its reason.
    Closed(CloseReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No generation, no attempt; a pause may still run.
    Idle { not_before: Instant },
    /// The file is being read.
    Discovering { deadline: Instant },
    /// The file has been read: dial.
    Discovered { deadline: Instant },
    /// Dialling, authenticating, negotiating.
    SettingUp,
    /// A generation is live; whether it has been useful (K3).
    Live { useful: bool },
    /// The end.
    Ended,
}

/// The managed client's generations.
#[derive(Debug)]
pub struct Session {
    policy: SessionPolicy,
    backoff: Backoff,
    state: State,
    /// The file has been read again at once after an authentication failure, and no generation was useful since (K3).
    reread: bool,
    attempts: u64,
    daemon: Option<DaemonId>,
}

impl Session {
    /// A session without a generation.
    #[must_use]
    pub const fn new(policy: SessionPolicy) -> Self {
        Self {
            policy,
            backoff: policy.backoff,
            state: State::Idle { not_before: Instant::ZERO },
            reread: false,
            attempts: 0,
            daemon: None,
        }
    }

    /// What is needed at `now` so that those who wait get a generation. Ask only while somebody waits.
    #[must_use]
    pub fn need(&mut self, now: Instant) -> Need {
        match self.state {
            State::Idle { .. } if self.attempts > 0 && !self.policy.reconnect => Need::GiveUp,
            State::Idle { not_before } if now < not_before => Need::Wait(not_before),
            State::Idle { .. } => {
                let deadline = now + self.policy.setup;
                self.attempts += 1;
                self.state = State::Discovering { deadline };
                Need::ReadDiscovery { deadline }
            }
            State::Discovered { deadline } => {
                self.state = State::SettingUp;
                Need::Dial { deadline }
            }
            State::Discovering { .. } | State::SettingUp | State::Live { .. } => Need::Nothing,
            State::Ended => Need::GiveUp,
        }
    }

    /// The file has been read; dial.
    pub const fn discovered(&mut self) {
        if let State::Discovering { deadline } = self.state {
            self.state = State::Discovered { deadline };
        }
    }

    /// The generation is ready. Tells whether it is another incarnation's than the last one: everything of the old one means nothing
    /// any more (K4, K5).
    #[must_use]
    pub fn ready(&mut self, daemon: DaemonId) -> bool {
        if self.state == State::SettingUp {
            self.state = State::Live { useful: false };
        }
        // K4, K5, O7: what the application fences its own replays by.
        self.daemon.replace(daemon).is_some_and(|before| before != daemon)
    }

    /// A terminal was received: the generation has been useful, and failures count from the beginning again (K3).
    pub const fn useful(&mut self) {
        if let State::Live { .. } = self.state {
            self.state = State::Live { useful: true };
            self.backoff.reset();
            self.reread = false;
        }
    }

    /// The attempt failed or the generation ended. A generation that ends after it has been useful is followed at once; everything else
    /// waits, longer each time; an authentication failure rereads the file once without a pause (K3).
    pub fn ended(&mut self, now: Instant, how: Ending) {
        let useful = match self.state {
            State::Ended | State::Idle { .. } => return, // B051: a late end of an old generation
            State::Live { useful } => useful,
            State::Discovering { .. } | State::Discovered { .. } | State::SettingUp => false,
        };
        let rejected = matches!(how, Ending::Closed(CloseReason::Authentication(_)));
        let not_before = if useful {
            now
        } else if rejected && !self.reread {
            self.reread = true; // K3, B064
            now
        } else {
            now + self.backoff.advance()
        };
        self.state = State::Idle { not_before };
    }

    /// No other generation is wanted.
    pub const fn close(&mut self) {
        self.state = State::Ended;
    }

    /// The incarnation that the last generation belonged to (O7).
    #[must_use]
    pub const fn daemon_id(&self) -> Option<DaemonId> {
        self.daemon
    }

    /// Attempts begun so far.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::AuthError;
    use alloc::vec::Vec;

    const T0: Instant = Instant::ZERO;

    fn ms(n: u64) -> Instant {
        Instant::from_micros(n * 1000)
    }

    fn daemon(n: u8) -> DaemonId {
        DaemonId::new([n; 16])
    }

    /// Goes through one attempt that reaches the setup.
    fn attempt(session: &mut Session, now: Instant) {
        let deadline = now + Duration::from_secs(2);
        assert_eq!(session.need(now), Need::ReadDiscovery { deadline });
        assert_eq!(session.need(now), Need::Nothing);
        session.discovered();
        assert_eq!(session.need(now), Need::Dial { deadline }, "E1: one deadline for all stages");
        assert_eq!(session.need(now), Need::Nothing);
    }

    /// Fails attempt after attempt; the pauses in milliseconds.
    fn pauses(session: &mut Session, mut now: Instant, times: usize, how: Ending) -> Vec<u128> {
        (0..times)
            .map(|_| {
                attempt(session, now);
                session.ended(now, how);
                match session.need_peek(now) {
                    Some(until) => {
                        let pause = until.saturating_since(now).as_millis();
                        now = until;
                        pause
                    }
                    None => 0,
                }
            })
            .collect()
    }

    impl Session {
        fn need_peek(&self, now: Instant) -> Option<Instant> {
            match self.state {
                State::Idle { not_before } if not_before > now => Some(not_before),
                State::Idle { .. }
                | State::Discovering { .. }
                | State::Discovered { .. }
                | State::SettingUp
                | State::Live { .. }
                | State::Ended => None,
            }
        }
    }

    #[test]
    fn b030_failures_are_answered_by_growing_pauses() {
        let mut session = Session::new(SessionPolicy::default());
        let got = pauses(&mut session, T0, 7, Ending::Closed(CloseReason::Eof));
        assert_eq!(got, [100, 200, 400, 800, 1600, 2000, 2000]);
        let mut session = Session::new(SessionPolicy::default());
        assert_eq!(pauses(&mut session, T0, 2, Ending::Unreachable), [100, 200]);
    }

    #[test]
    fn b064_a_rejected_credential_rereads_once_and_then_backs_off() {
        let rejected = Ending::Closed(CloseReason::Authentication(AuthError::BadProof));
        let mut session = Session::new(SessionPolicy::default());
        assert_eq!(pauses(&mut session, T0, 5, rejected), [0, 100, 200, 400, 800]); // K3
    }

    #[test]
    fn k3_a_mere_connect_does_not_reset_the_backoff_and_a_terminal_does() {
        let mut session = Session::new(SessionPolicy::default());
        attempt(&mut session, T0);
        assert!(!session.ready(daemon(1)));
        session.ended(T0, Ending::Closed(CloseReason::Eof));
        assert_eq!(session.need(T0), Need::Wait(ms(100)));
        attempt(&mut session, ms(100));
        assert!(!session.ready(daemon(1)));
        session.ended(ms(100), Ending::Closed(CloseReason::Eof));
        assert_eq!(session.need(ms(100)), Need::Wait(ms(300)));
        attempt(&mut session, ms(300));
        assert!(!session.ready(daemon(1)));
        session.useful();
        session.ended(ms(400), Ending::Closed(CloseReason::PeerGoodbye));
        attempt(&mut session, ms(400));
        session.ended(ms(400), Ending::Unreachable);
        assert_eq!(session.need(ms(400)), Need::Wait(ms(500)), "from the beginning");
        assert_eq!(session.attempts(), 4);
    }

    #[test]
    fn ae7_k5_o7_another_incarnation_is_reported() {
        let mut session = Session::new(SessionPolicy::default());
        attempt(&mut session, T0);
        assert!(!session.ready(daemon(1)), "the first is no change");
        session.useful();
        session.ended(T0, Ending::Closed(CloseReason::Eof));
        attempt(&mut session, T0);
        assert!(session.ready(daemon(2))); // K4
        assert_eq!(session.daemon_id(), Some(daemon(2)));
    }

    #[test]
    fn b051_the_late_end_of_an_old_generation_changes_nothing() {
        let mut session = Session::new(SessionPolicy::default());
        attempt(&mut session, T0);
        session.ended(T0, Ending::Unreachable);
        session.ended(ms(50), Ending::Unreachable);
        assert_eq!(session.need(ms(50)), Need::Wait(ms(100)));
        session.useful();
        session.discovered();
        assert_eq!(session.need(ms(50)), Need::Wait(ms(100)));
    }

    #[test]
    fn reconnecting_can_be_switched_off_and_a_closed_session_stays_closed() {
        let mut session = Session::new(SessionPolicy { reconnect: false, ..SessionPolicy::default() });
        attempt(&mut session, T0);
        session.ended(T0, Ending::Unreachable);
        assert_eq!(session.need(ms(500)), Need::GiveUp);
        let mut session = Session::new(SessionPolicy::default());
        session.close();
        session.ended(T0, Ending::Unreachable);
        assert_eq!(session.need(T0), Need::GiveUp);
    }
}
