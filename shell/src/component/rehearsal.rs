//! A request without a host, to test a component by itself.
//!
//! Owns a make-believe connection: a bounded output that the test empties, and a cancel that the test pulls. It opens no socket and
//! needs no runtime.

use super::context::{Link, RequestContext, RouteInfo, SendError, TrySend};
use super::slot::{Slot, Standing};
use super::timer::Timer;
use super::{BindContext, ErrorReply, Handled, Reply};
use hostwire_core::body::Body;
use hostwire_core::budget::{Charge, Pool};
use hostwire_core::control::RouteOpen;
use hostwire_core::host::{Parking, RequestId};
use hostwire_core::wire::{Priority, RouteHandle};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct Output {
    items: VecDeque<(bool, Body)>,
    ended: bool,
    waiting: Vec<Arc<Slot>>,
}

struct Stage {
    output: Mutex<Output>,
    room: usize,
    egress: Arc<Pool>,
    scratch: Arc<Pool>,
}

impl Stage {
    fn with<T>(&self, f: impl FnOnce(&mut Output) -> T) -> T {
        f(&mut self.output.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Link for Stage {
    fn try_send(&self, _: Option<RequestId>, binary: bool, item: Body) -> TrySend {
        self.with(|output| {
            if output.ended {
                TrySend::Refused(SendError::Ended)
            } else if output.items.len() >= self.room {
                TrySend::Full(item)
            } else {
                output.items.push_back((binary, item));
                TrySend::Queued
            }
        })
    }

    fn wait_for_room(&self, slot: &Arc<Slot>) {
        self.with(|output| output.waiting.push(Arc::clone(slot)));
    }

    fn charge_egress(&self, bytes: usize) -> Option<Charge> {
        self.egress.try_charge(bytes)
    }

    fn charge_scratch(&self, bytes: usize) -> Option<Charge> {
        self.scratch.try_charge(bytes)
    }
}

/// A route without a host.
///
/// Dropping it ends nothing: contexts made from it go on.
#[derive(Clone)]
pub struct Rehearsal {
    route: Arc<RouteInfo>,
    stage: Arc<Stage>,
    parking: Parking,
}

impl Rehearsal {
    /// A route as `open` asks for it, with room for `room` unread items, `bytes` of output space and as many of scratch, and
    /// `parked` places for parked tasks.
    #[must_use]
    pub fn new(open: RouteOpen, timer: Timer, room: usize, bytes: usize, parked: usize) -> Self {
        let stage = Arc::new(Stage {
            output: Mutex::default(),
            room,
            egress: Pool::new(bytes),
            scratch: Pool::new(bytes),
        });
        let handle = RouteHandle {
            channel: hostwire_core::wire::Channel::FIRST,
            epoch: hostwire_core::wire::Epoch::FIRST,
        };
        let route = Arc::new(RouteInfo { handle, open, timer });
        Self { route, stage, parking: Parking::of(parked) }
    }

    /// The context of the route's bind.
    #[must_use]
    pub fn bind(&self) -> BindContext {
        BindContext { route: Arc::clone(&self.route) }
    }

    /// The route.
    #[must_use]
    pub fn route(&self) -> Arc<RouteInfo> {
        Arc::clone(&self.route)
    }

    /// The context of a request, and the end that the test holds.
    #[must_use]
    pub fn request(&self, binary: bool, body: impl Into<Body>) -> (RequestContext, Cue) {
        let slot = Arc::new(Slot::new(
            None,
            self.parking.clone(),
            Arc::clone(&self.route),
            Arc::clone(&self.stage) as _,
        ));
        let cx = RequestContext {
            slot: Arc::clone(&slot),
            binary,
            priority: Priority::default(),
            body: body.into(),
        };
        (cx, Cue { slot, stage: Arc::clone(&self.stage) })
    }
}

impl fmt::Debug for Rehearsal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rehearsal").field("route", &self.route).finish_non_exhaustive()
    }
}

/// The far end of a rehearsed request.
pub struct Cue {
    slot: Arc<Slot>,
    stage: Arc<Stage>,
}

/// What one step of a rehearsed handler came to.
#[derive(Debug)]
pub enum Step {
    /// It waits for something.
    Waiting,
    /// It was cancelled, did not ask to be told, and is gone.
    Dropped,
    /// It answered.
    Replied(Reply),
    /// Its stream ended.
    StreamEnded(Result<(), ErrorReply>),
    /// It panicked; a client would get `internal_error`.
    Panicked,
}

impl Cue {
    /// Cancels the request.
    pub fn cancel(&self) {
        self.slot.cancel();
    }

    /// Ends the grace of a handler that asked to be told.
    pub fn stop(&self) {
        self.slot.stop();
    }

    /// Takes the oldest unread item: its binary bit and its bytes.
    #[must_use]
    pub fn take_item(&self) -> Option<(bool, Vec<u8>)> {
        let (item, waiting) =
            self.stage.with(|output| (output.items.pop_front(), std::mem::take(&mut output.waiting)));
        waiting.iter().for_each(|slot| slot.room());
        item.map(|(binary, body)| (binary, body.into_vec()))
    }

    /// The connection is lost: nothing can be sent any more.
    pub fn lose(&self) {
        self.stage.with(|output| output.ended = true);
        self.slot.cancel();
    }

    /// Runs a handler one step, exactly as a host would: a cancelled one is dropped instead, a panic is contained.
    pub fn step(&self, handled: &mut Handled) -> Step {
        let waker = Waker::noop();
        if self.slot.poll_stop(waker) == Standing::Stop {
            let over = std::mem::replace(handled, Handled::Ready(Reply::text(Vec::new())));
            drop(over);
            return Step::Dropped;
        }
        match handled {
            Handled::Ready(reply) => Step::Replied(std::mem::replace(reply, Reply::text(Vec::new()))),
            Handled::Future(future) => poll(future).map_or(Step::Panicked, |polled| match polled {
                Poll::Pending => Step::Waiting,
                Poll::Ready(reply) => Step::Replied(reply),
            }),
            Handled::Stream(future) => poll(future).map_or(Step::Panicked, |polled| match polled {
                Poll::Pending => Step::Waiting,
                Poll::Ready(end) => Step::StreamEnded(end),
            }),
        }
    }
}

fn poll<T: Send + 'static>(future: &mut super::BoxFuture<'static, T>) -> Option<Poll<T>> {
    super::contain(|| future.as_mut().poll(&mut Context::from_waker(Waker::noop()))).ok()
}
