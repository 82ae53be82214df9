//! What components declare before they are initialized, and whether the limits carry it (B7, V49).

use super::resident::Split;
use crate::limits::HostLimits;

/// A component's needs, stated before initialization (B7). The class of its routes stands in its [`Manifest`](crate::control::Manifest).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// Pending requests that the reserved class gets for this component.
    pub reserved_pending: usize,
    /// Handler tasks that the reserved class gets for this component.
    pub reserved_tasks: usize,
    /// Bytes that the component itself retains, taken from `resident_bytes`.
    pub resident_bytes: usize,
    /// General handlers of it that may wait inside the host at once, each keeping its task permit.
    pub parked_tasks: usize,
}

/// A bound that the declarations exceed: the host refuses to start (V49).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the components' declarations exceed {bound}")]
pub struct BoundViolation {
    /// The limit's name, as `HostLimits` spells it.
    pub bound: &'static str,
}

/// What is left for the general class, and what the reserved class has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) general_pending: usize,
    pub(super) reserved_pending: usize,
    pub(super) general_tasks: usize,
    pub(super) reserved_tasks: usize,
    pub(super) resident: Split,
}

impl Declaration {
    /// B7: sums with overflow checks; at least one general pending slot, one general task slot that nobody may hold parked, and one
    /// largest ingress body remain.
    pub(super) fn sum(all: &[Self], limits: &HostLimits) -> Result<Sums, BoundViolation> {
        let total = |bound: &'static str, each: fn(&Self) -> usize| {
            all.iter()
                .try_fold(0_usize, |sum, one| sum.checked_add(each(one)))
                .ok_or(BoundViolation { bound })
        };
        let reserved_pending = total("pending_requests", |one| one.reserved_pending)?;
        let reserved_tasks = total("handler_tasks", |one| one.reserved_tasks)?;
        let parked = total("handler_tasks", |one| one.parked_tasks)?;
        let retained = total("resident_bytes", |one| one.resident_bytes)?;
        let left = |bound: &'static str, limit: usize, taken: usize| {
            limit.checked_sub(taken).filter(|left| *left > 0).ok_or(BoundViolation { bound })
        };
        // B7: something is left for everybody else.
        let general_pending = left("pending_requests", limits.pending_requests, reserved_pending)?;
        let general_tasks = left("handler_tasks", limits.handler_tasks, reserved_tasks)?;
        left("handler_tasks", general_tasks, parked)?;
        let resident = left("resident_bytes", limits.resident_bytes, retained)?;
        let resident = Split::of(resident).ok_or(BoundViolation { bound: "resident_bytes" })?;
        Ok(Sums { general_pending, reserved_pending, general_tasks, reserved_tasks, resident })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> HostLimits {
        HostLimits::default()
    }

    fn sum(all: &[Declaration]) -> Result<Sums, &'static str> {
        Declaration::sum(all, &limits()).map_err(|e| e.bound)
    }

    #[test]
    fn b7_what_components_reserve_is_taken_from_the_general_class() {
        let one =
            Declaration { reserved_pending: 4, reserved_tasks: 2, parked_tasks: 3, ..Declaration::default() };
        let sums = sum(&[one, Declaration::default(), one]).unwrap();
        assert_eq!((sums.general_pending, sums.reserved_pending), (1_016, 8));
        assert_eq!((sums.general_tasks, sums.reserved_tasks), (252, 4));
    }

    #[test]
    fn v49_one_over_each_bound_is_refused_and_the_bound_is_named() {
        let d = Declaration::default;
        let most = Declaration { reserved_pending: 1_023, reserved_tasks: 200, parked_tasks: 55, ..d() };
        assert!(sum(&[most]).is_ok());
        assert_eq!(sum(&[most, Declaration { reserved_pending: 1, ..d() }]), Err("pending_requests"));
        assert_eq!(sum(&[most, Declaration { reserved_tasks: 1, ..d() }]), Err("handler_tasks"));
        assert_eq!(sum(&[most, Declaration { parked_tasks: 1, ..d() }]), Err("handler_tasks"));
        let room = limits().resident_bytes - Split::LEAST;
        assert!(sum(&[Declaration { resident_bytes: room, ..d() }]).is_ok());
        assert_eq!(sum(&[Declaration { resident_bytes: room + 1, ..d() }]), Err("resident_bytes"));
    }

    #[test]
    fn v49_sums_that_overflow_are_refused() {
        let d = Declaration::default;
        let twice = |one: Declaration| sum(&[one, one]);
        assert_eq!(twice(Declaration { reserved_pending: usize::MAX, ..d() }), Err("pending_requests"));
        assert_eq!(twice(Declaration { reserved_tasks: usize::MAX, ..d() }), Err("handler_tasks"));
        assert_eq!(twice(Declaration { parked_tasks: usize::MAX, ..d() }), Err("handler_tasks"));
        assert_eq!(twice(Declaration { resident_bytes: usize::MAX, ..d() }), Err("resident_bytes"));
    }
}
