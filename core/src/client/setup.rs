//! Authentication and negotiation: from the first byte to the selected transport.
//!
//! Nothing but `client_hello` leaves before the host has proved itself (A3); `client_auth` and the negotiation then leave together (A10).

use super::connection::{Connection, Owner, Stage, State};
use super::event::{Event, Transport};
use crate::auth::{AuthError, ClientHandshake};
use crate::body::Body;
use crate::fault::{CloseReason, PeerMisbehaved};
use crate::negotiate::{
    CandidateError, ClientState, ClientStep, Response, encode_request, validate_response,
};
use crate::receive::Payload;
use crate::time::Instant;
use crate::transmit::Head;
use crate::wire::{Flags, FrameType, Header, Identity, Priority};
use alloc::vec::Vec;

impl Connection {
    pub(super) fn push_auth(&mut self, now: Instant, message: Vec<u8>) {
        self.out.push_data(now, Head::NONE, Body::from(message), Owner::Auth);
    }

    /// The host's hello has arrived whole.
    pub(super) fn on_server_hello(&mut self, now: Instant, exchange: ClientHandshake, hello: &[u8]) {
        // A3: proof, daemon ID, version; nothing leaves before all hold.
        match exchange.handle_server_hello(hello) {
            Ok((client_auth, _authenticated)) => self.begin_negotiation(now, client_auth),
            Err(error) => self.refuse_host(error),
        }
    }

    pub(super) fn refuse_host(&mut self, error: AuthError) {
        self.close(CloseReason::Authentication(error)); // A6, V10
    }

    /// The host has proved itself: prove ourselves, and negotiate right behind it (N1: correlation 1).
    fn begin_negotiation(&mut self, now: Instant, client_auth: Vec<u8>) {
        self.push_auth(now, client_auth);
        self.state = State::Negotiating;
        self.stage = Stage::Negotiating;
        let body = self.offers.as_ref().map(encode_request).unwrap_or_default();
        self.push_setup_request(now, body);
    }

    /// The next request of the setup: negotiation, activation, commit.
    pub(super) fn push_setup_request(&mut self, now: Instant, body: Vec<u8>) {
        let Some(corr) = self.next_corr else { return };
        self.next_corr = corr.next();
        let header = Header {
            len: u32::try_from(body.len()).unwrap_or(u32::MAX),
            kind: FrameType::Request,
            flags: Flags::data(false, Priority::Interactive),
            identity: Identity::Control(corr),
        };
        self.out.push_data(now, Head::envelope(&header), Body::from(body), Owner::Negotiation);
    }

    /// The answer to the negotiation.
    pub(super) fn on_selection(&mut self, binary: bool, body: &[u8]) {
        let Some(offers) = self.offers.take() else { return };
        match validate_response(body, binary, &offers) {
            Ok(Response::Tcp { reason }) => self.become_active(Transport::Tcp { reason }),
            Ok(Response::Granted(grant)) => {
                self.state = State::Granted;
                self.events.push_back(Event::Granted { grant });
            }
            Err(error) => self.close(CloseReason::Negotiation(error)), // N8, V53
        }
    }

    pub(super) fn become_active(&mut self, transport: Transport) {
        self.state = State::Active;
        self.stage = Stage::Active;
        self.events.push_back(Event::Ready { transport });
    }

    /// Whatever else the host sends before it has selected. `Ping` is answered (L1); a frame for nobody is dropped (F2).
    pub(super) fn on_refused_negotiation(&mut self) {
        self.close(CloseReason::NegotiationRefused); // N8
    }

    /// A whole frame on a candidate that is not active yet. Only its own answers and `Ping` may stand here (N10, N13).
    pub(super) fn on_candidate_frame(&mut self, now: Instant, header: &Header, payload: &Payload) {
        let State::Candidate(candidate) = &mut self.state else { return };
        // N10: correlation 1 activates, 2 commits; the candidate is routable behind that.
        let step = match (header.kind, header.identity, payload) {
            (FrameType::Response, Identity::Control(corr), Payload::Body(body)) => {
                candidate.handle_response(corr, body.as_slice(), header.flags.binary)
            }
            _ => Err(CandidateError::Unexpected), // N11: an `Error`, an early application frame
        };
        match step {
            Ok(ClientStep::Commit(body)) => self.push_setup_request(now, body),
            Ok(ClientStep::Active | ClientStep::Application) => self.become_active(Transport::Candidate),
            Err(error) => self.close(CloseReason::Candidate(error)),
        }
    }

    /// Tells a candidate that its bootstrap has ended. Before the activation is answered that is its end as well (N11). From then on the
    /// host may have committed and closed the bootstrap before the commit's response is read here, so the candidate's own fate
    /// decides: a host that has not committed ends both.
    pub fn bootstrap_ended(&mut self, now: Instant) {
        self.clock.observe(now);
        if let State::Candidate(candidate) = &self.state
            && candidate.state() == ClientState::Activating
        {
            self.close(CloseReason::Abandoned);
        }
    }

    pub(super) fn misbehaved(&mut self, how: PeerMisbehaved) {
        self.close(CloseReason::Peer(how)); // F1, W2
    }
}
