//! CC3: the same bytes, split as the input says, and in one piece: headers, then whole connections of both roles.

use hostwire_core::body::BodyLease;
use hostwire_core::client::{self, Event as ClientEvent, Request, StreamPoll};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::host::{self, Event as HostEvent};
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use hostwire_core::transmit::MAX_SEGMENTS;
use hostwire_core::wire::{HEADER_LEN, Header, HeaderDecoder, HeaderError};
use hostwire_sim::World;

/// The first byte says what is played, the second how many of the next bytes are sizes of pieces; the rest is a peer's stream.
///
/// # Panics
/// If the pieces make a difference.
pub fn incremental_input(data: &[u8]) {
    let Some((&[what, count], rest)) = data.split_first_chunk::<2>() else { return };
    let (sizes, stream) = rest.split_at(usize::from(count % 16).min(rest.len()));
    let mut stream = stream.to_vec();
    if what & 0x80 != 0 {
        stream.resize(stream.len() + 70_000, what); // a body that is leased
    }
    match what % 4 {
        0 => headers(sizes, &stream),
        1 => same(sizes, &stream, |world| HostSide { conn: world.host, kept: Vec::new() }),
        2 => same(sizes, &stream, busy_client),
        _ => {
            same(sizes, &stream, |_| HostSide { conn: World::fresh().host, kept: Vec::new() });
            same(sizes, &stream, |_| ClientSide::of(World::fresh().client));
        }
    }
}

/// The sizes of pieces, again and again; never zero.
fn pieces<'s>(sizes: &'s [u8], stream: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
    let mut rest = stream;
    let mut sizes = sizes.iter().map(|size| usize::from(*size).max(1)).cycle();
    std::iter::from_fn(move || {
        let size = sizes.next().unwrap_or(usize::MAX).min(rest.len());
        let (piece, behind) = rest.split_at(size);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Headers one behind the other, each without its body.
fn headers(sizes: &[u8], stream: &[u8]) {
    let mut wanted: Vec<Result<Header, HeaderError>> = Vec::new();
    for raw in stream.as_chunks::<HEADER_LEN>().0 {
        wanted.push(Header::decode(raw));
        if wanted.last().is_some_and(Result::is_err) {
            break;
        }
    }
    let tail = stream.as_chunks::<HEADER_LEN>().1;
    if wanted.iter().all(Result::is_ok) && tail.len() >= 5 && tail[4] != 2 {
        wanted.push(Err(HeaderError::Version)); // W1
    }
    let mut decoder = HeaderDecoder::default();
    let mut found = Vec::new();
    'all: for mut piece in pieces(sizes, stream) {
        while !piece.is_empty() {
            match decoder.feed(piece) {
                Ok((taken, header)) => {
                    piece = &piece[taken..];
                    found.extend(header.map(Ok));
                }
                Err(error) => {
                    found.push(Err(error));
                    break 'all;
                }
            }
        }
    }
    assert_eq!(found, wanted);
}

/// A connection that hands over what it says.
trait Side: Endpoint {
    /// Takes every event; whether there was one.
    fn take(&mut self) -> bool;
    /// What was said, in order, bodies and all.
    fn said(&mut self) -> Vec<(String, Vec<u8>)>;
}

struct HostSide {
    conn: host::Connection,
    kept: Vec<HostEvent>,
}

struct ClientSide {
    conn: client::Connection,
    kept: Vec<ClientEvent>,
}

impl ClientSide {
    fn of(conn: client::Connection) -> Self {
        Self { conn, kept: Vec::new() }
    }
}

macro_rules! endpoint {
    ($name:ty) => {
        impl Endpoint for $name {
            fn handle_input(
                &mut self,
                now: Instant,
                bytes: &[u8],
            ) -> Result<usize, hostwire_core::fault::Fault> {
                self.conn.handle_input(now, bytes)
            }
            fn lease_body(&mut self) -> Option<BodyLease> {
                self.conn.lease_body()
            }
            fn return_body(&mut self, now: Instant, lease: BodyLease) {
                self.conn.return_body(now, lease);
            }
            fn handle_eof(&mut self, now: Instant) {
                self.conn.handle_eof(now);
            }
            fn handle_timeout(&mut self, now: Instant) {
                self.conn.handle_timeout(now);
            }
            fn handle_disconnect(&mut self, now: Instant, why: hostwire_core::endpoint::Disconnect) {
                self.conn.handle_disconnect(now, why);
            }
            fn poll_transmit(&mut self, now: Instant) -> Option<hostwire_core::transmit::Transmit<'_>> {
                self.conn.poll_transmit(now)
            }
            fn deadline(&self) -> Option<hostwire_core::endpoint::Deadline> {
                self.conn.deadline()
            }
            fn interest(&self) -> hostwire_core::endpoint::Interest {
                self.conn.interest()
            }
            fn is_closed(&self) -> bool {
                self.conn.is_closed()
            }
        }
    };
}
endpoint!(HostSide);
endpoint!(ClientSide);

