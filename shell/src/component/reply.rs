//! What a component answers.

use super::BoxFuture;
use super::context::ParkRefused;
use hostwire_core::body::Body;
use std::fmt;

/// How a request is being answered.
///
/// `Ready` is sent in the same turn and costs no box, no task and no wake-up. The other two run on one task each.
pub enum Handled {
    /// The answer.
    Ready(Reply),
    /// The answer comes later.
    Future(BoxFuture<'static, Reply>),
    /// Items are sent through the context; `Ok` ends the stream, `Err` ends it with that error.
    Stream(BoxFuture<'static, Result<(), ErrorReply>>),
}

impl Handled {
    /// Boxes a future that gives the answer, or an error.
    pub fn future<F, E>(future: F) -> Self
    where
        F: Future<Output = Result<Reply, E>> + Send + 'static,
        E: Into<ErrorReply>,
    {
        Self::Future(Box::pin(async move { future.await.unwrap_or_else(|error| Reply::Error(error.into())) }))
    }

    /// Boxes a future that sends items and then ends the stream.
    pub fn stream<F, E>(future: F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<ErrorReply>,
    {
        Self::Stream(Box::pin(async move { future.await.map_err(Into::into) }))
    }
}

impl From<Reply> for Handled {
    fn from(reply: Reply) -> Self {
        Self::Ready(reply)
    }
}

impl From<ErrorReply> for Handled {
    fn from(error: ErrorReply) -> Self {
        Self::Ready(Reply::Error(error))
    }
}

impl From<ParkRefused> for Handled {
    fn from(refused: ParkRefused) -> Self {
        ErrorReply::from(refused).into()
    }
}

impl fmt::Debug for Handled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(reply) => f.debug_tuple("Ready").field(reply).finish(),
            Self::Future(_) => f.write_str("Future"),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// The one answer of a unary request.
#[derive(Debug)]
pub enum Reply {
    /// A `Response`.
    Response {
        /// The binary bit.
        binary: bool,
        /// The answer, at most 64 MiB (W7).
        body: Body,
    },
    /// An `Error`.
    Error(ErrorReply),
}

impl Reply {
    /// A text (JSON, by convention) answer.
    pub fn text(body: impl Into<Body>) -> Self {
        Self::Response { binary: false, body: body.into() }
    }

    /// A binary answer.
    pub fn binary(body: impl Into<Body>) -> Self {
        Self::Response { binary: true, body: body.into() }
    }
}

impl From<ErrorReply> for Reply {
    fn from(error: ErrorReply) -> Self {
        Self::Error(error)
    }
}

/// An application's error, as it goes to the client.
///
/// `code` is stable and for programs, 1 to 128 bytes of `[A-Za-z0-9_.-]`; `message` is for people, at most 4,096 bytes. Whatever breaks
/// that, or says `unknown_channel` or `server_busy` (only the host can know that nothing ran), becomes `internal_error` before it is
/// sent (B11). Of a bind the code may be any well-formed one; an empty one becomes `bind_rejected` (R2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply {
    code: String,
    message: String,
    retry_after_ms: Option<u64>,
    busy: bool,
}

impl ErrorReply {
    /// An error with a code for programs and a message for people.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), retry_after_ms: None, busy: false }
    }

    /// Adds the advice to try again after so many milliseconds (C6).
    #[must_use]
    pub const fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The advice.
    #[must_use]
    pub const fn retry_after(&self) -> Option<u64> {
        self.retry_after_ms
    }

    /// What [`ParkRefused`] becomes; nothing else makes one.
    pub(super) fn busy() -> Self {
        Self { busy: true, ..Self::new("server_busy", "the component is busy") }
    }

    pub(crate) const fn is_busy(&self) -> bool {
        self.busy
    }
}
