//! The way to a directory, one component at a time from the root, by descriptor.
//!
//! Invariant: no step follows a symbolic link, and each directory is judged on the descriptor that the next step
//! starts from, so that what was judged is what is used (D4, D6). The client refuses at the first fault, the host
//! as well (its clients would), the probe goes on and reports it.

use super::error::{DiskError, Insecure, Insecurity};
use rustix::fs::{FileType, Mode, OFlags, RawMode, Stat, fchmod, fstat, mkdirat, open, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

// A descriptor for walking needs no read permission where the system has a flag for that.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
const STEP: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
const STEP: OFlags = OFlags::RDONLY;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Permission bits of group and others; those of them that allow writing.
const OTHERS: RawMode = 0o077;
const OTHERS_WRITE: RawMode = 0o022;
const STICKY: RawMode = 0o1000;

/// The mode of every file that a host makes (P1, P3, P6).
pub(super) const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);

/// A directory held by descriptor, with the path that led to it (for messages only).
#[derive(Debug)]
pub(super) struct Dir {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
}

impl Dir {
    pub(super) fn insecure(&self, name: &OsStr, why: Insecurity) -> Insecure {
        Insecure { path: self.path.join(name), why }
    }

    pub(super) fn disk(&self, action: &'static str, name: &OsStr, errno: Errno) -> DiskError {
        DiskError::new(action, &self.path.join(name), errno)
    }

