//! Requests between their frame and the first byte of their terminal: one machine, one table.
//!
//! Invariant: every request that entered the table leaves it with exactly one terminal, or silently with its connection; the first
//! terminal wins (F5), and its permit is held until that terminal has begun to leave (B9). How many may enter is admission's to say.

use alloc::collections::VecDeque;
use core::mem::size_of;
use slab::Slab;

use super::admission::Pending;
use crate::budget::Charge;
use crate::control::RouteClass;
use crate::wire::{Correlation, Identity, RouteHandle};

/// Names a request to its embedder; valid until its terminal has been given, and never reused within a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    slot: u32,
    corr: Correlation,
}

impl RequestId {
    /// The correlation that the client gave it.
    #[must_use]
    pub const fn correlation(self) -> Correlation {
        self.corr
    }
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Admitted; its event has not been taken: nothing runs.
    Queued,
    /// Handed over.
    Running {
        /// An item of it has been queued.
        streamed: bool,
    },
    /// Its route or the host ends: told to stop; its real terminal still counts (R6, §17).
    Told {
        /// An item of it has been queued.
        streamed: bool,
    },
    /// Cancelled by its client: whatever it answers, its terminal is `cancelled` (X1).
    Stopping,
    /// Its terminal is queued and has not begun to leave.
    Finishing,
}

/// What can happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The embedder took its event.
    Taken,
    /// An item.
    Item,
    /// A unary answer.
    Respond,
    /// An error.
    Fail,
    /// The clean end of a stream.
    End,
    /// The handler has ended, and said nothing more.
    Stopped,
    /// A `Cancel` from the client.
    Cancel,
    /// Its route or the host wants to end.
    Tell,
    /// The drain's end: a terminal now.
    Expire,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing: too late, or out of place.
    Nothing,
    /// Hand it over.
    Dispatch,
    /// Queue the item.
    Item,
    /// Refuse the item: nobody wants it any more.
    RefuseItem,
    /// Queue the `Response`.
    Response,
    /// Queue the `Error` that was given.
    Error,
    /// Queue a `StreamEnd`.
    StreamEnd,
    /// Queue `Error{cancelled}`.
    Cancelled,
    /// Queue `Error{internal_error}`.
    Internal,
    /// Tell the handler to stop.
    Tell,
    /// Tell the handler to stop, and queue `Error{cancelled}`.
    TellCancelled,
}

impl State {
    /// The one transition function; the table below is its picture.
    pub(super) const fn step(self, input: Input) -> (Self, Act) {
        use State::{Finishing, Queued, Running, Stopping, Told};
        match (self, input) {
            (Queued, Input::Taken) => (Running { streamed: false }, Act::Dispatch),
            // X1: nothing ran, so there is nothing to join.
            (Queued, Input::Cancel | Input::Tell | Input::Expire) => (Finishing, Act::Cancelled),
            (Running { .. }, Input::Item) => (Running { streamed: true }, Act::Item),
            // B083: a cancelled handler's send fails at once.
            (Stopping | Finishing | Queued, Input::Item) => (self, Act::RefuseItem),
            // B061: what now says that it ended well would end with a gap.
            (Told { .. }, Input::Item) => (Stopping, Act::RefuseItem),
            (Running { streamed: false } | Told { streamed: false }, Input::Respond) => {
                (Finishing, Act::Response)
            }
            // Q5: a stream ends with `StreamEnd` or `Error`.
            (Running { streamed: true } | Told { streamed: true }, Input::Respond) => {
                (Finishing, Act::Internal)
            }
            (Running { .. } | Told { .. }, Input::Fail) => (Finishing, Act::Error),
            (Running { .. } | Told { .. }, Input::End) => (Finishing, Act::StreamEnd),
            (Running { .. }, Input::Stopped) => (Finishing, Act::Internal), // B081
            (Running { .. }, Input::Cancel) => (Stopping, Act::Tell),       // X1
            (Running { streamed }, Input::Tell) => (Told { streamed }, Act::Tell), // R6
            (Told { .. }, Input::Stopped) => (Finishing, Act::Cancelled),
            (Told { .. }, Input::Cancel) => (Stopping, Act::Nothing),
            // X1: stopped and joined first, then exactly one `cancelled`.
            (Stopping, Input::Respond | Input::Fail | Input::End | Input::Stopped) => {
                (Finishing, Act::Cancelled)
            }
            (Running { .. }, Input::Expire) => (Finishing, Act::TellCancelled),
            (Told { .. } | Stopping, Input::Expire) => (Finishing, Act::Cancelled),
            // F5: the first terminal has won.
            (
                Finishing,
                Input::Taken
                | Input::Respond
                | Input::Fail
                | Input::End
                | Input::Stopped
                | Input::Cancel
                | Input::Tell
                | Input::Expire,
            )
            | (Queued, Input::Respond | Input::Fail | Input::End | Input::Stopped)
            | (Running { .. }, Input::Taken)
            | (Told { .. }, Input::Taken | Input::Tell)
            | (Stopping, Input::Taken | Input::Cancel | Input::Tell) => (self, Act::Nothing),
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) corr: Correlation,
    /// Of a routed request; the others are on the control channel.
    pub(super) route: Option<RouteHandle>,
    pub(super) state: State,
    /// Whose pending permit it holds; of a `route.open` also the class that the route will have (B7).
    pub(super) class: RouteClass,
    /// Of a `route.open`: the component that is to bind.
    pub(super) opening: Option<usize>,
    /// What a decoded control request occupies while its bind is out.
    pub(super) charge: Option<Charge>,
}

impl Entry {
    pub(super) const fn control(corr: Correlation, state: State, class: RouteClass) -> Self {
        Self { corr, route: None, state, class, opening: None, charge: None }
    }

