//! The shell's turns over a core: how much one of them moves, however much there is. Files stand for the pipes, so that everything
//! has arrived before the first turn and nobody is scheduled in between.

use hostwire::core::body::Body;
use hostwire::core::host::{Connection, Event, RequestId};
use hostwire::core::time::Instant;
use hostwire::core::transmit::MAX_SEGMENTS;
use hostwire::drive::{Driver, Signal};
use hostwire::runtime::{BlockingLost, Direction, Io, Runtime, Tried};
use hostwire::socket::Socket;
use hostwire::turn::{READ_MAX, Seat, TURN_BYTES, WRITE_MAX};
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

/// Keeps what is asked.
struct Asked {
    host: Connection,
    asked: Vec<(RequestId, Body)>,
}

impl Seat for Asked {
    type Core = Connection;

    fn with<T>(&mut self, step: impl FnOnce(&mut Connection) -> T) -> T {
        step(&mut self.host)
    }

    fn settle(&mut self, _: Instant) -> bool {
        let mut any = false;
        while let Some(event) = self.host.poll_event() {
            any = true;
            if let Event::Request { id, body, .. } = event {
                self.asked.push((id, body));
            }
        }
        any
    }
}

const BODIES: usize = 12;
const BODY: usize = 1 << 20;

/// A host with a route, and a file with what its client has sent: big bodies.
fn flooded() -> (Asked, File) {
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
    (Asked { host, asked: Vec::new() }, file)
}

/// One connection: its task's parts, and the files that stand for its pipes.
struct Conn {
    driver: Driver<ByHand>,
    signal: Box<Signal>,
    seat: Asked,
    input: File,
    output: File,
}

impl Conn {
    fn new(runtime: &ByHand, seat: Asked, input: File) -> Self {
        let output = tempfile::tempfile().expect("a file");
        let fd = |file: &File| Plain(file.try_clone().expect("a descriptor"));
        let driver = Driver::new(runtime.clone(), Socket::pipes(fd(&input), fd(&output)));
        Self { driver, signal: Box::default(), seat, input, output }
    }

    /// Polls once; the bytes that this read and wrote.
    fn poll(&mut self) -> [usize; 2] {
        let place =
            |mut file: &File| usize::try_from(file.stream_position().expect("a file")).expect("a small one");
        let before = [&self.input, &self.output].map(place);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(self.driver.poll(&mut cx, &self.signal, &mut self.seat).is_pending());
        let after = [&self.input, &self.output].map(place);
        [after[0] - before[0], after[1] - before[1]]
    }
}

#[test]
fn a_poll_ends_after_its_bytes_and_gives_way() {
    let runtime = ByHand::default();
    let gave_way = || runtime.gave_way.load(Ordering::SeqCst);
    let (seat, input) = flooded();
    let mut hog = Conn::new(&runtime, seat, input);

    // Input alone.
    while hog.seat.asked.len() < BODIES {
        let before = gave_way();
        let [read, written] = hog.poll();
        // The call that passes the turn's bytes is its last.
        assert!(read < TURN_BYTES + READ_MAX, "{read} bytes in one poll");
        if hog.seat.asked.len() < BODIES {
            assert!(read >= TURN_BYTES, "{read} bytes are not worth a poll");
        }
        assert_eq!((written, gave_way()), (0, before + 1));
    }
    hog.poll();

    // Output alone.
    for (id, body) in hog.seat.asked.drain(..) {
        hog.seat.host.respond(Instant::ZERO, id, true, body).expect("in time");
    }
    let mut total = 0;
    while hog.seat.host.interest().write {
        let before = gave_way();
        let [_, written] = hog.poll();
        total += written;
        assert!(written < TURN_BYTES + WRITE_MAX, "{written} bytes in one poll");
        if hog.seat.host.interest().write {
            assert!(written >= TURN_BYTES, "{written} bytes are not worth a poll");
            assert_eq!(gave_way(), before + 1);
        }
    }
    assert!(total > BODIES * BODY);
}

#[test]
fn a_body_whose_bounded_steps_come_short_is_the_body_that_was_sent() {
    let (seat, mut all) = flooded();
    let mut sent = Vec::new();
    all.read_to_end(&mut sent).expect("a file");
    let mut arriving = tempfile::NamedTempFile::new().expect("a file");
    let mut conn = Conn::new(&ByHand::default(), seat, arriving.reopen().expect("a file"));
    // In pieces that end in the middle of what a step asks for.
    for piece in sent.chunks(READ_MAX + 50_000) {
        arriving.write_all(piece).expect("written");
        while conn.poll() != [0, 0] {}
    }
    let whole = |body: &Body| body.len() == BODY && body.as_slice().iter().all(|byte| *byte == b'x');
    assert_eq!(conn.seat.asked.iter().filter(|(_, body)| whole(body)).count(), BODIES);
}
