//! Channels and epochs over the whole host, and where each route stands between its claim and its release (R1–R6).
//!
//! Invariant: a channel names one route at a time; its epoch only grows; for every claim `route_gone` is asked for exactly once, unless
//! the bind is still out; and a channel comes back only after that callback has returned and the route's last handler has ended (R3).
//! Never knows a connection's tables: the embedder carries its answers there.
//!
//! ```text
//!  Free ─claim─▶ Binding ─accepted─▶ Live ─close─▶ Closing ─gone─▶ Free, or Retired at the last epoch
//!                   │ │ rejected ───────────────────▲
//!                   │ close                         │
//!                   └────▶ BindClosed ─bind ended───┘
//! ```

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::size_of;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::wire::{Channel, Epoch, RouteHandle};

/// Names a connection within its host: whoever drives it picks the number, unique in this incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

/// Every channel is claimed or retired: `target_unavailable`, no bind (R3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no channel is free")]
pub struct NoChannel;

/// Handlers of one route that have not ended. Counted where they run, readable without a lock.
#[derive(Debug, Default)]
pub(super) struct Work(AtomicUsize);

impl Work {
    /// A handler begins.
    pub(super) fn begin(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// It has ended.
    pub(super) fn end(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A route that may be published: what `accept_route` installs on its connection.
#[derive(Debug)]
pub struct RouteGrant {
    pub(super) handle: RouteHandle,
    pub(super) work: Arc<Work>,
}

impl RouteGrant {
    /// The route's handle.
    #[must_use]
    pub const fn handle(&self) -> RouteHandle {
        self.handle
    }
}

/// What a step of the registry asks of the embedder.
#[derive(Debug)]
#[must_use = "a step that is not taken leaves a callback uncalled or a channel claimed"]
pub enum Step {
    /// Install the route on its connection, which answers the requester (R1).
    Publish(RouteGrant),
    /// Settle the route's work, then call `route_gone`, then say [`Registry::gone`]. Asked once for each claim.
    RouteGone,
    /// The channel is free again, or retired.
    Released,
    /// The route's work has not ended; the channel stays claimed. Say [`Registry::gone`] again later.
    Busy,
    /// Nothing: a repeat, a stale handle, or a bind that is still out.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Binding,
    /// Closed, overrun or disconnected during its bind: the bind's end publishes nothing.
    BindClosed,
    Live,
    Closing,
    /// At the last epoch and cleaned: never again in this incarnation (R3).
    Retired,
}

#[derive(Debug)]
struct Slot {
    state: State,
    epoch: Option<Epoch>,
    owner: Owner,
    work: Arc<Work>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    BindAccepted,
    BindRejected,
    Close,
    Gone,
}

/// The channels of one host.
#[derive(Debug)]
pub struct Registry {
    slots: Vec<Slot>,
    free: VecDeque<usize>,
    limit: usize,
    claimed: usize,
    high_water: usize,
    first_epoch: Epoch,
}

impl Registry {
    /// A registry of at most `limit` routes at once (protocol.md §14: at most 65,535).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self::with_first_epoch(limit, Epoch::FIRST)
    }

    /// As [`Registry::new`], with the epoch that each channel begins at. A high one shows early what the last epoch does.
    #[must_use]
    pub fn with_first_epoch(limit: usize, first_epoch: Epoch) -> Self {
        let limit = limit.min(usize::from(u16::MAX));
        Self { slots: Vec::new(), free: VecDeque::new(), limit, claimed: 0, high_water: 0, first_epoch }
    }

    /// Bytes of a registry with room for `rows` routes: their slots, their work's counters, and the queue of those that are free.
    pub(super) const fn bytes(rows: usize) -> usize {
        let work = size_of::<Work>() + 2 * size_of::<usize>();
        // The larger table stands half twice while it grows.
        rows.saturating_mul(size_of::<Slot>() + size_of::<Slot>() / 2 + work + size_of::<usize>())
    }

    /// Claims a channel that no live route holds, at an epoch above all its earlier ones (R1). The bind comes next.
    ///
    /// # Errors
    /// [`NoChannel`] when the limit is reached or every channel is retired.
    pub fn claim(&mut self, owner: Owner) -> Result<RouteHandle, NoChannel> {
        if self.claimed >= self.limit {
            return Err(NoChannel);
        }
        // R4: one namespace for the whole host; nobody's routes are merged.
        let index = match self.free.pop_front() {
            Some(index) => index,
            None if self.slots.len() < usize::from(u16::MAX) => {
                let work = Arc::new(Work::default());
                self.slots.push(Slot { state: State::Free, epoch: None, owner, work });
                self.slots.len() - 1
            }
            None => return Err(NoChannel),
        };
        let first = self.first_epoch;
        let slot = self.slots.get_mut(index).ok_or(NoChannel)?;
        let epoch = match slot.epoch {
            None => first,
            Some(last) => last.next().ok_or(NoChannel)?, // R3: the epoch grows
        };
        let channel = u16::try_from(index + 1).ok().and_then(Channel::new).ok_or(NoChannel)?;
        (slot.state, slot.epoch, slot.owner) = (State::Binding, Some(epoch), owner);
        self.claimed += 1;
        self.high_water = self.high_water.max(self.claimed);
        Ok(RouteHandle { channel, epoch })
    }

    /// The bind has accepted.
    pub fn bind_accepted(&mut self, route: RouteHandle) -> Step {
        self.step(route, Input::BindAccepted)
    }

    /// The bind has rejected or panicked. The error is sent after `route_gone` has returned (R2).
    pub fn bind_rejected(&mut self, route: RouteHandle) -> Step {
        self.step(route, Input::BindRejected)
    }

    /// The route ends: its client said `Goodbye`, its connection is gone, its bind overran its time (R2, R6), or the host shuts down.
    pub fn close(&mut self, route: RouteHandle) -> Step {
        self.step(route, Input::Close)
    }

    /// `route_gone` has returned: the channel may be reused once its last handler has ended.
    pub fn gone(&mut self, route: RouteHandle) -> Step {
        self.step(route, Input::Gone)
    }

    /// Whether `owner` holds this route (R4).
    #[must_use]
    pub fn is_owner(&self, owner: Owner, route: RouteHandle) -> bool {
        self.slot(route).is_some_and(|slot| slot.owner == owner)
    }

    /// The routes that `owner` holds, in whatever state (K2).
    pub fn owned_by(&self, owner: Owner) -> impl Iterator<Item = RouteHandle> + '_ {
        self.claimed_routes().filter(move |(_, slot)| slot.owner == owner).map(|(route, _)| route)
    }

    /// Every claimed route: what a shutdown has to close.
    pub fn routes(&self) -> impl Iterator<Item = RouteHandle> + '_ {
        self.claimed_routes().map(|(route, _)| route)
    }

