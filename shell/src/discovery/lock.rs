//! The run directory and the single-instance lock (P1).
//!
//! Invariant: whoever holds an [`InstanceLock`] is the only host of its run directory. Everything that a host writes or
//! removes there takes one, so that nothing can be published without it. The lock is a `flock` on a file that is never
//! removed, never followed, never inherited through `exec`; it ends with the value, or with the process.

use super::environment::{LOCK_FILE, Location};
use super::error::{DiskError, HostFileError, Insecurity, LockError};
use super::probe::probe_with;
use super::snapshot::{FileId, REGULAR, ReadError, judge_unopened};
use super::walk::{self, Dir, OWNER_ONLY, WalkError, judge_file, mode_bits};
use rustix::fs::{FlockOperation, OFlags, fchmod, flock, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// P1: tries for up to 500 ms, since a probe's shared lock may be in the way.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// A run directory that this user owns and nobody else can enter, held by descriptor.
#[derive(Debug)]
pub struct RunDir {
    pub(super) dir: Dir,
    pub(super) location: Location,
}

impl RunDir {
    /// Opens the location's run directory, creates what is missing of the way to it (0700), and tightens it when it is
    /// ours and too wide. It never loosens anything.
    ///
    /// # Errors
    ///
    /// [`HostFileError::Insecure`] for a foreign directory, a link anywhere on the way, an unsafe ancestor (D4: no client
    /// would read a file there), or a shared directory (sticky, such as `/tmp`, or `/` itself: to tighten it would lock
    /// out everybody else); [`HostFileError::Disk`].
    pub fn open_or_create(location: &Location) -> Result<Self, HostFileError> {
        let dir = walk::open_own(location.run_dir()).map_err(|error| match error {
            WalkError::Insecure(insecure) => HostFileError::from(insecure),
            WalkError::Disk(error) => error.into(),
            // Created, and gone again at once.
            WalkError::Missing => DiskError::new("open", location.run_dir(), Errno::NOENT).into(),
        })?;
        Ok(Self { dir, location: location.clone() })
    }

    /// Where it is.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }
}

/// The single-instance lock, held. Dropping it is the last step of a host's end (P7).
#[derive(Debug)]
pub struct InstanceLock {
    fd: OwnedFd,
    pub(super) run_dir: RunDir,
}

impl InstanceLock {
    /// Takes the lock, and tries for up to 500 ms. `now_ms` is the Unix time in milliseconds, asked when a probe needs
    /// it.
    ///
    /// # Errors
    ///
    /// [`LockError::AlreadyRunning`] with what a probe sees, when another host holds it; [`LockError::File`] when the
    /// lock file is a link or foreign or not a file, or the system says no.
    pub fn acquire(run_dir: RunDir, mut now_ms: impl FnMut() -> u64) -> Result<Self, LockError> {
        Self::acquire_with(run_dir, &mut now_ms, &mut std::thread::sleep)
    }

    pub(super) fn acquire_with(
        run_dir: RunDir,
        now_ms: &mut dyn FnMut() -> u64,
        sleep: &mut dyn FnMut(Duration),
    ) -> Result<Self, LockError> {
        for _ in 0..TRIES {
            if let Some(fd) = try_lock(&run_dir.dir, &mut || {})? {
                return Ok(Self { fd, run_dir });
            }
            sleep(PAUSE);
        }
        let probe = probe_with(&run_dir.location, now_ms, sleep, &mut || {}).map_err(HostFileError::from)?;
        // Its holder may have ended while we looked: a successor starts the moment the lock is free.
        match try_lock(&run_dir.dir, &mut || {})? {
            Some(fd) => Ok(Self { fd, run_dir }),
            None => Err(LockError::AlreadyRunning(Box::new(probe))),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.run_dir.location
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        // Closing would do, except for a moment between fork and exec of some child that shares the open file.
        let _ = flock(&self.fd, FlockOperation::Unlock);
    }
}

/// One try. `None`: somebody else holds it, or the file was exchanged meanwhile. Tests act `between` opening and locking.
fn try_lock(dir: &Dir, between: &mut dyn FnMut()) -> Result<Option<OwnedFd>, HostFileError> {
    let name = OsStr::new(LOCK_FILE);
    let disk = |action, errno| HostFileError::from(dir.disk(action, name, errno));
    // P1: never followed, never inherited, owner-only from its creation on; a FIFO in its place does not block.
    let flags = OFlags::RDWR | OFlags::CREATE | REGULAR;
    let fd = match openat(&dir.fd, name, flags, OWNER_ONLY) {
        Ok(fd) => fd,
        Err(errno) => {
            return match judge_unopened(dir, name, errno) {
                ReadError::Insecure(why) => Err(dir.insecure(name, why).into()),
                ReadError::Replaced => Ok(None),
                ReadError::Missing | ReadError::TooLarge | ReadError::Disk(_) => Err(disk("open", errno)),
            };
        }
    };
    let stat = fstat(&fd).map_err(|errno| disk("inspect", errno))?;
    match judge_file(&stat) {
        // Our own, and only too wide: tightened below.
        Ok(()) | Err(Insecurity::TooOpen) => {}
        Err(why) => return Err(dir.insecure(name, why).into()),
    }
    // P1: 0600. Wider is an old file, narrower an odd umask, and then the next start could not open it.
    if mode_bits(&stat) != OWNER_ONLY.bits() {
        fchmod(&fd, OWNER_ONLY).map_err(|errno| disk("set the mode of", errno))?;
    }
    between();
    match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(None),
        Err(errno) => return Err(disk("lock", errno)),
    }
    // A lock on a file that is not in place any more would exclude nobody.
    match dir.entry(name) {
        Ok(entry) if FileId::of(&entry) == FileId::of(&stat) => Ok(Some(fd)),
        Ok(_) | Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(disk("inspect", errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{Environment, Place};
    use std::fs;

    fn place() -> (tempfile::TempDir, Location) {
        let temp = tempfile::tempdir().unwrap();
        let location =
            Location::resolve(&Environment::default(), &Place::File(temp.path().join("c.json"))).unwrap();
        (temp, location)
    }

    fn acquire(location: &Location, sleep: &mut dyn FnMut(Duration)) -> Result<InstanceLock, LockError> {
        InstanceLock::acquire_with(RunDir::open_or_create(location).unwrap(), &mut || 0, sleep)
    }

    fn no_sleep(_: Duration) {
        panic!("nothing to wait for");
    }

    #[test]
    fn a_successor_starts_the_moment_the_lock_is_free() {
        let (_temp, location) = place();
        for _ in 0..3 {
            drop(acquire(&location, &mut no_sleep).unwrap());
        }
    }

    // P1
    #[test]
    fn a_probes_shared_lock_is_waited_out() {
        let (_temp, location) = place();
        drop(acquire(&location, &mut no_sleep).unwrap());
        let shared = fs::File::open(location.run_dir().join(LOCK_FILE)).unwrap();
        flock(&shared, FlockOperation::LockShared).unwrap();
        let (mut shared, mut pauses) = (Some(shared), 0);
        let lock = acquire(&location, &mut |_| {
            pauses += 1;
            if pauses == 3 {
                shared = None;
            }
        });
        assert!(lock.is_ok());
        assert_eq!(pauses, 3);
    }

    // P1
    #[test]
    fn a_held_lock_is_tried_for_500_ms_and_then_reported() {
        let (_temp, location) = place();
        let _first = acquire(&location, &mut no_sleep).unwrap();
        let mut slept = Duration::ZERO;
        let second = acquire(&location, &mut |pause| slept += pause);
        let Err(LockError::AlreadyRunning(probe)) = second else { panic!("{second:?}") };
        // 500 ms of trying, and 500 ms of the probe's grace, since there is no record.
        assert_eq!(slept, Duration::from_millis(1_000));
        assert_eq!(probe.state.as_str(), "wedged");
        assert_eq!(probe.pid(), None);
    }

    #[test]
    fn a_lock_that_comes_free_while_the_probe_looks_is_taken() {
        let (_temp, location) = place();
        let mut first = Some(acquire(&location, &mut no_sleep).unwrap());
        let mut pauses = 0;
        let second = acquire(&location, &mut |_| {
            pauses += 1;
            if pauses > TRIES {
                first = None;
            }
        });
        assert!(second.is_ok());
    }

    #[test]
    fn a_lock_on_a_file_that_is_not_in_place_any_more_is_no_lock() {
        let (_temp, location) = place();
        let run_dir = RunDir::open_or_create(&location).unwrap();
        let path = location.run_dir().join(LOCK_FILE);
        let mut gone = || fs::remove_file(&path).unwrap();
        assert!(try_lock(&run_dir.dir, &mut gone).unwrap().is_none());
        let mut second = None;
        let mut exchanged = || {
            fs::remove_file(&path).unwrap();
            second = Some(acquire(&location, &mut no_sleep).unwrap());
        };
        assert!(try_lock(&run_dir.dir, &mut exchanged).unwrap().is_none());
        drop(second);
        assert!(try_lock(&run_dir.dir, &mut || {}).unwrap().is_some());
    }
}
