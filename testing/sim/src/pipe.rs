//! One direction of bytes: what the writer's transport accepts, and what the reader is given, when and in which pieces.

use hostwire_core::endpoint::{Endpoint, WriteFailure};
use hostwire_core::time::Instant;
use hostwire_core::transmit::{MAX_SEGMENTS, Transmit};
use std::collections::VecDeque;
use std::time::Duration;

/// How a write ends once the cut is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCut {
    /// The failing call accepted nothing.
    NothingAccepted,
    /// The failing call may have accepted anything.
    Indeterminate,
    /// The write future was dropped: nobody answers the offer.
    Unanswered,
    /// The write does not fail; the reader just sees no more, and then the end.
    Silent,
}

/// Where a direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes that still pass.
    pub after: usize,
    /// What the writer sees.
    pub how: WriteCut,
}

/// The knobs of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// Bytes that one write accepts at most; zero is a stall.
    pub accept: usize,
    /// Bytes that one read gives at most.
    pub deliver: usize,
    /// Whether big bodies are read through leases.
    pub lease: bool,
    /// How long bytes are under way.
    pub delay: Duration,
    /// Where it ends.
    pub cut: Option<Cut>,
}

impl Default for Knobs {
    fn default() -> Self {
        Self { accept: usize::MAX, deliver: usize::MAX, lease: false, delay: Duration::ZERO, cut: None }
    }
}

/// One direction. Remembers every byte that was accepted and how many were delivered: the model's whole evidence.
#[derive(Debug, Default)]
pub struct Pipe {
    /// The knobs, to be turned at any time.
    pub knobs: Knobs,
    /// All bytes that were ever accepted.
    pub accepted: Vec<u8>,
    /// What is carried to the reader: those, and whatever was forged on the way.
    carried: Vec<u8>,
    /// How many of the carried bytes the reader was given.
    pub delivered: usize,
    /// The reader was lied to: what it saw is not what its peer said.
    pub forged: bool,
    /// When each run of bytes arrives, as (cumulative end, instant).
    arrivals: VecDeque<(usize, Instant)>,
    /// The most bytes that a failed or unanswered write may have taken beyond the accepted ones.
    pub maybe: usize,
    /// The writer's transport has failed.
    pub broken: bool,
    /// The reader has been told of the end.
    pub ended: bool,
}

impl Pipe {
    /// Moves bytes from the writer into the pipe, by one write. Returns whether anything happened.
    pub fn write(&mut self, from: &mut impl Endpoint, now: Instant) -> bool {
        if self.broken || self.knobs.accept == 0 {
            return false;
        }
        let Some(offer) = from.poll_transmit(now) else { return false };
        let room = match self.knobs.cut {
            Some(cut) => cut.after.saturating_sub(self.accepted.len()),
            None => usize::MAX,
        };
        if room == 0
            && let Some(cut) = self.knobs.cut
        {
            self.broken = true;
            self.maybe = match cut.how {
                WriteCut::Indeterminate | WriteCut::Unanswered => offer.len(),
                WriteCut::NothingAccepted | WriteCut::Silent => 0,
            };
            match cut.how {
                WriteCut::NothingAccepted => offer.failed(WriteFailure::NothingAccepted),
                WriteCut::Indeterminate => offer.failed(WriteFailure::Indeterminate),
                WriteCut::Unanswered => drop(offer),
                WriteCut::Silent => offer.blocked(),
            }
            return true;
        }
        let n = offer.len().min(self.knobs.accept).min(room);
        let before = self.accepted.len();
        self.copy(&offer, n);
        offer.blocked();
        let again = from.poll_transmit(now).expect("CC1: what was not taken is offered again");
        let segments = &mut [&[][..]; MAX_SEGMENTS];
        let filled = again.segments(segments);
        let mut rest = &self.accepted[before..];
        for segment in &segments[..filled] {
            let (here, behind) = rest.split_at(segment.len().min(rest.len()));
            assert_eq!(&segment[..here.len()], here, "CC1: the same offer, twice");
            rest = behind;
        }
        assert!(rest.is_empty() && again.len() >= n, "CC1: the same offer, twice");
        again.written(n).expect("no more than was offered");
        self.arrivals.push_back((self.carried.len(), now + self.knobs.delay));
        true
    }

    fn copy(&mut self, offer: &Transmit<'_>, n: usize) {
        let mut segments = [&[][..]; MAX_SEGMENTS];
        let filled = offer.segments(&mut segments);
        let mut left = n;
        for segment in &segments[..filled] {
            let part = &segment[..segment.len().min(left)];
            self.accepted.extend_from_slice(part);
            self.carried.extend_from_slice(part);
            left -= part.len();
        }
        assert_eq!(left, 0, "an offer's segments hold at least its length");
    }

    /// Puts bytes of nobody's behind what is carried, as a peer that misbehaves would send them.
    pub fn forge(&mut self, bytes: &[u8], now: Instant) {
        self.forged = true;
        self.carried.extend_from_slice(bytes);
        self.arrivals.push_back((self.carried.len(), now + self.knobs.delay));
    }

    /// Turns one bit of what is still under way. Returns whether anything is.
    pub fn garble(&mut self, bit: usize) -> bool {
        let under_way = &mut self.carried[self.delivered..];
        let found = under_way.len().checked_sub(1).map(|last| (bit / 8).min(last));
        if let Some(place) = found {
            under_way[place] ^= 1 << (bit % 8);
            self.forged = true;
        }
        found.is_some()
    }

    /// Bytes that have arrived by `now` and were not delivered.
    #[must_use]
    pub fn arrived(&self, now: Instant) -> usize {
        let end = self
            .arrivals
            .iter()
            .take_while(|(_, at)| *at <= now)
            .last()
            .map_or(self.delivered, |(end, _)| *end);
        end.max(self.delivered) - self.delivered
    }

    /// When the next bytes arrive.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.arrivals.iter().find(|(end, _)| *end > self.delivered).map(|(_, at)| *at)
    }

    /// Gives the reader what has arrived, by one read. Returns whether anything happened.
    pub fn read(&mut self, to: &mut impl Endpoint, now: Instant) -> bool {
        if self.ended || to.is_closed() || !to.interest().read {
            return false;
        }
        let ready = self.arrived(now).min(self.knobs.deliver);
        if ready == 0 {
            // The end comes behind the last byte.
            let over = self.broken && self.delivered == self.carried.len();
            if over {
                self.ended = true;
                to.handle_eof(now);
            }
            return over;
        }
        let bytes = &self.carried[self.delivered..self.delivered + ready];
        let taken = if self.knobs.lease
            && let Some(mut lease) = to.lease_body()
        {
            let n = lease.room().min(ready);
            lease.buffer().extend_from_slice(&bytes[..n]);
            to.return_body(now, lease);
            n
        } else {
            match to.handle_input(now, bytes) {
                Ok(taken) => taken,
                Err(fault) => {
                    assert_eq!(to.handle_input(now, bytes), Err(fault), "CC11: a fault is latched");
                    ready // it takes the rest with it
                }
            }
        };
        self.delivered += taken;
        while self.arrivals.front().is_some_and(|(end, _)| *end <= self.delivered) {
            self.arrivals.pop_front();
        }
        taken > 0
    }

    /// The bytes that the reader was given.
    #[must_use]
    pub fn seen(&self) -> &[u8] {
        &self.carried[..self.delivered]
    }
}
