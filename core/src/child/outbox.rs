//! What is to be written into a child's input: bounded in frames and in bytes, and a sink that takes nothing is found out.
//!
//! Owns the queue, the calls that await an answer, and the count of bytes that the sink took. Invariants: neither bound is passed under any
//! schedule (PB1); a frame is written whole before the next one begins (PB6); every call settles exactly once, with what of it was sent
//! (PB15). It knows no framing and no protocol: a frame is bytes that belong together.

use crate::time::Instant;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

/// The bounds of one child's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Calls, replies and telemetry that wait, and replies that are reserved.
    pub frames: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Slots of control frames, of their own (PB3).
    pub control: usize,
    /// Bytes of one control frame.
    pub control_bytes: usize,
    /// Telemetry that waits; the oldest makes room for the newest.
    pub telemetry: usize,
    /// Calls that have no answer yet.
    pub pending: usize,
    /// How long a sink may take nothing while something waits (PB4).
    pub stall: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            frames: 256,
            bytes: 1 << 20,
            control: 16,
            control_bytes: 1 << 10,
            telemetry: 64,
            pending: 1 << 10,
            stall: Duration::from_secs(10),
        }
    }
}

/// A call in the queue or waiting for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// How much of a frame the sink took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// Nothing: the child cannot know of it.
    Nothing,
    /// So many bytes of it, and the rest will never follow.
    Partial(usize),
    /// All of it.
    Whole,
}

/// Why a call has ended without its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unanswered {
    /// It was cancelled, or its caller is gone.
    Cancelled,
    /// Its deadline passed.
    Deadline,
    /// The child's input could not be written.
    WriteFailed,
    /// The session ended.
    Ended,
}

/// A call's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settled {
    /// Which.
    pub call: CallId,
    /// What of it was sent.
    pub sent: Sent,
    /// Why there is no answer.
    pub why: Unanswered,
}

/// Why a frame was not taken. Nothing of it was or will be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A bound is reached.
    #[error("queue_full")]
    QueueFull,
    /// It would never fit.
    #[error("frame_too_large")]
    TooLarge,
    /// The session takes nothing more.
    #[error("session_closed")]
    Closed,
}

/// Control frames that replace one another while they wait (PB3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlKey {
    /// The answer to a liveness probe: the newest counts.
    Pong,
    /// The last word.
    Goodbye,
    /// The notice that a call was cancelled.
    Cancel(CallId),
}

/// Room for a reply that is owed, reserved before its request is delivered (PB3). To be given back to [`Outbox::reply`] or
/// [`Outbox::forgo`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reserved slot is held until it is used or forgone"]
pub struct ReplySlot {
    bytes: usize,
}

/// What an outbox counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxCounters {
    /// Telemetry that made room for newer.
    pub telemetry_dropped: u64,
    /// Cancel notices without room (PB9).
    pub notices_lost: u64,
    /// Answers to calls that had ended (PB11).
    pub late_replies: u64,
    /// Frames without a caller (replies, control, telemetry) that were lost with the session (PB10).
    pub unsent: u64,
    /// Bytes that the sink took.
    pub bytes: u64,
    /// The most data frames that waited at once, reserved replies included.
    pub frames_high: usize,
    /// The most bytes that waited at once, reserved replies included.
    pub bytes_high: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Class {
    Call(CallId),
    Reply,
    Telemetry,
    Control(ControlKey),
}

#[derive(Debug)]
struct Frame {
    class: Class,
    bytes: Vec<u8>,
}

/// A frame at the sink.
#[derive(Debug)]
struct Begun {
    frame: Frame,
    written: usize,
    /// The notice that follows when the frame is whole: its call was cancelled in the middle (PB7).
    then: Option<(CallId, Vec<u8>)>,
}

#[derive(Debug)]
struct Pending {
    sent: bool,
    deadline: Instant,
    notice: Option<Vec<u8>>,
}

/// The queue of one child's input.
#[derive(Debug)]
pub struct Outbox {
    limits: QueueLimits,
    data: VecDeque<Frame>,
    control: VecDeque<Frame>,
    begun: Option<Begun>,
    pending: BTreeMap<CallId, Pending>,
    settled: VecDeque<Settled>,
    reserved: (usize, usize),
    data_bytes: usize,
    next: u64,
    closing: bool,
    /// When the sink counts as stalled; `None` while nothing waits.
    stall_at: Option<Instant>,
    counters: OutboxCounters,
}

