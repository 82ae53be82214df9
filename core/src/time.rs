//! The core's own notion of time: an argument, never a clock.
//!
//! Owns [`Instant`]. The shell picks the origin and feeds a monotonic reading with every call; a reading
//! before the last one counts as the last one (each connection keeps to it).

use core::ops::Add;
use core::time::Duration;

/// A point in time: microseconds from an origin that the shell picks once per process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens: a deadline here never passes.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `micros` microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates at [`Instant::FAR_FUTURE`]; a fraction of a microsecond rounds up, so that a deadline is never early.
impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, rhs: Duration) -> Self {
        let fraction = u64::from(rhs.subsec_nanos().div_ceil(1_000));
        Self(rhs.as_secs().saturating_mul(1_000_000).saturating_add(fraction).saturating_add(self.0))
    }
}

/// The latest reading a connection has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Takes a reading in; one before the last counts as the last.
    #[inline]
    pub(crate) fn observe(&mut self, now: Instant) -> Instant {
        self.0 = self.0.max(now);
        self.0
    }

    /// The last reading.
    pub(crate) const fn latest(&self) -> Instant {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_saturates_and_rounds_up() {
        assert_eq!(Instant::ZERO + Duration::from_nanos(1), Instant::from_micros(1));
        assert_eq!(Instant::from_micros(3) + Duration::from_micros(4), Instant::from_micros(7));
        assert_eq!(Instant::from_micros(3) + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(
            Instant::from_micros(9).saturating_since(Instant::from_micros(4)),
            Duration::from_micros(5)
        );
        assert_eq!(Instant::ZERO.saturating_since(Instant::from_micros(4)), Duration::ZERO);
        assert_eq!(Instant::from_micros(17).as_micros(), 17);
    }

    #[test]
    fn a_reading_before_the_last_counts_as_the_last() {
        let mut clock = Clock::default();
        assert_eq!(clock.observe(Instant::from_micros(10)), Instant::from_micros(10));
        assert_eq!(clock.observe(Instant::from_micros(4)), Instant::from_micros(10));
    }
}
