//! Spans and events, as `tracing` wants them.

use super::limit::Limit;
use crate::client::ConnectError;
use crate::host::{Callback, Cause};
use crate::sync::lock;
use hostwire_core::fault::CloseReason;
use hostwire_core::host::{Owner, RequestId};
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use hostwire_core::wire::RouteHandle;
use std::sync::Mutex;
use tracing::field::Empty;
use tracing::{Level, debug, debug_span, enabled, info, warn};

/// A connection, a call or a handled request, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Span(tracing::Span);

impl Default for Span {
    fn default() -> Self {
        Self(tracing::Span::none())
    }
}

impl Span {
    /// A client's connection, by its number among all that this client has tried.
    pub(crate) fn of_client(connection: u64) -> Self {
        // Whoever happens to be polled when it begins is not its parent.
        Self(
            debug_span!(parent: None, "connection", role = "client", connection, transport = Empty, reason = Empty),
        )
    }

    /// A host's connection.
    pub(crate) fn of_host(Owner(connection): Owner) -> Self {
        Self(
            debug_span!(parent: None, "connection", role = "host", connection, transport = Empty, reason = Empty),
        )
    }

    /// A client's operation, in the caller's span.
    pub(crate) fn call(op: &'static str) -> Self {
        Self(debug_span!(
            "call",
            op,
            channel = Empty,
            epoch = Empty,
            outcome = Empty,
            code = Empty,
            bytes_handed = Empty,
            attempts = Empty
        ))
    }

    /// A request that a handler of this connection gets.
    pub(crate) fn request(&self, module_id: &str, route: RouteHandle, id: RequestId) -> Self {
        let (channel, epoch) = (route.channel.value(), route.epoch.value());
        let correlation = id.correlation().value();
        Self(debug_span!(parent: &self.0, "request", module_id, channel, epoch, correlation, end = Empty))
    }

    /// Runs a step inside it.
    pub(crate) fn run<T>(&self, step: impl FnOnce() -> T) -> T {
        self.0.in_scope(step)
    }

    /// What its connection goes over.
    pub(crate) fn transport(&self, transport: &'static str) {
        self.0.record("transport", transport);
    }

    /// Where a call goes.
    pub(crate) fn on(&self, route: impl FnOnce() -> RouteHandle) {
        if !self.0.is_disabled() {
            let route = route();
            self.0.record("channel", route.channel.value()).record("epoch", route.epoch.value());
        }
    }

    /// A call's result.
    pub(crate) fn settled(&self, outcome: &Outcome, bytes_handed: u64, attempts: u32) {
        if self.0.is_disabled() {
            return;
        }
        // Z1: our own codes only. A host's is text that it chose, as its message is.
        let (word, code) = match outcome {
            Outcome::NotSent { code, .. } => ("not_sent", Some(code.as_str())),
            Outcome::Unknown { code } => ("outcome_unknown", Some(code.as_str())),
            Outcome::Terminal(Terminal::Local(code)) => ("terminal", Some(code.as_str())),
            Outcome::Terminal(Terminal::Error(_)) => ("terminal", Some("host_error")),
            Outcome::Terminal(
                Terminal::RouteOpened(_)
                | Terminal::Response { .. }
                | Terminal::StreamEnd { .. }
                | Terminal::Catalog(_)
                | Terminal::ShutdownCommitted,
            ) => ("terminal", None),
        };
        self.0.record("outcome", word).record("bytes_handed", bytes_handed).record("attempts", attempts);
        if let Some(code) = code {
            self.0.record("code", code);
        }
    }

    /// How a handler has ended.
    pub(crate) fn end(&self, how: &'static str) {
        self.0.record("end", how);
    }
}

/// Kinds of events, each with a limit of its own.
#[derive(Clone, Copy)]
enum Note {
    Ended,
    Retired,
    AttemptFailed,
    AcceptFailed,
    HandshakesFull,
    CallbackFailed,
    Lifecycle,
}

const KINDS: usize = 7;

/// The events of one host or one client.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<[Limit; KINDS]>);

impl Notes {
    fn admit(&self, now: Instant, note: Note) -> Option<u64> {
        lock(&self.0).get_mut(note as usize)?.admit(now)
    }

    /// A connection has ended.
    pub(crate) fn connection_ended(&self, now: Instant, span: &Span, reason: CloseReason) {
        span.0.record("reason", tracing::field::display(reason));
        let orderly = match reason {
            CloseReason::Local
            | CloseReason::Abandoned
            | CloseReason::PeerGoodbye
            | CloseReason::Eof
            | CloseReason::Superseded
            | CloseReason::Drained => true,
            CloseReason::Peer(_)
            | CloseReason::Authentication(_)
            | CloseReason::Negotiation(_)
            | CloseReason::NegotiationRefused
            | CloseReason::NothingServed
            | CloseReason::Candidate(_)
            | CloseReason::HandshakeTimeout
            | CloseReason::FrameInTimeout
            | CloseReason::FrameOutTimeout
            | CloseReason::Io
            | CloseReason::ControlBacklog
            | CloseReason::Liveness
            | CloseReason::OverCapacity
            | CloseReason::Misuse(_)
            | _ => false,
        };
        if orderly {
            if enabled!(Level::DEBUG)
                && let Some(silent) = self.admit(now, Note::Ended)
            {
                debug!(parent: &span.0, %reason, silent, "connection ended");
            }
        } else if enabled!(Level::WARN)
            && let Some(silent) = self.admit(now, Note::Retired)
        {
            warn!(parent: &span.0, %reason, silent, "connection retired");
        }
    }

    /// A client could not connect.
    pub(crate) fn attempt_failed(&self, now: Instant, error: &ConnectError) {
        if enabled!(Level::WARN)
            && let Some(silent) = self.admit(now, Note::AttemptFailed)
        {
            warn!(code = error.code(), silent, "no connection");
        }
    }

    /// The listener failed, and rests (B120).
    pub(crate) fn accept_failed(&self, now: Instant, kind: std::io::ErrorKind) {
        if enabled!(Level::WARN)
            && let Some(silent) = self.admit(now, Note::AcceptFailed)
        {
            warn!(error = %kind, silent, "cannot accept");
        }
    }

    /// A socket was closed without a read (A8).
    pub(crate) fn handshakes_full(&self, now: Instant) {
        if enabled!(Level::WARN)
            && let Some(silent) = self.admit(now, Note::HandshakesFull)
        {
            warn!(silent, "handshake slots are full");
        }
    }

    /// A component's callback failed (H4, H5), or a handler panicked (B132).
    pub(crate) fn callback_failed(&self, now: Instant, module_id: &str, callback: Callback, cause: Cause) {
        if enabled!(Level::ERROR)
            && let Some(silent) = self.admit(now, Note::CallbackFailed)
        {
            tracing::error!(module_id, %callback, %cause, silent, "callback failed");
        }
    }

    /// The host can be found.
    pub(crate) fn host_runs(&self, now: Instant, port: u16) {
        if enabled!(Level::INFO)
            && let Some(silent) = self.admit(now, Note::Lifecycle)
        {
            info!(port, silent, "host runs");
        }
    }

    /// The host has begun to end.
    pub(crate) fn host_ends(&self, now: Instant) {
        if enabled!(Level::INFO)
            && let Some(silent) = self.admit(now, Note::Lifecycle)
        {
            info!(silent, "host ends");
        }
    }
}
