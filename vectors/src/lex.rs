//! A vector file as lines, words and fields, before they mean anything. Every complaint names file, line and what is wrong.

use std::path::{Path, PathBuf};

use crate::bytes::Bytes;

/// Why a vector could not be read: one line for people.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}: {what}", path.display())]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; 0 where it is about the file as a whole.
    pub line: u32,
    /// What is wrong there.
    pub what: String,
}

/// A field as it stands: a name, and a value in one or more lines.
pub(crate) struct RawField {
    pub(crate) line: u32,
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

/// A step as it stands.
pub(crate) struct RawStep {
    pub(crate) line: u32,
    pub(crate) word: String,
    /// Words without `=`.
    pub(crate) words: Vec<String>,
    /// Words of the form `name=value`, unquoted.
    pub(crate) named: Vec<(String, String)>,
    pub(crate) fields: Vec<RawField>,
}

/// A case as it stands.
pub(crate) struct RawCase {
    pub(crate) line: u32,
    pub(crate) rules: Vec<String>,
    pub(crate) name: String,
    pub(crate) steps: Vec<RawStep>,
}

/// A file as it stands.
pub(crate) struct RawFile {
    pub(crate) preamble: Vec<(u32, String, String)>,
    pub(crate) cases: Vec<RawCase>,
}

pub(crate) const FIRST: &str = "hostwire-vector 1";

/// The longest fill: the largest body there is, and some more, so that one too much can be said.
const MAX_FILL: usize = (64 << 20) + (64 << 10);

/// What makes errors about one file.
pub(crate) struct Blame<'a>(pub(crate) &'a Path);

impl Blame<'_> {
    pub(crate) fn at(&self, line: u32, what: impl Into<String>) -> LoadError {
        LoadError { path: self.0.to_path_buf(), line, what: what.into() }
    }
}

