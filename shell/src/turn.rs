//! One turn of one connection: read, hand over, write, within a budget; told everything, waiting for nothing.
//!
//! Owns the order of things between a socket and a core, and what it remembers of the socket ([`Link`]). The same function drives a
//! runtime's task ([`drive`](crate::drive)), an `epoll` loop and a simulator. It never waits, never holds the connection's lock
//! while anything but the core runs, and leaves nothing half done when its caller stops calling it: whoever drops the
//! connection between two turns drops a whole number of calls.

use crate::runtime::Tried;
use crate::socket::with_read_buffer;
use hostwire_core::body::BodyLease;
use hostwire_core::endpoint::{Deadline, Disconnect, Endpoint, Interest, WriteFailure};
use hostwire_core::time::Instant;
use hostwire_core::transmit::{MAX_SEGMENTS, Transmit};
use std::fmt;
use std::io;

/// Rounds of one turn; each reads at most one buffer and makes at most one bounded write.
const ROUNDS: usize = 16;
/// Bytes that a turn reads and writes before it ends, so that others on the thread do not wait for one connection's big bodies. The
/// call that passes it is its last. It holds for a connection without company as well: to go further there made those who came wait
/// longer, and gained nothing.
pub const TURN_BYTES: usize = 256 * 1_024;
/// The most bytes that one read asks for: those of a big body may touch memory for the first time, which costs more than they do.
pub const READ_MAX: usize = 256 * 1_024;
/// The most bytes that one write is given, so that the time under a connection's lock is bounded as well. Half of it would cost big
/// bodies a tenth of their speed.
pub const WRITE_MAX: usize = 512 * 1_024;
/// Input that is taken before a due deadline is judged, at most: more than a socket's buffer holds, so all that had arrived.
const DUE_INPUT_MAX: usize = 8 * 1_024 * 1_024;
/// G4: input that is taken after a failed write, at most.
const AFTER_FAILURE_MAX: usize = 1_024 * 1_024;
/// Segments of an offer of one or two frames, as a connection with little to say makes it.
const FEW_SEGMENTS: usize = 4;

/// Whether a read may rely on what is known about readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Freshness {
    /// A runtime that believes there is nothing may say so without a call.
    Known,
    /// The socket itself is asked: something is about to be decided on there being nothing.
    Asked,
}

/// A connected byte stream as [`turn`] uses it: calls that never wait.
pub trait Transport {
    /// What a failing write may have done.
    const WRITE_FAILURE: WriteFailure;

    /// Reads once. Zero bytes are the end of input.
    fn read(&self, buffer: &mut [u8], freshness: Freshness) -> Tried<usize>;
    /// Reads at most so many bytes once, straight into a big body's buffer. Zero bytes are the end of input.
    fn read_lease(&self, lease: &mut BodyLease, most: usize, freshness: Freshness) -> Tried<usize>;
    /// Writes once, any prefix of the segments up to so many bytes. Called under the connection's lock, so it must be bounded.
    fn write(&self, segments: &[&[u8]], most: usize) -> Tried<usize>;
    /// Ends the output; input goes on.
    ///
    /// # Errors
    /// As the system reports.
    fn half_close(&self) -> io::Result<()>;
}

/// The connection's owner, as [`turn`] sees it: where the core lives, and who takes its events.
pub trait Seat {
    /// The role.
    type Core: Endpoint;

    /// Runs one step on the core, under its lock if it has one.
    fn with<R>(&mut self, step: impl FnOnce(&mut Self::Core) -> R) -> R;

    /// Takes the core's events and acts on them: wakes callers, runs handlers that are ready. Called without the lock. Returns
    /// whether there was anything.
    fn settle(&mut self, now: Instant) -> bool;
}

/// What is remembered of a socket from turn to turn.
pub struct Link {
    readable: bool,
    writable: bool,
    input: Input,
    output: Output,
    /// Bytes that arrived and that the core has not taken yet.
    kept: Vec<u8>,
    /// Bytes taken since a deadline was found due.
    due_input: usize,
    /// Bytes read and written in this turn.
    moved: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Open,
    HalfClosed,
    /// A write has failed; so many bytes were read since.
    Failed {
        read: usize,
    },
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The connection has ended and its last events are taken: close the socket.
    Closed,
    /// The budget is spent and there is more to do: let others run, then call again.
    Again,
    /// Nothing to do until one of these happens, or a command changes the core.
    Wait(Wait),
}

