//! The two lanes and the frame that has begun.
//!
//! ```text
//!  begun (the rest of it) │ control: pure headers, a ring of at most 32 │ data: bodies, first in first out │ the last Goodbye
//! ```
//!
//! Control goes first at every frame boundary (B2); only the frame that has begun is pinned (W8, CC12). A frame that has not begun
//! can be withdrawn in O(1) and gives slot and bytes back at once.

use super::MAX_OFFER_FRAMES;
use super::offer::Offer;
use crate::body::Body;
use crate::time::Instant;
use crate::wire::{HEADER_LEN, Header};
use alloc::collections::VecDeque;
use core::time::Duration;
use slab::Slab;

/// Names a data frame that has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameKey(u32);

/// The bytes before the body: an envelope header, or an auth message's length prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    bytes: [u8; HEADER_LEN],
    len: u8,
}

impl Head {
    /// No head: the body is a complete message in itself (authentication).
    pub(crate) const NONE: Self = Self { bytes: [0; HEADER_LEN], len: 0 };

    pub(crate) const fn envelope(header: &Header) -> Self {
        Self { bytes: header.encode(), len: 21 }
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

#[derive(Debug)]
struct Frame<O> {
    head: Head,
    body: Body,
    /// Bytes of head and body.
    total: usize,
    /// Bytes accepted so far.
    sent: usize,
    owner: O,
}

impl<O> Frame<O> {
    fn new(head: Head, body: Body, owner: O) -> Self {
        let total = usize::from(head.len) + body.len();
        Self { head, body, total, sent: 0, owner }
    }

    fn total(&self) -> usize {
        self.total
    }

    fn left(&self) -> usize {
        self.total - self.sent
    }

    /// The unsent rest as up to two nonempty slices.
    fn rest(&self) -> [&[u8]; 2] {
        let head = self.head.as_slice();
        let in_body = self.sent.saturating_sub(head.len());
        [head.get(self.sent..).unwrap_or_default(), self.body.as_slice().get(in_body..).unwrap_or_default()]
    }
}

#[derive(Debug)]
struct Node<O> {
    frame: Frame<O>,
    before: u32,
    after: u32,
}

/// No node: no slab has room for one of that number.
const NONE: u32 = u32::MAX;

/// From when on a frame's own deadline counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// From its first byte (client, W6).
    FirstByte,
    /// From the moment when it is the next to leave, offered or not (host, B10).
    NextToLeave,
}

/// What one answer did to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress<O> {
    pub(crate) owner: O,
    /// Bytes accepted by this answer.
    pub(crate) took: usize,
    /// Its first byte was among them.
    pub(crate) began: bool,
    /// Its last byte was among them.
    pub(crate) finished: bool,
}

#[derive(Debug)]
pub(crate) struct Outbox<O> {
    begun: Option<Frame<O>>,
    control: VecDeque<([u8; HEADER_LEN], O)>,
    nodes: Slab<Node<O>>,
    first: u32,
    last: u32,
    /// Bytes of the data lane, headers included, the begun frame excluded.
    data_bytes: usize,
    farewell: Option<([u8; HEADER_LEN], O)>,
    patience: Patience,
    since: Option<Instant>,
    over: bool,
}

impl<O: Copy + PartialEq> Outbox<O> {
    pub(crate) fn new(patience: Patience) -> Self {
        Self {
            begun: None,
            control: VecDeque::new(),
            nodes: Slab::new(),
            first: NONE,
            last: NONE,
            data_bytes: 0,
            farewell: None,
            patience,
            since: None,
            over: false,
        }
    }

    /// Bytes that a waiting frame occupies, its body's own memory excluded.
    pub(crate) const fn node_bytes() -> usize {
        core::mem::size_of::<Node<O>>() + 16
    }

