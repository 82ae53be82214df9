//! A connection's task: [`turn`] under a runtime, and how others get its attention.
//!
//! Owns the waiting: one waker per direction, one timer, one signal. An idle connection without a deadline costs no wake-up.

use crate::runtime::Runtime;
use crate::socket::Socket;
use crate::turn::{Link, Seat, Turn, turn};
use atomic_waker::AtomicWaker;
use hostwire_core::time::Instant;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// How the rest of the program gets a connection's task to look again: change the state first, then [`raise`](Signal::raise).
///
/// Raising takes no lock, needs no runtime, and costs a wake-up only once until the task has looked.
#[derive(Debug, Default)]
pub struct Signal {
    raised: AtomicBool,
    waker: AtomicWaker,
}

impl Signal {
    /// Makes the task look again. From any thread, under any lock, during shutdown.
    pub fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Registers the task, then forgets what was raised: what is raised from here on wakes it.
    pub fn listen(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
        self.raised.swap(false, Ordering::AcqRel);
    }
}

/// A timer that follows a deadline which moves often.
///
/// A deadline that moves away leaves the timer where it is: it ends early once, and is set again then. So requests that come and
/// go with the same patience cost no timer each, and an idle connection at most one wake-up after its last request.
pub struct Alarm<R: Runtime> {
    runtime: R,
    armed: Option<(Instant, Pin<Box<R::Sleep>>)>,
}

impl<R: Runtime> Alarm<R> {
    /// No timer yet.
    pub const fn new(runtime: R) -> Self {
        Self { runtime, armed: None }
    }

    /// Ready when `at` has come; pending forever without one. The task is woken then, or a little before for nothing.
    pub fn poll(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> Poll<()> {
        loop {
            match (&mut self.armed, at) {
                (Some((armed, _)), Some(at)) if at < *armed => self.armed = None,
                (Some((_, sleep)), _) => {
                    if sleep.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    self.armed = None;
                }
                (None, Some(at)) if at <= self.runtime.now() => return Poll::Ready(()),
                (None, Some(Instant::FAR_FUTURE) | None) => return Poll::Pending,
                (None, Some(at)) => self.armed = Some((at, Box::pin(self.runtime.sleep_until(at)))),
            }
        }
    }
}

impl<R: Runtime> fmt::Debug for Alarm<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("armed", &self.armed.as_ref().map(|(at, _)| at)).finish_non_exhaustive()
    }
}

/// Turns in one poll of the task, if what they wait for comes at once. One that has spent its budget is the last:
/// others on the thread get their chance before it goes on.
const TURNS: usize = 4;

/// A connection's task, but for its seat.
///
/// Dropping it closes the socket at once and tells the core nothing: whoever owns the core must then end it with
/// `handle_disconnect`, as a task that is dropped with its runtime has to in any case.
pub struct Driver<R: Runtime> {
    runtime: R,
    socket: Socket<R::Io>,
    link: Link,
    alarm: Alarm<R>,
}

impl<R: Runtime> Driver<R> {
    /// Drives a connected socket.
    pub fn new(runtime: R, socket: Socket<R::Io>) -> Self {
        Self { alarm: Alarm::new(runtime.clone()), runtime, socket, link: Link::new() }
    }

    /// Drives until the connection has closed and its events are taken; then the driver can be dropped.
    ///
    /// Cancel safe: it can be polled or not at any time, nothing is lost between polls.
    pub fn poll<S: Seat>(&mut self, cx: &mut Context<'_>, signal: &Signal, seat: &mut S) -> Poll<()> {
        signal.listen(cx);
        for _ in 0..TURNS {
            let wait = match turn(&mut self.link, &self.socket, seat, self.runtime.now()) {
                Turn::Closed => return Poll::Ready(()),
                Turn::Again => break,
                Turn::Wait(wait) => wait,
            };
            let mut ready = false;
            // A runtime that has ended fails here; the call that follows says what that means.
            if wait.read && self.socket.poll_read_ready(cx).is_ready() {
                self.link.readable();
                ready = true;
            }
            if wait.write && self.socket.poll_write_ready(cx).is_ready() {
                self.link.writable();
                ready = true;
            }
            ready |= self.alarm.poll(cx, wait.deadline.map(|deadline| deadline.at)).is_ready();
            if !ready {
                return Poll::Pending;
            }
        }
        self.runtime.give_way(cx);
        Poll::Pending
    }
}

impl<R: Runtime> fmt::Debug for Driver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("link", &self.link).finish_non_exhaustive()
    }
}
