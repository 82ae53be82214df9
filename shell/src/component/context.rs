//! What a component is given with each callback.
//!
//! Owns the component's view of a route and of a request. Never holds a lock while the component's code runs, and never shows an
//! identity value, a body or a nonce in `Debug` (Z1).

use super::reply::ErrorReply;
use super::slot::{Cancellation, Listener, Slot};
use super::timer::Timer;
use hostwire_core::body::Body;
use hostwire_core::budget::Charge;
use hostwire_core::control::RouteOpen;
use hostwire_core::host::{self, RequestId};
use hostwire_core::wire::{Priority, RouteHandle};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What became of an item that a handler tried to send.
pub(crate) enum TrySend {
    /// It stands in the output queue.
    Queued,
    /// There is no room now; the item is given back.
    Full(Body),
    /// It cannot be queued, now or later.
    Refused(SendError),
}

/// What a request's context needs of whoever runs it.
pub(crate) trait Link: Send + Sync {
    /// Queues one stream item, if there is room.
    fn try_send(&self, request: Option<RequestId>, binary: bool, item: Body) -> TrySend;
    /// Calls [`Slot::room`] when a later [`Link::try_send`] may find room.
    fn wait_for_room(&self, slot: &Arc<Slot>);
    /// Draws on the egress pool (B8).
    fn charge_egress(&self, bytes: usize) -> Option<Charge>;
    /// Draws on the scratch pool (B8).
    fn charge_scratch(&self, bytes: usize) -> Option<Charge>;
}

/// A route as its component knows it.
pub struct RouteInfo {
    pub(crate) handle: RouteHandle,
    pub(crate) open: RouteOpen,
    pub(crate) timer: Timer,
}

impl RouteInfo {
    /// Channel and epoch: unique within this incarnation of the host, and never reused (R1).
    #[must_use]
    pub const fn handle(&self) -> RouteHandle {
        self.handle
    }

    /// What the client asked for: target, identity, capabilities, admission facts. Claims, all of them: they scope state and grant
    /// nothing (T2).
    #[must_use]
    pub const fn open(&self) -> &RouteOpen {
        &self.open
    }
}

impl fmt::Debug for RouteInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteInfo").field("handle", &self.handle).finish_non_exhaustive() // Z1
    }
}

/// A route that asks to be bound.
///
/// Cloning is cheap. Dropping it means nothing: the answer is what `bind` returns.
#[derive(Clone, Debug)]
pub struct BindContext {
    pub(crate) route: Arc<RouteInfo>,
}

impl BindContext {
    /// The handle that the route will have once it stands.
    #[must_use]
    pub fn handle(&self) -> RouteHandle {
        self.route.handle
    }

    /// The typed request.
    #[must_use]
    pub fn open(&self) -> &RouteOpen {
        &self.route.open
    }

    /// The route, to be kept; the same value comes with each of its requests and with `route_gone`.
    #[must_use]
    pub fn route(&self) -> &Arc<RouteInfo> {
        &self.route
    }

    /// The host's clock.
    #[must_use]
    pub fn timer(&self) -> &Timer {
        &self.route.timer
    }
}

/// One request: what it says, and what may be done on its behalf.
///
/// It may be moved into the handler's future, or dropped at any time: the request is answered by what the handler returns, and
/// a context that outlives its request only finds every [`RequestContext::send`] ended.
pub struct RequestContext {
    pub(crate) slot: Arc<Slot>,
    pub(crate) binary: bool,
    pub(crate) priority: Priority,
    pub(crate) body: Body,
}

impl RequestContext {
    /// The route it came on.
    #[must_use]
    pub fn route(&self) -> &Arc<RouteInfo> {
        self.slot.route()
    }

    /// That route's handle.
    #[must_use]
    pub fn handle(&self) -> RouteHandle {
        self.slot.route().handle
    }

    /// The binary bit.
    #[must_use]
    pub const fn binary(&self) -> bool {
        self.binary
    }

    /// The priority that its client gave it: a hint.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// The body. It holds its share of the host's ingress budget until it is dropped (B8).
    #[must_use]
    #[inline]
    pub const fn body(&self) -> &Body {
        &self.body
    }

    /// Takes the body out; what stays is empty.
    #[must_use]
    #[inline]
    pub fn take_body(&mut self) -> Body {
        std::mem::take(&mut self.body)
    }

    /// The host's clock.
    #[must_use]
    pub fn timer(&self) -> &Timer {
        &self.slot.route().timer
    }

