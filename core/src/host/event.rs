//! What a connection tells its embedder, and what it answers to an embedder's command.

use alloc::boxed::Box;

use super::admission::TaskPermit;
use super::requests::RequestId;
use crate::body::Body;
use crate::control::{RouteClass, RouteOpen};
use crate::fault::CloseReason;
use crate::negotiate::Offer;
use crate::wire::{Priority, RouteHandle};

/// Why a handler is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// Its client cancelled: whatever it still answers, its terminal is `cancelled` (X1).
    Cancelled,
    /// Its client closed the route; a real terminal within the close budget still counts (R6).
    RouteClosed,
    /// The host shuts down; a real terminal within the drain still counts (§17).
    Draining,
    /// The connection is gone; nobody reads an answer (K2).
    ConnectionLost,
}

/// What happened. Bounded: input waits while too many are untaken.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Authenticated, and the transport is selected: requests may come (N1, N5).
    Active,
    /// The first eligible offer is of an installed candidate: prepare it, then answer with
    /// [`grant_candidate`](super::Connection::grant_candidate) or [`decline_candidate`](super::Connection::decline_candidate), within
    /// the setup's deadline (N6, N7).
    CandidateWanted {
        /// The offer.
        offer: Offer,
    },
    /// A valid `route.open` holds its pending permit (R1). Claim a channel, call `bind`, then answer with
    /// [`accept_route`](super::Connection::accept_route) or [`reject_route`](super::Connection::reject_route).
    RouteOpen {
        /// What to answer.
        id: RequestId,
        /// The target and the identity, as the client claims them (T2).
        open: Box<RouteOpen>,
        /// The target's place in the table of targets.
        component: usize,
        /// The class that its route will draw from.
        class: RouteClass,
    },
    /// The connection ended while this bind was out: close the claim; its end publishes nothing.
    RouteOpenWithdrawn {
        /// Which.
        id: RequestId,
    },
    /// A routed request holds its permits: run the handler.
    Request {
        /// What to answer.
        id: RequestId,
        /// Its route.
        route: RouteHandle,
        /// The component that the route is bound to.
        component: usize,
        /// The body is not text.
        binary: bool,
        /// A hint.
        priority: Priority,
        /// The body, opaque (Q6), with its share of the ingress pool.
        body: Body,
        /// Drop it when the handler has really ended (B9).
        permit: TaskPermit,
    },
    /// Stop this handler, join it, then say [`stopped`](super::Connection::stopped) (X1).
    Stop {
        /// Which.
        id: RequestId,
        /// Why.
        why: StopReason,
    },
    /// A route has ended and its handlers have been told: settle its work, then call `route_gone` once, then release its channel (R6, K2).
    RouteClosed {
        /// Which.
        route: RouteHandle,
        /// The component that it was bound to.
        component: usize,
    },
    /// A stream item was refused for want of room, and there is room again.
    Room,
    /// The response to `host.shutdown` has been handed to its socket: the shutdown begins (H1). Once a host. Tell every connection by
    /// [`latch_moved`](super::Connection::latch_moved), so that whoever waits gets its own success (H3).
    ShutdownCommitted,
    /// The shutdown's response did not get out; the latch is open again (H2). Tell every connection by
    /// [`latch_moved`](super::Connection::latch_moved), so that one that waits takes its place (H3).
    ShutdownReopened,
    /// The end, and always the last event (CC6).
    Closed {
        /// Why (G5).
        reason: CloseReason,
    },
}

impl Event {
    /// The request that it hands over, if it does.
    pub(super) const fn hands_over(&self) -> Option<RequestId> {
        if let Self::Request { id, .. } | Self::RouteOpen { id, .. } = self { Some(*id) } else { None }
    }
}

/// Why a stream item was not queued; the body comes back.
#[derive(Debug)]
pub struct ItemRefused {
    /// Why.
    pub why: ItemRefusal,
    /// The item.
    pub body: Body,
}

/// Why a stream item was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ItemRefusal {
    /// As many items as may wait do: try again after [`Event::Room`].
    #[error("as many stream items wait as may")]
    Full,
    /// The egress pool has no room for it, and nothing of this connection's that could make some: the stream has ended with
    /// `internal_error`. Reserving before writing avoids it (B8).
    #[error("no memory for the stream item")]
    NoMemory,
    /// Over 64 MiB: the stream has ended with `internal_error`.
    #[error("the stream item is over 64 MiB")]
    TooLarge,
    /// The request was told to stop, has its terminal, or went with its connection (B083).
    #[error("nobody wants the stream item any more")]
    Stopped,
}

/// The command came too late: its request was told to stop or has ended, or the connection is gone. Nothing was sent for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("too late: the request has ended")]
pub struct TooLate;
