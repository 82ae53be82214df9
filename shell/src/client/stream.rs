//! A streamed answer under way.

use super::call::{Canceller, failure};
use super::request::Request;
use super::result::{CallError, StreamEnd};
use super::route::Route;
use super::shared::Ticket;
use super::slot::Finished;
use futures_core::Stream;
use hostwire_core::client::{self as core, Item, StreamPoll};
use hostwire_core::outcome::{Outcome, Terminal};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The items of a streamed answer, in order and without gaps.
///
/// It yields each item as `Ok`, then an `Err` unless the stream ended cleanly, then `None`. So a stream that was cut never looks
/// whole; [`ResponseStream::outcome`] says at the end which it was. Unread items wait in the client, on a budget: at the default a 17th
/// unread one ends the stream with `stream_saturated` behind what was there (B4).
///
/// **Cancel safety.** Polling for the next item, or not, loses nothing.
///
/// **Drop.** Dropping it cancels the request, as for a [`Call`](super::Call), and frees its unread items at once (B5). Dropping
/// takes no lock, waits for nothing, and works outside a runtime and on any thread.
#[must_use = "dropping a stream cancels it"]
pub struct ResponseStream {
    /// Until its end: from then on it keeps nothing alive.
    route: Option<Route>,
    ticket: Ticket,
    state: State,
}

enum State {
    /// The core may have items.
    Reading,
    /// All items are read, the result is not there yet.
    Read,
    /// The end.
    Ended(Option<StreamEnd>),
}

impl ResponseStream {
    pub(super) fn new(route: Route, request: Request) -> Self {
        let Request { body, binary, priority, patience } = request;
        let (handle, default) = (route.handle(), route.client().timeouts().request);
        let ticket = route.shared().submit(true, |conn, now| {
            let deadline = patience.deadline(now, default);
            conn.request(now, handle, core::Request { body, binary, priority, stream: true, deadline })
        });
        Self { route: Some(route), ticket, state: State::Reading }
    }

    /// Polls for the next item: see [`ResponseStream`].
    pub fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Item, CallError>>> {
        if let State::Reading = self.state {
            let (Some(op), Some(route)) = (self.ticket.op, &self.route) else {
                self.state = State::Read;
                return self.poll_end(cx);
            };
            self.ticket.slot.listen(cx);
            match route.shared().take_item(op) {
                StreamPoll::Item(item) => return Poll::Ready(Some(Ok(item))),
                StreamPoll::Pending => return Poll::Pending,
                StreamPoll::Ended => self.state = State::Read,
            }
        }
        self.poll_end(cx)
    }

    fn poll_end(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Item, CallError>>> {
        if let State::Ended(_) = self.state {
            return Poll::Ready(None); // B062
        }
        let Poll::Ready(Finished { outcome, evidence, .. }) = self.ticket.slot.poll(cx) else {
            return Poll::Pending;
        };
        if let Outcome::Terminal(Terminal::StreamEnd { items }) = outcome {
            self.state = State::Ended(Some(StreamEnd { items, evidence }));
            return Poll::Ready(None);
        }
        self.state = State::Ended(None);
        Poll::Ready(Some(Err(failure(outcome, evidence))))
    }

    /// The next item: see [`ResponseStream`]. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Item, CallError>> {
        std::future::poll_fn(|cx| self.poll_item(cx)).await
    }

    /// How it ended: `None` before the end, `Some(None)` if the error that it yielded was the end, and its clean end otherwise.
    #[must_use]
    pub const fn outcome(&self) -> Option<Option<StreamEnd>> {
        match self.state {
            State::Reading | State::Read => None,
            State::Ended(end) => Some(end),
        }
    }

    /// Stops it now. Items that have arrived stay readable, in order, before the end is reported (B5).
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// Asks the host to stop it, and waits for proof for at most `time` (X4).
    pub fn cancel_confirmed(&self, time: Duration) {
        self.canceller().cancel_confirmed(time);
    }

    /// A handle that stops it from elsewhere.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller::new(
            self.route.as_ref().and_then(|route| Some((Arc::clone(route.shared()), self.ticket.op?))),
        )
    }
}

impl Stream for ResponseStream {
    type Item = Result<Item, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(cx)
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        if let (State::Reading, Some(route), Some(_)) = (&self.state, &self.route, self.ticket.op) {
            route.shared().abandon(&self.ticket.slot);
        }
    }
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream")
            .field("route", &self.route)
            .field("outcome", &self.outcome())
            .finish_non_exhaustive()
    }
}