impl Side for HostSide {
    fn take(&mut self) -> bool {
        let before = self.kept.len();
        self.kept.extend(std::iter::from_fn(|| self.conn.poll_event()));
        before != self.kept.len()
    }

    fn said(&mut self) -> Vec<(String, Vec<u8>)> {
        let said = |event: HostEvent| match event {
            HostEvent::Request { id, route, component, binary, priority, body, permit: _ } => {
                (format!("request {id:?} {route:?} {component} {binary} {priority:?}"), body.into_vec())
            }
            HostEvent::RouteOpen { id, open, component, class } => {
                (format!("open {id:?} {component} {class:?}"), open.encode())
            }
            other => (format!("{other:?}"), Vec::new()),
        };
        self.kept.drain(..).map(said).collect()
    }
}

impl Side for ClientSide {
    fn take(&mut self) -> bool {
        let before = self.kept.len();
        self.kept.extend(std::iter::from_fn(|| self.conn.poll_event()));
        before != self.kept.len()
    }

    fn said(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut said = Vec::new();
        for event in self.kept.drain(..) {
            match event {
                ClientEvent::Settled {
                    op,
                    outcome: Outcome::Terminal(Terminal::Response { binary, body }),
                    bytes_handed,
                } => said.push((format!("response {op:?} {binary} {bytes_handed}"), body.into_vec())),
                // Items wait until the end, so that pieces cannot matter to what overflows.
                ClientEvent::Readable { op } => {
                    said.push((format!("readable {op:?}"), Vec::new()));
                    while let StreamPoll::Item(item) = self.conn.take_item(op) {
                        said.push((format!("item {op:?} {}", item.binary), item.body.into_vec()));
                    }
                }
                other => said.push((format!("{other:?}"), Vec::new())),
            }
        }
        said
    }
}

/// A client with a route, two unary requests and a stream, all written.
fn busy_client(mut world: World) -> ClientSide {
    let route = world.route.expect("a route");
    for stream in [false, true, false] {
        let request = Request { stream, ..Request::unary(b"h".to_vec(), Instant::FAR_FUTURE) };
        world.client.request(world.now, route, request).expect("admitted");
    }
    let mut side = ClientSide::of(world.client);
    write(&mut side, &mut Vec::new());
    side
}

fn write(side: &mut impl Endpoint, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    while let Some(offer) = side.poll_transmit(Instant::ZERO) {
        let mut segments = [&[][..]; MAX_SEGMENTS];
        let filled = offer.segments(&mut segments);
        segments[..filled].iter().for_each(|part| out.extend_from_slice(part));
        let all = offer.len();
        offer.written(all).expect("no more than was offered");
    }
    before != out.len()
}

fn same<S: Side>(sizes: &[u8], stream: &[u8], make: impl Fn(World) -> S) {
    let side = || make(World::routed());
    let whole = play(side(), &[], stream, false);
    assert_eq!(play(side(), sizes, stream, false), whole, "CC3: split");
    assert_eq!(play(side(), sizes, stream, true), whole, "CC3: by lease");
}

/// Plays a stream to its end. Events are taken and bytes written only where input is refused, which no split may move.
fn play<S: Side>(mut side: S, sizes: &[u8], stream: &[u8], lease: bool) -> (Vec<(String, Vec<u8>)>, Vec<u8>) {
    let mut out = Vec::new();
    'all: for mut piece in pieces(sizes, stream) {
        while !piece.is_empty() {
            let taken = if lease && let Some(mut lease) = side.lease_body() {
                let n = lease.room().min(piece.len());
                lease.buffer().extend_from_slice(&piece[..n]);
                side.return_body(Instant::ZERO, lease);
                n
            } else {
                match side.handle_input(Instant::ZERO, piece) {
                    Ok(taken) => taken,
                    Err(_) => break 'all,
                }
            };
            piece = &piece[taken..];
            if taken == 0 && !side.take() && !write(&mut side, &mut out) {
                break 'all;
            }
        }
    }
    let deadline = side.deadline();
    side.take();
    write(&mut side, &mut out);
    side.handle_eof(Instant::ZERO);
    side.take();
    write(&mut side, &mut out);
    side.handle_disconnect(Instant::ZERO, hostwire_core::endpoint::Disconnect::Exhausted);
    side.take();
    assert!(side.is_closed(), "an end of the transport is the end");
    let mut said = side.said();
    said.push((format!("{deadline:?}"), Vec::new()));
    (said, out)
}
