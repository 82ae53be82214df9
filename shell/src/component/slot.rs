//! One running request, as its handler and its connection both see it.
//!
//! Owns the stop flag and the wakers. Invariant: a stop is never lost: it is written before anyone is woken, and everyone who waits
//! has registered before looking. The lock is held for a few instructions, and never while a waker runs.

use super::context::{Link, Parked, RouteInfo};
use hostwire_core::host::{Parking, RequestId};
use slab::Slab;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct State {
    /// The handler asked to be told, and so has the grace.
    told: bool,
    /// The future is to be dropped, now.
    stop: bool,
    /// The handler's task.
    task: Option<Waker>,
    /// Whoever waits for the cancel, or for room.
    listeners: Slab<Option<Waker>>,
}

/// How a handler stands, as its task sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody wants it to end.
    Run,
    /// It has been told, as it asked to be; its grace runs.
    Told,
    /// Its future is to be dropped, now.
    Stop,
}

/// A request's flags and wakers.
pub(crate) struct Slot {
    request: Option<RequestId>,
    route: Arc<RouteInfo>,
    link: Arc<dyn Link>,
    /// The request is to end. Written under the lock, read without it for every item of a stream.
    cancelled: AtomicBool,
    /// Its handler has ended.
    ended: AtomicBool,
    parking: Parking,
    state: Mutex<State>,
}

impl Slot {
    pub(crate) fn new(
        request: Option<RequestId>,
        parking: Parking,
        route: Arc<RouteInfo>,
        link: Arc<dyn Link>,
    ) -> Self {
        let (cancelled, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { request, route, link, cancelled, ended, parking, state: Mutex::default() }
    }

    /// The request, as the core names it; a rehearsed one has no name.
    pub(crate) const fn request(&self) -> Option<RequestId> {
        self.request
    }

    pub(super) const fn route(&self) -> &Arc<RouteInfo> {
        &self.route
    }

    pub(super) fn link(&self) -> &dyn Link {
        self.link.as_ref()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a slot that nobody else holds any more ready for another request on its route.
    pub(crate) fn reuse(&mut self, request: RequestId) {
        self.request = Some(request);
        (*self.cancelled.get_mut(), *self.ended.get_mut()) = (false, false);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        (state.told, state.stop, state.task) = (false, false, None);
        state.listeners.clear(); // it keeps its memory
    }

    /// The handler has really ended: from here on it parks nowhere.
    pub(crate) fn ended(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// One of the component's parking places, if one is left (B7).
    pub(super) fn park(&self) -> Option<Parked> {
        if self.ended.load(Ordering::Acquire) {
            return None;
        }
        self.parking.park().map(|place| Parked { _place: place })
    }

    /// The request is to end: its handler is told if it asked for that, else its future is to be dropped at once (X1).
    pub(crate) fn cancel(&self) {
        let mut state = self.state();
        self.cancelled.store(true, Ordering::Release);
        state.stop |= !state.told;
        wake_all(state);
    }

    /// The grace is over: whatever the handler asked for, its future is to be dropped.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        self.cancelled.store(true, Ordering::Release);
        state.stop = true;
        wake_all(state);
    }

    /// Room for items may have appeared.
    pub(crate) fn room(&self) {
        wake_listeners(self.state());
    }

    /// How the handler stands; `task` is woken when that changes.
    pub(crate) fn poll_stop(&self, task: &Waker) -> Standing {
        let mut state = self.state();
        match &mut state.task {
            Some(known) => known.clone_from(task),
            none => *none = Some(task.clone()),
        }
        match (state.stop, self.is_cancelled()) {
            (true, _) => Standing::Stop,
            (false, true) => Standing::Told,
            (false, false) => Standing::Run,
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    fn be_told(&self) {
        let mut state = self.state();
        state.told |= !state.stop;
    }
}

fn wake_listeners(mut state: MutexGuard<'_, State>) {
    let wakers: Vec<Waker> = state.listeners.iter_mut().filter_map(|(_, waker)| waker.take()).collect();
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

fn wake_all(mut state: MutexGuard<'_, State>) {
    let task = state.task.take();
    wake_listeners(state);
    if let Some(task) = task {
        task.wake();
    }
}

/// A place among a slot's listeners, given back when dropped.
pub(crate) struct Listener {
    slot: Arc<Slot>,
    key: Option<usize>,
}

impl Listener {
    pub(crate) const fn new(slot: Arc<Slot>) -> Self {
        Self { slot, key: None }
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Registers `waker` for the cancel and for room; says whether the request is cancelled already.
    pub(crate) fn listen(&mut self, waker: &Waker) -> bool {
        let mut state = self.slot.state();
        if self.slot.is_cancelled() {
            return true;
        }
        match self.key.and_then(|key| state.listeners.get_mut(key)) {
            Some(Some(known)) => known.clone_from(waker),
            Some(empty @ None) => *empty = Some(waker.clone()),
            None => self.key = Some(state.listeners.insert(Some(waker.clone()))),
        }
        false
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.slot.state().listeners.try_remove(key);
        }
    }
}

/// Resolves when the request is to end: cancelled by its client, its route or connection gone, or the host shutting down.
///
/// Taking it ([`RequestContext::cancellation`](super::RequestContext::cancellation)) asks to be told instead of being dropped: from
/// the cancel on, the handler has the route-close grace (5 s by default) to end by itself; then its future is dropped as well.
/// Dropping the `Cancellation` does not take that back. Cancel-safe: once cancelled, it stays so.
#[must_use = "it says nothing unless it is awaited or asked"]
pub struct Cancellation(Listener);

impl Cancellation {
    pub(crate) fn new(slot: &Arc<Slot>) -> Self {
        slot.be_told();
        Self(Listener::new(Arc::clone(slot)))
    }

    /// Whether the request is to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.slot.is_cancelled()
    }
}

impl Clone for Cancellation {
    fn clone(&self) -> Self {
        Self(Listener::new(Arc::clone(&self.0.slot)))
    }
}

impl Future for Cancellation {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.listen(cx.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation").field("cancelled", &self.is_cancelled()).finish()
    }
}
