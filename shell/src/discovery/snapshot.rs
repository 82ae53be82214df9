//! The client's snapshot (D1, D4 to D7): one read through one descriptor, judged before and after.
//!
//! Invariant: the bytes that are parsed came from one inode that was owner-only, unchanged from the first look to the
//! last, and still the one in place. Nothing is looked at by name and then opened again (D6), nothing is kept for the
//! next connect (D7), and opening never blocks on what stands there (D5).
//!
//! System calls of a healthy snapshot, with `n` directories from the root to the run directory, both included:
//!
//! | call | times | why |
//! | --- | ---: | --- |
//! | `openat(…, O_PATH\|O_NOFOLLOW\|O_DIRECTORY)`, `fstat`, `close` | `n` each | D4: each ancestor, by descriptor |
//! | `openat(…, O_RDONLY\|O_NOFOLLOW\|O_NONBLOCK)` | 1 | D1, D5 |
//! | `fstat` | 2 | D4: before and after |
//! | `read` | 1 | D1: at most one byte more than the size that was judged |
//! | `newfstatat` | 1 | D4: the entry still names this inode |
//! | `close` | 1 | |
//!
//! For `/home/u/.local/share/cortexkit/run` that is `3 · 7 + 6 = 27`, all of them answered from memory. There is no
//! lock, no shared state and no pool in it: a thousand clients that reconnect at once do not wait for each other here.

use super::environment::Location;
use super::error::{Insecurity, SnapshotError};
use super::walk::{self, Dir, WalkError, judge_file};
use hostwire_core::discovery::{Document, MAX_BYTES};
use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::io::{Errno, read};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use zeroize::Zeroizing;

pub(super) const REGULAR: OFlags = OFlags::NOFOLLOW
    .union(OFlags::CLOEXEC)
    // D5: without it, opening a FIFO waits for a writer.
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Reads the discovery file once, securely, and parses it (D1 to D6). If it is replaced while it is read, the read is
/// started again, once.
///
/// It blocks as long as the file system does, and belongs where the runtime puts blocking work.
///
/// # Errors
///
/// [`SnapshotError`], which never holds content.
pub fn read_snapshot(location: &Location) -> Result<Document, SnapshotError> {
    read_snapshot_with(location, &mut |_| {})
}

/// The moments between which somebody else may get at the file; tests act there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Opened and judged, nothing read.
    Judged,
    /// Read, not judged again.
    Read,
    /// Judged again, the entry not yet compared.
    JudgedAgain,
    /// The snapshot is complete.
    Done,
}

pub(super) type Hook<'a> = &'a mut dyn FnMut(Moment);

pub(super) fn read_snapshot_with(location: &Location, hook: Hook<'_>) -> Result<Document, SnapshotError> {
    let attempt = |hook: Hook<'_>| -> Result<Option<Document>, SnapshotError> {
        let missing = || SnapshotError::Missing { path: location.connection_file().to_owned() };
        let dir = walk::open_safe(location.run_dir()).map_err(|error| match error {
            WalkError::Missing => missing(),
            WalkError::Insecure(insecure) => insecure.into(),
            WalkError::Disk(error) => error.into(),
        })?;
        let name = location.file_name();
        match read_regular(&dir, name, MAX_BYTES, hook) {
            Ok(file) => Ok(Some(Document::parse(&file.bytes)?)),
            Err(ReadError::Missing) => Err(missing()),
            Err(ReadError::Insecure(why)) => Err(dir.insecure(name, why).into()),
            Err(ReadError::Replaced) => Ok(None),
            Err(ReadError::TooLarge) => Err(SnapshotError::TooLarge),
            Err(ReadError::Disk(errno)) => Err(dir.disk("read", name, errno).into()),
        }
    };
    // D4: one restart after a replacement, from the root on: a directory may have been exchanged as well.
    match attempt(hook)? {
        Some(document) => Ok(document),
        None => attempt(hook)?.ok_or(SnapshotError::Replaced),
    }
}

