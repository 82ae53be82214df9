//! Routes: where requests go.

use super::call::Call;
use super::handle::Client;
use super::request::Request;
use super::shared::Shared;
use super::stream::ResponseStream;
use hostwire_core::auth::DaemonId;
use hostwire_core::wire::RouteHandle;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
#[derive(Clone)]
pub struct Route {
    inner: Arc<Inner>,
}

struct Inner {
    guard: RouteGuard,
    client: Client,
}

impl Route {
    pub(super) fn new(client: Client, guard: RouteGuard) -> Self {
        Self { inner: Arc::new(Inner { guard, client }) }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.inner.guard.shared
    }

    /// Channel and epoch: the route's identity within its incarnation (O7).
    #[must_use]
    pub fn handle(&self) -> RouteHandle {
        self.inner.guard.slot.handle
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
