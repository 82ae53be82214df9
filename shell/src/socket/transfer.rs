//! Moving bytes: one call each, told exactly how many went.

use super::GATHER_BELOW;
use super::buffers::with_gather_buffer;
use crate::runtime::{Direction, Io, Tried};
use crate::sync::lock;
use crate::turn::{Freshness, Transport};
use hostwire_core::body::BodyLease;
use hostwire_core::endpoint::WriteFailure;
use hostwire_core::transmit::MAX_SEGMENTS;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::task::{Context, Poll};

/// A connected byte stream under a runtime: what [`turn`](crate::turn::turn) reads and writes. A stream socket, or two pipes.
pub struct Socket<I> {
    wire: Wire<I>,
}

enum Wire<I> {
    Socket(I),
    /// The output goes when it is half-closed: a pipe has no other end of output.
    Pipes {
        input: I,
        output: Mutex<Option<I>>,
        _farewell: Farewell,
    },
}

/// Tells whoever lent descriptors that they are closed: it stands behind them and is dropped after them.
pub(crate) struct Farewell(pub(crate) Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Farewell {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell();
        }
    }
}

impl<I: Io> Socket<I> {
    /// A socket that is already connected.
    pub const fn new(io: I) -> Self {
        Self { wire: Wire::Socket(io) }
    }

    /// Two pipes: what is read from, and what is written to.
    ///
    /// Pipes have no way to write without SIGPIPE: a process that does not ignore it, as std makes every program do, must not use them.
    pub const fn pipes(input: I, output: I) -> Self {
        Self::lent_pipes(input, output, Farewell(None))
    }

    /// The same, and whoever lent them is told when they are closed.
    pub(crate) const fn lent_pipes(input: I, output: I, farewell: Farewell) -> Self {
        Self { wire: Wire::Pipes { input, output: Mutex::new(Some(output)), _farewell: farewell } }
    }

    /// Ready when a read may get something, or at the end of input.
    ///
    /// # Errors
    /// The runtime has ended.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.wire {
            Wire::Socket(io) | Wire::Pipes { input: io, .. } => io.poll_read_ready(cx),
        }
    }

    /// Ready when a write may be taken; at once where there is nothing to write to any more.
    ///
    /// # Errors
    /// The runtime has ended.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.wire {
            Wire::Socket(io) => io.poll_write_ready(cx),
            Wire::Pipes { output, .. } => {
                lock(output).as_ref().map_or(Poll::Ready(Ok(())), |io| io.poll_write_ready(cx))
            }
        }
    }

    /// One read: through the runtime's readiness, or past it.
    fn read_by<T>(
        &self,
        freshness: Freshness,
        call: impl FnOnce(BorrowedFd<'_>, bool) -> Tried<T>,
    ) -> Tried<T> {
        let (io, pipe) = match &self.wire {
            Wire::Socket(io) => (io, false),
            Wire::Pipes { input, .. } => (input, true),
        };
        match freshness {
            Freshness::Known => io.try_io(Direction::Read, |fd| call(fd, pipe)),
            Freshness::Asked => call(io.as_fd(), pipe),
        }
    }
}

impl<I> fmt::Debug for Socket<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
    }
}

impl<I: Io> Transport for Socket<I> {
    const WRITE_FAILURE: WriteFailure = I::WRITE_FAILURE;

    fn read(&self, buffer: &mut [u8], freshness: Freshness) -> Tried<usize> {
        self.read_by(freshness, |fd, pipe| if pipe { read_pipe(fd, buffer) } else { receive(fd, buffer) })
    }

    fn read_lease(&self, lease: &mut BodyLease, most: usize, freshness: Freshness) -> Tried<usize> {
        self.read_by(freshness, |fd, pipe| receive_lease_from(fd, lease, most, pipe))
    }

    fn write(&self, segments: &[&[u8]], most: usize) -> Tried<usize> {
        match &self.wire {
            Wire::Socket(io) => io.try_io(Direction::Write, |fd| send_segments(fd, segments, most)),
            Wire::Pipes { output, .. } => match &*lock(output) {
                Some(io) => io.try_io(Direction::Write, |fd| write_segments(fd, segments, most)),
                None => Tried::whole(Err(io::ErrorKind::BrokenPipe.into())),
            },
        }
    }

    fn half_close(&self) -> io::Result<()> {
        match &self.wire {
            Wire::Socket(io) => half_close(io.as_fd()),
            Wire::Pipes { output, .. } => {
                drop(lock(output).take());
                Ok(())
            }
        }
    }
}

/// A connected non-blocking stream socket without a runtime: for a loop of one's own around `poll` or `epoll`.
#[derive(Debug)]
pub struct FdTransport(pub OwnedFd);

impl Transport for FdTransport {
    const WRITE_FAILURE: WriteFailure = WriteFailure::NothingAccepted;

    fn read(&self, buffer: &mut [u8], _freshness: Freshness) -> Tried<usize> {
        receive(self.0.as_fd(), buffer)
    }

    fn read_lease(&self, lease: &mut BodyLease, most: usize, _freshness: Freshness) -> Tried<usize> {
        receive_lease(self.0.as_fd(), lease, most)
    }