/// What to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The socket can be read; then call [`Link::readable`].
    pub read: bool,
    /// The socket can be written; then call [`Link::writable`].
    pub write: bool,
    /// This moment.
    pub deadline: Option<Deadline>,
}

impl Default for Link {
    fn default() -> Self {
        // Trying costs a call; not trying could cost a wait.
        Self {
            readable: true,
            writable: true,
            input: Input::Open,
            output: Output::Open,
            kept: Vec::new(),
            due_input: 0,
            moved: 0,
        }
    }
}

impl Link {
    /// A fresh, connected socket.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The socket may have input now.
    pub const fn readable(&mut self) {
        self.readable = true;
    }

    /// The socket may take output now.
    pub const fn writable(&mut self) {
        self.writable = true;
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("input", &self.input)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// What the core wants, asked once per round.
struct Wants {
    interest: Interest,
    deadline: Option<Deadline>,
    closed: bool,
}

fn ask<S: Seat>(seat: &mut S) -> Wants {
    seat.with(|core| Wants { interest: core.interest(), deadline: core.deadline(), closed: core.is_closed() })
}

/// What a round's reading came to.
#[derive(Clone, Copy, Default)]
struct Read {
    progress: bool,
    /// All that had arrived by now is taken.
    drained: bool,
}

/// Drives one connection as far as it goes without waiting, at most [`Turn::Again`] far.
///
/// `now` is one reading for the whole turn. A deadline that is due is judged only when the socket, asked afresh, has no more input:
/// what has arrived in time counts, however late this is called (X5).
pub fn turn<T: Transport, S: Seat>(link: &mut Link, transport: &T, seat: &mut S, now: Instant) -> Turn {
    link.moved = 0;
    for _ in 0..ROUNDS {
        let mut wants = ask(seat);
        let mut progress = false;
        if wants.interest.events {
            progress |= seat.settle(now);
            wants = ask(seat);
        }
        if wants.closed {
            while seat.settle(now) {}
            return Turn::Closed;
        }
        let due = wants.deadline.is_some_and(|deadline| deadline.at <= now);
        if !due {
            link.due_input = 0;
        }
        let failed = matches!(link.output, Output::Failed { .. });
        // Known readiness serves, unless something is about to be decided on there being nothing.
        let freshness = if due || failed { Freshness::Asked } else { Freshness::Known };
        let input = if wants.interest.read && link.input == Input::Open {
            take_input(link, transport, seat, now, freshness)
        } else {
            Read { progress: false, drained: true }
        };
        progress |= input.progress;
        if due && (input.drained || link.due_input >= DUE_INPUT_MAX) {
            // B057: only now, since all that had arrived has been taken.
            seat.with(|core| core.handle_timeout(now));
            progress = true;
        }
        progress |= give_output(link, transport, seat, now, wants.interest, progress);
        if let Output::Failed { read } = link.output
            && failed
            && link.input == Input::Open
            && (input.drained || read >= AFTER_FAILURE_MAX)
        {
            // G4: what had arrived has been taken, so outcomes can be computed.
            link.input = Input::Ended;
            seat.with(|core| core.handle_disconnect(now, Disconnect::Exhausted));
            progress = true;
        }
        if !progress {
            return Turn::Wait(Wait {
                read: wants.interest.read && link.input == Input::Open,
                write: wants.interest.write && link.output == Output::Open,
                deadline: wants.deadline,
            });
        }
        if link.moved >= TURN_BYTES {
            break;
        }
    }
    Turn::Again
}

fn take_input<T: Transport, S: Seat>(
    link: &mut Link,
    transport: &T,
    seat: &mut S,
    now: Instant,
    freshness: Freshness,
) -> Read {
    if !link.kept.is_empty() {
        let kept = std::mem::take(&mut link.kept);
        let taken = feed(link, seat, now, &kept);
        return Read { progress: taken, drained: !taken };
    }
    if !link.readable && freshness == Freshness::Known {
        return Read { progress: false, drained: true };
    }
    let tried = if let Some(mut lease) = seat.with(Endpoint::lease_body) {
        let tried = transport.read_lease(&mut lease, READ_MAX, freshness);
        let events = seat.with(|core| {
            core.return_body(now, lease);
            core.interest().events
        });
        if events {
            seat.settle(now);
        }
        tried
    } else {
        with_read_buffer(|buffer| {
            let tried = transport.read(buffer, freshness);
            if let Ok(n @ 1..) = tried.result {
                feed(link, seat, now, buffer.get(..n).unwrap_or_default());
            }
            tried
        })
    };
    link.readable = !tried.exhausted;
    match tried.result {
        Ok(0) => {
            link.input = Input::Ended;
            seat.with(|core| core.handle_eof(now));
            Read { progress: true, drained: true }
        }
        Ok(n) => {
            link.moved = link.moved.saturating_add(n);
            link.due_input = link.due_input.saturating_add(n);
            if let Output::Failed { read } = &mut link.output {
                *read = read.saturating_add(n);
            }
            Read { progress: true, drained: tried.exhausted }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            link.readable = false;
            Read { progress: false, drained: true }
        }
        Err(_) => {
            // B122: a reset ends a connection as the end of its input does.
            link.input = Input::Ended;
            seat.with(|core| core.handle_disconnect(now, Disconnect::ReadFailed));
            Read { progress: true, drained: true }
        }
    }
}

/// Feeds what has arrived, and keeps what the core refuses until its events are taken. Returns whether anything was taken.
fn feed<S: Seat>(link: &mut Link, seat: &mut S, now: Instant, mut bytes: &[u8]) -> bool {
    let mut taken = false;
    while !bytes.is_empty() {
        let (result, events) = seat.with(|core| {
            let result = core.handle_input(now, bytes);
            (result, core.interest().events)
        });
        let settled = events && seat.settle(now);
        match result {
            Ok(0) if !settled => {
                link.kept.extend_from_slice(bytes);
                return taken;
            }
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            // CC11: nothing behind it means anything; the core says what is still to leave.
            Err(_) => return true,
        }
        taken = true;
    }
    taken
}

fn give_output<T: Transport, S: Seat>(
    link: &mut Link,
    transport: &T,
    seat: &mut S,
    now: Instant,
    interest: Interest,
    changed: bool,
) -> bool {
    if link.output != Output::Open {
        return false;
    }
    let mut progress = false;
    if link.writable && (interest.write || changed) {
        let wrote = seat.with(|core| write(core, transport, now));
        match wrote {
            Wrote::Nothing => {}
            Wrote::Blocked => link.writable = false,
            Wrote::Some { bytes, full } => {
                link.moved = link.moved.saturating_add(bytes);
                link.writable = !full;
                progress = true;
            }
            Wrote::Failed => {
                link.output = Output::Failed { read: 0 };
                return true;
            }
        }
    }
    if interest.half_close {
        // It fails if the peer is gone, which the input tells as well.
        let _ = transport.half_close();
        link.output = Output::HalfClosed;
        progress = true;
    }
    progress
}

/// One write of an offer that has at most `N` segments: a table that is no larger than need be is no work to fill.
fn write_segments<const N: usize, T: Transport>(offer: &Transmit<'_>, transport: &T) -> Tried<usize> {
    let mut segments: [&[u8]; N] = [&[]; N];
    let count = offer.segments(&mut segments);
    transport.write(segments.get(..count).unwrap_or_default(), WRITE_MAX)
}

enum Wrote {
    Nothing,
    Blocked,
    Some { bytes: usize, full: bool },
    Failed,
}

/// One offer, one call, one answer, all under the lock: there is no moment at which an offer hangs in the air.
fn write<C: Endpoint, T: Transport>(core: &mut C, transport: &T, now: Instant) -> Wrote {
    let Some(offer) = core.poll_transmit(now) else { return Wrote::Nothing };
    let tried = if 2 * offer.frames() <= FEW_SEGMENTS {
        write_segments::<FEW_SEGMENTS, T>(&offer, transport)
    } else {
        write_segments::<MAX_SEGMENTS, T>(&offer, transport)
    };
    match tried.result {
        // B117: a socket that takes nothing and reports no error is lost.
        Ok(0) => {
            offer.failed(WriteFailure::NothingAccepted);
            Wrote::Failed
        }
        Ok(n) => match offer.written(n) {
            Ok(()) => Wrote::Some { bytes: n, full: tried.exhausted },
            Err(_) => Wrote::Failed,
        },
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            offer.blocked();
            Wrote::Blocked
        }
        Err(_) => {
            offer.failed(T::WRITE_FAILURE);
            Wrote::Failed
        }
    }
}
