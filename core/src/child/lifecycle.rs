//! When a child is made, and when it is made again: the policy of a line of sessions, without processes.
//!
//! Owns the status, the generation number, the attempts and the retry timer. Invariants: a generation's number is never used twice (PA11);
//! a reconnect is scheduled by the loss of an online generation and by nothing else (PA6); after the shutdown nothing is made (PA7).

use super::cause::Cause;
use crate::time::{Clock, Instant};
use core::time::Duration;

/// How often, and after which pauses, a child is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Attempts to make one, before the last error is given to whoever asked.
    pub attempts: u32,
    /// The pause after the first failure; it doubles.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// Whether one that is lost while online is made again.
    pub when_lost: bool,
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            attempts: 3,
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
            when_lost: true,
        }
    }
}

/// Where a line of sessions stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Nothing is there, and nothing is wanted.
    Idle,
    /// This generation is being made.
    Connecting(u64),
    /// This generation can be used.
    Online(u64),
    /// This generation is being torn down.
    Closing(u64),
    /// Another is made at this moment.
    Waiting(Instant),
    /// For good.
    Shut,
}

/// Why nothing is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LifecycleRefused {
    /// It was shut down, for good.
    #[error("shut down")]
    Shut,
    /// A generation is there already, or on its way.
    #[error("a child is there already")]
    Busy,
}

/// A line of sessions.
#[derive(Debug)]
pub struct Lifecycle {
    restart: Restart,
    clock: Clock,
    status: Status,
    generation: u64,
    attempts: u32,
    scheduled: u64,
}

impl Lifecycle {
    /// A line without a session.
    #[must_use]
    pub fn new(restart: Restart) -> Self {
        Self {
            restart,
            clock: Clock::default(),
            status: Status::Idle,
            generation: 0,
            attempts: 0,
            scheduled: 0,
        }
    }

    /// Where it stands.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Attempts since the last success.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Reconnects that were ever scheduled.
    #[must_use]
    pub const fn scheduled(&self) -> u64 {
        self.scheduled
    }

    /// An attempt begins; it has this generation.
    ///
    /// # Errors
    /// [`LifecycleRefused`].
    pub fn begin(&mut self) -> Result<u64, LifecycleRefused> {
        match self.status {
            Status::Shut => Err(LifecycleRefused::Shut), // PA7
            Status::Connecting(_) | Status::Online(_) | Status::Closing(_) => Err(LifecycleRefused::Busy),
            Status::Idle | Status::Waiting(_) => {
                self.generation += 1;
                self.attempts += 1;
                self.status = Status::Connecting(self.generation);
                Ok(self.generation)
            }
        }
    }

    /// A generation is ready. False: it is not the one that is awaited.
    pub fn online(&mut self, generation: u64) -> bool {
        let awaited = self.status == Status::Connecting(generation);
        if awaited {
            self.status = Status::Online(generation);
            self.attempts = 0;
        }
        awaited
    }

    /// A generation's end has begun, whoever began it. From here on its readers may end: nothing is scheduled for that (PA6).
    pub fn closing(&mut self, generation: u64) {
        if matches!(self.status, Status::Connecting(of) | Status::Online(of) if of == generation) {
            self.status = Status::Closing(generation);
        }
    }

    /// An attempt has failed. Whether another follows, and when.
    pub fn failed(&mut self, now: Instant, generation: u64, cause: Cause) -> Option<Instant> {
        let now = self.clock.observe(now);
        if !self.is_current(generation) {
            return None;
        }
        // PA8: whoever cancels wants no second attempt.
        let given_up = matches!(cause, Cause::Cancelled | Cause::Shutdown | Cause::Dropped);
        if given_up || self.attempts >= self.restart.attempts {
            self.status = Status::Idle;
            return None;
        }
        Some(self.wait(now))
    }

    /// An online generation has ended. When the next one is due, if it was lost.
    pub fn ended(&mut self, now: Instant, generation: u64, cause: Cause) -> Option<Instant> {
        let now = self.clock.observe(now);
        if !self.is_current(generation) {
            return None;
        }
        let lost = match cause {
            Cause::ChildExited | Cause::Eof | Cause::ReadFailed | Cause::WriteFailed | Cause::StalledSink => {
                true
            }
            // PA6: what we end, we end; its reader's end is no loss.
            Cause::Closed
            | Cause::Shutdown
            | Cause::Cancelled
            | Cause::Timeout
            | Cause::PeerError
            | Cause::Malformed
            | Cause::WrongVersion
            | Cause::BadProof
            | Cause::Idle
            | Cause::SpawnFailed
            | Cause::Dropped => false,
        };
        if lost && self.restart.when_lost {
            self.scheduled += 1;
            return Some(self.wait(now));
        }
        self.status = Status::Idle;
        None
    }