    /// Queues a data frame behind all others.
    pub(crate) fn push_data(&mut self, now: Instant, head: Head, body: Body, owner: O) -> FrameKey {
        let frame = Frame::new(head, body, owner);
        self.data_bytes += frame.total();
        // Fewer frames wait than there are numbers: the slots of both roles are bounded by far smaller ones.
        let key =
            u32::try_from(self.nodes.insert(Node { frame, before: self.last, after: NONE })).unwrap_or(NONE);
        match self.nodes.get_mut(self.last as usize) {
            Some(last) => last.after = key,
            None => self.first = key,
        }
        self.last = key;
        self.note_head(now, false);
        FrameKey(key)
    }

    /// Queues a pure header in the control lane. The caller keeps the lane's bound.
    pub(crate) fn push_control(&mut self, now: Instant, header: &Header, owner: O) {
        self.control.push_back((header.encode(), owner));
        self.note_head(now, false);
    }

    /// The very last frame: behind everything that waits.
    pub(crate) fn push_farewell(&mut self, now: Instant, header: &Header, owner: O) {
        self.farewell = Some((header.encode(), owner));
        self.note_head(now, false);
    }

    /// Takes a data frame back that has not begun; `None` if it has, or has left.
    pub(crate) fn withdraw(&mut self, key: FrameKey) -> Option<Body> {
        let node = self.nodes.try_remove(key.0 as usize)?;
        self.unlink(&node);
        self.data_bytes -= node.frame.total();
        if self.is_empty() {
            self.since = None;
        }
        Some(node.frame.body)
    }

    /// Throws away whatever has not begun, farewell included.
    pub(crate) fn discard_unstarted(&mut self) {
        self.control.clear();
        self.nodes.clear();
        (self.first, self.last, self.data_bytes, self.farewell) = (NONE, NONE, 0, None);
        if self.begun.is_none() {
            self.since = None;
        }
    }

    /// Output is over: everything is dropped, nothing is offered again.
    pub(crate) fn end(&mut self) {
        self.discard_unstarted();
        self.begun = None;
        self.since = None;
        self.over = true;
        self.control.shrink_to_fit();
        self.nodes.shrink_to_fit();
    }

    /// Output is over, but the frames stay readable for accounting until [`Outbox::end`].
    pub(crate) fn stop(&mut self) {
        self.over = true;
        self.since = None;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether nothing waits at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.begun.is_none() && self.control.is_empty() && self.nodes.is_empty() && self.farewell.is_none()
    }

    /// Whether there is something to offer.
    pub(crate) fn wants_write(&self) -> bool {
        !self.over && !self.is_empty()
    }

