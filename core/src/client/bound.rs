//! What a client's connection can hold, as a function of its limits (B1, CC9).

use super::connection::{Connection, EVENT_BACKLOG, Owner};
use super::event::{Event, Item};
use super::pending::{Items, Pending};
use crate::limits::{CONTROL_SLOTS, ClientLimits};
use crate::transmit::Outbox;
use crate::wire::{Epoch, HEADER_LEN, MAX_CONTROL_BODY};
use core::mem::size_of;

impl Connection {
    /// The most bytes of heap that a connection with these limits holds at once, bodies included (CC9).
    ///
    /// Frames queued and their bodies, twice over while a started one is joined by its successors; answers and items retained, half as
    /// much again while the largest is moved to a larger buffer; the tables at their limits; one control body and the handshake.
    #[must_use]
    pub const fn memory_bound(limits: &ClientLimits) -> usize {
        let bodies = limits.queued_bytes + limits.retained_bytes + limits.retained_bytes / 2;
        let slots = limits.pending_requests + limits.live_streams;
        let events = 3 * (EVENT_BACKLOG + limits.pending_requests + 1) * size_of::<Event>();
        let items =
            limits.live_streams * (size_of::<Items>() + 2 * (limits.stream_items + 4) * size_of::<Item>());
        let frames = 3 * (limits.data_slots + 1) * Outbox::<Owner>::node_bytes();
        let control = 2 * CONTROL_SLOTS * (HEADER_LEN + size_of::<Owner>() + 8);
        let routes = 6 * 65_536 * (size_of::<(u16, Epoch)>() + 1);
        let fixed = 2 * MAX_CONTROL_BODY as usize + 4 * 4_096;
        bodies + slots * Pending::entry_bytes() + events + items + frames + control + routes + fixed
    }
}

#[cfg(test)]
mod tests {
    use super::super::pending::Op;
    use super::*;

    const NONE: ClientLimits = ClientLimits {
        pending_requests: 0,
        live_streams: 0,
        stream_items: 0,
        data_slots: 0,
        queued_bytes: 0,
        retained_bytes: 0,
        error_message: 0,
    };

    #[test]
    fn b1_each_limit_counts_with_what_one_of_its_units_occupies() {
        let (entry, event, item) = (Pending::entry_bytes(), size_of::<Event>(), size_of::<Item>());
        let stream = entry + size_of::<Items>();
        let frame = Outbox::<Owner>::node_bytes();
        let most = |limits: ClientLimits| Connection::memory_bound(&limits);
        let nothing = 3 * 257 * event
            + 3 * frame
            + 64 * (21 + size_of::<Owner>() + 8)
            + 6 * 65_536 * (size_of::<(u16, Epoch)>() + 1)
            + 2 * 65_536
            + 4 * 4_096;
        assert_eq!(most(NONE), nothing);
        assert_eq!(
            entry,
            3 * (size_of::<Op>() + 16 + 24 + 16) + 6 * 5,
            "slab, places and heap of the timers; the map by correlation"
        );
        for (limits, more) in [
            (ClientLimits { queued_bytes: 1_000, ..NONE }, 1_000),
            (ClientLimits { retained_bytes: 1_000, ..NONE }, 1_500),
            (ClientLimits { pending_requests: 10, ..NONE }, 10 * (entry + 3 * event)),
            (ClientLimits { live_streams: 10, ..NONE }, 10 * stream + 10 * 8 * item),
            (ClientLimits { live_streams: 10, stream_items: 7, ..NONE }, 10 * stream + 10 * 22 * item),
            (ClientLimits { data_slots: 10, ..NONE }, 30 * frame),
        ] {
            assert_eq!(most(limits) - nothing, more, "{limits:?}");
        }
    }
}
