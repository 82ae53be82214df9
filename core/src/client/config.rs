//! What a client's connection is made from.

use crate::auth::{AuthError, Credentials, Nonce};
use crate::limits::{ClientLimits, ClientTimeouts, LimitError};
use crate::negotiate::{Grant, OfferList};
use crate::time::Instant;
use alloc::string::String;
use core::fmt;

/// Everything that one generation needs to begin.
pub struct Config {
    /// Key, daemon ID and version from one discovery snapshot (D6).
    pub credentials: Credentials,
    /// 32 fresh bytes from the operating system's CSPRNG, never used before (A2).
    pub nonce: Nonce,
    /// A claim that decides nothing (T2).
    pub role: String,
    /// Transports to offer, in order of preference (N2).
    pub offers: OfferList,
    /// Capacities.
    pub limits: ClientLimits,
    /// Durations.
    pub timeouts: ClientTimeouts,
    /// When discovery, dial, authentication and negotiation must be over: one absolute deadline, begun before the dial (E1).
    pub setup_deadline: Instant,
}

// Z1: neither the nonce nor the role, which is a claim like an identity's.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("credentials", &self.credentials)
            .field("offers", &self.offers)
            .field("limits", &self.limits)
            .field("timeouts", &self.timeouts)
            .field("setup_deadline", &self.setup_deadline)
            .finish_non_exhaustive()
    }
}

/// Everything that a granted candidate needs to become the generation (N10).
#[derive(Debug)]
pub struct CandidateConfig {
    /// What the host granted.
    pub grant: Grant,
    /// Capacities.
    pub limits: ClientLimits,
    /// Durations.
    pub timeouts: ClientTimeouts,
    /// The bootstrap's own setup deadline: the exchange shares it (E1).
    pub setup_deadline: Instant,
}

/// Why a connection cannot be made from its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A limit or a duration cannot hold (B1, E4).
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The role does not fit into the first message (A1).
    #[error("the role does not fit: {0}")]
    Role(#[from] AuthError),
}
