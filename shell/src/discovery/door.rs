//! The socket of a granted candidate in the run directory (N14): where the host puts it, and what a client takes for one.
//!
//! Invariant: the host removes what it put there, whatever becomes of the candidate; a client connects to nothing that is not an
//! owner-only socket of its own user, inside the discovery file's directory, on a way without links.

use super::environment::Location;
use super::files::{DOOR_SUFFIX, own_name};
use super::walk::{OWNER_ONLY, WalkError, judge_socket, mode_bits, open_safe};
use crate::socket::{bind_unix, listen_unix};
use rustix::fs::{chmod, lstat, unlink};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// A candidate's socket in the run directory. Dropping it removes the path, and touches no connection that came by it.
#[derive(Debug)]
pub(crate) struct Door {
    path: PathBuf,
}

impl Door {
    /// Listens at a fresh path that nobody can guess. Blocks on the file system.
    pub(crate) fn open(run_dir: &Path) -> io::Result<(OwnedFd, Self)> {
        let name = own_name(DOOR_SUFFIX).map_err(|_| io::ErrorKind::Unsupported)?;
        let path = run_dir.join(name);
        let fd = bind_unix(&path)?;
        let door = Self { path };
        // N14: mode 0600, whatever the umask has made of it. Nobody can connect before it listens.
        chmod(&door.path, OWNER_ONLY)?;
        let stat = lstat(&door.path)?;
        judge_socket(&stat).map_err(|_| io::ErrorKind::PermissionDenied)?;
        if mode_bits(&stat) != OWNER_ONLY.bits() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        listen_unix(&fd)?;
        Ok((fd, door))
    }

    /// Where a client finds it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // What is left behind all the same is swept by a later start (P4).
        let _ = unlink(&self.path);
    }
}

/// Why a path is not one to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not absolute, or not inside the discovery file's directory.
    Outside,
    /// Nothing there, or the system does not let us look.
    Missing,
    /// A link on the way, an unsafe directory, no socket, or not ours alone.
    Insecure,
}

/// N14: whether `path` may be connected to. Blocks on the file system.
pub(crate) fn judge_door(location: &Location, path: &Path) -> Result<(), Refused> {
    // Component by component: `..` leads out, and `/run/app-2` is not inside `/run/app`.
    let inside = path.strip_prefix(location.run_dir()).map_err(|_| Refused::Outside)?;
    let mut steps = inside.components();
    let normal = |step: Component<'_>| matches!(step, Component::Normal(_));
    if !path.is_absolute() || inside.as_os_str().is_empty() || !steps.all(normal) {
        return Err(Refused::Outside);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Refused::Outside) };
    let dir = open_safe(parent).map_err(|error| match error {
        WalkError::Missing | WalkError::Disk(_) => Refused::Missing,
        WalkError::Insecure(_) => Refused::Insecure,
    })?;
    let stat = dir.entry(name).map_err(|_| Refused::Missing)?;
    judge_socket(&stat).map_err(|_| Refused::Insecure)
}
