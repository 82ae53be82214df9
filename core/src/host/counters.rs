//! What a host connection counts (Z2). Never rate-limited (Z3); sums over connections are the embedder's, by [`Counters::add`].

use crate::control::HostCode;
use crate::counters::Traffic;
use crate::fault::CloseReason;

macro_rules! counts {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $field:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name { $($(#[$vmeta])* pub $field: u64),+ }

        impl $name {
            /// Adds another's counts to these.
            pub const fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.wrapping_add(other.$field);)+
            }
        }
    };
}

counts! {
    /// Frames that changed nothing, by cause.
    Dropped {
        /// A `Cancel` that names no pending request (§7).
        stale_cancel,
        /// A `Goodbye` that names no live route of this connection (§7).
        stale_goodbye,
        /// A `Pong` that answers no probe (L2).
        stale_pong,
        /// A handler's answer that came after the terminal, or after the connection (F5).
        late_answer,
    }
}

counts! {
    /// Refusals before dispatch, by code. Nothing ran.
    Refused {
        /// `server_busy`.
        server_busy,
        /// `unknown_channel`.
        unknown_channel,
        /// `invalid_control_request`.
        invalid_control_request,
        /// `target_unavailable`.
        target_unavailable,
        /// Any other.
        other,
    }
}

impl Refused {
    pub(super) fn count(&mut self, code: HostCode) {
        match code {
            HostCode::ServerBusy => self.server_busy += 1,
            HostCode::UnknownChannel => self.unknown_channel += 1,
            HostCode::InvalidControlRequest => self.invalid_control_request += 1,
            HostCode::TargetUnavailable => self.target_unavailable += 1,
            HostCode::UnknownModule
            | HostCode::UnsupportedOperation
            | HostCode::InternalError
            | HostCode::Cancelled
            | HostCode::BindRejected
            | HostCode::ModuleTimeout
            | HostCode::ModuleReloading => self.other += 1,
        }
    }
}

counts! {
    /// Admitted requests, by how they ended.
    Settled {
        /// A `Response`.
        response,
        /// A `StreamEnd`.
        stream_end,
        /// `Error{cancelled}`.
        cancelled,
        /// `Error{internal_error}`: a handler that panicked, said so, or gave an answer that is none.
        internal_error,
        /// Another `Error`.
        error,
        /// Gone with the connection, nothing emitted (G3).
        silent,
    }
}

counts! {
    /// Ends of the generation, by reason: one of them is one.
    Retired {
        /// EOF between frames.
        eof,
        /// The peer's `Goodbye`.
        goodbye,
        /// The peer broke the protocol.
        misbehaved,
        /// Authentication failed.
        authentication,
        /// Negotiation failed.
        negotiation,
        /// Authentication or setup was not done in time.
        handshake_timeout,
        /// A frame did not arrive, or did not leave, in time.
        frame_timeout,
        /// A probe was missed.
        liveness,
        /// The transport failed.
        io,
        /// The host shut down.
        drained,
        /// A bootstrap whose candidate became the connection.
        superseded,
        /// Over the connection limit.
        over_capacity,
        /// Given up by the embedder, or its calling contract broken.
        local,
    }
}

impl Retired {
    pub(super) fn count(&mut self, reason: CloseReason) {
        match reason {
            CloseReason::Eof => self.eof += 1,
            CloseReason::PeerGoodbye => self.goodbye += 1,
            CloseReason::Peer(_) => self.misbehaved += 1,
            CloseReason::Authentication(_) => self.authentication += 1,
            CloseReason::Negotiation(_)
            | CloseReason::NegotiationRefused
            | CloseReason::NothingServed
            | CloseReason::Candidate(_) => self.negotiation += 1,
            CloseReason::Superseded => self.superseded += 1,
            CloseReason::HandshakeTimeout => self.handshake_timeout += 1,
            CloseReason::FrameInTimeout | CloseReason::FrameOutTimeout => self.frame_timeout += 1,
            CloseReason::Liveness => self.liveness += 1,
            CloseReason::Io => self.io += 1,
            CloseReason::Drained => self.drained += 1,
            CloseReason::OverCapacity => self.over_capacity += 1,
            CloseReason::Local
            | CloseReason::Abandoned
            | CloseReason::ControlBacklog
            | CloseReason::Misuse(_) => self.local += 1,
        }
    }
}

