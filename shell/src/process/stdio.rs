//! This process's own input and output, read and written so that nothing stays behind (PD30).
//!
//! A read on a blocking thread cannot be taken back (LX11). A pipe can be opened again through `/proc/self/fd`, which gives a description of
//! its own: non-blocking without changing it for whoever shares the old one (LX12).

use rustix::fs::{Mode, OFlags, fstat, open};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Descriptor 0 or 1 as a descriptor of one's own, non-blocking and closed on exec.
///
/// A pipe is opened again. A socket, which cannot be, is duplicated and made non-blocking for all that share it.
///
/// # Errors
/// It is neither, or as the system reports.
fn own(fd: impl AsFd, number: u32, flags: OFlags) -> io::Result<OwnedFd> {
    let mode = fstat(&fd)?.st_mode;
    match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Fifo => {
            let path = format!("/proc/self/fd/{number}");
            Ok(open(path, flags | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?)
        }
        rustix::fs::FileType::Socket => {
            let fd = fd.as_fd().try_clone_to_owned()?;
            rustix::io::ioctl_fionbio(&fd, true)?;
            Ok(fd)
        }
        rustix::fs::FileType::RegularFile
        | rustix::fs::FileType::Directory
        | rustix::fs::FileType::Symlink
        | rustix::fs::FileType::CharacterDevice
        | rustix::fs::FileType::BlockDevice
        | rustix::fs::FileType::Unknown => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// This process's input, to be registered with a runtime.
///
/// # Errors
/// It is neither a pipe nor a socket, or as the system reports.
pub fn own_stdin() -> io::Result<OwnedFd> {
    own(io::stdin(), 0, OFlags::RDONLY)
}

/// This process's output, to be registered with a runtime.
///
/// # Errors
/// It is neither a pipe nor a socket, or as the system reports.
pub fn own_stdout() -> io::Result<OwnedFd> {
    own(io::stdout(), 1, OFlags::WRONLY)
}
