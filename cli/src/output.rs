//! What is printed: JSON objects and bodies on stdout, lines for people on stderr.
//!
//! Owns the order and the names of the JSON members. A body goes to stdout and nowhere else.

use crate::exit::{Exit, Stop};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostwire::client::{CallError, ConnectError, Evidence, Failure, Item, Reply, StreamEnd};
use hostwire::core::auth::DaemonId;
use hostwire::core::wire::RouteHandle;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write};

/// How much is said, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

impl Output {
    /// One JSON object, one line.
    pub(crate) fn object(self, object: &impl Serialize) -> Result<(), Stop> {
        let mut line = serde_json::to_vec(object).map_err(|error| Stop::Bug(error.to_string()))?;
        line.push(b'\n');
        write(&line)
    }

    /// A line for people, on stdout.
    pub(crate) fn line(self, line: &str) -> Result<(), Stop> {
        write(format!("{line}\n").as_bytes())
    }

    /// A body for people: as it is; text that does not end its line is helped.
    fn body(self, binary: bool, body: &[u8]) -> Result<(), Stop> {
        write(body)?;
        if binary || body.ends_with(b"\n") { Ok(()) } else { write(b"\n") }
    }

    /// A line on stderr, unless it is to be quiet.
    pub(crate) fn info(self, line: &str) {
        if !self.quiet {
            complain(line);
        }
    }

    /// A line on stderr for who wants to know more.
    pub(crate) fn detail(self, line: &str) {
        if self.verbose {
            complain(line);
        }
    }

    /// An item of a stream.
    pub(crate) fn item(self, index: u64, item: &Item) -> Result<(), Stop> {
        let bytes = item.body.as_slice();
        if self.json {
            let (body, body_base64) = text_or_base64(bytes);
            self.object(&ItemLine { item: index, binary: item.binary, body, body_base64 })
        } else {
            self.body(item.binary, bytes)
        }
    }

    /// A unary answer.
    pub(crate) fn reply(self, reply: &Reply) -> Result<Exit, Stop> {
        let bytes = reply.body.as_slice();
        if self.json {
            let (body, body_base64) = text_or_base64(bytes);
            self.object(&OutcomeLine {
                kind: Some("response"),
                binary: Some(reply.binary),
                body,
                body_base64,
                ..OutcomeLine::new("terminal", Some(reply.evidence))
            })?;
        } else {
            self.body(reply.binary, bytes)?;
        }
        Ok(Exit::SUCCESS)
    }

    /// A stream's clean end.
    pub(crate) fn stream_end(self, end: StreamEnd) -> Result<Exit, Stop> {
        if self.json {
            self.object(&OutcomeLine {
                kind: Some("stream_end"),
                items: Some(end.items),
                ..OutcomeLine::new("terminal", Some(end.evidence))
            })?;
        }
        Ok(Exit::SUCCESS)
    }

    /// A request, or the opening of its route, that has no answer.
    pub(crate) fn failed(self, error: &CallError, stage: Option<&'static str>) -> Result<Exit, Stop> {
        let (kind, message, retry_after_ms, exit) = match error {
            CallError::NotSent { .. } => (None, None, None, Exit::NOT_SENT),
            CallError::Unknown { .. } => (None, None, None, Exit::OUTCOME_UNKNOWN),
            CallError::Failed { failure: Failure::Host(error), .. } => {
                (Some("error"), Some(error.message()), error.retry_after_ms(), Exit::FAILED)
            }
            CallError::Failed { failure: Failure::Local(_), .. } => (Some("error"), None, None, Exit::FAILED),
        };
        if self.json {
            self.object(&OutcomeLine {
                kind,
                stage,
                code: Some(error.code()),
                message,
                retry_after_ms,
                ..OutcomeLine::new(error.outcome(), Some(error.evidence()))
            })?;
        }
        let doing = stage.map_or("", |_| "opening the route: ");
        let said = message.map_or_else(String::new, |text| format!(": {}", printable(text)));
        let handed = error.evidence().bytes_handed;
        complain(&format!("{doing}{}: {}{said} ({handed} bytes handed over)", error.outcome(), error.code()));
        Ok(exit)
    }

    /// No connection: nothing was sent.
    pub(crate) fn not_connected(self, error: &ConnectError) -> Result<Exit, Stop> {
        let code = match error.code() {
            "client_failed" => return Err(Stop::Bug(error.to_string())),
            code => code,
        };
        if self.json {
            let daemon_id = error.daemon_id().map(|id| id.to_string());
            self.object(&OutcomeLine { code: Some(code), daemon_id, ..OutcomeLine::new("not_sent", None) })?;
        }
        complain(&format!("not_sent: {code}: {}", whole(error)));
        Ok(Exit::NOT_SENT)
    }
}

/// How far long work has come: on a terminal, nothing anywhere else.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// `steps` of work, named by a word.
    pub(crate) fn new(output: Output, name: &'static str, steps: u64) -> Self {
        if output.quiet || !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.set_message(name);
        Self(Some(bar))
    }

    /// One more is done.
    pub(crate) fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// Says something without the bar in its way.
    pub(crate) fn hidden<T>(&self, say: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }

    /// It is over, and leaves nothing on the terminal.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// An error with its sources, as far as they say more.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}

/// A line on stderr. If nobody reads it, so be it.
pub(crate) fn complain(line: &str) {
    let line = format!("hostwire: {line}\n");
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Bytes on stdout, as they are.
pub(crate) fn write(bytes: &[u8]) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Stop::Output)
}

/// A peer's text on a terminal: no control characters.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A route's identity, for people.
pub(crate) fn route_name(route: RouteHandle) -> String {
    format!("{}/{}", route.channel, route.epoch)
}

/// `body` is text where it can be.
pub(crate) fn text_or_base64(bytes: &[u8]) -> (Option<&str>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

#[derive(Serialize)]
struct ItemLine<'a> {
    item: u64,
    binary: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Serialize)]
struct OutcomeLine<'a> {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    bytes_handed: u64,
    attempts: u32,
    daemon_id: Option<String>,
}

impl OutcomeLine<'_> {
    fn new(outcome: &'static str, evidence: Option<Evidence>) -> Self {
        let daemon_id = |evidence: Evidence| -> DaemonId { evidence.daemon_id };
        Self {
            outcome,
            kind: None,
            stage: None,
            binary: None,
            body: None,
            body_base64: None,
            items: None,
            code: None,
            message: None,
            retry_after_ms: None,
            bytes_handed: evidence.map_or(0, |evidence| evidence.bytes_handed),
            attempts: evidence.map_or(0, |evidence| evidence.attempts),
            daemon_id: evidence.map(daemon_id).map(|id| id.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_base64() {
        assert_eq!(text_or_base64("é\0".as_bytes()), (Some("é\0"), None));
        assert_eq!(text_or_base64(&[0xff, 0x00]), (None, Some("/wA=".to_owned())));
    }

    #[test]
    fn a_hosts_message_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\nb ü"), "a\\u{1b}[2J\\nb ü");
    }

    #[test]
    fn the_members_stand_in_the_order_of_the_interface() {
        let line = OutcomeLine {
            kind: Some("error"),
            stage: Some("route_open"),
            code: Some("c"),
            message: Some("m"),
            retry_after_ms: Some(5),
            ..OutcomeLine::new("terminal", None)
        };
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            r#"{"outcome":"terminal","kind":"error","stage":"route_open","code":"c","message":"m","retry_after_ms":5,"bytes_handed":0,"attempts":0,"daemon_id":null}"#
        );
    }
}
