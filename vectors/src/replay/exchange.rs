//! Exchanges: steps played against one connection of the core, through the calls that every shell makes.
//!
//! Keeps two queues, bytes and reports, and judges each step at their fronts. Nothing here knows a role.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hostwire_core::endpoint::{Endpoint, WriteFailure};
use hostwire_core::time::Instant;

use super::matching::{compare, compare_report, next_len, shown, to_front};
use super::{Difference, Divergence};
use crate::bytes::Bytes;
use crate::format::{Action, Field, Report, Step};

/// What a connection reports, in the words of vectors.
#[derive(Debug)]
pub(super) enum Seen {
    /// An event that vectors name, with every argument and field that it has.
    Report {
        name: &'static str,
        arguments: Vec<(&'static str, String)>,
        fields: Vec<(&'static str, Vec<u8>)>,
    },
    /// The end.
    Closed(String),
    /// Something that vectors have no word for, as the core calls it.
    Other(String),
}

/// One role of the core, as the player needs it. `socket` is 0 or 1.
pub(super) trait Role {
    /// The connection on this socket; the first one stands in for a second that is not open.
    fn endpoint(&mut self, socket: usize) -> &mut dyn Endpoint;
    /// Its next report.
    fn poll(&mut self, socket: usize) -> Option<Seen>;
    /// What the program around it does; an error is a divergence.
    fn command(&mut self, now: Instant, socket: usize, command: &Report) -> Result<(), String>;
    /// Opens the second socket: a granted candidate's.
    fn open(&mut self, now: Instant) -> Result<(), String>;
    /// The peer's side of a handshake that the vector leaves out: given what was sent so far, what to feed next. `None` when done.
    fn handshake(&mut self, sent: &mut Vec<u8>) -> Option<Vec<u8>>;
}

/// How bytes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Each step's bytes in one piece.
    Steps,
    /// All bytes that may arrive together in one piece.
    Together,
    /// Byte by byte, both ways.
    Bytewise,
    /// Large bodies read straight into their buffers.
    Leased,
}

impl Manner {
    pub(super) const ALL: [Self; 4] = [Self::Steps, Self::Together, Self::Bytewise, Self::Leased];

    fn name(self) -> &'static str {
        match self {
            Self::Steps => "each step in one piece",
            Self::Together => "all that may arrive together in one piece",
            Self::Bytewise => "byte by byte",
            Self::Leased => "large bodies read into place",
        }
    }
}

/// All bytes that the subject receives in these steps.
pub(super) fn received(steps: &[&Step]) -> usize {
    let size = |step: &&Step| match &step.action {
        Action::Recv(fields) => fields.iter().map(|field| field.value.len()).sum(),
        Action::Expect(_)
        | Action::Cut { .. }
        | Action::Event(_)
        | Action::Command(_)
        | Action::Advance(_)
        | Action::Eof
        | Action::Closed(_)
        | Action::Auth
        | Action::Socket(_) => 0,
    };
    steps.iter().map(size).sum()
}

