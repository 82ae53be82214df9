//! What a host writes into its run directory, and takes away again (P3 to P6).
//!
//! Invariant: a name in the run directory holds a whole document or none; every file is owner-only from its creation on;
//! and nothing is removed but what this incarnation put there.
//!
//! Durability: a publication is flushed to the disk (`fsync`) before it is renamed over its name. The rename itself is not
//! flushed, and neither is the record: after a crash of the system both speak of a process that is gone, and the free
//! lock says so.

use super::Removal;
use super::environment::RECORD_FILE;
use super::error::{DiskError, HostFileError, Insecurity};
use super::lock::InstanceLock;
use super::snapshot::{FileId, ReadError, read_regular};
use super::walk::{Dir, OWNER_ONLY, judge_file, judge_socket, mode_bits};
use hostwire_core::auth::DaemonId;
use hostwire_core::discovery::{Document, MAX_BYTES};
use hostwire_core::lifecycle::{LaunchId, MAX_RECORD_BYTES, Record};
use rustix::fs::{AtFlags, OFlags, fchmod, fstat, fsync, openat, renameat, unlinkat};
use rustix::io::{Errno, write};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use zeroize::Zeroizing;

/// Names of temporaries, and of candidates' sockets: this, 32 hexadecimal digits, and the suffix (P4, N14).
const OWN_PREFIX: &str = ".mc-host-";
const TEMP_SUFFIX: &str = ".tmp";
pub(super) const DOOR_SUFFIX: &str = ".sock";
/// P4: older than ten minutes.
const STALE_AFTER_MS: u64 = 600_000;
/// P4: never delays publication: a run directory with more entries than this keeps the rest.
const STALE_SCAN: usize = 256;

/// A publication in place (P3). Dropping it removes nothing.
#[derive(Debug)]
#[must_use = "a publication that is not unpublished outlives its host"]
pub struct Publication {
    id: FileId,
    daemon_id: DaemonId,
}

impl Publication {
    /// Publishes `document` under the location's name: written to a temporary of its own, flushed, renamed (P3). A link
    /// that stands in the file's place is replaced, not followed.
    ///
    /// # Errors
    ///
    /// [`HostFileError`]; then nothing was published, and no temporary is left.
    pub fn publish(lock: &InstanceLock, document: &Document) -> Result<Self, HostFileError> {
        let content = Zeroizing::new(document.render());
        let name = lock.location().file_name();
        let id = write_atomically(&lock.run_dir.dir, name, &content, Flush::ToDisk)?;
        Ok(Self { id, daemon_id: document.credentials.daemon_id })
    }

    /// Removes the publication, if the file in place is the inode that was published, has one link, and carries this
    /// incarnation's daemon ID (P5).
    ///
    /// # Errors
    ///
    /// [`DiskError`] when the system says no; the file may still be there.
    pub fn unpublish(self, lock: &InstanceLock) -> Result<Removal, DiskError> {
        remove_fenced(&lock.run_dir.dir, lock.location().file_name(), MAX_BYTES, |id, content| {
            id == self.id
                && Document::parse(content)
                    .is_ok_and(|document| document.credentials.daemon_id == self.daemon_id)
        })
    }
}

/// Writes the lifecycle record (P6), whole or not at all.
///
/// # Errors
///
/// [`HostFileError`]; then the record in place is the one from before.
pub fn write_record(lock: &InstanceLock, record: &Record) -> Result<(), HostFileError> {
    write_atomically(&lock.run_dir.dir, OsStr::new(RECORD_FILE), &record.render(), Flush::ToCache).map(drop)
}