    /// Handlers of this route that have not ended.
    #[must_use]
    pub fn work(&self, route: RouteHandle) -> usize {
        self.slot(route).map_or(0, |slot| slot.work.0.load(Ordering::Acquire))
    }

    /// Routes that are claimed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.claimed
    }

    /// Whether no route is claimed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.claimed == 0
    }

    /// The most routes ever claimed at once (Z2).
    #[must_use]
    pub const fn high_water(&self) -> usize {
        self.high_water
    }

    fn claimed_routes(&self) -> impl Iterator<Item = (RouteHandle, &Slot)> {
        self.slots.iter().zip(1_u16..=u16::MAX).filter_map(|(slot, channel)| match slot.state {
            State::Free | State::Retired => None,
            State::Binding | State::BindClosed | State::Live | State::Closing => {
                Some((RouteHandle { channel: Channel::new(channel)?, epoch: slot.epoch? }, slot))
            }
        })
    }

    /// The slot of a claimed route; a stale handle has none (R5).
    fn slot(&self, route: RouteHandle) -> Option<&Slot> {
        let slot = self.slots.get(usize::from(route.channel.value()) - 1)?;
        (slot.epoch == Some(route.epoch) && !matches!(slot.state, State::Free | State::Retired))
            .then_some(slot)
    }

    /// The one transition function; the table below is its picture.
    fn step(&mut self, route: RouteHandle, input: Input) -> Step {
        let index = usize::from(route.channel.value()) - 1;
        let Some(slot) = self.slots.get_mut(index) else { return Step::Nothing };
        if slot.epoch != Some(route.epoch) {
            return Step::Nothing; // R5: a callback of an old epoch changes nothing
        }
        match (slot.state, input) {
            (State::Binding, Input::BindAccepted) => {
                slot.state = State::Live;
                Step::Publish(RouteGrant { handle: route, work: Arc::clone(&slot.work) })
            }
            (State::Binding, Input::BindRejected) => {
                slot.state = State::Closing;
                Step::RouteGone // R2
            }
            (State::Binding, Input::Close) => {
                slot.state = State::BindClosed; // R2: claimed until the bind has really ended
                Step::Nothing
            }
            (State::BindClosed, Input::BindAccepted | Input::BindRejected) => {
                slot.state = State::Closing; // close wins and publishes nothing
                Step::RouteGone
            }
            (State::Live, Input::Close) => {
                slot.state = State::Closing;
                Step::RouteGone // R6
            }
            (State::Closing, Input::Gone) => {
                if slot.work.0.load(Ordering::Acquire) > 0 {
                    return Step::Busy; // R3: work first
                }
                self.claimed -= 1;
                if route.epoch == Epoch::LAST {
                    slot.state = State::Retired; // R3, V21
                } else {
                    slot.state = State::Free;
                    self.free.push_back(index);
                }
                Step::Released
            }
            (
                State::Free | State::Retired,
                Input::BindAccepted | Input::BindRejected | Input::Close | Input::Gone,
            )
            | (State::Binding | State::BindClosed | State::Live, Input::Gone)
            | (State::BindClosed, Input::Close)
            | (State::Live, Input::BindAccepted | Input::BindRejected)
            | (State::Closing, Input::BindAccepted | Input::BindRejected | Input::Close) => Step::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    const ME: Owner = Owner(1);

    /// Every (state, input) pair. The docs show this table.
    const TABLE: &str = "\
Free       + BindAccepted -> Free,       Nothing
Free       + BindRejected -> Free,       Nothing
Free       + Close        -> Free,       Nothing
Free       + Gone         -> Free,       Nothing
Binding    + BindAccepted -> Live,       Publish
Binding    + BindRejected -> Closing,    RouteGone
Binding    + Close        -> BindClosed, Nothing
Binding    + Gone         -> Binding,    Nothing
BindClosed + BindAccepted -> Closing,    RouteGone
BindClosed + BindRejected -> Closing,    RouteGone
BindClosed + Close        -> BindClosed, Nothing
BindClosed + Gone         -> BindClosed, Nothing
Live       + BindAccepted -> Live,       Nothing
Live       + BindRejected -> Live,       Nothing
Live       + Close        -> Closing,    RouteGone
Live       + Gone         -> Live,       Nothing
Closing    + BindAccepted -> Closing,    Nothing
Closing    + BindRejected -> Closing,    Nothing
Closing    + Close        -> Closing,    Nothing
Closing    + Gone         -> Free,       Released
Retired    + BindAccepted -> Retired,    Nothing
Retired    + BindRejected -> Retired,    Nothing
Retired    + Close        -> Retired,    Nothing
Retired    + Gone         -> Retired,    Nothing
";

    fn name(step: &Step) -> &'static str {
        match step {
            Step::Publish(_) => "Publish",
            Step::RouteGone => "RouteGone",
            Step::Released => "Released",
            Step::Busy => "Busy",
            Step::Nothing => "Nothing",
        }
    }

    fn in_state(state: State) -> (Registry, RouteHandle) {
        let first = if state == State::Retired { Epoch::LAST } else { Epoch::FIRST };
        let mut registry = Registry::with_first_epoch(4, first);
        let route = registry.claim(ME).unwrap();
        let path: &[Input] = match state {
            State::Binding => &[],
            State::BindClosed => &[Input::Close],
            State::Live => &[Input::BindAccepted],
            State::Closing => &[Input::BindRejected],
            State::Free | State::Retired => &[Input::BindRejected, Input::Gone],
        };
        path.iter().for_each(|input| drop(registry.step(route, *input)));
        assert_eq!(registry.slots[0].state, state);
        (registry, route)
    }

    #[test]
    fn r1_r2_r3_r6_the_table_of_a_route() {
        let mut table = String::new();
        for state in
            [State::Free, State::Binding, State::BindClosed, State::Live, State::Closing, State::Retired]
        {
            for input in [Input::BindAccepted, Input::BindRejected, Input::Close, Input::Gone] {
                let (mut registry, route) = in_state(state);
                let step = registry.step(route, input);
                let to = format!("{:?},", registry.slots[0].state);
                table += &format!(
                    "{:<10} + {:<12} -> {to:<11} {}\n",
                    format!("{state:?}"),
                    format!("{input:?}"),
                    name(&step)
                );
                let claimed = !matches!(registry.slots[0].state, State::Free | State::Retired);
                assert_eq!(registry.len(), usize::from(claimed));
            }
        }
        assert_eq!(table, TABLE);
        assert!(include_str!("states.md").contains(TABLE), "the docs show another table");
    }

    /// Every sequence of six inputs: `route_gone` is asked for at most once, and exactly once before a release.
    #[test]
    fn r3_route_gone_is_asked_for_exactly_once_before_every_release() {
        let inputs = [Input::BindAccepted, Input::BindRejected, Input::Close, Input::Gone];
        for number in 0..inputs.len().pow(6) {
            let mut registry = Registry::new(4);
            let route = registry.claim(ME).unwrap();
            let (mut gone, mut published, mut code) = (0, 0, number);
            for _ in 0..6 {
                match registry.step(route, inputs[code % 4]) {
                    Step::RouteGone => gone += 1,
                    Step::Publish(_) => published += 1,
                    Step::Released => assert_eq!(gone, 1),
                    Step::Busy | Step::Nothing => {}
                }
                code /= 4;
            }
            assert!(gone <= 1 && published <= 1);
        }
    }

    #[test]
    fn v20_v31_v32_a_reused_channel_has_a_higher_epoch_and_the_old_one_means_nothing() {
        let mut registry = Registry::new(1);
        let old = registry.claim(ME).unwrap();
        assert_eq!(registry.claim(ME), Err(NoChannel), "V20: not before route_gone");
        assert!(matches!(registry.bind_accepted(old), Step::Publish(_)));
        assert!(matches!(registry.close(old), Step::RouteGone));
        assert_eq!(registry.claim(ME), Err(NoChannel));
        assert!(matches!(registry.gone(old), Step::Released));
        let new = registry.claim(Owner(2)).unwrap();
        assert_eq!((new.channel, new.epoch.value()), (old.channel, old.epoch.value() + 1));
        for input in [Input::BindAccepted, Input::BindRejected, Input::Close, Input::Gone] {
            assert!(matches!(registry.step(old, input), Step::Nothing), "R5: {input:?}");
        }
        assert!(
            registry.is_owner(Owner(2), new) && !registry.is_owner(ME, old) && !registry.is_owner(ME, new)
        );
    }

    #[test]
    fn v21_a_channel_at_the_last_epoch_is_cleaned_then_retired() {
        let mut registry = Registry::with_first_epoch(2, Epoch::new(u32::MAX - 1).unwrap());
        for epoch in [u32::MAX - 1, u32::MAX] {
            let route = registry.claim(ME).unwrap();
            assert_eq!((route.channel.value(), route.epoch.value()), (1, epoch));
            assert!(matches!(registry.bind_rejected(route), Step::RouteGone));
            assert!(matches!(registry.gone(route), Step::Released));
        }
        assert_eq!(registry.claim(ME).unwrap().channel.value(), 2, "R3: retired for the incarnation");
        assert!(!registry.is_empty());
    }

    #[test]
    fn r3_a_channel_waits_for_the_last_handler_even_after_route_gone() {
        let mut registry = Registry::new(1);
        let route = registry.claim(ME).unwrap();
        let Step::Publish(grant) = registry.bind_accepted(route) else { panic!() };
        grant.work.begin();
        assert!(matches!(registry.close(route), Step::RouteGone));
        assert_eq!(registry.work(route), 1);
        assert!(matches!(registry.gone(route), Step::Busy));
        assert_eq!(registry.claim(ME), Err(NoChannel));
        grant.work.end();
        assert!(matches!(registry.gone(route), Step::Released));
        assert!(registry.claim(ME).is_ok());
    }

    #[test]
    fn r4_ae11_channels_are_unique_over_all_connections_and_sessions_are_never_merged() {
        let mut registry = Registry::new(3);
        let routes: Vec<_> = [ME, Owner(2), ME].map(|owner| registry.claim(owner).unwrap()).into();
        assert_eq!(routes.iter().map(|r| r.channel.value()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(registry.owned_by(ME).collect::<Vec<_>>(), [routes[0], routes[2]]);
        assert_eq!(registry.routes().count(), 3);
        assert_eq!(registry.high_water(), 3);
    }

    #[test]
    fn r5_a_released_route_and_an_older_epoch_belong_to_nobody() {
        let mut registry = Registry::new(1);
        let old = registry.claim(ME).unwrap();
        assert!(registry.is_owner(ME, old));
        assert!(matches!(registry.bind_rejected(old), Step::RouteGone));
        assert!(matches!(registry.gone(old), Step::Released));
        assert!(!registry.is_owner(ME, old), "released");
        let new = registry.claim(ME).unwrap();
        assert!(registry.is_owner(ME, new) && !registry.is_owner(ME, old), "of an older epoch");
    }

    #[test]
    fn r3_where_every_channel_is_retired_a_claim_finds_none_and_keeps_nothing() {
        let mut registry = Registry::with_first_epoch(usize::MAX, Epoch::LAST);
        for _ in 1..=u16::MAX {
            let route = registry.claim(ME).unwrap();
            assert!(matches!(registry.bind_rejected(route), Step::RouteGone));
            assert!(matches!(registry.gone(route), Step::Released));
        }
        assert_eq!([registry.claim(ME), registry.claim(ME)], [Err(NoChannel); 2]);
        assert_eq!((registry.len(), registry.slots.len()), (0, usize::from(u16::MAX)));
    }

    #[test]
    fn the_bytes_of_a_registry_are_those_of_its_rows() {
        let slot = size_of::<Slot>();
        assert_eq!(Registry::bytes(10), 10 * (slot + slot / 2 + size_of::<Work>() + 16 + 8));
    }

    #[test]
    fn the_whole_namespace_can_be_claimed_and_no_more() {
        let mut registry = Registry::new(usize::MAX);
        for channel in 1..=u16::MAX {
            assert_eq!(registry.claim(ME).unwrap().channel.value(), channel);
        }
        assert_eq!(registry.claim(ME), Err(NoChannel));
    }
}
