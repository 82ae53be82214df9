//! 21-byte headers, a read buffer of 64 KiB with direct reads for large bodies, and a vectored write queue.

use bytes::BufMut;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub const HEADER: usize = 21;
pub const REQUEST: u8 = 0;
pub const RESPONSE: u8 = 1;
pub const ITEM: u8 = 3;
pub const END: u8 = 4;
/// Asks for a stream: count and size.
pub const STREAM: u8 = 12;
/// From here on a body is read and written where it is.
pub const LARGE: usize = 16 << 10;

#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub len: usize,
    pub kind: u8,
    pub corr: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes[4] = 2;
        bytes[5] = self.kind;
        bytes[7..9].copy_from_slice(&1_u16.to_le_bytes());
        bytes[13..21].copy_from_slice(&self.corr.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        assert_eq!(bytes[4], 2);
        let len = u32::from_le_bytes(bytes[0..4].try_into().expect("four")) as usize;
        let corr = u64::from_le_bytes(bytes[13..21].try_into().expect("eight"));
        Self { len, kind: bytes[5], corr }
    }
}

/// A connected stream of either runtime.
pub trait Wire: Send + Unpin + 'static {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Appends at most `most` bytes.
    fn poll_append(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        most: usize,
    ) -> Poll<io::Result<usize>>;
    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;
}

macro_rules! tokio_wire {
    ($stream:ty) => {
        impl Wire for $stream {
            fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
                let mut buffer = tokio::io::ReadBuf::new(into);
                ready!(tokio::io::AsyncRead::poll_read(Pin::new(self), cx, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }

            fn poll_append(
                &mut self,
                cx: &mut Context<'_>,
                into: &mut Vec<u8>,
                most: usize,
            ) -> Poll<io::Result<usize>> {
                tokio_util::io::poll_read_buf(Pin::new(self), cx, &mut into.limit(most))
            }

            fn poll_write(&mut self, cx: &mut Context<'_>, from: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
                match from {
                    [one] => tokio::io::AsyncWrite::poll_write(Pin::new(self), cx, one),
                    many => tokio::io::AsyncWrite::poll_write_vectored(Pin::new(self), cx, many),
                }
            }
        }
    };
}
tokio_wire!(tokio::net::TcpStream);
tokio_wire!(tokio::net::UnixStream);

impl Wire for smol::net::TcpStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        futures::AsyncRead::poll_read(Pin::new(self), cx, into)
    }

    fn poll_append(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let before = into.len();
        into.resize(before + most, 0); // this trait knows no other way
        let read = futures::AsyncRead::poll_read(Pin::new(self), cx, &mut into[before..]);
        let kept = if let Poll::Ready(Ok(n)) = read { n } else { 0 };
        into.truncate(before + kept);
        read
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match from {
            [one] => futures::AsyncWrite::poll_write(Pin::new(self), cx, one),
            many => futures::AsyncWrite::poll_write_vectored(Pin::new(self), cx, many),
        }
    }
}

pub enum Frame<'a> {
    Small(Header, &'a [u8]),
    Large(Header, Vec<u8>),
}

pub struct Reader {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    large: Option<(Header, Vec<u8>)>,
}

impl Reader {
    pub fn new() -> Self {
        Self { buffer: vec![0; 64 << 10].into_boxed_slice(), start: 0, end: 0, large: None }
    }

    pub fn poll_fill(&mut self, cx: &mut Context<'_>, wire: &mut impl Wire) -> Poll<io::Result<usize>> {
        if let Some((header, body)) = &mut self.large
            && body.len() < header.len
        {
            let most = header.len - body.len();
            return wire.poll_append(cx, body, most);
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.buffer.len() - self.end < LARGE + HEADER {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let n = ready!(wire.poll_read(cx, &mut self.buffer[self.end..]))?;
        self.end += n;
        Poll::Ready(Ok(n))
    }

    pub fn next(&mut self) -> Option<Frame<'_>> {
        if let Some((header, body)) = &self.large {
            if body.len() < header.len {
                return None;
            }
            return self.large.take().map(|(header, body)| Frame::Large(header, body));
        }
        let have = self.end - self.start;
        if have < HEADER {
            return None;
        }
        let header = Header::decode(&self.buffer[self.start..self.start + HEADER]);
        if header.len >= LARGE {
            let mut body = Vec::with_capacity(header.len);
            let take = (have - HEADER).min(header.len);
            body.extend_from_slice(&self.buffer[self.start + HEADER..self.start + HEADER + take]);
            self.start += HEADER + take;
            if take == header.len {
                return Some(Frame::Large(header, body));
            }
            self.large = Some((header, body));
            return None;
        }
        if have < HEADER + header.len {
            return None;
        }
        let at = self.start + HEADER;
        self.start = at + header.len;
        Some(Frame::Small(header, &self.buffer[at..at + header.len]))
    }
}

/// Small frames are copied together, large bodies kept whole and pointed at.
#[derive(Default)]
pub struct Writer {
    current: Vec<u8>,
    chunks: VecDeque<Vec<u8>>,
    /// Bytes of the front that have left.
    gone: usize,
    free: Option<Vec<u8>>,
    pub bytes: usize,
}

impl Writer {
    pub fn push(&mut self, header: Header, body: &[u8]) {
        if self.current.len() + HEADER + body.len() > 64 << 10 {
            self.seal();
        }
        self.current.extend_from_slice(&header.encode());
        self.current.extend_from_slice(body);
        self.bytes += HEADER + body.len();
    }

    pub fn push_large(&mut self, header: Header, body: Vec<u8>) {
        self.current.extend_from_slice(&header.encode());
        self.seal();
        self.bytes += HEADER + body.len();
        self.chunks.push_back(body);
    }

    pub fn push_encoded(&mut self, bytes: &[u8]) {
        self.current.extend_from_slice(bytes);
        self.bytes += bytes.len();
    }

    fn seal(&mut self) {
        if !self.current.is_empty() {
            let next = self.free.take().unwrap_or_else(|| Vec::with_capacity(64 << 10));
            self.chunks.push_back(std::mem::replace(&mut self.current, next));
        }
    }

    pub fn poll_flush(&mut self, cx: &mut Context<'_>, wire: &mut impl Wire) -> Poll<io::Result<()>> {
        while self.bytes > 0 {
            let n = if self.chunks.is_empty() {
                ready!(wire.poll_write(cx, &[IoSlice::new(&self.current[self.gone..])]))?
            } else {
                let mut slices = [IoSlice::new(&[]); 16];
                let mut count = 0;
                for (index, chunk) in self.chunks.iter().take(15).enumerate() {
                    slices[count] = IoSlice::new(if index == 0 { &chunk[self.gone..] } else { chunk });
                    count += 1;
                }
                if self.chunks.len() <= 15 && !self.current.is_empty() {
                    slices[count] = IoSlice::new(&self.current);
                    count += 1;
                }
                ready!(wire.poll_write(cx, &slices[..count]))?
            };
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.took(n);
        }
        Poll::Ready(Ok(()))
    }

    fn took(&mut self, n: usize) {
        self.bytes -= n;
        self.gone += n;
        while let Some(front) = self.chunks.front() {
            if self.gone < front.len() {
                return;
            }
            self.gone -= front.len();
            if let Some(mut chunk) = self.chunks.pop_front()
                && self.free.is_none()
                && chunk.capacity() <= 128 << 10
            {
                chunk.clear();
                self.free = Some(chunk);
            }
        }
        if self.gone == self.current.len() {
            self.current.clear();
            self.gone = 0;
        }
    }
}
