//! One incarnation's stay in its run directory: the order of P7 as types.
//!
//! ```text
//! RunDir ─► InstanceLock ─► Tenure: `starting` ─ publish ─► `running`
//!                              │                               │
//!                              └───────────► retire ◄──────────┘
//!                                              │ `stopping`, then unpublish
//!                                              ▼
//!                                           Retired ─ release ─► record removed, then unlocked
//! ```
//!
//! Invariant: on every path out, an early return, an error and a panic included, the steps are `stopping`, unpublish,
//! remove the record, unlock, in this order: what was not done by a call is done by `Drop`. A kill leaves files behind,
//! and the lock free, which is all that a successor asks.

use super::environment::unix_now_ms;
use super::error::HostFileError;
use super::files::{Publication, remove_record, sweep_stale, write_record};
use super::lock::InstanceLock;
use super::{Launch, Removal};
use hostwire_core::auth::{Credentials, DaemonId, Key, MAX_DAEMON_VER_BYTES};
use hostwire_core::discovery::Document;
use hostwire_core::lifecycle::{LaunchId, Phase, Record};
use std::num::NonZeroU16;

/// A host that starts or runs: it holds the lock, its record says so, and it may publish.
///
/// All calls block on the file system. Dropping it goes the way of [`retire`](Self::retire) and
/// [`release`](Retired::release).
#[derive(Debug)]
pub struct Tenure {
    stay: Stay,
}

impl Tenure {
    /// Mints key, daemon ID and launch ID (P2: fresh, and only under the lock, P1) and writes the record `starting` (P7).
    ///
    /// # Errors
    ///
    /// [`HostFileError`]; the lock is free again.
    pub fn begin(lock: InstanceLock, launch: Launch, now_ms: u64) -> Result<Self, HostFileError> {
        Self::begin_as(lock, launch, None, now_ms)
    }

    /// The same with key, daemon ID and version from whoever started this process: minted for it, and for no other incarnation (P2).
    ///
    /// # Errors
    ///
    /// [`HostFileError`]; the lock is free again.
    pub fn begin_as(
        lock: InstanceLock,
        launch: Launch,
        given: Option<Credentials>,
        now_ms: u64,
    ) -> Result<Self, HostFileError> {
        if launch.daemon_ver.is_empty() || launch.daemon_ver.len() > MAX_DAEMON_VER_BYTES {
            return Err(HostFileError::BadDaemonVersion);
        }
        let credentials = match given {
            // A3: the version is part of what its client expects.
            Some(given) => given,
            None => Credentials {
                key: Key::new(random()?),
                daemon_id: DaemonId::new(random()?),
                daemon_ver: launch.daemon_ver.into(),
            },
        };
        let record = Record {
            phase: Phase::Starting,
            launch_id: LaunchId(random()?),
            daemon_id: credentials.daemon_id,
            payload_manifest_digest: launch.payload_manifest_digest,
            // P6: for display.
            pid: std::process::id(),
            written_at_ms: now_ms,
        };
        write_record(&lock, &record)?;
        Ok(Self { stay: Stay { record, credentials, publication: None, lock } })
    }

