//! The raw peer: plays a vector over a blocking socket against any program that speaks the protocol.
//!
//! Owns one `std::net::TcpStream`. Whoever started the other program does what the vector's commands say, and compares what
//! that program reports, through [`Surroundings`]. Bytes are judged here, in the same way as against the core.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostwire_core::auth::{ClientHandshake, Credentials, HostHandshake, MessageReader, Nonce};
use serde_json::Value;

use crate::bytes::Bytes;
use crate::format::{Action, Body, Case, Exchange, Expect, Field, Pattern, Report, Step, Subject, Vector};
use crate::replay::matching::{compare, next_len, shown, to_front};
use crate::replay::{Difference, Divergence};

/// The program around the subject, as the peer's owner runs it.
pub trait Surroundings {
    /// Does what the vector says, such as sending a request from a client under test.
    ///
    /// # Errors
    ///
    /// Why it could not be done, for people.
    fn command(&mut self, command: &Report) -> Result<(), String>;

    /// Waits for the subject's next report and compares it.
    ///
    /// # Errors
    ///
    /// What differs.
    fn event(&mut self, expected: &Report) -> Result<(), Vec<Difference>>;

    /// The subject has ended the connection; compares why, if that can be seen. The causes are [`close_cause`](crate::close_cause)'s.
    ///
    /// # Errors
    ///
    /// What differs.
    fn closed(&mut self, _cause: &str) -> Result<(), Vec<Difference>> {
        Ok(())
    }

    /// The case is over and its connection not yet closed: compares what no step has asked for.
    ///
    /// # Errors
    ///
    /// What the vector does not say.
    fn finish(&mut self) -> Result<(), Vec<Difference>> {
        Ok(())
    }
}

/// Why a case is for the core alone, and no socket can play it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoreOnly {
    /// It is no exchange: nothing goes over a connection.
    NoExchange,
    /// It moves the clock, which a program under test does not let go of.
    Clock,
    /// It needs a second connection, whose place the subject names.
    SecondSocket,
    /// It says how many bytes the transport takes before it fails; a system's socket does not ask.
    Cut,
    /// It fixes what a program under test chooses itself: nonces, channels, or what its embedder does.
    Fixed,
}

impl CoreOnly {
    /// The reason, for people.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoExchange => "nothing goes over a connection",
            Self::Clock => "it moves the clock",
            Self::SecondSocket => "it needs a second connection",
            Self::Cut => "it says how many bytes the transport takes",
            Self::Fixed => "it fixes nonces, or what an embedder does",
        }
    }
}

/// A host that serves hostwire's own test components. It echoes, and what it sees inside is not asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabHost;

impl Surroundings for LabHost {
    fn command(&mut self, _command: &Report) -> Result<(), String> {
        Ok(())
    }

    fn event(&mut self, _expected: &Report) -> Result<(), Vec<Difference>> {
        Ok(())
    }
}

/// One end of a connection to a program under test.
pub struct Peer {
    stream: TcpStream,
    credentials: Credentials,
    nonce: [u8; 32],
    patience: Duration,
    /// What has come and no step has named yet.
    sent: Vec<u8>,
    /// The subject has ended its side, or the connection is reset.
    ended: bool,
    /// What is played was recorded between two programs.
    recording: bool,
    /// The routes that the vector names by its own numbers, and the numbers that the subject chose.
    routes: Vec<Learned>,
}

#[derive(Clone, Copy)]
struct Learned {
    channel: u16,
    epoch: u32,
    real_channel: u16,
    real_epoch: u32,
}

impl Peer {
    /// A peer on a fresh connection: for a host under test one that was dialled, for a client under test one that was
    /// accepted. `nonce` is this end's and must be fresh (A2). `patience` is how long one step waits for the subject.
    #[must_use]
    pub fn new(stream: TcpStream, credentials: Credentials, nonce: [u8; 32], patience: Duration) -> Self {
        // Each step is a write of its own, and none waits for the one before to be acknowledged. It only costs time if it fails.
        let _slow = stream.set_nodelay(true);
        Self {
            stream,
            credentials,
            nonce,
            patience,
            sent: Vec::new(),
            ended: false,
            recording: false,
            routes: Vec::new(),
        }
    }

