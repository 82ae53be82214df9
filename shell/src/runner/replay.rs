//! A run's output, kept for whoever asks later: the last part of it, in items as they are sent.
//!
//! Invariants: never more than its limit, but for one item; indices grow by one, and what they name never changes.

use bytes::Bytes;
use hostwire_core::child::Stream;
use std::collections::VecDeque;

/// Bytes before an item's output.
pub(super) const HEADER: usize = 9;
/// What an item costs besides its bytes, so that many small ones are bounded as well.
const ENTRY: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Replay {
    items: VecDeque<Bytes>,
    first: u64,
    bytes: usize,
    limit: usize,
}

/// What stands at an index.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum At {
    Item(Bytes),
    /// It is gone; the oldest that is kept is this.
    Gone(u64),
    /// It has not come yet.
    Later,
}

impl Replay {
    pub(super) const fn new(limit: usize) -> Self {
        Self { items: VecDeque::new(), first: 0, bytes: 0, limit }
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn next(&self) -> u64 {
        self.first + u64::try_from(self.items.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.items.is_empty() || self.bytes + bytes + HEADER + ENTRY <= self.limit
    }

    /// Makes room of what everybody has taken, below `taken`. Whether there is enough.
    pub(super) fn make_room(&mut self, bytes: usize, taken: u64) -> bool {
        while !self.fits(bytes) && self.first < taken {
            self.drop_oldest();
        }
        self.fits(bytes)
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.items.pop_front() {
            self.first += 1;
            self.bytes -= oldest.len() + ENTRY;
        }
    }

    /// Adds output; the oldest makes room.
    pub(super) fn push(&mut self, stream: Stream, output: &[u8]) {
        while !self.fits(output.len()) {
            self.drop_oldest();
        }
        let mut item = Vec::with_capacity(HEADER + output.len());
        item.push(match stream {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        });
        item.extend_from_slice(&self.next().to_le_bytes());
        item.extend_from_slice(output);
        self.bytes += item.len() + ENTRY;
        self.items.push_back(item.into());
    }

    pub(super) fn at(&self, index: u64) -> At {
        let Some(place) = index.checked_sub(self.first) else { return At::Gone(self.first) };
        match usize::try_from(place).ok().and_then(|place| self.items.get(place)) {
            Some(item) => At::Item(item.clone()),
            None => At::Later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room_and_an_index_keeps_its_meaning() {
        let mut replay = Replay::new(3 * (HEADER + ENTRY + 10));
        for mark in 0..5_u8 {
            replay.push(if mark % 2 == 0 { Stream::Stdout } else { Stream::Stderr }, &[mark; 10]);
            assert!(replay.bytes <= replay.limit);
        }
        assert_eq!((replay.first(), replay.next()), (2, 5));
        assert_eq!(replay.at(1), At::Gone(2));
        assert_eq!(replay.at(5), At::Later);
        let At::Item(item) = replay.at(3) else { panic!() };
        assert_eq!(item[..], [&[2, 3, 0, 0, 0, 0, 0, 0, 0][..], &[3; 10]].concat());
        // One that is larger than the limit is alone.
        replay.push(Stream::Stdout, &[9; 100]);
        assert_eq!((replay.first(), replay.next()), (5, 6));
    }

    #[test]
    fn only_what_was_taken_makes_room_where_nothing_may_be_lost() {
        let mut replay = Replay::new(3 * (HEADER + ENTRY + 10));
        for mark in 0..3_u8 {
            replay.push(Stream::Stdout, &[mark; 10]);
        }
        assert!(!replay.make_room(10, 0));
        assert!(!replay.make_room(11, 1), "one is not enough for it");
        assert_eq!(replay.first(), 1);
        assert!(replay.make_room(11, 2));
        assert_eq!((replay.first(), replay.next()), (2, 3));
    }
}
