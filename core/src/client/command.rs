//! Submission: checks in the order of B3; a request that fails one fails alone, burns no correlation and gives its body back.

use super::connection::{Connection, Owner, State};
use super::pending::{Kind, Op, OpId, Phase};
use crate::body::Body;
use crate::control::{RouteOpen, SHUTDOWN_BODY, encode_catalog_list};
use crate::json::ReadError;
use crate::outcome::NotSentCode;
use crate::time::Instant;
use crate::transmit::Head;
use crate::wire::{
    Correlation, Flags, FrameType, HEADER_LEN, Header, Identity, MAX_BODY, MAX_CONTROL_BODY, Priority,
    RouteHandle,
};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A request on a route.
#[derive(Debug)]
pub struct Request {
    /// The bytes, opaque to the library (Q6); at most 64 MiB.
    pub body: Body,
    /// The binary bit.
    pub binary: bool,
    /// The priority bits (W11: Interactive unless chosen).
    pub priority: Priority,
    /// Whether a stream of items is expected (Q5).
    pub stream: bool,
    /// The caller's patience (E1, E3).
    pub deadline: Instant,
}

impl Request {
    /// A text request that expects one answer.
    #[must_use]
    pub fn unary(body: impl Into<Body>, deadline: Instant) -> Self {
        Self { body: body.into(), binary: false, priority: Priority::default(), stream: false, deadline }
    }

    /// A text request that expects a stream.
    #[must_use]
    pub fn stream(body: impl Into<Body>, deadline: Instant) -> Self {
        Self { stream: true, ..Self::unary(body, deadline) }
    }
}

/// Which part of the catalog is asked for.
#[derive(Clone, Debug)]
pub struct CatalogFilter(Vec<u8>);

impl CatalogFilter {
    /// All of it, or the entry of one module.
    ///
    /// # Errors
    /// A module ID that is empty, over 128 bytes or has a NUL (C2).
    pub fn new(module_id: Option<&str>) -> Result<Self, ReadError> {
        encode_catalog_list(module_id).map(Self)
    }
}

/// A request that was not admitted: `not_sent`, with the body given back.
#[derive(Debug, thiserror::Error)]
#[error("not sent: {code}")]
pub struct SubmitError {
    /// Why (O6).
    pub code: NotSentCode,
    /// The request's own body; empty for control requests.
    pub body: Body,
}

impl Connection {
    /// Sends a request on a live route.
    ///
    /// # Errors
    /// [`SubmitError`] in the order of B3: `client_closed`, `connection_retired`, `deadline_expired`, `route_not_live`,
    /// `pending_full`, `streams_full`, `body_too_large`, `queue_full`, `correlations_exhausted`.
    pub fn request(
        &mut self,
        now: Instant,
        route: RouteHandle,
        request: Request,
    ) -> Result<OpId, SubmitError> {
        let now = self.clock.observe(now);
        let Request { body, binary, priority, stream, deadline } = request;
        let kind = if stream { Kind::Stream(Box::default()) } else { Kind::Unary };
        self.submit(now, Some(route), kind, Flags::data(binary, priority), body, deadline)
    }

    /// Asks for a route.
    ///
    /// # Errors
    /// [`SubmitError`], as [`Connection::request`]; before the transport is selected `connection_retired`.
    pub fn open_route(
        &mut self,
        now: Instant,
        open: &RouteOpen,
        deadline: Instant,
    ) -> Result<OpId, SubmitError> {
        self.control(now, Kind::RouteOpen, Body::from(open.encode()), deadline)
    }

    /// Asks for the catalog, or one entry of it.
    ///
    /// # Errors
    /// As [`Connection::open_route`].
    pub fn catalog(
        &mut self,
        now: Instant,
        filter: CatalogFilter,
        deadline: Instant,
    ) -> Result<OpId, SubmitError> {
        self.control(now, Kind::Catalog, Body::from(filter.0), deadline)
    }

    /// Asks the host to shut down (§17).
    ///
    /// # Errors
    /// As [`Connection::open_route`].
    pub fn host_shutdown(&mut self, now: Instant, deadline: Instant) -> Result<OpId, SubmitError> {
        self.control(now, Kind::Shutdown, Body::from_static(SHUTDOWN_BODY), deadline)
    }

