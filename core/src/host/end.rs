//! How a generation ends: one total function from cause to disposition (G3), and the one teardown that carries it out (G6).
//!
//! Invariant: after a teardown nothing of the connection lives but the frames that its disposition lets out and the events that its
//! embedder has not taken; `Closed` is the last of those and comes once (CC6). The first reason is kept (G5).

use super::connection::{Connection, Phase};
use super::event::{Event, StopReason};
use super::output::{Early, Sent, What};
use super::requests::{Act, Input, RequestId, State};
use crate::auth::AuthError;
use crate::fault::{ApiMisuse, CloseReason, PeerMisbehaved};
use crate::limits::LINGER_BYTES;
use crate::negotiate::{CandidateError, NegotiateError};
use crate::time::Instant;
use crate::wire::{Flags, FrameType, Header, Identity};

/// Why a generation ends, as the host tells the cases apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// EOF between frames; a half-close counts (B110).
    Eof,
    PeerGoodbye,
    /// Corruption, wrong direction, watermark, a second negotiation, truncation.
    Misbehaved(PeerMisbehaved),
    /// The drain of an over-size control body failed; its early terminal, unless it has left (C1).
    OversizeDrain(Option<Early>),
    /// A frame that had begun to arrive did not end in time (W6).
    FrameIn,
    /// A frame that was the next to leave did not in time (B10).
    FrameOut,
    Liveness,
    Io,
    /// The end of a drain (§17).
    Drained,
    /// A malformed negotiation: its one terminal leaves (N8).
    MalformedNegotiation(NegotiateError),
    /// An offer of `tcp` in versions that we lack: silence (N7).
    NothingServed,
    /// The first request is no negotiation (N1).
    BeforeSelection,
    Authentication(AuthError),
    HandshakeTimeout,
    OverCapacity,
    /// The host shuts down and this one is not active yet (H5).
    DrainedEarly,
    /// A candidate failed, or a frame came to its bootstrap (N11).
    Candidate(CandidateError),
    /// The candidate of this bootstrap is the connection now (N10).
    Superseded,
    Abandoned,
    Misuse(ApiMisuse),
}

/// What becomes of output that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Discard,
    /// One frame leaves, behind the rest of the one that has begun.
    OneTerminal(Option<Early>),
    Flush,
}

/// What becomes of pending requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// Cancelled, nothing emitted.
    Silent,
    /// Their real terminals, or `cancelled`.
    Terminals,
}

/// One row of G3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disposition {
    pub(super) output: Output,
    pub(super) pending: Pending,
    pub(super) goodbye: bool,
}

impl End {
    /// G3, host side, as the table that runs.
    pub(super) const fn disposition(self) -> Disposition {
        let silent = Disposition { output: Output::Discard, pending: Pending::Silent, goodbye: false };
        match self {
            Self::Eof | Self::PeerGoodbye | Self::Misbehaved(_) | Self::FrameIn | Self::Io => silent,
            Self::OversizeDrain(key) => Disposition { output: Output::OneTerminal(key), ..silent },
            Self::Liveness | Self::FrameOut => silent,
            Self::Drained => {
                Disposition { output: Output::Flush, pending: Pending::Terminals, goodbye: true }
            }
            // Nothing else can wait before the selection: its one terminal is the whole output.
            Self::MalformedNegotiation(_) => Disposition { output: Output::Flush, ..silent },
            Self::BeforeSelection | Self::Authentication(_) | Self::OverCapacity => silent,
            Self::NothingServed | Self::HandshakeTimeout | Self::DrainedEarly => silent,
            Self::Candidate(_) | Self::Superseded => silent,
            Self::Abandoned | Self::Misuse(_) => silent,
        }
    }

    const fn reason(self) -> CloseReason {
        match self {
            Self::Eof => CloseReason::Eof,
            Self::PeerGoodbye => CloseReason::PeerGoodbye,
            Self::Misbehaved(how) => CloseReason::Peer(how),
            Self::OversizeDrain(_) => CloseReason::Peer(PeerMisbehaved::OversizeDrain),
            Self::FrameIn => CloseReason::FrameInTimeout,
            Self::FrameOut => CloseReason::FrameOutTimeout,
            Self::Liveness => CloseReason::Liveness,
            Self::Io => CloseReason::Io,
            Self::Drained | Self::DrainedEarly => CloseReason::Drained,
            Self::MalformedNegotiation(how) => CloseReason::Negotiation(how),
            Self::NothingServed => CloseReason::NothingServed,
            Self::Candidate(how) => CloseReason::Candidate(how),
            Self::Superseded => CloseReason::Superseded,
            Self::BeforeSelection => CloseReason::Peer(PeerMisbehaved::BeforeSelection),
            Self::Authentication(how) => CloseReason::Authentication(how),
            Self::HandshakeTimeout => CloseReason::HandshakeTimeout,
            Self::OverCapacity => CloseReason::OverCapacity,
            Self::Abandoned => CloseReason::Abandoned,
            Self::Misuse(how) => CloseReason::Misuse(how),
        }
    }
}