    fn write(&self, segments: &[&[u8]], most: usize) -> Tried<usize> {
        send_segments(self.0.as_fd(), segments, most)
    }

    fn half_close(&self) -> io::Result<()> {
        half_close(self.0.as_fd())
    }
}

fn half_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::shutdown(fd, Shutdown::Write)?)
}

fn tried(result: Result<usize, Errno>, could: usize) -> Tried<usize> {
    match result {
        Ok(n) => Tried { result: Ok(n), exhausted: n < could },
        Err(error) => Tried { exhausted: error == Errno::AGAIN, result: Err(error.into()) },
    }
}

/// One `recv`. Zero bytes for a nonempty buffer are the end of input.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Tried<usize> {
    let could = buffer.len();
    tried(retry_on_intr(|| rustix::net::recv(fd, &mut *buffer, RecvFlags::empty())).map(|(_, n)| n), could)
}

/// One `read` of a pipe. Zero bytes for a nonempty buffer are the end of input.
fn read_pipe(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Tried<usize> {
    let could = buffer.len();
    tried(retry_on_intr(|| rustix::io::read(fd, &mut *buffer)), could)
}

/// One `recv` straight into a big body's own buffer, of at most `most` bytes and the lease's room. Zero bytes are the end of input.
pub fn receive_lease(fd: BorrowedFd<'_>, lease: &mut BodyLease, most: usize) -> Tried<usize> {
    receive_lease_from(fd, lease, most, false)
}

fn receive_lease_from(fd: BorrowedFd<'_>, lease: &mut BodyLease, most: usize, pipe: bool) -> Tried<usize> {
    let room = lease.room();
    let buffer = lease.buffer();
    let before = buffer.len();
    let spare = buffer.capacity() - before;
    if spare == 0 || spare > room {
        // Not the buffer that was lent: read nothing into it.
        return Tried { result: Err(io::ErrorKind::InvalidInput.into()), exhausted: true };
    }
    let read = |into: &mut [u8]| {
        if pipe {
            rustix::io::read(fd, into)
        } else {
            rustix::net::recv(fd, into, RecvFlags::empty()).map(|(_, n)| n)
        }
    };
    if spare > most {
        // A call into spare room takes all of it. Zeros cost less than a tenth of what the bytes do that come over them.
        buffer.resize(before + most, 0);
        let result = retry_on_intr(|| read(buffer.get_mut(before..).unwrap_or_default()));
        buffer.truncate(before + result.unwrap_or_default());
        return tried(result, most);
    }
    let result = retry_on_intr(|| {
        if pipe {
            rustix::io::read(fd, spare_capacity(&mut *buffer)).map(drop)
        } else {
            rustix::net::recv(fd, spare_capacity(&mut *buffer), RecvFlags::empty()).map(drop)
        }
    });
    tried(result.map(|()| buffer.len() - before), spare)
}

enum Piece {
    /// A part of the gather buffer.
    Gathered(Range<usize>),
    /// A part of the segment of this index.
    Direct(usize, usize),
}

/// One `sendmsg` of at most `most` bytes: short segments copied together, long ones pointed at.
///
/// Never raises SIGPIPE, whatever the process has done with that signal.
pub fn send_segments(fd: BorrowedFd<'_>, segments: &[&[u8]], most: usize) -> Tried<usize> {
    gathered(segments, most, |vector| match vector {
        [only] => rustix::net::send(fd, only, SendFlags::NOSIGNAL),
        _ => rustix::net::sendmsg(fd, vector, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL),
    })
}

/// The same into a pipe, which has no way to do it without SIGPIPE.
fn write_segments(fd: BorrowedFd<'_>, segments: &[&[u8]], most: usize) -> Tried<usize> {
    gathered(segments, most, |vector| match vector {
        [only] => rustix::io::write(fd, only),
        _ => rustix::io::writev(fd, vector),
    })
}

fn gathered(
    segments: &[&[u8]],
    most: usize,
    call: impl Fn(&[IoSlice<'_>]) -> rustix::io::Result<usize>,
) -> Tried<usize> {
    with_gather_buffer(|gathered| {
        // Most writes are small frames only: one run, which needs no table of pieces.
        if segments.len() <= MAX_SEGMENTS && segments.iter().all(|segment| segment.len() < GATHER_BELOW) {
            segments.iter().for_each(|segment| gathered.extend_from_slice(segment));
            gathered.truncate(most);
            return tried(retry_on_intr(|| call(&[IoSlice::new(gathered)])), gathered.len());
        }
        let mut pieces: [Option<Piece>; MAX_SEGMENTS] = [const { None }; MAX_SEGMENTS];
        let (mut count, mut total, mut run) = (0, 0, 0);
        for (index, segment) in segments.iter().take(MAX_SEGMENTS).enumerate() {
            let take = segment.len().min(most - total);
            if take < GATHER_BELOW {
                gathered.extend_from_slice(segment.get(..take).unwrap_or_default());
            } else {
                push_run(&mut pieces, &mut count, &mut run, gathered.len());
                push(&mut pieces, &mut count, Piece::Direct(index, take));
            }
            total += take;
            if total == most {
                break;
            }
        }
        push_run(&mut pieces, &mut count, &mut run, gathered.len());
        let slice = |piece: &Piece| match piece {
            Piece::Gathered(range) => gathered.get(range.clone()).unwrap_or_default(),
            Piece::Direct(index, take) => {
                segments.get(*index).and_then(|segment| segment.get(..*take)).unwrap_or_default()
            }
        };
        let mut vector = [IoSlice::new(&[]); MAX_SEGMENTS];
        for (entry, piece) in vector.iter_mut().zip(pieces.iter().flatten()) {
            *entry = IoSlice::new(slice(piece));
        }
        let vector = vector.get(..count).unwrap_or_default();
        tried(retry_on_intr(|| call(vector)), total)
    })
}

fn push(pieces: &mut [Option<Piece>], count: &mut usize, piece: Piece) {
    if let Some(slot) = pieces.get_mut(*count) {
        *slot = Some(piece);
        *count += 1;
    }
}

fn push_run(pieces: &mut [Option<Piece>], count: &mut usize, run: &mut usize, end: usize) {
    if end > *run {
        push(pieces, count, Piece::Gathered(*run..end));
        *run = end;
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair;
    use super::*;
    use std::os::fd::AsFd;

    const MOST: usize = 256 * 1_024;

    fn drain(fd: &OwnedFd) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        while let Ok(n) = receive(fd.as_fd(), &mut buffer).result {
            if n == 0 {
                break;
            }
            all.extend_from_slice(&buffer[..n]);
        }
        all
    }

    #[test]
    fn short_and_long_segments_leave_in_order() {
        let (a, b) = pair().unwrap();
        let long = vec![7_u8; GATHER_BELOW];
        let cases: [&[&[u8]]; 6] = [
            &[b"one"],
            &[b"one", b"two", b"three"],
            &[&long],
            &[b"head", &long, b"head", b"tail"],
            &[&long, &long, b"x", &long],
            &[b"", &long, b""],
        ];
        for segments in cases {
            let expected: Vec<u8> = segments.concat();
            let sent = send_segments(a.as_fd(), segments, MOST);
            assert_eq!(sent.result.unwrap(), expected.len());
            assert!(!sent.exhausted);
            assert_eq!(drain(&b), expected);
        }
    }

    #[test]
    fn the_most_segments_of_an_offer_fit_one_call() {
        let (a, b) = pair().unwrap();
        let long = vec![9_u8; GATHER_BELOW];
        let segments: Vec<&[u8]> =
            (0..MAX_SEGMENTS).map(|i| if i % 2 == 0 { &b"h"[..] } else { &long[..] }).collect();
        let mut sent = 0;
        let expected = segments.concat();
        let mut got = Vec::new();
        while sent < expected.len() {
            // What is left, as the core would offer it again.
            let mut left = sent;
            let rest: Vec<&[u8]> = segments
                .iter()
                .filter_map(|segment| {
                    let skip = left.min(segment.len());
                    left -= skip;
                    (skip < segment.len()).then(|| &segment[skip..])
                })
                .collect();
            sent += send_segments(a.as_fd(), &rest, MOST).result.unwrap();
            got.extend(drain(&b));
        }
        assert_eq!(got, expected);
    }

    #[test]
    fn one_write_is_bounded() {
        let file = OwnedFd::from(tempfile::tempfile().unwrap()); // takes all that it is given
        let huge = vec![1_u8; 3 * MOST];
        let sent = write_segments(file.as_fd(), &[b"head", &huge, b"tail"], MOST);
        assert_eq!((sent.result.unwrap(), sent.exhausted), (MOST, false));
        let sent = write_segments(file.as_fd(), &[b"head", b"body", b"tail"], 6);
        assert_eq!((sent.result.unwrap(), sent.exhausted), (6, false));
    }

    #[test]
    fn a_full_socket_is_exhausted_and_then_blocks() {
        let (a, _b) = pair().unwrap();
        let chunk = vec![1_u8; MOST];
        loop {
            let sent = send_segments(a.as_fd(), &[&chunk], MOST);
            match sent.result {
                Ok(n) => assert_eq!(sent.exhausted, n < MOST),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    assert!(sent.exhausted);
                    break;
                }
            }
        }
    }

    #[test]
    fn b125_a_dead_peer_is_an_error() {
        let (a, b) = pair().unwrap();
        drop(b);
        let sent = send_segments(a.as_fd(), &[b"x"], MOST);
        assert_eq!(sent.result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(!sent.exhausted);
    }

    #[test]
    fn half_closing_ends_the_peers_input_only() {
        let (a, b) = pair().unwrap();
        half_close(a.as_fd()).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(receive(b.as_fd(), &mut buffer).result.unwrap(), 0);
        assert_eq!(send_segments(b.as_fd(), &[b"back"], MOST).result.unwrap(), 4);
        assert_eq!(receive(a.as_fd(), &mut buffer).result.unwrap(), 4);
    }
}
