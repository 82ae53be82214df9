//! The probe (P8, P9): what the files and the lock of a run directory say about its host, without creating, changing or
//! following anything.
//!
//! Invariant: the evidence belongs together. The record is read before and after the publication, and the lock is tested
//! before and after both; when one of them has changed, all are looked at again, within the same grace of 500 ms that a
//! missing record has.

use super::environment::{LOCK_FILE, Location, RECORD_FILE};
use super::error::{DiskError, HostFileError};
use super::evidence::Probe;
use super::snapshot::{REGULAR, ReadError, judge_unopened, read_regular};
use super::walk::{self, Dir, WalkError};
use hostwire_core::discovery::{Document, MAX_BYTES};
use hostwire_core::lifecycle::{GRACE_MS, Lock, MAX_RECORD_BYTES, PublicationEvidence, RecordEvidence};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::time::Duration;
use zeroize::Zeroizing;

const PAUSE_MS: u64 = 10;

/// Looks at the host of `location` (P8, P9). `now_ms` gives the Unix time in milliseconds; it is asked after a record
/// has been read, so that a record which was just written is not from the future.
///
/// It may take up to 500 ms when the record is missing under a held lock.
///
/// # Errors
///
/// [`HostFileError::Disk`] when the system says no for a reason that is evidence of nothing.
pub fn probe(location: &Location, mut now_ms: impl FnMut() -> u64) -> Result<Probe, HostFileError> {
    Ok(probe_with(location, &mut now_ms, &mut std::thread::sleep, &mut || {})?)
}

pub(super) fn probe_with(
    location: &Location,
    now_ms: &mut dyn FnMut() -> u64,
    sleep: &mut dyn FnMut(Duration),
    between: &mut dyn FnMut(),
) -> Result<Probe, DiskError> {
    let mut waited = 0;
    loop {
        let (probe, stable) = look(location, now_ms, between)?;
        // P8: a missing record under a held lock has a grace: its host may be about to write it, or to go.
        let awaited = probe.lock == Lock::Held && probe.record == RecordEvidence::Missing;
        if (stable && !awaited) || waited >= GRACE_MS {
            return Ok(probe);
        }
        sleep(Duration::from_millis(PAUSE_MS));
        waited += PAUSE_MS;
    }
}

/// One look, and whether nothing changed meanwhile. Tests act `between` the first read of the record and the rest.
fn look(
    location: &Location,
    now_ms: &mut dyn FnMut() -> u64,
    between: &mut dyn FnMut(),
) -> Result<(Probe, bool), DiskError> {
    let (dir, fault) = match walk::open_noting_faults(location.run_dir()) {
        Ok(opened) => opened,
        Err(WalkError::Missing) => {
            let nothing = Probe::new(Lock::Free, RecordEvidence::Missing, PublicationEvidence::Missing);
            return Ok((nothing, true));
        }
        // A link on the way: nothing behind it is looked at.
        Err(WalkError::Insecure(_)) => {
            let unknown = Probe::new(Lock::Insecure, RecordEvidence::Insecure, PublicationEvidence::Insecure);
            return Ok((unknown, true));
        }
        Err(WalkError::Disk(error)) => return Err(error),
    };
    let lock = test_lock(&dir)?;
    if fault.is_some() {
        // No client would read a file here (D4), so nothing that lies here is evidence.
        return Ok((Probe::new(lock, RecordEvidence::Insecure, PublicationEvidence::Insecure), true));
    }
    let record_name = OsStr::new(RECORD_FILE);
    let record = read(&dir, record_name, MAX_RECORD_BYTES)?;
    between();
    let publication = read(&dir, location.file_name(), MAX_BYTES)?;
    let record_again = read(&dir, record_name, MAX_RECORD_BYTES)?;
    let stable = record == record_again && publication != Found::Replaced && lock == test_lock(&dir)?;
    let record = match record_again {
        Found::Missing => RecordEvidence::Missing,
        Found::Insecure => RecordEvidence::Insecure,
        Found::TooLarge | Found::Replaced => RecordEvidence::Corrupt,
        Found::Whole(content) => RecordEvidence::of(&content, now_ms()),
    };
    let publication = match publication {
        Found::Missing => PublicationEvidence::Missing,
        Found::Insecure => PublicationEvidence::Insecure,
        Found::TooLarge | Found::Replaced => PublicationEvidence::Corrupt,
        Found::Whole(content) => match Document::parse(&content) {
            Ok(document) => PublicationEvidence::Present {
                daemon_id: document.credentials.daemon_id,
                pid: document.pid,
                port: document.port.get(),
            },
            Err(_) => PublicationEvidence::Corrupt,
        },
    };
    Ok((Probe::new(lock, record, publication), stable))
}

#[derive(PartialEq, Eq)]
enum Found {
    Missing,
    Insecure,
    Replaced,
    TooLarge,
    Whole(Zeroizing<Vec<u8>>),
}

fn read(dir: &Dir, name: &OsStr, max: usize) -> Result<Found, DiskError> {
    match read_regular(dir, name, max, &mut |_| {}) {
        Ok(file) => Ok(Found::Whole(file.bytes)),
        Err(ReadError::Missing) => Ok(Found::Missing),
        Err(ReadError::Insecure(_)) => Ok(Found::Insecure),
        Err(ReadError::Replaced) => Ok(Found::Replaced),
        Err(ReadError::TooLarge) => Ok(Found::TooLarge),
        Err(ReadError::Disk(errno)) => Err(dir.disk("read", name, errno)),
    }
}