    /// What the directory's entry `name` is, without opening or following it.
    pub(super) fn entry(&self, name: &OsStr) -> Result<Stat, Errno> {
        statat(&self.fd, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Why a walk ended before its directory.
#[derive(Debug)]
pub(super) enum WalkError {
    Missing,
    Insecure(Insecure),
    Disk(DiskError),
}

/// Opens the directory `path` for a client: every directory on the way, and the last, must be safe.
pub(super) fn open_safe(path: &Path) -> Result<Dir, WalkError> {
    walk(path, Missing::IsAnError, &mut |fault| Err(WalkError::Insecure(fault)))
}

/// Opens the directory `path` for a probe: a link is still an error, but other faults are only noted. The first
/// one is returned.
pub(super) fn open_noting_faults(path: &Path) -> Result<(Dir, Option<Insecure>), WalkError> {
    let mut first = None;
    let dir = walk(path, Missing::IsAnError, &mut |fault| {
        first.get_or_insert(fault);
        Ok(())
    })?;
    Ok((dir, first))
}

/// Opens the host's run directory (P1): what is missing is created 0700, its own directory that is too wide is
/// tightened; a foreign one, a shared one, a link, and an unsafe way to it are refused. Nothing is loosened.
pub(super) fn open_own(path: &Path) -> Result<Dir, WalkError> {
    let parent = path.parent().ok_or_else(|| refused(path, Insecurity::SharedDirectory))?;
    let way = walk(parent, Missing::IsCreated, &mut |fault| Err(WalkError::Insecure(fault)))?;
    let name = path.file_name().ok_or_else(|| refused(path, Insecurity::NotADirectory))?;
    let fd = step(&way.fd, name, path, Missing::IsCreated, OFlags::RDONLY)?;
    let stat = fstat(&fd).map_err(|errno| WalkError::Disk(DiskError::new("inspect", path, errno)))?;
    let mode = mode_bits(&stat);
    if stat.st_uid != geteuid().as_raw() {
        return Err(refused(path, Insecurity::ForeignOwner));
    }
    // P1: sticky means that others are meant to use it (`/tmp`, when we are root): tightening would lock them out.
    if mode & STICKY != 0 {
        return Err(refused(path, Insecurity::SharedDirectory));
    }
    if mode & OTHERS != 0 {
        // P1: tightened, never loosened.
        let tight = Mode::from_raw_mode(mode & 0o700);
        fchmod(&fd, tight).map_err(|errno| WalkError::Disk(DiskError::new("tighten", path, errno)))?;
    }
    Ok(Dir { fd, path: path.to_owned() })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    IsAnError,
    IsCreated,
}

fn refused(path: &Path, why: Insecurity) -> WalkError {
    WalkError::Insecure(Insecure { path: path.to_owned(), why })
}

fn walk(
    path: &Path,
    missing: Missing,
    on_fault: &mut dyn FnMut(Insecure) -> Result<(), WalkError>,
) -> Result<Dir, WalkError> {
    let root = Path::new("/");
    let mut fd = open(root, STEP | DIRECTORY, Mode::empty())
        .map_err(|errno| WalkError::Disk(DiskError::new("open", root, errno)))?;
    let mut so_far = root.to_owned();
    judge(&fd, &so_far, on_fault)?;
    for component in path.components() {
        let name = match component {
            Component::Normal(name) => name,
            Component::ParentDir => OsStr::new(".."),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
        };
        so_far.push(name);
        fd = step(&fd, name, &so_far, missing, STEP)?;
        judge(&fd, &so_far, on_fault)?;
    }
    Ok(Dir { fd, path: so_far })
}

/// One step: opens `name` in `from`, or creates it owner-only.
fn step(
    from: &OwnedFd,
    name: &OsStr,
    path: &Path,
    missing: Missing,
    access: OFlags,
) -> Result<OwnedFd, WalkError> {
    let enter = || openat(from, name, access | DIRECTORY, Mode::empty());
    let mut entered = enter();
    if missing == Missing::IsCreated && matches!(entered, Err(Errno::NOENT)) {
        match mkdirat(from, name, Mode::RWXU) {
            // Somebody was faster: what they made is judged like anything else.
            Ok(()) | Err(Errno::EXIST) => entered = enter(),
            Err(errno) => return Err(WalkError::Disk(DiskError::new("create", path, errno))),
        }
    }
    entered.map_err(|errno| {
        let there = statat(from, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        match (errno, there) {
            (Errno::NOENT, _) => WalkError::Missing,
            // D4: O_DIRECTORY answers ENOTDIR for a link, some systems ELOOP.
            (Errno::NOTDIR | Errno::LOOP, there) => {
                let link = there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
                refused(path, if link { Insecurity::Symlink } else { Insecurity::NotADirectory })
            }
            // P1: somebody else's, and closed to us: that is why it cannot be opened.
            (Errno::ACCESS, Ok(stat)) if stat.st_uid != geteuid().as_raw() => {
                refused(path, Insecurity::ForeignOwner)
            }
            (other, _) => WalkError::Disk(DiskError::new("open", path, other)),
        }
    })
}

/// Judges a directory on the way.
fn judge(
    fd: impl AsFd,
    path: &Path,
    on_fault: &mut dyn FnMut(Insecure) -> Result<(), WalkError>,
) -> Result<(), WalkError> {
    let stat = fstat(fd).map_err(|errno| WalkError::Disk(DiskError::new("inspect", path, errno)))?;
    let mode = mode_bits(&stat);
    // D4: owned by the caller or root, and nobody else may write to it, unless sticky.
    let why = if stat.st_uid != 0 && stat.st_uid != geteuid().as_raw() {
        Insecurity::ForeignOwner
    } else if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
        Insecurity::TooOpen
    } else {
        return Ok(());
    };
    on_fault(Insecure { path: path.to_owned(), why })
}

/// Judges what stands in a file's place.
pub(super) fn judge_file(stat: &Stat) -> Result<(), Insecurity> {
    // D4, D5: a regular file of the caller, one name, nothing for group and others.
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(Insecurity::Symlink),
        FileType::Directory
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => return Err(Insecurity::NotAFile),
    }
    if stat.st_uid != geteuid().as_raw() {
        return Err(Insecurity::ForeignOwner);
    }
    // A second name is a second place to swap it from. None at all means: replaced meanwhile.
    if stat.st_nlink > 1 {
        return Err(Insecurity::HardLinked);
    }
    if mode_bits(stat) & OTHERS != 0 {
        return Err(Insecurity::TooOpen);
    }
    Ok(())
}

/// Judges what stands in the place of a candidate's socket (N14).
pub(super) fn judge_socket(stat: &Stat) -> Result<(), Insecurity> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(Insecurity::NotAFile);
    }
    if stat.st_uid != geteuid().as_raw() {
        return Err(Insecurity::ForeignOwner);
    }
    if mode_bits(stat) & OTHERS != 0 {
        return Err(Insecurity::TooOpen);
    }
    Ok(())
}

/// The twelve permission bits.
pub(super) fn mode_bits(stat: &Stat) -> RawMode {
    Mode::from_raw_mode(stat.st_mode).bits()
}
