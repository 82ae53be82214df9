//! Memory as a number: pools and the charges drawn from them.
//!
//! A [`Charge`] is a share of a [`Pool`], given back when it is dropped, wherever that happens: pools are counters, not locks.
//! Invariant: `0 <= used <= limit` after every step; a charge can only release what it holds, so nothing is released twice.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A finite number of bytes (or slots), drawn on by charges. May stand inside a larger pool: a charge then draws on both.
#[derive(Debug)]
pub struct Pool {
    limit: usize,
    used: AtomicUsize,
    high_water: AtomicUsize,
    parent: Option<Arc<Pool>>,
}

impl Pool {
    /// A pool of `limit` units.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0), high_water: AtomicUsize::new(0), parent: None })
    }

    /// A share of at most `limit` units of `parent`: what it gives out is drawn from both.
    #[must_use]
    pub fn share(parent: &Arc<Self>, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            high_water: AtomicUsize::new(0),
            parent: Some(Arc::clone(parent)),
        })
    }

    /// Draws `amount`, or nothing if the pool or its parent has not that much left.
    #[must_use]
    pub fn try_charge(self: &Arc<Self>, amount: usize) -> Option<Charge> {
        self.take(amount).then(|| Charge { pool: Arc::clone(self), amount })
    }

    /// The same with a handle that is not needed any more.
    pub(crate) fn into_charge(pool: Arc<Self>, amount: usize) -> Option<Charge> {
        let taken = pool.take(amount);
        taken.then(|| Charge { pool, amount })
    }

    /// A charge of nothing, to grow.
    pub(crate) fn nothing(pool: &Arc<Self>) -> Charge {
        Charge { pool: Arc::clone(pool), amount: 0 }
    }

    /// Units drawn at present.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// The most units ever drawn at once (Z2).
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.high_water.load(Ordering::Relaxed)
    }

    /// The limit.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Units left here, whatever a parent has.
    #[must_use]
    pub fn free(&self) -> usize {
        self.limit - self.used()
    }

    /// Draws `amount`; to be given back.
    pub(crate) fn take(&self, amount: usize) -> bool {
        let taken = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            used.checked_add(amount).filter(|sum| *sum <= self.limit)
        });
        let Ok(before) = taken else { return false };
        if self.parent.as_ref().is_some_and(|parent| !parent.take(amount)) {
            self.used.fetch_sub(amount, Ordering::AcqRel);
            return false;
        }
        // Most charges raise nothing: a look costs less than a write that everybody waits for.
        if before + amount > self.high_water.load(Ordering::Relaxed) {
            self.high_water.fetch_max(before + amount, Ordering::Relaxed);
        }
        true
    }

    /// What `take` drew.
    pub(crate) fn give_back(&self, amount: usize) {
        let before = self.used.fetch_sub(amount, Ordering::AcqRel);
        debug_assert!(before >= amount, "a pool was given back more than it gave");
        if let Some(parent) = &self.parent {
            parent.give_back(amount);
        }
    }
}

/// A share of a pool, given back when dropped.
#[derive(Debug)]
pub struct Charge {
    pool: Arc<Pool>,
    amount: usize,
}

impl Charge {
    /// Draws `more`, or nothing if there is not that much left.
    #[must_use]
    pub fn try_grow(&mut self, more: usize) -> bool {
        let grown = self.pool.take(more);
        if grown {
            self.amount += more;
        }
        grown
    }

    /// Gives back all but `amount`; larger than the charge changes nothing.
    pub fn shrink_to(&mut self, amount: usize) {
        if amount < self.amount {
            self.pool.give_back(self.amount - amount);
            self.amount = amount;
        }
    }

    /// Units held.
    #[must_use]
    pub const fn amount(&self) -> usize {
        self.amount
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.pool.give_back(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_gives_its_limit_and_not_one_unit_more() {
        let pool = Pool::new(10);
        let mut first = pool.try_charge(6).unwrap();
        assert!(pool.try_charge(5).is_none());
        assert!(pool.try_charge(usize::MAX).is_none(), "an overflowing sum is refused");
        assert!(first.try_grow(4));
        assert!(!first.try_grow(1));
        assert_eq!((pool.used(), pool.free(), first.amount()), (10, 0, 10));
        first.shrink_to(3);
        first.shrink_to(7);
        assert_eq!((pool.used(), first.amount()), (3, 3));
        drop(first);
        assert_eq!((pool.used(), pool.high_water(), pool.limit()), (0, 10, 10)); // B047
    }

    #[test]
    fn a_share_draws_on_its_parent_and_a_refusal_leaves_both_as_they_were() {
        let parent = Pool::new(10);
        let a = Pool::share(&parent, 8);
        let b = Pool::share(&parent, 8);
        let held = a.try_charge(7).unwrap();
        assert!(a.try_charge(2).is_none(), "over its own share");
        assert!(b.try_charge(4).is_none(), "over what the parent has left");
        assert_eq!((a.used(), b.used(), parent.used()), (7, 0, 7));
        drop(held);
        assert_eq!((a.used(), parent.used()), (0, 0));
    }
}
