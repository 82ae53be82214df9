//! Output: what waits to leave, in which order, and how many bytes of each frame did.
//!
//! [`Transmit`] is the offer that the embedder answers by value; the outbox behind it keeps the two lanes (B2) and the one frame that
//! has begun (W8). Nothing here knows what a frame means.

mod offer;
mod outbox;

pub use offer::Transmit;
pub(crate) use offer::{Offer, Outgoing};
pub(crate) use outbox::{FrameKey, Head, Outbox, Patience, Progress};

/// The most frames that one offer covers.
pub const MAX_OFFER_FRAMES: usize = 64;
/// The most segments that one offer fills: header and body of each frame.
pub const MAX_SEGMENTS: usize = 2 * MAX_OFFER_FRAMES;