    pub(super) const fn routed(route: RouteHandle, corr: Correlation, class: RouteClass) -> Self {
        Self { corr, route: Some(route), state: State::Queued, class, opening: None, charge: None }
    }

    /// Steps the machine; what a bind occupied is given back with its end.
    pub(super) fn step(&mut self, input: Input) -> Act {
        let (state, act) = self.state.step(input);
        self.state = state;
        if matches!(state, State::Finishing) {
            self.charge = None;
        }
        act
    }

    pub(super) const fn identity(&self) -> Identity {
        match self.route {
            Some(route) => Identity::Routed(route, self.corr),
            None => Identity::Control(self.corr),
        }
    }
}

#[derive(Debug)]
pub(super) struct Requests {
    /// A request's permit is held until the first byte of its terminal has been accepted (B9).
    permits: Pending,
    entries: Slab<Entry>,
    /// Routed ones by correlation. They arrive in ascending order (Q2), so the order is the index, and nobody can make it slow.
    order: VecDeque<(Correlation, Option<u32>)>,
    removed: usize,
}

impl Requests {
    /// Bytes of one row of the table, and of one of the index: of the latter there are at most two a request ([`Requests::tidy`]).
    pub(super) const ENTRY: usize = size_of::<Entry>() + size_of::<usize>();
    pub(super) const ROW: usize = size_of::<(Correlation, Option<u32>)>();

    pub(super) const fn new(permits: Pending) -> Self {
        Self { permits, entries: Slab::new(), order: VecDeque::new(), removed: 0 }
    }

