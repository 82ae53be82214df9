//! The shell's turns over a core: how much one of them moves, however much there is. Files stand for the pipes, so that everything
//! has arrived before the first turn and nobody is scheduled in between.

use hostwire::core::body::Body;
use hostwire::core::host::{Connection, Event, RequestId};
use hostwire::core::time::Instant;
use hostwire::core::transmit::MAX_SEGMENTS;
use hostwire::drive::{Driver, Signal};
use hostwire::runtime::{BlockingLost, Direction, Io, Runtime, Tried};
use hostwire::socket::{READ_MAX, Socket, WRITE_MAX};
use hostwire::turn::{Seat, TURN_BYTES};
use hostwire_core::client::Request;
use hostwire_sim::World;
use std::fs::File;
use std::future::{Pending, pending};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// A runtime of one task that is polled by hand; counts how often that has given way.
#[derive(Clone, Default)]
struct ByHand {
    gave_way: Arc<AtomicUsize>,
}

/// Ready for writing always, for reading up to the file's end: what would come next has not been sent.
struct Plain(File);

impl Plain {
    fn has_input(&self) -> bool {
        let length = self.0.metadata().expect("a file").len();
        (&self.0).stream_position().expect("a file") < length
    }
}

impl AsFd for Plain {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Io for Plain {
    fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_input() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn try_io<T>(&self, direction: Direction, call: impl FnOnce(BorrowedFd<'_>) -> Tried<T>) -> Tried<T> {
        match direction {
            Direction::Read if !self.has_input() => Tried::would_block(),
            Direction::Read | Direction::Write => call(self.as_fd()),
        }
    }
}

impl Runtime for ByHand {
    type Io = Plain;
    type Sleep = Pending<()>;

    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn sleep_until(&self, _: Instant) -> Pending<()> {
        pending()
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, _: F) {}

    fn blocking<T, F>(&self, work: F) -> impl Future<Output = Result<T, BlockingLost>> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        drop(work);
        async { Err(BlockingLost) }
    }

    fn give_way(&self, _: &mut Context<'_>) {
        self.gave_way.fetch_add(1, Ordering::SeqCst);
    }

    fn register(&self, fd: OwnedFd) -> io::Result<Plain> {
        Ok(Plain(fd.into()))
    }
}

/// Keeps what is asked; `answers` says whether it is echoed.
struct Echo {
    host: Connection,
    asked: Vec<(RequestId, Body)>,
    answers: bool,
}

impl Seat for Echo {
    type Core = Connection;

    fn with<T>(&mut self, step: impl FnOnce(&mut Connection) -> T) -> T {
        step(&mut self.host)
    }

    fn settle(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(event) = self.host.poll_event() {
            any = true;
            if let Event::Request { id, body, .. } = event {
                self.asked.push((id, body));
            }
        }
        if self.answers {
            for (id, body) in self.asked.drain(..) {
                self.host.respond(now, id, true, body).expect("in time");
            }
        }
        any
    }
}

const BODIES: usize = 8;
const BODY: usize = 1 << 20;

/// A host with a route, and a file with what its client has sent: big bodies.
fn flooded() -> (Echo, File) {
    let World { mut client, host, route, .. } = World::routed();
    for _ in 0..BODIES {
        let request = Request::unary(vec![b'x'; BODY], Instant::FAR_FUTURE);
        client.request(Instant::ZERO, route.expect("a route"), request).expect("admitted");
    }
    let mut file = tempfile::tempfile().expect("a file");
    while let Some(offer) = client.poll_transmit(Instant::ZERO) {
        let mut segments: [&[u8]; MAX_SEGMENTS] = [&[]; MAX_SEGMENTS];
        let count = offer.segments(&mut segments);
        segments[..count].iter().for_each(|segment| file.write_all(segment).expect("written"));
        let len = offer.len();
        offer.written(len).expect("all of it");
    }
    file.rewind().expect("a file");
    (Echo { host, asked: Vec::new(), answers: false }, file)
}

/// Polls once; the bytes that this moved in each direction.
fn poll(driver: &mut Driver<ByHand>, seat: &mut Echo, files: [&File; 2]) -> [u64; 2] {
    let place = |mut file: &File| file.stream_position().expect("a file");
    let before = files.map(place);
    let signal = Signal::default();
    let polled = driver.poll(&mut Context::from_waker(Waker::noop()), &signal, seat);
    assert!(polled.is_pending());
    let after = files.map(place);
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn a_poll_ends_after_its_bytes_and_gives_way() {
    let (mut seat, input) = flooded();
    let output = tempfile::tempfile().expect("a file");
    let runtime = ByHand::default();
    let fd = |file: &File| Plain(file.try_clone().expect("a descriptor"));
    let mut driver = Driver::new(runtime.clone(), Socket::pipes(fd(&input), fd(&output)));
    let gave_way = || runtime.gave_way.load(Ordering::SeqCst);

    // Input alone: the call that passes the turn's bytes is its last.
    let mut polls = 0;
    while seat.asked.len() < BODIES {
        let [read, written] = poll(&mut driver, &mut seat, [&input, &output]);
        polls += 1;
        assert!(read < (TURN_BYTES + READ_MAX) as u64, "{read} bytes in one poll");
        assert_eq!((written, gave_way()), (0, polls));
        if seat.asked.len() < BODIES {
            assert!(read >= TURN_BYTES as u64, "{read} bytes are not worth a poll");
        }
    }

    // Output alone.
    seat.answers = true;
    for (id, body) in seat.asked.drain(..) {
        seat.host.respond(Instant::ZERO, id, true, body).expect("in time");
    }
    let mut total = 0;
    while seat.host.interest().write {
        let before = gave_way();
        let [_, written] = poll(&mut driver, &mut seat, [&input, &output]);
        total += written;
        assert!(written < (TURN_BYTES + WRITE_MAX) as u64, "{written} bytes in one poll");
        if seat.host.interest().write {
            assert!(written >= TURN_BYTES as u64, "{written} bytes are not worth a poll");
            assert_eq!(gave_way(), before + 1);
        }
    }
    assert!(total > (BODIES * BODY) as u64);
}

#[test]
fn a_body_whose_bounded_steps_come_short_is_the_body_that_was_sent() {
    let (mut seat, mut all) = flooded();
    let mut sent = Vec::new();
    all.read_to_end(&mut sent).expect("a file");
    let mut arriving = tempfile::NamedTempFile::new().expect("a file");
    let (input, output) = (arriving.reopen().expect("a file"), tempfile::tempfile().expect("a file"));
    let fd = |file: &File| Plain(file.try_clone().expect("a descriptor"));
    let mut driver = Driver::new(ByHand::default(), Socket::pipes(fd(&input), fd(&output)));
    // In pieces that end in the middle of what a step asks for.
    for piece in sent.chunks(READ_MAX + 50_000) {
        arriving.write_all(piece).expect("written");
        while poll(&mut driver, &mut seat, [&input, &output]) != [0, 0] {}
    }
    let whole = |body: &Body| body.len() == BODY && body.as_slice().iter().all(|byte| *byte == b'x');
    assert_eq!(seat.asked.iter().filter(|(_, body)| whole(body)).count(), BODIES);
}
