//! What processes have used of the processors, and how long they waited for them, as the kernel's scheduler counts it.
//!
//! Processor time per request is the figure that other load on the machine disturbs least; the time waited says how much there was.

use std::fs;
use std::ops::Sub;

/// Nanoseconds of all threads of some processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// On a processor.
    pub used: u64,
    /// Ready to run, and waiting for one.
    pub waited: u64,
    /// Ticks of the kernel's clock that found the process in user mode, and in the kernel: what they say is a ratio.
    pub ticks: [u64; 2],
    /// Times that a thread slept.
    pub sleeps: u64,
}

impl Processor {
    /// Of this process.
    #[must_use]
    pub fn of_self() -> Self {
        Self::of(&std::process::id().to_string())
    }

    /// Of a process by its number; nothing where that cannot be read.
    #[must_use]
    pub fn of(process: &str) -> Self {
        let mut sum = Self::default();
        let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // Behind the name, which may have spaces, come the state and ten numbers; then these two.
        let numbers = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        for (tick, number) in sum.ticks.iter_mut().zip(numbers.skip(11)) {
            *tick = number.parse().unwrap_or(0);
        }
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return sum };
        for thread in threads.flatten() {
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let mut numbers = text.split_whitespace().map(|n| n.parse().unwrap_or(0));
            sum.used += numbers.next().unwrap_or(0_u64);
            sum.waited += numbers.next().unwrap_or(0_u64);
            let text = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            sum.sleeps += text
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
                .and_then(|n| n.trim().parse::<u64>().ok())
                .unwrap_or(0);
        }
        sum
    }

    /// The part of what was used that was used in user mode.
    #[must_use]
    pub fn user(&self) -> f64 {
        let [user, kernel] = self.ticks.map(|ticks| ticks as f64);
        self.used as f64 * user / (user + kernel).max(1.0)
    }
}

impl Sub for Processor {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            used: self.used.saturating_sub(before.used),
            waited: self.waited.saturating_sub(before.waited),
            ticks: [0, 1].map(|mode: usize| self.ticks[mode].saturating_sub(before.ticks[mode])),
            sleeps: self.sleeps.saturating_sub(before.sleeps),
        }
    }
}
