//! Where a result waits for its caller.
//!
//! Shared by a handle and the connection's table. The handle's drop only sets a flag here: no lock, no runtime, from any thread.

use super::result::Evidence;
use super::route::RouteGuard;
use crate::sync::lock;
use atomic_waker::AtomicWaker;
use hostwire_core::outcome::Outcome;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// A final result, on its way to whoever asked.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) outcome: Outcome,
    pub(super) evidence: Evidence,
    /// The route that the outcome opened: closed again if nobody takes it.
    pub(super) route: Option<RouteGuard>,
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    result: Mutex<Option<Finished>>,
    waker: AtomicWaker,
    abandoned: AtomicBool,
}

impl Slot {
    pub(super) fn settled(finished: Finished) -> Self {
        Self { result: Mutex::new(Some(finished)), ..Self::default() }
    }

    /// Puts the result down and wakes the caller. Never called under the connection's lock.
    pub(super) fn deliver(&self, finished: Finished) {
        *lock(&self.result) = Some(finished);
        self.waker.wake();
    }

    /// There is something to look at.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    pub(super) fn listen(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
    }

    pub(super) fn take(&self) -> Option<Finished> {
        lock(&self.result).take()
    }

    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Finished> {
        if let Some(finished) = self.take() {
            return Poll::Ready(finished);
        }
        self.listen(cx);
        // It may have come between the two.
        self.take().map_or(Poll::Pending, Poll::Ready)
    }

    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}
