//! *raw*: one task per connection, no calls, no tasks per request: what the sockets allow.

use crate::frames::{
    END, Frame, HEADER, Header, ITEM, LARGE, REQUEST, RESPONSE, Reader, STREAM, Wire, Writer,
};
use crate::handshake::{read_exact, write_all};
use harness::{Control, Histogram, Shape, body};
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Instant;

/// A stream under way.
pub struct Source {
    left: u64,
    size: usize,
    corr: u64,
}

impl Source {
    pub fn parse(corr: u64, body: &[u8]) -> Self {
        let left = u64::from_le_bytes(body[0..8].try_into().expect("eight"));
        let size = u32::from_le_bytes(body[8..12].try_into().expect("four")) as usize;
        Self { left, size, corr }
    }

    pub fn ask(items: u64, size: usize) -> Vec<u8> {
        [&items.to_le_bytes()[..], &(size as u32).to_le_bytes()].concat()
    }

    /// Writes items while there is room. False: that was the last.
    pub fn fill(&mut self, out: &mut Writer, mut item: impl FnMut(&mut Writer, Header)) -> bool {
        while self.left > 0 && out.bytes < 128 << 10 {
            item(out, Header { len: self.size, kind: ITEM, corr: self.corr });
            self.left -= 1;
        }
        if self.left == 0 {
            out.push(Header { len: 0, kind: END, corr: self.corr }, &[]);
        }
        self.left > 0
    }
}

/// What items are made of: made once, so that a connection without a stream does not pay for it.
pub fn filler() -> &'static [u8] {
    static FILLER: LazyLock<Vec<u8>> = LazyLock::new(|| body(64 << 10));
    &FILLER
}

/// Echoes straight from the read buffer.
pub async fn serve(mut wire: impl Wire) -> io::Result<()> {
    let (mut reader, mut out) = (Reader::new(), Writer::default());
    let mut source: Option<Source> = None;
    let filler = filler();
    poll_fn(move |cx| {
        loop {
            if let Some(stream) = &mut source
                && !stream.fill(&mut out, |out, header| out.push(header, &filler[..header.len]))
            {
                source = None;
            }
            let mut blocked = false;
            if out.bytes > 0 {
                match out.poll_flush(cx, &mut wire) {
                    Poll::Ready(result) => result?,
                    Poll::Pending => blocked = true,
                }
            }
            if source.is_some() {
                if blocked {
                    return Poll::Pending;
                }
                continue;
            }
            if out.bytes > 8 << 20 {
                return Poll::Pending;
            }
            match reader.poll_fill(cx, &mut wire) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
            while let Some(frame) = reader.next() {
                match frame {
                    Frame::Small(header, body) if header.kind == STREAM => {
                        source = Some(Source::parse(header.corr, body));
                    }
                    Frame::Small(header, body) => out.push(Header { kind: RESPONSE, ..header }, body),
                    Frame::Large(header, body) => out.push_large(Header { kind: RESPONSE, ..header }, body),
                }
            }
        }
    })
    .await
}

/// Keeps `depth` requests under way.
pub async fn pump(mut wire: impl Wire, shape: Shape, control: Arc<Control>, index: usize) -> Histogram {
    let (mut reader, mut out) = (Reader::new(), Writer::default());
    let template = body(shape.size);
    let mut latency = Histogram::default();
    let (mut corr, mut under_way) = (0, 0);
    let mut asked = Instant::now();
    poll_fn(move |cx| {
        loop {
            if control.is_over() && under_way == 0 {
                return Poll::Ready(std::mem::take(&mut latency));
            }
            while !control.is_over() && under_way < shape.depth {
                corr += 1;
                under_way += 1;
                let header = Header { len: shape.size, kind: REQUEST, corr };
                if shape.size >= LARGE {
                    out.push_large(header, template.clone());
                } else {
                    out.push(header, &template);
                }
                if shape.depth == 1 {
                    asked = Instant::now();
                }
            }
            if out.bytes > 0 {
                let _ = out.poll_flush(cx, &mut wire).map(|result| result.expect("written"));
            }
            let Poll::Ready(read) = reader.poll_fill(cx, &mut wire) else { return Poll::Pending };
            assert!(read.expect("read") > 0);
            let mut answers = 0;
            while let Some(Frame::Small(header, _) | Frame::Large(header, _)) = reader.next() {
                assert_eq!(header.len, shape.size);
                answers += 1;
            }
            if answers > 0 {
                under_way -= answers;
                control.count(index, answers as u64);
                if shape.depth == 1 && control.is_measured() {
                    latency.add(asked.elapsed().as_nanos() as u64);
                }
            }
        }
    })
    .await
}

pub struct Streamer<W> {
    wire: W,
    reader: Reader,
}

impl<W: Wire> Streamer<W> {
    pub fn new(wire: W) -> Self {
        Self { wire, reader: Reader::new() }
    }

    pub async fn stream(&mut self, items: u64, size: usize) -> u64 {
        let ask = Source::ask(items, size);
        let header = Header { len: ask.len(), kind: STREAM, corr: 1 };
        write_all(&mut self.wire, &[&header.encode()[..], &ask].concat()).await.expect("written");
        let mut got = 0;
        loop {
            while let Some(frame) = self.reader.next() {
                let Frame::Small(header, _) = frame else { panic!("an item of this size is small") };
                if header.kind == END {
                    return got;
                }
                got += 1;
            }
            let Self { wire, reader } = self;
            assert!(poll_fn(|cx| reader.poll_fill(cx, wire)).await.expect("read") > 0);
        }
    }
}

/// One call, byte by byte.
pub async fn echo_once(wire: &mut impl Wire, body: &[u8]) {
    let header = Header { len: body.len(), kind: REQUEST, corr: 1 };
    write_all(wire, &[&header.encode()[..], body].concat()).await.expect("written");
    read_exact(wire, &mut vec![0; HEADER + body.len()]).await.expect("read");
}
