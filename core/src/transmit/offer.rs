//! The linear offer: bytes are peeked at, and nothing leaves the queue until the answer says how many were taken.

use crate::endpoint::WriteFailure;
use crate::fault::ApiMisuse;
use crate::time::Instant;
use core::fmt;

/// What one offer covers, counted when it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
}

/// A role's side of the offer.
pub(crate) trait Outgoing {
    /// Fills `out` with the offer's segments in wire order; returns how many.
    fn gather<'s>(&'s self, offer: Offer, out: &mut [&'s [u8]]) -> usize;
    /// Exactly `n` bytes of the offer were accepted.
    fn accepted(&mut self, now: Instant, n: usize);
    /// The write failed: output is over.
    fn write_failed(&mut self, now: Instant, offer: Offer, how: WriteFailure);
    /// The contract was broken: output is over, and anything offered may have left.
    fn misused(&mut self, now: Instant, offer: Offer, how: ApiMisuse);
}

/// One offer of bytes, which borrows the connection and is answered once, by value.
///
/// Dropped unanswered it counts as "anything offered may have left" (CC8): a write future that was dropped half way.
#[must_use = "an unanswered offer ends the connection's output"]
pub struct Transmit<'a> {
    conn: &'a mut dyn Outgoing,
    offer: Offer,
    now: Instant,
    answered: bool,
}

impl<'a> Transmit<'a> {
    pub(crate) fn new(conn: &'a mut dyn Outgoing, offer: Offer, now: Instant) -> Self {
        Self { conn, offer, now, answered: false }
    }

    /// Bytes offered; never zero.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.offer.bytes
    }

    /// Never: an empty offer is not made.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Frames offered, whole or their rest.
    #[must_use]
    pub const fn frames(&self) -> usize {
        self.offer.frames
    }

    /// Fills `out` with slices in wire order (header, body, header, body …), as many as fit; returns how many were filled.
    /// [`MAX_SEGMENTS`](super::MAX_SEGMENTS) always suffice.
    pub fn segments<'s>(&'s self, out: &mut [&'s [u8]]) -> usize {
        self.conn.gather(self.offer, out)
    }

    /// The transport accepted the first `n` bytes of the offer; zero is legal.
    ///
    /// # Errors
    /// [`ApiMisuse::WroteMoreThanOffered`]; the connection is poisoned and never panics (B011).
    pub fn written(mut self, n: usize) -> Result<(), ApiMisuse> {
        self.answered = true;
        if n > self.offer.bytes {
            let misuse = ApiMisuse::WroteMoreThanOffered;
            self.conn.misused(self.now, self.offer, misuse);
            return Err(misuse);
        }
        if n > 0 {
            self.conn.accepted(self.now, n);
        }
        Ok(())
    }

    /// The transport would block; nothing was accepted.
    pub fn blocked(mut self) {
        self.answered = true;
    }

    /// The write failed. Output is over; input stays legal until EOF, a read error or `handle_disconnect` (G4).
    pub fn failed(mut self, how: WriteFailure) {
        self.answered = true;
        self.conn.write_failed(self.now, self.offer, how);
    }
}

impl Drop for Transmit<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.conn.misused(self.now, self.offer, ApiMisuse::OfferUnanswered); // CC8
        }
    }
}

impl fmt::Debug for Transmit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmit").field("offer", &self.offer).finish_non_exhaustive()
    }
}