/// Plays the steps in one manner.
///
/// A recording was made between two programs, where nobody can say which of two frames of different directions came first: in
/// one, an `expect` takes the first message with the same identity, an `event` the first report of the same name and request, and
/// what the subject would have said after the recorded end is nobody's business.
pub(super) fn play(
    role: &mut dyn Role,
    steps: &[&Step],
    manner: Manner,
    recording: bool,
) -> Result<(), Divergence> {
    let mut player = Player {
        role,
        manner,
        recording,
        now: Instant::ZERO,
        at: 0,
        open: 1,
        held: false,
        sockets: [Socket::default(), Socket::default()],
    };
    player.pump();
    let mut rest = steps;
    while let Some((step, more)) = rest.split_first() {
        rest = more;
        player.held = matches!(next(rest), Some((Step { action: Action::Cut { .. }, .. }, _)));
        let blame = |differences: Vec<Difference>| {
            if differences.is_empty() {
                return Ok(());
            }
            Err(Divergence {
                file: Arc::clone(&step.file),
                line: step.line,
                manner: manner.name(),
                differences,
            })
        };
        match &step.action {
            Action::Recv(fields) => {
                let closes = ends_in_close(rest);
                if !player.here().refused {
                    blame(player.nothing_left(closes))?;
                }
                let mut bytes = joined(fields);
                while let Some((Step { action: Action::Recv(fields), .. }, more)) = next(rest) {
                    if manner == Manner::Steps {
                        break;
                    }
                    bytes.extend(joined(fields));
                    rest = more;
                }
                blame(player.receive(&bytes, closes))?;
            }
            Action::Expect(expect) => {
                let recording = player.recording;
                let sent = &mut player.here().sent;
                if recording {
                    // Without one, the first that is there is compared, and every difference named.
                    let _found = to_front(expect, sent);
                }
                let Some(len) = next_len(expect, sent) else {
                    let what = if player.here().sent.is_empty() {
                        "nothing".into()
                    } else {
                        shown(&player.here().sent)
                    };
                    return blame(vec![Difference::new("sent", "a message", what)]);
                };
                let message: Vec<u8> = player.here().sent.drain(..len).collect();
                blame(compare(expect, &message))?;
            }
            Action::Cut { taken, fields } => {
                blame(player.bytes_left())?;
                blame(player.cut(*taken, &joined(fields)))?;
            }
            Action::Event(expected) => blame(player.reported(expected))?,
            Action::Command(command) => {
                let done = player.role.command(player.now, player.at, command);
                blame(done.err().map(|why| Difference::new("command", "done", why)).into_iter().collect())?;
                player.pump();
            }
            Action::Advance(milliseconds) => {
                blame(player.nothing_left(false))?;
                player.advance(Duration::from_millis((*milliseconds).into()));
            }
            Action::Eof => {
                blame(player.nothing_left(false))?;
                player.role.endpoint(player.at).handle_eof(player.now);
                player.pump();
            }
            Action::Closed(cause) => blame(player.closed(cause))?,
            Action::Auth => player.authenticate(),
            Action::Socket(number) => {
                let opened = player.turn_to(usize::from(*number) - 1);
                blame(opened.err().map(|why| Difference::new("socket", "open", why)).into_iter().collect())?;
            }
        }
    }
    let Some(last) = steps.last() else { return Ok(()) };
    if recording {
        return Ok(());
    }
    let mut differences = player.nothing_left(false);
    player.at = 1 - player.at;
    differences.extend(player.nothing_left(false));
    if differences.is_empty() {
        return Ok(());
    }
    Err(Divergence { file: Arc::clone(&last.file), line: last.line, manner: manner.name(), differences })
}

fn next<'s>(steps: &'s [&'s Step]) -> Option<(&'s Step, &'s [&'s Step])> {
    steps.split_first().map(|(step, more)| (*step, more))
}

/// Whether the vector says that the connection ends before anything but its peer's bytes can move it.
fn ends_in_close(rest: &[&Step]) -> bool {
    for step in rest {
        match step.action {
            Action::Closed(_) => return true,
            Action::Recv(_) | Action::Event(_) | Action::Expect(_) => {}
            Action::Cut { .. }
            | Action::Command(_)
            | Action::Advance(_)
            | Action::Eof
            | Action::Auth
            | Action::Socket(_) => {
                return false;
            }
        }
    }
    false
}

fn joined(fields: &[Field]) -> Vec<u8> {
    let mut all = Bytes::default();
    for field in fields {
        all.extend(&field.value);
    }
    all.to_vec()
}

struct Player<'r> {
    role: &'r mut dyn Role,
    manner: Manner,
    recording: bool,
    now: Instant,
    /// The socket that steps are on.
    at: usize,
    /// How many sockets are open.
    open: usize,
    /// The transport takes nothing until the next step says how much.
    held: bool,
    sockets: [Socket; 2],
}

/// One connection, as far as no step has named it yet.
#[derive(Default)]
struct Socket {
    /// What the subject has sent.
    sent: Vec<u8>,
    /// What it has reported.
    reports: VecDeque<Seen>,
    /// The subject takes no more input.
    refused: bool,
}

