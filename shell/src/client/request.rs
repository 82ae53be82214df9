//! What a caller asks: a body and how long it may take.

use hostwire_core::body::Body;
use hostwire_core::time::Instant;
use hostwire_core::wire::Priority;
use std::time::Duration;

/// How long a caller waits, as one absolute deadline from the call on: queueing, retries and backoff included (E1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// The client's default for this operation (protocol.md §15).
    #[default]
    Default,
    /// So long. Zero settles at once, `not_sent`, without touching the socket (E4).
    For(Duration),
    /// Until this moment of the runtime's clock.
    Until(Instant),
}

impl Patience {
    pub(super) fn deadline(self, now: Instant, default: Duration) -> Instant {
        match self {
            Self::Default => now + default,
            Self::For(time) => now + time,
            Self::Until(at) => at,
        }
    }
}

/// A request: opaque bytes, and how they are to be treated.
///
/// ```
/// use hostwire::client::Request;
/// use std::time::Duration;
///
/// let text = Request::from(r#"{"do":"echo"}"#);
/// let bytes = Request::new(vec![0_u8; 16]).binary().within(Duration::from_secs(1));
/// # let _ = (text, bytes);
/// ```
#[derive(Debug, Default)]
pub struct Request {
    /// The bytes, at most 64 MiB (W7). Taken over without a copy.
    pub body: Body,
    /// The binary bit.
    pub binary: bool,
    /// The priority bits; Interactive unless chosen (W11).
    pub priority: Priority,
    /// The deadline.
    pub patience: Patience,
}

impl Request {
    /// A text request with the default patience.
    #[must_use]
    pub fn new(body: impl Into<Body>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// Sets the binary bit.
    #[must_use]
    pub fn binary(self) -> Self {
        Self { binary: true, ..self }
    }

    /// Chooses the priority bits.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Waits this long, all in all.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        Self { patience: Patience::For(time), ..self }
    }

    /// Waits until this moment of the runtime's clock.
    #[must_use]
    pub fn until(self, at: Instant) -> Self {
        Self { patience: Patience::Until(at), ..self }
    }
}

macro_rules! requests_from {
    ($($body:ty => $convert:expr),+ $(,)?) => {
        $(impl From<$body> for Request {
            fn from(body: $body) -> Self {
                Self::new($convert(body))
            }
        })+
    };
}

// Text as text; none of them copies.
requests_from! {
    Body => std::convert::identity,
    Vec<u8> => Body::from,
    bytes::Bytes => Body::from,
    &'static [u8] => Body::from,
    &'static str => |text: &'static str| Body::from(text.as_bytes()),
    String => |text: String| Body::from(text.into_bytes()),
}
