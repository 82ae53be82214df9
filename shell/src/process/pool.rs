//! How many children may live at once, and who waits for room.
//!
//! Owns a number. Invariant: a slot is given back when its [`Slot`] is dropped, on every way out (PD28); waiting for one makes no process
//! (PD27).

use crate::host::bell::Bell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
struct Inner {
    free: AtomicUsize,
    bell: Bell,
}

/// Room for so many children. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

impl Pool {
    /// Room for `most` children.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Inner { free: AtomicUsize::new(most), bell: Bell::default() }))
    }

    /// Slots that are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.free.load(Ordering::Acquire)
    }

    /// A slot, if one is free.
    #[must_use]
    pub fn try_slot(&self) -> Option<Slot> {
        let taken = self.0.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1));
        taken.is_ok().then(|| Slot(Arc::clone(&self.0)))
    }

    /// Waits for a slot. Cancel-safe: dropped before it is ready, it has taken none, and no process was made.
    pub async fn slot(&self) -> Slot {
        self.0.bell.until(|| self.try_slot()).await
    }
}

/// Room for one child.
#[derive(Debug)]
pub struct Slot(Arc<Inner>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::AcqRel);
        self.0.bell.ring();
    }
}