    /// For good. The generation that is still there, to be torn down.
    pub fn shut(&mut self) -> Option<u64> {
        let current = match self.status {
            Status::Connecting(of) | Status::Online(of) | Status::Closing(of) => Some(of),
            Status::Idle | Status::Waiting(_) | Status::Shut => None,
        };
        self.status = Status::Shut; // PA7: with the timer, if there was one
        current
    }

    /// When the next attempt is due.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        match self.status {
            Status::Waiting(at) => Some(at),
            Status::Idle | Status::Connecting(_) | Status::Online(_) | Status::Closing(_) | Status::Shut => {
                None
            }
        }
    }

    fn is_current(&self, generation: u64) -> bool {
        matches!(
            self.status,
            Status::Connecting(of) | Status::Online(of) | Status::Closing(of) if of == generation
        )
    }

    fn wait(&mut self, now: Instant) -> Instant {
        let doublings = self.attempts.saturating_sub(1).min(20);
        let pause = self.restart.first.saturating_mul(1 << doublings).min(self.restart.longest);
        let at = now + pause;
        self.status = Status::Waiting(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(5_000_000);

    #[test]
    fn pa6_only_the_loss_of_an_online_generation_schedules_another() {
        for cause in Cause::ALL {
            let mut line = Lifecycle::new(Restart::default());
            let generation = line.begin().unwrap();
            assert!(line.online(generation));
            line.closing(generation);
            let due = line.ended(NOW, generation, cause);
            let lost = matches!(
                cause,
                Cause::ChildExited | Cause::Eof | Cause::ReadFailed | Cause::WriteFailed | Cause::StalledSink
            );
            assert_eq!(due.is_some(), lost, "{cause:?}");
            assert_eq!(line.scheduled(), u64::from(lost));
            assert_eq!(line.deadline(), due);
            // Its reader's own end, later, is nobody's.
            assert_eq!(line.ended(NOW, generation, Cause::Eof), None);
            assert_eq!(line.scheduled(), u64::from(lost));
        }
    }

    #[test]
    fn pa7_after_the_shutdown_nothing_is_made() {
        for stop_at in 0..5 {
            let mut line = Lifecycle::new(Restart::default());
            let generation = if stop_at > 0 { line.begin().unwrap() } else { 0 };
            if stop_at > 1 {
                assert!(line.online(generation));
            }
            if stop_at > 2 {
                line.closing(generation);
            }
            if stop_at > 3 {
                line.ended(NOW, generation, Cause::Eof).unwrap();
            }
            assert_eq!(line.shut(), (1..4).contains(&stop_at).then_some(generation));
            assert_eq!(line.deadline(), None, "no timer");
            assert_eq!(line.begin(), Err(LifecycleRefused::Shut));
            assert!(!line.online(generation), "nor is one adopted");
            assert_eq!(line.ended(NOW, generation, Cause::Eof), None);
            assert_eq!(line.failed(NOW, generation, Cause::Eof), None);
            assert_eq!((line.status(), line.shut()), (Status::Shut, None));
        }
    }

    #[test]
    fn pa8_a_cancel_ends_the_attempts() {
        let mut line = Lifecycle::new(Restart { attempts: 3, ..Restart::default() });
        let first = line.begin().unwrap();
        assert_eq!(line.failed(NOW, first, Cause::Cancelled), None);
        assert_eq!((line.attempts(), line.status()), (1, Status::Idle));
        // What fails by itself is tried as often as allowed, with growing pauses.
        let mut line = Lifecycle::new(Restart { attempts: 3, ..Restart::default() });
        let mut pauses = std::vec::Vec::new();
        while let Some(at) = {
            let generation = line.begin().unwrap();
            line.failed(NOW, generation, Cause::BadProof)
        } {
            pauses.push(at.saturating_since(NOW).as_millis());
        }
        assert_eq!((line.attempts(), &pauses[..]), (3, &[100, 200][..]));
    }

    #[test]
    fn pa11_a_generation_is_never_the_one_before() {
        let mut line = Lifecycle::new(Restart::default());
        let first = line.begin().unwrap();
        assert_eq!(line.begin(), Err(LifecycleRefused::Busy));
        assert!(line.online(first));
        line.ended(NOW, first, Cause::Eof);
        let second = line.begin().unwrap();
        assert_ne!(first, second);
        assert!(!line.online(first), "late news of the first");
        line.closing(first);
        assert_eq!(line.failed(NOW, first, Cause::Eof), None);
        assert_eq!(line.status(), Status::Connecting(second));
    }
}
