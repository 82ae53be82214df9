//! What the embedder says: answers to requests and binds, and the steps of a drain.
//!
//! Invariant: an answer that comes too late changes nothing and is counted; whatever a handler says, the wire sees one terminal that
//! the protocol allows (F5, Q5, B11).

use super::connection::Connection;
use super::end::End;
use super::event::{Event, ItemRefusal, ItemRefused, StopReason, TooLate};
use super::latch::Begin;
use super::output::What;
use super::registry::RouteGrant;
use super::requests::{Act, Input, RequestId, State};
use super::routes::Route;
use crate::body::Body;
use crate::control::{ErrorBody, HostCode, SHUTDOWN_BODY, encode_route_opened};
use crate::time::Instant;
use crate::wire::{FrameType, Identity, MAX_BODY, RouteHandle};

impl Connection {
    /// Installs a route that the registry published, then answers its requester (R1).
    ///
    /// # Errors
    /// [`TooLate`]: the connection is gone, or the request has its terminal. Close the route in the registry; nothing was published.
    pub fn accept_route(&mut self, now: Instant, id: RequestId, grant: RouteGrant) -> Result<(), TooLate> {
        let now = self.clock.observe(now);
        let Some(entry) = self.requests.get_mut(id) else { return Err(self.too_late()) };
        let (Some(component), class) = (entry.opening, entry.class) else { return Err(self.too_late()) };
        if entry.step(Input::Respond) != Act::Response {
            return Err(self.too_late());
        }
        let RouteGrant { handle, work } = grant;
        // R1: installed first, then answered: the client's next frame may use it.
        let desk = self.shared.admission.desk(class, component, work);
        self.routes.insert(Route { handle, component, class, desk });
        self.counters.routes += 1;
        self.counters.settled.response += 1;
        self.terminal(now, id, FrameType::Response, false, encode_route_opened(handle).into());
        Ok(())
    }

    /// Answers a `route.open` with an error: a rejected or overrun bind (R2), or no channel (R3). Any well-formed code goes (B11).
    ///
    /// # Errors
    /// [`TooLate`]; there is nothing more to do then.
    pub fn reject_route(&mut self, now: Instant, id: RequestId, error: &ErrorBody) -> Result<(), TooLate> {
        let now = self.clock.observe(now);
        let Some(entry) = self.requests.get_mut(id) else { return Err(self.too_late()) };
        if entry.opening.is_none() || entry.step(Input::Fail) != Act::Error {
            return Err(self.too_late());
        }
        self.error(now, id, error);
        Ok(())
    }

    /// A handler's unary answer; it has ended. After an item, or over 64 MiB, the client gets `internal_error`; after its `Cancel`,
    /// `cancelled` (X1).
    ///
    /// A body that no charge covers is charged to the connection's share of the egress pool; when that is full, the client gets
    /// `internal_error`. Reserving before writing avoids it (B8).
    ///
    /// # Errors
    /// [`TooLate`]: it has its terminal, or nobody is there any more. Nothing is sent.
    pub fn respond(&mut self, now: Instant, id: RequestId, binary: bool, body: Body) -> Result<(), TooLate> {
        let now = self.clock.observe(now);
        let (act, identity) = self.step_routed(id, Input::Respond)?;
        if act != Act::Response {
            self.say(now, id, act);
            return Ok(());
        }
        match self.charged(body) {
            Ok(body) => {
                self.counters.settled.response += 1;
                self.push(now, identity, FrameType::Response, binary, body, What::Terminal(id));
            }
            Err(_) => self.say(now, id, Act::Internal),
        }
        Ok(())
    }

    /// A handler's error; it has ended. Codes that prove that nothing ran become `internal_error`, and so does a code or message over
    /// the configured limits (B11, §14).
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn fail(&mut self, now: Instant, id: RequestId, error: &ErrorBody) -> Result<(), TooLate> {
        let now = self.clock.observe(now);
        let (act, _) = self.step_routed(id, Input::Fail)?;
        if act != Act::Error {
            self.say(now, id, act);
        } else if error.host_code().is_some_and(HostCode::proves_no_dispatch) {
            self.say(now, id, Act::Internal); // B11
        } else {
            self.error(now, id, error);
        }
        Ok(())
    }

