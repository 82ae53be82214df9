//! How often one kind of event is told: a burst, then one a second, with the number of those in between.

use hostwire_core::time::Instant;
use std::time::Duration;

/// Events of one kind in a row.
const BURST: u64 = 8;
/// From then on one in so much time.
const EVERY: Duration = Duration::from_secs(1);

/// One kind of event.
#[derive(Debug)]
pub(super) struct Limit {
    /// How many may be told now.
    left: u64,
    /// When `left` last grew.
    grown: Instant,
    silent: u64,
}

impl Default for Limit {
    fn default() -> Self {
        Self { left: BURST, grown: Instant::ZERO, silent: 0 }
    }
}

impl Limit {
    /// Whether an event of this kind is told now, and how many before it were not.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        let gone = now.saturating_since(self.grown).as_secs() / EVERY.as_secs();
        if gone > 0 {
            self.left = self.left.saturating_add(gone).min(BURST);
            self.grown = now;
        }
        // Z3: told a few times in a row, then once in a while; the ones between are only counted.
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(std::mem::take(&mut self.silent))
            }
            None => {
                self.silent = self.silent.saturating_add(1);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z3_a_burst_is_told_then_one_a_second_with_the_number_of_those_between() {
        let mut limit = Limit::default();
        let mut now = Instant::ZERO + Duration::from_secs(3_600);
        let told: Vec<_> = (0..100).map(|_| limit.admit(now)).collect();
        assert_eq!(told.iter().filter(|told| **told == Some(0)).count() as u64, BURST);
        assert!(told.iter().skip(8).all(Option::is_none));
        let short = Duration::from_micros(1);
        now = now + (EVERY - short);
        assert_eq!(limit.admit(now), None);
        now = now + short;
        assert_eq!((limit.admit(now), limit.admit(now)), (Some(93), None));
        now = now + EVERY * 1_000;
        let told = (0..100).filter_map(|_| limit.admit(now)).count() as u64;
        assert_eq!(told, BURST, "a quiet time saves up one burst");
    }
}
