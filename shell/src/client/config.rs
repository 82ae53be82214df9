//! What a client is made from, and why it could not be made.

use crate::discovery::{Environment, LocationError, Place, SnapshotError};
use crate::runtime::BlockingLost;
use hostwire_core::auth::DaemonId;
use hostwire_core::client::session::RetryPolicy;
use hostwire_core::client::{ConfigError, Stage};
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::{ClientLimits, ClientTimeouts};
#[cfg(doc)]
use hostwire_core::negotiate::Offer;
use hostwire_core::negotiate::OfferList;
use std::fmt;
use std::io;

/// What a client is made from. The default is what most programs want.
///
/// ```
/// use hostwire::client::ClientConfig;
/// use hostwire::discovery::Place;
///
/// let config = ClientConfig { place: Place::File("/run/user/1000/app/subc-connection.json".into()), ..ClientConfig::default() };
/// # let _ = config;
/// ```
#[derive(Clone)]
pub struct ClientConfig {
    /// Where the default place is, and who the caller says it is; the process's own by default.
    pub environment: Environment,
    /// Which discovery file.
    pub place: Place,
    /// A claim that decides nothing (T2).
    pub role: String,
    /// Who the caller says it is, in routes that do not say it themselves (C11).
    pub consumer: Consumer,
    /// Transports to offer, the most wanted first (N2); `tcp` alone by default. With [`Offer::unix`] before `tcp` a host that serves it
    /// goes on over a Unix domain socket in the discovery file's directory (N14), and any other over TCP.
    ///
    /// ```
    /// use hostwire::client::ClientConfig;
    /// use hostwire::core::negotiate::{Offer, OfferList};
    ///
    /// let offers = OfferList::new(vec![Offer::unix(), Offer::tcp()])?;
    /// let config = ClientConfig { offers, ..ClientConfig::default() };
    /// # drop(config);
    /// # Ok::<(), hostwire::core::negotiate::NegotiateError>(())
    /// ```
    pub offers: OfferList,
    /// Capacities (protocol.md §14).
    pub limits: ClientLimits,
    /// Durations (protocol.md §15).
    pub timeouts: ClientTimeouts,
    /// What is sent again by itself (O4); [`RetryPolicy::NONE`] for nothing.
    pub retry: RetryPolicy,
    /// Whether operations that need a connection make another when one has ended (K4).
    pub reconnect: bool,
}

// Z1: the role is a claim like an identity's; the environment keeps its own to itself.
impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("environment", &self.environment)
            .field("place", &self.place)
            .field("consumer", &self.consumer)
            .field("offers", &self.offers)
            .field("limits", &self.limits)
            .field("timeouts", &self.timeouts)
            .field("retry", &self.retry)
            .field("reconnect", &self.reconnect)
            .finish_non_exhaustive()
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            environment: Environment::from_process(),
            place: Place::Default,
            role: "client".to_owned(),
            consumer: Consumer::FromEnvironment,
            offers: OfferList::tcp_only(),
            limits: ClientLimits::default(),
            timeouts: ClientTimeouts::default(),
            retry: RetryPolicy::default(),
            reconnect: true,
        }
    }
}

impl ClientConfig {
    /// B1, E4: before anything is opened.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.limits.validate()?;
        self.timeouts.validate()?;
        Ok(())
    }
}

/// The `consumer_identity` of routes that do not bring one (C11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consumer {
    /// `SUBC_MODULE_ID` and `SUBC_LAUNCH_NONCE`, if both are set and not empty.
    #[default]
    FromEnvironment,
    /// None.
    Anonymous,
}

/// Why there is no connection. Nothing that a caller asked for has left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration cannot hold.
    #[error("invalid configuration: {0}")]
    Config(#[from] ConfigError),
    /// The environment names no place for the discovery file.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// There is no discovery document to trust. Nothing was dialled.
    #[error(transparent)]
    Discovery(#[from] SnapshotError),
    /// Nobody listens there, or the system said no.
    #[error("cannot connect: {0}")]
    Dial(#[source] io::Error),
    /// The connection ended while it was being set up.
    #[error("connection ended during setup: {reason}")]
    Setup {
        /// Why.
        reason: CloseReason,
        /// How far it had come.
        stage: Stage,
        /// Whom the discovery file named.
        daemon_id: DaemonId,
    },
    /// The candidate that the host granted cannot be reached, or is not one to trust (N14). Both connections have ended (N11).
    #[error("granted candidate: {failure}")]
    Candidate {
        /// Why.
        failure: CandidateFailure,
        /// Whom the discovery file named.
        daemon_id: DaemonId,
    },
    /// The one deadline of discovery, dial, authentication and negotiation passed (E1).
    #[error("not connected in time")]
    TimedOut,
    /// The runtime ended meanwhile.
    #[error(transparent)]
    Runtime(#[from] BlockingLost),
    /// The operating system gave no randomness (A2).
    #[error("no randomness from the operating system")]
    NoRandomness,
}

impl ConnectError {
    /// The stable code: `discovery_missing`, `discovery_insecure`, `discovery_invalid`, `dial_failed`, `authentication_failed`,
    /// `negotiation_failed`, `handshake_timeout`, or `client_failed` for what is this side's own fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Location(_) => "discovery_invalid",
            Self::Discovery(error) => error.code(),
            Self::Dial(_) => "dial_failed",
            Self::TimedOut | Self::Setup { reason: CloseReason::HandshakeTimeout, .. } => "handshake_timeout",
            Self::Setup { stage: Stage::Authenticating, .. } => "authentication_failed",
            Self::Candidate { .. } | Self::Setup { stage: Stage::Negotiating | Stage::Active, .. } => {
                "negotiation_failed"
            }
            Self::Config(_) | Self::Runtime(_) | Self::NoRandomness => "client_failed",
        }
    }

    /// The host's incarnation, if it had proved itself before the end (A3).
    #[must_use]
    pub const fn daemon_id(&self) -> Option<DaemonId> {
        match self {
            Self::Candidate { daemon_id, .. }
            | Self::Setup { stage: Stage::Negotiating | Stage::Active, daemon_id, .. } => Some(*daemon_id),
            Self::Setup { stage: Stage::Authenticating, .. }
            | Self::Config(_)
            | Self::Location(_)
            | Self::Discovery(_)
            | Self::Dial(_)
            | Self::TimedOut
            | Self::Runtime(_)
            | Self::NoRandomness => None,
        }
    }
}

/// Why a granted candidate was not used. Nothing here shows its descriptor (N15).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CandidateFailure {
    /// Not a candidate of ours, or a descriptor that is none.
    #[error("not a transport that this client has")]
    Unsupported,
    /// Its path is not inside the discovery file's directory.
    #[error("its path is outside the discovery file's directory")]
    Outside,
    /// Nothing stands at its path, or the system does not let us look.
    #[error("nothing is at its path")]
    Missing,
    /// A link or an unsafe directory on the way, or no socket of ours alone.
    #[error("its path is not safe")]
    Insecure,
    /// Nobody listens there, or the system said no.
    #[error("cannot connect: {0}")]
    Dial(#[source] io::Error),
    /// Whoever listens there runs under another user ID.
    #[error("its peer is another user")]
    ForeignPeer,
    /// The runtime ended meanwhile.
    #[error("blocking work was lost")]
    Lost,
}