    /// A handler that found its component's parking places taken and has given up before it did anything (B7): the client gets
    /// `server_busy`. No handler says that by itself (B11).
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn busy(&mut self, now: Instant, id: RequestId) -> Result<(), TooLate> {
        let now = self.clock.observe(now);
        let (act, _) = self.step_routed(id, Input::Fail)?;
        if act == Act::Error {
            self.error(now, id, &HostCode::ServerBusy.into());
        } else {
            self.say(now, id, act);
        }
        Ok(())
    }

    /// An item of a stream.
    ///
    /// # Errors
    /// [`ItemRefused`] gives the body back. [`ItemRefusal::Full`]: try again after [`Event::Room`](super::Event::Room). Any other refusal
    /// is the stream's end: what came before it is never followed by a clean end, for there would be a gap (B061).
    pub fn item(&mut self, now: Instant, id: RequestId, binary: bool, body: Body) -> Result<(), ItemRefused> {
        let now = self.clock.observe(now);
        let Some(entry) = self.requests.get_mut(id).filter(|entry| entry.route.is_some()) else {
            return Err(ItemRefused { why: ItemRefusal::Stopped, body });
        };
        let identity = entry.identity();
        if !matches!(entry.state, State::Running { .. }) {
            entry.step(Input::Item);
            return Err(ItemRefused { why: ItemRefusal::Stopped, body }); // B083
        }
        if self.items >= self.shared.limits.writer_frames {
            self.room_wanted = true;
            return Err(ItemRefused { why: ItemRefusal::Full, body }); // B095
        }
        let too_large = body.len() > MAX_BODY as usize; // W7
        let body = match self.charged(body) {
            Ok(body) => body,
            // A frame of ours that leaves makes room again.
            Err(body) if !too_large && !self.outbox.is_empty() => {
                self.room_wanted = true;
                return Err(ItemRefused { why: ItemRefusal::Full, body });
            }
            Err(body) => {
                self.drive(now, id, Input::Stopped, StopReason::Cancelled);
                let why = if too_large { ItemRefusal::TooLarge } else { ItemRefusal::NoMemory };
                return Err(ItemRefused { why, body });
            }
        };
        if let Some(entry) = self.requests.get_mut(id) {
            entry.step(Input::Item);
        }
        self.items += 1;
        self.push(now, identity, FrameType::StreamData, binary, body, What::Item);
        Ok(())
    }

    /// The clean end of a stream; its handler has ended.
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn end_stream(&mut self, now: Instant, id: RequestId) -> Result<(), TooLate> {
        self.settle(now, id, Input::End)
    }

    /// The handler has ended and said nothing more: stopped and joined, so that `cancelled` may go out (X1), or dropped without an
    /// answer, which is an `internal_error` (B081).
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn stopped(&mut self, now: Instant, id: RequestId) -> Result<(), TooLate> {
        self.settle(now, id, Input::Stopped)
    }

    /// The component ends a route by itself, or its channel is taken away: as a `Goodbye` from the client would (R6).
    pub fn close_route(&mut self, now: Instant, route: RouteHandle) {
        let now = self.clock.observe(now);
        self.route_ends(now, route);
    }

    /// The latch has moved ([`Event::ShutdownReopened`], [`Event::ShutdownCommitted`] of another connection): whoever waits for it here
    /// takes its turn or gets its success (H3).
    pub fn latch_moved(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        while let Some(id) = self.waiting.pop_front() {
            if !self.try_shutdown(now, id) {
                self.waiting.push_front(id);
                return;
            }
        }
    }

    /// Tries for the latch; false if another's attempt is in flight.
    pub(super) fn try_shutdown(&mut self, now: Instant, id: RequestId) -> bool {
        let Some(entry) = self.requests.get(id) else { return true };
        if matches!(entry.state, State::Finishing) {
            return true;
        }
        let identity = entry.identity();
        let what = match self.shared.latch.begin() {
            Begin::Wait => return false,
            Begin::Owner(attempt) => {
                self.attempt = Some(attempt);
                What::Shutdown(id) // H1: committed when its last byte is out
            }
            Begin::Committed => What::Terminal(id), // H3
        };
        if let Some(entry) = self.requests.get_mut(id) {
            entry.step(Input::Respond);
        }
        self.counters.settled.response += 1;
        self.push(now, identity, FrameType::Response, false, Body::from_static(SHUTDOWN_BODY), what);
        true
    }

