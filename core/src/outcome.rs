//! What became of a request: the three-way truth of protocol.md §13, and its closed list of codes (O6).
//!
//! Owns the vocabulary only. Which outcome holds is computed where the bytes are counted.

use crate::body::Body;
use crate::control::{CatalogReply, ErrorBody};
use crate::wire::RouteHandle;

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            /// Every code, in the contract's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stable text (O6).
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                // O6: a closed list; `ALL` is the whole of it.
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

codes! {
    /// Why a request never left: no byte of it can have reached the socket (O1).
    NotSentCode {
        /// The client is closing or closed.
        ClientClosed = "client_closed",
        /// The generation has ended.
        ConnectionRetired = "connection_retired",
        /// Its time was over before a byte left.
        DeadlineExpired = "deadline_expired",
        /// Its route is not, or no longer, live.
        RouteNotLive = "route_not_live",
        /// Too many requests are pending.
        PendingFull = "pending_full",
        /// Too many streams are live.
        StreamsFull = "streams_full",
        /// The body is over 64 MiB, or over 65,536 bytes on the control channel.
        BodyTooLarge = "body_too_large",
        /// No room in the output queue, in frames or in bytes.
        QueueFull = "queue_full",
        /// Every correlation of this generation has been used (Q1).
        CorrelationsExhausted = "correlations_exhausted",
        /// Cancelled while still queued (X2).
        CancelledUnsent = "cancelled_unsent",
    }
}

codes! {
    /// Why nobody knows: a byte may have left and no terminal was seen (O2).
    UnknownCode {
        /// The caller's patience ended.
        DeadlineExpired = "deadline_expired",
        /// The caller cancelled (X3).
        Cancelled = "cancelled",
        /// The caller dropped the call.
        Dropped = "dropped",
        /// The generation ended.
        ConnectionLost = "connection_lost",
        /// The route ended (R9).
        RouteClosed = "route_closed",
        /// More unread stream items than the budget holds (B4).
        StreamSaturated = "stream_saturated",
        /// A unary call got a stream item (F6).
        UnexpectedStream = "unexpected_stream",
    }
}

codes! {
    /// Terminals that this side names, because what arrived could not be handed over as it was.
    LocalCode {
        /// An `Error` without the canonical JSON (F7).
        MalformedError = "malformed_error",
        /// A control success that is not its operation's (F8).
        MalformedResponse = "malformed_response",
        /// A unary call got `StreamEnd` (F6).
        UnexpectedStream = "unexpected_stream",
        /// A stream got a `Response` (F6).
        UnexpectedResponse = "unexpected_response",
        /// It completed, but its body had no room (B4).
        ResponseDiscarded = "response_discarded",
    }
}

/// The one final result of a request. Once computed it is never replaced (O3).
#[derive(Debug)]
pub enum Outcome {
    /// Proof that no byte of the request reached the socket (O1). The body is the request's own, given back.
    NotSent {
        /// Why.
        code: NotSentCode,
        /// The request's body; empty for control requests.
        body: Body,
    },
    /// A byte may have left and no terminal was seen (O2). Never resent by the library.
    Unknown {
        /// Why.
        code: UnknownCode,
    },
    /// A matching terminal was seen.
    Terminal(Terminal),
}

/// The terminal that ended a request.
#[derive(Debug)]
pub enum Terminal {
    /// A unary answer.
    Response {
        /// The binary bit.
        binary: bool,
        /// The answer, with its share of the retained budget.
        body: Body,
    },
    /// A stream's clean end.
    StreamEnd {
        /// Items received over the whole stream, taken or not.
        items: u64,
    },
    /// `route.open` succeeded.
    RouteOpened(RouteHandle),
    /// `catalog.list` succeeded.
    Catalog(CatalogReply),
    /// `host.shutdown` was committed (H1).
    ShutdownCommitted,
    /// The host answered with an `Error`.
    Error(ErrorBody),
    /// A terminal arrived that could not be handed over.
    Local(LocalCode),
}

impl Outcome {
    /// The code of an outcome that has one of the closed list (O6).
    #[must_use]
    pub const fn code(&self) -> Option<&'static str> {
        match self {
            Self::NotSent { code, .. } => Some(code.as_str()),
            Self::Unknown { code } => Some(code.as_str()),
            Self::Terminal(Terminal::Local(code)) => Some(code.as_str()),
            Self::Terminal(
                Terminal::Response { .. }
                | Terminal::StreamEnd { .. }
                | Terminal::RouteOpened(_)
                | Terminal::Catalog(_)
                | Terminal::ShutdownCommitted
                | Terminal::Error(_),
            ) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn o6_the_list_of_codes_is_closed() {
        let text = |codes: Vec<&'static str>| codes.join(" ");
        assert_eq!(
            text(NotSentCode::ALL.iter().map(|c| c.as_str()).collect()),
            "client_closed connection_retired deadline_expired route_not_live pending_full streams_full \
             body_too_large queue_full correlations_exhausted cancelled_unsent"
        );
        assert_eq!(
            text(UnknownCode::ALL.iter().map(|c| c.as_str()).collect()),
            "deadline_expired cancelled dropped connection_lost route_closed stream_saturated unexpected_stream"
        );
        assert_eq!(
            text(LocalCode::ALL.iter().map(|c| c.as_str()).collect()),
            "malformed_error malformed_response unexpected_stream unexpected_response response_discarded"
        );
        let outcome = Outcome::NotSent { code: NotSentCode::QueueFull, body: Body::default() };
        assert_eq!(outcome.code(), Some("queue_full"));
        assert_eq!(Outcome::Unknown { code: UnknownCode::Dropped }.code(), Some("dropped"));
        assert_eq!(
            Outcome::Terminal(Terminal::Local(LocalCode::MalformedError)).code(),
            Some("malformed_error")
        );
        assert_eq!(Outcome::Terminal(Terminal::ShutdownCommitted).code(), None);
    }
}
