//! What both roles have in common for whoever drives them: the loop's vocabulary.

use crate::body::BodyLease;
use crate::fault::Fault;
use crate::time::Instant;
use crate::transmit::Transmit;

/// What a connection wants next: a pure function of its state, to be asked again at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interest {
    /// It takes input.
    pub read: bool,
    /// It has bytes to offer.
    pub write: bool,
    /// It has events to hand over.
    pub events: bool,
    /// Its last byte has left and the socket is to be shut down for writing; input is still taken (lingering close, design.md §5).
    pub half_close: bool,
}

/// Why a connection wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DeadlineReason {
    /// Authentication (A5), or setup as a whole (§15).
    Handshake,
    /// An operation's own deadline (E1).
    Operation,
    /// A frame that has begun to arrive (W6).
    FrameIn,
    /// A frame that is to leave (W6, B10).
    FrameOut,
    /// The close budget.
    Close,
    /// The end of a lingering close.
    Linger,
    /// The next probe, or the end of one (L2).
    Liveness,
    /// The end of an over-size body's drain (C1), or another bounded wait.
    Drain,
}

/// The next moment at which `handle_timeout` makes progress (CC5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline {
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: DeadlineReason,
}

impl Deadline {
    /// The earliest of several, or none.
    #[inline]
    pub(crate) fn earliest<const N: usize>(all: [Option<Self>; N]) -> Option<Self> {
        // A plain loop: it is asked in each round, and the iterators' `min` costs several times as much.
        let mut first = None;
        for one in &all {
            if let Some(one) = one
                && first.is_none_or(|first| *one < first)
            {
                first = Some(*one);
            }
        }
        first
    }
}

/// Why the transport is gone, as its owner knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Disconnect {
    /// A read failed.
    ReadFailed,
    /// After a failed write nothing more has arrived (G4).
    Exhausted,
    /// The embedder gives the connection up, at once.
    Abandoned,
}

/// What a failed write may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteFailure {
    /// The failing call accepted nothing (plain sockets).
    NothingAccepted,
    /// The failing call may have accepted anything offered (TLS, buffering layers).
    Indeterminate,
}

/// Both roles as their driver sees them: one value per connection, told everything and asking nothing.
///
/// Any call order is legal. `client::Connection` and `host::Connection` document each method's effect; the methods are inherent
/// there as well, this trait is for code that drives either.
pub trait Endpoint {
    /// Takes input; returns how many bytes were consumed (less than all only while the connection refuses input).
    ///
    /// # Errors
    /// [`Fault`], latched: every later input returns it again (CC11).
    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, Fault>;
    /// Moves a big body's buffer out, to be filled in place; `None` while no body of 64 KiB or more is arriving.
    fn lease_body(&mut self) -> Option<BodyLease>;
    /// Takes it back, filled further.
    fn return_body(&mut self, now: Instant, lease: BodyLease);
    /// The peer has closed its writing side.
    fn handle_eof(&mut self, now: Instant);
    /// Time has passed; before [`Endpoint::deadline`] this changes nothing.
    fn handle_timeout(&mut self, now: Instant);
    /// The transport is gone; outcomes are computed now (G4).
    fn handle_disconnect(&mut self, now: Instant, why: Disconnect);
    /// The next bytes to write, if there are any. Without anything between, idempotent (CC1).
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>>;
    /// The next moment at which time alone makes progress.
    fn deadline(&self) -> Option<Deadline>;
    /// What is wanted next.
    fn interest(&self) -> Interest;
    /// Whether the connection has ended: the socket is to be closed, nothing more will come but events still untaken.
    fn is_closed(&self) -> bool;
}
