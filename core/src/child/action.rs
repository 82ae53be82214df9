//! What a session asks of its shell, and the ledger of what the shell holds for it. Asks for nothing by itself.

use super::outcome::{Stream, Survivor};
use alloc::vec::Vec;

/// What the shell holds for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The writing end of its input, and who writes it.
    Stdin,
    /// The reading end of a stream, and who reads it.
    Output(Stream),
    /// The process, not reaped yet.
    Child,
}

/// Everything that the shell holds and has not said to be gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) child: bool,
}

impl Ledger {
    pub(super) const fn entry(&mut self, resource: Resource) -> &mut bool {
        match resource {
            Resource::Stdin => &mut self.stdin,
            Resource::Output(Stream::Stdout) => &mut self.stdout,
            Resource::Output(Stream::Stderr) => &mut self.stderr,
            Resource::Child => &mut self.child,
        }
    }

    pub(super) const fn readers(self) -> bool {
        self.stdout || self.stderr
    }

    pub(super) const fn is_empty(self) -> bool {
        !(self.stdin || self.stdout || self.stderr || self.child)
    }
}

/// The signals that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Please end.
    Term,
    /// Go on: a stopped process does not act on TERM (LX28).
    Cont,
    /// End.
    Kill,
}

/// What the shell is to do next, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Close every handle on the child's input, then [`super::Session::handle_gone`].
    CloseStdin,
    /// Look at the processes, then [`super::Session::handle_look`] or [`super::Session::handle_failure`].
    Look,
    /// Signal the group by its number; never where the leader was reaped and the number may be another's.
    SignalGroup(Signal),
    /// Signal the leader, by its descriptor and never by its number (PD21).
    SignalLeader(Signal),
    /// Kill these, each by a descriptor that is opened first and whose identity is then checked again.
    KillEscaped(Vec<Survivor>),
    /// Close the reading ends, then [`super::Session::handle_gone`] for each.
    CloseOutput,
    /// Reap the leader, then [`super::Session::handle_reaped`] or [`super::Session::handle_failure`].
    Reap,
}
