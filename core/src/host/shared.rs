//! What the connections of one host share: configuration, permits, pools, the latch, the catalog. Counters, no locks.
//!
//! Invariant: a value of this type exists only if its limits carry its components (B7, V49). Never knows a connection.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use super::admission::{Admission, Slot};
use super::declare::{BoundViolation, Declaration};
use super::latch::ShutdownLatch;
use super::resident::Resident;
use crate::auth::{DaemonId, Key, MAX_DAEMON_VER_BYTES};
use crate::control::{Catalog, CatalogError, Manifest, ManifestError, Targets};
use crate::limits::{HostLimits, HostTimeouts, LimitError};
use crate::negotiate::Served;

/// A component as the core knows it: what the catalog says, and what it needs.
#[derive(Clone, Debug)]
pub struct ComponentSpec {
    /// Its entry in the table of targets and in the catalog; its class stands there (B7).
    pub manifest: Manifest,
    /// What it declares before initialization.
    pub declaration: Declaration,
}

/// Everything that one incarnation of a host is made of.
#[derive(Clone)]
pub struct HostConfig {
    /// Capacities.
    pub limits: HostLimits,
    /// Durations.
    pub timeouts: HostTimeouts,
    /// The incarnation's key (P2).
    pub key: Key,
    /// The incarnation's ID (P2).
    pub daemon_id: DaemonId,
    /// The version text, for people; 1 to 512 bytes.
    pub daemon_ver: Box<str>,
    /// The components, in the composition's order.
    pub components: Vec<ComponentSpec>,
    /// What is served beside `tcp` (N7).
    pub served: Served,
    /// The catalog's generation: changes only when the catalog does (§8).
    pub catalog_generation: u64,
}

impl fmt::Debug for HostConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Z1: the key stays out.
        f.debug_struct("HostConfig")
            .field("limits", &self.limits)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// Why a host does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A limit or duration that cannot hold.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The components need more than the limits have (V49).
    #[error(transparent)]
    Bound(#[from] BoundViolation),
    /// The components are no table of targets.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The components do not fit a catalog.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The version text is empty or over 512 bytes.
    #[error("the version text is empty or too long")]
    DaemonVersion,
}

/// One host, as its connections see it. Shared by `Arc`; nothing in it is locked.
pub struct Shared {
    pub(super) limits: HostLimits,
    pub(super) timeouts: HostTimeouts,
    pub(super) key: Key,
    pub(super) daemon_id: DaemonId,
    pub(super) daemon_ver: Box<str>,
    pub(super) targets: Targets,
    pub(super) served: Served,
    pub(super) catalog: CatalogBodies,
    pub(super) admission: Admission,
    pub(super) resident: Resident,
    pub(super) latch: ShutdownLatch,
    draining: AtomicBool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("admission", &self.admission)
            .field("resident", &self.resident)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Checks that the limits hold and carry the components, and lays the pools out.
    ///
    /// # Errors
    /// [`StartError`]; nothing may be published then (V49).
    pub fn new(config: HostConfig) -> Result<Arc<Self>, StartError> {
        let HostConfig {
            limits,
            timeouts,
            key,
            daemon_id,
            daemon_ver,
            components,
            served,
            catalog_generation,
        } = config;
        limits.validate()?;
        timeouts.validate()?;
        if daemon_ver.is_empty() || daemon_ver.len() > MAX_DAEMON_VER_BYTES {
            return Err(StartError::DaemonVersion);
        }
        let declared: Vec<_> = components.iter().map(|one| one.declaration).collect();
        let manifests: Vec<_> = components.into_iter().map(|one| one.manifest).collect();
        let sums = Declaration::sum(&declared, &limits)?;
        let catalog = Catalog::new(catalog_generation, manifests.clone())?;
        let targets = Targets::new(manifests)?;
        Ok(Arc::new(Self {
            limits,
            timeouts,
            key,
            daemon_id,
            daemon_ver,
            catalog: CatalogBodies::new(&catalog, &targets),
            targets,
            served,
            admission: Admission::new(&limits, &declared, &sums),
            resident: Resident::new(sums.resident),
            latch: ShutdownLatch::default(),
            draining: AtomicBool::new(false),
        }))
    }

    /// A place among the handshakes in progress (A8). `None`: close the accepted socket at once, without a read.
    #[must_use]
    pub fn admit_handshake(&self) -> Option<Slot> {
        self.admission.handshake()
    }

    /// Permits and slots in use.
    #[must_use]
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The resident bytes and their pools (B8).
    #[must_use]
    pub const fn resident(&self) -> &Resident {
        &self.resident
    }

    /// The shutdown latch (H1).
    #[must_use]
    pub const fn latch(&self) -> &ShutdownLatch {
        &self.latch
    }

    /// The table of targets.
    #[must_use]
    pub const fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Capacities.
    #[must_use]
    pub const fn limits(&self) -> &HostLimits {
        &self.limits
    }

    /// Durations.
    #[must_use]
    pub const fn timeouts(&self) -> &HostTimeouts {
        &self.timeouts
    }

    /// The host shuts down: from now on every connection refuses routed requests and `route.open` (B6, §17). Final.
    pub fn set_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the host shuts down.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// What one connection can hold in memory at most, in bytes, its shares of the pools included (B1).
    #[must_use]
    pub fn connection_bound(&self) -> usize {
        super::bound::alone(&self.limits, self.resident.split())
    }

    /// What the host can hold in memory at most, in bytes, over all its connections, routes and requests (B1).
    ///
    /// The embedder's are not in it: bodies that it took over ([`Body::into_vec`](crate::body::Body::into_vec)), and what this value itself
    /// was made from, the table of targets and the catalog's answers.
    #[must_use]
    pub fn memory_bound(&self) -> usize {
        super::bound::host(&self.limits, self.resident.split())
    }
}

/// Every answer to `catalog.list`, made once: answering allocates nothing.
pub(super) struct CatalogBodies {
    all: Bytes,
    one: Vec<Bytes>,
    none: Bytes,
}

impl CatalogBodies {
    fn new(catalog: &Catalog, targets: &Targets) -> Self {
        Self {
            all: catalog.render(None).into(),
            one: targets.manifests().iter().map(|one| catalog.render(Some(one.module_id())).into()).collect(),
            none: catalog.render(Some("")).into(), // no module has an empty ID
        }
    }

    /// V40: all in order, one, or none.
    pub(super) fn body(&self, targets: &Targets, filter: Option<&str>) -> Bytes {
        let Some(filter) = filter else { return self.all.clone() };
        let place = targets.manifests().iter().position(|one| one.module_id() == filter);
        place.and_then(|place| self.one.get(place)).unwrap_or(&self.none).clone()
    }
}