    /// Data frames that wait, the begun one excluded.
    pub(crate) fn data_frames(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of data frames that wait or have begun: what the queue holds in memory.
    pub(crate) fn data_bytes(&self) -> usize {
        self.data_bytes + self.begun.as_ref().map_or(0, Frame::total)
    }

    /// Control frames that wait, and those of them that `which` picks.
    pub(crate) fn control_frames(&self, which: impl Fn(O) -> bool) -> (usize, usize) {
        (self.control.len(), self.control.iter().filter(|(_, owner)| which(*owner)).count())
    }

    /// When the frame at the head runs out of time, given the frame deadline.
    pub(crate) fn deadline(&self, allowed: Duration) -> Option<Instant> {
        self.since.map(|since| since + allowed)
    }

    /// The next offer: the begun frame's rest, control, data, farewell, up to [`MAX_OFFER_FRAMES`].
    pub(crate) fn offer(&self) -> Option<Offer> {
        if self.over {
            return None;
        }
        let pure = self.control.len() + usize::from(self.farewell.is_some());
        let frames = usize::from(self.begun.is_some()) + pure + self.nodes.len();
        if frames <= MAX_OFFER_FRAMES {
            let begun = self.begun.as_ref().map_or(0, Frame::left);
            let bytes = begun + pure * HEADER_LEN + self.data_bytes;
            return (frames > 0).then_some(Offer { frames, bytes });
        }
        let mut offer = Offer::default();
        self.walk(MAX_OFFER_FRAMES, |_, rest| {
            offer.frames += 1;
            offer.bytes += rest.iter().map(|part| part.len()).sum::<usize>();
            true
        });
        Some(offer)
    }

    /// The offer's segments.
    pub(crate) fn gather<'s>(&'s self, offer: Offer, out: &mut [&'s [u8]]) -> usize {
        let mut filled = 0;
        self.walk(offer.frames, |_, rest| {
            for part in rest {
                if part.is_empty() {
                    continue;
                }
                let Some(slot) = out.get_mut(filled) else { return false };
                *slot = part;
                filled += 1;
            }
            true
        });
        filled
    }

    /// The owners of the frames that an offer covers.
    pub(crate) fn for_each_offered(&self, offer: Offer, mut each: impl FnMut(O)) {
        self.walk(offer.frames, |owner, _| {
            each(owner);
            true
        });
    }

    /// Accounts for accepted bytes, one frame a call, until `n` is used up.
    pub(crate) fn accept(&mut self, now: Instant, n: &mut usize) -> Option<Progress<O>> {
        if *n == 0 {
            return None;
        }
        let began = self.begun.is_none();
        // W8: what has begun goes on before any other byte.
        let mut frame = match self.begun.take() {
            Some(frame) => frame,
            None => self.pop_next()?,
        };
        let took = frame.left().min(*n);
        *n -= took;
        frame.sent += took;
        let progress = Progress { owner: frame.owner, took, began, finished: frame.left() == 0 };
        if !progress.finished {
            self.begun = Some(frame);
        }
        if progress.finished || began {
            self.note_head(now, true);
        }
        Some(progress)
    }

    fn pop_next(&mut self) -> Option<Frame<O>> {
        if let Some((bytes, owner)) = self.control.pop_front() {
            return Some(pure(bytes, owner)); // B2: control before data
        }
        if let Some(node) = self.nodes.try_remove(self.first as usize) {
            self.unlink(&node);
            self.data_bytes -= node.frame.total();
            return Some(node.frame);
        }
        self.farewell.take().map(|(bytes, owner)| pure(bytes, owner))
    }

    fn unlink(&mut self, node: &Node<O>) {
        match self.nodes.get_mut(node.before as usize) {
            Some(before) => before.after = node.after,
            None => self.first = node.after,
        }
        match self.nodes.get_mut(node.after as usize) {
            Some(after) => after.before = node.before,
            None => self.last = node.before,
        }
    }

    /// Restarts the head's clock when another frame has become the head.
    fn note_head(&mut self, now: Instant, moved: bool) {
        let counts = match self.patience {
            Patience::FirstByte => self.begun.is_some(),
            Patience::NextToLeave => !self.is_empty(),
        };
        if !counts {
            self.since = None;
        } else if moved || self.since.is_none() {
            self.since = Some(now);
        }
    }

    fn walk<'s>(&'s self, frames: usize, mut each: impl FnMut(O, [&'s [u8]; 2]) -> bool) {
        let mut left = frames;
        let mut visit = |owner, rest| {
            let go = left > 0 && each(owner, rest);
            left = left.saturating_sub(1);
            go
        };
        if let Some(frame) = &self.begun
            && !visit(frame.owner, frame.rest())
        {
            return;
        }
        for (bytes, owner) in &self.control {
            if !visit(*owner, [bytes, &[]]) {
                return;
            }
        }
        let mut next = self.first;
        while let Some(node) = self.nodes.get(next as usize) {
            if !visit(node.frame.owner, node.frame.rest()) {
                return;
            }
            next = node.after;
        }
        if let Some((bytes, owner)) = &self.farewell {
            visit(*owner, [bytes, &[]]);
        }
    }
}

fn pure<O>(bytes: [u8; HEADER_LEN], owner: O) -> Frame<O> {
    Frame::new(Head { bytes, len: 21 }, Body::default(), owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Correlation, Flags, FrameType, Identity};
    use alloc::vec::Vec;

    const T0: Instant = Instant::ZERO;

    fn header(kind: FrameType, corr: u64, len: u32) -> Header {
        Header {
            len,
            kind,
            flags: Flags::pure(),
            identity: Identity::Control(Correlation::new(corr).unwrap()),
        }
    }

    fn data(out: &mut Outbox<u32>, owner: u32, len: u8) -> FrameKey {
        let body = Body::from((0..len).collect::<Vec<u8>>());
        out.push_data(
            T0,
            Head::envelope(&header(FrameType::Request, u64::from(owner), u32::from(len))),
            body,
            owner,
        )
    }

    fn take(out: &mut Outbox<u32>, mut n: usize) -> (Vec<u8>, Vec<Progress<u32>>) {
        let offer = out.offer().unwrap();
        let mut segments = [&[][..]; super::super::MAX_SEGMENTS];
        let filled = out.gather(offer, &mut segments);
        let bytes = segments[..filled].concat();
        assert_eq!(bytes.len(), offer.bytes);
        let bytes = bytes[..n].to_vec();
        let mut progress = Vec::new();
        while let Some(step) = out.accept(T0, &mut n) {
            progress.push(step);
        }
        assert_eq!(n, 0);
        (bytes, progress)
    }

    #[test]
    fn a_waiting_frame_occupies_its_node_and_two_words_of_the_slab() {
        assert_eq!(Outbox::<u32>::node_bytes(), core::mem::size_of::<Node<u32>>() + 16);
    }

    #[test]
    fn b2_w8_control_goes_before_data_but_never_into_a_begun_frame() {
        let mut out = Outbox::new(Patience::FirstByte);
        data(&mut out, 1, 3);
        data(&mut out, 2, 0);
        let (_, progress) = take(&mut out, 10);
        assert_eq!(progress, [Progress { owner: 1, took: 10, began: true, finished: false }]);
        out.push_control(T0, &header(FrameType::Pong, 9, 0), 90);
        out.push_farewell(T0, &header(FrameType::Goodbye, 7, 0), 70);
        let all = out.offer().unwrap();
        let (_, progress) = take(&mut out, all.bytes);
        let order: Vec<_> = progress.iter().map(|p| (p.owner, p.took, p.began, p.finished)).collect();
        assert_eq!(
            order,
            [(1, 14, false, true), (90, 21, true, true), (2, 21, true, true), (70, 21, true, true)]
        );
        assert!(out.is_empty() && !out.wants_write() && out.offer().is_none());
    }

    #[test]
    fn cc2_the_accepted_bytes_are_one_frame_sequence_however_they_are_split() {
        let whole = {
            let mut out = Outbox::new(Patience::FirstByte);
            for n in 1..5 {
                data(&mut out, n, 7 * (n as u8 - 1));
            }
            let all = out.offer().unwrap().bytes;
            take(&mut out, all).0
        };
        for size in 1..=whole.len() {
            let mut out = Outbox::new(Patience::FirstByte);
            for n in 1..5 {
                data(&mut out, n, 7 * (n as u8 - 1));
            }
            let mut bytes = Vec::new();
            while let Some(offer) = out.offer() {
                bytes.extend(take(&mut out, size.min(offer.bytes)).0);
            }
            assert_eq!(bytes, whole, "accepted {size} at a time");
            assert_eq!(out.data_bytes(), 0);
        }
    }

    #[test]
    fn x2_a_frame_is_withdrawn_from_anywhere_until_it_has_begun() {
        for withdrawn in 0..3 {
            let mut out = Outbox::new(Patience::FirstByte);
            let keys: Vec<_> = (1..4).map(|n| data(&mut out, n, 4)).collect();
            assert_eq!((out.data_frames(), out.data_bytes()), (3, 75));
            assert_eq!(out.withdraw(keys[withdrawn]).unwrap().len(), 4);
            assert_eq!((out.data_frames(), out.data_bytes()), (2, 50));
            let (_, progress) = take(&mut out, 50);
            let left: Vec<_> = progress.iter().map(|p| p.owner as usize).collect();
            let want: Vec<_> = (1..4).filter(|n| *n != withdrawn + 1).collect();
            assert_eq!(left, want);
        }
        let mut out = Outbox::new(Patience::FirstByte);
        let key = data(&mut out, 1, 4);
        take(&mut out, 1);
        assert!(out.withdraw(key).is_none(), "CC12: a begun frame stays");
        assert_eq!(out.data_bytes(), 25, "and is still held");
    }

    #[test]
    fn an_offer_covers_at_most_its_number_of_frames() {
        let mut out = Outbox::new(Patience::FirstByte);
        for _ in 0..100 {
            data(&mut out, 1, 1);
        }
        assert_eq!(out.offer(), Some(Offer { frames: MAX_OFFER_FRAMES, bytes: 22 * MAX_OFFER_FRAMES }));
        let mut owners = 0;
        out.for_each_offered(out.offer().unwrap(), |_| owners += 1);
        assert_eq!(owners, MAX_OFFER_FRAMES);
        let few = &mut [&[][..]; 3];
        assert_eq!(out.gather(out.offer().unwrap(), few), 3);
    }

    #[test]
    fn w6_the_client_clock_runs_from_the_first_byte_and_ends_with_the_last() {
        let allowed = Duration::from_micros(30);
        let at = Instant::from_micros;
        let mut out = Outbox::new(Patience::FirstByte);
        data(&mut out, 1, 1);
        data(&mut out, 2, 1);
        assert_eq!(out.deadline(allowed), None, "not begun");
        let mut n = 1;
        out.accept(at(5), &mut n);
        let mut n = 1;
        out.accept(at(9), &mut n);
        assert_eq!(out.deadline(allowed), Some(at(35)), "progress does not restart it");
        let mut n = 20;
        out.accept(at(12), &mut n);
        assert_eq!(out.deadline(allowed), None);
    }

    #[test]
    fn b10_the_host_clock_runs_while_a_frame_is_the_next_to_leave() {
        let allowed = Duration::from_micros(30);
        let at = Instant::from_micros;
        let mut out = Outbox::new(Patience::NextToLeave);
        assert_eq!(out.deadline(allowed), None);
        out.push_control(at(2), &header(FrameType::Ping, 1, 0), 1);
        out.push_data(at(7), Head::NONE, Body::from_static(b"abc"), 2);
        assert_eq!(out.deadline(allowed), Some(at(32)), "offered or not");
        let mut n = 21;
        out.accept(at(10), &mut n);
        assert_eq!(out.deadline(allowed), Some(at(40)), "the next frame has its own time");
        let mut n = 3;
        out.accept(at(11), &mut n);
        assert_eq!(out.deadline(allowed), None);
    }

    #[test]
    fn once_over_nothing_is_offered_and_nothing_is_held() {
        let mut out = Outbox::new(Patience::NextToLeave);
        data(&mut out, 1, 9);
        out.stop();
        assert!(out.offer().is_none() && out.is_over() && !out.wants_write());
        out.end();
        assert!(out.is_empty());
        assert_eq!((out.data_frames(), out.data_bytes()), (0, 0));
        assert_eq!(out.deadline(Duration::ZERO), None);
    }

    #[test]
    fn control_frames_are_counted_by_kind() {
        let mut out = Outbox::new(Patience::FirstByte);
        out.push_control(T0, &header(FrameType::Pong, 9, 0), 1);
        out.push_control(T0, &header(FrameType::Cancel, 9, 0), 2);
        out.push_control(T0, &header(FrameType::Pong, 9, 0), 1);
        assert_eq!(out.control_frames(|owner| owner == 1), (3, 2));
    }
}
