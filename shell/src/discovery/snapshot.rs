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
//! | `read` | 1 | D1: the size that was judged |
//! | `newfstatat` | 1 | D4: the entry still names this inode |
//! | `close` | 1 | |
//!
//! For `/home/u/.local/share/cortexkit/run` that is `3 · 7 + 6 = 27`, all of them answered from memory, and a `geteuid` for
//! each thing that is not root's. There is no
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
            // D6: key, ID and endpoint from these very bytes. D7: and from no earlier ones.
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
    // D4: device, inode, size, mtime and ctime as before, and still owner-only: time stamps are coarse.
    let after = fstat(&fd).map_err(ReadError::Disk)?;
    judge_file(&after).map_err(ReadError::Insecure)?;
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

/// Reads the `size` bytes that were judged. That there are no more is the second judgement's to say. One call when nothing
/// interferes.
fn read_exactly(fd: &OwnedFd, size: usize) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    // Room for all of it at once: growing would leave copies of the key behind.
    let mut bytes = Zeroizing::new(vec![0; size]);
    let mut filled = 0;
    while filled < size {
        match read(fd, bytes.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => return Err(ReadError::Replaced),
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(ReadError::Disk(errno)),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{Environment, Place};
    use hostwire_core::auth::{Credentials, DaemonId, Key};
    use rustix::fs::{Timespec, Timestamps};
    use std::fs;
    use std::io::Write;
    use std::num::NonZeroU16;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    struct Spot {
        _temp: tempfile::TempDir,
        location: Location,
        file: PathBuf,
        swaps: PathBuf,
    }

    /// Document `n` has `n` in its port, its key and its ID, so that a mixed one is recognized.
    fn content(n: u8) -> Vec<u8> {
        Document {
            port: NonZeroU16::new(1_000 + u16::from(n)).unwrap(),
            credentials: Credentials {
                key: Key::new([100 + n; 32]),
                daemon_id: DaemonId::new([100 + n; 16]),
                daemon_ver: "v".into(),
            },
            pid: 1,
        }
        .render()
    }

    /// Which document it is; all of it.
    fn which(document: &Document) -> u8 {
        let n = u8::try_from(document.port.get() - 1_000).unwrap();
        assert_eq!(document.credentials.key, Key::new([100 + n; 32]));
        assert_eq!(document.credentials.daemon_id, DaemonId::new([100 + n; 16]));
        n
    }

    fn write_new(path: &Path, bytes: &[u8]) {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn spot() -> Spot {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("c.json");
        write_new(&file, &content(0));
        // Long ago, so that any write changes the mtime however coarse the clock of the file system is.
        let then = Timespec { tv_sec: 1_000, tv_nsec: 0 };
        let times = Timestamps { last_access: then, last_modification: then };
        rustix::fs::utimensat(rustix::fs::CWD, &file, &times, rustix::fs::AtFlags::empty()).unwrap();
        let location = Location::resolve(&Environment::default(), &Place::File(file.clone())).unwrap();
        let swaps = temp.path().join("next");
        Spot { location, file, swaps, _temp: temp }
    }

    impl Spot {
        fn replace(&self, n: u8) {
            write_new(&self.swaps, &content(n));
            fs::rename(&self.swaps, &self.file).unwrap();
        }

        /// Reads, and calls `act` at each `at`, for the first `times` of them, with the number of the time from 1 on.
        fn read(&self, at: Moment, times: u8, act: impl Fn(u8)) -> Result<u8, SnapshotError> {
            let mut seen = 0;
            read_snapshot_with(&self.location, &mut |moment| {
                if moment == at && seen < times {
                    seen += 1;
                    act(seen);
                }
            })
            .map(|document| which(&document))
        }
    }

    const BEFORE_DONE: [Moment; 3] = [Moment::Judged, Moment::Read, Moment::JudgedAgain];

    // V6
    #[test]
    fn a_file_replaced_once_while_it_is_read_gives_the_new_document_whole() {
        for at in BEFORE_DONE {
            let spot = spot();
            assert_eq!(spot.read(at, 1, |n| spot.replace(n)).unwrap(), 1, "{at:?}");
        }
    }

    // V6
    #[test]
    fn a_file_replaced_twice_while_it_is_read_is_refused_as_replaced() {
        for at in BEFORE_DONE {
            let spot = spot();
            let error = spot.read(at, 2, |n| spot.replace(n)).unwrap_err();
            assert!(matches!(error, SnapshotError::Replaced), "{at:?}: {error}");
            assert_eq!(error.code(), "discovery_insecure");
            // Nothing is remembered: the next read is a new one.
            assert_eq!(spot.read(at, 0, |_| {}).unwrap(), 2);
        }
    }

    // V6
    #[test]
    fn a_file_replaced_after_the_snapshot_does_not_change_it() {
        let spot = spot();
        assert_eq!(spot.read(Moment::Done, 1, |n| spot.replace(n)).unwrap(), 0);
    }

    #[test]
    fn a_file_rewritten_in_place_while_it_is_read_is_read_again() {
        for at in [Moment::Judged, Moment::Read] {
            let spot = spot();
            let write = |n| fs::write(&spot.file, content(n)).unwrap();
            assert_eq!(spot.read(at, 1, write).unwrap(), 1, "{at:?}");
        }
    }

    // B157
    #[test]
    fn a_file_that_shrinks_or_grows_between_look_and_read_is_replaced_and_never_parsed() {
        let spot = spot();
        let open = || fs::OpenOptions::new().write(true).open(&spot.file).unwrap();
        for size in [0, 1, 100, 10_000, 100_000] {
            let error = spot.read(Moment::Judged, 2, |n| open().set_len(size + u64::from(n)).unwrap());
            let error = error.unwrap_err();
            assert!(
                matches!(error, SnapshotError::Replaced)
                    || (size == 100_000 && matches!(error, SnapshotError::TooLarge)),
                "{size}: {error}"
            );
            fs::write(&spot.file, content(0)).unwrap();
        }
    }

    #[test]
    fn a_file_removed_while_it_is_read_is_missing() {
        for at in BEFORE_DONE {
            let spot = spot();
            let error = spot.read(at, 1, |_| fs::remove_file(&spot.file).unwrap()).unwrap_err();
            assert!(matches!(error, SnapshotError::Missing { .. }), "{at:?}: {error}");
        }
    }

    #[test]
    fn a_file_opened_to_others_or_linked_while_it_is_read_is_insecure() {
        for at in [Moment::Judged, Moment::Read] {
            let spot = spot();
            let widen = |_| fs::set_permissions(&spot.file, fs::Permissions::from_mode(0o644)).unwrap();
            let error = spot.read(at, 1, widen).unwrap_err();
            assert!(
                matches!(&error, SnapshotError::Insecure(i) if i.why == Insecurity::TooOpen),
                "{at:?}: {error}"
            );
            fs::set_permissions(&spot.file, fs::Permissions::from_mode(0o600)).unwrap();
            let error = spot.read(at, 1, |_| fs::hard_link(&spot.file, &spot.swaps).unwrap()).unwrap_err();
            assert!(
                matches!(&error, SnapshotError::Insecure(i) if i.why == Insecurity::HardLinked),
                "{at:?}: {error}"
            );
        }
    }

    #[test]
    fn a_link_swapped_in_while_it_is_read_is_never_followed() {
        for at in BEFORE_DONE {
            let spot = spot();
            write_new(&spot.swaps, &content(7));
            let swap = |_| {
                fs::remove_file(&spot.file).unwrap();
                std::os::unix::fs::symlink(&spot.swaps, &spot.file).unwrap();
            };
            let error = spot.read(at, 1, swap).unwrap_err();
            assert!(
                matches!(&error, SnapshotError::Insecure(i) if i.why == Insecurity::Symlink),
                "{at:?}: {error}"
            );
        }
    }

    /// One read without the restart, to see what it says itself.
    fn read_once(spot: &Spot, at: Moment, act: impl Fn()) -> Result<(), ReadError> {
        let dir = walk::open_safe(spot.location.run_dir()).unwrap();
        let mut hook = |moment| {
            if moment == at {
                act();
            }
        };
        read_regular(&dir, spot.location.file_name(), MAX_BYTES, &mut hook).map(drop)
    }

    #[test]
    fn each_change_is_named_for_what_it_is() {
        let spot = spot();
        let widen = || fs::set_permissions(&spot.file, fs::Permissions::from_mode(0o644)).unwrap();
        // D4: not left to the ctime, which is coarse.
        assert_eq!(read_once(&spot, Moment::Judged, widen), Err(ReadError::Insecure(Insecurity::TooOpen)));
        fs::set_permissions(&spot.file, fs::Permissions::from_mode(0o600)).unwrap();
        let remove = || fs::remove_file(&spot.file).unwrap();
        // It was there: the next look says whether it still is missing.
        assert_eq!(read_once(&spot, Moment::JudgedAgain, remove), Err(ReadError::Replaced));
        assert_eq!(read_once(&spot, Moment::Judged, || {}), Err(ReadError::Missing));
    }

    #[test]
    fn a_file_that_could_not_be_opened_and_is_good_now_was_replaced() {
        let spot = spot();
        let dir = walk::open_safe(spot.location.run_dir()).unwrap();
        let judged = |errno| judge_unopened(&dir, spot.location.file_name(), errno);
        assert_eq!(judged(Errno::NOENT), ReadError::Replaced);
        assert_eq!(judged(Errno::LOOP), ReadError::Replaced);
        assert_eq!(judged(Errno::MFILE), ReadError::Disk(Errno::MFILE));
    }
}
