//! Routes: where requests go.

use super::attempts::{Attempts, Operation, What};
use super::call::Call;
use super::handle::Client;
use super::request::Request;
use super::shared::Shared;
use super::stream::ResponseStream;
use crate::sync::lock;
use hostwire_core::auth::DaemonId;
use hostwire_core::body::Body;
use hostwire_core::control::RouteOpen;
use hostwire_core::time::Instant;
use hostwire_core::wire::RouteHandle;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A route in the table of its generation.
#[derive(Debug)]
pub(super) struct RouteSlot {
    handle: RouteHandle,
    abandoned: AtomicBool,
}

impl RouteSlot {
    pub(super) const fn new(handle: RouteHandle) -> Self {
        Self { handle, abandoned: AtomicBool::new(false) }
    }

    pub(super) const fn handle(&self) -> RouteHandle {
        self.handle
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}

/// Owns an open route: when it goes, the route is closed. Its drop takes no lock.
#[derive(Debug)]
pub(super) struct RouteGuard {
    shared: Arc<Shared>,
    slot: Arc<RouteSlot>,
}

impl RouteGuard {
    pub(super) const fn new(shared: Arc<Shared>, slot: Arc<RouteSlot>) -> Self {
        Self { shared, slot }
    }
}

impl Drop for RouteGuard {
    fn drop(&mut self) {
        self.slot.abandoned.store(true, Ordering::Release);
        self.shared.look_for_dropped();
    }
}

/// A route to a component of the host: cheap to clone.
///
/// **Drop.** When the last clone is gone, and no [`Call`] or [`ResponseStream`] of it lives, the route is closed: its `Goodbye`
/// goes out behind what was sent before. Dropping waits for nothing, takes no lock, and works outside a runtime and on any
/// thread. A route keeps its client's generation alive.
/// It belongs to one generation and ends with it (K1): from then on its requests are refused, `not_sent`; ask the client for another.
#[derive(Clone)]
pub struct Route {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    client: Client,
    /// How to ask for it again (O4).
    open: RouteOpen,
    live: Mutex<RouteGuard>,
    /// The live one's handle, to be read without a lock for each request.
    handle: AtomicU64,
}

/// Channel and epoch in one word.
fn packed(handle: RouteHandle) -> u64 {
    u64::from(handle.channel.value()) << 32 | u64::from(handle.epoch.value())
}

fn unpacked(word: u64) -> Option<RouteHandle> {
    let (channel, epoch) = (u16::try_from(word >> 32).ok()?, u32::try_from(word & 0xFFFF_FFFF).ok()?);
    RouteHandle::new(channel, epoch)
}

impl Route {
    pub(super) fn new(client: Client, open: RouteOpen, guard: RouteGuard) -> Self {
        let (shared, handle) = (Arc::clone(&guard.shared), AtomicU64::new(packed(guard.slot.handle)));
        Self { inner: Arc::new(Inner { shared, client, open, live: Mutex::new(guard), handle }) }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// The host does not know this route any more: asks for a fresh one in its place, once for all that find the old one gone. Returns
    /// whether there is one.
    pub(super) async fn reopen(&self, gone: RouteHandle, deadline: Instant) -> bool {
        let Inner { shared, client, open, live, handle } = &*self.inner;
        if lock(live).slot.handle != gone {
            return true;
        }
        let what = What::Control(Arc::clone(client.managed()), Operation::Open(Box::new(open.clone())));
        let mut attempts = Attempts::new(what, Body::default(), shared.now(), deadline);
        let opened = poll_fn(|cx| attempts.poll(cx)).await.route;
        // K1: another generation's route is another route.
        let Some(fresh) = opened.filter(|fresh| Arc::ptr_eq(&fresh.shared, shared)) else { return false };
        let surplus = {
            let mut live = lock(live);
            if live.slot.handle == gone {
                handle.store(packed(fresh.slot.handle), Ordering::Release);
                std::mem::replace(&mut *live, fresh)
            } else {
                fresh
            }
        };
        drop(surplus);
        true
    }

    /// Channel and epoch: the route's identity within its incarnation (O7). It changes when the route had to be opened again after
    /// `unknown_channel`.
    #[must_use]
    pub fn handle(&self) -> RouteHandle {
        let Inner { live, handle, .. } = &*self.inner;
        unpacked(handle.load(Ordering::Acquire)).unwrap_or_else(|| lock(live).slot.handle)
    }

    /// The incarnation of the host that the route belongs to (O7). A request of unknown outcome may be repeated by an application
    /// only while this and [`Route::handle`] are the same.
    #[must_use]
    pub fn daemon_id(&self) -> DaemonId {
        self.shared().daemon_id()
    }

    /// The client that it was opened on.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Whether requests can still be made on it.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.shared().is_live(self.handle())
    }

    /// Sends a request that expects one answer. It is admitted, or refused, before this returns; nothing waits for the future to
    /// be polled.
    ///
    /// See [`Call`] for what dropping it means.
    pub fn request(&self, request: impl Into<Request>) -> Call {
        Call::new(self.clone(), request.into())
    }

    /// Sends a request that expects a stream, admitted or refused before this returns.
    ///
    /// See [`ResponseStream`] for what dropping it means.
    pub fn stream(&self, request: impl Into<Request>) -> ResponseStream {
        ResponseStream::new(self.clone(), request.into())
    }

    /// Ends the route now, for all clones: requests without a result settle by what has left of them, and the host is told (R6, R9).
    /// Repeats do nothing.
    pub fn close(&self) {
        let handle = self.handle();
        self.shared().command(|conn, now| conn.close_route(now, handle));
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("handle", &self.handle()).field("daemon_id", &self.daemon_id()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_in_one_word_is_the_same_handle() {
        for (channel, epoch) in [(1, 1), (u16::MAX, u32::MAX), (7, u32::MAX), (u16::MAX, 1)] {
            let handle = RouteHandle::new(channel, epoch).unwrap();
            assert_eq!(unpacked(packed(handle)), Some(handle));
        }
    }
}
