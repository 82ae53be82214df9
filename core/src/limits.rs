//! Every capacity and every duration, in one place: defaults of protocol.md §14 and §15, all finite, zero refused (B1).
//!
//! What a connection can hold in memory is a function of these numbers, known in advance: `memory_bound()`.

use core::time::Duration;

/// A limit that cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// A limit or a duration is zero.
    #[error("{0} is zero")]
    Zero(&'static str),
    /// A limit is over what the protocol allows.
    #[error("{0} is over its maximum")]
    TooLarge(&'static str),
}

/// What a client's connection may hold (protocol.md §14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Requests without a final result, settlements that were not yet taken included.
    pub pending_requests: usize,
    /// Live streams, those with items still readable included.
    pub live_streams: usize,
    /// Unread items per stream; the next one saturates it (B4).
    pub stream_items: usize,
    /// Data frames that wait to leave (B2).
    pub data_slots: usize,
    /// Their bytes, headers included, the frame that has begun too.
    pub queued_bytes: usize,
    /// Bytes of answers and stream items that the caller has not taken (B4).
    pub retained_bytes: usize,
    /// Bytes kept of an error's message (C6).
    pub error_message: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            pending_requests: 1_024,
            live_streams: 64,
            stream_items: 16,
            data_slots: 256,
            queued_bytes: 68_157_440,
            retained_bytes: 68_157_440,
            error_message: 4_096,
        }
    }
}

/// Slots that a client reserves for control frames (B2): all of them, what `Cancel` may take, what `Cancel` and `Goodbye` may take together.
pub const CONTROL_SLOTS: usize = 32;
/// Of [`CONTROL_SLOTS`], the share of `Cancel`.
pub const CANCEL_SLOTS: usize = 16;
/// Of [`CONTROL_SLOTS`], the share of `Cancel` and `Goodbye` together.
pub const CANCEL_AND_GOODBYE_SLOTS: usize = 28;

/// How long a client's connection waits (protocol.md §15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// Discovery, dial, authentication and negotiation together.
    pub setup: Duration,
    /// A frame, from its first byte, in and out (W6).
    pub frame: Duration,
    /// Opening a route, retries and backoff included.
    pub route_open: Duration,
    /// A request, unless the caller says otherwise.
    pub request: Duration,
    /// The close.
    pub close: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self {
            setup: Duration::from_secs(2),
            frame: Duration::from_secs(30),
            route_open: Duration::from_secs(30),
            request: Duration::from_secs(30),
            close: Duration::from_secs(5),
        }
    }
}

fn nonzero(all: &[(&'static str, usize)]) -> Result<(), LimitError> {
    match all.iter().find(|(_, value)| *value == 0) {
        Some((name, _)) => Err(LimitError::Zero(name)), // B1
        None => Ok(()),
    }
}

fn nonzero_time(all: &[(&'static str, Duration)]) -> Result<(), LimitError> {
    match all.iter().find(|(_, value)| value.is_zero()) {
        Some((name, _)) => Err(LimitError::Zero(name)), // E4
        None => Ok(()),
    }
}

impl ClientLimits {
    /// Checks that every limit is finite and nonzero (B1).
    ///
    /// # Errors
    /// [`LimitError`], naming the first that does not hold.
    pub fn validate(&self) -> Result<(), LimitError> {
        nonzero(&[
            ("pending_requests", self.pending_requests),
            ("live_streams", self.live_streams),
            ("stream_items", self.stream_items),
            ("data_slots", self.data_slots),
            ("queued_bytes", self.queued_bytes),
            ("retained_bytes", self.retained_bytes),
            ("error_message", self.error_message),
        ])?;
        let slots = u32::MAX as usize / 2;
        if self.pending_requests > slots {
            return Err(LimitError::TooLarge("pending_requests"));
        }
        Ok(())
    }
}

impl ClientTimeouts {
    /// Checks that no duration is zero (E4).
    ///
    /// # Errors
    /// [`LimitError`], naming the first that is.
    pub fn validate(&self) -> Result<(), LimitError> {
        nonzero_time(&[
            ("setup", self.setup),
            ("frame", self.frame),
            ("route_open", self.route_open),
            ("request", self.request),
            ("close", self.close),
        ])
    }
}

/// What a host may hold, over all its connections unless it says otherwise (protocol.md §14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Connections that are not yet authenticated (A8).
    pub handshakes: usize,
    /// Authenticated connections (A9).
    pub connections: usize,
    /// Routes, those mid-bind and mid-close included; at most 65,535.
    pub routes: usize,
    /// Requests without a terminal that has begun to leave, both classes together (B7, B9).
    pub pending_requests: usize,
    /// Handlers that have not ended, both classes together (B7, B9).
    pub handler_tasks: usize,
    /// Per connection: stream items that wait to leave, and refusals that may wait before reading pauses (B6).
    pub writer_frames: usize,
    /// Bytes of bodies, in and out, of scratch, and of what components retain (B8).
    pub resident_bytes: usize,
    /// Bytes of an error's code that is sent (B11).
    pub error_code: usize,
    /// Bytes of an error's message that is sent; a longer one becomes `internal_error` (§14).
    pub error_message: usize,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            handshakes: 32,
            connections: 64,
            routes: 1_024,
            pending_requests: 1_024,
            handler_tasks: 256,
            writer_frames: 64,
            resident_bytes: 268_435_456,
            error_code: 128,
            error_message: 4_096,
        }
    }
}

/// How long a host waits (protocol.md §15). What only callbacks and sockets need is the shell's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTimeouts {
    /// Authentication, absolute (A5).
    pub authentication: Duration,
    /// Negotiation and candidate setup, from authentication.
    pub setup: Duration,
    /// A frame, from its first byte in (W6), and from the moment when it is the next to leave (B10).
    pub frame: Duration,
    /// A route's close: the grace of its handlers, then the same again to join them (R6).
    pub route_close: Duration,
    /// A component's callback.
    pub callback: Duration,
    /// The drain at shutdown (§17).
    pub drain: Duration,
    /// The pause after a failed accept.
    pub accept_pause: Duration,
    /// The lingering close.
    pub linger: Duration,
    /// Probes; off unless configured (L2).
    pub liveness: Option<LivenessTimes>,
}

