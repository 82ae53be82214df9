//! What a host is told at its start, and why a start fails.

use super::report::Cause;
use crate::discovery::{HostFileError, Launch, Location, LockError};
use hostwire_core::auth::Credentials;
use hostwire_core::host;
use hostwire_core::lifecycle::PayloadDigest;
use hostwire_core::limits::{HostLimits, HostTimeouts, LimitError};
use hostwire_core::negotiate::{Installed, Served};
use std::io;

/// What a host is told at its start. Everything but the place has the contract's defaults (protocol.md §14, §15).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostConfig {
    /// The connection file, and the run directory around it.
    pub location: Location,
    /// What the host calls itself (`daemon_ver`): 1 to 512 bytes.
    pub version: String,
    /// The digest of what was launched, if a launcher gave one (P6).
    pub payload_manifest_digest: Option<PayloadDigest>,
    /// Key and daemon ID, if whoever started this process minted them for it ([`crate::process::own_credentials`]); otherwise they are minted
    /// at the start (P2).
    pub credentials: Option<Credentials>,
    /// The port on 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// Whether a client that asks for it gets a Unix domain socket in the run directory instead of TCP (N14); off by default. A client
    /// that cannot be given one goes on over TCP, and is told so (N5).
    pub unix: bool,
    /// Every capacity (B1).
    pub limits: HostLimits,
    /// Every patience (§15).
    pub timeouts: HostTimeouts,
}

impl HostConfig {
    /// A host at `location` that calls itself `version`, with the defaults for the rest.
    pub fn new(location: Location, version: impl Into<String>) -> Self {
        Self {
            location,
            version: version.into(),
            payload_manifest_digest: None,
            credentials: None,
            port: 0,
            unix: false,
            limits: HostLimits::default(),
            timeouts: HostTimeouts::default(),
        }
    }

    /// N7: what is served beside `tcp`.
    pub(super) fn served(&self) -> Served {
        let unix = self.unix.then(|| Installed::unix(true));
        // One entry can neither be repeated nor be `tcp`.
        Served::new(unix.into_iter().collect()).unwrap_or_default()
    }

    pub(super) fn launch(&self) -> Launch {
        Launch { daemon_ver: self.version.clone(), payload_manifest_digest: self.payload_manifest_digest }
    }
}

/// Why a host did not start. Nothing of it is left: nothing published, no record, no lock (P7).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A limit or duration that cannot hold (B1, E4), components that declare more than the limits have (V49), or that are no table of
    /// targets.
    #[error(transparent)]
    Plan(#[from] host::StartError),
    /// A manifest is not one: an ill-formed ID, version or role.
    #[error("component {index}: {problem}")]
    Manifest {
        /// Which one, in the composition's order.
        index: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Another host holds the lock, or the run directory is not to be trusted (P1).
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Record or publication could not be written.
    #[error(transparent)]
    Files(#[from] HostFileError),
    /// A component did not initialize. Those before it were shut down.
    #[error("component {module_id} did not initialize: {cause}")]
    Initialize {
        /// Whose callback it was.
        module_id: String,
        /// How it ended; its text goes to nobody but [`StartError::source`](std::error::Error::source).
        cause: Cause,
        /// What it said, if it said something.
        source: Option<crate::component::BoxError>,
    },
    /// The port could not be bound.
    #[error("cannot listen on 127.0.0.1: {0}")]
    Listen(#[source] io::Error),
    /// The host was told to stop before it ran: its start was dropped.
    #[error("stopped before it ran")]
    Stopped,
    /// The runtime ended, or has no room for a task or a blocking call.
    #[error("the runtime has ended")]
    RuntimeEnded,
}

impl StartError {
    /// The limit that cannot hold, as [`HostLimits`] spells it, if that is why (V49, B1).
    #[must_use]
    pub const fn bound(&self) -> Option<&'static str> {
        match self {
            Self::Plan(host::StartError::Bound(violation)) => Some(violation.bound),
            Self::Plan(host::StartError::Limit(LimitError::Zero(name) | LimitError::TooLarge(name))) => {
                Some(name)
            }
            Self::Plan(_)
            | Self::Manifest { .. }
            | Self::Lock(_)
            | Self::Files(_)
            | Self::Initialize { .. }
            | Self::Listen(_)
            | Self::Stopped
            | Self::RuntimeEnded => None,
        }
    }
}