pub(crate) fn lex(blame: &Blame<'_>, text: &str) -> Result<RawFile, LoadError> {
    let mut lines = (1_u32..).zip(text.split('\n'));
    if lines.next().is_none_or(|(_, line)| line != FIRST) {
        return Err(blame.at(1, format!("does not begin with `{FIRST}`")));
    }
    let mut file = RawFile { preamble: Vec::new(), cases: Vec::new() };
    for (number, line) in lines {
        if line.contains(['\t', '\r']) {
            return Err(blame.at(number, "a tab or a carriage return"));
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(rest) = line.strip_prefix("case ") {
            file.cases.push(case(blame, number, rest)?);
        } else if let Some(case) = file.cases.last_mut() {
            match line.strip_prefix("  ") {
                Some(rest) => field(blame, number, rest, case.steps.last_mut())?,
                None => case.steps.push(step(blame, number, line)?),
            }
        } else {
            let Some((key, value)) = line.split_once(": ") else {
                return Err(blame.at(number, "not a line `key: value`, and no case has begun"));
            };
            if file.preamble.iter().any(|(_, seen, _)| seen == key) {
                return Err(blame.at(number, format!("`{key}` for the second time")));
            }
            file.preamble.push((number, key.to_owned(), value.to_owned()));
        }
    }
    if file.cases.is_empty() {
        return Err(blame.at(0, "no case"));
    }
    Ok(file)
}

pub(crate) fn case(blame: &Blame<'_>, line: u32, rest: &str) -> Result<RawCase, LoadError> {
    let Some((rules, name)) = rest.split_once(": ") else {
        return Err(blame.at(line, "not a line `case RULES: name`"));
    };
    let rules: Vec<String> = rules.split(' ').map(str::to_owned).collect();
    if let Some(rule) = rules.iter().find(|rule| !is_rule(rule)) {
        return Err(blame.at(line, format!("`{rule}` is not a rule ID")));
    }
    Ok(RawCase { line, rules, name: name.to_owned(), steps: Vec::new() })
}

/// One or two capitals and a number.
fn is_rule(text: &str) -> bool {
    let letters = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = text.bytes().skip(letters);
    (1..=2).contains(&letters) && letters < text.len() && digits.into_iter().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn step(blame: &Blame<'_>, line: u32, text: &str) -> Result<RawStep, LoadError> {
    let mut step =
        RawStep { line, word: String::new(), words: Vec::new(), named: Vec::new(), fields: Vec::new() };
    let mut rest = text;
    while !rest.is_empty() {
        let (word, more) = match rest.find([' ', '"']) {
            Some(at) if rest[at..].starts_with('"') => quoted(blame, line, rest, at)?,
            Some(at) => (rest[..at].to_owned(), &rest[at..]),
            None => (rest.to_owned(), ""),
        };
        rest = more.strip_prefix(' ').unwrap_or(more);
        if word.is_empty() || (more == rest && !more.is_empty()) {
            return Err(blame.at(line, "words are parted by one blank"));
        }
        if step.word.is_empty() {
            step.word = word;
        } else if let Some((name, value)) = word.split_once('=') {
            if step.named.iter().any(|(seen, _)| seen == name) {
                return Err(blame.at(line, format!("`{name}` for the second time")));
            }
            step.named.push((name.to_owned(), value.to_owned()));
        } else {
            step.words.push(word);
        }
    }
    Ok(step)
}

/// `name="value"`: the word without its quotes, and what follows it.
fn quoted<'t>(
    blame: &Blame<'_>,
    line: u32,
    text: &'t str,
    at: usize,
) -> Result<(String, &'t str), LoadError> {
    let mut word = text[..at].to_owned();
    if !word.ends_with('=') {
        return Err(blame.at(line, "a quote that does not follow `=`"));
    }
    let mut escaped = false;
    for (offset, c) in text[at + 1..].char_indices() {
        match c {
            _ if escaped => {
                if c != '"' && c != '\\' {
                    return Err(blame.at(line, format!("`\\{c}` is no escape")));
                }
                word.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Ok((word, &text[at + 1 + offset + 1..])),
            _ => word.push(c),
        }
    }
    Err(blame.at(line, "a quote that is not closed"))
}

pub(crate) fn field(
    blame: &Blame<'_>,
    line: u32,
    text: &str,
    step: Option<&mut RawStep>,
) -> Result<(), LoadError> {
    let Some(step) = step else {
        return Err(blame.at(line, "a field before any step"));
    };
    let Some((name, value)) = text.split_once(' ') else {
        return Err(blame.at(line, format!("the field `{text}` has no value")));
    };
    let value = value.trim_start_matches(' ').to_owned();
    if name == "+" {
        match step.fields.last_mut() {
            Some(field) => field.values.push(value),
            None => return Err(blame.at(line, "`+` without a field above it")),
        }
    } else {
        if step.fields.iter().any(|field| field.name == name) {
            return Err(blame.at(line, format!("the field `{name}` for the second time")));
        }
        step.fields.push(RawField { line, name: name.to_owned(), values: vec![value] });
    }
    Ok(())
}

impl RawField {
    /// The field's bytes.
    pub(crate) fn bytes(&self, blame: &Blame<'_>) -> Result<Bytes, LoadError> {
        let mut all = Bytes::default();
        for (line, value) in (self.line..).zip(&self.values) {
            let wrong = |what: &str| blame.at(line, format!("field `{}`: {what}", self.name));
            if let Some(text) = value.strip_prefix("text ") {
                if !text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                    return Err(wrong("text that is not printable ASCII"));
                }
                all.push(text.as_bytes().to_vec());
            } else if let Some(fill) = value.strip_prefix("fill ") {
                let (byte, count) = fill.split_once(" * ").ok_or_else(|| wrong("not `fill XX * N`"))?;
                let byte =
                    hex(byte).filter(|bytes| bytes.len() == 1).and_then(|bytes| bytes.first().copied());
                let count = count.parse().ok().filter(|count| *count <= MAX_FILL);
                match (byte, count) {
                    (Some(byte), Some(count)) => all.push_fill(byte, count),
                    (None, _) => return Err(wrong("the byte of `fill XX * N` is not two hex digits")),
                    (_, None) => return Err(wrong("the count of `fill XX * N` is no number, or too large")),
                }
            } else {
                all.push(hex(value).ok_or_else(|| wrong("neither hex nor `text …` nor `fill XX * N`"))?);
            }
        }
        Ok(all)
    }
}

/// Bytes of an even, nonzero number of lowercase hex digits.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().map(digit).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    if digits.is_empty() || !pairs.remainder().is_empty() {
        return None;
    }
    Some(pairs.map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}
