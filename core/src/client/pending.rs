//! The table of requests: found by slot for the caller, by correlation for the host's answers.
//!
//! Invariant: every entry that is pending has its correlation in the index and its deadline in the timers; a settled stream that still holds
//! items has neither (X6, B5).

use super::event::Item;
use crate::hash::FixedState;
use crate::time::Instant;
use crate::timers::Timers;
use crate::transmit::FrameKey;
use crate::wire::{Correlation, RouteHandle};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::hash::BuildHasher;
use core::mem::size_of;
use hashbrown::HashTable;
use slab::Slab;

/// Names an operation of one connection, until its result has been taken and, for a stream, its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId {
    pub(super) slot: u32,
    pub(super) serial: u32,
}

impl OpId {
    /// A small number that no other living operation of the connection has: an index for a table of waiters.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.slot as usize
    }
}

/// What the request asked for.
#[derive(Debug)]
pub(super) enum Kind {
    Unary,
    /// Boxed: it is large, and most requests are none.
    Stream(Box<Items>),
    RouteOpen,
    Catalog,
    Shutdown,
}

/// A stream's unread items.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) queue: VecDeque<Item>,
    /// All that ever arrived.
    pub(super) received: u64,
    /// `Event::Readable` is under way.
    pub(super) told: bool,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No result yet.
    Pending,
    /// `Cancel` was sent and the caller waits for proof (X4).
    Confirming,
    /// Settled; only a stream with unread items stays in this state (B5).
    Settled,
}

#[derive(Debug)]
pub(super) struct Op {
    pub(super) serial: u32,
    pub(super) corr: Correlation,
    /// None on the control channel.
    pub(super) route: Option<RouteHandle>,
    pub(super) kind: Kind,
    pub(super) phase: Phase,
    /// Its frame, while it waits and has not begun.
    pub(super) frame: Option<FrameKey>,
    /// Bytes of its frame that the transport accepted.
    pub(super) handed: u64,
    /// A failed or unanswered write may have taken some more (CC8).
    pub(super) tainted: bool,
}

impl Op {
    /// O1: the proof that no byte can have reached the socket.
    pub(super) const fn never_left(&self) -> bool {
        self.handed == 0 && !self.tainted
    }
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    ops: Slab<Op>,
    /// Slots by correlation.
    by_corr: HashTable<u32>,
    timers: Timers,
    serials: u32,
    streams: usize,
}

impl Pending {
    /// What the next request admitted will be called.
    pub(super) fn vacant(&self) -> Option<OpId> {
        let slot = u32::try_from(self.ops.vacant_key()).ok()?;
        Some(OpId { slot, serial: self.serials.wrapping_add(1) })
    }

    /// Admits a request under the name that [`vacant`](Self::vacant) gave for it. The caller has checked the limits and that its deadline
    /// lies ahead.
    #[inline]
    pub(super) fn insert(&mut self, id: OpId, op: Op, deadline: Instant) {
        self.serials = id.serial;
        self.streams += usize::from(matches!(op.kind, Kind::Stream(_)));
        let hash = hash_of(op.corr);
        self.ops.insert(op);
        let ops = &self.ops;
        let again = |slot: &u32| ops.get(*slot as usize).map_or(0, |op| hash_of(op.corr));
        self.by_corr.insert_unique(hash, id.slot, again); // Q1: no other has this correlation
        self.timers.arm(id.slot, deadline);
    }

    pub(super) fn get(&self, id: OpId) -> Option<&Op> {
        self.ops.get(id.slot()).filter(|op| op.serial == id.serial)
    }

    pub(super) fn get_mut(&mut self, id: OpId) -> Option<&mut Op> {
        self.ops.get_mut(id.slot()).filter(|op| op.serial == id.serial)
    }

    /// Q4: the whole identity, and a request of which something may have left.
    #[inline]
    pub(super) fn matching(&self, route: Option<RouteHandle>, corr: Correlation) -> Option<(OpId, &Op)> {
        let is_its = |slot: &u32| self.ops.get(*slot as usize).is_some_and(|op| op.corr == corr);
        let slot = *self.by_corr.find(hash_of(corr), is_its)?;
        let op = self.ops.get(slot as usize)?;
        // Q4: the whole identity. A terminal for a request that has not left answers nothing.
        (op.route == route && !op.never_left()).then_some((OpId { slot, serial: op.serial }, op))
    }

    /// A request without a result.
    pub(super) fn unsettled(&self, id: OpId) -> Option<&Op> {
        self.get(id).filter(|op| op.phase != Phase::Settled)
    }

    /// Ends a request's pendency: no index entry, no timer. A stream that holds items stays, settled.
    pub(super) fn settle(&mut self, id: OpId) {
        let Some(op) = self.get_mut(id) else { return };
        let hash = hash_of(op.corr);
        if matches!(&op.kind, Kind::Stream(items) if !items.queue.is_empty()) {
            op.phase = Phase::Settled;
            op.frame = None;
        } else {
            self.remove(id);
        }
        if let Ok(entry) = self.by_corr.find_entry(hash, |slot| *slot == id.slot) {
            entry.remove();
        }
        self.timers.disarm(id.slot);
    }

    /// Forgets a settled stream.
    pub(super) fn remove(&mut self, id: OpId) {
        if self.get(id).is_some()
            && let Some(op) = self.ops.try_remove(id.slot())
        {
            self.streams -= usize::from(matches!(op.kind, Kind::Stream(_)));
        }
    }

    pub(super) fn rearm(&mut self, id: OpId, deadline: Instant) {
        self.timers.arm(id.slot, deadline);
    }

    /// The earliest deadline and whose it is.
    pub(super) fn first_deadline(&self) -> Option<(Instant, OpId)> {
        let (at, slot) = self.timers.first()?;
        let op = self.ops.get(slot as usize)?;
        Some((at, OpId { slot, serial: op.serial }))
    }

    /// A pending request that `which` picks; for bulk settlement, one after the other.
    pub(super) fn find_pending(&self, from: usize, which: impl Fn(&Op) -> bool) -> Option<OpId> {
        (from..self.ops.capacity()).find_map(|slot| {
            let op = self.ops.get(slot)?;
            (op.phase != Phase::Settled && which(op))
                .then(|| u32::try_from(slot).ok().map(|slot| OpId { slot, serial: op.serial }))
                .flatten()
        })
    }

    /// Requests without a final result.
    pub(super) fn pending(&self) -> usize {
        self.by_corr.len()
    }

    /// Streams, settled ones with unread items included.
    pub(super) fn streams(&self) -> usize {
        self.streams
    }

    /// Entries of any kind.
    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(super) fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Bytes that an entry occupies in all tables at most, the slack of growing tables included.
    pub(super) const fn entry_bytes() -> usize {
        // Slab and timers double when they grow (old and new live together): 3; the map keeps 1/8 free and doubles.
        3 * (size_of::<Op>() + 16 + Timers::timer_bytes()) + 6 * (size_of::<u32>() + 1)
    }
}

fn hash_of(corr: Correlation) -> u64 {
    FixedState::default().hash_one(corr.value())
}
