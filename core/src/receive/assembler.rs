//! One frame at a time: header, then body.

use super::LEASE_THRESHOLD;
use crate::body::{Body, BodyLease};
use crate::budget::{Charge, Pool};
use crate::fault::ApiMisuse;
use crate::time::Instant;
use crate::wire::{Header, HeaderDecoder, HeaderError};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The least that a growing buffer grows to, in bytes: as much as a read brings at once.
const STEP: usize = 65_536;

/// What becomes of a body, decided on its header.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Buffer it; each byte of capacity is drawn from the pool, if there is one.
    Buffer(Option<Arc<Pool>>),
    /// Read it and throw it away.
    Drain,
}

/// A body that has arrived whole.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Buffered.
    Body(Body),
    /// Drained from the start, as planned.
    Drained,
    /// It was to be buffered, but its pool could not grow; nothing of it is kept.
    Overflowed,
}

#[derive(Debug)]
enum Sink {
    /// While a lease is out the bytes are with it.
    Buffer {
        bytes: Vec<u8>,
        charge: Option<Charge>,
        /// Where the first charge comes from, and then goes on with.
        pool: Option<Arc<Pool>>,
    },
    Drain {
        overflowed: bool,
    },
}

#[derive(Debug)]
struct Open {
    header: Header,
    /// Body bytes still to come.
    left: usize,
    sink: Sink,
}

/// What a lease that is out must look like when it comes back.
#[derive(Clone, Copy, Debug)]
struct Lent {
    len: usize,
    room: usize,
    ticket: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Assembler {
    decoder: HeaderDecoder,
    open: Option<Open>,
    began: Option<Instant>,
    lent: Option<Lent>,
    tickets: u64,
}

impl Assembler {
    /// Takes header bytes from the front of `input`. The clock of W6 starts with the first.
    #[inline]
    pub(crate) fn header(&mut self, now: Instant, input: &mut &[u8]) -> Result<Option<Header>, HeaderError> {
        if input.is_empty() {
            return Ok(None);
        }
        self.began.get_or_insert(now);
        let (taken, header) = self.decoder.feed(input)?;
        *input = input.get(taken..).unwrap_or_default();
        Ok(header)
    }

    /// Begins the body of a judged header. One that `input` has whole, as it has most small ones, is given at once and never kept.
    #[inline]
    pub(crate) fn begin(&mut self, header: &Header, plan: Plan, input: &mut &[u8]) -> Option<Payload> {
        let Some((body, rest)) = input.split_at_checked(header.len as usize) else {
            self.open(*header, plan);
            self.fill(input);
            return None;
        };
        *input = rest;
        self.began = None;
        Some(match plan {
            Plan::Drain => Payload::Drained,
            Plan::Buffer(_) if body.is_empty() => Payload::Body(Body::default()),
            Plan::Buffer(None) => Payload::Body(Body::from(body.to_vec())),
            Plan::Buffer(Some(pool)) => match Pool::into_charge(pool, body.len()) {
                Some(charge) => Payload::Body(Body::charged(body.to_vec(), Some(charge))),
                None => Payload::Overflowed, // B4, B8
            },
        })
    }

    /// Begins the body of a judged header.
    pub(crate) fn open(&mut self, header: Header, plan: Plan) {
        let sink = match plan {
            Plan::Buffer(pool) => Sink::Buffer { bytes: Vec::new(), charge: None, pool },
            Plan::Drain => Sink::Drain { overflowed: false },
        };
        self.open = Some(Open { header, left: header.len as usize, sink });
    }

    /// Takes body bytes from the front of `input`; gives the frame once it is whole.
    pub(crate) fn fill(&mut self, input: &mut &[u8]) -> Option<(Header, Payload)> {
        if self.lent.is_some() {
            return None;
        }
        let open = self.open.as_mut()?;
        let (now, rest) = input.split_at(open.left.min(input.len()));
        match &mut open.sink {
            Sink::Buffer { bytes, charge, pool } => {
                if reserve(bytes, charge, pool, now.len(), open.left) {
                    bytes.extend_from_slice(now);
                } else {
                    open.sink = Sink::Drain { overflowed: true }; // B4, B8: what is buffered is freed
                }
            }
            Sink::Drain { .. } => {}
        }
        open.left -= now.len();
        *input = rest;
        self.finish()
    }

    /// Whether a body is open and its bytes are what comes next.
    pub(crate) fn in_body(&self) -> bool {
        self.open.is_some()
    }

    /// Whether a frame has begun: an end of the stream now is corruption (W2, W5).
    pub(crate) fn is_mid_frame(&self) -> bool {
        self.open.is_some() || self.decoder.is_mid_header()
    }

    /// When the frame in progress began to arrive (W6).
    pub(crate) fn began(&self) -> Option<Instant> {
        self.began
    }

