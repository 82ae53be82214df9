//! The core, driven by hand over a `std::net::TcpStream`: no runtime, no other crate of hostwire, one loop.
//!
//!     cargo run -p hostwire-core --example by_hand -- CONNECTION_FILE TEXT
//!
//! It asks the component `lab` of the host whose connection file is named (`hostwire serve` runs one), and prints the answer. What a
//! program should do besides is to judge the file before it trusts it (D1, D4): that is what `hostwire::discovery` is for.

use hostwire_core::auth::Nonce;
use hostwire_core::client::{Config, Connection, Event, OpId, Request};
use hostwire_core::control::{Identity, RouteOpen, Target};
use hostwire_core::discovery::Document;
use hostwire_core::endpoint::{Disconnect, WriteFailure};
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::{ClientLimits, ClientTimeouts};
use hostwire_core::negotiate::OfferList;
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// One connection and its socket.
struct Client {
    conn: Connection,
    socket: TcpStream,
    began: std::time::Instant,
    buffer: Vec<u8>,
}

impl Client {
    fn connect(connection_file: &Path) -> Result<Self, Box<dyn Error>> {
        let document = Document::parse(&std::fs::read(connection_file)?)?;
        let socket = TcpStream::connect(document.endpoint())?;
        socket.set_nodelay(true)?;
        // A2: fresh for every attempt, from the operating system.
        let mut nonce = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut nonce)?;
        let timeouts = ClientTimeouts::default();
        let config = Config {
            credentials: document.credentials,
            nonce: Nonce::new(nonce),
            role: "by hand".into(),
            offers: OfferList::tcp_only(),
            limits: ClientLimits::default(),
            setup_deadline: Instant::ZERO + timeouts.setup,
            timeouts,
        };
        let conn = Connection::new(Instant::ZERO, config)?;
        Ok(Self { conn, socket, began: std::time::Instant::now(), buffer: vec![0; 65_536] })
    }

    fn now(&self) -> Instant {
        Instant::from_micros(u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// The loop: until an event is what `found` looks for.
    fn until<T>(&mut self, mut found: impl FnMut(Event) -> Option<T>) -> Result<T, CloseReason> {
        loop {
            while let Some(event) = self.conn.poll_event() {
                if let Event::Closed { reason, .. } = &event {
                    return Err(*reason);
                }
                if let Some(found) = found(event) {
                    return Ok(found);
                }
            }
            self.write();
            self.read();
            // After what has arrived, so that an answer that is there beats its deadline (X5).
            self.conn.handle_timeout(self.now());
        }
    }

    fn write(&mut self) {
        let now = self.now();
        while let Some(offer) = self.conn.poll_transmit(now) {
            let mut segments = [&[][..]; 1];
            offer.segments(&mut segments);
            match self.socket.write(segments[0]) {
                // Exactly what was taken: that count is the proof behind `not_sent` (O1).
                Ok(taken) if taken > 0 => offer.written(taken).expect("no more than was offered"),
                Ok(_) | Err(_) => offer.failed(WriteFailure::NothingAccepted),
            }
        }
    }

    /// Waits for input, at most to the next deadline.
    fn read(&mut self) {
        if !self.conn.interest().read {
            return;
        }
        let now = self.now();
        let wait = self.conn.deadline().map(|deadline| deadline.at.saturating_since(now));
        let wait = wait.map(|wait| wait.clamp(Duration::from_millis(1), Duration::from_secs(3_600)));
        if self.socket.set_read_timeout(wait).is_err() {
            return self.conn.handle_disconnect(now, Disconnect::ReadFailed);
        }
        match self.socket.read(&mut self.buffer) {
            Ok(0) => self.conn.handle_eof(self.now()),
            Ok(read) => {
                let now = self.now();
                let mut rest = &self.buffer[..read];
                // It takes all of it, unless it wants its events taken first: there are never so many here.
                while let Ok(taken @ 1..) = self.conn.handle_input(now, rest) {
                    rest = &rest[taken..];
                    if rest.is_empty() {
                        break;
                    }
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => self.conn.handle_disconnect(self.now(), Disconnect::ReadFailed),
        }
    }

    fn outcome(&mut self, of: OpId) -> Result<Outcome, CloseReason> {
        self.until(|event| {
            if let Event::Settled { op, outcome, .. } = event
                && op == of
            {
                return Some(outcome);
            }
            None
        })
    }
}

/// Asks the lab one thing; the answer's text.
///
/// # Errors
/// There is no such host, or its answer is another.
pub(crate) fn ask(connection_file: &Path, text: &str) -> Result<String, Box<dyn Error>> {
    let mut client = Client::connect(connection_file)?;
    client.until(|event| matches!(event, Event::Ready { .. }).then_some(()))?;

    let target = Target::new("tool_provider", "lab")?;
    let identity = Identity::new("/", "example", "by-hand")?;
    let deadline = client.now() + Duration::from_secs(5);
    let now = client.now();
    let opening = client
        .conn
        .open_route(now, &RouteOpen::new(target, identity), deadline)
        .map_err(|refused| refused.code.as_str())?;
    let outcome = client.outcome(opening)?;
    let Outcome::Terminal(Terminal::RouteOpened(route)) = outcome else {
        return Err(format!("no route: {outcome:?}").into());
    };

    let request = Request::unary(text.as_bytes().to_vec(), deadline);
    let call = client.conn.request(client.now(), route, request).map_err(|refused| refused.code.as_str())?;
    let outcome = client.outcome(call)?;
    let seen = format!("no answer: {outcome:?}");
    let Outcome::Terminal(Terminal::Response { body, .. }) = outcome else { return Err(seen.into()) };
    let answer = String::from_utf8(body.into_vec())?;

    // A close in order: what has begun is finished, `Goodbye` follows, and the host closes its side.
    client.conn.shutdown(client.now());
    match client.until(|_| None::<()>) {
        Err(CloseReason::Local) => Ok(answer),
        Err(reason) => Err(reason.into()),
        Ok(()) => Ok(answer),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [connection_file, text] = arguments.as_slice() else {
        return Err("usage: by_hand CONNECTION_FILE TEXT".into());
    };
    println!("{}", ask(Path::new(connection_file), text)?);
    Ok(())
}
