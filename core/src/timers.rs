//! Timers as an indexed binary heap: exact top, true removal, no allocation per timer beyond the table's growth.
//!
//! A timer is named by its owner's slot number; one timer a slot. Removal leaves nothing behind (X6).

use crate::time::Instant;
use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<(Instant, u32)>,
    /// Slot → place in the heap.
    places: Vec<u32>,
}

impl Timers {
    /// Arms the timer of `slot`, or moves it.
    pub(crate) fn arm(&mut self, slot: u32, at: Instant) {
        match self.place(slot) {
            Some(place) => {
                if let Some(entry) = self.heap.get_mut(place) {
                    entry.0 = at;
                }
                self.restore(place);
            }
            None => {
                let index = slot as usize;
                if self.places.len() <= index {
                    self.places.resize(index + 1, ABSENT);
                }
                self.heap.push((at, slot));
                let place = self.heap.len() - 1;
                self.note(place);
                self.restore(place);
            }
        }
    }

    /// Disarms the timer of `slot`, if it has one.
    pub(crate) fn disarm(&mut self, slot: u32) {
        let Some(place) = self.place(slot) else { return };
        self.heap.swap_remove(place);
        if let Some(entry) = self.places.get_mut(slot as usize) {
            *entry = ABSENT;
        }
        // Whoever took its place finds its own; at the end there is nobody.
        self.note(place);
        self.restore(place);
        if self.heap.is_empty() {
            self.places.clear();
        }
    }

    /// The earliest timer.
    pub(crate) fn first(&self) -> Option<(Instant, u32)> {
        self.heap.first().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    fn place(&self, slot: u32) -> Option<usize> {
        self.places.get(slot as usize).filter(|place| **place != ABSENT).map(|place| *place as usize)
    }

    fn note(&mut self, place: usize) {
        let Some((_, slot)) = self.heap.get(place) else { return };
        if let (Some(entry), Ok(place)) = (self.places.get_mut(*slot as usize), u32::try_from(place)) {
            *entry = place;
        }
    }

    fn at(&self, place: usize) -> Option<(Instant, u32)> {
        self.heap.get(place).copied()
    }

    /// Puts an entry where another was, and notes it.
    fn put(&mut self, place: usize, entry: (Instant, u32)) {
        if let Some(there) = self.heap.get_mut(place) {
            *there = entry;
            self.note(place);
        }
    }

    /// Moves the entry at `place` up or down to where it belongs; what it passes moves by one.
    fn restore(&mut self, mut place: usize) {
        let Some(entry) = self.at(place) else { return };
        let from = place;
        while place > 0
            && let Some(parent) = self.at((place - 1) / 2).filter(|parent| entry < *parent)
        {
            self.put(place, parent);
            place = (place - 1) / 2;
        }
        if place == from {
            while let Some(left) = self.at(2 * place + 1) {
                let (child, least) = match self.at(2 * place + 2) {
                    Some(right) if right < left => (2 * place + 2, right),
                    Some(_) | None => (2 * place + 1, left),
                };
                if entry <= least {
                    break;
                }
                self.put(place, least);
                place = child;
            }
        }
        if place != from {
            self.put(place, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn the_heap_agrees_with_a_sorted_set_under_random_use() {
        let mut timers = Timers::default();
        let mut model: BTreeSet<(Instant, u32)> = BTreeSet::new();
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (seed >> 33) as u32 % 40;
            let at = Instant::from_micros(seed >> 50);
            model.retain(|(_, s)| *s != slot);
            if seed >> 60 < 9 {
                timers.arm(slot, at);
                model.insert((at, slot));
            } else {
                timers.disarm(slot);
            }
            assert_eq!(timers.first(), model.first().copied());
            assert_eq!(timers.len(), model.len());
        }
        while let Some((_, slot)) = timers.first() {
            timers.disarm(slot);
        }
        assert!(timers.places.is_empty(), "X6: nothing is left behind");
    }
}
