//! A vector file read from its beginning to its end, one entry at a time, comments included.
//!
//! Holds one step in memory, so that a recording may be larger than that, and takes one whose end is not written yet. What
//! [`load`](crate::load) checks of a file as a whole is not checked here.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::{Step, Subject};
use crate::lex::{Blame, FIRST, LoadError, RawStep, case, field, step};
use crate::parse::action;

/// The longest line that is read.
const MAX_LINE: u64 = 4 << 20;

/// What stands in a file next.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A line of the preamble.
    Key {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// A case begins.
    Case {
        /// Its rules.
        rules: Vec<String>,
        /// What it shows.
        name: String,
    },
    /// A comment, without its `#`.
    Comment(String),
    /// A step of an exchange.
    Step(Box<Step>),
    /// A line of a case of another kind, as it stands.
    Line(String),
}

/// The entries of one file.
pub struct Entries {
    path: PathBuf,
    file: Arc<str>,
    reader: BufReader<File>,
    number: u32,
    subject: Option<Subject>,
    /// A case has begun: there is no preamble any more.
    begun: bool,
    pending: Option<RawStep>,
    comments: Vec<String>,
    ready: VecDeque<Entry>,
    ended: bool,
}

impl Entries {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or does not begin as a vector does.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let file = File::open(path).map_err(|error| Blame(path).at(0, error.to_string()))?;
        let mut entries = Self {
            path: path.to_path_buf(),
            file: Arc::from(path.display().to_string()),
            reader: BufReader::new(file),
            number: 0,
            subject: None,
            begun: false,
            pending: None,
            comments: Vec::new(),
            ready: VecDeque::new(),
            ended: false,
        };
        match entries.line()? {
            Some(line) if line == FIRST => Ok(entries),
            Some(_) | None => Err(entries.wrong(format!("does not begin with `{FIRST}`"))),
        }
    }

    fn wrong(&self, what: impl Into<String>) -> LoadError {
        Blame(&self.path).at(self.number.max(1), what)
    }

    fn line(&mut self) -> Result<Option<String>, LoadError> {
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut bytes);
        self.number = self.number.saturating_add(1);
        match read {
            Ok(0) => return Ok(None),
            Ok(read) if u64::try_from(read).is_ok_and(|read| read > MAX_LINE) => {
                return Err(self.wrong("a line that is too long"));
            }
            Ok(_) => {}
            Err(error) => return Err(self.wrong(error.to_string())),
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        String::from_utf8(bytes).map(Some).map_err(|_| self.wrong("not UTF-8"))
    }

    /// The step whose fields have all been read, and the comments behind it.
    fn complete(&mut self) -> Result<(), LoadError> {
        if let (Some(step), Some(subject)) = (self.pending.take(), self.subject) {
            let action = action(&Blame(&self.path), subject, &step)?;
            let step = Step { file: Arc::clone(&self.file), line: step.line, action };
            self.ready.push_back(Entry::Step(Box::new(step)));
        }
        self.ready.extend(self.comments.drain(..).map(Entry::Comment));
        Ok(())
    }

    fn read(&mut self) -> Result<(), LoadError> {
        let Some(line) = self.line()? else {
            self.ended = true;
            return self.complete();
        };
        if line.contains(['\t', '\r']) {
            return Err(self.wrong("a tab or a carriage return"));
        }
        let path = self.path.clone();
        let blame = Blame(&path);
        if let (Some(rest), true) = (line.strip_prefix("  "), self.pending.is_some()) {
            return field(&blame, self.number, rest, self.pending.as_mut());
        }
        if line.is_empty() {
            return Ok(());
        }
        if let Some(comment) = line.strip_prefix('#') {
            // A step may go on behind it.
            self.comments.push(comment.trim().to_owned());
            if self.pending.is_none() {
                self.complete()?;
            }
            return Ok(());
        }
        self.complete()?;
        if let Some(rest) = line.strip_prefix("case ") {
            let case = case(&blame, self.number, rest)?;
            self.begun = true;
            self.ready.push_back(Entry::Case { rules: case.rules, name: case.name });
        } else if self.begun && self.subject.is_some() {
            self.pending = Some(step(&blame, self.number, &line)?);
        } else if self.begun {
            self.ready.push_back(Entry::Line(line));
        } else {
            let (key, value) = line
                .split_once(": ")
                .ok_or_else(|| self.wrong("not a line `key: value`, and no case has begun"))?;
            if key == "subject" {
                self.subject = match value {
                    "client" => Some(Subject::Client),
                    "host" => Some(Subject::Host),
                    _ => return Err(self.wrong(format!("`{value}` is no subject"))),
                };
            }
            self.ready.push_back(Entry::Key { key: key.to_owned(), value: value.to_owned() });
        }
        Ok(())
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(Ok(entry));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.read() {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }
}
