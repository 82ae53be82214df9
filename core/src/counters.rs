//! What a connection counts (Z2). Always on; repeated events are limited in logs, never here (Z3).

use crate::outcome::Outcome;
use crate::wire::FrameType;

/// Frames of one direction by type, and the bytes of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    frames: [u64; 12],
    /// Bytes accepted or received, authentication included.
    pub bytes: u64,
}

impl Traffic {
    /// Complete frames of this type.
    #[must_use]
    pub fn frames(&self, kind: FrameType) -> u64 {
        self.frames.get(kind as usize).copied().unwrap_or(0)
    }

    /// Adds another connection's counts to these.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.frames.iter_mut().zip(other.frames) {
            *mine = mine.wrapping_add(theirs);
        }
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }

    pub(crate) fn count(&mut self, kind: FrameType) {
        // Z2: by type and direction.
        if let Some(n) = self.frames.get_mut(kind as usize) {
            *n += 1;
        }
    }
}

/// Requests by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settlements {
    /// Proven unsent (O1).
    pub not_sent: u64,
    /// Unknown (O2).
    pub unknown: u64,
    /// A terminal was seen.
    pub terminal: u64,
}

impl Settlements {
    pub(crate) fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::NotSent { .. } => self.not_sent += 1,
            Outcome::Unknown { .. } => self.unknown += 1,
            Outcome::Terminal(_) => self.terminal += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z2_a_sum_has_the_frames_of_each_type_and_the_bytes_of_all() {
        let mut one = Traffic { bytes: 5, ..Traffic::default() };
        one.count(FrameType::Request);
        one.count(FrameType::Goodbye);
        let mut sum = one;
        sum.add(&one);
        sum.add(&Traffic::default());
        assert_eq!((sum.frames(FrameType::Request), sum.frames(FrameType::Goodbye)), (2, 2));
        assert_eq!((sum.frames(FrameType::Pong), sum.bytes), (0, 10));
    }
}
