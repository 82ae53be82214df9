//! Why a connection of the core ended, in the words of vectors.

use hostwire_core::fault::{CloseReason, PeerMisbehaved};

/// The word that vectors have for a reason. `authenticated` tells an end inside the handshake from a later one: there, every end is
/// one (A6). A reason that they have no word for is as the core calls it.
#[must_use]
pub fn close_cause(reason: CloseReason, authenticated: bool) -> String {
    let word = match reason {
        CloseReason::Eof if authenticated => "eof",
        CloseReason::Peer(PeerMisbehaved::Truncated) if authenticated => "corruption",
        CloseReason::HandshakeTimeout if authenticated => "setup_deadline",
        CloseReason::HandshakeTimeout => "auth_deadline",
        CloseReason::Eof
        | CloseReason::Peer(PeerMisbehaved::Truncated | PeerMisbehaved::EarlyBytes)
        | CloseReason::Authentication(_) => "auth",
        CloseReason::Local => "local",
        CloseReason::PeerGoodbye => "goodbye",
        CloseReason::Peer(PeerMisbehaved::Header(_) | PeerMisbehaved::OversizeDrain) => "corruption",
        CloseReason::Peer(
            PeerMisbehaved::Illegal(_)
            | PeerMisbehaved::RouteOpenMalformed
            | PeerMisbehaved::RouteOpenLiveChannel,
        ) => "wrong_frame",
        CloseReason::Peer(PeerMisbehaved::Watermark) => "watermark",
        CloseReason::Peer(PeerMisbehaved::BeforeSelection | PeerMisbehaved::SecondNegotiation)
        | CloseReason::NothingServed => "setup",
        CloseReason::Negotiation(_) | CloseReason::NegotiationRefused => "negotiation",
        CloseReason::Candidate(_) => "candidate",
        CloseReason::Io => "io",
        CloseReason::Superseded => "superseded",
        CloseReason::Drained => "drained",
        CloseReason::FrameInTimeout | CloseReason::FrameOutTimeout => "frame_deadline",
        // Vectors have no word for the rest: the core's own says what it is.
        other @ (CloseReason::Abandoned
        | CloseReason::Peer(_)
        | CloseReason::ControlBacklog
        | CloseReason::Liveness
        | CloseReason::OverCapacity
        | CloseReason::Misuse(_)
        | _) => return other.to_string(),
    };
    word.into()
}
