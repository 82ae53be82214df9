//! From authentication to a selected transport: the one negotiation (N1–N9), and a candidate's activation and commit (N10, N11).
//!
//! Invariant: nothing but a negotiation is ever handled before the selection, and a granted bootstrap takes no further frame.

use alloc::sync::Arc;

use super::admission::Slot;
use super::connection::{Connection, Phase};
use super::end::End;
use super::event::Event;
use super::output::What;
use super::shared::Shared;
use crate::body::Body;
use crate::control::{ControlRequest, HostCode, decode_request};
use crate::negotiate::{
    self, CandidateError, FallbackReason, Grant, HostCandidate, HostInput, HostStep, Response, Selection,
};
use crate::time::Instant;
use crate::wire::{Correlation, FrameType, Identity};

/// The right to become the connection that a bootstrap granted: its place among the connections moves along (N10).
///
/// The pair lives and dies together until the commit (N11): when the candidate closes before its [`Event::Active`], end the bootstrap
/// with [`Disconnect::Abandoned`](crate::endpoint::Disconnect); when the bootstrap closes, tell the candidate so
/// ([`Connection::bootstrap_ended`]). After that event the client closes the bootstrap; once a later event or the end of the
/// candidate shows that the client goes on without it, it is [superseded](Connection::superseded).
#[derive(Debug)]
#[must_use = "dropped, the candidate can never be activated: end the bootstrap"]
pub struct CandidateTicket {
    candidate: HostCandidate,
    slot: Slot,
    until: Option<Instant>,
}

impl Connection {
    /// The candidate of a granted bootstrap, once a socket has connected to it. There is no authentication exchange: its first byte is an
    /// envelope, and token and peer user ID stand for it (N10). The setup's deadline goes on.
    #[must_use]
    pub fn candidate(now: Instant, ticket: CandidateTicket, shared: Arc<Shared>) -> Self {
        let CandidateTicket { candidate, slot, until } = ticket;
        Self::in_phase(now, Phase::Candidate(candidate), until, slot, shared)
    }

    /// The first request (N1). A body that is malformed, whatever it meant to be, is answered, then the generation ends (N8).
    pub(super) fn negotiate(
        &mut self,
        now: Instant,
        corr: Correlation,
        binary: bool,
        body: &Body,
    ) -> Result<(), End> {
        match decode_request(body.as_slice(), binary) {
            Ok(ControlRequest::TransportNegotiate) | Err(_) => {}
            Ok(
                ControlRequest::RouteOpen(_)
                | ControlRequest::CatalogList { .. }
                | ControlRequest::HostShutdown
                | ControlRequest::Unknown,
            ) => return Err(End::BeforeSelection), // N1
        }
        // N4: strictly; what `decode_request` refuses is refused here as well.
        let offers = match negotiate::decode_request(body.as_slice(), binary) {
            Ok(offers) => offers,
            Err(how) => {
                self.refuse(now, Identity::Control(corr), HostCode::InvalidControlRequest); // N8
                return Err(End::MalformedNegotiation(how));
            }
        };
        match negotiate::select(&offers, &self.shared.served) {
            Selection::Tcp { reason } => self.select_tcp(now, corr, reason),
            Selection::NoTcp => return Err(End::NothingServed), // N7
            Selection::Candidate(place) => {
                let offer = offers.offers().get(place).ok_or(End::NothingServed)?.clone();
                self.phase = Phase::Granting(corr);
                self.events.push_back(Event::CandidateWanted { offer });
            }
        }
        Ok(())
    }

    /// Grants the candidate that [`Event::CandidateWanted`] asked for; the response goes out with its token and descriptor (N6).
    /// `None`: the connection has ended meanwhile.
    pub fn grant_candidate(&mut self, now: Instant, grant: Grant) -> Option<CandidateTicket> {
        let now = self.clock.observe(now);
        let Phase::Granting(corr) = self.phase else { return None };
        let slot = self.slot.take()?;
        self.phase = Phase::Granted;
        let candidate = HostCandidate::new(grant.token().clone());
        self.reply(now, corr, Response::Granted(grant).encode(), What::Other);
        Some(CandidateTicket { candidate, slot, until: self.until })
    }

    /// The candidate cannot serve now: TCP goes on, with the reason `unavailable` (N5).
    pub fn decline_candidate(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        if let Phase::Granting(corr) = self.phase {
            self.select_tcp(now, corr, Some(FallbackReason::Unavailable));
        }
    }

    /// Tells a candidate that its bootstrap has ended: until the commit's response has been handed over, that is its end as well (N11);
    /// from then on it touches nothing (N10).
    pub fn bootstrap_ended(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        if matches!(self.phase, Phase::Candidate(_)) {
            self.end(now, End::Abandoned);
        }
    }

    /// The candidate has become the connection: the bootstrap's end touches nothing any more, and it is closed without a frame (N10).
    ///
    /// Not before the client is known to have the commit's response: the end of the bootstrap could overtake it, and before it that
    /// end means failure (N11).
    pub fn superseded(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        if matches!(self.phase, Phase::Granted) {
            self.end(now, End::Superseded);
        }
    }

    fn select_tcp(&mut self, now: Instant, corr: Correlation, reason: Option<FallbackReason>) {
        self.reply(now, corr, Response::Tcp { reason }.encode(), What::Other); // N5
        self.activate(now);
    }

    /// C12: the negotiation draws no permit.
    fn reply(&mut self, now: Instant, corr: Correlation, body: alloc::vec::Vec<u8>, what: What) {
        self.push(now, Identity::Control(corr), FrameType::Response, false, body.into(), what);
    }

    fn activate(&mut self, now: Instant) {
        self.phase = Phase::Active;
        self.until = None;
        self.liveness.start(now); // N13
        self.events.push_back(Event::Active);
    }

    /// A control request on a candidate that is not active yet (N10).
    pub(super) fn candidate_request(
        &mut self,
        now: Instant,
        corr: Correlation,
        binary: bool,
        body: &Body,
    ) -> Result<(), End> {
        let Phase::Candidate(candidate) = &mut self.phase else { return Ok(()) };
        match candidate.handle_request(corr, body.as_slice(), binary) {
            Ok(HostStep::Answer(answer)) => {
                let commits = candidate.state() == negotiate::HostState::Committing;
                self.reply(now, corr, answer, if commits { What::Commit } else { What::Other });
                Ok(())
            }
            Ok(HostStep::Application) => Err(End::Candidate(CandidateError::Unexpected)),
            Err(how) => Err(End::Candidate(how)), // N11
        }
    }

    /// N11: routable when the commit's response has been wholly handed to the socket.
    pub(super) fn commit_written(&mut self, now: Instant) {
        if let Phase::Candidate(candidate) = &mut self.phase
            && candidate.handle(HostInput::CommitWritten) == negotiate::HostState::Active
        {
            self.activate(now);
        }
    }
}