    /// Goes on with a later correlation, to walk the end of their range without walking all of it (Q1). An earlier one changes nothing.
    #[doc(hidden)]
    pub fn skip_correlations_to(&mut self, corr: Correlation) {
        self.next_corr = self.next_corr.map(|next| next.max(corr));
    }

    fn control(
        &mut self,
        now: Instant,
        kind: Kind,
        body: Body,
        deadline: Instant,
    ) -> Result<OpId, SubmitError> {
        let now = self.clock.observe(now);
        self.submit(now, None, kind, Flags::data(false, Priority::Interactive), body, deadline)
            .map_err(|error| SubmitError { body: Body::default(), ..error })
    }

    fn submit(
        &mut self,
        now: Instant,
        route: Option<RouteHandle>,
        kind: Kind,
        flags: Flags,
        body: Body,
        deadline: Instant,
    ) -> Result<OpId, SubmitError> {
        let len = body.len();
        let corr = match self.admit(now, route, &kind, len, deadline) {
            Ok(corr) => corr,
            Err(code) => return Err(SubmitError { code, body }),
        };
        let identity = route.map_or(Identity::Control(corr), |route| Identity::Routed(route, corr));
        // W10: the length is the body's own; `admit` has bounded it.
        let len = u32::try_from(len).unwrap_or(MAX_BODY);
        let header = Header { len, kind: FrameType::Request, flags, identity };
        let Some(id) = self.pending.vacant() else {
            return Err(SubmitError { code: NotSentCode::PendingFull, body });
        };
        // Q2: behind every earlier request.
        let frame = self.out.push_data(now, Head::envelope(&header), body, Owner::Op(id));
        let op = Op {
            serial: id.serial,
            corr,
            route,
            kind,
            phase: Phase::Pending,
            frame: Some(frame),
            handed: 0,
            tainted: false,
        };
        self.pending.insert(id, op, deadline);
        self.next_corr = corr.next(); // Q1, O4: a retry is a new one; burned by an admitted request only
        let counters = &mut self.counters;
        counters.pending_high_water = counters.pending_high_water.max(self.pending.pending());
        counters.streams_high_water = counters.streams_high_water.max(self.pending.streams());
        counters.queued_high_water = counters.queued_high_water.max(self.out.data_bytes());
        Ok(id)
    }

    /// B3: the order is the contract.
    fn admit(
        &self,
        now: Instant,
        route: Option<RouteHandle>,
        kind: &Kind,
        len: usize,
        deadline: Instant,
    ) -> Result<Correlation, NotSentCode> {
        // B3: the order of these checks is the contract.
        match self.state {
            State::Closing { .. } | State::Closed(crate::fault::CloseReason::Local) => {
                return Err(NotSentCode::ClientClosed);
            }
            State::Closed(_) | State::ReadOn { .. } => return Err(NotSentCode::ConnectionRetired),
            State::Hello(..) | State::Negotiating | State::Candidate(_) | State::Granted
                if route.is_none() =>
            {
                return Err(NotSentCode::ConnectionRetired);
            }
            State::Hello(..) | State::Negotiating | State::Candidate(_) | State::Granted | State::Active => {}
        }
        if deadline <= now {
            return Err(NotSentCode::DeadlineExpired); // E4
        }
        if route.is_some_and(|route| !self.is_live(route)) {
            return Err(NotSentCode::RouteNotLive); // K1, B050
        }
        if self.pending.pending() + self.untaken >= self.limits.pending_requests {
            return Err(NotSentCode::PendingFull);
        }
        if matches!(kind, Kind::Stream(_)) && self.pending.streams() >= self.limits.live_streams {
            return Err(NotSentCode::StreamsFull);
        }
        let most = if route.is_some() { MAX_BODY } else { MAX_CONTROL_BODY };
        if len > most as usize {
            return Err(NotSentCode::BodyTooLarge); // W7, C1
        }
        let held = self.out.data_bytes() + self.returned_bytes;
        if held + HEADER_LEN + len > self.limits.queued_bytes
            || self.out.data_frames() >= self.limits.data_slots
        {
            return Err(NotSentCode::QueueFull); // B2
        }
        self.next_corr.ok_or(NotSentCode::CorrelationsExhausted) // Q1, V22
    }
}
