//! Where a result waits for its caller.
//!
//! Shared by a handle and the connection's table. The handle's drop only sets a flag here: no lock, no runtime, from any thread.

use super::result::Evidence;
use super::route::RouteGuard;
use crate::sync::lock;
use hostwire_core::body::Body;
use hostwire_core::outcome::Outcome;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// A final result, on its way to whoever asked.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) outcome: Outcome,
    pub(super) evidence: Evidence,
    /// The route that the outcome opened: closed again if nobody takes it.
    pub(super) route: Option<RouteGuard>,
}

/// What the two sides tell each other.
#[derive(Debug, Default)]
struct State {
    waiting: Option<Waker>,
    result: Option<Finished>,
}

impl State {
    /// Puts the caller down, unless its result is there; returns whom it replaces, to be dropped outside the lock.
    fn register(&mut self, cx: &Context<'_>) -> Option<Waker> {
        let waits = self.waiting.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if waits || self.result.is_some() { None } else { self.waiting.replace(cx.waker().clone()) }
    }
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<State>,
    abandoned: AtomicBool,
    /// The request's own, lent to the connection while it leaves, and kept in case that it has to be sent again (O4).
    body: Body,
}

/// What is lent.
impl AsRef<[u8]> for Slot {
    fn as_ref(&self) -> &[u8] {
        self.body.as_slice()
    }
}

impl Slot {
    pub(super) fn new(body: Body) -> Self {
        Self { state: Mutex::default(), abandoned: AtomicBool::new(false), body }
    }

    pub(super) fn settled(finished: Finished) -> Self {
        Self { state: Mutex::new(State { waiting: None, result: Some(finished) }), ..Self::default() }
    }

    /// Lends the body.
    pub(super) fn lend(self: &Arc<Self>) -> Body {
        if self.body.is_empty() { Body::default() } else { Body::from_owner(Arc::<Self>::clone(self)) }
    }

    /// The body, for another attempt or for the caller: itself if nobody else holds the slot any more, else lent.
    pub(super) fn reclaim(self: &mut Arc<Self>) -> Body {
        match Arc::get_mut(self) {
            Some(slot) => std::mem::take(&mut slot.body),
            None => self.lend(),
        }
    }

    /// Puts the result down and wakes the caller. Never called under the connection's lock.
    #[inline]
    pub(super) fn deliver(&self, finished: Finished) {
        let waiting = {
            let mut state = lock(&self.state);
            state.result = Some(finished); // CC6: the only one
            state.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// There is something to look at.
    pub(super) fn wake(&self) {
        let waiting = lock(&self.state).waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Registers the caller, unless the result is there.
    pub(super) fn listen(&self, cx: &Context<'_>) {
        let mut state = lock(&self.state);
        let before = state.register(cx);
        drop(state);
        drop(before);
    }

    #[inline]
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Finished> {
        let mut state = lock(&self.state);
        if let Some(finished) = state.result.take() {
            return Poll::Ready(finished);
        }
        let before = state.register(cx);
        drop(state);
        drop(before);
        Poll::Pending
    }

    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}
