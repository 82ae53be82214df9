//! Input: authentication messages, then envelopes, each judged on its header before a body is buffered (W1).
//!
//! Invariant: the entry of a request is visible before the next frame is judged, and no handler is asked for one that is refused.

use super::connection::{Connection, Phase};
use super::end::End;
use super::event::{Event, StopReason};
use super::output::{Sent, What};
use super::requests::{Entry, Input};
use crate::auth::AuthError;
use crate::body::BodyLease;
use crate::control::HostCode;
use crate::fault::{ApiMisuse, CloseReason, Fault, PeerMisbehaved};
use crate::negotiate::CandidateError;
use crate::receive::{Payload, Plan};
use crate::time::Instant;
use crate::transmit::Head;
use crate::wire::{
    Correlation, Flags, FrameType, Header, Identity, MAX_CONTROL_BODY, RouteHandle, Sender, judge,
};

impl Connection {
    /// Takes input; returns how many bytes were consumed: less than all only while reading is paused (B6).
    ///
    /// # Errors
    /// [`Fault`], latched: once the connection is closed every input returns it (CC11).
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, Fault> {
        let now = self.clock.observe(now);
        let framed = matches!(self.phase, Phase::Setup | Phase::Candidate(_) | Phase::Active);
        if framed && self.input.is_leased() && !bytes.is_empty() {
            self.end(now, End::Misuse(ApiMisuse::InputDuringLease));
        }
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_closed() {
            match self.advance(now, &mut rest) {
                Ok(true) => {}
                Ok(false) => break,
                Err(end) => self.end(now, end),
            }
        }
        match (self.is_closed(), self.reason) {
            (true, reason) => Err(Fault(reason.unwrap_or(CloseReason::Abandoned))),
            (false, _) => Ok(bytes.len() - rest.len()),
        }
    }

    /// One step; false while reading is paused.
    fn advance(&mut self, now: Instant, rest: &mut &[u8]) -> Result<bool, End> {
        match &mut self.phase {
            Phase::Hello(reader, _) | Phase::Challenge(reader, _) => {
                let before = rest.len();
                let (taken, message) = reader.handle_input(rest).map_err(End::Authentication)?; // A1
                *rest = rest.get(taken..).unwrap_or_default();
                self.counters.received.bytes += (before - rest.len()) as u64;
                if let Some(message) = message {
                    self.authenticate(now, &message)?;
                }
            }
            Phase::Granting(_) | Phase::Granted => return Err(End::Candidate(CandidateError::Unexpected)), // N9, N11
            Phase::Setup | Phase::Candidate(_) | Phase::Active => {
                if self.is_paused() {
                    return Ok(false); // B6
                }
                let before = rest.len();
                let framed = self.frame(now, rest);
                self.counters.received.bytes += (before - rest.len()) as u64;
                framed?;
            }
            Phase::Flushing | Phase::Lingering { .. } => {
                let thrown = rest.len();
                *rest = &[];
                self.discard(thrown);
            }
            Phase::Closed => return Ok(false),
        }
        Ok(true)
    }