/// P8: a shared lock, not waited for, and given back at once. Nothing is created: no file, no lock.
fn test_lock(dir: &Dir) -> Result<Lock, DiskError> {
    let name = OsStr::new(LOCK_FILE);
    let fd = match openat(&dir.fd, name, OFlags::RDONLY | REGULAR, Mode::empty()) {
        Ok(fd) => fd,
        Err(errno) => {
            return match judge_unopened(dir, name, errno) {
                // Gone in between is as good as not there: a host that holds it does not remove it.
                ReadError::Missing | ReadError::Replaced => Ok(Lock::Free),
                ReadError::Insecure(_) => Ok(Lock::Insecure),
                ReadError::TooLarge | ReadError::Disk(_) => Err(dir.disk("open", name, errno)),
            };
        }
    };
    let stat = fstat(&fd).map_err(|errno| dir.disk("inspect", name, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Lock::Insecure);
    }
    match flock(&fd, FlockOperation::NonBlockingLockShared) {
        // Closing gives it back.
        Ok(()) => Ok(Lock::Free),
        Err(Errno::WOULDBLOCK) => Ok(Lock::Held),
        Err(errno) => Err(dir.disk("test", name, errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{Environment, InstanceLock, Launch, Place, RunDir, Tenure};
    use hostwire_core::lifecycle::HostState;
    use std::cell::{Cell, RefCell};
    use std::num::NonZeroU16;

    fn place() -> (tempfile::TempDir, Location) {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("run").join("c.json");
        let location = Location::resolve(&Environment::default(), &Place::File(file)).unwrap();
        (temp, location)
    }

    fn lock(location: &Location) -> InstanceLock {
        InstanceLock::acquire(RunDir::open_or_create(location).unwrap(), || 0).unwrap()
    }

    fn begin(lock: InstanceLock) -> Tenure {
        Tenure::begin(lock, Launch { daemon_ver: "v".into(), payload_manifest_digest: None }, 1_000).unwrap()
    }

    fn probe_at(location: &Location, sleep: &mut dyn FnMut(Duration), between: &mut dyn FnMut()) -> Probe {
        probe_with(location, &mut || 1_000, sleep, between).unwrap()
    }

    #[test]
    fn a_record_missing_under_a_held_lock_has_a_grace_of_500_ms_and_not_more() {
        let (_temp, location) = place();
        let _lock = lock(&location);
        let mut slept = Duration::ZERO;
        let probe = probe_at(&location, &mut |pause| slept += pause, &mut || {});
        assert_eq!((probe.state, probe.record), (HostState::Wedged, RecordEvidence::Missing));
        assert_eq!(slept, Duration::from_millis(500));
    }

    #[test]
    fn a_record_that_appears_within_the_grace_is_believed() {
        let (_temp, location) = place();
        let lock = RefCell::new(Some(lock(&location)));
        let tenure = RefCell::new(None);
        let pauses = Cell::new(0);
        let mut sleep = |_| {
            pauses.set(pauses.get() + 1);
            if pauses.get() == 3 {
                tenure.replace(lock.take().map(begin));
            }
        };
        let probe = probe_at(&location, &mut sleep, &mut || {});
        assert_eq!((probe.state, pauses.get()), (HostState::Starting, 3));
    }

    #[test]
    fn a_host_that_goes_within_the_grace_is_stopped() {
        let (_temp, location) = place();
        let mut lock = Some(lock(&location));
        let probe = probe_at(&location, &mut |_| drop(lock.take()), &mut || {});
        assert_eq!(probe.state, HostState::Stopped);
    }

    #[test]
    fn a_host_that_retires_between_two_reads_is_not_called_wedged() {
        let (_temp, location) = place();
        let mut tenure = begin(lock(&location));
        tenure.publish(NonZeroU16::MIN, 1_000).unwrap();
        let tenure = RefCell::new(Some(tenure));
        let retired = RefCell::new(None);
        // The record said `running`, and now there is no publication: what was seen does not belong together.
        let mut between = || {
            if let Some(tenure) = tenure.take() {
                retired.replace(Some(tenure.retire(1_000)));
            }
        };
        let probe = probe_at(&location, &mut |_| {}, &mut between);
        assert_eq!(probe.state, HostState::Stopping);
    }

    #[test]
    fn a_host_that_ends_between_two_reads_is_stopped_and_looking_is_bounded() {
        let (_temp, location) = place();
        let mut tenure = Some(begin(lock(&location)));
        let probe = probe_at(&location, &mut |_| {}, &mut || drop(tenure.take()));
        assert_eq!(probe.state, HostState::Stopped);
        // One that never holds still is reported as it is seen when the grace is over.
        let mut tenure = begin(lock(&location));
        let (mut looks, mut slept) = (0_u64, Duration::ZERO);
        let mut between = || {
            looks += 1;
            tenure.renew(900 + looks).unwrap();
        };
        let probe = probe_at(&location, &mut |pause| slept += pause, &mut between);
        assert_eq!(probe.state, HostState::Starting);
        assert_eq!((looks, slept), (51, Duration::from_millis(500)));
    }

    #[test]
    fn the_clock_is_asked_after_the_record_was_read() {
        let (_temp, location) = place();
        let mut tenure = begin(lock(&location));
        let now = Cell::new(5_000);
        // Written at 6,000 while the probe runs, and not from the future for it.
        let mut between = || {
            now.set(6_000);
            tenure.renew(6_000).unwrap();
        };
        let probe = probe_with(&location, &mut || now.get(), &mut |_| {}, &mut between).unwrap();
        assert_eq!(probe.state, HostState::Starting);
    }
}
