//! Who may start work: permits by class, drawn without a lock, given back when dropped.
//!
//! Owns the pools of pending requests and handler tasks (B7). Invariant: one class never draws on the other's, and a permit is
//! given back exactly once, wherever it is dropped. Never waits: what is not there is refused (B6).

use crate::budget::{Charge, Pool};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::declare::{Declaration, Sums};
use super::registry::Work;
use crate::control::RouteClass;
use crate::limits::HostLimits;

/// Two pools of slots, one a class.
#[derive(Debug)]
struct ByClass {
    general: Arc<Pool>,
    reserved: Arc<Pool>,
}

impl ByClass {
    fn new(general: usize, reserved: usize) -> Self {
        Self { general: Pool::new(general), reserved: Pool::new(reserved) }
    }

    const fn pool(&self, class: RouteClass) -> &Arc<Pool> {
        match class {
            RouteClass::General => &self.general,
            RouteClass::Reserved => &self.reserved,
        }
    }
}

/// The permits of one host, shared by its connections as counters.
#[derive(Debug)]
pub struct Admission {
    pending: ByClass,
    tasks: ByClass,
    /// By component: how many of its handlers may be parked at once.
    parked: Vec<Arc<Pool>>,
    handshakes: Arc<Pool>,
    connections: Arc<Pool>,
}

impl Admission {
    pub(super) fn new(limits: &HostLimits, declared: &[Declaration], sums: &Sums) -> Self {
        Self {
            pending: ByClass::new(sums.general_pending, sums.reserved_pending),
            tasks: ByClass::new(sums.general_tasks, sums.reserved_tasks),
            parked: declared.iter().map(|one| Pool::new(one.parked_tasks)).collect(),
            handshakes: Pool::new(limits.handshakes),
            connections: Pool::new(limits.connections),
        }
    }

    /// A new connection's hold on the pools of pending requests.
    pub(super) fn pending(&self) -> Pending {
        let none = |class| Draw { charge: Pool::nothing(self.pending.pool(class)), used: 0 };
        Pending { general: none(RouteClass::General), reserved: none(RouteClass::Reserved) }
    }

    /// Where the handlers of a route of this class get their permits.
    pub(super) fn desk(&self, class: RouteClass, component: usize, work: Arc<Work>) -> Arc<Desk> {
        let parking = Parking(self.parked.get(component).map(Arc::clone));
        Arc::new(Desk { tasks: Arc::clone(self.tasks.pool(class)), parking, work })
    }

    pub(super) fn handshake(&self) -> Option<Slot> {
        self.handshakes.try_charge(1).map(Slot)
    }

    pub(super) fn connection(&self) -> Option<Slot> {
        self.connections.try_charge(1).map(Slot)
    }

    /// Pending permits out in this class: requests whose terminal has not begun to leave (B9).
    #[must_use]
    pub fn pending_in_use(&self, class: RouteClass) -> usize {
        self.pending.pool(class).used()
    }

    /// Task permits out in this class: handlers that have not ended (B9).
    #[must_use]
    pub fn tasks_in_use(&self, class: RouteClass) -> usize {
        self.tasks.pool(class).used()
    }

    /// The most pending permits ever out at once in this class (Z2).
    #[must_use]
    pub fn pending_high_water(&self, class: RouteClass) -> usize {
        self.pending.pool(class).high_water()
    }

    /// The most task permits ever out at once in this class (Z2).
    #[must_use]
    pub fn tasks_high_water(&self, class: RouteClass) -> usize {
        self.tasks.pool(class).high_water()
    }

    /// Connections that are not yet authenticated (A8).
    #[must_use]
    pub fn handshakes_in_use(&self) -> usize {
        self.handshakes.used()
    }

    /// Authenticated connections (A9).
    #[must_use]
    pub fn connections_in_use(&self) -> usize {
        self.connections.used()
    }
}

/// The pending permits of one connection, from each request's dispatch until the first byte of its terminal has been accepted (B9).
/// Drawn one by one, given back together; all of them when it is dropped.
#[derive(Debug)]
pub(super) struct Pending {
    general: Draw,
    reserved: Draw,
}

#[derive(Debug)]
struct Draw {
    charge: Charge,
    /// Of the charge; the rest goes with the next `give_back`.
    used: usize,
}

impl Pending {
    const fn of(&mut self, class: RouteClass) -> &mut Draw {
        match class {
            RouteClass::General => &mut self.general,
            RouteClass::Reserved => &mut self.reserved,
        }
    }

    /// One permit more, if there is one (B6).
    pub(super) fn draw(&mut self, class: RouteClass) -> bool {
        let Draw { charge, used } = self.of(class);
        let drawn = *used < charge.amount() || charge.try_grow(1);
        *used += usize::from(drawn);
        drawn
    }

    /// One permit is not used any more.
    pub(super) const fn release(&mut self, class: RouteClass) {
        let draw = self.of(class);
        draw.used = draw.used.saturating_sub(1);
    }

    /// Those that are not used go back to their pools.
    pub(super) fn give_back(&mut self) {
        for Draw { charge, used } in [&mut self.general, &mut self.reserved] {
            charge.shrink_to(*used);
        }
    }

    /// All of them go back.
    pub(super) fn clear(&mut self) {
        (self.general.used, self.reserved.used) = (0, 0);
        self.give_back();
    }
}

