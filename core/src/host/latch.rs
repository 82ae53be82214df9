//! The shutdown latch: open → response in flight → committed (H1–H3).
//!
//! One value a host, shared by its connections as an atomic. Invariant: at most one attempt is in flight, it is committed at most once,
//! and a failed one leaves the latch open. Committed is final.
//!
//! ```text
//!          begin              commit
//!   Open ─────────▶ InFlight ─────────▶ Committed
//!     ▲                │ fail
//!     └────────────────┘
//! ```

use core::sync::atomic::{AtomicU64, Ordering};

const OPEN: u64 = 0;
const COMMITTED: u64 = u64::MAX;

/// Proof of an attempt: whoever holds it owns the attempt until it commits or fails.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an attempt that is neither committed nor failed blocks every later one"]
pub(crate) struct Attempt(u64);

/// What a requester of the shutdown is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It owns the attempt: its response goes out first.
    Owner(Attempt),
    /// Another's response is in flight: wait.
    Wait,
    /// Committed: its own success goes out at once (H3).
    Committed,
}

/// The latch of one incarnation.
#[derive(Debug, Default)]
pub struct ShutdownLatch {
    state: AtomicU64,
    attempts: AtomicU64,
}

impl ShutdownLatch {
    pub(crate) fn begin(&self) -> Begin {
        // A ticket of its own per attempt, so that a late failure of an earlier one reopens nothing.
        let ticket = self.attempts.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        match self.state.compare_exchange(OPEN, ticket, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Begin::Owner(Attempt(ticket)),
            Err(COMMITTED) => Begin::Committed,
            Err(_) => Begin::Wait, // H3
        }
    }

    /// H1: the last byte of the owner's response has been handed to its socket. True exactly once.
    pub(crate) fn commit(&self, attempt: Attempt) -> bool {
        self.leave(attempt, COMMITTED)
    }

    /// H2: the attempt has failed; the latch is open again.
    pub(crate) fn fail(&self, attempt: Attempt) -> bool {
        self.leave(attempt, OPEN)
    }

    fn leave(&self, attempt: Attempt, to: u64) -> bool {
        self.state.compare_exchange(attempt.0, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the shutdown has been committed.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.state.load(Ordering::Acquire) == COMMITTED
    }

    /// Commits from inside (a signal, a dropped handle): no response is owed. True if that began the shutdown.
    pub fn commit_locally(&self) -> bool {
        self.state.swap(COMMITTED, Ordering::AcqRel) != COMMITTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn owner(latch: &ShutdownLatch) -> Attempt {
        let Begin::Owner(attempt) = latch.begin() else { panic!("the latch is not open") };
        attempt
    }

    /// Every (state, input) pair. The docs show this table.
    const TABLE: &str = "\
Open      + begin          -> InFlight,  owner
Open      + commit locally -> Committed, begins
InFlight  + begin          -> InFlight,  wait
InFlight  + commit         -> Committed, begins
InFlight  + fail           -> Open,      reopened
InFlight  + stale commit   -> InFlight,  nothing
InFlight  + stale fail     -> InFlight,  nothing
InFlight  + commit locally -> Committed, begins
Committed + begin          -> Committed, success
Committed + stale commit   -> Committed, nothing
Committed + stale fail     -> Committed, nothing
Committed + commit locally -> Committed, nothing
Open      + stale commit   -> Open,      nothing
Open      + stale fail     -> Open,      nothing
";

    #[test]
    fn h1_h2_h3_the_table_of_the_latch() {
        let state = |latch: &ShutdownLatch| match latch.state.load(Ordering::Acquire) {
            OPEN => "Open",
            COMMITTED => "Committed",
            _ => "InFlight",
        };
        let make = |name: &str| {
            let latch = ShutdownLatch::default();
            let stale = owner(&latch);
            latch.leave(Attempt(stale.0), OPEN);
            let mut current = None;
            match name {
                "Open" => {}
                "InFlight" => current = Some(owner(&latch)),
                _ => assert!(latch.commit_locally()),
            }
            (latch, stale, current)
        };
        let mut table = String::new();
        for line in TABLE.lines() {
            let (from, input) = line.split_once("->").unwrap().0.split_once(" + ").unwrap();
            let (latch, stale, current) = make(from.trim());
            let said = match input.trim() {
                "begin" => match latch.begin() {
                    Begin::Owner(_) => "owner",
                    Begin::Wait => "wait",
                    Begin::Committed => "success",
                },
                "commit" => ["nothing", "begins"][usize::from(latch.commit(current.unwrap()))],
                "fail" => ["nothing", "reopened"][usize::from(latch.fail(current.unwrap()))],
                "stale commit" => ["nothing", "begins"][usize::from(latch.commit(stale))],
                "stale fail" => ["nothing", "reopened"][usize::from(latch.fail(stale))],
                "commit locally" => ["nothing", "begins"][usize::from(latch.commit_locally())],
                other => panic!("{other}"),
            };
            table += &format!(
                "{:<9} + {:<14} -> {:<10} {said}\n",
                from.trim(),
                input.trim(),
                format!("{},", state(&latch))
            );
        }
        assert_eq!(table, TABLE);
        assert!(include_str!("states.md").contains(TABLE), "the docs show another table");
    }
}
