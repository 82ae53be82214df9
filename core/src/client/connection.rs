//! The connection's state, the loop's inputs and outputs, and time.

use super::config::{CandidateConfig, Config, ConfigError};
use super::counters::Counters;
use super::event::{Event, Item, StreamPoll};
use super::pending::{Kind, OpId, Pending, Phase};
use crate::auth::{ClientHandshake, MessageReader};
use crate::body::BodyLease;
use crate::budget::Pool;
use crate::endpoint::{Deadline, DeadlineReason, Disconnect, Endpoint, Interest, WriteFailure};
use crate::fault::{ApiMisuse, CloseReason, Fault, PeerMisbehaved};
use crate::hash::FixedState;
use crate::limits::{ClientLimits, ClientTimeouts};
use crate::negotiate::{ClientCandidate, OfferList};
use crate::outcome::{Outcome, UnknownCode};
use crate::receive::Assembler;
use crate::time::{Clock, Instant};
use crate::transmit::{Offer, Outbox, Outgoing, Patience, Progress, Transmit};
use crate::wire::{Correlation, Epoch, FrameType};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;
use hashbrown::HashMap;

/// Events that may wait before input is refused. Settlements of one teardown may go over it, by at most `pending_requests`.
pub(super) const EVENT_BACKLOG: usize = 256;
/// G4: input read after a failed write, at most.
const READ_ON_BYTES: usize = 1 << 20;

/// How far a generation had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Before `client_auth` was sent: the host had not proved itself.
    Authenticating,
    /// Before a transport was selected.
    Negotiating,
    /// Requests were possible.
    Active,
}

/// Where the generation stands. `Closed` is final.
#[derive(Debug)]
pub(super) enum State {
    /// Before the host's proof: no envelope is legal (A10).
    Hello(MessageReader, ClientHandshake),
    /// `client_auth` and the negotiation are on their way (N1).
    Negotiating,
    /// A granted candidate on its way to be the connection (N10).
    Candidate(ClientCandidate),
    /// A candidate was granted; this connection only has to live until it is committed (N10).
    Granted,
    /// Requests are possible.
    Active,
    /// Output failed; what has arrived is still read (G4).
    ReadOn { reason: CloseReason, left: usize },
    /// A local close: the begun frame and `Goodbye` still leave.
    Closing { reason: CloseReason, until: Instant },
    /// The end.
    Closed(CloseReason),
}

/// Whose bytes a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Auth,
    Op(OpId),
    /// The negotiation, which is no operation of the caller's.
    Negotiation,
    Pong,
    Cancel,
    RouteGoodbye,
    /// The connection's own, the last frame.
    Farewell,
}

/// One generation, as the client sees it: everything that is said about [`Endpoint`], and the client's commands.
#[derive(Debug)]
pub struct Connection {
    pub(super) state: State,
    pub(super) stage: Stage,
    pub(super) clock: Clock,
    pub(super) limits: ClientLimits,
    pub(super) timeouts: ClientTimeouts,
    pub(super) setup_deadline: Instant,
    /// What was offered, until the host has chosen.
    pub(super) offers: Option<OfferList>,
    pub(super) out: Outbox<Owner>,
    pub(super) rx: Assembler,
    /// The request that the frame in progress answers, as its header says (Q4).
    pub(super) answered: Option<OpId>,
    pub(super) pending: Pending,
    /// Routes by channel: the epoch that is live there.
    pub(super) routes: HashMap<u16, Epoch, FixedState>,
    pub(super) next_corr: Option<Correlation>,
    pub(super) events: VecDeque<Event>,
    /// Settlements among the events: they occupy their request's slot until taken.
    pub(super) untaken: usize,
    /// Bytes of bodies among them, on their way back to the caller.
    pub(super) returned_bytes: usize,
    pub(super) retained: Arc<Pool>,
    pub(super) counters: Counters,
}

