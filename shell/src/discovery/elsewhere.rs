//! Discovery where secure publication is not defined (T4): the same names, and one clear answer.
//!
//! What proves something elsewhere (a run directory, a lock, a tenure) cannot exist here, so nothing but the first call of
//! each side can be reached.

use super::environment::Location;
use super::error::{DiskError, HostFileError, LockError, SnapshotError};
use super::evidence::Probe;
use super::{Launch, Removal};
use hostwire_core::auth::Credentials;
use hostwire_core::discovery::Document;
use hostwire_core::lifecycle::{LaunchId, Record};
use std::convert::Infallible;
use std::num::NonZeroU16;

/// Always [`SnapshotError::Unsupported`].
///
/// # Errors
///
/// Always.
pub fn read_snapshot(_: &Location) -> Result<Document, SnapshotError> {
    // T4: refuses, and looks at nothing.
    Err(SnapshotError::Unsupported)
}

/// Always [`HostFileError::Unsupported`].
///
/// # Errors
///
/// Always.
pub fn probe(_: &Location, _: impl FnMut() -> u64) -> Result<Probe, HostFileError> {
    Err(HostFileError::Unsupported)
}

/// A run directory; there is none here.
#[derive(Debug)]
pub struct RunDir(Infallible);

impl RunDir {
    /// Always [`HostFileError::Unsupported`].
    ///
    /// # Errors
    ///
    /// Always.
    pub fn open_or_create(_: &Location) -> Result<Self, HostFileError> {
        Err(HostFileError::Unsupported)
    }

    /// Unreachable.
    #[must_use]
    pub fn location(&self) -> &Location {
        match self.0 {}
    }
}

/// The single-instance lock; there is none here.
#[derive(Debug)]
pub struct InstanceLock(Infallible);

impl InstanceLock {
    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    pub fn acquire(run_dir: RunDir, _: impl FnMut() -> u64) -> Result<Self, LockError> {
        match run_dir.0 {}
    }

    /// Unreachable.
    #[must_use]
    pub fn location(&self) -> &Location {
        match self.0 {}
    }
}

/// A publication; there is none here.
#[derive(Debug)]
pub struct Publication(Infallible);

impl Publication {
    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    pub fn publish(lock: &InstanceLock, _: &Document) -> Result<Self, HostFileError> {
        match lock.0 {}
    }

    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    pub fn unpublish(self, _: &InstanceLock) -> Result<Removal, DiskError> {
        match self.0 {}
    }
}

/// Unreachable.
///
/// # Errors
///
/// None.
pub fn write_record(lock: &InstanceLock, _: &Record) -> Result<(), HostFileError> {
    match lock.0 {}
}

/// Unreachable.
///
/// # Errors
///
/// None.
pub fn remove_record(lock: &InstanceLock, _: LaunchId) -> Result<Removal, DiskError> {
    match lock.0 {}
}

/// A host's stay; there is none here.
#[derive(Debug)]
pub struct Tenure(Infallible);

impl Tenure {
    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    pub fn begin(lock: InstanceLock, _: Launch, _: u64) -> Result<Self, HostFileError> {
        match lock.0 {}
    }

    /// Unreachable.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        match self.0 {}
    }

    /// Unreachable.
    #[must_use]
    pub fn record(&self) -> &Record {
        match self.0 {}
    }

    /// Unreachable.
    #[must_use]
    pub fn lock(&self) -> &InstanceLock {
        match self.0 {}
    }

    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    pub fn renew(&mut self, _: u64) -> Result<(), HostFileError> {
        match self.0 {}
    }

    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    pub fn publish(&mut self, _: NonZeroU16, _: u64) -> Result<(), HostFileError> {
        match self.0 {}
    }

    /// Unreachable.
    pub fn retire(self, _: u64) -> Retired {
        match self.0 {}
    }
}

/// A host on its way out; there is none here.
#[derive(Debug)]
pub struct Retired(Infallible);

impl Retired {
    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    pub fn outcome(&self) -> Result<Removal, &HostFileError> {
        match self.0 {}
    }

    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    pub fn renew(&mut self, _: u64) -> Result<(), HostFileError> {
        match self.0 {}
    }

    /// Unreachable.
    pub fn release(self) {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{Environment, Place};

    // T4: this file is compiled into the tests on every system.
    #[test]
    fn elsewhere_than_on_unix_every_first_call_says_unsupported() {
        let location = Location::resolve(&Environment::default(), &Place::File("/x/c.json".into())).unwrap();
        assert!(matches!(read_snapshot(&location), Err(SnapshotError::Unsupported)));
        assert!(matches!(probe(&location, || 0), Err(HostFileError::Unsupported)));
        assert!(matches!(RunDir::open_or_create(&location), Err(HostFileError::Unsupported)));
        let text = SnapshotError::Unsupported.to_string();
        assert!(text.contains("Unix only"), "{text}");
    }
}
