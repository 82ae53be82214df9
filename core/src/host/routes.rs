//! The live routes of one connection, by channel.
//!
//! A route is here exactly while requests on it may be dispatched: mid-bind and closing ones are not, so requests on them are on an
//! unknown channel (R5, R6). Who holds a channel, and until when, is the registry's to say.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::size_of;

use super::admission::Desk;
use crate::control::RouteClass;
use crate::wire::RouteHandle;

#[derive(Debug)]
pub(super) struct Route {
    pub(super) handle: RouteHandle,
    pub(super) component: usize,
    /// Fixed at bind (B7).
    pub(super) class: RouteClass,
    pub(super) desk: Arc<Desk>,
}

impl Route {
    /// Bytes of a row, and of its desk.
    pub(super) const BYTES: usize = size_of::<Self>() + size_of::<Desk>() + 2 * size_of::<usize>();
}

/// Sorted by handle: looked up for every request, changed only when a route opens or ends.
#[derive(Debug, Default)]
pub(super) struct Routes(Vec<Route>);

impl Routes {
    /// R5: the whole handle; the right channel at another epoch is nobody's.
    pub(super) fn get(&self, handle: RouteHandle) -> Option<&Route> {
        self.place(handle).ok().and_then(|place| self.0.get(place))
    }

    pub(super) fn insert(&mut self, route: Route) {
        match self.place(route.handle) {
            Ok(_) => debug_assert!(false, "the registry gave one route twice"),
            Err(place) => self.0.insert(place, route),
        }
    }

    pub(super) fn remove(&mut self, handle: RouteHandle) -> Option<Route> {
        self.place(handle).ok().map(|place| self.0.remove(place))
    }

    pub(super) fn take_all(&mut self) -> Vec<Route> {
        core::mem::take(&mut self.0)
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = RouteHandle> + '_ {
        self.0.iter().map(|route| route.handle)
    }

    fn place(&self, handle: RouteHandle) -> Result<usize, usize> {
        self.0.binary_search_by_key(&handle, |route| route.handle)
    }
}
