//! One generation, from accept to close: its state, and what can be asked of it at any time.
//!
//! Owns every table of the connection and the phase that says which inputs mean what. Invariant: queries are pure functions of state;
//! whatever ends the generation goes through one teardown (`end.rs`). Never knows channels' numbers or other connections: those are
//! the [`Registry`](super::Registry)'s and [`Shared`]'s.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;

use super::admission::Slot;
use super::counters::Counters;
use super::end::End;
use super::event::Event;
use super::latch::Attempt;
use super::liveness::{Due, Liveness, PING_FLAGS};
use super::output::{Early, Sent, What};
use super::requests::{Act, Input, RequestId, Requests};
use super::resident::Shares;
use super::routes::Routes;
use super::shared::Shared;
use crate::auth::{HostChallenge, HostHandshake, MessageReader, Nonce};
use crate::body::BodyLease;
use crate::endpoint::{Deadline, DeadlineReason, Disconnect, Endpoint, Interest};
use crate::fault::{CloseReason, Fault, PeerMisbehaved};
use crate::negotiate::HostCandidate;
use crate::receive::Assembler;
use crate::time::{Clock, Instant};
use crate::transmit::{Outbox, Patience, Transmit};
use crate::wire::{Correlation, FrameType, Header, Identity, RouteHandle};

/// So many untaken events, and input waits at the next frame boundary.
pub(super) const EVENT_ROOM: usize = 256;

/// Authenticating → SetupOnly → Active → Retired (§9), with the two states in which a last frame leaves.
pub(super) enum Phase {
    /// Waits for the client's first message.
    Hello(MessageReader, HostHandshake),
    /// Waits for the client's proof.
    Challenge(MessageReader, HostChallenge),
    /// Authenticated; the first request must be a negotiation (N1).
    Setup,
    /// A candidate was selected; the embedder prepares it. Nothing more may arrive until it is answered.
    Granting(Correlation),
    /// A candidate was granted: nothing more may arrive here (N10).
    Granted,
    /// This is the candidate; token and commit come first (N11).
    Candidate(HostCandidate),
    /// The transport is selected.
    Active,
    /// The last frames leave; input is thrown away.
    Flushing,
    /// All has left; input is thrown away for a while, so that no reset destroys it.
    Lingering {
        /// Bytes still to be thrown away.
        left: usize,
    },
    Closed,
}

