//! One look at the process table, and whose a number is by it (PD21, PD22). Looks at nothing by itself: the shell does.

use super::outcome::{Group, Survivor};
use alloc::vec::Vec;

/// What the leader was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leader {
    /// Running, or ended and not reaped: its numbers are its own (LX15).
    Unreaped,
    /// Reaped by somebody else. Its number may be anybody's, the group's only if the group lived on (LX13).
    Reaped,
}

/// One look at the process table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The leader.
    pub leader: Leader,
    /// Whether a process holds the leader's number that is not the leader.
    pub number_reused: bool,
    /// Members of the group that live, the leader excepted.
    pub members: Vec<Survivor>,
    /// Members that have ended and await their reaper, the leader excepted.
    pub zombies: usize,
    /// Whether the group is in the session that the leader was started in, and none of it is older than the leader.
    pub same_session: bool,
    /// Processes outside the group that are provably the child's.
    pub escaped: Vec<Survivor>,
}

/// Whose a group's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The child's.
    Ours,
    /// Somebody else's by now: nothing is signalled.
    Foreign,
    /// Nobody's.
    Gone,
}

impl Look {
    /// PD21, PD22: whose the number is.
    #[must_use]
    pub fn owner(&self) -> Owner {
        match self.leader {
            // LX15: while it is not reaped the kernel keeps both numbers for it.
            Leader::Unreaped => Owner::Ours,
            // PD22: the number has a new owner, or the group is of another descent.
            Leader::Reaped if self.number_reused || !self.same_session => Owner::Foreign,
            Leader::Reaped if self.members.is_empty() && self.zombies == 0 => Owner::Gone,
            // PD21: a group that lives keeps its number, also without its leader (LX13).
            Leader::Reaped => Owner::Ours,
        }
    }

    pub(super) fn group(&self) -> Group {
        match (self.owner(), self.members.is_empty(), self.zombies) {
            (Owner::Foreign, _, _) | (Owner::Gone, _, _) | (Owner::Ours, true, 0) => Group::Empty,
            (Owner::Ours, true, _) => Group::OnlyZombies,
            (Owner::Ours, false, _) => Group::Alive,
        }
    }
}