    /// Frees what is buffered of the open body and drains its rest.
    pub(crate) fn drain_open(&mut self) {
        if let Some(open) = &mut self.open {
            open.sink = Sink::Drain { overflowed: true };
        }
    }

    /// Whether input has to wait for a lease.
    pub(crate) fn is_leased(&self) -> bool {
        self.lent.is_some()
    }

    /// Body bytes of the open frame that are still to come.
    pub(crate) fn left_in_body(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.left)
    }

    /// Moves a big body's buffer out, with room for what comes next.
    pub(crate) fn lease(&mut self) -> Option<BodyLease> {
        if self.lent.is_some() {
            return None;
        }
        let open = self.open.as_mut()?;
        if open.header.len < LEASE_THRESHOLD || open.left == 0 {
            return None;
        }
        let Sink::Buffer { bytes, charge, pool } = &mut open.sink else { return None };
        // A read into a rest of a few bytes would cost as much as one into a step.
        let spare = bytes.capacity() - bytes.len();
        if spare < STEP.min(open.left) && !reserve(bytes, charge, pool, spare + 1, open.left) {
            open.sink = Sink::Drain { overflowed: true };
            return None;
        }
        let room = bytes.capacity() - bytes.len();
        if room > open.left {
            return None; // The allocator gave more than was asked for: a read could take the next frame's bytes.
        }
        self.tickets += 1;
        let lent = Lent { len: bytes.len(), room, ticket: self.tickets };
        self.lent = Some(lent);
        Some(BodyLease { buffer: core::mem::take(bytes), start: lent.len, room, ticket: lent.ticket })
    }

    /// Takes the buffer back, filled further; the frame if that made it whole. A frame that was given up meanwhile takes the count only.
    pub(crate) fn give_back(&mut self, lease: BodyLease) -> Result<Option<(Header, Payload)>, ApiMisuse> {
        let lent = self.lent.take().ok_or(ApiMisuse::LeaseMismatch)?;
        let added = lease.buffer.len().checked_sub(lent.len).filter(|added| *added <= lent.room);
        let (Some(added), true, true) = (added, lent.ticket == lease.ticket, lent.len == lease.start) else {
            return Err(ApiMisuse::LeaseMismatch);
        };
        let Some(open) = &mut self.open else { return Ok(None) };
        open.left -= added;
        if let Sink::Buffer { bytes, .. } = &mut open.sink {
            *bytes = lease.buffer;
        }
        Ok(self.finish())
    }

    /// Forgets the frame in progress and frees its buffer.
    pub(crate) fn end(&mut self) {
        self.open = None;
        self.began = None;
    }

    fn finish(&mut self) -> Option<(Header, Payload)> {
        let open = self.open.take_if(|open| open.left == 0)?;
        self.began = None;
        let payload = match open.sink {
            Sink::Buffer { bytes, charge, .. } => Payload::Body(Body::charged(bytes, charge)),
            Sink::Drain { overflowed: false } => Payload::Drained,
            Sink::Drain { overflowed: true } => Payload::Overflowed,
        };
        Some((open.header, payload))
    }
}