    /// This incarnation's key, ID and version text, for the host's side of authentication.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.stay.credentials
    }

    /// The lifecycle record as it was written last.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.stay.record
    }

    /// The lock, and where it is.
    #[must_use]
    pub fn lock(&self) -> &InstanceLock {
        &self.stay.lock
    }

    /// Renews the record while it says `starting`: every
    /// [`RENEW_EVERY_MS`](hostwire_core::lifecycle::RENEW_EVERY_MS) (P9). Does nothing once it says `running`.
    ///
    /// # Errors
    ///
    /// [`HostFileError`]; the record in place is the one from before.
    pub fn renew(&mut self, now_ms: u64) -> Result<(), HostFileError> {
        self.stay.renew(now_ms)
    }

    /// Publishes the listener's port, then writes the record `running` (P7). Afterwards, own temporaries that killed
    /// predecessors left are swept (P4).
    ///
    /// # Errors
    ///
    /// [`HostFileError`]. The host then [retires](Self::retire), which takes back what was published.
    pub fn publish(&mut self, port: NonZeroU16, now_ms: u64) -> Result<(), HostFileError> {
        let stay = &mut self.stay;
        let document = Document { port, credentials: stay.credentials.clone(), pid: stay.record.pid };
        stay.publication = Some(Publication::publish(&stay.lock, &document)?);
        stay.enter(Phase::Running, now_ms)?;
        sweep_stale(&stay.lock, now_ms);
        Ok(())
    }

    /// Writes the record `stopping`, then removes the own publication (P7, P5). Both are tried, whatever the first gives.
    pub fn retire(mut self, now_ms: u64) -> Retired {
        let outcome = self.stay.retire(now_ms);
        Retired { stay: self.stay, outcome }
    }
}

/// A host on its way out: unpublished, still holding the lock, until the last callback has ended (P1).
///
/// Dropping it goes the way of [`release`](Self::release).
#[derive(Debug)]
pub struct Retired {
    stay: Stay,
    outcome: Result<Removal, HostFileError>,
}

impl Retired {
    /// What became of the publication: [`Removal::Missing`] too when there never was one.
    ///
    /// # Errors
    ///
    /// The first thing that failed while retiring.
    pub fn outcome(&self) -> Result<Removal, &HostFileError> {
        self.outcome.as_ref().copied()
    }

    /// Renews the record `stopping`: every [`RENEW_EVERY_MS`](hostwire_core::lifecycle::RENEW_EVERY_MS) (P9).
    ///
    /// # Errors
    ///
    /// [`HostFileError`]; the record in place is the one from before.
    pub fn renew(&mut self, now_ms: u64) -> Result<(), HostFileError> {
        self.stay.renew(now_ms)
    }

    /// Removes the record, then frees the lock (P7). A successor can start at once.
    pub fn release(self) {
        drop(self);
    }
}

#[derive(Debug)]
struct Stay {
    record: Record,
    credentials: Credentials,
    publication: Option<Publication>,
    /// Dropped after the record is removed.
    lock: InstanceLock,
}

impl Stay {
    fn enter(&mut self, phase: Phase, now_ms: u64) -> Result<(), HostFileError> {
        self.record.phase = phase;
        self.record.written_at_ms = now_ms;
        write_record(&self.lock, &self.record)
    }

    fn renew(&mut self, now_ms: u64) -> Result<(), HostFileError> {
        match self.record.phase {
            Phase::Starting | Phase::Stopping => self.enter(self.record.phase, now_ms),
            Phase::Running => Ok(()),
        }
    }

    /// P7: `stopping` first, then unpublish. A record that cannot be written keeps nobody from unpublishing.
    fn retire(&mut self, now_ms: u64) -> Result<Removal, HostFileError> {
        let written = self.enter(Phase::Stopping, now_ms);
        let removal = match self.publication.take() {
            Some(publication) => publication.unpublish(&self.lock)?,
            None => Removal::Missing,
        };
        written.map(|()| removal)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        match self.record.phase {
            // Nobody retired us: a failed start, or a runtime that died. There is nobody to report to.
            Phase::Starting | Phase::Running => drop(self.retire(unix_now_ms())),
            Phase::Stopping => {}
        }
        // P7: the record before the lock. One that stays behind says nothing once the lock is free.
        let _ = remove_record(&self.lock, self.record.launch_id);
    }
}

fn random<const N: usize>() -> Result<[u8; N], HostFileError> {
    let mut bytes = [0; N];
    // P2: the operating system's CSPRNG.
    getrandom::fill(&mut bytes).map_err(|_| HostFileError::NoRandomness)?;
    Ok(bytes)
}
