//! How long a teardown may take: each phase, and the whole.
//!
//! Owns the arithmetic. Invariant: a [`Budget`] that exists holds all of its phases one after the other, with a margin, so that an outer
//! bound never cuts a phase short that an inner one still counts on (PD18).

use core::time::Duration;

/// The bounded steps of a teardown, in their order (child-processes.md §4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// What is queued may still leave.
    Flush,
    /// Input is closed; the child may end by itself, and its descendants let go of its pipes.
    Grace,
    /// TERM has gone to the group, then CONT.
    Term,
    /// KILL has gone to the group, then to the leader.
    Kill,
    /// Escapees that are provably the child's.
    Sweep,
    /// Everything is dead that can be killed: what is left in the pipes is read.
    Drain,
    /// The leader is reaped, the result frozen.
    Close,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 7] =
        [Self::Flush, Self::Grace, Self::Term, Self::Kill, Self::Sweep, Self::Drain, Self::Close];

    /// The stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Grace => "grace",
            Self::Term => "term",
            Self::Kill => "kill",
            Self::Sweep => "sweep",
            Self::Drain => "drain",
            Self::Close => "close",
        }
    }
}

/// How long each phase may take, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// [`Phase::Flush`].
    pub flush: Duration,
    /// [`Phase::Grace`].
    pub grace: Duration,
    /// [`Phase::Term`].
    pub term: Duration,
    /// [`Phase::Kill`].
    pub kill: Duration,
    /// [`Phase::Sweep`].
    pub sweep: Duration,
    /// [`Phase::Drain`].
    pub drain: Duration,
    /// [`Phase::Close`].
    pub close: Duration,
}

impl Default for Phases {
    fn default() -> Self {
        Self {
            flush: Duration::from_millis(500),
            grace: Duration::from_secs(2),
            term: Duration::from_secs(2),
            kill: Duration::from_secs(1),
            sweep: Duration::from_secs(1),
            drain: Duration::from_secs(1),
            close: Duration::from_millis(500),
        }
    }
}

impl Phases {
    /// How long `phase` may take.
    #[must_use]
    pub const fn of(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Flush => self.flush,
            Phase::Grace => self.grace,
            Phase::Term => self.term,
            Phase::Kill => self.kill,
            Phase::Sweep => self.sweep,
            Phase::Drain => self.drain,
            Phase::Close => self.close,
        }
    }
}

/// The phases and the outer bound around them, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    phases: Phases,
    outer: Duration,
}

/// A budget that cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The outer bound is shorter than what lies inside it.
    #[error("the outer budget of {outer:?} does not hold its phases and margin, {needed:?}")]
    TooShort {
        /// What was given.
        outer: Duration,
        /// The phases' sum and [`Budget::MARGIN`].
        needed: Duration,
    },
    /// The sum is beyond what a duration can say.
    #[error("the phases' sum overflows")]
    Overflow,
}

impl Budget {
    /// What an outer bound has to leave beyond its phases.
    pub const MARGIN: Duration = Duration::from_millis(500);

    /// Checks that `outer` holds the phases and the margin (PD18).
    ///
    /// # Errors
    /// [`BudgetError`].
    pub fn new(phases: Phases, outer: Duration) -> Result<Self, BudgetError> {
        // PD18: outer >= flush + grace + TERM + KILL + sweep + natural drain + close + margin, or it is no budget.
        let mut needed = Self::MARGIN;
        for phase in Phase::ALL {
            needed = needed.checked_add(phases.of(phase)).ok_or(BudgetError::Overflow)?;
        }
        if outer < needed {
            return Err(BudgetError::TooShort { outer, needed });
        }
        Ok(Self { phases, outer })
    }

    /// The phases with the shortest outer bound that holds them.
    ///
    /// # Errors
    /// [`BudgetError::Overflow`].
    pub fn around(phases: Phases) -> Result<Self, BudgetError> {
        match Self::new(phases, Duration::ZERO) {
            Err(BudgetError::TooShort { needed, .. }) => Self::new(phases, needed),
            other => other,
        }
    }

    /// The phases.
    #[must_use]
    pub const fn phases(&self) -> &Phases {
        &self.phases
    }

    /// The bound of the whole teardown.
    #[must_use]
    pub const fn outer(&self) -> Duration {
        self.outer
    }
}

/// The default phases in ten seconds.
impl Default for Budget {
    fn default() -> Self {
        Self { phases: Phases::default(), outer: Duration::from_secs(10) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pd18_an_outer_bound_holds_every_phase_and_the_margin_or_is_refused() {
        let phases = Phases::default();
        let needed = Duration::from_millis(8_500);
        assert_eq!(Budget::around(phases).unwrap().outer(), needed);
        assert!(Budget::new(phases, needed).is_ok());
        let outer = needed - Duration::from_micros(1);
        assert_eq!(Budget::new(phases, outer), Err(BudgetError::TooShort { outer, needed }));
        // Each phase counts.
        for phase in Phase::ALL {
            let mut longer = phases;
            *match phase {
                Phase::Flush => &mut longer.flush,
                Phase::Grace => &mut longer.grace,
                Phase::Term => &mut longer.term,
                Phase::Kill => &mut longer.kill,
                Phase::Sweep => &mut longer.sweep,
                Phase::Drain => &mut longer.drain,
                Phase::Close => &mut longer.close,
            } += Duration::from_micros(1);
            assert!(Budget::new(longer, needed).is_err(), "{}", phase.as_str());
        }
        let endless = Phases { kill: Duration::MAX, ..phases };
        assert_eq!(Budget::new(endless, Duration::MAX), Err(BudgetError::Overflow));
        assert_eq!(Budget::around(endless), Err(BudgetError::Overflow));
        let default = Budget::default();
        assert_eq!(Budget::new(*default.phases(), default.outer()), Ok(default));
    }
}