/// Makes room for `arrived` more bytes: geometric growth, clamped to what the frame still declares, charged before it is allocated.
fn reserve(
    bytes: &mut Vec<u8>,
    charge: &mut Option<Charge>,
    pool: &mut Option<Arc<Pool>>,
    arrived: usize,
    left: usize,
) -> bool {
    let spare = bytes.capacity() - bytes.len();
    if arrived <= spare {
        return true;
    }
    // W12: at most four times what has arrived, since each step copies what is there; what came whole gets exactly its size.
    let more = if arrived == left { arrived } else { arrived.max(3 * bytes.len()).max(STEP).min(left) };
    let wanted = bytes.len() + more;
    if let Some(charge) = charge {
        if !charge.try_grow(wanted.saturating_sub(charge.amount())) {
            return false;
        }
    } else if let Some(pool) = pool.take() {
        *charge = Pool::into_charge(pool, wanted);
        if charge.is_none() {
            return false;
        }
    }
    if bytes.capacity() == 0 {
        *bytes = Vec::with_capacity(more);
    } else {
        bytes.reserve_exact(more);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Correlation, Flags, FrameType, HEADER_LEN, Identity};
    use alloc::vec;

    const T0: Instant = Instant::ZERO;

    fn header(len: u32) -> Header {
        Header {
            len,
            kind: FrameType::Request,
            flags: Flags::default(),
            identity: Identity::Control(Correlation::FIRST),
        }
    }

    /// Feeds a frame in pieces of `size`; returns the frame and the most capacity seen before the last piece.
    fn feed(rx: &mut Assembler, pool: &Arc<Pool>, body: &[u8], size: usize) -> (Header, Payload) {
        let mut wire = header(body.len() as u32).encode().to_vec();
        wire.extend_from_slice(body);
        let mut frame = None;
        for piece in wire.chunks(size) {
            let mut input = piece;
            loop {
                if rx.in_body() {
                    frame = rx.fill(&mut input);
                    break;
                }
                match rx.header(T0, &mut input).unwrap() {
                    Some(header) => rx.open(header, Plan::Buffer(Some(Arc::clone(pool)))),
                    None => break,
                }
            }
            assert!(input.is_empty());
        }
        frame.unwrap()
    }

    #[test]
    fn w12_a_body_grows_by_what_arrives_and_ends_at_its_declared_length() {
        let body: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
        for size in [7, 1000, 65_536, 299_999, 400_000] {
            let pool = Pool::new(1 << 20);
            let (_, payload) = feed(&mut Assembler::default(), &pool, &body, size);
            let Payload::Body(got) = payload else { panic!("{payload:?}") };
            assert_eq!(got.as_slice(), body);
            assert_eq!(got.charge(), body.len(), "clamped to the declared length");
            assert!(pool.high_water() <= body.len());
            drop(got);
            assert_eq!(pool.used(), 0);
        }
    }

    #[test]
    fn cc3_a_body_that_is_there_whole_is_the_body_that_came_in_pieces() {
        let pool = Pool::new(10);
        let buffer = || Plan::Buffer(Some(Arc::clone(&pool)));
        let mut rx = Assembler::default();
        let begin = |rx: &mut Assembler, len: u32, plan, input: &mut &[u8]| {
            let mut head = &header(len).encode()[..];
            let header = rx.header(T0, &mut head).unwrap().unwrap();
            let payload = rx.begin(&header, plan, input);
            assert_eq!(rx.is_mid_frame(), payload.is_none());
            assert_eq!(rx.began().is_some(), payload.is_none(), "W6: the clock of what is whole has ended");
            payload
        };
        let mut input = &[1, 2, 3, 4, 5][..];
        let whole = begin(&mut rx, 4, buffer(), &mut input);
        let Some(Payload::Body(body)) = whole else { panic!("{whole:?}") };
        assert_eq!((body.as_slice(), body.charge(), input), (&[1, 2, 3, 4][..], 4, &[5][..]));
        assert!(
            matches!(begin(&mut rx, 0, buffer(), &mut input), Some(Payload::Body(body)) if body.is_empty())
        );
        assert!(matches!(begin(&mut rx, 1, Plan::Drain, &mut input), Some(Payload::Drained)));
        let mut much = &[9; 7][..];
        assert!(matches!(begin(&mut rx, 7, buffer(), &mut much), Some(Payload::Overflowed)), "B4");
        assert!(input.is_empty() && much.is_empty() && pool.used() == 4);
        let mut part = &[6, 7][..];
        assert!(begin(&mut rx, 3, Plan::Buffer(None), &mut part).is_none() && part.is_empty());
        let rest = rx.fill(&mut &[8][..]);
        assert!(matches!(rest, Some((_, Payload::Body(body))) if body.as_slice() == [6, 7, 8]));
    }

    #[test]
    fn a_lease_has_room_for_a_step_where_the_body_has_so_much_left() {
        let mut rx = Assembler::default();
        rx.open(header(1 << 20), Plan::Buffer(None));
        rx.fill(&mut &[0; STEP - 5][..]);
        let lease = rx.lease().unwrap();
        assert!(lease.room() >= STEP, "{lease:?}");
    }

    #[test]
    fn w12_a_declared_length_commits_no_memory() {
        let pool = Pool::new(1 << 30);
        let mut rx = Assembler::default();
        rx.open(header(67_108_864), Plan::Buffer(Some(Arc::clone(&pool))));
        assert!(rx.fill(&mut &[][..]).is_none());
        assert_eq!(pool.used(), 0);
        assert!(rx.fill(&mut &[1][..]).is_none());
        assert_eq!(pool.used(), STEP);
    }

    #[test]
    fn b4_a_body_that_cannot_grow_is_freed_and_drained_to_its_end() {
        let pool = Pool::new(100_000);
        let mut rx = Assembler::default();
        let (_, payload) = feed(&mut rx, &pool, &vec![1; 150_000], 1000);
        assert!(matches!(payload, Payload::Overflowed));
        assert_eq!(pool.used(), 0);
        assert!(!rx.is_mid_frame() && rx.began().is_none());
        let (_, payload) = feed(&mut rx, &pool, &[2; 10], 3);
        assert!(
            matches!(payload, Payload::Body(body) if body.as_slice() == [2; 10]),
            "and the next frame is whole"
        );
    }

    #[test]
    fn cc3_a_lease_gives_the_same_body_as_copied_input() {
        let body: Vec<u8> = (0..200_000_u32).map(|n| (n * 7) as u8).collect();
        for step in [1000, 65_536, 200_000] {
            let pool = Pool::new(1 << 20);
            let mut rx = Assembler::default();
            rx.open(header(200_000), Plan::Buffer(Some(Arc::clone(&pool))));
            assert!(rx.fill(&mut &body[..10]).is_none());
            let mut at = 10;
            let frame = loop {
                let mut lease = rx.lease().unwrap();
                assert!(rx.is_leased() && rx.lease().is_none());
                assert!(rx.fill(&mut &body[at..]).is_none(), "no input while it is out");
                let n = lease.room().min(step).min(body.len() - at);
                assert_eq!(lease.buffer().capacity() - lease.buffer().len(), lease.room());
                lease.buffer().extend_from_slice(&body[at..at + n]);
                at += n;
                if let Some(frame) = rx.give_back(lease).unwrap() {
                    break frame;
                }
                assert_eq!(rx.left_in_body(), body.len() - at);
            };
            let Payload::Body(got) = frame.1 else { panic!() };
            assert_eq!(got.as_slice(), body);
            assert_eq!(got.charge(), 200_000);
        }
    }

    #[test]
    fn a_lease_that_comes_back_otherwise_is_refused() {
        let lend = || {
            let mut rx = Assembler::default();
            rx.open(header(100_000), Plan::Buffer(None));
            rx.fill(&mut &[5; 10][..]);
            let lease = rx.lease().unwrap();
            (rx, lease)
        };
        let (mut rx, mut lease) = lend();
        lease.buffer().truncate(9);
        assert_eq!(rx.give_back(lease).err(), Some(ApiMisuse::LeaseMismatch));
        let (mut rx, mut lease) = lend();
        let room = lease.room();
        lease.buffer().extend(core::iter::repeat_n(0, room + 1));
        assert_eq!(rx.give_back(lease).err(), Some(ApiMisuse::LeaseMismatch));
        let (mut rx, lease) = lend();
        let (_, other) = lend();
        assert!(rx.give_back(lease).unwrap().is_none());
        assert_eq!(rx.give_back(other).err(), Some(ApiMisuse::LeaseMismatch), "twice");
    }

    #[test]
    fn a_frame_given_up_during_its_lease_takes_the_count_and_keeps_nothing() {
        let pool = Pool::new(1 << 20);
        let mut rx = Assembler::default();
        rx.open(header(100_000), Plan::Buffer(Some(Arc::clone(&pool))));
        rx.fill(&mut &[5; 10][..]);
        let mut lease = rx.lease().unwrap();
        rx.drain_open();
        lease.buffer().extend_from_slice(&[1; 100]);
        assert!(rx.give_back(lease).unwrap().is_none());
        assert_eq!((rx.left_in_body(), pool.used()), (99_890, 0));
        assert!(rx.lease().is_none(), "what is drained is not lent");
        assert!(matches!(rx.fill(&mut &vec![1; 99_890][..]), Some((_, Payload::Overflowed))));
        rx.open(header(100_000), Plan::Buffer(None));
        rx.fill(&mut &[5; 10][..]);
        let lease = rx.lease().unwrap();
        rx.end();
        assert!(rx.give_back(lease).unwrap().is_none(), "after the end of all");
    }

    #[test]
    fn small_bodies_are_not_lent_and_an_empty_body_is_a_frame_at_once() {
        let mut rx = Assembler::default();
        rx.open(header(LEASE_THRESHOLD - 1), Plan::Buffer(None));
        assert!(rx.lease().is_none());
        rx.end();
        rx.open(header(0), Plan::Buffer(None));
        assert!(matches!(rx.fill(&mut &[][..]), Some((_, Payload::Body(body))) if body.is_empty()));
        let mut input = &[0_u8; HEADER_LEN - 1][..4];
        assert_eq!(rx.header(T0, &mut input), Ok(None));
        assert!(rx.is_mid_frame() && rx.began() == Some(T0));
        rx.open(header(5), Plan::Drain);
        assert!(matches!(rx.fill(&mut &[0; 5][..]), Some((_, Payload::Drained))));
    }

    #[test]
    fn a_lease_of_another_connection_is_known_by_its_ticket() {
        let lend = |rx: &mut Assembler| {
            rx.open(header(LEASE_THRESHOLD), Plan::Buffer(None));
            rx.lease().unwrap()
        };
        let (mut mine, mut other) = (Assembler::default(), Assembler::default());
        let unfilled = lend(&mut mine);
        assert!(mine.give_back(unfilled).unwrap().is_none());
        let _second = mine.lease().unwrap();
        let foreign = lend(&mut other);
        assert_eq!(mine.give_back(foreign).unwrap_err(), ApiMisuse::LeaseMismatch);
    }
}