impl Player<'_> {
    fn here(&mut self) -> &mut Socket {
        let [first, second] = &mut self.sockets;
        if self.at == 0 { first } else { second }
    }

    fn turn_to(&mut self, socket: usize) -> Result<(), String> {
        if socket >= self.open {
            self.role.open(self.now)?;
            self.open = socket + 1;
        }
        self.at = socket;
        self.pump();
        Ok(())
    }

    /// Takes all output and all reports that are there.
    fn pump(&mut self) {
        for (at, socket) in self.sockets.iter_mut().enumerate().take(self.open) {
            loop {
                let before = (socket.sent.len(), socket.reports.len());
                while !self.held
                    && let Some(transmit) = self.role.endpoint(at).poll_transmit(self.now)
                {
                    let mut segments = [&[][..]; 64];
                    let count = transmit.segments(&mut segments);
                    let mut taken = 0;
                    for segment in segments.iter().take(count) {
                        if self.manner == Manner::Bytewise {
                            if let Some(byte) = segment.first() {
                                socket.sent.push(*byte);
                                taken = 1;
                                break;
                            }
                        } else {
                            socket.sent.extend_from_slice(segment);
                            taken += segment.len();
                        }
                    }
                    if transmit.written(taken).is_err() || taken == 0 {
                        break;
                    }
                }
                while let Some(seen) = self.role.poll(at) {
                    socket.reports.push_back(seen);
                }
                if before == (socket.sent.len(), socket.reports.len()) {
                    break;
                }
            }
        }
    }

    /// The transport takes so many bytes and fails.
    fn cut(&mut self, taken: usize, wanted: &[u8]) -> Vec<Difference> {
        let mut got = Vec::new();
        loop {
            let Some(transmit) = self.role.endpoint(self.at).poll_transmit(self.now) else {
                return vec![Difference::new("sent", "more to send", shown(&got))];
            };
            let mut segments = [&[][..]; 64];
            let count = transmit.segments(&mut segments);
            let left = taken - got.len();
            if left == 0 {
                transmit.failed(WriteFailure::NothingAccepted);
                break;
            }
            let most = if self.manner == Manner::Bytewise { 1 } else { left };
            let offered: Vec<u8> =
                segments.iter().take(count).flat_map(|segment| segment.iter().copied()).collect();
            let piece = offered.get(..most).unwrap_or(&offered);
            got.extend_from_slice(piece);
            if transmit.written(piece.len()).is_err() || piece.is_empty() {
                return vec![Difference::new("sent", "bytes", "nothing")];
            }
        }
        self.pump();
        let wanted = wanted.get(..taken).unwrap_or(wanted);
        if got == wanted { Vec::new() } else { vec![Difference::new("sent", shown(wanted), shown(&got))] }
    }

    /// Feeds input. Where the vector goes on with the end, what the subject no longer takes is not its business.
    fn receive(&mut self, bytes: &[u8], closes: bool) -> Vec<Difference> {
        let mut rest = bytes;
        let mut still = 0;
        while !rest.is_empty() && !self.here().refused {
            if self.manner == Manner::Leased
                && let Some(mut lease) = self.role.endpoint(self.at).lease_body()
            {
                let (piece, more) = rest.split_at(lease.room().min(rest.len()).min(100_000));
                lease.buffer().extend_from_slice(piece);
                self.role.endpoint(self.at).return_body(self.now, lease);
                rest = more;
                self.pump();
                continue;
            }
            let most = match self.manner {
                Manner::Bytewise => 1,
                // Small enough that the body's first bytes do not bring all of it.
                Manner::Leased => 4096,
                Manner::Steps | Manner::Together => rest.len(),
            };
            let piece = rest.get(..most).unwrap_or(rest);
            match self.role.endpoint(self.at).handle_input(self.now, piece) {
                Ok(taken) => {
                    rest = rest.get(taken..).unwrap_or_default();
                    still = if taken == 0 { still + 1 } else { 0 };
                    if still > 2 {
                        return vec![Difference::new(
                            "input",
                            "taken",
                            format!("{} bytes are not", rest.len()),
                        )];
                    }
                }
                Err(fault) => {
                    self.here().refused = true;
                    self.pump();
                    if !closes {
                        return vec![Difference::new("input", "taken", fault.to_string())];
                    }
                }
            }
            self.pump();
        }
        if self.here().refused && !closes {
            return vec![Difference::new("input", "taken", "the connection has ended")];
        }
        Vec::new()
    }

    fn advance(&mut self, by: Duration) {
        let target = self.now + by;
        loop {
            let deadlines = (0..self.open).filter_map(|at| Some((self.role.endpoint(at).deadline()?.at, at)));
            let Some((due, at)) = deadlines.min().filter(|(due, _)| *due <= target) else { break };
            let past = due < self.now;
            self.now = self.now.max(due);
            self.role.endpoint(at).handle_timeout(self.now);
            self.pump();
            // A deadline that stays in the past would never let go: the core has it wrong, and the next step shows it.
            if past {
                break;
            }
        }
        self.now = target;
        for at in 0..self.open {
            self.role.endpoint(at).handle_timeout(self.now);
        }
        self.pump();
    }

    /// The whole handshake, with the vectors' key and nonces.
    fn authenticate(&mut self) {
        loop {
            let [first, _] = &mut self.sockets;
            let Some(bytes) = self.role.handshake(&mut first.sent) else { return };

            if self.receive(&bytes, false).is_empty() {
                self.pump();
            } else {
                return;
            }
        }
    }

    fn reported(&mut self, expected: &Report) -> Vec<Difference> {
        let recording = self.recording;
        let reports = &mut self.here().reports;
        let at =
            if recording { reports.iter().position(|seen| is_of(seen, expected)).unwrap_or(0) } else { 0 };
        let Some(seen) = reports.remove(at) else {
            return vec![Difference::new("event", &expected.name, "nothing")];
        };
        let (name, arguments, fields) = match seen {
            Seen::Report { name, arguments, fields } if name == expected.name => (name, arguments, fields),
            other @ (Seen::Report { .. } | Seen::Closed(_) | Seen::Other(_)) => {
                return vec![Difference::new("event", &expected.name, said(&other))];
            }
        };
        compare_report(expected, name, &arguments, &fields)
    }

    fn closed(&mut self, cause: &str) -> Vec<Difference> {
        let mut differences = self.bytes_left();
        if self.recording {
            self.here().reports.retain(|seen| matches!(seen, Seen::Closed(_)));
        }
        // A lingering close waits for the peer, who closes its side when it has seen the end.
        if !self.role.endpoint(self.at).is_closed() && self.role.endpoint(self.at).interest().half_close {
            self.role.endpoint(self.at).handle_eof(self.now);
            self.pump();
        }
        match self.here().reports.pop_front() {
            Some(Seen::Closed(got)) if got == cause => {}
            Some(other) => differences.push(Difference::new("closed", cause, said(&other))),
            None => differences.push(Difference::new("closed", cause, "open")),
        }
        if let Some(other) = self.here().reports.pop_front() {
            differences.push(Difference::new("event", "nothing after the end", said(&other)));
        }
        if !self.role.endpoint(self.at).is_closed() {
            differences.push(Difference::new("socket", "to be closed", "to be kept open"));
        }
        differences
    }

    fn bytes_left(&mut self) -> Vec<Difference> {
        if self.recording || self.here().sent.is_empty() {
            return Vec::new();
        }
        vec![Difference::new("sent", "nothing more", shown(&self.here().sent))]
    }

    /// Bytes and reports that no step has named. A vector may go on feeding a connection that has just ended.
    fn nothing_left(&mut self, closes: bool) -> Vec<Difference> {
        if self.recording {
            return Vec::new();
        }
        let mut differences = self.bytes_left();
        let untold = self.here().reports.front().filter(|seen| !(closes && matches!(seen, Seen::Closed(_))));
        if let Some(seen) = untold {
            differences.push(Difference::new("event", "nothing more", said(seen)));
        }
        differences
    }
}

/// Whether this is the report that is meant: by name, and by the numbers of its request or route.
fn is_of(seen: &Seen, expected: &Report) -> bool {
    let Seen::Report { name, arguments, .. } = seen else { return false };
    let same = |key: &str| {
        let got = arguments.iter().find(|(other, _)| *other == key).map(|(_, value)| value.as_str());
        expected.argument(key).is_none_or(|wanted| got == Some(wanted))
    };
    *name == expected.name && ["corr", "channel", "epoch"].into_iter().all(same)
}

fn said(seen: &Seen) -> String {
    match seen {
        Seen::Report { name, arguments, .. } => {
            let mut line = (*name).to_owned();
            for (key, value) in arguments {
                line.push_str(&format!(" {key}={value}"));
            }
            line
        }
        Seen::Closed(cause) => format!("closed {cause}"),
        Seen::Other(name) => name.clone(),
    }
}
