//! What a vector or a recording says, for people: one telling, shown as text, as Mermaid, or as a page.
//!
//! Reads a file once, from its beginning to its end, and holds one frame of it. Messages of the handshake are named and never shown
//! (Z1).

pub(crate) mod html;
pub(crate) mod mermaid;
mod rules;
pub(crate) mod text;

use hostwire::core::wire::FrameType;
use hostwire_vectors::{Action, Entries, Entry, Expect, Field, LoadError, Pattern, Subject};
use rules::Rules;
use serde::Serialize;
use std::collections::VecDeque;
use std::path::Path;

/// How many bytes of a body are shown.
const SHOWN: usize = 4096;

/// The longest control body (C1).
const MAX_CONTROL: usize = hostwire::core::control::MAX_BODY_BYTES;

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    Client,
    Host,
}

impl Side {
    const fn arrow(self) -> &'static str {
        match self {
            Self::Client => "client → host",
            Self::Host => "client ← host",
        }
    }
}

/// A frame, as far as the file says it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Frame {
    /// Milliseconds since the connection began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    pub(crate) from: Side,
    pub(crate) kind: &'static str,
    pub(crate) channel: u16,
    pub(crate) epoch: u32,
    pub(crate) corr: u64,
    pub(crate) flags: u8,
    /// Bytes of the body, where they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) len: Option<usize>,
    /// What the body begins with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) body: String,
    /// The body is bytes, shown as hex.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) hex: bool,
    /// How much of it was kept in the recording, where that is not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<String>,
    /// The control operation, or the code of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) what: Option<String>,
    /// Rules of the protocol that bite here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rules: Vec<&'static str>,
}

/// What is told next.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Told {
    /// A connection begins: a case of a vector.
    Case {
        file: String,
        name: String,
        rules: Vec<String>,
    },
    Frame(Box<Frame>),
    /// Something that is no frame.
    Note {
        #[serde(skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        text: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        rules: Vec<&'static str>,
    },
}

/// The telling of one file.
pub(crate) struct Story {
    entries: Entries,
    file: String,
    subject: Subject,
    running: bool,
    /// The fields of this file are not shown.
    closed: bool,
    at: Option<String>,
    kept: Option<String>,
    /// The size of a body that is only said by a pattern.
    size: Option<usize>,
    /// Frames that were told when they came, and stand in the file where their effect shows.
    said: Vec<String>,
    rules: Rules,
    ready: VecDeque<Told>,
    ended: bool,
}

