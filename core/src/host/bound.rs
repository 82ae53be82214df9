//! What a host can hold, as a function of its limits (B1, CC9). docs/limits.md shows the formula.

use core::mem::size_of;

use super::connection::{Connection, EVENT_ROOM};
use super::event::Notice;
use super::output::Sent;
use super::requests::Entry;
use super::routes::Route;
use crate::control::MAX_BODY_BYTES;
use crate::limits::HostLimits;
use crate::transmit::Outbox;

/// Head, body and bookkeeping of a queued frame, without the body's bytes.
const FRAME: usize = Outbox::<Sent>::node_bytes();
/// Vectors grow by doubling: at most this many times what they hold.
const SLACK: usize = 2;

/// A request in all its tables: entry, index row, two events, its queued terminal.
const fn request() -> usize {
    size_of::<Entry>() + 24 + 2 * size_of::<Notice>() + FRAME
}

/// A route in all its tables: the connection's, the registry's, its end's event.
const fn route() -> usize {
    size_of::<Route>() + size_of::<Notice>() + 128
}

/// One connection without what its requests, routes and bodies occupy: those are bounded over the whole host.
const fn connection(limits: &HostLimits) -> usize {
    // The control body that is being read before the selection; refusals and items that wait; untaken events.
    size_of::<Connection>()
        + MAX_BODY_BYTES
        + SLACK * (2 * limits.writer_frames * FRAME + EVENT_ROOM * size_of::<Notice>())
}

/// One connection that has all of the host's requests and routes for itself, without bodies.
pub(super) const fn fixed(limits: &HostLimits) -> usize {
    connection(limits) + SLACK * (limits.pending_requests * request() + limits.routes * route())
}

/// The host: every connection, every request and route once per connection's table that may have grown for it, and the resident bytes.
pub(super) const fn host(limits: &HostLimits) -> usize {
    let connections = limits.connections + limits.handshakes;
    limits.resident_bytes.saturating_add(connections.saturating_mul(fixed(limits)))
}
