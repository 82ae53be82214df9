//! What a vector file says, as types. `parse` makes them; nothing here judges.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::bytes::Bytes;

/// One vector file.
#[derive(Clone, Debug)]
pub struct Vector {
    /// Where it was read from.
    pub path: PathBuf,
    /// What it is about, in a line.
    pub about: String,
    /// How it is played, where it is an exchange.
    pub exchange: Option<Exchange>,
    /// Its cases; each begins on a fresh connection.
    pub cases: Vec<Case>,
}

/// The preamble of an exchange.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Who is under test. The vector is the other end.
    pub subject: Subject,
    /// Whether the handshake is in the steps.
    pub auth: Auth,
    /// Whether only the core can play it.
    pub core_only: bool,
    /// Transports that a client offers, in order of preference; `tcp` alone unless the vector says more.
    pub offers: Vec<String>,
    /// Whether the host has the candidate `unix`, version 1, and whether it can serve it now.
    pub unix: Option<bool>,
    /// The components of the host, module and kind, where they are not those of the world.
    pub components: Vec<(String, String)>,
    /// It was recorded between two programs: of all the orders that its bytes can have come in across the two directions, it holds
    /// one, and its routes have the numbers that a real host chose.
    pub recording: bool,
    /// The steps of the vector named by `after`, which every case begins with.
    pub before: Vec<Step>,
}

/// The side under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The vector plays a host.
    Client,
    /// The vector plays a client.
    Host,
}

/// How a vector treats the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// It is spelled out.
    Full,
    /// It is done by the player where a step `auth elided` stands: a recording holds no secrets.
    Elided,
}

/// One case: a claim with its rules.
#[derive(Clone, Debug)]
pub struct Case {
    /// The line where it begins.
    pub line: u32,
    /// The rules of protocol.md that it is about.
    pub rules: Vec<String>,
    /// What it shows, as a sentence.
    pub name: String,
    /// What happens.
    pub body: Body,
}

/// What a case consists of.
#[derive(Clone, Debug)]
pub enum Body {
    /// Bytes of a header, and what they decode to.
    Header {
        /// At most 21 bytes.
        bytes: Vec<u8>,
        /// What they are.
        result: HeaderResult,
    },
    /// A whole file, and whether it is one that a reader accepts.
    Document {
        /// Which schema it is judged by.
        schema: Schema,
        /// The file.
        bytes: Bytes,
        /// Whether it is accepted.
        accepted: bool,
    },
    /// The inputs of both proofs, and the proofs.
    Proof {
        /// Key, client nonce, server nonce, daemon ID, server proof, client proof, by these names.
        values: BTreeMap<String, Vec<u8>>,
    },
    /// Steps on a connection.
    Exchange(Vec<Step>),
}

/// What the bytes of a header decode to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderResult {
    /// Nothing can be said yet (W1).
    Incomplete,
    /// The first failed check of W9, by name.
    Malformed(String),
    /// A header with these fields, by name.
    Frame(BTreeMap<String, String>),
}

/// The schema of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// The discovery file: D1 to D3.
    Discovery,
    /// The lifecycle record: P6.
    Lifecycle,
}

/// One step of an exchange.
#[derive(Clone, Debug)]
pub struct Step {
    /// The file that it stands in: that of the vector, or of the one named by `after`.
    pub file: Arc<str>,
    /// Its line there.
    pub line: u32,
    /// What happens.
    pub action: Action,
}

/// What happens in a step.
#[derive(Clone, Debug)]
pub enum Action {
    /// The subject receives these bytes.
    Recv(Vec<Field>),
    /// The subject sends bytes that match.
    Expect(Expect),
    /// The transport takes so many bytes, which are the first of these, and then fails; what has arrived can still be read.
    Cut {
        /// How many bytes it takes.
        taken: usize,
        /// What the subject wants to send.
        fields: Vec<Field>,
    },
    /// The subject reports this.
    Event(Report),
    /// The program around the subject does this.
    Command(Report),
    /// The clock moves by so many milliseconds.
    Advance(u32),
    /// The subject's peer has ended its side.
    Eof,
    /// The subject has ended the connection, for this reason, and sends nothing more.
    Closed(String),
    /// The handshake, done by the player.
    Auth,
    /// The steps from here on are on this connection, 1 or 2.
    Socket(u8),
}

/// Named bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// What they are called.
    pub name: String,
    /// The bytes.
    pub value: Bytes,
}

/// What is expected of the subject.
#[derive(Clone, Debug)]
pub enum Expect {
    /// An envelope, by its eight fields.
    Frame(Vec<(String, Pattern)>),
    /// A message of the handshake.
    Message(Vec<(String, Pattern)>),
}

/// What one field must be.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Exactly these bytes.
    Exact(Bytes),
    /// The length of what follows.
    Length,
    /// JSON of this value; a string `*` in it matches anything.
    Json(serde_json::Value),
    /// A canonical error body with this code.
    Error {
        /// The code.
        code: String,
        /// The advice to retry, where the vector asks for it.
        retry_after_ms: Option<u64>,
    },
}

/// An event or a command: a name, arguments and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Which one.
    pub name: String,
    /// Its arguments.
    pub arguments: BTreeMap<String, String>,
    /// Its bytes, such as a body.
    pub fields: BTreeMap<String, Bytes>,
}

impl Report {
    /// An argument, where it is given.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).map(String::as_str)
    }

    /// A field's bytes; none are given where it is absent.
    #[must_use]
    pub fn field(&self, name: &str) -> Vec<u8> {
        self.fields.get(name).map(Bytes::to_vec).unwrap_or_default()
    }
}
