//! How a caller stops waiting: cancel, confirmed cancel, drop; and how it ends a route or the generation.

use super::connection::{Connection, Owner, State};
use super::pending::{OpId, Phase};
use crate::fault::CloseReason;
use crate::outcome::{NotSentCode, UnknownCode};
use crate::time::Instant;
use crate::wire::{Flags, FrameType, Header, Identity, RouteHandle};

/// What a stop did. The result itself comes as `Event::Settled`, as always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelResult {
    /// Nothing had left: it was withdrawn, `not_sent` (X2).
    Withdrawn,
    /// Something may have left: `outcome_unknown`, and a `Cancel` follows if there is room (X3).
    Cancelled,
    /// A `Cancel` follows, and the caller goes on waiting for proof (X4).
    Confirming,
    /// It had its result already (X5); that one stands (O3).
    AlreadySettled,
}

impl Connection {
    /// Stops a request, at once. A stream's unread items stay readable; [`Connection::drop_op`] frees them (B5).
    pub fn cancel(&mut self, now: Instant, op: OpId) -> CancelResult {
        self.cancel_as(now, op, UnknownCode::Cancelled)
    }

    /// The caller has lost interest: as [`Connection::cancel`] if it is pending, and its items are freed at once (B5). Never fails.
    pub fn drop_op(&mut self, now: Instant, op: OpId) -> CancelResult {
        let result = self.cancel_as(now, op, UnknownCode::Dropped);
        if self.pending.get(op).is_some_and(|entry| entry.phase == Phase::Settled) {
            self.pending.remove(op); // B5: its unread items go with it
        }
        result
    }

    /// Asks the host to stop a request and waits for proof until `deadline`, which replaces the request's own (X4): `Error{cancelled}`
    /// proves the stop, another terminal the completion; at the deadline the result is `outcome_unknown` (`cancelled`). Control
    /// requests have no legal `Cancel` and are stopped as by [`Connection::cancel`].
    pub fn confirm_cancel(&mut self, now: Instant, op: OpId, deadline: Instant) -> CancelResult {
        let now = self.clock.observe(now);
        let Some(entry) = self.pending.get_mut(op) else { return CancelResult::AlreadySettled };
        match (entry.phase, entry.route) {
            (Phase::Settled, _) => CancelResult::AlreadySettled,
            (Phase::Confirming, _) => {
                self.pending.rearm(op, deadline);
                CancelResult::Confirming
            }
            (Phase::Pending, Some(route)) if !entry.never_left() && deadline > now => {
                entry.phase = Phase::Confirming;
                let identity = Identity::Routed(route, entry.corr);
                self.pending.rearm(op, deadline);
                self.say_cancel(now, identity);
                CancelResult::Confirming
            }
            (Phase::Pending, _) => self.cancel_as(now, op, UnknownCode::Cancelled),
        }
    }

    fn cancel_as(&mut self, now: Instant, op: OpId, unknown: UnknownCode) -> CancelResult {
        let now = self.clock.observe(now);
        let (phase, never_left) = match self.pending.get(op) {
            Some(entry) => (entry.phase, entry.never_left()),
            None => return CancelResult::AlreadySettled, // B062
        };
        if phase == Phase::Settled {
            return CancelResult::AlreadySettled;
        }
        self.stop(now, op, NotSentCode::CancelledUnsent, unknown);
        if never_left { CancelResult::Withdrawn } else { CancelResult::Cancelled }
    }

    /// Ends a route: its requests are settled by byte evidence and its `Goodbye` goes out (R6, R9). Repeats and stale handles do nothing.
    pub fn close_route(&mut self, now: Instant, route: RouteHandle) {
        let now = self.clock.observe(now);
        if self.is_live(route) {
            self.end_route(route);
            self.say_goodbye(now, route);
        }
    }

    /// Whether a route is live.
    #[must_use]
    pub fn is_live(&self, route: RouteHandle) -> bool {
        self.routes.get(&route.channel.value()) == Some(&route.epoch)
    }

    /// Ends the generation in order (G3): what has not begun is `not_sent`, what may have left is unknown, the frame that has begun is
    /// finished, then `Goodbye`, within the close deadline. `Event::Closed` follows.
    pub fn shutdown(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        match self.state {
            State::Active => {}
            State::Hello(..) | State::Negotiating | State::Candidate(_) | State::Granted => {
                self.close(CloseReason::Local);
                return;
            }
            State::ReadOn { reason, .. } => {
                self.close(reason);
                return;
            }
            State::Closing { .. } | State::Closed(_) => return, // B062
        }
        let until = now + self.timeouts.close;
        self.state = State::Closing { reason: CloseReason::Local, until };
        self.settle_all(NotSentCode::ClientClosed, UnknownCode::ConnectionLost, |_| true);
        self.routes.clear();
        self.rx.end();
        self.out.discard_unstarted();
        let header =
            Header { len: 0, kind: FrameType::Goodbye, flags: Flags::pure(), identity: Identity::Connection };
        self.out.push_farewell(now, &header, Owner::Farewell);
    }
}
