//! Delays that double from a first to a largest one (§15).

use core::time::Duration;

/// A doubling delay. It has no randomness: the same failures give the same delays (CC10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    largest: Duration,
    next: Duration,
}

impl Backoff {
    /// Route opens and `server_busy`: 25 ms doubling to 500 ms (O5).
    pub const REQUEST: Self = Self::new(Duration::from_millis(25), Duration::from_millis(500));
    /// Reconnects: 100 ms doubling to 2 s.
    pub const RECONNECT: Self = Self::new(Duration::from_millis(100), Duration::from_secs(2));

    /// A delay of `first`, then twice as much each time, up to `largest`.
    #[must_use]
    pub const fn new(first: Duration, largest: Duration) -> Self {
        Self { first, largest, next: first }
    }

    /// The next delay; the one after it is twice as long.
    #[must_use]
    pub fn advance(&mut self) -> Duration {
        let now = self.next;
        self.next = now.saturating_mul(2).min(self.largest);
        now
    }

    /// Back to the first delay.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn o5_delays_double_up_to_the_largest_and_start_over() {
        let mut backoff = Backoff::REQUEST;
        let delays: Vec<_> = (0..7).map(|_| backoff.advance().as_millis()).collect();
        assert_eq!(delays, [25, 50, 100, 200, 400, 500, 500]);
        backoff.reset();
        assert_eq!(backoff.advance().as_millis(), 25);
        let mut backoff = Backoff::RECONNECT;
        let delays: Vec<_> = (0..6).map(|_| backoff.advance().as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 2000]);
    }
}
