//! A handler that was not ready at once: one task.
//!
//! Owns the handler's future and its end. Invariant: whatever ends it (an answer, a panic, a stop, a runtime that drops the task), the
//! permit is freed first, then the connection is told, then the route; each exactly once (B9, B081).

use super::conn::{Answer, Conn};
use super::hub::Hold;
use super::route::Route;
use crate::component::{BoxFuture, Contained, ErrorReply, Reply, Slot, Standing};
use crate::runtime::Runtime;
use crate::trace::Span;
use hostwire_core::host::TaskPermit;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The future that a handler returned.
pub(super) enum Work {
    Unary(Contained<Reply>),
    Stream(Contained<Result<(), ErrorReply>>),
}

impl Work {
    pub(super) fn unary(future: BoxFuture<'static, Reply>) -> Self {
        Self::Unary(Contained::new(future))
    }

    pub(super) fn stream(future: BoxFuture<'static, Result<(), ErrorReply>>) -> Self {
        Self::Stream(Contained::new(future))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        match self {
            Self::Unary(future) => Pin::new(future).poll(cx).map(|ended| match ended {
                Ok(reply) => Answer::Reply(reply),
                Err(_) => Answer::Panicked,
            }),
            Self::Stream(future) => Pin::new(future).poll(cx).map(|ended| match ended {
                Ok(Ok(())) => Answer::StreamEnd,
                Ok(Err(error)) => Answer::Reply(Reply::Error(error)),
                Err(_) => Answer::Panicked,
            }),
        }
    }

    /// Drops the future. A destructor that panics has still ended it.
    fn stop(&mut self) -> Answer {
        let stopped = match self {
            Self::Unary(future) => future.stop(),
            Self::Stream(future) => future.stop(),
        };
        stopped.map_or(Answer::Panicked, |()| Answer::Stopped)
    }
}

/// The task.
pub(super) struct Handler<R: Runtime> {
    work: Work,
    slot: Arc<Slot>,
    permit: Option<TaskPermit>,
    route: Arc<Route>,
    conn: Arc<Conn<R>>,
    /// From when it was told of its cancel.
    grace: Option<Pin<Box<R::Sleep>>>,
    ended: bool,
    span: Span,
    /// Dropped last.
    hold: Hold<R>,
}

impl<R: Runtime> Handler<R> {
    pub(super) fn new(
        work: Work,
        slot: Arc<Slot>,
        permit: TaskPermit,
        route: Arc<Route>,
        conn: Arc<Conn<R>>,
        hold: Hold<R>,
        span: Span,
    ) -> Self {
        route.begin();
        hold.hub().begin_work();
        Self { work, slot, permit: Some(permit), route, conn, grace: None, ended: false, span, hold }
    }

    fn end(&mut self, answer: Answer) {
        self.ended = true;
        self.conn.say(&self.span, &self.route.module_id, &answer);
        self.slot.ended();
        self.permit = None; // B9
        if let Some(id) = self.slot.request() {
            self.conn.ended(id, answer);
        }
        self.route.end();
        self.hold.hub().end_work();
    }
}

impl<R: Runtime> Future for Handler<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(());
        }
        let mut standing = this.slot.poll_stop(cx.waker());
        if standing == Standing::Told {
            let hub = this.hold.hub();
            let grace = this.grace.get_or_insert_with(|| {
                Box::pin(hub.runtime.sleep_until(hub.now() + hub.timeouts.route_close)) // X1
            });
            if grace.as_mut().poll(cx).is_ready() {
                standing = Standing::Stop;
            }
        }
        let Self { span, work, .. } = this;
        let answer = span.run(|| match standing {
            Standing::Stop => Poll::Ready(work.stop()), // X1: a visible cancel beats a completion of the same instant
            Standing::Run | Standing::Told => work.poll(cx),
        });
        answer.map(|answer| this.end(answer))
    }
}

impl<R: Runtime> Drop for Handler<R> {
    fn drop(&mut self) {
        // The runtime drops the task: the handler stops here.
        if !self.ended {
            let answer = self.work.stop();
            self.end(answer);
        }
    }
}
