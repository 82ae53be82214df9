//! The five disjoint error families of the core, without `SubmitError` (it lives with the commands).
//!
//! Machine-readable first. `Display` never holds peer bytes or secrets (Z1).

use crate::auth::AuthError;
use crate::negotiate::{CandidateError, NegotiateError};
use crate::wire::{HeaderError, Illegal};

/// The embedder broke the calling contract. It may cost precision (`outcome_unknown` where `not_sent` was true), never truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiMisuse {
    /// `Transmit::written` was told more bytes than were offered (B011).
    #[error("more bytes reported written than were offered")]
    WroteMoreThanOffered,
    /// A `Transmit` was dropped without an answer: anything offered may have left (CC8).
    #[error("an offer of bytes was dropped unanswered")]
    OfferUnanswered,
    /// A lease came back shortened, overfilled, twice, or to the wrong connection.
    #[error("a body lease came back other than it was lent")]
    LeaseMismatch,
    /// Input was given while a body lease was out.
    #[error("input while a body lease was out")]
    InputDuringLease,
}

/// What the peer did that no correct peer does. Each closes the generation (F1, W2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// Bytes that are no header.
    #[error(transparent)]
    Header(HeaderError),
    /// A frame that must not stand there.
    #[error(transparent)]
    Illegal(Illegal),
    /// The stream ended inside a header or a body (W2, V14).
    #[error("the stream ended inside a frame")]
    Truncated,
    /// A request whose correlation is not above the watermark (Q2).
    #[error("a correlation at or below the watermark")]
    Watermark,
    /// Another frame where the negotiation had to stand (N1), or an application frame before it.
    #[error("a frame that is not legal before the transport is selected")]
    BeforeSelection,
    /// A second negotiation (N9).
    #[error("a second negotiation")]
    SecondNegotiation,
    /// A `route.open` success that is malformed (F8).
    #[error("a malformed route.open success")]
    RouteOpenMalformed,
    /// A `route.open` success that names a live channel (F8).
    #[error("a route.open success that names a live channel")]
    RouteOpenLiveChannel,
    /// An over-size control body whose drain failed (C1).
    #[error("an over-size control body did not arrive whole")]
    OversizeDrain,
    /// Authentication data or envelope bytes at the wrong moment (A10).
    #[error("bytes before they were allowed")]
    EarlyBytes,
}

/// Why a generation ended. Kept, and given to every later caller (G5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed in order.
    #[error("closed by this side")]
    Local,
    /// The last handle was dropped, or the embedder gave the connection up.
    #[error("abandoned by this side")]
    Abandoned,
    /// The peer said `Goodbye`.
    #[error("the peer said goodbye")]
    PeerGoodbye,
    /// The stream ended between frames (W5).
    #[error("the peer closed the stream")]
    Eof,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Peer(PeerMisbehaved),
    /// The handshake failed (A6).
    #[error("authentication failed: {0}")]
    Authentication(AuthError),
    /// The negotiation failed (N8).
    #[error("negotiation failed: {0}")]
    Negotiation(NegotiateError),
    /// The host answered the negotiation with an `Error` (N8).
    #[error("the host refused the negotiation")]
    NegotiationRefused,
    /// The client offered `tcp` only in versions that this host lacks (N7).
    #[error("nothing that was offered is served")]
    NothingServed,
    /// A granted candidate failed, or its bootstrap got another frame (N11).
    #[error("the granted candidate failed: {0}")]
    Candidate(CandidateError),
    /// The candidate that this bootstrap granted is the connection now (N10).
    #[error("superseded by its candidate")]
    Superseded,
    /// Authentication and negotiation were not done in time (§15).
    #[error("the handshake was not done in time")]
    HandshakeTimeout,
    /// A frame that had begun to arrive did not end in time (W6).
    #[error("an incoming frame did not end in time")]
    FrameInTimeout,
    /// A frame that was to leave did not in time (W6, B10).
    #[error("an outgoing frame did not leave in time")]
    FrameOutTimeout,
    /// Reading or writing failed.
    #[error("the transport failed")]
    Io,
    /// A needed `Pong` or `Goodbye` had no room (B2).
    #[error("a control frame had no room")]
    ControlBacklog,
    /// The peer did not answer a probe (L2).
    #[error("the peer did not answer a probe")]
    Liveness,
    /// The host drained and ended (§17).
    #[error("the host shut down")]
    Drained,
    /// Over the connection limit (A9).
    #[error("over the connection limit")]
    OverCapacity,
    /// The embedder broke the calling contract.
    #[error("the embedder broke the calling contract: {0}")]
    Misuse(ApiMisuse),
}

/// A latched refusal of input: from here on every input returns it (CC11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection takes no more input: {0}")]
pub struct Fault(pub CloseReason);