    /// B7: a permit of the entry's class and its place in the table, or neither.
    pub(super) fn admit(&mut self, entry: Entry) -> Option<RequestId> {
        if !self.permits.draw(entry.class) {
            return None;
        }
        let (corr, routed) = (entry.corr, entry.route.is_some());
        // The table never has 2³² entries: `HostLimits::validate` caps pending requests far below.
        let slot = u32::try_from(self.entries.insert(entry)).unwrap_or(u32::MAX);
        if routed {
            self.order.push_back((corr, Some(slot)));
        }
        Some(RequestId { slot, corr })
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&Entry> {
        self.entries.get(id.slot as usize).filter(|entry| entry.corr == id.corr)
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Entry> {
        self.entries.get_mut(id.slot as usize).filter(|entry| entry.corr == id.corr)
    }

    /// Q4: the whole identity names a request.
    pub(super) fn find(&self, route: RouteHandle, corr: Correlation) -> Option<RequestId> {
        let place = self.place(corr)?;
        let slot = self.order.get(place)?.1?;
        let id = RequestId { slot, corr };
        // Q4: on the wrong channel or epoch the right correlation matches nothing.
        self.get(id).filter(|entry| entry.route == Some(route)).map(|_| id)
    }

    /// Its permit goes with the next [`give_back`](Self::give_back), or to a request that is admitted before.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<Entry> {
        self.get(id)?;
        let entry = self.entries.try_remove(id.slot as usize)?;
        self.permits.release(entry.class);
        if entry.route.is_some() {
            self.forget(id.corr);
        }
        Some(entry)
    }

    /// Gives back the permits of what was removed.
    pub(super) fn give_back(&mut self) {
        self.permits.give_back();
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.entries
            .iter()
            .filter_map(|(slot, entry)| Some(RequestId { slot: u32::try_from(slot).ok()?, corr: entry.corr }))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Slots in memory, used or not: what a flood must not move (CC9).
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity().max(self.order.capacity())
    }

    pub(super) fn clear(&mut self) {
        (self.entries, self.order, self.removed) = (Slab::new(), VecDeque::new(), 0);
        self.permits.clear();
    }

    fn place(&self, corr: Correlation) -> Option<usize> {
        self.order.binary_search_by_key(&corr, |row| row.0).ok()
    }

    /// X6: what was removed leaves nothing behind. Amortized constant: at most half of the rows are empty.
    fn forget(&mut self, corr: Correlation) {
        // Most end in the order in which they came.
        if self.order.front().is_some_and(|row| row.0 == corr) {
            self.order.pop_front();
        } else if let Some(place) = self.place(corr)
            && let Some(row) = self.order.get_mut(place)
        {
            row.1 = None;
            self.removed += 1;
        }
        while let Some((_, None)) = self.order.front() {
            self.order.pop_front();
            self.removed -= 1;
        }
        if self.removed > self.order.len() / 2 {
            self.order.retain(|row| row.1.is_some());
            self.removed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Pool;
    use crate::host::admission::test_pending;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    const STATES: [State; 7] = [
        State::Queued,
        State::Running { streamed: false },
        State::Running { streamed: true },
        State::Told { streamed: false },
        State::Told { streamed: true },
        State::Stopping,
        State::Finishing,
    ];
    const INPUTS: [Input; 9] = [
        Input::Taken,
        Input::Item,
        Input::Respond,
        Input::Fail,
        Input::End,
        Input::Stopped,
        Input::Cancel,
        Input::Tell,
        Input::Expire,
    ];

    fn name(state: State) -> &'static str {
        match state {
            State::Queued => "Queued",
            State::Running { streamed: false } => "Running",
            State::Running { streamed: true } => "Streaming",
            State::Told { streamed: false } => "Told",
            State::Told { streamed: true } => "ToldStreaming",
            State::Stopping => "Stopping",
            State::Finishing => "Finishing",
        }
    }

    /// Every (state, input) pair. The docs show this table.
    const TABLE: &str = "\
Queued        + Taken   -> Running,       Dispatch
Queued        + Item    -> Queued,        RefuseItem
Queued        + Respond -> Queued,        Nothing
Queued        + Fail    -> Queued,        Nothing
Queued        + End     -> Queued,        Nothing
Queued        + Stopped -> Queued,        Nothing
Queued        + Cancel  -> Finishing,     Cancelled
Queued        + Tell    -> Finishing,     Cancelled
Queued        + Expire  -> Finishing,     Cancelled
Running       + Taken   -> Running,       Nothing
Running       + Item    -> Streaming,     Item
Running       + Respond -> Finishing,     Response
Running       + Fail    -> Finishing,     Error
Running       + End     -> Finishing,     StreamEnd
Running       + Stopped -> Finishing,     Internal
Running       + Cancel  -> Stopping,      Tell
Running       + Tell    -> Told,          Tell
Running       + Expire  -> Finishing,     TellCancelled
Streaming     + Taken   -> Streaming,     Nothing
Streaming     + Item    -> Streaming,     Item
Streaming     + Respond -> Finishing,     Internal
Streaming     + Fail    -> Finishing,     Error
Streaming     + End     -> Finishing,     StreamEnd
Streaming     + Stopped -> Finishing,     Internal
Streaming     + Cancel  -> Stopping,      Tell
Streaming     + Tell    -> ToldStreaming, Tell
Streaming     + Expire  -> Finishing,     TellCancelled
Told          + Taken   -> Told,          Nothing
Told          + Item    -> Stopping,      RefuseItem
Told          + Respond -> Finishing,     Response
Told          + Fail    -> Finishing,     Error
Told          + End     -> Finishing,     StreamEnd
Told          + Stopped -> Finishing,     Cancelled
Told          + Cancel  -> Stopping,      Nothing
Told          + Tell    -> Told,          Nothing
Told          + Expire  -> Finishing,     Cancelled
ToldStreaming + Taken   -> ToldStreaming, Nothing
ToldStreaming + Item    -> Stopping,      RefuseItem
ToldStreaming + Respond -> Finishing,     Internal
ToldStreaming + Fail    -> Finishing,     Error
ToldStreaming + End     -> Finishing,     StreamEnd
ToldStreaming + Stopped -> Finishing,     Cancelled
ToldStreaming + Cancel  -> Stopping,      Nothing
ToldStreaming + Tell    -> ToldStreaming, Nothing
ToldStreaming + Expire  -> Finishing,     Cancelled
Stopping      + Taken   -> Stopping,      Nothing
Stopping      + Item    -> Stopping,      RefuseItem
Stopping      + Respond -> Finishing,     Cancelled
Stopping      + Fail    -> Finishing,     Cancelled
Stopping      + End     -> Finishing,     Cancelled
Stopping      + Stopped -> Finishing,     Cancelled
Stopping      + Cancel  -> Stopping,      Nothing
Stopping      + Tell    -> Stopping,      Nothing
Stopping      + Expire  -> Finishing,     Cancelled
Finishing     + Taken   -> Finishing,     Nothing
Finishing     + Item    -> Finishing,     RefuseItem
Finishing     + Respond -> Finishing,     Nothing
Finishing     + Fail    -> Finishing,     Nothing
Finishing     + End     -> Finishing,     Nothing
Finishing     + Stopped -> Finishing,     Nothing
Finishing     + Cancel  -> Finishing,     Nothing
Finishing     + Tell    -> Finishing,     Nothing
Finishing     + Expire  -> Finishing,     Nothing
";

    #[test]
    fn x1_f5_b081_the_table_of_a_request() {
        let mut table = String::new();
        for state in STATES {
            for input in INPUTS {
                let (to, act) = state.step(input);
                table += &format!(
                    "{:<13} + {:<7} -> {:<14} {act:?}\n",
                    name(state),
                    format!("{input:?}"),
                    format!("{},", name(to))
                );
            }
        }
        assert_eq!(table, TABLE);
        assert!(include_str!("states.md").contains(TABLE), "the docs show another table");
    }

    /// From every state, every sequence of four inputs: at most one terminal, and exactly one once an expiry is among them.
    #[test]
    fn f5_whatever_happens_a_request_has_one_terminal() {
        for start in STATES {
            for number in 0..INPUTS.len().pow(4) {
                let (mut state, mut code, mut terminals, mut expired) = (start, number, 0, false);
                for _ in 0..4 {
                    let Some(input) = INPUTS.get(code % INPUTS.len()) else { continue };
                    code /= INPUTS.len();
                    let (to, act) = state.step(*input);
                    let terminal = match act {
                        Act::Response
                        | Act::Error
                        | Act::StreamEnd
                        | Act::Cancelled
                        | Act::Internal
                        | Act::TellCancelled => true,
                        Act::Nothing | Act::Dispatch | Act::Item | Act::RefuseItem | Act::Tell => false,
                    };
                    assert_eq!(
                        terminal,
                        to == State::Finishing && state != State::Finishing,
                        "{state:?} {input:?}"
                    );
                    terminals += usize::from(terminal);
                    expired |= *input == Input::Expire;
                    state = to;
                }
                let want = usize::from(start != State::Finishing);
                assert!(terminals <= want && (!expired || terminals == want));
            }
        }
    }

    fn routed(corr: u64) -> Entry {
        let route = RouteHandle::new(1, 1).unwrap();
        Entry::routed(route, Correlation::new(corr).unwrap(), RouteClass::General)
    }

    #[test]
    fn q4_x6_a_request_is_found_by_its_whole_identity_and_leaves_nothing_behind() {
        let mut requests = Requests::new(test_pending(&Pool::new(16)));
        let here = RouteHandle::new(1, 1).unwrap();
        let long = requests.admit(routed(1)).unwrap();
        let mut live = Vec::new();
        for n in 2..100_000_u64 {
            live.push(requests.admit(routed(3 * n)).unwrap());
            if live.len() > 8 {
                // Out of order: every third from the front, else the newest.
                let at = if n % 3 == 0 { 0 } else { live.len() - 1 };
                let gone = live.remove(at);
                assert_eq!(requests.find(here, gone.corr), Some(gone));
                assert_eq!(requests.find(RouteHandle::new(1, 2).unwrap(), gone.corr), None, "Q4");
                assert!(requests.remove(gone).is_some() && requests.remove(gone).is_none());
                assert_eq!(requests.find(here, gone.corr), None);
            }
        }
        assert_eq!(requests.find(here, long.corr), Some(long));
        assert_eq!(requests.find(here, Correlation::new(3 * 100_001).unwrap()), None);
        assert!(requests.capacity() <= 64, "{}", requests.capacity());
        assert_eq!(requests.ids().count(), live.len() + 1);
    }

    /// X6: whatever the order of ends, at most half of the index is empty, and each row of it is accounted for.
    #[test]
    fn x6_the_index_forgets_what_ended_in_any_order() {
        let pool = Pool::new(1_000);
        let mut requests = Requests::new(test_pending(&pool));
        let (mut live, mut seed, mut next) = (Vec::new(), 1_u64, 1_u64);
        for round in 0..4_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let grows = (round / 500) % 2 == 0;
            if live.is_empty() || (live.len() < 300 && (seed >> 40) % 4 < if grows { 3 } else { 1 }) {
                live.push(requests.admit(routed(next)).unwrap());
                next += 1;
            } else {
                let id = live.swap_remove((seed >> 33) as usize % live.len());
                assert!(requests.remove(id).is_some() && requests.remove(id).is_none());
            }
            let empty = requests.order.iter().filter(|row| row.1.is_none()).count();
            assert_eq!((requests.removed, requests.order.len()), (empty, live.len() + empty));
            assert!(empty <= live.len(), "{empty} empty rows of {}", requests.order.len());
            assert!(requests.order.front().is_none_or(|row| row.1.is_some()));
            let route = RouteHandle::new(1, 1).unwrap();
            assert!(live.iter().all(|id| requests.find(route, id.corr) == Some(*id)));
        }
        live.into_iter().for_each(|id| drop(requests.remove(id)));
        requests.give_back();
        assert_eq!((requests.len(), requests.order.len(), pool.used()), (0, 0, 0));
    }

    #[test]
    fn b7_b9_permits_are_drawn_one_by_one_and_given_back_together() {
        let pool = Pool::new(3);
        let mut requests = Requests::new(test_pending(&pool));
        let [first, second, _] = [1, 2, 3].map(|n| requests.admit(routed(n)).unwrap());
        assert!(requests.admit(routed(4)).is_none(), "V48");
        assert_eq!((requests.len(), pool.used()), (3, 3));
        assert!(requests.remove(first).is_some() && requests.remove(second).is_some());
        assert_eq!(pool.used(), 3, "not one by one");
        requests.admit(routed(5)).unwrap();
        requests.give_back();
        assert_eq!((requests.len(), pool.used()), (2, 2));
        requests.clear();
        assert_eq!((requests.len(), pool.used()), (0, 0));
        requests.admit(routed(6)).unwrap();
        drop(requests);
        assert_eq!((pool.used(), pool.high_water()), (0, 3));
    }

    #[test]
    fn a_request_occupies_its_entry_and_a_word_of_the_slab() {
        assert_eq!(Requests::ENTRY, size_of::<Entry>() + 8);
    }

    #[test]
    fn x6_an_index_that_is_half_empty_is_left_alone() {
        let pool = Pool::new(4);
        let mut requests = Requests::new(test_pending(&pool));
        let [_, second, third] = [1, 2, 3].map(|n| requests.admit(routed(n)).unwrap());
        requests.remove(second);
        assert_eq!(requests.order.len(), 3);
        requests.remove(third);
        assert_eq!(requests.order.len(), 1, "two of three were empty");
        let fourth = requests.admit(routed(4)).unwrap();
        requests.remove(fourth);
        assert_eq!(requests.order.len(), 2, "one of two is not over half");
        assert!(requests.capacity() >= 4 && requests.capacity() < 100);
    }
}
