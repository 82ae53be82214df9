//! The run directory's hold: lock, record, publication.
//!
//! Owns the [`Tenure`]. Every task that runs a component's code holds the [`Keep`], so the lock is free only when the last of them has
//! really ended (P1, H4), in whatever order a dying runtime drops them. Steps on it block on the file system.

use crate::discovery::{HostFileError, Removal, Retired, Tenure, unix_now_ms};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The hold on the run directory. The last one that is dropped removes the record and frees the lock (P7).
#[derive(Clone)]
pub(super) struct Keep(Arc<Mutex<Stage>>);

enum Stage {
    /// Starting or running.
    Here(Tenure),
    /// `stopping` and unpublished.
    Leaving(Retired),
    /// Between the two; a panic there leaves the files as they are.
    Moving,
}

/// A way to the hold that does not prolong it.
#[derive(Clone)]
pub(super) struct WeakKeep(Weak<Mutex<Stage>>);

impl WeakKeep {
    pub(super) fn upgrade(&self) -> Option<Keep> {
        self.0.upgrade().map(Keep)
    }

    /// As [`Keep::retire`]; true if nothing is left to retire.
    pub(super) fn retire(&self) -> bool {
        self.upgrade().is_none_or(|keep| keep.retire())
    }
}

impl Keep {
    pub(super) fn downgrade(&self) -> WeakKeep {
        WeakKeep(Arc::downgrade(&self.0))
    }

    pub(super) fn new(tenure: Tenure) -> Self {
        Self(Arc::new(Mutex::new(Stage::Here(tenure))))
    }

    fn with<T>(&self, f: impl FnOnce(&mut Stage) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Publishes, then `running` (P7). False: the host is on its way out already.
    pub(super) fn publish(&self, port: NonZeroU16) -> Result<bool, HostFileError> {
        self.with(|stage| match stage {
            Stage::Here(tenure) => tenure.publish(port, unix_now_ms()).map(|()| true),
            Stage::Leaving(_) | Stage::Moving => Ok(false),
        })
    }

    /// P9: a record that says `starting` or `stopping` is renewed. What fails here is tried again at the next turn.
    pub(super) fn renew(&self) -> Result<(), HostFileError> {
        self.with(|stage| match stage {
            Stage::Here(tenure) => tenure.renew(unix_now_ms()),
            Stage::Leaving(retired) => retired.renew(unix_now_ms()),
            Stage::Moving => Ok(()),
        })
    }

    /// `stopping` first, then unpublish (P7); the second time nothing. False if either failed.
    pub(super) fn retire(&self) -> bool {
        self.with(|stage| match std::mem::replace(stage, Stage::Moving) {
            Stage::Here(tenure) => {
                let retired = tenure.retire(unix_now_ms());
                let clean =
                    matches!(retired.outcome(), Ok(Removal::Removed | Removal::Missing | Removal::NotOurs));
                *stage = Stage::Leaving(retired);
                clean
            }
            before @ (Stage::Leaving(_) | Stage::Moving) => {
                *stage = before;
                true
            }
        })
    }
}
