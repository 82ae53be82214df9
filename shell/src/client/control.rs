//! Control operations under way: opening a route, the catalog, the host's shutdown.

use super::attempts::{Attempts, Operation, What};
use super::call::failure;
use super::handle::Client;
use super::result::{CallError, Evidence};
use super::route::Route;
use super::slot::Finished;
use hostwire_core::body::Body;
use hostwire_core::client::CatalogFilter;
use hostwire_core::control::{CatalogReply, RouteOpen};
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A `route.open` under way: a future of the route.
///
/// **Cancel safety.** Polling it, or not, loses nothing.
///
/// **Drop.** Dropping it gives the route up: what has not begun to leave never leaves; a route that the host opens all the same is
/// closed at once (R8). Takes no lock, waits for nothing, works anywhere.
#[must_use = "dropping it gives the route up"]
#[derive(Debug)]
pub struct Opening {
    open: RouteOpen,
    call: ControlCall<()>,
}

impl Opening {
    pub(super) fn new(client: &Client, open: RouteOpen, deadline: Instant) -> Self {
        let call = ControlCall::new(client, Operation::Open(Box::new(open.clone())), deadline, |_, _| Ok(()));
        Self { open, call }
    }
}

impl Future for Opening {
    type Output = Result<Route, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready((client, finished)) = self.call.poll_finished(cx) else { return Poll::Pending };
        let Finished { outcome, evidence, route } = finished;
        Poll::Ready(match route {
            Some(guard) => Ok(Route::new(client, self.open.clone(), guard)),
            None => Err(failure(outcome, evidence)),
        })
    }
}

/// A control request under way: a future of its answer.
///
/// **Cancel safety.** Polling it, or not, loses nothing.
///
/// **Drop.** Dropping it gives the answer up: what has not begun to leave never leaves; what has may be carried out. Takes no lock, waits
/// for nothing, works anywhere.
#[must_use = "dropping it gives the answer up"]
pub struct ControlCall<T> {
    /// Until it has its result: from then on it keeps nothing alive.
    client: Option<Client>,
    attempts: Attempts,
    read: fn(Outcome, Evidence) -> Result<T, CallError>,
}

impl ControlCall<CatalogReply> {
    pub(super) fn catalog(client: &Client, filter: CatalogFilter, deadline: Instant) -> Self {
        Self::new(client, Operation::Catalog(filter), deadline, |outcome, evidence| {
            if let Outcome::Terminal(Terminal::Catalog(catalog)) = outcome {
                Ok(catalog)
            } else {
                Err(failure(outcome, evidence))
            }
        })
    }
}

impl ControlCall<Evidence> {
    pub(super) fn shutdown(client: &Client, deadline: Instant) -> Self {
        let last = client.managed().current();
        Self::new(client, Operation::Shutdown(last), deadline, |outcome, evidence| {
            if let Outcome::Terminal(Terminal::ShutdownCommitted) = outcome {
                Ok(evidence)
            } else {
                Err(failure(outcome, evidence))
            }
        })
    }
}

impl<T> ControlCall<T> {
    fn new(
        client: &Client,
        operation: Operation,
        deadline: Instant,
        read: fn(Outcome, Evidence) -> Result<T, CallError>,
    ) -> Self {
        let what = What::Control(Arc::clone(client.managed()), operation);
        let attempts = Attempts::new(what, Body::default(), client.managed().now(), deadline);
        Self { client: Some(client.clone()), attempts, read }
    }

    fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<(Client, Finished)> {
        if self.client.is_none() {
            return Poll::Pending;
        }
        let Poll::Ready(finished) = self.attempts.poll(cx) else { return Poll::Pending };
        self.client.take().map_or(Poll::Pending, |client| Poll::Ready((client, finished)))
    }
}

impl<T> Future for ControlCall<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready((_, Finished { outcome, evidence, .. })) = self.poll_finished(cx) else {
            return Poll::Pending;
        };
        Poll::Ready((self.read)(outcome, evidence))
    }
}

impl<T> fmt::Debug for ControlCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlCall").field("done", &self.client.is_none()).finish_non_exhaustive()
    }
}