/// All counts of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Frames and bytes in.
    pub received: Traffic,
    /// Frames and bytes out.
    pub sent: Traffic,
    /// Handlers that were asked for: events handed over.
    pub dispatched: u64,
    /// Routes that were published.
    pub routes: u64,
    /// Frames that changed nothing.
    pub dropped: Dropped,
    /// Refusals before dispatch.
    pub refused: Refused,
    /// Admitted requests by how they ended.
    pub settled: Settled,
    /// Why it ended.
    pub retired: Retired,
    /// How often reading paused for refusals that the peer does not read (B6).
    pub pauses: u64,
}

impl Counters {
    /// Adds another connection's counts to these.
    pub fn add(&mut self, other: &Self) {
        self.received.add(&other.received);
        self.sent.add(&other.sent);
        self.dispatched = self.dispatched.wrapping_add(other.dispatched);
        self.routes = self.routes.wrapping_add(other.routes);
        self.dropped.add(&other.dropped);
        self.refused.add(&other.refused);
        self.settled.add(&other.settled);
        self.retired.add(&other.retired);
        self.pauses = self.pauses.wrapping_add(other.pauses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::AuthError;
    use crate::fault::{ApiMisuse, PeerMisbehaved};
    use crate::negotiate::CandidateError;

    #[test]
    fn z2_each_end_is_counted_once_under_its_own_name() {
        let count = |reason| {
            let mut retired = Retired::default();
            retired.count(reason);
            retired.count(reason);
            retired
        };
        let none = Retired::default();
        for (reason, expected) in [
            (CloseReason::Eof, Retired { eof: 2, ..none }),
            (CloseReason::PeerGoodbye, Retired { goodbye: 2, ..none }),
            (CloseReason::Peer(PeerMisbehaved::Watermark), Retired { misbehaved: 2, ..none }),
            (CloseReason::Authentication(AuthError::BadProof), Retired { authentication: 2, ..none }),
            (CloseReason::NothingServed, Retired { negotiation: 2, ..none }),
            (CloseReason::NegotiationRefused, Retired { negotiation: 2, ..none }),
            (CloseReason::Candidate(CandidateError::Unexpected), Retired { negotiation: 2, ..none }),
            (CloseReason::Superseded, Retired { superseded: 2, ..none }),
            (CloseReason::HandshakeTimeout, Retired { handshake_timeout: 2, ..none }),
            (CloseReason::FrameInTimeout, Retired { frame_timeout: 2, ..none }),
            (CloseReason::FrameOutTimeout, Retired { frame_timeout: 2, ..none }),
            (CloseReason::Liveness, Retired { liveness: 2, ..none }),
            (CloseReason::Io, Retired { io: 2, ..none }),
            (CloseReason::Drained, Retired { drained: 2, ..none }),
            (CloseReason::OverCapacity, Retired { over_capacity: 2, ..none }),
            (CloseReason::Abandoned, Retired { local: 2, ..none }),
            (CloseReason::Misuse(ApiMisuse::OfferUnanswered), Retired { local: 2, ..none }),
        ] {
            assert_eq!(count(reason), expected, "{reason:?}");
        }
    }

    #[test]
    fn z2_each_refusal_is_counted_under_its_own_code() {
        let mut refused = Refused::default();
        for (code, times) in [
            (HostCode::ServerBusy, 2),
            (HostCode::UnknownChannel, 3),
            (HostCode::InvalidControlRequest, 4),
            (HostCode::TargetUnavailable, 5),
            (HostCode::UnsupportedOperation, 6),
        ] {
            (0..times).for_each(|_| refused.count(code));
        }
        let Refused { server_busy, unknown_channel, invalid_control_request, target_unavailable, other } =
            refused;
        let counts = [server_busy, unknown_channel, invalid_control_request, target_unavailable, other];
        assert_eq!(counts, [2, 3, 4, 5, 6]);
    }

    #[test]
    fn z2_a_sum_adds_every_count() {
        let mut one = Counters { dispatched: 1, routes: 2, pauses: 3, ..Counters::default() };
        one.received.bytes = 4;
        one.sent.bytes = 5;
        one.dropped.stale_pong = 6;
        one.refused.other = 7;
        one.settled.silent = 8;
        one.retired.io = 9;
        let mut sum = one;
        sum.add(&one);
        assert_eq!((sum.dispatched, sum.routes, sum.pauses), (2, 4, 6));
        assert_eq!((sum.received.bytes, sum.sent.bytes, sum.dropped.stale_pong), (8, 10, 12));
        assert_eq!((sum.refused.other, sum.settled.silent, sum.retired.io), (14, 16, 18));
    }
}
