//! Control operations under way: opening a route, the catalog, the host's shutdown.

use super::call::failure;
use super::handle::Client;
use super::result::{CallError, Evidence};
use super::route::Route;
use super::shared::Ticket;
use super::slot::Finished;
use hostwire_core::control::CatalogReply;
use hostwire_core::outcome::{Outcome, Terminal};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
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
    call: ControlCall<()>,
}

impl Opening {
    pub(super) const fn new(client: Client, ticket: Ticket) -> Self {
        Self { call: ControlCall { client, ticket, done: false, read: |_, _| Ok(()) } }
    }
}

impl Future for Opening {
    type Output = Result<Route, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(finished) = self.call.poll_finished(cx) else { return Poll::Pending };
        let Finished { outcome, evidence, route } = finished;
        Poll::Ready(match route {
            Some(guard) => Ok(Route::new(self.call.client.clone(), guard)),
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
    client: Client,
    ticket: Ticket,
    done: bool,
    read: fn(Outcome, Evidence) -> Result<T, CallError>,
}

impl ControlCall<CatalogReply> {
    pub(super) const fn catalog(client: Client, ticket: Ticket) -> Self {
        Self {
            client,
            ticket,
            done: false,
            read: |outcome, evidence| {
                if let Outcome::Terminal(Terminal::Catalog(catalog)) = outcome {
                    Ok(catalog)
                } else {
                    Err(failure(outcome, evidence))
                }
            },
        }
    }
}

impl ControlCall<Evidence> {
    pub(super) const fn shutdown(client: Client, ticket: Ticket) -> Self {
        Self {
            client,
            ticket,
            done: false,
            read: |outcome, evidence| {
                if let Outcome::Terminal(Terminal::ShutdownCommitted) = outcome {
                    Ok(evidence)
                } else {
                    Err(failure(outcome, evidence))
                }
            },
        }
    }
}

impl<T> ControlCall<T> {
    fn poll_finished(&mut self, cx: &Context<'_>) -> Poll<Finished> {
        if self.done {
            return Poll::Pending;
        }
        let polled = self.ticket.slot.poll(cx);
        self.done = polled.is_ready();
        polled
    }
}

impl<T> Future for ControlCall<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(Finished { outcome, evidence, .. }) = self.poll_finished(cx) else {
            return Poll::Pending;
        };
        Poll::Ready((self.read)(outcome, evidence))
    }
}

impl<T> Drop for ControlCall<T> {
    fn drop(&mut self) {
        if !self.done && self.ticket.op.is_some() {
            self.client.shared().abandon(&self.ticket.slot);
        }
    }
}

impl<T> fmt::Debug for ControlCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlCall").field("done", &self.done).finish_non_exhaustive()
    }
}
