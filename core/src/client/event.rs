//! What a connection says.

use super::connection::Stage;
use super::pending::OpId;
use crate::body::Body;
use crate::fault::CloseReason;
use crate::negotiate::{FallbackReason, Grant};
use crate::outcome::Outcome;
use crate::wire::RouteHandle;

/// A fact, to be taken with `poll_event`. Facts wait in order and are never lost; a client that does not take them stops reading.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The transport is selected: routes can be opened (N5).
    Ready {
        /// What was selected.
        transport: Transport,
    },
    /// The host granted a candidate: dial it and go on there, with [`Connection::candidate`](super::Connection::candidate) (N6, N10).
    /// This connection carries nothing more; close it once the candidate is ready.
    Granted {
        /// Where it is and what lets us in.
        grant: Grant,
    },
    /// A request has its one final result (CC6).
    Settled {
        /// Which.
        op: OpId,
        /// The truth about it.
        outcome: Outcome,
        /// Bytes of its frame, header included, that the transport accepted.
        bytes_handed: u64,
    },
    /// A stream has items again: take them with `take_item` until it says otherwise.
    Readable {
        /// Which.
        op: OpId,
    },
    /// The host ended a route; its requests have been settled (R9).
    RouteGone {
        /// Which.
        route: RouteHandle,
    },
    /// The generation is over: the last event, once (CC6).
    Closed {
        /// Why (G5).
        reason: CloseReason,
        /// How far it had come.
        stage: Stage,
    },
}

/// The transport that a generation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The TCP connection that it began on.
    Tcp {
        /// Why not a candidate, if the host says so (N5, N12).
        reason: Option<FallbackReason>,
    },
    /// A granted and committed candidate (N11).
    Candidate,
}

/// One item of a stream.
#[derive(Debug)]
pub struct Item {
    /// The binary bit.
    pub binary: bool,
    /// The item, with its share of the retained budget.
    pub body: Body,
}

/// The front of a stream.
#[derive(Debug)]
pub enum StreamPoll {
    /// The next item, in order.
    Item(Item),
    /// None yet; `Event::Readable` will tell.
    Pending,
    /// All have been taken and the stream is settled, or it is not known.
    Ended,
}
