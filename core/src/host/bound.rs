//! What a host can hold, as a function of its limits (B1, CC9). docs/limits.md shows the formula.
//!
//! Tables keep the room that they once needed, so each connection is counted with all of the host's requests and routes in its own;
//! what lives once over the whole host is counted once.

use alloc::boxed::Box;
use core::mem::size_of;

use super::connection::{Connection, EVENT_ROOM};
use super::event::Event;
use super::output::Sent;
use super::registry::Registry;
use super::requests::{RequestId, Requests};
use super::resident::{Shares, Split};
use super::routes::Route;
use crate::auth::MAX_MESSAGE_BYTES;
use crate::control::{MAX_BODY_BYTES, MAX_CAPABILITIES, RouteOpen};
use crate::limits::HostLimits;
use crate::transmit::Outbox;

/// Reading one control body: its keys, and what is kept of it.
const READING: usize = 2 * MAX_BODY_BYTES;
/// Frames that wait beside terminals, items and refusals: an authentication message, a `Ping`, the refusal that reaches the limit, and the
/// success of a negotiation or a commit.
const OTHER_FRAMES: usize = 4;
/// Events beside those of requests and routes: active, room, the latch's two, the end.
const OTHER_EVENTS: usize = 5;

/// The body of a `route.open`'s success: its buffer doubles once from 64 bytes.
const OPENED_BYTES: usize = 128;

/// What a request occupies wherever it is: a decoded `route.open` beyond its charged text, or the body of its success.
const REQUEST: usize = size_of::<RouteOpen>() + MAX_CAPABILITIES * size_of::<Box<str>>() + OPENED_BYTES;

/// Room of a table of at most `n` rows: it doubles from four.
fn rows(n: usize) -> usize {
    n.max(4).next_power_of_two()
}

/// A connection that is not active: its handshake, one control body that is read without a permit, and the answer to it.
const fn setup() -> usize {
    size_of::<Connection>() + Shares::BYTES + 3 * MAX_MESSAGE_BYTES + MAX_BODY_BYTES + READING
}

/// The tables of one connection that once had all of the host's requests and routes.
fn tables(limits: &HostLimits) -> usize {
    let (requests, routes) = (limits.pending_requests, limits.routes);
    let all: [usize; 6] = [
        rows(requests) * Requests::ENTRY,
        rows(2 * requests) * Requests::ROW,
        // Each request one `Stop`; each route its end.
        rows(EVENT_ROOM + requests + routes + OTHER_EVENTS) * size_of::<Event>(),
        // Each request its terminal.
        rows(requests + 2 * limits.writer_frames + OTHER_FRAMES) * Outbox::<Sent>::node_bytes(),
        rows(routes) * Route::BYTES,
        // Those that wait for the latch, and those that are gone through at an end.
        2 * rows(requests) * size_of::<RequestId>(),
    ];
    // A table that grows is moved: half of it stands twice, one table at a time.
    all.iter().sum::<usize>() + all.iter().max().map_or(0, |largest| largest / 2)
}

/// One active connection without its bodies.
fn connection(limits: &HostLimits) -> usize {
    setup() + tables(limits)
}

/// One connection that has all of the host's requests, and its shares of the pools.
pub(super) fn alone(limits: &HostLimits, split: &Split) -> usize {
    let moved = split.ingress_share() / 2;
    connection(limits)
        + limits.pending_requests * REQUEST
        + split.ingress_share()
        + moved
        + split.small_share()
        + split.egress_share()
}

/// The host: every connection and, for each that a candidate takes over, its bootstrap; every request and route; the resident bytes, and
/// half of the large bodies on their way in, which are moved while they grow.
pub(super) fn host(limits: &HostLimits, split: &Split) -> usize {
    let moved = split.ingress / 2;
    let active = limits.connections.saturating_mul(connection(limits));
    let others = limits.connections.saturating_add(limits.handshakes).saturating_mul(setup());
    let shared = limits.pending_requests.saturating_mul(REQUEST) + Registry::bytes(rows(limits.routes));
    limits
        .resident_bytes
        .saturating_add(moved)
        .saturating_add(active)
        .saturating_add(others)
        .saturating_add(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(requests: usize, writer_frames: usize) -> HostLimits {
        HostLimits {
            handshakes: 3,
            connections: 5,
            routes: 252,
            pending_requests: requests,
            writer_frames,
            ..HostLimits::default()
        }
    }

    #[test]
    fn a_table_has_room_for_the_next_power_of_two_and_no_fewer_than_four() {
        assert_eq!([0, 1, 4, 5, 8, 1_024, 1_025].map(rows), [4, 4, 4, 8, 8, 1_024, 2_048]);
    }

    /// On both sides of each step, so that a row too many or too few shows.
    #[test]
    fn b1_the_tables_are_those_of_all_requests_and_routes() {
        let (notice, node) = (size_of::<Event>(), Outbox::<Sent>::node_bytes());
        // Requests, writer frames; rows of entries, of the index, of events, of frames.
        for (requests, frames, expected) in [
            (511, 255, [512, 1_024, 1_024, 2_048]),
            (512, 254, [512, 1_024, 2_048, 1_024]),
            (513, 1, [1_024, 2_048, 2_048, 1_024]),
        ] {
            let [entries, index, events, nodes] = expected;
            let all = [
                entries * Requests::ENTRY,
                index * Requests::ROW,
                events * notice,
                nodes * node,
                256 * Route::BYTES,
                2 * entries * size_of::<RequestId>(),
            ];
            let largest = (events * notice).max(nodes * node).max(entries * Requests::ENTRY);
            assert_eq!(tables(&limits(requests, frames)), all.iter().sum::<usize>() + largest / 2);
        }
    }

    #[test]
    fn b1_what_the_whole_host_has_once_is_counted_once() {
        let (limits, split) = (limits(512, 64), Split::of(Split::LEAST).unwrap());
        let request = size_of::<RouteOpen>() + 32 * 16 + 128;
        let body = 65_536;
        let inactive = size_of::<Connection>() + Shares::BYTES + 3 * 4_096 + 3 * body;
        assert_eq!((setup(), connection(&limits)), (inactive, inactive + tables(&limits)));
        assert_eq!(
            host(&limits, &split),
            limits.resident_bytes
                + split.ingress / 2
                + 5 * (inactive + tables(&limits))
                + 8 * inactive
                + 512 * request
                + Registry::bytes(256)
        );
        let shares =
            split.ingress_share() + split.ingress_share() / 2 + split.small_share() + split.egress_share();
        assert_eq!(alone(&limits, &split), inactive + tables(&limits) + 512 * request + shares);
    }
}