/// A connection's place, before or after authentication; given back when dropped (A8, A9).
#[derive(Debug)]
pub struct Slot(#[expect(dead_code, reason = "held for its drop")] Charge);

/// A handler's right to run. It moves to whoever runs the handler and is dropped when that has really ended, be the connection alive
/// or long gone (B9, X1): running work stays bounded whatever its clients do.
#[derive(Debug)]
pub struct TaskPermit(Arc<Desk>);

/// Where the handlers of one route get their permits.
#[derive(Debug)]
pub(super) struct Desk {
    tasks: Arc<Pool>,
    parking: Parking,
    work: Arc<Work>,
}

impl Desk {
    /// A permit, if there is one (B6).
    pub(super) fn admit(self: &Arc<Self>) -> Option<TaskPermit> {
        if !self.tasks.take(1) {
            return None;
        }
        self.work.begin();
        Some(TaskPermit(Arc::clone(self)))
    }
}

impl Drop for TaskPermit {
    #[inline]
    fn drop(&mut self) {
        self.0.tasks.give_back(1);
        self.0.work.end(); // R3: the channel may be free from here on
    }
}

impl TaskPermit {
    /// Says that the handler is about to wait for something inside the host. The component declared how many of its handlers may (B7).
    /// `None` over that number; the handler then has to give up. Unparked when the guard is dropped.
    #[must_use]
    pub fn park(&self) -> Option<Parked> {
        self.0.parking.park()
    }

    /// Where [`park`](Self::park) finds its places. It may outlive the permit; whoever keeps it asks for a handler that runs.
    #[must_use]
    pub fn parking(&self) -> Parking {
        self.0.parking.clone()
    }
}

/// The parking places of one component (B7).
#[derive(Clone, Debug)]
pub struct Parking(Option<Arc<Pool>>);

impl Parking {
    /// So many places of their own, for handlers without a host.
    #[must_use]
    pub fn of(places: usize) -> Self {
        Self(Some(Pool::new(places)))
    }

    /// One of the places, if one is left.
    #[must_use]
    pub fn park(&self) -> Option<Parked> {
        self.0.as_ref()?.try_charge(1).map(Parked)
    }
}

/// A handler that waits inside the host; dropped when it goes on.
#[derive(Debug)]
pub struct Parked(#[expect(dead_code, reason = "held for its drop")] Charge);

#[cfg(test)]
pub(super) fn test_pending(pool: &Arc<Pool>) -> Pending {
    let none = || Draw { charge: Pool::nothing(pool), used: 0 };
    Pending { general: none(), reserved: none() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Admission {
        let limits = HostLimits {
            pending_requests: 6,
            handler_tasks: 4,
            handshakes: 2,
            connections: 1,
            ..HostLimits::default()
        };
        let one =
            Declaration { reserved_pending: 2, reserved_tasks: 1, parked_tasks: 1, ..Declaration::default() };
        Admission::new(&limits, &[one], &Declaration::sum(&[one], &limits).unwrap())
    }

    #[test]
    fn v48_b7_one_class_never_eats_the_other() {
        let admission = admission();
        let work = Arc::new(Work::default());
        let mut pending = admission.pending();
        let mut drawn =
            |class| core::iter::repeat_with(|| pending.draw(class)).take_while(|drawn| *drawn).count();
        assert_eq!((drawn(RouteClass::Reserved), drawn(RouteClass::General)), (2, 4));
        let [general, reserved] = [RouteClass::General, RouteClass::Reserved]
            .map(|class| admission.desk(class, 0, Arc::clone(&work)));
        let tasks: Vec<_> = core::iter::from_fn(|| general.admit()).take(9).collect();
        assert_eq!(tasks.len(), 3);
        let one = reserved.admit().unwrap();
        assert!(reserved.admit().is_none());
        assert_eq!(
            (admission.pending_in_use(RouteClass::Reserved), admission.tasks_in_use(RouteClass::General)),
            (2, 3)
        );
        drop((pending, tasks, one));
        for class in [RouteClass::General, RouteClass::Reserved] {
            assert_eq!((admission.pending_in_use(class), admission.tasks_in_use(class)), (0, 0));
        }
        assert_eq!(admission.pending_high_water(RouteClass::General), 4);
        assert_eq!(admission.tasks_high_water(RouteClass::Reserved), 1);
        assert_eq!(admission.tasks_high_water(RouteClass::General), 3);
    }

    #[test]
    fn b7_a_component_parks_as_many_handlers_as_it_declared() {
        let admission = admission();
        let desk = |component| admission.desk(RouteClass::General, component, Arc::default());
        let [a, b] = [(); 2].map(|()| desk(0).admit().unwrap());
        let parked = a.park().unwrap();
        assert!(b.park().is_none());
        drop(parked);
        assert!(b.park().is_some());
        assert!(desk(7).admit().unwrap().park().is_none(), "nobody declared it");
        let parking = a.parking();
        drop((a, b));
        let parked = parking.park().unwrap();
        assert!(desk(0).admit().unwrap().park().is_none(), "the same places");
        drop(parked);
        let own = Parking::of(1);
        let parked = own.park();
        assert!(parked.is_some() && own.park().is_none() && parking.park().is_some());
    }

    #[test]
    fn a8_a9_handshakes_and_connections_have_their_own_slots() {
        let admission = admission();
        let slots = [admission.handshake(), admission.handshake()];
        assert!(slots.iter().all(Option::is_some) && admission.handshake().is_none());
        let connection = admission.connection();
        assert!(connection.is_some() && admission.connection().is_none());
        assert_eq!((admission.handshakes_in_use(), admission.connections_in_use()), (2, 1));
        drop(slots);
        assert!(admission.handshake().is_some());
    }
}
