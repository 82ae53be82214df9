//! The resident bytes, split into pools (B8): ingress for large bodies, a slice of its own for small ones, egress, handler scratch.
//!
//! Invariant: the pools' limits add up to no more than what they were split from, and a body of the largest size always fits into an
//! empty ingress pool. Shares keep one connection from filling a pool (B8, B10): nobody waits, what does not fit is refused.

use crate::budget::{Charge, Pool};
use crate::wire::MAX_BODY;
use alloc::sync::Arc;
use core::mem::size_of;

/// A body of at most this many bytes is small (B8).
pub const SMALL_BODY: u32 = 65_536;

/// How many bytes each pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Bodies over [`SMALL_BODY`] on their way in.
    pub ingress: usize,
    /// Small bodies on their way in.
    pub small: usize,
    /// Bodies on their way out.
    pub egress: usize,
    /// What handlers reserve.
    pub scratch: usize,
}

impl Split {
    /// The fewest bytes that can be split: one largest body, and nine small ones for the rest.
    pub const LEAST: usize = MAX_BODY as usize + 9 * SMALL_BODY as usize;

    /// Splits `bytes`: 7/16 for ingress but at least one largest body; of the rest, 7/9 for egress, 1/9 for small bodies, 1/9 for scratch.
    #[must_use]
    pub fn of(bytes: usize) -> Option<Self> {
        if bytes < Self::LEAST {
            return None;
        }
        let ingress = (bytes / 16 * 7).max(MAX_BODY as usize);
        let rest = bytes - ingress;
        let (small, scratch) = (rest / 9, rest / 9);
        Some(Self { ingress, small, egress: rest - small - scratch, scratch })
    }

    /// One connection's share of large bodies on their way in: one of the largest.
    #[must_use]
    pub fn ingress_share(&self) -> usize {
        MAX_BODY as usize
    }

    /// One connection's share of small bodies on their way in: a quarter, at least one.
    #[must_use]
    pub fn small_share(&self) -> usize {
        (self.small / 4).max(SMALL_BODY as usize)
    }

    /// One connection's share of bodies on their way out: one of the largest and what is left over beyond it, halved; all, if there is
    /// less than one of the largest.
    #[must_use]
    pub fn egress_share(&self) -> usize {
        match self.egress.checked_sub(MAX_BODY as usize) {
            Some(beyond) => MAX_BODY as usize + beyond / 2,
            None => self.egress,
        }
    }
}

/// The pools of one host.
#[derive(Debug)]
pub struct Resident {
    split: Split,
    ingress: Arc<Pool>,
    small: Arc<Pool>,
    egress: Arc<Pool>,
    scratch: Arc<Pool>,
}

impl Resident {
    pub(super) fn new(split: Split) -> Self {
        Self {
            split,
            ingress: Pool::new(split.ingress),
            small: Pool::new(split.small),
            egress: Pool::new(split.egress),
            scratch: Pool::new(split.scratch),
        }
    }

    /// How the bytes are split.
    #[must_use]
    pub const fn split(&self) -> &Split {
        &self.split
    }

    /// The pool of large bodies on their way in.
    #[must_use]
    pub const fn ingress(&self) -> &Arc<Pool> {
        &self.ingress
    }

    /// The pool of small bodies on their way in.
    #[must_use]
    pub const fn small(&self) -> &Arc<Pool> {
        &self.small
    }

    /// The pool of bodies on their way out. A component reserves here before it writes (B8): the charge goes with the body
    /// ([`Body::attach`](crate::body::Body::attach)).
    #[must_use]
    pub const fn egress(&self) -> &Arc<Pool> {
        &self.egress
    }

    /// The pool of handlers' scratch. A component reserves here before it parses (B8).
    #[must_use]
    pub const fn scratch(&self) -> &Arc<Pool> {
        &self.scratch
    }
}

/// One connection's shares of the pools.
#[derive(Debug)]
pub(super) struct Shares {
    ingress: Arc<Pool>,
    small: Arc<Pool>,
    egress: Arc<Pool>,
}

impl Shares {
    /// Bytes that the counters of three shares occupy, those of their `Arc`s included.
    pub(super) const BYTES: usize = 3 * (size_of::<Pool>() + 2 * size_of::<usize>());

    pub(super) fn of(resident: &Resident) -> Self {
        let split = resident.split();
        Self {
            ingress: Pool::share(&resident.ingress, split.ingress_share()),
            small: Pool::share(&resident.small, split.small_share()),
            egress: Pool::share(&resident.egress, split.egress_share()),
        }
    }

    /// B8: the pool for a body of `len` bytes. A small one that its slice has no room for may try the large ones' pool.
    pub(super) fn ingress(&self, len: u32) -> &Arc<Pool> {
        if len <= SMALL_BODY && self.small.free() >= len as usize { &self.small } else { &self.ingress }
    }

    pub(super) fn egress(&self, len: usize) -> Option<Charge> {
        self.egress.try_charge(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b8_the_split_adds_up_and_each_pool_takes_a_largest_frame_by_default() {
        for bytes in [Split::LEAST, Split::LEAST + 1, 100 << 20, 150 << 20, 256 << 20, 1 << 40, usize::MAX] {
            let split = Split::of(bytes).unwrap();
            let sum = [split.ingress, split.small, split.egress, split.scratch]
                .iter()
                .try_fold(0_usize, |a, b| a.checked_add(*b));
            assert!(sum.unwrap() <= bytes, "{split:?}");
            assert!(split.ingress >= MAX_BODY as usize && split.small >= SMALL_BODY as usize);
            assert!(split.egress_share() <= split.egress && split.ingress_share() <= split.ingress);
            assert!(split.small_share() <= split.small);
        }
        let split = Split::of(256 << 20).unwrap();
        assert_eq!(
            [split.ingress, split.small, split.egress, split.scratch].map(|b| b >> 20),
            [112, 16, 112, 16]
        );
        assert_eq!([split.small_share(), split.egress_share()].map(|b| b >> 20), [4, 88]);
        assert_eq!(Shares::BYTES, 3 * (size_of::<Pool>() + 16));
        assert_eq!(Split::LEAST, 67_698_688, "docs/limits.md");
        assert!(split.egress - split.egress_share() > 0, "one slow reader leaves something for the others");
        assert_eq!(Split::of(Split::LEAST - 1), None);
    }
}
