//! From lines to a `Vector`: every word, name, width and combination is checked here, so that a typing error is one clear
//! line and never a case that silently tests nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::bytes::Bytes;
use crate::format::{
    Action, Auth, Body, Case, Exchange, Expect, Field, HeaderResult, Pattern, Report, Schema, Step, Subject,
    Vector,
};
use crate::lex::{Blame, LoadError, RawField, RawFile, RawStep, lex};

/// The fields of an envelope, with their widths on the wire.
const HEADER: [(&str, usize); 7] =
    [("len", 4), ("ver", 1), ("type", 1), ("flags", 1), ("channel", 2), ("epoch", 4), ("corr", 8)];

/// The names of W9's checks, in its order.
const HEADER_ERRORS: [&str; 11] = [
    "unsupported_version",
    "unknown_type",
    "reserved_flags",
    "invalid_priority",
    "invalid_admission",
    "sheddable_not_allowed",
    "pure_header_flags",
    "pure_header_length",
    "body_too_large",
    "control_epoch",
    "zero_epoch",
];

/// What a decoded header is compared by.
const FRAME: [&str; 9] =
    ["type", "len", "channel", "epoch", "corr", "binary", "priority", "last", "admission"];

const CAUSES: [&str; 16] = [
    "drained",
    "eof",
    "goodbye",
    "corruption",
    "wrong_frame",
    "watermark",
    "auth",
    "auth_deadline",
    "setup",
    "negotiation",
    "frame_deadline",
    "setup_deadline",
    "local",
    "candidate",
    "superseded",
    "io",
];