/// A host's end of one connection: told everything, asking nothing.
///
/// Bytes go in by [`handle_input`](Self::handle_input), come out by [`poll_transmit`](Self::poll_transmit); what happened comes by
/// [`poll_event`](Self::poll_event), and its answers go back by the commands. Any call order is legal.
pub struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) clock: Clock,
    pub(super) phase: Phase,
    /// The end of the phase, where it has one.
    pub(super) until: Option<Instant>,
    pub(super) input: Assembler,
    /// The over-size control body that is being drained (C1).
    pub(super) oversize: bool,
    pub(super) early: Option<Early>,
    pub(super) outbox: Outbox<Sent>,
    pub(super) requests: Requests,
    pub(super) routes: Routes,
    pub(super) events: VecDeque<Event>,
    /// The highest correlation seen (Q2).
    pub(super) watermark: Option<Correlation>,
    /// Refusals that wait to leave (B6).
    pub(super) refusals: usize,
    /// Stream items that wait to leave.
    pub(super) items: usize,
    /// An item was refused for want of room.
    pub(super) room_wanted: bool,
    /// `host.shutdown` requests that wait for another's attempt (H3).
    pub(super) waiting: VecDeque<RequestId>,
    pub(super) attempt: Option<Attempt>,
    pub(super) liveness: Liveness,
    pub(super) shares: Shares,
    pub(super) slot: Option<Slot>,
    pub(super) eof: bool,
    pub(super) reason: Option<CloseReason>,
    pub(super) counters: Counters,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("pending", &self.requests.len())
            .field("routes", &self.routes.len())
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection that was just accepted. `slot` is its place among the handshakes, `server_nonce` is fresh for it (A2).
    #[must_use]
    pub fn new(now: Instant, slot: Slot, server_nonce: Nonce, shared: Arc<Shared>) -> Self {
        let key = shared.key.clone();
        let handshake = HostHandshake::new(key, shared.daemon_id, &shared.daemon_ver, server_nonce);
        let phase = match handshake {
            Ok(handshake) => Phase::Hello(MessageReader::new(), handshake),
            Err(_) => Phase::Closed, // `Shared::new` has checked the version text: this does not happen, and would fail closed
        };
        let until = Some(now + shared.timeouts.authentication); // A5: one absolute deadline
        Self::in_phase(now, phase, until, slot, shared)
    }

    pub(super) fn in_phase(
        now: Instant,
        phase: Phase,
        until: Option<Instant>,
        slot: Slot,
        shared: Arc<Shared>,
    ) -> Self {
        let mut clock = Clock::default();
        clock.observe(now);
        Self {
            clock,
            phase,
            until,
            input: Assembler::default(),
            oversize: false,
            early: None,
            outbox: Outbox::new(Patience::NextToLeave), // B10
            requests: Requests::new(shared.admission.pending()),
            routes: Routes::default(),
            events: VecDeque::new(),
            watermark: None,
            refusals: 0,
            items: 0,
            room_wanted: false,
            waiting: VecDeque::new(),
            attempt: None,
            liveness: Liveness::new(shared.timeouts.liveness),
            shares: Shares::of(&shared.resident),
            slot: Some(slot),
            eof: false,
            reason: None,
            counters: Counters::default(),
            shared,
        }
    }

    /// What happened next, if anything did. A request that was cancelled before its event was taken is never handed over.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Some(id) = event.hands_over()
            && let Some(entry) = self.requests.get_mut(id)
        {
            let act = entry.step(Input::Taken);
            debug_assert_eq!(
                act,
                Act::Dispatch,
                "the event of a request goes when that is not to be handed over any more"
            );
            self.counters.dispatched += u64::from(entry.route.is_some());
        }
        Some(event)
    }

    /// X1: what was not handed over never is; its body and its permit are given back with its event.
    pub(super) fn unqueue(&mut self, id: RequestId) {
        self.events.retain(|event| event.hands_over() != Some(id));
    }

    pub(super) fn unqueue_all(&mut self) {
        self.events.retain(|event| event.hands_over().is_none());
    }

    /// The next moment at which time alone makes progress (CC5).
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        let due = |at: Option<Instant>, reason| at.map(|at| Deadline { at, reason });
        let phase = match self.phase {
            Phase::Hello(..)
            | Phase::Challenge(..)
            | Phase::Setup
            | Phase::Granting(_)
            | Phase::Granted
            | Phase::Candidate(_) => DeadlineReason::Handshake,
            Phase::Lingering { .. } => DeadlineReason::Linger,
            Phase::Active | Phase::Flushing | Phase::Closed => DeadlineReason::Close,
        };
        let incoming = if self.oversize { DeadlineReason::Drain } else { DeadlineReason::FrameIn };
        Deadline::earliest([
            due(self.until, phase),
            due(self.frame_in_deadline(), incoming),
            due(self.outbox.deadline(self.shared.timeouts.frame), DeadlineReason::FrameOut),
            due(self.liveness.deadline(), DeadlineReason::Liveness),
        ])
    }

    fn frame_in_deadline(&self) -> Option<Instant> {
        self.input.began().map(|began| began + self.shared.timeouts.frame) // W6
    }

    /// What is wanted next: a pure function of state.
    #[must_use]
    pub fn interest(&self) -> Interest {
        let read = match self.phase {
            Phase::Hello(..)
            | Phase::Challenge(..)
            | Phase::Setup
            | Phase::Granting(_)
            | Phase::Granted
            | Phase::Candidate(_) => true,
            Phase::Active => !self.is_paused(),
            Phase::Flushing | Phase::Lingering { .. } => !self.eof,
            Phase::Closed => false,
        };
        Interest {
            read,
            write: self.outbox.wants_write(),
            events: !self.events.is_empty(),
            half_close: matches!(self.phase, Phase::Lingering { .. }),
        }
    }

    /// B6: refusals that the peer does not read, or events that nobody takes, stop the reading: between frames, never inside one.
    pub(super) fn is_paused(&self) -> bool {
        (self.refusals >= self.shared.limits.writer_frames || self.events.len() >= EVENT_ROOM)
            && !self.input.is_mid_frame()
    }

    /// Time has passed; before [`deadline`](Self::deadline) this changes nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        let over = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if over(self.outbox.deadline(self.shared.timeouts.frame)) {
            return self.end(now, End::FrameOut); // B10
        }
        if over(self.frame_in_deadline()) {
            let end = if self.oversize { End::OversizeDrain(self.early) } else { End::FrameIn }; // C1, W6
            return self.end(now, end);
        }
        if over(self.until) {
            return match self.phase {
                // A5, §15: without a frame.
                Phase::Hello(..)
                | Phase::Challenge(..)
                | Phase::Setup
                | Phase::Granting(_)
                | Phase::Granted
                | Phase::Candidate(_) => self.end(now, End::HandshakeTimeout),
                Phase::Active | Phase::Flushing | Phase::Lingering { .. } | Phase::Closed => self.finish(),
            };
        }
        match self.liveness.due(now) {
            Due::Nothing => {}
            Due::Ping(corr) => {
                let identity = Identity::Control(corr);
                let header = Header { len: 0, kind: FrameType::Ping, flags: PING_FLAGS, identity };
                self.outbox.push_control(now, &header, Sent { kind: FrameType::Ping, what: What::Ping }); // B2
            }
            Due::Missed => self.end(now, End::Liveness), // L2
        }
    }

    /// The peer has closed its writing side; a half-close counts as the end (G3, B110).
    pub fn handle_eof(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        self.eof = true;
        match self.phase {
            Phase::Hello(..) | Phase::Challenge(..) | Phase::Granting(_) | Phase::Granted => {
                self.end(now, End::Eof);
            }
            Phase::Setup | Phase::Candidate(_) | Phase::Active => {
                let end = match (self.input.is_mid_frame(), self.oversize) {
                    (false, _) => End::Eof,                                      // W5
                    (true, true) => End::OversizeDrain(self.early),              // C1
                    (true, false) => End::Misbehaved(PeerMisbehaved::Truncated), // W2, V14
                };
                self.end(now, end);
            }
            Phase::Lingering { .. } => self.finish(),
            // What is on its way out still goes out: the peer may have closed one side only.
            Phase::Flushing | Phase::Closed => {}
        }
    }

    /// The transport is gone, or the embedder gives it up.
    pub fn handle_disconnect(&mut self, now: Instant, why: Disconnect) {
        let now = self.clock.observe(now);
        let end = match why {
            Disconnect::ReadFailed | Disconnect::Exhausted => End::Io,
            Disconnect::Abandoned => End::Abandoned,
        };
        self.end(now, end);
    }

    /// Whether the connection has ended: close the socket; only untaken events are left.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether the transport is selected and requests may come.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active)
    }

    /// Whether it is still on its way to be active: nothing of it has been promised to anybody (H5).
    pub(super) const fn is_before_active(&self) -> bool {
        match self.phase {
            Phase::Hello(..)
            | Phase::Challenge(..)
            | Phase::Setup
            | Phase::Granting(_)
            | Phase::Granted
            | Phase::Candidate(_) => true,
            Phase::Active | Phase::Flushing | Phase::Lingering { .. } | Phase::Closed => false,
        }
    }

    /// Why it ended, once it has begun to (G5).
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        self.reason
    }

    /// Requests without a terminal that has begun to leave.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.requests.len()
    }

    /// Live routes.
    pub fn routes(&self) -> impl Iterator<Item = RouteHandle> + '_ {
        self.routes.handles()
    }

    /// What it counted (Z2).
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Entries that its tables have room for without growing: what a flood must not move (CC9).
    #[must_use]
    pub fn table_capacity(&self) -> usize {
        self.requests.capacity()
            + self.events.capacity()
            + self.waiting.capacity()
            + self.outbox.data_frames()
    }

    /// What it can hold in memory at most, in bytes (B1).
    #[must_use]
    pub fn memory_bound(&self) -> usize {
        self.shared.connection_bound()
    }
}

/// H2: an attempt never outlives its connection, even one that is dropped without a word.
impl Drop for Connection {
    fn drop(&mut self) {
        self.fail_attempt();
    }
}

impl Endpoint for Connection {
    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, Fault> {
        Self::handle_input(self, now, bytes)
    }

    fn lease_body(&mut self) -> Option<BodyLease> {
        Self::lease_body(self)
    }

    fn return_body(&mut self, now: Instant, lease: BodyLease) {
        Self::return_body(self, now, lease);
    }

    fn handle_eof(&mut self, now: Instant) {
        Self::handle_eof(self, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn handle_disconnect(&mut self, now: Instant, why: Disconnect) {
        Self::handle_disconnect(self, now, why);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        Self::poll_transmit(self, now)
    }

    fn deadline(&self) -> Option<Deadline> {
        Self::deadline(self)
    }

    fn interest(&self) -> Interest {
        Self::interest(self)
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }
}