/// Removes the lifecycle record, if it is that of `launch_id`.
///
/// # Errors
///
/// [`DiskError`] when the system says no; the file may still be there.
pub fn remove_record(lock: &InstanceLock, launch_id: LaunchId) -> Result<Removal, DiskError> {
    remove_fenced(&lock.run_dir.dir, OsStr::new(RECORD_FILE), MAX_RECORD_BYTES, |_, content| {
        Record::parse(content).is_ok_and(|record| record.launch_id == launch_id)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    ToDisk,
    ToCache,
}

fn write_atomically(dir: &Dir, name: &OsStr, content: &[u8], flush: Flush) -> Result<FileId, HostFileError> {
    let temp = own_name(TEMP_SUFFIX)?;
    let temp = OsStr::new(&temp);
    // P3: unique, new, owner-only from the first moment.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(&dir.fd, temp, flags, OWNER_ONLY).map_err(|errno| dir.disk("create", temp, errno))?;
    fill_and_rename(dir, &fd, temp, name, content, flush).inspect_err(|_| {
        // Nothing half-made stays. If this fails too, it is a stale temporary: owner-only, and swept later (P4).
        let _ = unlinkat(&dir.fd, temp, AtFlags::empty());
    })
}

fn fill_and_rename(
    dir: &Dir,
    fd: &OwnedFd,
    temp: &OsStr,
    name: &OsStr,
    content: &[u8],
    flush: Flush,
) -> Result<FileId, HostFileError> {
    let stat = fstat(fd).map_err(|errno| dir.disk("inspect", temp, errno))?;
    // P3: final mode 0600. A umask can only have taken bits away; giving them back may fail, and then it is an error.
    if mode_bits(&stat) != OWNER_ONLY.bits() {
        fchmod(fd, OWNER_ONLY).map_err(|errno| dir.disk("set the mode of", temp, errno))?;
    }
    let mut rest = content;
    while !rest.is_empty() {
        match write(fd, rest) {
            Ok(0) => return Err(dir.disk("write", temp, Errno::IO).into()),
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(dir.disk("write", temp, errno).into()),
        }
    }
    if flush == Flush::ToDisk {
        // P3: flushed before it can be seen.
        fsync(fd).map_err(|errno| dir.disk("flush", temp, errno))?;
    }
    match renameat(&dir.fd, temp, &dir.fd, name) {
        Ok(()) => Ok(FileId::of(&stat)),
        Err(Errno::ISDIR) => Err(dir.insecure(name, Insecurity::NotAFile).into()),
        Err(errno) => Err(dir.disk("rename to", name, errno).into()),
    }
}

/// Removes what `is_ours` recognizes by inode and content. The callers hold the lock, so that nobody else publishes between
/// the look and the removal.
fn remove_fenced(
    dir: &Dir,
    name: &OsStr,
    max: usize,
    is_ours: impl FnOnce(FileId, &[u8]) -> bool,
) -> Result<Removal, DiskError> {
    // P5: reading refuses a second link, and whatever is not the one in place.
    match read_regular(dir, name, max, &mut |_| {}) {
        Ok(file) if is_ours(file.id, &file.bytes) => {}
        Err(ReadError::Missing) => return Ok(Removal::Missing),
        Err(ReadError::Disk(errno)) => return Err(dir.disk("read", name, errno)),
        // Not what we wrote, whatever it is: another's file, a second link, something insecure.
        Ok(_) | Err(ReadError::Insecure(_) | ReadError::Replaced | ReadError::TooLarge) => {
            return Ok(Removal::NotOurs);
        }
    }
    match unlinkat(&dir.fd, name, AtFlags::empty()) {
        Ok(()) => Ok(Removal::Removed),
        Err(Errno::NOENT) => Ok(Removal::Missing),
        Err(errno) => Err(dir.disk("remove", name, errno)),
    }
}

/// A fresh name that nobody can guess.
pub(super) fn own_name(suffix: &str) -> Result<String, HostFileError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| HostFileError::NoRandomness)?;
    Ok(format!("{OWN_PREFIX}{}{suffix}", LaunchId(random)))
}

/// Whether a name is one of [`own_name`]'s.
fn is_own(name: &[u8]) -> bool {
    let digits = |suffix: &str| {
        name.strip_prefix(OWN_PREFIX.as_bytes()).and_then(|rest| rest.strip_suffix(suffix.as_bytes()))
    };
    digits(TEMP_SUFFIX)
        .or_else(|| digits(DOOR_SUFFIX))
        .is_some_and(|id| id.len() == 32 && id.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

/// Removes temporaries and sockets that a killed predecessor left more than ten minutes ago (P4). Best effort: whatever fails is
/// left for the next time. Returns how many went.
pub(super) fn sweep_stale(lock: &InstanceLock, now_ms: u64) -> usize {
    let dir = &lock.run_dir.dir;
    let Ok(entries) = rustix::fs::Dir::read_from(&dir.fd) else { return 0 };
    let stale = |name: &OsStr| {
        let Ok(stat) = dir.entry(name) else { return false };
        let written_s = u64::try_from(stat.st_mtime).unwrap_or(0);
        // P4: own, and old. From the future is not old.
        (judge_file(&stat).is_ok() || judge_socket(&stat).is_ok())
            && now_ms.saturating_sub(written_s.saturating_mul(1_000)) > STALE_AFTER_MS
    };
    entries
        .take(STALE_SCAN)
        .filter_map(Result::ok)
        .filter(|entry| is_own(entry.file_name().to_bytes()))
        .filter(|entry| stale(OsStr::from_bytes(entry.file_name().to_bytes())))
        .filter(|entry| unlinkat(&dir.fd, entry.file_name(), AtFlags::empty()).is_ok())
        .count()
}
