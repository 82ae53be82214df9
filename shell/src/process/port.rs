//! What a teardown needs of the system, as an interface: the real one is [`linux`](super::linux), tests bring their own.

use hostwire_core::child::{Exit, Look, Signal, Survivor};
use std::io;
use std::os::fd::OwnedFd;

/// A look at the leader, its group, and who has escaped from it: made where blocking is allowed, and whole only when it has ended.
///
/// It holds nothing of the child: it may last longer than the session, and nobody waits for it then.
///
/// # Errors
/// The process table cannot be read.
pub type Looking = Box<dyn FnOnce() -> io::Result<Look> + Send>;

/// The processes of one child. Every call is short and none waits.
///
/// A panic in a call, or in a look, counts as a failure of its step (PD8).
pub trait Port: Send + 'static {
    /// Prepares a look; nothing that it reads is older than this call.
    fn look(&mut self) -> Looking;

    /// Signals the group by its number. Asked for where a look has shown the number to be the child's, or where no look came: then it
    /// has to make sure by itself.
    ///
    /// # Errors
    /// As the system reports; a group that has gone is no error.
    fn signal_group(&mut self, signal: Signal) -> io::Result<()>;

    /// Signals the leader by its descriptor, so that nobody else can be hit.
    ///
    /// # Errors
    /// As the system reports; a leader that has gone is no error.
    fn signal_leader(&mut self, signal: Signal) -> io::Result<()>;

    /// Kills processes outside the group, each by a descriptor whose identity was checked after it was opened.
    ///
    /// # Errors
    /// As the system reports; one that has gone is no error.
    fn kill_escaped(&mut self, escaped: &[Survivor]) -> io::Result<()>;

    /// Reaps the leader, which has exited. `None`: somebody else did.
    ///
    /// # Errors
    /// It has not exited, or as the system reports.
    fn reap(&mut self) -> io::Result<Option<Exit>>;

    /// The synchronous end: kills the group and the leader, if they are still the child's, and leaves the reaping to others. Waits for
    /// nothing.
    fn abandon(&mut self);
}

/// A child that is there: its number, our ends of its pipes, something that becomes readable when it exits, and its processes.
///
/// All descriptors are non-blocking and closed on exec.
pub struct Spawned {
    /// The leader's number, and its group's.
    pub pid: u32,
    /// The writing end of its input.
    pub stdin: Option<OwnedFd>,
    /// The reading end of its output.
    pub stdout: OwnedFd,
    /// The reading end of its errors.
    pub stderr: OwnedFd,
    /// Readable, or hung up, once the leader has exited.
    pub exit: OwnedFd,
    /// Its processes.
    pub port: Box<dyn Port>,
}

impl std::fmt::Debug for Spawned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spawned").field("pid", &self.pid).finish_non_exhaustive()
    }
}