    /// The host shuts down: a connection that is not active yet ends without a frame (H5); an active one goes on, with routed requests
    /// and `route.open` refused (B6). [`Shared::set_draining`](super::Shared::set_draining) comes first.
    pub fn begin_drain(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        if self.is_before_active() {
            self.end(now, End::DrainedEarly); // H5, B086: without a frame
        } else {
            self.latch_moved(now);
        }
    }

    /// Tells every handler to stop; a real terminal still counts until [`finish_drain`](Self::finish_drain) (§17).
    pub fn stop_all(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        let ids: alloc::vec::Vec<_> = self.requests.ids().collect();
        for id in ids {
            if self.requests.get(id).is_some_and(|entry| entry.route.is_some()) {
                self.drive(now, id, Input::Tell, StopReason::Draining);
            }
        }
    }

    /// The drain's end: what is still pending gets `cancelled`, every route ends, and behind all terminals goes the `Goodbye` (§17, B2).
    pub fn finish_drain(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        if self.is_before_active() {
            self.end(now, End::DrainedEarly);
        } else if self.is_active() {
            self.latch_moved(now);
            self.end(now, End::Drained);
        }
    }

    /// R6: no dispatch any more, its work is told, then the embedder is.
    pub(super) fn route_ends(&mut self, now: Instant, handle: RouteHandle) -> bool {
        let Some(route) = self.routes.remove(handle) else { return false };
        let ids: alloc::vec::Vec<_> = self.requests.ids().collect();
        for id in ids {
            if self.requests.get(id).is_some_and(|entry| entry.route == Some(handle)) {
                self.drive(now, id, Input::Tell, StopReason::RouteClosed);
            }
        }
        self.events.push_back(Event::RouteClosed { route: handle, component: route.component });
        true
    }

    fn settle(&mut self, now: Instant, id: RequestId, input: Input) -> Result<(), TooLate> {
        let now = self.clock.observe(now);
        let (act, _) = self.step_routed(id, input)?;
        self.say(now, id, act);
        Ok(())
    }

    fn step_routed(&mut self, id: RequestId, input: Input) -> Result<(Act, Identity), TooLate> {
        if let Some(entry) = self.requests.get_mut(id)
            && entry.route.is_some()
        {
            let act = entry.step(input);
            if act != Act::Nothing {
                return Ok((act, entry.identity()));
            }
        }
        Err(self.too_late())
    }

    fn too_late(&mut self) -> TooLate {
        self.counters.dropped.late_answer += 1;
        TooLate
    }

    /// §14: over its limits an error becomes `internal_error` before it is queued.
    fn error(&mut self, now: Instant, id: RequestId, error: &ErrorBody) {
        let limits = &self.shared.limits;
        let fits = error.code().len() <= limits.error_code && error.message().len() <= limits.error_message;
        let body = match error.host_code() {
            Some(code) if fits && ErrorBody::from(code) == *error => Ok(Body::from_static(code.body())),
            Some(_) | None if fits => self.charged(error.encode().into()),
            Some(_) | None => Err(Body::default()),
        };
        match body {
            Ok(body) => {
                let internal = error.host_code() == Some(HostCode::InternalError);
                let settled = &mut self.counters.settled;
                *(if internal { &mut settled.internal_error } else { &mut settled.error }) += 1;
                self.terminal(now, id, FrameType::Error, false, body);
            }
            Err(_) => self.say(now, id, Act::Internal),
        }
    }

    /// B8: a body on its way out is charged: by whoever reserved for it, else here, to the connection's share.
    fn charged(&mut self, mut body: Body) -> Result<Body, Body> {
        if body.len() > MAX_BODY as usize {
            return Err(body);
        }
        if body.charge() < body.len() {
            match self.shares.egress(body.len()) {
                Some(charge) => body.attach(charge),
                None => return Err(body),
            }
        }
        Ok(body)
    }

    /// Whether this `route.open` was handed over and its bind is out.
    pub(super) fn is_opening(&self, id: RequestId) -> bool {
        self.requests.get(id).is_some_and(|entry| {
            entry.opening.is_some() && !matches!(entry.state, State::Queued | State::Finishing)
        })
    }
}