impl Connection {
    /// Begins a generation on a fresh transport: the first bytes to leave are the handshake's.
    ///
    /// # Errors
    /// [`ConfigError`] if a limit or a duration is zero, or the role does not fit.
    pub fn new(now: Instant, config: Config) -> Result<Self, ConfigError> {
        let Config { credentials, nonce, role, offers, limits, timeouts, setup_deadline } = config;
        let exchange = ClientHandshake::new(credentials, nonce, &role)?;
        let hello = exchange.hello();
        let state = State::Hello(MessageReader::new(), exchange);
        let mut connection = Self::begin(state, Stage::Authenticating, limits, timeouts, setup_deadline)?;
        connection.offers = Some(offers);
        let now = connection.clock.observe(now);
        connection.push_auth(now, hello);
        Ok(connection)
    }

    /// Begins on a granted candidate's transport. Its first byte is an envelope: token and peer user ID stand for the handshake (N10).
    /// Once it says `Ready`, close the bootstrap connection; if it ends before, end the bootstrap too (N11), and if that one ends, tell
    /// this one ([`Connection::bootstrap_ended`]).
    ///
    /// # Errors
    /// [`ConfigError`] if a limit or a duration is zero.
    pub fn candidate(now: Instant, config: CandidateConfig) -> Result<Self, ConfigError> {
        let CandidateConfig { grant, limits, timeouts, setup_deadline } = config;
        let (candidate, activate) = ClientCandidate::new(grant.token());
        let state = State::Candidate(candidate);
        let mut connection = Self::begin(state, Stage::Negotiating, limits, timeouts, setup_deadline)?;
        let now = connection.clock.observe(now);
        connection.push_setup_request(now, activate);
        Ok(connection)
    }

    fn begin(
        state: State,
        stage: Stage,
        limits: ClientLimits,
        timeouts: ClientTimeouts,
        setup_deadline: Instant,
    ) -> Result<Self, ConfigError> {
        limits.validate()?;
        timeouts.validate()?;
        Ok(Self {
            state,
            stage,
            clock: Clock::default(),
            limits,
            timeouts,
            setup_deadline,
            offers: None,
            out: Outbox::new(Patience::FirstByte),
            rx: Assembler::default(),
            answered: None,
            pending: Pending::default(),
            routes: HashMap::default(),
            next_corr: Some(Correlation::FIRST),
            events: VecDeque::new(),
            untaken: 0,
            returned_bytes: 0,
            retained: Pool::new(limits.retained_bytes),
            counters: Counters::default(),
        })
    }

    /// Takes input. Returns how many bytes were consumed: all of them, unless events wait to be taken or a lease is out.
    ///
    /// # Errors
    /// [`Fault`] once the generation has ended, with its reason, every time (CC11).
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, Fault> {
        let now = self.clock.observe(now);
        let mut input = bytes;
        while !input.is_empty() {
            match &mut self.state {
                State::Closed(reason) => return Err(Fault(*reason)),
                State::Closing { .. } => input = &[],
                State::Hello(reader, _) => match reader.handle_input(input) {
                    Ok((consumed, message)) => {
                        input = input.get(consumed..).unwrap_or_default(); // A10: what follows stays in order
                        if let Some(message) = message
                            && let State::Hello(_, exchange) =
                                core::mem::replace(&mut self.state, State::Negotiating)
                        {
                            self.on_server_hello(now, exchange, &message);
                        }
                    }
                    Err(error) => self.refuse_host(error),
                },
                State::ReadOn { left: 0, reason } => {
                    let reason = *reason;
                    self.close(reason);
                }
                State::ReadOn { left, .. } => {
                    // G4: at most so much is read on.
                    let (part, rest) = input.split_at((*left).min(input.len()));
                    *left -= part.len();
                    let consumed = self.read_frames(now, part);
                    if consumed < part.len() {
                        input = input.get(consumed..).unwrap_or_default();
                        break;
                    }
                    input = rest;
                }
                State::Negotiating | State::Candidate(_) | State::Granted | State::Active => {
                    let consumed = self.read_frames(now, input);
                    input = input.get(consumed..).unwrap_or_default();
                    break; // all of it, or blocked, or closed
                }
            }
        }
        match self.state {
            State::Closed(reason) => Err(Fault(reason)),
            State::Hello(..)
            | State::Negotiating
            | State::Candidate(_)
            | State::Granted
            | State::Active
            | State::ReadOn { .. }
            | State::Closing { .. } => {
                let consumed = bytes.len() - input.len();
                self.counters.received.bytes += consumed as u64;
                Ok(consumed)
            }
        }
    }