    /// A10: bytes behind a complete message belong to what follows.
    fn authenticate(&mut self, now: Instant, message: &[u8]) -> Result<(), End> {
        let failed = |how: AuthError| End::Authentication(how); // A6: silence
        match core::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Hello(_, handshake) => {
                let answer = handshake.handle_client_hello(message);
                self.phase = Phase::Setup; // so that a failure finds a phase to end
                let (answer, challenge) = answer.map_err(failed)?;
                self.outbox.push_data(
                    now,
                    Head::NONE,
                    answer.into(),
                    Sent { kind: FrameType::Hello, what: What::Auth },
                );
                self.phase = Phase::Challenge(crate::auth::MessageReader::new(), challenge);
            }
            Phase::Challenge(_, challenge) => {
                let proof = challenge.handle_client_auth(message); // A4
                self.phase = Phase::Setup;
                let _authenticated = proof.map_err(failed)?;
                self.slot = None; // A8: the handshake's slot is free again
                self.slot = Some(self.shared.admission.connection().ok_or(End::OverCapacity)?); // A9
                self.until = Some(now + self.shared.timeouts.setup);
            }
            // `advance` comes here in those two phases only.
            other @ (Phase::Setup
            | Phase::Granting(_)
            | Phase::Granted
            | Phase::Candidate(_)
            | Phase::Active
            | Phase::Flushing
            | Phase::Lingering { .. }
            | Phase::Closed) => self.phase = other,
        }
        Ok(())
    }

    /// Header and body bytes from the front of the input; what the frame says, once it is whole.
    fn frame(&mut self, now: Instant, rest: &mut &[u8]) -> Result<(), End> {
        if self.input.in_body() {
            let whole = self.input.fill(rest);
            return whole.map_or(Ok(()), |(header, payload)| self.on_frame(now, &header, payload));
        }
        let header = self.input.header(now, rest);
        let header = header.map_err(|how| End::Misbehaved(PeerMisbehaved::Header(how)))?; // W2
        let Some(header) = header else { return Ok(()) };
        let plan = self.judge_header(now, &header)?;
        let whole = self.input.begin(&header, plan, rest);
        whole.map_or(Ok(()), |payload| self.on_frame(now, &header, payload))
    }

    /// What a header alone decides: legality, the watermark, and what becomes of the body.
    fn judge_header(&mut self, now: Instant, header: &Header) -> Result<Plan, End> {
        judge(Sender::Client, header).map_err(|how| End::Misbehaved(PeerMisbehaved::Illegal(how)))?; // F1
        let setup = matches!(self.phase, Phase::Setup | Phase::Candidate(_));
        match (header.kind, header.identity) {
            (FrameType::Request, Identity::Control(corr)) => {
                self.raise_watermark(corr)?;
                let fits = header.len <= MAX_CONTROL_BODY;
                match (fits, setup) {
                    (true, true) => Ok(Plan::Buffer(None)), // N1: one small body, the connection's own
                    (false, true) => Err(End::BeforeSelection), // N1
                    (true, false) => Ok(self.buffer(header.len)),
                    (false, false) => {
                        self.oversize = true;
                        self.refuse_early(now, corr); // C1: as soon as the header is judged
                        Ok(Plan::Drain)
                    }
                }
            }
            (FrameType::Request, Identity::Routed(route, corr)) => {
                self.raise_watermark(corr)?;
                if setup {
                    return Err(End::BeforeSelection); // N1
                }
                // R5: nothing of a request on an unknown channel is kept.
                Ok(if self.routes.get(route).is_some() { self.buffer(header.len) } else { Plan::Drain })
            }
            _ if setup => Err(End::BeforeSelection), // N1: `Cancel`, `Pong`, `Goodbye` in its place
            _ => Ok(Plan::Drain),                    // pure headers: there is no body
        }
    }

    fn buffer(&self, len: u32) -> Plan {
        // B8: ingress never waits; what cannot be charged is drained and refused.
        Plan::Buffer(Some(self.shares.ingress(len).clone()))
    }

    /// Q2: not above the watermark closes the generation; otherwise it moves at once, whatever becomes of the request.
    fn raise_watermark(&mut self, corr: Correlation) -> Result<(), End> {
        // Q2: before anything else of the request is judged.
        if self.watermark.is_some_and(|watermark| corr <= watermark) {
            return Err(End::Misbehaved(PeerMisbehaved::Watermark)); // V44
        }
        self.watermark = Some(corr);
        Ok(())
    }

    fn on_frame(&mut self, now: Instant, header: &Header, payload: Payload) -> Result<(), End> {
        self.liveness.frame_arrived();
        self.counters.received.count(header.kind);
        match (header.kind, header.identity) {
            (FrameType::Request, Identity::Control(corr)) => {
                if core::mem::take(&mut self.oversize) {
                    return Ok(()); // C1: answered already
                }
                let body = match payload {
                    Payload::Body(body) => body,
                    Payload::Drained | Payload::Overflowed => {
                        self.refuse(now, header.identity, HostCode::ServerBusy); // B8
                        return Ok(());
                    }
                };
                let binary = header.flags.binary;
                match self.phase {
                    Phase::Setup => self.negotiate(now, corr, binary, &body),
                    Phase::Candidate(_) => self.candidate_request(now, corr, binary, &body),
                    Phase::Active => self.control(now, corr, binary, body),
                    Phase::Hello(..)
                    | Phase::Challenge(..)
                    | Phase::Granting(_)
                    | Phase::Granted
                    | Phase::Flushing
                    | Phase::Lingering { .. }
                    | Phase::Closed => Ok(()),
                }
            }
            (FrameType::Request, Identity::Routed(route, corr)) => {
                self.routed(now, header, route, corr, payload);
                Ok(())
            }
            (FrameType::Cancel, Identity::Routed(route, corr)) => {
                match self.requests.find(route, corr) {
                    Some(id) => self.drive(now, id, Input::Cancel, StopReason::Cancelled), // X1
                    None => self.counters.dropped.stale_cancel += 1,                       // V34, B077
                }
                Ok(())
            }
            (FrameType::Pong, Identity::Control(corr)) => {
                // Q3: a number of our direction; no request of the same number is touched.
                if !self.liveness.pong(now, corr, header.flags) {
                    self.counters.dropped.stale_pong += 1; // L2
                }
                Ok(())
            }
            (FrameType::Goodbye, Identity::Route(route)) => {
                if !self.route_ends(now, route) {
                    self.counters.dropped.stale_goodbye += 1; // R5, R6: repeats and stale ones are ignored
                }
                Ok(())
            }
            (FrameType::Goodbye, Identity::Connection) => Err(End::PeerGoodbye), // G1
            // `judge` lets nothing else through.
            (_, Identity::Connection | Identity::Control(_) | Identity::Route(_) | Identity::Routed(..)) => {
                Ok(())
            }
        }
    }

    /// A routed request, whole: the channel before draining before permits (B6), then both permits or neither (B7).
    fn routed(
        &mut self,
        now: Instant,
        header: &Header,
        route: RouteHandle,
        corr: Correlation,
        payload: Payload,
    ) {
        let refusal = 'refused: {
            let (Some(route), false) = (self.routes.get(route), matches!(payload, Payload::Drained)) else {
                break 'refused HostCode::UnknownChannel; // R5, AE5
            };
            let (Payload::Body(body), false) = (payload, self.shared.is_draining()) else {
                break 'refused HostCode::ServerBusy; // B8, §17
            };
            // B7: from the class that was fixed at bind, and from no other.
            let Some(permit) = route.desk.admit() else {
                break 'refused HostCode::ServerBusy;
            };
            let entry = Entry::routed(route.handle, corr, route.class);
            let Some(id) = self.requests.admit(entry) else {
                break 'refused HostCode::ServerBusy; // V48
            };
            let Flags { binary, priority, .. } = header.flags;
            let (route, component) = (route.handle, route.component);
            self.events.push_back(Event::Request { id, route, component, binary, priority, body, permit });
            return;
        };
        self.refuse(now, header.identity, refusal);
    }

    /// Moves a big body's buffer out, to be filled in place.
    pub fn lease_body(&mut self) -> Option<BodyLease> {
        self.input.lease()
    }

    /// Takes it back, filled further. One of a connection that has ended meanwhile is dropped.
    pub fn return_body(&mut self, now: Instant, lease: BodyLease) {
        let now = self.clock.observe(now);
        let arrived = lease.buffer.len().saturating_sub(lease.start);
        match self.input.give_back(lease) {
            Ok(frame) => {
                self.counters.received.bytes += arrived as u64;
                if let Some((header, payload)) = frame
                    && let Err(end) = self.on_frame(now, &header, payload)
                {
                    self.end(now, end);
                }
            }
            Err(how) => self.end(now, End::Misuse(how)),
        }
    }
}