impl Connection {
    /// The one teardown (G6).
    pub(super) fn end(&mut self, now: Instant, end: End) {
        match self.phase {
            Phase::Closed => return,
            // The last frames were on their way: whatever cuts them short ends it, for the reason that stands (G5).
            Phase::Flushing | Phase::Lingering { .. } => return self.finish(),
            Phase::Hello(..)
            | Phase::Challenge(..)
            | Phase::Setup
            | Phase::Granting(_)
            | Phase::Granted
            | Phase::Candidate(_)
            | Phase::Active => {}
        }
        // G6: from here on every end goes the same way; only the disposition differs (G3).
        let Disposition { output, pending, goodbye } = end.disposition();
        self.reason = Some(end.reason());
        self.counters.retired.count(end.reason()); // Z2
        self.input.end();
        self.liveness.stop();
        self.until = None;
        self.phase = Phase::Flushing;
        // K2: stop or settle, then every route's end, once.
        match pending {
            Pending::Silent => self.drop_requests(),
            Pending::Terminals => self.expire_requests(now),
        }
        self.close_routes();
        match output {
            Output::Discard => return self.finish(),
            Output::OneTerminal(key) => self.keep_only(now, key),
            Output::Flush => {}
        }
        if goodbye {
            // B2: the last frame, behind all terminals.
            let header = Header {
                len: 0,
                kind: FrameType::Goodbye,
                flags: Flags::pure(),
                identity: Identity::Connection,
            };
            self.outbox.push_farewell(now, &header, Sent { kind: FrameType::Goodbye, what: What::Other });
        }
        self.flushed(now);
    }

    /// The last frames have left, or one of them has: lingers once there are no more (design.md §5).
    pub(super) fn flushed(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Flushing) || !self.outbox.is_empty() {
            return;
        }
        if self.eof {
            return self.finish();
        }
        self.phase = Phase::Lingering { left: LINGER_BYTES };
        self.until = Some(now + self.shared.timeouts.linger);
    }

    /// Input that arrives while the last frames leave: read and thrown away, so that no reset destroys them.
    pub(super) fn discard(&mut self, bytes: usize) {
        self.counters.received.bytes += bytes as u64;
        if let Phase::Lingering { left } = &mut self.phase {
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                self.finish();
            }
        }
    }

    /// Nothing leaves any more, nothing is taken any more.
    pub(super) fn finish(&mut self) {
        if matches!(self.phase, Phase::Closed) {
            return;
        }
        self.phase = Phase::Closed;
        self.until = None;
        self.unqueue_all();
        self.requests.clear();
        self.outbox.end();
        (self.refusals, self.items, self.room_wanted) = (0, 0, false);
        self.waiting.clear();
        self.fail_attempt(); // H2
        self.slot = None;
        if let Some(reason) = self.reason {
            self.events.push_back(Event::Closed { reason }); // CC6: last and single
        }
    }

    pub(super) fn fail_attempt(&mut self) {
        if let Some(attempt) = self.attempt.take()
            && self.shared.latch.fail(attempt)
        {
            self.events.push_back(Event::ShutdownReopened); // H2
        }
    }

    /// K2: whoever runs is told, what was not handed over never runs.
    fn drop_requests(&mut self) {
        self.unqueue_all();
        let ids: alloc::vec::Vec<_> = self.requests.ids().collect();
        for id in ids {
            let Some(entry) = self.requests.remove(id) else { continue };
            match entry.state {
                State::Running { .. } if entry.route.is_some() => {
                    self.events.push_back(Event::Stop { id, why: StopReason::ConnectionLost }); // B080
                }
                State::Running { .. } if entry.opening.is_some() => {
                    self.events.push_back(Event::RouteOpenWithdrawn { id });
                }
                // Told already, not handed over, answered, or waiting for the latch.
                State::Running { .. }
                | State::Told { .. }
                | State::Stopping
                | State::Queued
                | State::Finishing => {}
            }
            self.counters.settled.silent += u64::from(entry.state != State::Finishing);
        }
        self.requests.give_back();
    }

    /// §17: each pending request gets its real terminal or `cancelled`.
    fn expire_requests(&mut self, now: Instant) {
        let ids: alloc::vec::Vec<_> = self.requests.ids().collect();
        for id in ids {
            if self.is_opening(id) {
                self.events.push_back(Event::RouteOpenWithdrawn { id });
            }
            self.drive(now, id, Input::Expire, StopReason::Draining);
        }
        self.waiting.clear();
    }

    /// R6, K2: every route ends once.
    fn close_routes(&mut self) {
        for route in self.routes.take_all() {
            self.events.push_back(Event::RouteClosed { route: route.handle, component: route.component });
        }
    }

    /// C1: that one early terminal, then nothing.
    fn keep_only(&mut self, now: Instant, early: Option<Early>) {
        let kept = early.and_then(|early| Some((early.corr, self.outbox.withdraw(early.key)?)));
        self.outbox.discard_unstarted();
        if let Some((corr, body)) = kept {
            self.push(now, Identity::Control(corr), FrameType::Error, false, body, What::Other);
        }
    }
}