    /// Whether input has to wait until events have been taken.
    pub(super) fn is_backlogged(&self) -> bool {
        self.events.len() >= EVENT_BACKLOG
    }

    /// Moves the buffer of a body of 64 KiB or more out of the connection, to be read into; `None` when there is none.
    pub fn lease_body(&mut self) -> Option<BodyLease> {
        match self.state {
            State::Active
            | State::Negotiating
            | State::Candidate(_)
            | State::Granted
            | State::ReadOn { .. } => self.rx.lease(),
            State::Hello(..) | State::Closing { .. } | State::Closed(_) => None,
        }
    }

    /// Takes the buffer back, filled further. A buffer that was shortened, overfilled or lent by another connection poisons this one.
    pub fn return_body(&mut self, now: Instant, lease: BodyLease) {
        let now = self.clock.observe(now);
        let before = self.rx.left_in_body();
        match self.rx.give_back(lease) {
            Ok(frame) => {
                let added = before - self.rx.left_in_body().min(before);
                self.counters.received.bytes += added as u64;
                if let State::ReadOn { left, .. } = &mut self.state {
                    *left = left.saturating_sub(added);
                }
                if let Some((header, payload)) = frame {
                    self.on_frame(now, &header, payload);
                }
            }
            Err(misuse) => self.close(CloseReason::Misuse(misuse)),
        }
    }

    /// The host has closed its writing side. Between frames that is an orderly end (W5), inside one corruption (W2); after a
    /// failed write it is the moment when outcomes are computed (G4).
    pub fn handle_eof(&mut self, now: Instant) {
        self.clock.observe(now);
        let reason = match self.state {
            State::ReadOn { reason, .. } | State::Closing { reason, .. } => reason,
            State::Hello(..) | State::Negotiating | State::Candidate(_) | State::Granted | State::Active
                if self.rx.is_mid_frame() =>
            {
                CloseReason::Peer(PeerMisbehaved::Truncated) // W2, V14
            }
            State::Hello(..) | State::Negotiating | State::Candidate(_) | State::Granted | State::Active => {
                CloseReason::Eof
            }
            State::Closed(_) => return,
        };
        self.close(reason);
    }

