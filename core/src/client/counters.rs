//! What a client's connection counts (Z2).

use crate::counters::{Settlements, Traffic};

/// A snapshot of a connection's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Whole frames and bytes received.
    pub received: Traffic,
    /// Whole frames and bytes accepted by the transport.
    pub sent: Traffic,
    /// Requests by how they ended.
    pub settlements: Settlements,
    /// Frames for requests that are not pending (F2, F5).
    pub dropped_unmatched: u64,
    /// `Push` frames.
    pub dropped_push: u64,
    /// `Cancel` frames that had no slot (X3).
    pub cancels_unsent: u64,
    /// Streams that were saturated (B4).
    pub saturated: u64,
    /// Answers whose body had no room (B4).
    pub discarded: u64,
    /// The most requests pending at once.
    pub pending_high_water: usize,
    /// The most streams live at once.
    pub streams_high_water: usize,
    /// The most bytes queued at once.
    pub queued_high_water: usize,
    /// The most bytes retained at once.
    pub retained_high_water: usize,
}