    /// Whether a case can be played over a socket at all.
    #[must_use]
    pub fn can_play(vector: &Vector, case: &Case) -> bool {
        Self::core_only(vector, case).is_none()
    }

    /// Why a case cannot be played over a socket, if so.
    #[must_use]
    pub fn core_only(vector: &Vector, case: &Case) -> Option<CoreOnly> {
        let (Some(exchange), Body::Exchange(steps)) = (&vector.exchange, &case.body) else {
            return Some(CoreOnly::NoExchange);
        };
        let needs = exchange.before.iter().chain(steps).find_map(|step| match step.action {
            Action::Advance(_) => Some(CoreOnly::Clock),
            Action::Socket(_) => Some(CoreOnly::SecondSocket),
            Action::Cut { .. } => Some(CoreOnly::Cut),
            Action::Recv(_)
            | Action::Expect(_)
            | Action::Event(_)
            | Action::Command(_)
            | Action::Eof
            | Action::Closed(_)
            | Action::Auth => None,
        });
        needs.or(exchange.core_only.then_some(CoreOnly::Fixed))
    }

    /// Plays one case. The connection is used up.
    ///
    /// # Errors
    ///
    /// The first divergence; also one where the case cannot be played over a socket.
    pub fn play(
        mut self,
        vector: &Vector,
        case: &Case,
        around: &mut dyn Surroundings,
    ) -> Result<(), Divergence> {
        let (Some(exchange), Body::Exchange(steps), true) =
            (&vector.exchange, &case.body, Self::can_play(vector, case))
        else {
            let what = vec![Difference::new("case", "one that a socket can play", "one for the core only")];
            let file = Arc::from(vector.path.display().to_string());
            return Err(Divergence { file, line: case.line, manner: MANNER, differences: what });
        };
        self.recording = exchange.recording;
        let mut last = None;
        for step in exchange.before.iter().chain(steps) {
            self.step(exchange, step, around).map_err(|differences| blame(step, differences))?;
            last = Some(step);
        }
        if let Some(step) = last {
            around.finish().map_err(|differences| blame(step, differences))?;
        }
        match last {
            Some(step) if !self.sent.is_empty() && !exchange.recording => {
                Err(blame(step, vec![Difference::new("sent", "nothing more", shown(&self.sent))]))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn step(
        &mut self,
        exchange: &Exchange,
        step: &Step,
        around: &mut dyn Surroundings,
    ) -> Result<(), Vec<Difference>> {
        match &step.action {
            Action::Recv(fields) => self.write(&self.translated(fields)),
            Action::Expect(expect) => self.expect(expect),
            Action::Event(expected) => around.event(expected),
            Action::Command(command) => {
                around.command(command).map_err(|why| vec![Difference::new("command", "done", why)])
            }
            Action::Eof => {
                // A subject that has closed already has seen the end.
                let _gone = self.stream.shutdown(Shutdown::Write);
                Ok(())
            }
            Action::Closed(cause) => self.closed().and_then(|()| around.closed(cause)),
            Action::Auth => self.authenticate(exchange.subject),
            Action::Advance(_) | Action::Socket(_) | Action::Cut { .. } => {
                Err(vec![Difference::new("step", "one that a socket can play", "one for the core only")])
            }
        }
    }

    /// The bytes of a step, with the route's numbers as the subject chose them.
    fn translated(&self, fields: &[Field]) -> Vec<u8> {
        let number = |name: &str| {
            let field = fields.iter().find(|field| field.name == name)?;
            let mut wide = [0; 4];
            for (to, from) in wide.iter_mut().zip(field.value.to_vec()) {
                *to = from;
            }
            Some(u32::from_le_bytes(wide))
        };
        let channel = number("channel").and_then(|channel| u16::try_from(channel).ok());
        let real = channel.zip(number("epoch")).and_then(|(channel, epoch)| self.real(channel, epoch));
        let mut all = Bytes::default();
        for field in fields {
            match (field.name.as_str(), real) {
                ("channel", Some((channel, _))) => all.push(channel.to_le_bytes().to_vec()),
                ("epoch", Some((_, epoch))) => all.push(epoch.to_le_bytes().to_vec()),
                (_, Some(_) | None) => all.extend(&field.value),
            }
        }
        all.to_vec()
    }

    /// Sends, and takes what comes meanwhile: a subject that cannot write may stop reading.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Vec<Difference>> {
        let until = Instant::now() + self.patience;
        let failed =
            |error: std::io::Error| vec![Difference::new("socket", "to take bytes", error.to_string())];
        self.stream.set_write_timeout(Some(Duration::from_millis(20))).map_err(failed)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
                Err(error) if is_timeout(&error) && Instant::now() < until => {
                    self.read(Duration::from_millis(1))?;
                }
                // The subject has ended the connection: a later step says whether it should have.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    return Ok(());
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Takes what is there, waiting so long for the first of it.
    fn read(&mut self, wait: Duration) -> Result<(), Vec<Difference>> {
        let failed =
            |error: std::io::Error| vec![Difference::new("socket", "to be readable", error.to_string())];
        self.stream.set_read_timeout(Some(wait)).map_err(failed)?;
        let mut buffer = vec![0; 65_536];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => self.sent.extend(buffer.iter().take(count)),
            Err(error) if is_timeout(&error) => {}
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset) => self.ended = true,
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }

    fn expect(&mut self, expect: &Expect) -> Result<(), Vec<Difference>> {
        let until = Instant::now() + self.patience;
        let mut expect = self.in_its_numbers(expect);
        let len = loop {
            // A recording holds one of the orders in which answers may come.
            let found = !self.recording || to_front(&expect, &mut self.sent);
            match next_len(&expect, &self.sent) {
                Some(len) if found || self.ended || Instant::now() >= until => break len,
                Some(_) => self.read(Duration::from_millis(20))?,
                None if self.ended || Instant::now() >= until => {
                    let end = if self.ended { ", then the end" } else { ", then silence" };
                    return Err(vec![Difference::new("sent", "a message", shown(&self.sent) + end)]);
                }
                None => self.read(Duration::from_millis(20))?,
            }
        };
        let message: Vec<u8> = self.sent.drain(..len).collect();
        self.learn(&mut expect, &message);
        let differences = compare(&expect, &message);
        if differences.is_empty() { Ok(()) } else { Err(differences) }
    }

    /// The expectation in the subject's numbers, as far as they are known.
    fn in_its_numbers(&self, expect: &Expect) -> Expect {
        let Expect::Frame(fields) = expect else { return expect.clone() };
        let raw = |name: &str| match fields.iter().find(|(other, _)| other == name) {
            Some((_, Pattern::Exact(bytes))) => bytes.to_vec(),
            Some((_, Pattern::Length | Pattern::Json(_) | Pattern::Error { .. })) | None => Vec::new(),
        };
        let (Some(channel), Some(epoch)) =
            (raw("channel").first_chunk::<2>().copied(), raw("epoch").first_chunk::<4>().copied())
        else {
            return expect.clone();
        };
        // An epoch belongs to its channel: on another one it stays what the vector says.
        let Some((channel, epoch)) = self.real(u16::from_le_bytes(channel), u32::from_le_bytes(epoch)) else {
            return expect.clone();
        };
        let exact = |bytes: &[u8]| {
            let mut value = Bytes::default();
            value.push(bytes.to_vec());
            Pattern::Exact(value)
        };
        let fields = fields.iter().map(|(name, pattern)| match name.as_str() {
            "channel" => (name.clone(), exact(&channel.to_le_bytes())),
            "epoch" => (name.clone(), exact(&epoch.to_le_bytes())),
            _ => (name.clone(), pattern.clone()),
        });
        Expect::Frame(fields.collect())
    }

    /// The subject's numbers for a route of the vector, where it has been opened.
    fn real(&self, channel: u16, epoch: u32) -> Option<(u16, u32)> {
        let mut known = self.routes.iter().rev().filter(|route| route.channel == channel);
        let route = known.clone().find(|route| route.epoch == epoch).or_else(|| known.next())?;
        Some((route.real_channel, route.real(epoch)))
    }

    /// Learns a route's numbers from the answer to `route.open`, which is then as expected in that.
    fn learn(&mut self, expect: &mut Expect, message: &[u8]) {
        let Expect::Frame(fields) = expect else { return };
        for (_, pattern) in fields {
            if let Pattern::Json(value) = pattern
                && let Some(route) = Learned::from(value, message.get(21..).unwrap_or_default())
            {
                self.routes.push(route);
                *value = serde_json::json!({
                    "op": "route.open", "route_channel": route.real_channel, "route_epoch": route.real_epoch,
                });
            }
        }
    }

    fn closed(&mut self) -> Result<(), Vec<Difference>> {
        let until = Instant::now() + self.patience;
        while !self.ended && (self.recording || self.sent.is_empty()) {
            if Instant::now() >= until {
                return Err(vec![Difference::new("socket", "to be closed", "open")]);
            }
            self.read(Duration::from_millis(20))?;
        }
        if self.recording || self.sent.is_empty() {
            return Ok(());
        }
        Err(vec![Difference::new("sent", "nothing more", shown(&self.sent))])
    }

    fn message(&mut self) -> Result<Vec<u8>, Vec<Difference>> {
        let until = Instant::now() + self.patience;
        let mut reader = MessageReader::new();
        loop {
            let (taken, body) =
                reader.handle_input(&self.sent).map_err(|error| handshake(&error.to_string()))?;
            self.sent.drain(..taken);
            match body {
                Some(body) => return Ok(body),
                None if self.ended || Instant::now() >= until => return Err(handshake("no message came")),
                None => self.read(Duration::from_millis(20))?,
            }
        }
    }

    fn authenticate(&mut self, subject: Subject) -> Result<(), Vec<Difference>> {
        let wrong = |error: hostwire_core::auth::AuthError| handshake(&error.to_string());
        let nonce = Nonce::new(self.nonce);
        match subject {
            Subject::Host => {
                let client =
                    ClientHandshake::new(self.credentials.clone(), nonce, "client").map_err(wrong)?;
                self.write(&client.hello())?;
                let (proof, _done) = client.handle_server_hello(&self.message()?).map_err(wrong)?;
                self.write(&proof)
            }
            Subject::Client => {
                let Credentials { key, daemon_id, daemon_ver } = self.credentials.clone();
                let host = HostHandshake::new(key, daemon_id, &daemon_ver, nonce).map_err(wrong)?;
                let (challenge, rest) = host.handle_client_hello(&self.message()?).map_err(wrong)?;
                self.write(&challenge)?;
                rest.handle_client_auth(&self.message()?).map(drop).map_err(wrong)
            }
        }
    }
}

impl Learned {
    /// From what the vector says a `route.open` is answered with, and the answer.
    fn from(expected: &Value, answer: &[u8]) -> Option<Self> {
        let answer: Value = serde_json::from_slice(answer).ok()?;
        let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
        let channel =
            |value: &Value| number(value, "route_channel").and_then(|number| u16::try_from(number).ok());
        let epoch =
            |value: &Value| number(value, "route_epoch").and_then(|number| u32::try_from(number).ok());
        Some(Self {
            channel: channel(expected)?,
            epoch: epoch(expected)?,
            real_channel: channel(&answer)?,
            real_epoch: epoch(&answer)?,
        })
    }

    /// An epoch of the vector's channel, as far from the real one as it is from the vector's. Zero stays zero, and nothing
    /// else becomes it.
    fn real(&self, epoch: u32) -> u32 {
        if epoch == 0 {
            return 0;
        }
        match self.real_epoch.wrapping_add(epoch.wrapping_sub(self.epoch)) {
            0 => u32::MAX,
            real => real,
        }
    }
}

const MANNER: &str = "over a socket";

fn blame(step: &Step, differences: Vec<Difference>) -> Divergence {
    Divergence { file: Arc::clone(&step.file), line: step.line, manner: MANNER, differences }
}

fn handshake(why: &str) -> Vec<Difference> {
    vec![Difference::new("handshake", "to be done", why)]
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
