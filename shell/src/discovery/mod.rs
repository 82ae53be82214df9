//! Discovery on disk (protocol.md §3, §4): how a client finds the host and its key, and how a host makes itself found.
//!
//! The key in the discovery file is all the authority there is (T1). Whoever can swap, link, widen or leave behind that
//! file owns the host or breaks the next one; so everything here goes by descriptor, follows nothing, and removes only
//! what is its own.
//!
//! | side | call | rules |
//! | --- | --- | --- |
//! | both | [`Location::resolve`], once | §3 |
//! | client | [`read_snapshot`], for every connect | D1 to D7 |
//! | host | [`RunDir::open_or_create`], [`InstanceLock::acquire`], [`Tenure::begin`], [`Tenure::publish`], [`Tenure::retire`], [`Retired::release`] | P1 to P7 |
//! | anyone | [`probe`] | P8, P9 |
//!
//! All calls block as long as the file system does: they belong where the runtime puts blocking work. Time is an
//! argument, in milliseconds of Unix time; [`unix_now_ms`] is the usual source.
//!
//! Unix only (T4): elsewhere every call answers with an `Unsupported` error.
//!
//! ```
//! use hostwire::discovery::*;
//! use std::num::NonZeroU16;
//!
//! # let temp = tempfile::tempdir()?;
//! let environment = Environment { xdg_data_home: Some(temp.path().into()), ..Environment::default() };
//! let location = Location::resolve(&environment, &Place::Default)?;
//!
//! // The host.
//! let lock = InstanceLock::acquire(RunDir::open_or_create(&location)?, unix_now_ms)?;
//! let launch = Launch { daemon_ver: "example/0.1.0".into(), payload_manifest_digest: None };
//! let mut tenure = Tenure::begin(lock, launch, unix_now_ms())?;
//! // … components initialize, the listener binds …
//! tenure.publish(NonZeroU16::new(43_123).unwrap(), unix_now_ms())?;
//!
//! // A client, and a probe.
//! assert_eq!(read_snapshot(&location)?.endpoint().port(), 43_123);
//! assert_eq!(probe(&location, unix_now_ms)?.state.as_str(), "running");
//!
//! // The end: `stopping` and unpublished first, unlocked last.
//! let retired = tenure.retire(unix_now_ms());
//! assert_eq!(read_snapshot(&location).unwrap_err().code(), "discovery_missing");
//! retired.release();
//! assert_eq!(probe(&location, unix_now_ms)?.state.as_str(), "stopped");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod environment;
mod error;
mod evidence;
mod flights;

// Compiled into the tests everywhere, so that it cannot rot.
#[cfg(unix)]
mod door;
#[cfg(any(not(unix), test))]
#[cfg_attr(unix, expect(unreachable_pub, dead_code, reason = "exported on other systems"))]
mod elsewhere;
#[cfg(unix)]
mod files;
#[cfg(unix)]
mod lock;
#[cfg(unix)]
mod probe;
#[cfg(unix)]
mod snapshot;
#[cfg(unix)]
mod tenure;
#[cfg(unix)]
mod walk;

pub use environment::{
    CONNECTION_FILE, Environment, LOCK_FILE, Location, LocationError, Place, RECORD_FILE, unix_now_ms,
};
pub use error::{DiskError, HostFileError, Insecure, Insecurity, LockError, SnapshotError};
pub use evidence::Probe;

#[cfg(not(unix))]
pub use elsewhere::{
    InstanceLock, Publication, Retired, RunDir, Tenure, probe, read_snapshot, remove_record, write_record,
};
#[cfg(unix)]
pub use {
    files::{Publication, remove_record, write_record},
    lock::{InstanceLock, RunDir},
    probe::probe,
    snapshot::read_snapshot,
    tenure::{Retired, Tenure},
};

#[cfg(unix)]
pub(crate) use door::{Door, Refused, judge_door};
pub(crate) use flights::read_shared;

use hostwire_core::lifecycle::PayloadDigest;

/// What a host says about itself when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The version text of the discovery file (`daemon_ver`): 1 to 512 bytes.
    pub daemon_ver: String,
    /// The digest of what was launched, if a launcher gave one (P6).
    pub payload_manifest_digest: Option<PayloadDigest>,
}

/// What became of a removal (P5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Removal {
    /// It is gone, by our hand.
    Removed,
    /// There was nothing.
    Missing,
    /// What stands there is not what we put there, and was left alone.
    NotOurs,
}
