//! Outcomes by byte evidence (O1, O2), and the one teardown that every end of a generation runs through (G6).

use super::connection::{Connection, Owner, State};
use super::event::Event;
use super::pending::{OpId, Phase};
use crate::fault::CloseReason;
use crate::limits::{CANCEL_AND_GOODBYE_SLOTS, CANCEL_SLOTS, CONTROL_SLOTS};
use crate::outcome::{NotSentCode, Outcome, Terminal, UnknownCode};
use crate::time::Instant;
use crate::wire::{Flags, FrameType, Header, Identity, RouteHandle};

impl Connection {
    /// A matching terminal was seen.
    #[inline]
    pub(super) fn finish(&mut self, id: OpId, terminal: Terminal) {
        let Some(op) = self.pending.get(id) else { return };
        let handed = op.handed;
        if let Some(frame) = op.frame {
            // An offer went unanswered and the host answered all the same: the rest need not leave.
            drop(self.out.withdraw(frame));
        }
        self.settled(id, Outcome::Terminal(terminal), handed);
    }

    /// Ends a request without a terminal: `not_sent` if nothing can have left, else `outcome_unknown` and a best-effort `Cancel`
    /// behind it (X2, X3).
    pub(super) fn stop(&mut self, now: Instant, id: OpId, unsent: NotSentCode, unknown: UnknownCode) {
        let Some((route, corr, confirming)) = self.settle_by_evidence(id, unsent, unknown) else { return };
        // X4: the caller who waited for proof has sent its `Cancel` already.
        if let (Some(route), false) = (route, confirming) {
            self.say_cancel(now, Identity::Routed(route, corr));
        }
    }

    /// As [`Connection::stop`], without a `Cancel`: the route's or the connection's end says it all (R9). Returns what a `Cancel` needs, if
    /// the request may have left.
    pub(super) fn settle_by_evidence(
        &mut self,
        id: OpId,
        unsent: NotSentCode,
        unknown: UnknownCode,
    ) -> Option<(Option<RouteHandle>, crate::wire::Correlation, bool)> {
        let op = self.pending.get(id)?;
        if op.phase == Phase::Settled {
            return None; // O3
        }
        let (route, corr, handed, frame) = (op.route, op.corr, op.handed, op.frame);
        let (never_left, confirming) = (op.never_left(), op.phase == Phase::Confirming);
        // X2: what has not begun leaves the queue.
        let body = frame.and_then(|frame| self.out.withdraw(frame));
        if never_left {
            let body = body.unwrap_or_default();
            self.returned_bytes += body.len();
            self.settled(id, Outcome::NotSent { code: unsent, body }, handed); // O1
            return None;
        }
        // Nobody waits for what is just arriving: its bytes are given back at once (X6).
        if self.answered == Some(id) {
            self.rx.drain_open();
        }
        self.settled(id, Outcome::Unknown { code: unknown }, handed); // O2
        Some((route, corr, confirming))
    }

    #[inline]
    fn settled(&mut self, id: OpId, outcome: Outcome, bytes_handed: u64) {
        self.pending.settle(id);
        self.counters.settlements.count(&outcome);
        self.untaken += 1;
        self.events.push_back(Event::Settled { op: id, outcome, bytes_handed });
    }

    /// X3: best effort; one that has no slot is not sent and changes no outcome.
    pub(super) fn say_cancel(&mut self, now: Instant, identity: Identity) {
        // X3: best effort, behind whatever of the request has begun.
        if self.out.is_over() {
            return;
        }
        let (all, cancels) = self.out.control_frames(|owner| owner == Owner::Cancel);
        let (_, goodbyes) = self.out.control_frames(|owner| owner == Owner::RouteGoodbye);
        if cancels >= CANCEL_SLOTS || cancels + goodbyes >= CANCEL_AND_GOODBYE_SLOTS || all >= CONTROL_SLOTS {
            self.counters.cancels_unsent += 1; // B2
            return;
        }
        let header = Header { len: 0, kind: FrameType::Cancel, flags: Flags::pure(), identity };
        self.out.push_control(now, &header, Owner::Cancel);
    }

    /// Ends a route for the host. Without room for it the generation ends instead (R7, B2).
    pub(super) fn say_goodbye(&mut self, now: Instant, route: RouteHandle) {
        if self.out.is_over() {
            return;
        }
        let (all, ours) =
            self.out.control_frames(|owner| matches!(owner, Owner::Cancel | Owner::RouteGoodbye));
        if ours >= CANCEL_AND_GOODBYE_SLOTS || all >= CONTROL_SLOTS {
            self.close(CloseReason::ControlBacklog); // R7
            return;
        }
        let header = Header {
            len: 0,
            kind: FrameType::Goodbye,
            flags: Flags::pure(),
            identity: Identity::Route(route),
        };
        self.out.push_control(now, &header, Owner::RouteGoodbye);
    }

    /// Takes a route out of the table and settles its requests, without a `Cancel` each (R9).
    pub(super) fn end_route(&mut self, route: RouteHandle) {
        self.routes.remove(&route.channel.value());
        // R9: by evidence, and no `Cancel` each.
        self.settle_all(NotSentCode::RouteNotLive, UnknownCode::RouteClosed, |of| of == Some(route));
    }

    /// Settles every pending request that `which` picks by its route.
    pub(super) fn settle_all(
        &mut self,
        unsent: NotSentCode,
        unknown: UnknownCode,
        which: impl Fn(Option<RouteHandle>) -> bool,
    ) {
        let mut from = 0;
        while let Some(id) = self.pending.find_pending(from, |op| which(op.route)) {
            from = id.slot();
            self.settle_by_evidence(id, unsent, unknown);
        }
    }

    /// The one teardown (G6): every end of a generation comes here, once. Afterwards nothing lives but untaken events and items (B5).
    pub(super) fn close(&mut self, reason: CloseReason) {
        let unsent = match (&self.state, reason) {
            (State::Closed(_), _) => return,
            (_, CloseReason::Local) => NotSentCode::ClientClosed,
            (
                State::Hello(..)
                | State::Negotiating
                | State::Candidate(_)
                | State::Granted
                | State::Active
                | State::ReadOn { .. }
                | State::Closing { .. },
                _,
            ) => NotSentCode::ConnectionRetired,
        };
        self.state = State::Closed(reason); // G6: from here on there is nothing to come back to
        self.settle_all(unsent, UnknownCode::ConnectionLost, |_| true); // G2
        self.routes.clear(); // K1
        self.routes.shrink_to_fit();
        self.out.end(); // G3: discarded
        self.rx.end();
        self.events.push_back(Event::Closed { reason, stage: self.stage });
    }
}
