//! Timers: exact top, true removal, no allocation per timer beyond the tables' growth.
//!
//! A timer is named by its owner's slot number; one timer a slot. Most requests have the same patience, so that most timers are armed in
//! the order in which they would run out: those stand in a line and cost a few links. One that is armed for an earlier moment than the
//! line's last goes into an indexed binary heap. Removal leaves nothing behind in either (X6).

use crate::time::Instant;
use alloc::vec::Vec;
use core::mem::size_of;

/// No slot.
const NONE: u32 = u32::MAX;

/// Where the timer of a slot is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Absent,
    Line(Link),
    /// At this index.
    Heap(u32),
}

#[derive(Clone, Copy, Debug)]
struct Link {
    at: Instant,
    before: u32,
    after: u32,
}

#[derive(Debug)]
pub(crate) struct Timers {
    /// By slot.
    places: Vec<Place>,
    /// The line's ends; the moments in it do not decrease.
    first: u32,
    last: u32,
    lined: usize,
    heap: Vec<(Instant, u32)>,
}

impl Default for Timers {
    fn default() -> Self {
        Self { places: Vec::new(), first: NONE, last: NONE, lined: 0, heap: Vec::new() }
    }
}

impl Timers {
    /// Arms the timer of `slot`, or moves it.
    pub(crate) fn arm(&mut self, slot: u32, at: Instant) {
        self.disarm(slot);
        let index = slot as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, Place::Absent);
        }
        let last = self.last;
        if self.link(last).is_some_and(|last| at < last.at) {
            self.heap.push((at, slot));
            let place = self.heap.len() - 1;
            self.note(place);
            self.restore(place);
            return;
        }
        if let Some(place) = self.places.get_mut(index) {
            *place = Place::Line(Link { at, before: last, after: NONE });
        }
        match self.link(last) {
            Some(last) => last.after = slot,
            None => self.first = slot,
        }
        self.last = slot;
        self.lined += 1;
    }

    /// Disarms the timer of `slot`, if it has one.
    pub(crate) fn disarm(&mut self, slot: u32) {
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        match core::mem::replace(place, Place::Absent) {
            Place::Absent => return,
            Place::Line(Link { before, after, .. }) => {
                match self.link(before) {
                    Some(before) => before.after = after,
                    None => self.first = after,
                }
                match self.link(after) {
                    Some(after) => after.before = before,
                    None => self.last = before,
                }
                self.lined -= 1;
            }
            Place::Heap(place) => {
                self.heap.swap_remove(place as usize);
                // Whoever took its place finds its own; at the end there is nobody.
                self.note(place as usize);
                self.restore(place as usize);
            }
        }
        if self.len() == 0 {
            self.places.clear();
        }
    }

    /// The earliest timer.
    pub(crate) fn first(&self) -> Option<(Instant, u32)> {
        let line = match self.places.get(self.first as usize) {
            Some(Place::Line(link)) => Some((link.at, self.first)),
            Some(Place::Absent | Place::Heap(_)) | None => None,
        };
        match (line, self.heap.first()) {
            (Some(line), Some(heap)) => Some(if heap.0 < line.0 { *heap } else { line }),
            (line, heap) => line.or(heap.copied()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lined + self.heap.len()
    }

    /// Bytes that a timer occupies.
    pub(crate) const fn timer_bytes() -> usize {
        size_of::<Place>() + size_of::<(Instant, u32)>()
    }

    fn link(&mut self, slot: u32) -> Option<&mut Link> {
        match self.places.get_mut(slot as usize) {
            Some(Place::Line(link)) => Some(link),
            Some(Place::Absent | Place::Heap(_)) | None => None,
        }
    }

    fn note(&mut self, place: usize) {
        let Some((_, slot)) = self.heap.get(place) else { return };
        if let (Some(entry), Ok(place)) = (self.places.get_mut(*slot as usize), u32::try_from(place)) {
            *entry = Place::Heap(place);
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

    /// Arms and disarms at random among 40 slots; `moment` makes a timer's moment of the step and a random number.
    fn random_use(moment: impl Fn(u64, u64) -> u64) {
        let mut timers = Timers::default();
        let mut model: BTreeSet<(Instant, u32)> = BTreeSet::new();
        let mut seed = 1_u64;
        for step in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (seed >> 33) as u32 % 40;
            let at = Instant::from_micros(moment(step, seed >> 50));
            model.retain(|(_, s)| *s != slot);
            if seed >> 60 < 9 {
                timers.arm(slot, at);
                model.insert((at, slot));
            } else {
                timers.disarm(slot);
            }
            let first = timers.first();
            assert_eq!(first.map(|(at, _)| at), model.first().map(|(at, _)| *at));
            assert!(first.is_none_or(|first| model.contains(&first)), "of several at once it may be any");
            assert_eq!(timers.len(), model.len());
        }
        while let Some((_, slot)) = timers.first() {
            timers.disarm(slot);
        }
        assert!(timers.places.is_empty() && timers.heap.is_empty(), "X6: nothing is left behind");
        assert_eq!((timers.first, timers.last), (NONE, NONE));
    }

    #[test]
    fn timers_agree_with_a_sorted_set_under_random_use() {
        random_use(|_, random| random);
        random_use(|step, _| step / 3);
        random_use(|step, random| step * 100 + random);
    }

    #[test]
    fn timers_that_are_armed_in_order_need_no_heap() {
        let mut timers = Timers::default();
        let at = Instant::from_micros;
        for slot in 0..5 {
            timers.arm(slot, at(u64::from(slot / 2)));
        }
        timers.disarm(0);
        timers.disarm(3);
        assert!(timers.heap.is_empty());
        timers.arm(3, at(1));
        assert_eq!((timers.heap.len(), timers.first()), (1, Some((at(0), 1))));
        timers.disarm(1);
        let order: Vec<u32> = core::iter::from_fn(|| {
            let (_, slot) = timers.first()?;
            timers.disarm(slot);
            Some(slot)
        })
        .collect();
        assert_eq!(order, [2, 3, 4]);
    }
}