    /// Time has passed. Before [`Connection::deadline`] nothing changes; at it, progress is made (CC5). Give input that has already
    /// arrived first (X5).
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        // X5: whatever has arrived was given before; E1: one absolute deadline per operation.
        while let Some((at, op)) = self.pending.first_deadline()
            && at <= now
        {
            let confirming = self.pending.get(op).is_some_and(|op| op.phase == Phase::Confirming);
            let code = if confirming { UnknownCode::Cancelled } else { UnknownCode::DeadlineExpired };
            self.stop(now, op, crate::outcome::NotSentCode::DeadlineExpired, code); // E2, E3
        }
        let Some(deadline) = self.deadline() else { return };
        if deadline.at > now {
            return;
        }
        match deadline.reason {
            DeadlineReason::Handshake => self.close(CloseReason::HandshakeTimeout),
            DeadlineReason::FrameIn => self.close(CloseReason::FrameInTimeout), // W6
            DeadlineReason::FrameOut => self.close(CloseReason::FrameOutTimeout), // W6
            DeadlineReason::Close => self.close(CloseReason::Local),
            DeadlineReason::Operation
            | DeadlineReason::Linger
            | DeadlineReason::Liveness
            | DeadlineReason::Drain => {}
        }
    }

    /// The transport is gone: outcomes are computed now (G4).
    pub fn handle_disconnect(&mut self, now: Instant, why: Disconnect) {
        self.clock.observe(now);
        let reason = match (&self.state, why) {
            (State::ReadOn { reason, .. } | State::Closing { reason, .. }, _) => *reason,
            (
                State::Hello(..)
                | State::Negotiating
                | State::Candidate(_)
                | State::Granted
                | State::Active
                | State::Closed(_),
                Disconnect::Abandoned,
            ) => CloseReason::Abandoned,
            (
                State::Hello(..)
                | State::Negotiating
                | State::Candidate(_)
                | State::Granted
                | State::Active
                | State::Closed(_),
                _,
            ) => CloseReason::Io,
        };
        self.close(reason);
    }

    /// The next bytes to write. Nothing leaves the queue until the offer is answered.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let now = self.clock.observe(now);
        let offer = self.out.offer()?;
        Some(Transmit::new(self, offer, now))
    }

    /// The next fact.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Settled { outcome, .. } = &event {
            self.untaken -= 1;
            if let Outcome::NotSent { body, .. } = outcome {
                self.returned_bytes -= body.len();
            }
        }
        Some(event)
    }

    /// The next item of a stream. Items wait here, on the stream's and the connection's budget, until they are taken (B4).
    pub fn take_item(&mut self, op: OpId) -> StreamPoll {
        let Some(entry) = self.pending.get_mut(op) else { return StreamPoll::Ended };
        let settled = entry.phase == Phase::Settled;
        let Kind::Stream(items) = &mut entry.kind else { return StreamPoll::Pending };
        let item: Option<Item> = items.queue.pop_front();
        if settled && items.queue.is_empty() {
            self.pending.remove(op);
        } else if item.is_none() {
            items.told = false;
        }
        match item {
            Some(item) => StreamPoll::Item(item),
            None => StreamPoll::Pending, // a settled one is here only while it holds items
        }
    }

    /// The next moment at which time alone makes progress.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        let because = |reason| move |at| Deadline { at, reason };
        let handshake = matches!(
            self.state,
            State::Hello(..) | State::Negotiating | State::Candidate(_) | State::Granted
        )
        .then_some(self.setup_deadline);
        let close = match self.state {
            State::Closing { until, .. } => Some(until),
            State::Closed(_) => return None,
            State::Hello(..)
            | State::Negotiating
            | State::Candidate(_)
            | State::Granted
            | State::Active
            | State::ReadOn { .. } => None,
        };
        Deadline::earliest([
            handshake.map(because(DeadlineReason::Handshake)),
            self.pending.first_deadline().map(|(at, _)| Deadline { at, reason: DeadlineReason::Operation }),
            self.rx.began().map(|began| began + self.timeouts.frame).map(because(DeadlineReason::FrameIn)),
            self.out.deadline(self.timeouts.frame).map(because(DeadlineReason::FrameOut)),
            close.map(because(DeadlineReason::Close)),
        ])
    }

    /// What is wanted next.
    #[must_use]
    pub fn interest(&self) -> Interest {
        Interest {
            read: !self.is_closed() && !self.is_backlogged(), // CC4
            write: self.out.wants_write(),
            events: !self.events.is_empty(),
            half_close: false,
        }
    }

    /// Whether the generation has ended. Events and items may still wait.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// Why the generation ended or is about to (G5).
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        match self.state {
            State::Closed(reason) | State::ReadOn { reason, .. } | State::Closing { reason, .. } => {
                Some(reason)
            }
            State::Hello(..) | State::Negotiating | State::Candidate(_) | State::Granted | State::Active => {
                None
            }
        }
    }

    /// What has been counted so far (Z2).
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { retained_high_water: self.retained.high_water(), ..self.counters }
    }

    /// Requests without a final result.
    #[must_use]
    pub fn pending_requests(&self) -> usize {
        self.pending.pending()
    }

    /// Entries, timers, queued bytes and retained bytes: all zero once the generation has ended and its events and items are taken (G6).
    #[must_use]
    pub fn footprint(&self) -> [usize; 4] {
        [
            self.pending.len() + self.events.len() + self.routes.len(),
            self.pending.timers(),
            self.out.data_bytes() + self.returned_bytes,
            self.retained.used(),
        ]
    }

    pub(super) fn on_progress(&mut self, progress: Progress<Owner>) {
        self.counters.sent.bytes += progress.took as u64;
        if progress.finished
            && let Some(kind) = progress.owner.frame_type()
        {
            self.counters.sent.count(kind);
        }
        match progress.owner {
            Owner::Op(id) => {
                if let Some(op) = self.pending.get_mut(id) {
                    op.handed += progress.took as u64;
                    op.frame = None;
                }
            }
            Owner::Farewell if progress.finished => {
                if let State::Closing { reason, .. } = self.state {
                    self.close(reason); // G1
                }
            }
            Owner::Auth
            | Owner::Negotiation
            | Owner::Pong
            | Owner::Cancel
            | Owner::RouteGoodbye
            | Owner::Farewell => {}
        }
    }

    /// Ends output but not input: outcomes wait until input has ended too (G4).
    fn output_failed(&mut self, offer: Offer, how: WriteFailure) {
        match how {
            WriteFailure::NothingAccepted => {}
            WriteFailure::Indeterminate => self.taint(offer), // CC8
        }
        match self.state {
            State::Active => {
                self.out.stop();
                self.state = State::ReadOn { reason: CloseReason::Io, left: READ_ON_BYTES };
            }
            State::Closing { reason, .. } => self.close(reason),
            State::Hello(..) | State::Negotiating | State::Candidate(_) | State::Granted => {
                self.close(CloseReason::Io);
            }
            State::ReadOn { .. } | State::Closed(_) => {}
        }
    }

    fn taint(&mut self, offer: Offer) {
        let pending = &mut self.pending;
        self.out.for_each_offered(offer, |owner| {
            if let Owner::Op(id) = owner
                && let Some(op) = pending.get_mut(id)
            {
                op.tainted = true;
            }
        });
    }

    /// How long a request waits unless its caller says otherwise.
    #[must_use]
    pub const fn default_request_timeout(&self) -> Duration {
        self.timeouts.request
    }
}