    /// Asks to be told of a cancel, instead of being dropped by it.
    ///
    /// Without this call, a cancelled handler's future is dropped at once, wherever it stands. With it, the future goes on for up to the
    /// route-close grace after the cancel (X1); the permit stays taken, and the client gets `cancelled`, when it has really ended.
    ///
    /// Ask before the future is returned: a cancel can come before its first poll, and finds one that has not asked.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation::new(&self.slot)
    }

    /// Whether the request is to end. Costs nothing and asks for nothing.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.slot.is_cancelled()
    }

    /// Sends one stream item, with the request's own binary bit; waits while the connection's output has no room.
    ///
    /// After an item only an end or an error may follow: a response becomes `internal_error`. Cancel safety: dropped before it is
    /// ready, the item was not sent; it is never sent in part.
    ///
    /// # Errors
    /// [`SendError`]; at once when the request is cancelled, however full the output is (B083).
    pub fn send(&self, item: impl Into<Body>) -> Sending<'_> {
        self.send_as(self.binary, item)
    }

    /// As [`RequestContext::send`], with a binary bit of one's own.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send_as(&self, binary: bool, item: impl Into<Body>) -> Sending<'_> {
        Sending { cx: self, listener: None, binary, item: Some(item.into()) }
    }

    /// Reserves output space for `bytes` before they are made (B8). `None`: the pool has not that much left now.
    /// Given back when it is dropped, or with the body that it becomes.
    #[must_use]
    pub fn reserve_output(&self, bytes: usize) -> Option<OutputSpace> {
        self.slot.link().charge_egress(bytes).map(OutputSpace)
    }

    /// Reserves `bytes` of scratch memory before something is parsed or built (B8). `None`: the pool has not that much left now.
    #[must_use]
    pub fn reserve_scratch(&self, bytes: usize) -> Option<Scratch> {
        self.slot.link().charge_scratch(bytes).map(Scratch)
    }

    /// Says that the handler is about to wait for something inside (a lock, a storage that is opening): it holds its task permit while it
    /// waits, and a component holds at most as many of them as it declared (B7). Ask before anything is done on the request's behalf.
    ///
    /// # Errors
    /// [`ParkRefused`]: over the declared number. To be returned as the answer: it becomes `server_busy`, which tells the client that
    /// nothing ran.
    pub fn park(&self) -> Result<Parked, ParkRefused> {
        self.slot.park().ok_or(ParkRefused(()))
    }
}

impl fmt::Debug for RequestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestContext")
            .field("route", &self.handle())
            .field("binary", &self.binary)
            .field("priority", &self.priority)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

/// Why an item was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The request is cancelled, or has ended.
    #[error("the request has ended")]
    Ended,
    /// The item is over 64 MiB (W7).
    #[error("the item is over 64 MiB")]
    TooLarge,
    /// The egress pool has no room for it, and nothing that waits on this connection could make some (B8). Reserving first
    /// ([`RequestContext::reserve_output`]) avoids it.
    #[error("no memory for the item")]
    NoMemory,
}

/// The future of [`RequestContext::send`]. Dropped before it is ready: the item was not sent.
#[must_use = "an item is sent by awaiting"]
pub struct Sending<'a> {
    cx: &'a RequestContext,
    listener: Option<Listener>,
    binary: bool,
    item: Option<Body>,
}

impl Future for Sending<'_> {
    type Output = Result<(), SendError>;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(item) = this.item.take() else { return Poll::Ready(Err(SendError::Ended)) };
        if this.cx.slot.is_cancelled() {
            return Poll::Ready(Err(SendError::Ended)); // B083
        }
        let link = this.cx.slot.link();
        let request = this.cx.slot.request();
        let item = match link.try_send(request, this.binary, item) {
            TrySend::Queued => return Poll::Ready(Ok(())),
            TrySend::Refused(why) => return Poll::Ready(Err(why)),
            TrySend::Full(item) => item,
        };
        // Registered first, tried again after: room that appears in between is not missed.
        let listener = this.listener.get_or_insert_with(|| Listener::new(Arc::clone(&this.cx.slot)));
        if listener.listen(task.waker()) {
            return Poll::Ready(Err(SendError::Ended));
        }
        link.wait_for_room(listener.slot());
        match link.try_send(request, this.binary, item) {
            TrySend::Queued => Poll::Ready(Ok(())),
            TrySend::Refused(why) => Poll::Ready(Err(why)),
            TrySend::Full(item) => {
                this.item = Some(item);
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for Sending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("item", &self.item).finish_non_exhaustive()
    }
}

/// Reserved output space; given back when dropped.
#[derive(Debug)]
pub struct OutputSpace(Charge);

impl OutputSpace {
    /// Bytes reserved.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.0.amount()
    }

    /// The body that was made under this reservation: it holds the space until it has left or is dropped. What it does not need is
    /// given back.
    #[must_use]
    pub fn fill(mut self, bytes: Vec<u8>) -> Body {
        self.0.shrink_to(bytes.len());
        Body::charged(bytes, Some(self.0))
    }
}

/// Reserved scratch memory; given back when dropped.
#[derive(Debug)]
pub struct Scratch(Charge);

impl Scratch {
    /// Bytes reserved.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.0.amount()
    }
}

/// A place among the component's parked tasks; given back when dropped.
#[derive(Debug)]
pub struct Parked {
    pub(super) _place: host::Parked,
}

/// The component holds as many parked tasks as it declared. Its only use is to be returned: `Err(ParkRefused)` becomes the answer
/// `server_busy`, which no handler can say by itself (B11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the component holds as many parked tasks as it declared")]
pub struct ParkRefused(pub(super) ());

impl From<ParkRefused> for ErrorReply {
    fn from(_: ParkRefused) -> Self {
        Self::busy()
    }
}