/// What a step asks for, carried out on the connection's queues: shared by teardown and commands.
impl Connection {
    /// Steps a request and does what the table says, except where the caller brings a body.
    pub(super) fn drive(&mut self, now: Instant, id: RequestId, input: Input, why: StopReason) {
        let Some(entry) = self.requests.get_mut(id) else { return };
        let (routed, queued) = (entry.route.is_some(), matches!(entry.state, State::Queued));
        let act = entry.step(input);
        if queued && act == Act::Cancelled {
            self.unqueue(id);
        }
        if routed && matches!(act, Act::Tell | Act::TellCancelled) {
            self.events.push_back(Event::Stop { id, why });
        }
        self.say(now, id, act);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Illegal;
    use alloc::format;
    use alloc::string::String;

    /// Every cause; the compiler names one that is missing here.
    fn name(end: End) -> &'static str {
        match end {
            End::Eof => "Eof",
            End::PeerGoodbye => "PeerGoodbye",
            End::Misbehaved(_) => "Misbehaved",
            End::OversizeDrain(_) => "OversizeDrain",
            End::FrameIn => "FrameIn",
            End::FrameOut => "FrameOut",
            End::Liveness => "Liveness",
            End::Io => "Io",
            End::Drained => "Drained",
            End::MalformedNegotiation(_) => "MalformedNegotiation",
            End::NothingServed => "NothingServed",
            End::BeforeSelection => "BeforeSelection",
            End::Authentication(_) => "Authentication",
            End::HandshakeTimeout => "HandshakeTimeout",
            End::OverCapacity => "OverCapacity",
            End::DrainedEarly => "DrainedEarly",
            End::Candidate(_) => "Candidate",
            End::Superseded => "Superseded",
            End::Abandoned => "Abandoned",
            End::Misuse(_) => "Misuse",
        }
    }

    #[test]
    fn g3_the_table_of_ends_is_the_one_that_the_docs_show() {
        let all = [
            End::Eof,
            End::PeerGoodbye,
            End::Misbehaved(PeerMisbehaved::Illegal(Illegal::Direction)),
            End::OversizeDrain(None),
            End::FrameIn,
            End::FrameOut,
            End::Liveness,
            End::Io,
            End::Drained,
            End::MalformedNegotiation(NegotiateError::NoTcpOffer),
            End::NothingServed,
            End::BeforeSelection,
            End::Authentication(AuthError::BadProof),
            End::HandshakeTimeout,
            End::OverCapacity,
            End::DrainedEarly,
            End::Candidate(CandidateError::WrongToken),
            End::Superseded,
            End::Abandoned,
            End::Misuse(ApiMisuse::OfferUnanswered),
        ];
        let mut table = String::new();
        for end in all {
            let Disposition { output, pending, goodbye } = end.disposition();
            let output = match output {
                Output::Discard => "Discard",
                Output::OneTerminal(_) => "OneTerminal",
                Output::Flush => "Flush",
            };
            let goodbye = if goodbye { "yes" } else { "no" };
            let pending = format!("{pending:?}");
            table +=
                &format!("{:<20} output {output:<11} pending {pending:<9} goodbye {goodbye}\n", name(end));
        }
        assert!(include_str!("states.md").contains(&table), "the docs show another table:\n{table}");
    }
}
