//! The tail of a stream that nobody may stop: the last bytes, and how many came before them.
//!
//! Invariant: never more than its limit, however much is pushed; what is dropped is counted (PD26).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A bounded tail.
#[derive(Debug, Default)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    limit: usize,
    dropped: u64,
}

impl Ring {
    pub(super) const fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit, dropped: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        // Only the end of it can stay.
        let skip = bytes.len().saturating_sub(self.limit);
        let kept = bytes.get(skip..).unwrap_or_default();
        let over = (self.bytes.len() + kept.len()).saturating_sub(self.limit);
        self.bytes.drain(..over.min(self.bytes.len()));
        self.bytes.extend(kept);
        self.dropped += u64::try_from(skip + over).unwrap_or(u64::MAX);
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Moves the tail out.
    pub(super) fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.bytes).into()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pd26_a_ring_keeps_the_tail_and_counts_the_rest() {
        for limit in [0, 1, 5, 64] {
            let mut ring = Ring::new(limit);
            let mut all = Vec::new();
            for (round, size) in [0, 1, 3, 4, 64, 65, 200, 2].into_iter().enumerate() {
                let piece = std::vec![u8::try_from(round).unwrap(); size];
                ring.push(&piece);
                all.extend(piece);
                assert!(ring.len() <= limit);
                assert_eq!(ring.dropped() as usize, all.len() - ring.len());
            }
            let tail = &all[all.len().saturating_sub(limit)..];
            assert_eq!(ring.take(), tail);
        }
    }
}
