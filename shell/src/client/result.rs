//! What a caller gets: an answer, or one of the three truths of protocol.md §13, always with its evidence.

use hostwire_core::auth::DaemonId;
use hostwire_core::body::Body;
use hostwire_core::control::ErrorBody;
use hostwire_core::outcome::{LocalCode, NotSentCode, UnknownCode};
use std::fmt;

/// What stands behind an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Bytes of the request's last attempt, header included, that the socket accepted. Zero for `not_sent`.
    pub bytes_handed: u64,
    /// Requests that were made of it, retries included (O4); zero if none was admitted.
    pub attempts: u32,
    /// The incarnation of the host that the last attempt was for (O7).
    pub daemon_id: DaemonId,
}

/// A unary answer.
#[derive(Debug)]
pub struct Reply {
    /// The binary bit.
    pub binary: bool,
    /// The answer. It holds its share of the client's retained bytes until it is dropped (B4).
    pub body: Body,
    /// What stands behind it.
    pub evidence: Evidence,
}

/// A stream's clean end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEnd {
    /// Items over the whole stream.
    pub items: u64,
    /// What stands behind it.
    pub evidence: Evidence,
}

/// Why a request has no answer. Look at all three: they differ in whether it may be sent again.
#[derive(Debug)]
pub enum CallError {
    /// Proof that nothing of it reached the host (O1): it may be sent again, as a fresh request.
    NotSent {
        /// Why.
        code: NotSentCode,
        /// The request's body, given back; empty for control requests.
        body: Body,
        /// What stands behind it.
        evidence: Evidence,
    },
    /// It may have been carried out, and nobody knows (O2). The library never sends it again.
    Unknown {
        /// Why.
        code: UnknownCode,
        /// What stands behind it.
        evidence: Evidence,
    },
    /// It ended with an error: the application decides.
    Failed {
        /// Which.
        failure: Failure,
        /// What stands behind it.
        evidence: Evidence,
    },
}

/// A terminal that is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host's `Error`.
    Host(ErrorBody),
    /// What arrived could not be handed over as it was.
    Local(LocalCode),
}

impl CallError {
    /// The stable code: of the closed list (O6), or the host's own.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::NotSent { code, .. } => code.as_str(),
            Self::Unknown { code, .. } => code.as_str(),
            Self::Failed { failure: Failure::Host(error), .. } => error.code(),
            Self::Failed { failure: Failure::Local(code), .. } => code.as_str(),
        }
    }

    /// Which of the three it is: `not_sent`, `outcome_unknown` or `terminal`.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        match self {
            Self::NotSent { .. } => "not_sent",
            Self::Unknown { .. } => "outcome_unknown",
            Self::Failed { .. } => "terminal",
        }
    }

    /// What stands behind it.
    #[must_use]
    pub const fn evidence(&self) -> Evidence {
        match self {
            Self::NotSent { evidence, .. }
            | Self::Unknown { evidence, .. }
            | Self::Failed { evidence, .. } => *evidence,
        }
    }
}

// Z1: codes only; a host's message is free text of a body.
impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.outcome(), self.code())
    }
}

impl std::error::Error for CallError {}
