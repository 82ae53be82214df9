//! Errors of discovery: what was refused, where, and why. They hold paths and reasons, never a file's content (Z1).

use super::evidence::Probe;
use hostwire_core::json::ReadError;
use std::io;
use std::path::{Path, PathBuf};

/// Why something in the file system is not to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Insecurity {
    /// A symbolic link stands where a file or directory is expected (D1, D4, D5).
    #[error("is a symbolic link")]
    Symlink,
    /// A file, FIFO, socket or device stands where a directory is expected (D4).
    #[error("is not a directory")]
    NotADirectory,
    /// A FIFO, socket, device or directory stands where a regular file is expected (D5).
    #[error("is not a regular file")]
    NotAFile,
    /// The owner is somebody else (D4, P1).
    #[error("belongs to another user")]
    ForeignOwner,
    /// A file that grants something to group or others, or a directory that they may write to (D4).
    #[error("is open to group or others")]
    TooOpen,
    /// The file has a second name (D4, P1).
    #[error("has more than one link")]
    HardLinked,
    /// A shared directory (sticky, or the root of the file system) cannot be a run directory (P1).
    #[error("is a shared directory")]
    SharedDirectory,
}

/// Something on the way was refused: what, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {why}", path.display())]
pub struct Insecure {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: Insecurity,
}

/// A system call failed for a reason that is not about trust.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct DiskError {
    /// What was being done, as a verb.
    pub action: &'static str,
    /// To what.
    pub path: PathBuf,
    /// The system's answer.
    pub source: io::Error,
}

impl Clone for DiskError {
    fn clone(&self) -> Self {
        // The system's answers are numbers; what else there is has a kind.
        let source = match self.source.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => self.source.kind().into(),
        };
        Self { action: self.action, path: self.path.clone(), source }
    }
}

impl DiskError {
    pub(super) fn new(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self { action, path: path.to_owned(), source: source.into() }
    }
}

/// Why a client has no discovery document (D1 to D6). Nothing has been dialled.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There is no such file, or no such directory on the way to it.
    #[error("no connection file at {}", path.display())]
    Missing {
        /// The connection file.
        path: PathBuf,
    },
    /// File or directory is not to be trusted (D4, D5).
    #[error("insecure connection file: {0}")]
    Insecure(#[from] Insecure),
    /// The file changed while it was read, and again in the second attempt (D4).
    #[error("the connection file was replaced while it was read")]
    Replaced,
    /// More than 65,536 bytes (D1). Nothing was parsed.
    #[error("the connection file is larger than 65536 bytes")]
    TooLarge,
    /// A whole snapshot, of which the content is refused (D2, D3).
    #[error("invalid connection file: {0}")]
    Invalid(#[from] ReadError),
    /// The system said no.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Secure publication is not defined on this system (T4).
    #[error("discovery is supported on Unix only")]
    Unsupported,
}

impl SnapshotError {
    /// The stable code: `discovery_missing`, `discovery_insecure` (also: replaced while read) or
    /// `discovery_invalid` (everything else).
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "discovery_missing",
            Self::Insecure(_) | Self::Replaced => "discovery_insecure",
            Self::TooLarge | Self::Invalid(_) | Self::Disk(_) | Self::Unsupported => "discovery_invalid",
        }
    }
}

/// Why a host cannot keep its files (P1 to P7).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostFileError {
    /// Run directory, lock, or what stands in a file's place is not to be trusted (P1, P3).
    #[error("insecure run directory: {0}")]
    Insecure(#[from] Insecure),
    /// The system said no.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The operating system gave no randomness (P2).
    #[error("no randomness from the operating system")]
    NoRandomness,
    /// The version text to publish is empty, or longer than
    /// [`MAX_DAEMON_VER_BYTES`](hostwire_core::auth::MAX_DAEMON_VER_BYTES).
    #[error("the version text must have 1 to 512 bytes")]
    BadDaemonVersion,
    /// Secure publication is not defined on this system (T4).
    #[error("discovery is supported on Unix only")]
    Unsupported,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another host holds it: what a probe sees of it.
    #[error("a host is already running here ({})", .0.state)]
    AlreadyRunning(Box<Probe>),
    /// The lock file cannot be used.
    #[error(transparent)]
    File(#[from] HostFileError),
}