impl Owner {
    const fn frame_type(self) -> Option<FrameType> {
        match self {
            Self::Auth => None,
            Self::Op(_) | Self::Negotiation => Some(FrameType::Request),
            Self::Pong => Some(FrameType::Pong),
            Self::Cancel => Some(FrameType::Cancel),
            Self::RouteGoodbye | Self::Farewell => Some(FrameType::Goodbye),
        }
    }
}

impl Outgoing for Connection {
    fn gather<'s>(&'s self, offer: Offer, out: &mut [&'s [u8]]) -> usize {
        self.out.gather(offer, out)
    }

    fn accepted(&mut self, now: Instant, n: usize) {
        let mut left = n;
        while let Some(progress) = self.out.accept(now, &mut left) {
            self.on_progress(progress);
        }
    }

    fn write_failed(&mut self, _now: Instant, offer: Offer, how: WriteFailure) {
        self.output_failed(offer, how);
    }

    fn misused(&mut self, _now: Instant, offer: Offer, how: ApiMisuse) {
        self.taint(offer);
        self.close(CloseReason::Misuse(how));
    }
}

impl Endpoint for Connection {
    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, Fault> {
        self.handle_input(now, bytes)
    }

    fn lease_body(&mut self) -> Option<BodyLease> {
        self.lease_body()
    }

    fn return_body(&mut self, now: Instant, lease: BodyLease) {
        self.return_body(now, lease);
    }

    fn handle_eof(&mut self, now: Instant) {
        self.handle_eof(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn handle_disconnect(&mut self, now: Instant, why: Disconnect) {
        self.handle_disconnect(now, why);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.poll_transmit(now)
    }

    fn deadline(&self) -> Option<Deadline> {
        self.deadline()
    }

    fn interest(&self) -> Interest {
        self.interest()
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }
}