impl Story {
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        Ok(Self {
            entries: Entries::open(path)?,
            file: path.display().to_string(),
            subject: Subject::Host,
            running: false,
            closed: false,
            at: None,
            kept: None,
            size: None,
            said: Vec::new(),
            rules: Rules::default(),
            ready: VecDeque::new(),
            ended: false,
        })
    }

    fn note(&mut self, text: impl Into<String>, rules: &[&'static str]) {
        self.ready.push_back(Told::Note { at: self.at.clone(), text: text.into(), rules: rules.to_vec() });
    }

    fn entry(&mut self, entry: Entry) {
        match entry {
            Entry::Key { key, value } => match (key.as_str(), value.as_str()) {
                ("subject", "client") => self.subject = Subject::Client,
                ("recording", "running") => self.running = true,
                // Fields of these are keys and proofs, or hold them.
                ("kind", "proof" | "document") => self.closed = true,
                (_, _) => {}
            },
            Entry::Case { rules, name } => {
                self.rules = Rules::default();
                self.at = None;
                self.ready.push_back(Told::Case { file: self.file.clone(), name, rules });
            }
            Entry::Comment(comment) => self.comment(&comment),
            Entry::Line(line) if self.closed && line.starts_with(' ') => {}
            Entry::Line(line) => self.note(line.trim(), &[]),
            Entry::Step(step) => self.step(&step.action),
        }
    }

    fn comment(&mut self, comment: &str) {
        if let Some(at) = comment.strip_prefix("at ") {
            self.at = Some(at.to_owned());
        } else if let Some(kept) = comment.strip_prefix("kept: ") {
            self.kept = Some(kept.to_owned());
        } else if let Some(size) = comment.strip_prefix("size: ") {
            self.size = size.parse().ok();
        } else if let Some((from, name)) = header_only(comment) {
            if comment.contains(WRITTEN_BELOW) {
                self.said.push(name.to_owned());
            }
            self.header_only(from, name);
        } else if comment.starts_with("left: ") {
            self.note(comment, &["N10"]);
        } else if ["client", "host", "the "].iter().any(|mark| comment.starts_with(mark)) {
            self.note(comment, &[]);
        }
    }

    fn step(&mut self, action: &Action) {
        let (peer, subject) = match self.subject {
            Subject::Host => (Side::Client, Side::Host),
            Subject::Client => (Side::Host, Side::Client),
        };
        match action {
            Action::Recv(fields) => self.received(peer, fields),
            Action::Cut { taken, fields } => {
                self.received(subject, fields);
                self.note(format!("{taken} bytes of it are taken, then the connection fails"), &["O1", "O2"]);
            }
            Action::Expect(Expect::Frame(patterns)) => self.expected(subject, patterns),
            Action::Expect(Expect::Message(_)) => {
                self.note(format!("{}: a message of the handshake", subject.arrow()), &["A1"]);
            }
            Action::Auth => {
                self.note("the handshake: both sides prove that they hold the key", &["A3", "A4"]);
            }
            Action::Advance(ms) => self.note(format!("{ms} ms pass"), &[]),
            Action::Eof => self.note(format!("{} ends its side", name(peer)), &["G1"]),
            Action::Closed(cause) => {
                let rule = rules::of_cause(cause);
                self.note(format!("{} ends the connection: {cause}", name(subject)), rule);
            }
            Action::Socket(number) => self.note(format!("on socket {number}"), &["N10"]),
            Action::Event(_) | Action::Command(_) => {}
        }
    }

    fn received(&mut self, from: Side, fields: &[Field]) {
        let value = |name: &str| fields.iter().find(|field| field.name == name).map(|field| &field.value);
        let Some(kind) = value("type") else {
            let text = match fields {
                [field] if field.name == "bytes" => format!("{} bytes that are no frame", field.value.len()),
                _ => "a message of the handshake".to_owned(),
            };
            return self.note(format!("{}: {text}", from.arrow()), &[]);
        };
        let number =
            |name: &str| little(&value(name).map(hostwire_vectors::Bytes::to_vec).unwrap_or_default());
        let told = self.said.iter().position(|name| {
            let identity = format!("{}/{}/{}", number("channel"), number("epoch"), number("corr"));
            name.split_once(' ').is_some_and(|(_, other)| other == identity)
        });
        if let Some(told) = told {
            self.said.remove(told);
            return;
        }
        let head = Head {
            kind: little(&kind.to_vec()),
            flags: number("flags"),
            channel: number("channel"),
            epoch: number("epoch"),
            corr: number("corr"),
        };
        let body = value("body");
        let mut bytes = body.map(|body| body.start(MAX_CONTROL)).unwrap_or_default();
        if head.channel == 0
            && let Some(clean) = hostwire_vectors::without_secrets(&bytes)
        {
            bytes = clean;
        }
        bytes.truncate(SHOWN);
        self.frame(from, head, Some(body.map_or(0, hostwire_vectors::Bytes::len)), Shown::Bytes(bytes));
    }

    fn expected(&mut self, from: Side, patterns: &[(String, Pattern)]) {
        let value = |name: &str| patterns.iter().find(|(other, _)| other == name).map(|(_, pattern)| pattern);
        let exact = |name: &str| match value(name) {
            Some(Pattern::Exact(bytes)) => little(&bytes.to_vec()),
            Some(Pattern::Length | Pattern::Json(_) | Pattern::Error { .. }) | None => 0,
        };
        let head = Head {
            kind: exact("type"),
            flags: exact("flags"),
            channel: exact("channel"),
            epoch: exact("epoch"),
            corr: exact("corr"),
        };
        let (len, shown) = match value("body") {
            None => (Some(0), Shown::Bytes(Vec::new())),
            Some(Pattern::Exact(bytes)) => (Some(bytes.len()), Shown::Bytes(bytes.start(SHOWN))),
            Some(Pattern::Length) => (None, Shown::Bytes(Vec::new())),
            Some(Pattern::Json(value)) => {
                let text = value.to_string();
                let clean = hostwire_vectors::without_secrets(text.as_bytes());
                (None, Shown::Text(clean.and_then(|clean| String::from_utf8(clean).ok()).unwrap_or(text)))
            }
            Some(Pattern::Error { code, retry_after_ms }) => {
                let advice =
                    retry_after_ms.map_or_else(String::new, |ms| format!(r#","retry_after_ms":{ms}"#));
                (None, Shown::Text(format!(r#"{{"code":"{code}"{advice}}}"#)))
            }
        };
        self.frame(from, head, len, shown);
    }

    /// A frame without a body, of which a comment says what it was.
    fn header_only(&mut self, from: Side, name: &str) {
        let Some((kind, identity)) = name.split_once(' ') else { return };
        let kind = FrameType::ALL.into_iter().find(|one| rules::frame_name(*one) == kind);
        let mut numbers = identity.split('/').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        let (channel, epoch, corr) = (next(), next(), next());
        let kind =
            kind.and_then(|kind| u64::try_from(FrameType::ALL.iter().position(|one| *one == kind)?).ok());
        let head = Head { kind: kind.unwrap_or(u64::MAX), flags: 0, channel, epoch, corr };
        self.frame(from, head, Some(0), Shown::Bytes(Vec::new()));
    }

    fn frame(&mut self, from: Side, head: Head, len: Option<usize>, shown: Shown) {
        let len = self.size.take().filter(|_| len.is_none()).or(len);
        let kind = u8::try_from(head.kind)
            .ok()
            .and_then(FrameType::decode)
            .map_or("unknown type", rules::frame_name);
        let (body, hex) = match shown {
            Shown::Text(text) => (text, false),
            Shown::Bytes(bytes) => match String::from_utf8(bytes) {
                Ok(text) if !text.chars().any(|c| c.is_control() && !c.is_whitespace()) => (text, false),
                Ok(text) => (spelled(text.as_bytes()), true),
                Err(error) => {
                    let bytes = error.into_bytes();
                    // A cut in the middle of a character makes no bytes of a text.
                    let whole = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
                    if bytes.len() == SHOWN && whole.len() + 4 > SHOWN {
                        (whole.to_owned(), false)
                    } else {
                        (spelled(&bytes), true)
                    }
                }
            },
        };
        let mut frame = Frame {
            at: self.at.clone(),
            from,
            kind,
            channel: u16::try_from(head.channel).unwrap_or(0),
            epoch: u32::try_from(head.epoch).unwrap_or(0),
            corr: head.corr,
            flags: u8::try_from(head.flags).unwrap_or(0),
            len,
            body,
            hex,
            kept: self.kept.take(),
            what: None,
            rules: Vec::new(),
        };
        self.rules.judge(&mut frame);
        self.ready.push_back(Told::Frame(Box::new(frame)));
    }
}

struct Head {
    kind: u64,
    flags: u64,
    channel: u64,
    epoch: u64,
    corr: u64,
}

enum Shown {
    Bytes(Vec<u8>),
    Text(String),
}

const fn name(side: Side) -> &'static str {
    match side {
        Side::Client => "the client",
        Side::Host => "the host",
    }
}

/// What the recorder says of a frame that it writes further down.
const WRITTEN_BELOW: &str = ", written below: ";

/// Who sent it, and its name, where a comment is about a frame without a body.
fn header_only(comment: &str) -> Option<(Side, &str)> {
    for (mark, side) in [("client", Side::Client), ("host", Side::Host)] {
        if let Some(rest) = comment.strip_prefix(mark) {
            let name = rest.strip_prefix(WRITTEN_BELOW).or_else(|| rest.strip_prefix(": "))?;
            let bodiless =
                ["Cancel ", "Goodbye ", "Ping ", "Pong "].iter().any(|kind| name.starts_with(kind));
            return bodiless.then_some((side, name));
        }
    }
    None
}

fn spelled(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

impl Iterator for Story {
    type Item = Result<Told, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Some(Ok(told));
            }
            if self.ended {
                return None;
            }
            match self.entries.next() {
                Some(Ok(entry)) => self.entry(entry),
                // The end of a recording that goes on may be anywhere in a line.
                Some(Err(_)) if self.running => self.over(),
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                None if self.running => self.over(),
                None => self.ended = true,
            }
        }
    }
}

impl Story {
    fn over(&mut self) {
        self.ended = true;
        self.note("this recording has no end: it is being written, or was cut", &[]);
    }
}