impl Outbox {
    /// An empty queue.
    #[must_use]
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            data: VecDeque::new(),
            control: VecDeque::new(),
            begun: None,
            pending: BTreeMap::new(),
            settled: VecDeque::new(),
            reserved: (0, 0),
            data_bytes: 0,
            next: 0,
            closing: false,
            stall_at: None,
            counters: OutboxCounters::default(),
        }
    }

    /// Queues a call. `notice` is the frame that tells the child of its cancellation; a call that may not be cancelled (`initialize`) has
    /// none (PB7).
    ///
    /// # Errors
    /// [`Refused`], at once (PB3): the call is not sent.
    pub fn call(
        &mut self,
        now: Instant,
        bytes: Vec<u8>,
        notice: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<CallId, Refused> {
        if self.pending.len() >= self.limits.pending {
            return Err(if self.closing { Refused::Closed } else { Refused::QueueFull });
        }
        self.admit(bytes.len())?;
        let call = CallId(self.next);
        self.next += 1;
        self.push(now, Class::Call(call), bytes);
        self.pending.insert(call, Pending { sent: false, deadline, notice });
        Ok(call)
    }

    /// Whether a frame of so many bytes fits now, and why not.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn admit(&self, bytes: usize) -> Result<(), Refused> {
        if self.closing {
            return Err(Refused::Closed);
        }
        if bytes > self.limits.bytes {
            return Err(Refused::TooLarge);
        }
        // PB1: frames and bytes, both, and what is reserved counts.
        if self.frames() >= self.limits.frames || self.bytes() + bytes > self.limits.bytes {
            return Err(Refused::QueueFull);
        }
        Ok(())
    }

    /// Reserves room for a reply of at most so many bytes. `None`: stop reading requests, or answer busy (PB3).
    pub fn reserve_reply(&mut self, bytes: usize) -> Option<ReplySlot> {
        self.admit(bytes).ok()?;
        self.reserved = (self.reserved.0 + 1, self.reserved.1 + bytes);
        self.note_high();
        Some(ReplySlot { bytes })
    }

    /// Queues a reply in its reserved room.
    ///
    /// # Errors
    /// [`Refused`]: larger than what was reserved, or the session takes nothing more. The slot is free in any case.
    pub fn reply(&mut self, now: Instant, slot: ReplySlot, bytes: Vec<u8>) -> Result<(), Refused> {
        let room = slot.bytes;
        self.forgo(slot);
        if self.closing {
            self.counters.unsent += 1;
            return Err(Refused::Closed);
        }
        if bytes.len() > room {
            return Err(Refused::TooLarge);
        }
        self.push(now, Class::Reply, bytes);
        Ok(())
    }

    /// Gives a reserved slot back unused.
    pub fn forgo(&mut self, slot: ReplySlot) {
        self.reserved = (self.reserved.0.saturating_sub(1), self.reserved.1.saturating_sub(slot.bytes));
    }

    /// Queues a control frame in the lane of its own; one with the same key that has not begun is replaced.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn control(&mut self, now: Instant, key: ControlKey, bytes: Vec<u8>) -> Result<(), Refused> {
        if self.closing && key != ControlKey::Goodbye {
            return Err(Refused::Closed);
        }
        if bytes.len() > self.limits.control_bytes {
            return Err(Refused::TooLarge);
        }
        let class = Class::Control(key);
        if let Some(frame) = self.control.iter_mut().find(|frame| frame.class == class) {
            frame.bytes = bytes; // PB3: coalesced
            return Ok(());
        }
        if self.control.len() >= self.limits.control {
            return Err(Refused::QueueFull);
        }
        self.control.push_back(Frame { class, bytes });
        self.arm(now);
        Ok(())
    }

    /// Queues telemetry. Where there is no room the oldest telemetry goes; never anything else (PB3). Returns whether it is queued.
    pub fn notify(&mut self, now: Instant, bytes: Vec<u8>) -> bool {
        let waiting = |frame: &Frame| frame.class == Class::Telemetry;
        loop {
            let count = self.data.iter().filter(|frame| waiting(frame)).count();
            let fits = self.admit(bytes.len());
            if fits.is_ok() && count < self.limits.telemetry {
                self.push(now, Class::Telemetry, bytes);
                return true;
            }
            let oldest = self.data.iter().position(waiting);
            self.counters.telemetry_dropped += 1;
            match (fits, oldest) {
                (Ok(()) | Err(Refused::QueueFull), Some(oldest)) => self.remove(oldest),
                (Ok(()) | Err(_), _) => {
                    self.disarm_if_idle();
                    return false;
                }
            }
        }
    }

    /// A call's answer is there. False: it had ended before, and the answer is to be dropped (PB11).
    pub fn answered(&mut self, call: CallId) -> bool {
        // Nobody answers what was not asked: such an answer is none.
        let asked = self.pending.get(&call).is_some_and(|pending| pending.sent || self.is_begun(call));
        if asked {
            self.pending.remove(&call);
        } else {
            self.counters.late_replies += 1;
        }
        asked
    }

    /// Gives a call up: cancelled, or its caller is gone. Whichever comes first counts, so there is one notice at most (PB8).
    pub fn cancel(&mut self, now: Instant, call: CallId) {
        self.give_up(now, call, Unanswered::Cancelled);
    }

    fn give_up(&mut self, now: Instant, call: CallId, why: Unanswered) {
        let Some(pending) = self.pending.remove(&call) else { return };
        let sent = if pending.sent {
            // PB7: it is out; one notice follows.
            if let Some(notice) = pending.notice {
                self.notice(now, call, notice);
            }
            Sent::Whole
        } else if let Some(begun) = self.begun.as_mut().filter(|begun| begun.frame.class == Class::Call(call))
        {
            if begun.written == 0 {
                self.begun = None; // PB15: nothing of it was taken
                Sent::Nothing
            } else {
                // PB6, PB7: the frame completes, then the notice.
                begun.then = pending.notice.map(|notice| (call, notice));
                Sent::Partial(begun.written)
            }
        } else {
            // PB7: still queued: removed, and no notice.
            if let Some(place) = self.data.iter().position(|frame| frame.class == Class::Call(call)) {
                self.remove(place);
            }
            Sent::Nothing
        };
        self.settled.push_back(Settled { call, sent, why });
        self.disarm_if_idle();
    }

    fn notice(&mut self, now: Instant, call: CallId, notice: Vec<u8>) {
        if self.control(now, ControlKey::Cancel(call), notice).is_err() {
            self.counters.notices_lost += 1; // PB9
        }
    }

    /// What the sink is to take next: the rest of one frame.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        if self.begun.is_none() {
            // Control first, at frame boundaries only (PB6).
            let frame = match self.control.pop_front() {
                Some(frame) => frame,
                None => self.take_data()?,
            };
            self.begun = Some(Begun { frame, written: 0, then: None });
        }
        self.begun.as_ref().and_then(|begun| begun.frame.bytes.get(begun.written..))
    }

    /// The sink took so many bytes of what was offered.
    pub fn accepted(&mut self, now: Instant, count: usize) {
        let Some(begun) = self.begun.as_mut() else { return };
        let count = count.min(begun.frame.bytes.len() - begun.written);
        begun.written += count;
        self.counters.bytes += u64::try_from(count).unwrap_or(u64::MAX);
        if begun.written == begun.frame.bytes.len() {
            let whole = self.begun.take();
            if let Some(Begun { frame, then, .. }) = whole {
                if let Class::Call(call) = frame.class
                    && let Some(pending) = self.pending.get_mut(&call)
                {
                    pending.sent = true;
                }
                if let Some((call, notice)) = then {
                    self.notice(now, call, notice);
                }
            }
        }
        // PB4: any accepted byte starts the time anew; an empty queue has none.
        self.stall_at = None;
        if !self.is_idle() {
            self.arm(now);
        }
    }

    /// The sink is broken: the call at it learns what of it was sent, later ones were not sent (PB10). Calls that are out wait on.
    pub fn write_failed(&mut self) {
        self.closing = true;
        self.drop_queued(Unanswered::WriteFailed);
    }

    /// No new frames; what is queued may still leave.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// The session ends: every call settles with what of it was sent (PB5), everything else is counted.
    pub fn finish(&mut self, why: Unanswered) {
        self.closing = true;
        self.drop_queued(why);
        for (call, _) in core::mem::take(&mut self.pending) {
            self.settled.push_back(Settled { call, sent: Sent::Whole, why });
        }
    }

    fn drop_queued(&mut self, why: Unanswered) {
        self.stall_at = None;
        let begun = self.begun.take().map(|begun| (begun.frame.class, begun.written));
        let rest = self.control.drain(..).chain(self.data.drain(..)).map(|frame| (frame.class, 0));
        for (class, written) in begun.into_iter().chain(rest) {
            match class {
                Class::Call(call) => {
                    // A cancelled one has its end already.
                    if self.pending.remove(&call).is_some() {
                        let sent = if written == 0 { Sent::Nothing } else { Sent::Partial(written) };
                        self.settled.push_back(Settled { call, sent, why });
                    }
                }
                Class::Reply | Class::Telemetry | Class::Control(_) => self.counters.unsent += 1,
            }
        }
        self.data_bytes = 0;
    }

    /// Deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let due: Vec<CallId> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.deadline <= now)
            .map(|(call, _)| *call)
            .collect();
        for call in due {
            self.give_up(now, call, Unanswered::Deadline);
        }
    }

    /// Whether the sink has taken nothing for too long (PB4).
    #[must_use]
    pub fn is_stalled(&self, now: Instant) -> bool {
        self.stall_at.is_some_and(|at| at <= now)
    }

    /// The next moment at which time alone changes something.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = self.pending.values().map(|pending| pending.deadline);
        deadlines.chain(self.stall_at).min().filter(|at| *at < Instant::FAR_FUTURE)
    }

    /// The next call that has ended without an answer.
    pub fn poll_settled(&mut self) -> Option<Settled> {
        self.settled.pop_front()
    }

    /// Whether nothing waits to be written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.begun.is_none() && self.control.is_empty() && self.data.is_empty()
    }

    /// Whether it takes nothing more.
    #[must_use]
    pub const fn is_closing(&self) -> bool {
        self.closing
    }

    /// Calls without an end.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Data frames that wait, and replies that are reserved.
    #[must_use]
    pub fn frames(&self) -> usize {
        let begun = self.begun.as_ref().is_some_and(|begun| !matches!(begun.frame.class, Class::Control(_)));
        self.data.len() + self.reserved.0 + usize::from(begun)
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let begun = match &self.begun {
            Some(Begun { frame: Frame { class: Class::Control(_), .. }, .. }) | None => 0,
            Some(begun) => begun.frame.bytes.len(),
        };
        self.data_bytes + self.reserved.1 + begun
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> OutboxCounters {
        self.counters
    }

    fn is_begun(&self, call: CallId) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.frame.class == Class::Call(call) && begun.written > 0)
    }

    fn push(&mut self, now: Instant, class: Class, bytes: Vec<u8>) {
        self.data_bytes += bytes.len();
        self.data.push_back(Frame { class, bytes });
        self.note_high();
        self.arm(now);
    }

    fn take_data(&mut self) -> Option<Frame> {
        let frame = self.data.pop_front()?;
        self.data_bytes = self.data_bytes.saturating_sub(frame.bytes.len());
        Some(frame)
    }

    fn remove(&mut self, place: usize) {
        if let Some(frame) = self.data.remove(place) {
            self.data_bytes = self.data_bytes.saturating_sub(frame.bytes.len());
        }
    }

    fn note_high(&mut self) {
        let (frames, bytes) = (self.frames(), self.bytes());
        self.counters.frames_high = self.counters.frames_high.max(frames);
        self.counters.bytes_high = self.counters.bytes_high.max(bytes);
    }

    fn arm(&mut self, now: Instant) {
        self.stall_at.get_or_insert(now + self.limits.stall);
    }

    fn disarm_if_idle(&mut self) {
        if self.is_idle() {
            self.stall_at = None;
        }
    }
}

#[cfg(test)]
mod tests;