/// An event's or a command's name, the arguments and the fields it may have.
type Shape = (Subject, &'static str, &'static [&'static str], &'static [&'static str]);

const IDENTITY: &[&str] = &["root", "harness", "session"];

const EVENTS: [Shape; 11] = [
    (Subject::Host, "stop", &["corr", "why"], &[]),
    (Subject::Host, "route_closed", &["channel", "epoch"], &[]),
    (Subject::Host, "shutdown_committed", &[], &[]),
    (Subject::Client, "granted", &["transport", "version"], &["descriptor"]),
    (Subject::Host, "candidate_wanted", &["transport", "version"], &[]),
    (Subject::Client, "ready", &["transport", "reason"], &[]),
    (Subject::Client, "route_opened", &["op", "channel", "epoch"], &[]),
    (Subject::Client, "item", &["op", "binary"], &["body"]),
    (
        Subject::Client,
        "settled",
        &["op", "outcome", "kind", "code", "message", "retry_after_ms", "binary"],
        &["body", "message"],
    ),
    (Subject::Host, "route_open", &["corr", "kind", "module"], IDENTITY),
    (Subject::Host, "request", &["channel", "epoch", "corr", "binary"], &["body"]),
];

const COMMANDS: [Shape; 19] = [
    (Subject::Host, "busy", &["corr"], &[]),
    (Subject::Host, "drain", &[], &[]),
    (Subject::Host, "item", &["corr", "binary"], &["body"]),
    (Subject::Host, "end", &["corr"], &[]),
    (Subject::Host, "stopped", &["corr"], &[]),
    (Subject::Host, "gone", &["channel", "epoch"], &[]),
    (Subject::Host, "reject", &["corr", "code", "message", "retry_after_ms"], &[]),
    (Subject::Client, "host_shutdown", &["op"], &[]),
    (Subject::Client, "close_route", &["channel", "epoch"], &[]),
    (Subject::Host, "grant", &[], &["token", "descriptor"]),
    (Subject::Host, "decline", &[], &[]),
    (Subject::Host, "supersede", &[], &[]),
    (Subject::Client, "open_route", &["op", "kind", "module"], &["root", "harness", "session", "facts"]),
    (Subject::Client, "request", &["op", "channel", "epoch", "binary", "stream"], &["body"]),
    (Subject::Client, "catalog", &["op", "module"], &[]),
    (Subject::Client, "close", &[], &[]),
    (Subject::Host, "bind", &["corr", "channel", "epoch"], &[]),
    (Subject::Host, "respond", &["channel", "epoch", "corr", "binary"], &["body"]),
    (Subject::Host, "fail", &["channel", "epoch", "corr", "code", "message", "retry_after_ms"], &[]),
];

/// A vector as its own file says it, and the file that it comes after.
pub(crate) struct Parsed {
    pub(crate) vector: Vector,
    pub(crate) after: Option<(u32, String)>,
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<Parsed, LoadError> {
    let blame = Blame(path);
    let RawFile { preamble, cases } = lex(&blame, text)?;
    let mut keys = Preamble { blame: &blame, keys: preamble };
    let kind = keys.need("kind")?.1;
    let about = keys.need("about")?.1;
    let mut after = None;
    let reader = match kind.as_str() {
        "header" => Reader::Header,
        "proof" => Reader::Proof,
        "document" => Reader::Document(match keys.need("document")? {
            (_, name) if name == "discovery" => Schema::Discovery,
            (_, name) if name == "lifecycle" => Schema::Lifecycle,
            (line, name) => return Err(blame.at(line, format!("`{name}` is no document"))),
        }),
        "exchange" => {
            after = keys.take("after");
            Reader::Exchange(exchange(&mut keys)?)
        }
        other => return Err(blame.at(0, format!("`{other}` is no kind of vector"))),
    };
    keys.empty()?;
    let file: Arc<str> = Arc::from(path.display().to_string());
    let cases = cases
        .into_iter()
        .map(|case| {
            let body = reader.body(&blame, &file, case.line, &case.steps)?;
            Ok(Case { line: case.line, rules: case.rules, name: case.name, body })
        })
        .collect::<Result<_, LoadError>>()?;
    let exchange = match reader {
        Reader::Exchange(exchange) => Some(exchange),
        Reader::Header | Reader::Proof | Reader::Document(_) => None,
    };
    Ok(Parsed { vector: Vector { path: path.to_path_buf(), about, exchange, cases }, after })
}

struct Preamble<'a> {
    blame: &'a Blame<'a>,
    keys: Vec<(u32, String, String)>,
}

impl Preamble<'_> {
    fn take(&mut self, name: &str) -> Option<(u32, String)> {
        let at = self.keys.iter().position(|(_, key, _)| key == name)?;
        let (line, _, value) = self.keys.remove(at);
        Some((line, value))
    }

    fn need(&mut self, name: &str) -> Result<(u32, String), LoadError> {
        self.take(name).ok_or_else(|| self.blame.at(0, format!("no `{name}:` in the preamble")))
    }

    fn empty(&self) -> Result<(), LoadError> {
        match self.keys.first() {
            Some((line, key, _)) => {
                Err(self.blame.at(*line, format!("`{key}` does not belong to this kind")))
            }
            None => Ok(()),
        }
    }
}

fn exchange(keys: &mut Preamble<'_>) -> Result<Exchange, LoadError> {
    let blame = keys.blame;
    let subject = match keys.need("subject")? {
        (_, name) if name == "client" => Subject::Client,
        (_, name) if name == "host" => Subject::Host,
        (line, name) => return Err(blame.at(line, format!("`{name}` is no subject"))),
    };
    let auth = match keys.need("auth")? {
        (_, name) if name == "full" => Auth::Full,
        (_, name) if name == "elided" => Auth::Elided,
        (line, name) => return Err(blame.at(line, format!("`{name}`: `auth` is full or elided"))),
    };
    let core_only = match keys.take("play") {
        None => false,
        Some((_, name)) if name == "core" => true,
        Some((line, name)) => return Err(blame.at(line, format!("`{name}`: `play` can only be core"))),
    };
    let recording = match keys.take("recording") {
        None => false,
        Some((_, state)) if state == "complete" => true,
        Some((line, state)) if state == "running" => {
            return Err(blame.at(line, "this recording has no end: it is being written, or was cut"));
        }
        Some((line, state)) => {
            return Err(blame.at(line, format!("`{state}`: a recording is complete or running")));
        }
    };
    let mut exchange = Exchange {
        subject,
        auth,
        core_only,
        offers: vec!["tcp".into()],
        unix: None,
        components: Vec::new(),
        recording,
        before: Vec::new(),
    };
    if let Some((line, config)) = keys.take("config") {
        for setting in config.split(' ') {
            match (setting.split_once('='), subject) {
                (Some(("offers", offers)), Subject::Client) => {
                    exchange.offers = offers.split(',').map(str::to_owned).collect();
                }
                (Some(("candidate", "unix/1:unavailable")), Subject::Host) => {
                    exchange.unix = Some(false);
                }
                (Some(("candidate", "unix/1:available")), Subject::Host) => exchange.unix = Some(true),
                (Some(("components", list)), Subject::Host) => {
                    exchange.components = list
                        .split(',')
                        .map(component)
                        .collect::<Option<_>>()
                        .ok_or_else(|| blame.at(line, "a component is `module/kind`"))?;
                }
                (Some(_) | None, Subject::Client | Subject::Host) => {
                    return Err(blame.at(line, format!("`{setting}` configures nothing of this subject")));
                }
            }
        }
    }
    Ok(exchange)
}

/// `module/kind`; a byte of the module that is no letter, digit, `.`, `_` or `-` is `%` and two hex digits.
fn component(text: &str) -> Option<(String, String)> {
    let (module, kind) = text.split_once('/')?;
    let mut bytes = Vec::new();
    let mut rest = module.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    Some((String::from_utf8(bytes).ok()?, kind.to_owned()))
}

/// What reads the cases of one kind.
enum Reader {
    Header,
    Proof,
    Document(Schema),
    Exchange(Exchange),
}

impl Reader {
    fn body(
        &self,
        blame: &Blame<'_>,
        file: &Arc<str>,
        line: u32,
        steps: &[RawStep],
    ) -> Result<Body, LoadError> {
        match self {
            Self::Header => {
                let (given, result) = pair(blame, line, steps, "bytes")?;
                let bytes = joined(blame, given)?.to_vec();
                if bytes.len() > 21 {
                    return Err(blame.at(given.line, "more than 21 bytes are no header"));
                }
                Ok(Body::Header { bytes, result: header_result(blame, result)? })
            }
            Self::Document(schema) => {
                let (given, result) = pair(blame, line, steps, "bytes")?;
                let accepted = match result.words.as_slice() {
                    [word] if word == "accepted" => true,
                    [word] if word == "refused" => false,
                    _ => return Err(blame.at(result.line, "a result is accepted or refused")),
                };
                Ok(Body::Document { schema: *schema, bytes: joined(blame, given)?, accepted })
            }
            Self::Proof => {
                let (given, result) = pair(blame, line, steps, "given")?;
                let mut values = BTreeMap::new();
                for field in given.fields.iter().chain(&result.fields) {
                    values.insert(field.name.clone(), field.bytes(blame)?.to_vec());
                }
                let widths = [
                    ("key", 32),
                    ("client_nonce", 32),
                    ("server_nonce", 32),
                    ("daemon_id", 16),
                    ("server_p", 32),
                    ("client_p", 32),
                ];
                let whole =
                    |(name, width): &(&str, usize)| values.get(*name).is_some_and(|v| v.len() == *width);
                if values.len() != widths.len() || !widths.iter().all(whole) {
                    return Err(blame.at(line, "a proof has six fields of 32 bytes, `daemon_id` of 16"));
                }
                Ok(Body::Proof { values })
            }
            Self::Exchange(exchange) => {
                let steps = steps
                    .iter()
                    .map(|step| {
                        let action = action(blame, exchange.subject, step)?;
                        Ok(Step { file: Arc::clone(file), line: step.line, action })
                    })
                    .collect::<Result<Vec<_>, LoadError>>()?;
                Ok(Body::Exchange(steps))
            }
        }
    }
}

/// A case of exactly two steps: what is given, and a result.
fn pair<'s>(
    blame: &Blame<'_>,
    line: u32,
    steps: &'s [RawStep],
    given: &str,
) -> Result<(&'s RawStep, &'s RawStep), LoadError> {
    match steps {
        [first, second] if first.word == given && second.word == "result" => Ok((first, second)),
        _ => Err(blame.at(line, format!("a case of this kind is `{given}`, then `result`"))),
    }
}

fn joined(blame: &Blame<'_>, step: &RawStep) -> Result<Bytes, LoadError> {
    let mut all = Bytes::default();
    for field in &step.fields {
        all.extend(&field.bytes(blame)?);
    }
    Ok(all)
}

fn header_result(blame: &Blame<'_>, step: &RawStep) -> Result<HeaderResult, LoadError> {
    let [word] = step.words.as_slice() else {
        return Err(blame.at(step.line, "a result is one word"));
    };
    if word == "frame" {
        let fields: BTreeMap<_, _> = step.named.iter().cloned().collect();
        if fields.len() != FRAME.len() || !FRAME.iter().all(|name| fields.contains_key(*name)) {
            return Err(blame.at(step.line, format!("a frame is told by {}", FRAME.join(", "))));
        }
        return Ok(HeaderResult::Frame(fields));
    }
    if !step.named.is_empty() {
        return Err(blame.at(step.line, "only a frame has fields"));
    }
    match word.as_str() {
        "incomplete" => Ok(HeaderResult::Incomplete),
        error if HEADER_ERRORS.contains(&error) => Ok(HeaderResult::Malformed(error.to_owned())),
        other => Err(blame.at(step.line, format!("`{other}` is no result of a header"))),
    }
}

pub(crate) fn action(blame: &Blame<'_>, subject: Subject, step: &RawStep) -> Result<Action, LoadError> {
    let wrong = |what: String| blame.at(step.line, what);
    let only = || match step.words.as_slice() {
        [word] if step.named.is_empty() && step.fields.is_empty() => Ok(word.as_str()),
        _ => Err(wrong(format!("`{}` takes one word", step.word))),
    };
    match step.word.as_str() {
        "recv" => recv(blame, step).map(Action::Recv),
        "cut" => {
            let taken = match step.words.first().map(|word| word.parse()) {
                Some(Ok(taken)) => taken,
                Some(Err(_)) | None => return Err(wrong("not a number of bytes".into())),
            };
            let fields = recv(blame, step)?;
            let all: usize = fields.iter().map(|field| field.value.len()).sum();
            if taken > all {
                return Err(wrong(format!("{taken} bytes of {all}")));
            }
            Ok(Action::Cut { taken, fields })
        }
        "expect" => expect(blame, step).map(Action::Expect),
        "event" => report(blame, subject, step, &EVENTS).map(Action::Event),
        "command" => report(blame, subject, step, &COMMANDS).map(Action::Command),
        "advance" => {
            only()?.parse().map(Action::Advance).map_err(|_| wrong("not a number of milliseconds".into()))
        }
        "eof" if step.words.is_empty() && step.named.is_empty() && step.fields.is_empty() => Ok(Action::Eof),
        "eof" => Err(wrong("`eof` stands alone".into())),
        "closed" => match only()? {
            cause if CAUSES.contains(&cause) => Ok(Action::Closed(cause.to_owned())),
            cause => Err(wrong(format!("`{cause}` is no cause"))),
        },
        "auth" => match only()? {
            "elided" => Ok(Action::Auth),
            other => Err(wrong(format!("`auth {other}`: only `auth elided` is a step"))),
        },
        "socket" => match only()? {
            "1" => Ok(Action::Socket(1)),
            "2" => Ok(Action::Socket(2)),
            other => Err(wrong(format!("`{other}`: a socket is 1 or 2"))),
        },
        other => Err(wrong(format!("`{other}` is no step"))),
    }
}

/// Whether these fields are those of an envelope, with or without a body.
fn is_frame(fields: &[RawField]) -> bool {
    let mut names = fields.iter().map(|field| field.name.as_str());
    HEADER.iter().all(|(name, _)| names.next() == Some(*name)) && matches!(names.next(), None | Some("body"))
}

fn is_message(fields: &[RawField]) -> bool {
    let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
    matches!(names.as_slice(), ["len", "json"] | ["len"])
}

fn width(blame: &Blame<'_>, field: &RawField, value: &Bytes) -> Result<(), LoadError> {
    match HEADER.iter().find(|(name, _)| *name == field.name) {
        Some((name, width)) if value.len() != *width => Err(blame.at(
            field.line,
            format!("field `{name}` has {width} bytes on the wire, here are {}", value.len()),
        )),
        Some(_) | None => Ok(()),
    }
}

fn recv(blame: &Blame<'_>, step: &RawStep) -> Result<Vec<Field>, LoadError> {
    let names: Vec<_> = step.fields.iter().map(|field| field.name.as_str()).collect();
    if !is_frame(&step.fields) && !is_message(&step.fields) && names != ["bytes"] {
        return Err(blame.at(
            step.line,
            "the fields are none of: len ver type flags channel epoch corr [body]; len [json]; bytes",
        ));
    }
    step.fields
        .iter()
        .map(|field| {
            let value = field.bytes(blame)?;
            width(blame, field, &value)?;
            Ok(Field { name: field.name.clone(), value })
        })
        .collect()
}

fn expect(blame: &Blame<'_>, step: &RawStep) -> Result<Expect, LoadError> {
    let frame = is_frame(&step.fields);
    if !frame && !is_message(&step.fields) {
        return Err(blame.at(
            step.line,
            "the fields are neither len ver type flags channel epoch corr [body] nor len json",
        ));
    }
    let fields = step
        .fields
        .iter()
        .map(|field| Ok((field.name.clone(), pattern(blame, field)?)))
        .collect::<Result<Vec<_>, LoadError>>()?;
    Ok(if frame { Expect::Frame(fields) } else { Expect::Message(fields) })
}

fn pattern(blame: &Blame<'_>, field: &RawField) -> Result<Pattern, LoadError> {
    let wrong = |what: &str| blame.at(field.line, format!("field `{}`: {what}", field.name));
    let body = matches!(field.name.as_str(), "body" | "json");
    let [value] = field.values.as_slice() else {
        return field.bytes(blame).map(Pattern::Exact);
    };
    if value == "*" {
        return if field.name == "len" { Ok(Pattern::Length) } else { Err(wrong("only `len` may be `*`")) };
    }
    if let Some(text) = value.strip_prefix("json ") {
        return match serde_json::from_str(text) {
            Ok(value) if body => Ok(Pattern::Json(value)),
            Ok(_) => Err(wrong("only a body is JSON")),
            Err(_) => Err(wrong("not JSON")),
        };
    }
    if let Some(text) = value.strip_prefix("error ") {
        let (code, advice) = match text.split_once(" retry_after_ms=") {
            None => (text, None),
            Some((code, advice)) => {
                (code, Some(advice.parse().map_err(|_| wrong("no number of milliseconds"))?))
            }
        };
        if !body || code.is_empty() || code.contains(' ') {
            return Err(wrong("not `error CODE [retry_after_ms=N]` of a body"));
        }
        return Ok(Pattern::Error { code: code.to_owned(), retry_after_ms: advice });
    }
    let value = field.bytes(blame)?;
    width(blame, field, &value)?;
    Ok(Pattern::Exact(value))
}

fn report(
    blame: &Blame<'_>,
    subject: Subject,
    step: &RawStep,
    shapes: &[Shape],
) -> Result<Report, LoadError> {
    let [name] = step.words.as_slice() else {
        return Err(blame.at(step.line, format!("`{}` needs one name", step.word)));
    };
    let Some((_, _, arguments, fields)) =
        shapes.iter().find(|(side, shape, _, _)| *side == subject && shape == name)
    else {
        return Err(
            blame.at(step.line, format!("`{name}` is no {} of a {subject:?}", step.word).to_lowercase())
        );
    };
    if let Some((other, _)) = step.named.iter().find(|(other, _)| !arguments.contains(&other.as_str())) {
        return Err(blame.at(step.line, format!("`{name}` has no argument `{other}`")));
    }
    let mut report = Report { name: name.clone(), ..Report::default() };
    report.arguments = step.named.iter().cloned().collect();
    for field in &step.fields {
        if !fields.contains(&field.name.as_str()) {
            return Err(blame.at(field.line, format!("`{name}` has no field `{}`", field.name)));
        }
        report.fields.insert(field.name.clone(), field.bytes(blame)?);
    }
    Ok(report)
}