/// When a host probes, and how long it waits for the answer (L2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivenessTimes {
    /// From the end of one probe to the next.
    pub interval: Duration,
    /// From the last byte of a `Ping` to its miss.
    pub timeout: Duration,
}

impl Default for HostTimeouts {
    fn default() -> Self {
        Self {
            authentication: Duration::from_secs(2),
            setup: Duration::from_secs(2),
            frame: Duration::from_secs(30),
            route_close: Duration::from_secs(5),
            callback: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            accept_pause: Duration::from_millis(100),
            linger: Duration::from_millis(500),
            liveness: None,
        }
    }
}

/// Bytes of input that a lingering close reads and throws away.
pub const LINGER_BYTES: usize = 262_144;

impl HostLimits {
    /// Checks that every limit is finite and nonzero (B1), and that channel numbers suffice.
    ///
    /// Whether the limits carry a set of components is `host::Shared::new`'s to say (B7).
    ///
    /// # Errors
    /// [`LimitError`], naming the first that does not hold.
    pub fn validate(&self) -> Result<(), LimitError> {
        nonzero(&[
            ("handshakes", self.handshakes),
            ("connections", self.connections),
            ("routes", self.routes),
            ("pending_requests", self.pending_requests),
            ("handler_tasks", self.handler_tasks),
            ("writer_frames", self.writer_frames),
            ("resident_bytes", self.resident_bytes),
            ("error_code", self.error_code),
            ("error_message", self.error_message),
        ])?;
        let maxima = [
            ("routes", self.routes, usize::from(u16::MAX)),
            ("pending_requests", self.pending_requests, u32::MAX as usize / 2),
            ("error_code", self.error_code, 128), // C6
            ("error_message", self.error_message, 4_096),
        ];
        match maxima.iter().find(|(_, value, most)| value > most) {
            Some((name, ..)) => Err(LimitError::TooLarge(name)),
            None => Ok(()),
        }
    }
}