/// What identifies a file while it exists. Wide enough for the integer types of every system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    dev: i128,
    ino: i128,
}

impl FileId {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { dev: stat.st_dev.into(), ino: stat.st_ino.into() }
    }
}

/// A regular file that was read whole.
pub(super) struct RegularFile {
    /// The content; it may hold the key, so it is wiped when dropped.
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) id: FileId,
}

/// Why a file was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    Missing,
    Insecure(Insecurity),
    Replaced,
    TooLarge,
    Disk(Errno),
}

/// Reads `name` in `dir`: a regular, owner-only file of at most `max` bytes, judged on its descriptor before and after.
pub(super) fn read_regular(
    dir: &Dir,
    name: &OsStr,
    max: usize,
    hook: Hook<'_>,
) -> Result<RegularFile, ReadError> {
    let fd = openat(&dir.fd, name, OFlags::RDONLY | REGULAR, Mode::empty())
        .map_err(|errno| judge_unopened(dir, name, errno))?;
    let before = fstat(&fd).map_err(ReadError::Disk)?;
    judge_file(&before).map_err(ReadError::Insecure)?;
    let size = usize::try_from(before.st_size).unwrap_or(usize::MAX);
    // D1: refused before a byte is read.
    if size > max {
        return Err(ReadError::TooLarge);
    }
    hook(Moment::Judged);
    let bytes = read_exactly(&fd, size)?;
    hook(Moment::Read);
    // D4: device, inode, size, mtime and ctime as before. A change of owner, mode or links changes the ctime.
    let after = fstat(&fd).map_err(ReadError::Disk)?;
    if !same(&before, &after) {
        return Err(ReadError::Replaced);
    }
    hook(Moment::JudgedAgain);
    // D4: the entry still names this inode.
    let entry = match dir.entry(name) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Err(ReadError::Replaced),
        Err(errno) => return Err(ReadError::Disk(errno)),
    };
    if FileId::of(&entry) != FileId::of(&after) {
        return Err(ReadError::Replaced);
    }
    hook(Moment::Done);
    Ok(RegularFile { bytes, id: FileId::of(&after) })
}

/// Reads `size` bytes and makes sure that there is not one more. One call when nothing interferes.
fn read_exactly(fd: &OwnedFd, size: usize) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    // Room for all of it at once: growing would leave copies of the key behind.
    let mut bytes = Zeroizing::new(vec![0; size + 1]);
    let mut filled = 0;
    while filled < size {
        match read(fd, &mut bytes[filled..]) {
            Ok(0) => return Err(ReadError::Replaced),
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(ReadError::Disk(errno)),
        }
    }
    if filled > size {
        return Err(ReadError::Replaced);
    }
    bytes.truncate(size);
    Ok(bytes)
}

/// The file did not open. Says what stands there, so that a link, a socket or somebody else's file is *insecure* and
/// not a bare error code (D5).
pub(super) fn judge_unopened(dir: &Dir, name: &OsStr, errno: Errno) -> ReadError {
    match dir.entry(name) {
        Err(Errno::NOENT) if errno == Errno::NOENT => ReadError::Missing,
        Ok(stat) => match judge_file(&stat) {
            Err(why) => ReadError::Insecure(why),
            // It was there for one call and not for the other.
            Ok(()) if errno == Errno::NOENT || errno == Errno::LOOP => ReadError::Replaced,
            Ok(()) => ReadError::Disk(errno),
        },
        Err(_) => ReadError::Disk(errno),
    }
}

fn same(before: &Stat, after: &Stat) -> bool {
    FileId::of(before) == FileId::of(after)
        && before.st_size == after.st_size
        && (before.st_mtime, before.st_mtime_nsec) == (after.st_mtime, after.st_mtime_nsec)
        && (before.st_ctime, before.st_ctime_nsec) == (after.st_ctime, after.st_ctime_nsec)
}
