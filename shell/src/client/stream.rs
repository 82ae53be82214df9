//! A streamed answer under way.

use super::attempts::Attempts;
use super::call::{Canceller, failure, routed};
use super::request::Request;
use super::result::{CallError, StreamEnd};
use super::route::Route;
use super::slot::Finished;
use futures_core::Stream;
use hostwire_core::client::{Item, StreamPoll};
use hostwire_core::outcome::{Outcome, Terminal};
use std::fmt;
use std::pin::Pin;
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
/// **Retries** as for a [`Call`](super::Call), as long as no item has been handed over.
#[must_use = "dropping a stream cancels it"]
pub struct ResponseStream {
    attempts: Attempts,
    state: State,
}

enum State {
    Reading,
    /// The end.
    Ended(Option<StreamEnd>),
}

impl ResponseStream {
    pub(super) fn new(route: Route, request: Request) -> Self {
        Self { attempts: routed(route, request, true), state: State::Reading }
    }

    /// Polls for the next item: see [`ResponseStream`].
    pub fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Item, CallError>>> {
        loop {
            if let State::Ended(_) = self.state {
                return Poll::Ready(None); // B062
            }
            match self.attempts.poll_item(cx) {
                StreamPoll::Item(item) => return Poll::Ready(Some(Ok(item))),
                StreamPoll::Pending => return Poll::Pending,
                StreamPoll::Ended => {}
            }
            // All that had come is read: what is left is the end, or another attempt.
            let finished = match self.attempts.poll_end(cx) {
                Poll::Ready(Some(finished)) => finished,
                Poll::Ready(None) => continue,
                Poll::Pending => return Poll::Pending,
            };
            let Finished { outcome, evidence, .. } = finished;
            if let Outcome::Terminal(Terminal::StreamEnd { items }) = outcome {
                self.state = State::Ended(Some(StreamEnd { items, evidence }));
                return Poll::Ready(None);
            }
            self.state = State::Ended(None);
            return Poll::Ready(Some(Err(failure(outcome, evidence))));
        }
    }

    /// The next item: see [`ResponseStream`]. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Item, CallError>> {
        std::future::poll_fn(|cx| self.poll_item(cx)).await
    }

    /// How it ended: `None` before the end, `Some(None)` if the error that it yielded was the end, and its clean end otherwise.
    #[must_use]
    pub const fn outcome(&self) -> Option<Option<StreamEnd>> {
        match self.state {
            State::Reading => None,
            State::Ended(end) => Some(end),
        }
    }

    /// Stops it now. Items that have arrived stay readable, in order, before the end is reported (B5).
    pub fn cancel(&self) {
        self.attempts.stop().cancel();
    }

    /// Asks the host to stop it, and waits for proof for at most `time` (X4).
    pub fn cancel_confirmed(&self, time: Duration) {
        self.attempts.stop().cancel_confirmed(time);
    }

    /// A handle that stops it from elsewhere.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller::new(self.attempts.stop().clone())
    }
}

impl Stream for ResponseStream {
    type Item = Result<Item, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(cx)
    }
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream").field("outcome", &self.outcome()).finish_non_exhaustive()
    }
}