impl HostTimeouts {
    /// Checks that no duration is zero (E4).
    ///
    /// # Errors
    /// [`LimitError`], naming the first that is.
    pub fn validate(&self) -> Result<(), LimitError> {
        nonzero_time(&[
            ("authentication", self.authentication),
            ("setup", self.setup),
            ("frame", self.frame),
            ("route_close", self.route_close),
            ("callback", self.callback),
            ("drain", self.drain),
            ("accept_pause", self.accept_pause),
            ("linger", self.linger),
        ])?;
        match &self.liveness {
            Some(times) => {
                nonzero_time(&[("liveness interval", times.interval), ("liveness timeout", times.timeout)])
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_zero_is_refused_by_name_whatever_the_limit() {
        let client = ClientLimits::default();
        assert_eq!(client.validate(), Ok(()));
        for (limits, name) in [
            (ClientLimits { pending_requests: 0, ..client }, "pending_requests"),
            (ClientLimits { live_streams: 0, ..client }, "live_streams"),
            (ClientLimits { stream_items: 0, ..client }, "stream_items"),
            (ClientLimits { data_slots: 0, ..client }, "data_slots"),
            (ClientLimits { queued_bytes: 0, ..client }, "queued_bytes"),
            (ClientLimits { retained_bytes: 0, ..client }, "retained_bytes"),
            (ClientLimits { error_message: 0, ..client }, "error_message"),
        ] {
            assert_eq!(limits.validate(), Err(LimitError::Zero(name)));
        }
        let host = HostLimits::default();
        assert_eq!(host.validate(), Ok(()));
        for (limits, name) in [
            (HostLimits { handshakes: 0, ..host }, "handshakes"),
            (HostLimits { connections: 0, ..host }, "connections"),
            (HostLimits { routes: 0, ..host }, "routes"),
            (HostLimits { pending_requests: 0, ..host }, "pending_requests"),
            (HostLimits { handler_tasks: 0, ..host }, "handler_tasks"),
            (HostLimits { writer_frames: 0, ..host }, "writer_frames"),
            (HostLimits { resident_bytes: 0, ..host }, "resident_bytes"),
            (HostLimits { error_code: 0, ..host }, "error_code"),
            (HostLimits { error_message: 0, ..host }, "error_message"),
        ] {
            assert_eq!(limits.validate(), Err(LimitError::Zero(name)));
        }
    }

    #[test]
    fn a_limit_over_what_the_protocol_or_a_table_allows_is_refused_by_name() {
        let slots = 2_147_483_647;
        let client =
            |pending_requests| ClientLimits { pending_requests, ..ClientLimits::default() }.validate();
        assert_eq!(client(slots), Ok(()));
        assert_eq!(client(slots + 1), Err(LimitError::TooLarge("pending_requests")));
        assert_eq!(client(slots + 2), Err(LimitError::TooLarge("pending_requests")));
        let host = HostLimits::default();
        for (fits, over, name) in [
            (HostLimits { routes: 65_535, ..host }, HostLimits { routes: 65_536, ..host }, "routes"),
            (
                HostLimits { pending_requests: slots, ..host },
                HostLimits { pending_requests: slots + 1, ..host },
                "pending_requests",
            ),
            (HostLimits { error_code: 128, ..host }, HostLimits { error_code: 129, ..host }, "error_code"),
            (
                HostLimits { error_message: 4_096, ..host },
                HostLimits { error_message: 4_097, ..host },
                "error_message",
            ),
        ] {
            assert_eq!((fits.validate(), over.validate()), (Ok(()), Err(LimitError::TooLarge(name))));
        }
    }

    #[test]
    fn e4_a_duration_of_zero_is_refused_by_name() {
        let zero = Duration::ZERO;
        let client = ClientTimeouts::default();
        assert_eq!(client.validate(), Ok(()));
        for (times, name) in [
            (ClientTimeouts { setup: zero, ..client }, "setup"),
            (ClientTimeouts { frame: zero, ..client }, "frame"),
            (ClientTimeouts { route_open: zero, ..client }, "route_open"),
            (ClientTimeouts { request: zero, ..client }, "request"),
            (ClientTimeouts { close: zero, ..client }, "close"),
        ] {
            assert_eq!(times.validate(), Err(LimitError::Zero(name)));
        }
        let host = HostTimeouts::default();
        assert_eq!(host.validate(), Ok(()));
        let probes = |interval, timeout| Some(LivenessTimes { interval, timeout });
        let second = Duration::from_secs(1);
        for (times, name) in [
            (HostTimeouts { authentication: zero, ..host }, "authentication"),
            (HostTimeouts { setup: zero, ..host }, "setup"),
            (HostTimeouts { frame: zero, ..host }, "frame"),
            (HostTimeouts { route_close: zero, ..host }, "route_close"),
            (HostTimeouts { callback: zero, ..host }, "callback"),
            (HostTimeouts { drain: zero, ..host }, "drain"),
            (HostTimeouts { accept_pause: zero, ..host }, "accept_pause"),
            (HostTimeouts { linger: zero, ..host }, "linger"),
            (HostTimeouts { liveness: probes(zero, second), ..host }, "liveness interval"),
            (HostTimeouts { liveness: probes(second, zero), ..host }, "liveness timeout"),
        ] {
            assert_eq!(times.validate(), Err(LimitError::Zero(name)));
        }
        assert_eq!(HostTimeouts { liveness: probes(second, second), ..host }.validate(), Ok(()));
    }
}
