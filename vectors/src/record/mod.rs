//! Recordings: both directions of a connection, written as a vector while they pass.
//!
//! Owns what has to be known of a connection to say its bytes as steps: which requests are open, which routes stand, and what waits
//! for its place. Memory is bounded by two frames' kept bodies and by what is open. It never keeps a key, nonce, proof, token or
//! descriptor (Z1, N15): the handshake is counted, not read, and a granted transport ends the steps.
//!
//! The bytes are seen between the two ends, so that their order across directions is one that may have been, not the one that was. A
//! client's `Cancel` or route `Goodbye` is therefore written where its effect shows: before the `cancelled` that it led to, or behind
//! the answer that came first (X1, R6).

mod half;
mod redact;
mod text;

use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};
use std::time::Duration;

use hostwire_core::control::{ControlRequest, ErrorBody, Role, decode_request, decode_route_opened};
use hostwire_core::wire::{FrameType, Identity, Sender, judge};

pub use redact::without_secrets;

use half::{Cut, Frame, Half};
use text::{Content, field, header, hex, line, name, plain, quoted};

/// Bytes set aside for the preamble, which is complete only at the end.
const PREAMBLE: usize = 2048;

/// The largest application body that is kept whole unless the caller says otherwise.
pub const DEFAULT_MAX_BODY: usize = 64 << 10;

/// What a recording came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Frames of either direction.
    pub frames: u64,
    /// Bodies of which not all bytes were kept.
    pub cut_bodies: u64,
    /// Another transport was selected: what went over it is not here.
    pub left_for: Option<String>,
    /// How the connection ended: a cause of the format, or a few words.
    pub ended: String,
}

/// Writes one connection as a vector.
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
    about: String,
    no_bodies: bool,
    client: Half,
    host: Half,
    negotiated: bool,
    /// Modules that were asked for, with the role under which they were first.
    modules: BTreeMap<String, Role>,
    candidate: Option<&'static str>,
    open: BTreeMap<u64, Open>,
    routes: BTreeMap<(u16, u32), Option<Frame>>,
    watermark: u64,
    /// Answers to the request whose body is still coming in.
    early: Vec<Frame>,
    /// The client's connection `Goodbye`.
    goodbye: Option<Frame>,
    drained: bool,
    /// The client broke a rule: nothing of it is dispatched any more.
    broken: Option<&'static str>,
    first_end: Option<Sender>,
    recorded: Recorded,
    text: String,
}

#[derive(Debug)]
enum Open {
    /// The host answers by itself.
    Answered(Asked),
    /// `route.open`, which the embedder decides.
    Bind,
    /// A routed request; `Cancel`s of it wait for its end.
    Routed { route: (u16, u32), cancels: Vec<Frame> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Negotiation,
    Catalog,
    Shutdown,
    Other,
}

impl<W: Write + Seek> Recorder<W> {
    /// Begins a recording. `about` says in a line what it is; of an application body the first `max_body` bytes are kept, and none
    /// at all, error messages included, with `None`.
    ///
    /// # Errors
    ///
    /// `out` cannot be written.
    pub fn new(out: W, about: &str, max_body: Option<usize>) -> io::Result<Self> {
        let kept = max_body.unwrap_or(0);
        let mut recorder = Self {
            out,
            about: about.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
            no_bodies: max_body.is_none(),
            client: Half::new(2, kept),
            host: Half::new(1, kept),
            negotiated: false,
            modules: BTreeMap::new(),
            candidate: None,
            open: BTreeMap::new(),
            routes: BTreeMap::new(),
            watermark: 0,
            early: Vec::new(),
            goodbye: None,
            drained: false,
            broken: None,
            first_end: None,
            recorded: Recorded::default(),
            text: String::new(),
        };
        recorder.preamble("running")?;
        Ok(recorder)
    }

    /// Bytes from the client, `at` so long after the connection began. Call this before they are passed on.
    ///
    /// # Errors
    ///
    /// The recording cannot be written.
    pub fn client_bytes(&mut self, at: Duration, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(cut) = self.client.next(&mut bytes) {
            match cut {
                Cut::Message if self.client.authenticated() => line(&mut self.text, "auth elided"),
                Cut::Message => {}
                Cut::Frame(frame) => {
                    self.client_frame(at, frame);
                    for frame in std::mem::take(&mut self.early) {
                        self.host_frame(at, &frame);
                    }
                }
                Cut::Garbage(raw) => {
                    self.at(at);
                    line(&mut self.text, "recv bytes that are no header");
                    field(&mut self.text, "bytes", Content::whole(&raw));
                    self.broken = Some("corruption");
                }
            }
        }
        self.write()
    }

    /// Bytes from the host. Call this before they are passed on.
    ///
    /// # Errors
    ///
    /// The recording cannot be written.
    pub fn host_bytes(&mut self, at: Duration, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(cut) = self.host.next(&mut bytes) {
            match cut {
                Cut::Message => {}
                // C1: an over-size body is answered on its header.
                Cut::Frame(frame) if self.client.current() == Some(frame.header.identity.raw().2) => {
                    self.early.push(frame);
                }
                Cut::Frame(frame) => self.host_frame(at, &frame),
                Cut::Garbage(raw) => {
                    self.at(at);
                    line(&mut self.text, &format!("# host: bytes that are no header: {}", hex(&raw)));
                }
            }
        }
        self.write()
    }

    /// A side has ended: in order, or because its connection broke.
    ///
    /// # Errors
    ///
    /// The recording cannot be written.
    pub fn ended(&mut self, at: Duration, side: Sender, reset: bool) -> io::Result<()> {
        self.first_end.get_or_insert(side);
        self.at(at);
        let who = match side {
            Sender::Client => "client",
            Sender::Host => "host",
        };
        line(&mut self.text, &format!("# {who}: {}", if reset { "connection lost" } else { "end" }));
        self.write()
    }

    /// Writes what waited, the end, and the preamble.
    ///
    /// # Errors
    ///
    /// The recording cannot be written.
    pub fn finish(mut self) -> io::Result<Recorded> {
        self.waiting();
        self.end();
        self.write()?;
        self.preamble("complete")?;
        self.out.flush()?;
        Ok(self.recorded)
    }

    fn preamble(&mut self, state: &str) -> io::Result<()> {
        let mut text = String::from("hostwire-vector 1\nkind: exchange\nsubject: host\nauth: elided\n");
        line(&mut text, &format!("about: {}", self.about));
        line(&mut text, &format!("recording: {state}"));
        let mut config = String::new();
        if let Some(candidate) = self.candidate {
            config = format!(" candidate={candidate}");
        }
        let mut components = String::new();
        for (module, role) in &self.modules {
            let one = format!(",{}/{}", escaped(module), role.as_str());
            // What has no room is not served: a replay says so at the first route to it.
            if components.len() + one.len() < PREAMBLE / 2 {
                components.push_str(&one);
            }
        }
        if let Some(components) = components.strip_prefix(',') {
            config = format!("{config} components={components}");
        }
        if let Some(config) = config.strip_prefix(' ') {
            line(&mut text, &format!("config: {config}"));
        }
        // Room that is left over is one comment.
        let filling = PREAMBLE.saturating_sub(text.len() + 2);
        line(&mut text, &format!("#{}", " ".repeat(filling)));
        text.truncate(PREAMBLE);
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(text.as_bytes())?;
        if state == "running" {
            self.out.write_all(b"\ncase T3: a recorded connection\n")?;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }

    fn at(&mut self, at: Duration) {
        let micros = at.as_micros();
        line(&mut self.text, &format!("# at {}.{:03}", micros / 1000, micros % 1000));
    }

    /// A step with a frame whose bytes are said as they are, as far as they were kept.
    fn step(&mut self, word: &str, frame: &Frame) {
        if frame.kept.len() < frame.seen {
            self.recorded.cut_bodies += 1;
            line(&mut self.text, &format!("# kept: {} of {} bytes", frame.kept.len(), frame.seen));
        }
        line(&mut self.text, &format!("{word} {}", name(frame)));
        header(&mut self.text, frame, None);
        field(&mut self.text, "body", Content::of(frame));
    }

    /// A step with a control body, which holds no secret any more.
    fn control_step(&mut self, word: &str, frame: &Frame) {
        match redact::redacted(&frame.kept) {
            Ok(None) => self.step(word, frame),
            Ok(Some(clean)) => {
                line(&mut self.text, &format!("{word} {}", name(frame)));
                let len = u32::try_from(clean.len()).unwrap_or(u32::MAX);
                header(&mut self.text, frame, Some(&hex(&len.to_le_bytes())));
                field(&mut self.text, "body", Content::whole(&clean));
            }
            Err(redact::NotJson) => {
                line(&mut self.text, &format!("{word} {}", name(frame)));
                header(&mut self.text, frame, None);
                field(&mut self.text, "body", Content { kept: &[], len: frame.seen });
            }
        }
    }

    /// A step with a pattern in place of the body.
    fn expect(&mut self, frame: &Frame, pattern: &str) {
        line(&mut self.text, &format!("# size: {}", frame.seen));
        line(&mut self.text, &format!("expect {}", name(frame)));
        header(&mut self.text, frame, Some("*"));
        line(&mut self.text, &format!("  body    {pattern}"));
    }

    /// A control answer, compared by value.
    fn expect_json(&mut self, frame: &Frame) {
        let clean = match redact::redacted(&frame.kept) {
            Ok(clean) => clean.unwrap_or_else(|| frame.kept.clone()),
            Err(redact::NotJson) => return self.step("expect", frame),
        };
        let compact: Option<serde_json::Value> = serde_json::from_slice(&clean).ok();
        match compact.map(|value| value.to_string()).filter(|text| plain(text)) {
            Some(text) => self.expect(frame, &format!("json {text}")),
            None => self.expect(frame, r#"json "*""#),
        }
    }

    fn client_frame(&mut self, at: Duration, frame: Frame) {
        self.recorded.frames += 1;
        if self.recorded.left_for.is_some() {
            return; // N10: what still comes here moves nothing.
        }
        self.at(at);
        if self.broken.is_some() || self.goodbye.is_some() {
            return line(&mut self.text, &format!("# client, behind the end: {}", name(&frame)));
        }
        // N1: the first frame is a negotiation. N13: `Pong` is none of its business.
        let first =
            matches!((frame.header.kind, frame.header.identity), (FrameType::Request, Identity::Control(_)));
        if judge(Sender::Client, &frame.header).is_ok()
            && !self.negotiated
            && !first
            && frame.header.kind != FrameType::Pong
        {
            self.broken = Some("setup");
            return self.step("recv", &frame);
        }
        if judge(Sender::Client, &frame.header).is_err() {
            self.broken = Some("wrong_frame"); // F1
            return self.step("recv", &frame);
        }
        match (frame.header.kind, frame.header.identity) {
            (FrameType::Request, Identity::Control(corr)) => self.control_request(&frame, corr.value()),
            (FrameType::Request, Identity::Routed(route, corr)) => {
                self.routed_request(&frame, (route.channel.value(), route.epoch.value()), corr.value());
            }
            (FrameType::Cancel, Identity::Routed(route, corr)) => {
                let wanted = (route.channel.value(), route.epoch.value());
                match self.open.get_mut(&corr.value()) {
                    Some(Open::Routed { route, cancels }) if *route == wanted => {
                        line(&mut self.text, &format!("# client, written below: {}", name(&frame)));
                        cancels.push(frame);
                    }
                    Some(_) | None => self.step("recv", &frame),
                }
            }
            (FrameType::Goodbye, Identity::Route(route)) => {
                let route = (route.channel.value(), route.epoch.value());
                let busy = self.pending_on(route).next().is_some();
                match self.routes.get_mut(&route) {
                    Some(held) if busy => {
                        line(&mut self.text, &format!("# client, written below: {}", name(&frame)));
                        held.get_or_insert(frame);
                    }
                    Some(_) => self.close_route(route, &frame),
                    None => self.step("recv", &frame),
                }
            }
            (FrameType::Goodbye, _) => {
                line(&mut self.text, &format!("# client, written below: {}", name(&frame)));
                self.goodbye = Some(frame);
            }
            (FrameType::Pong, _) => {
                line(&mut self.text, &format!("# client: {}", name(&frame)));
            }
            (_, _) => self.step("recv", &frame),
        }
    }

    /// Q2: false if this ends the connection.
    fn allowed(&mut self, frame: &Frame, corr: u64) -> bool {
        if corr <= self.watermark {
            self.broken = Some("watermark");
            self.step("recv", frame);
            return false;
        }
        self.watermark = corr;
        true
    }

    fn control_request(&mut self, frame: &Frame, corr: u64) {
        if !self.allowed(frame, corr) {
            return;
        }
        let whole = if frame.kept.len() == frame.seen { &frame.kept[..] } else { &[] };
        let request = decode_request(whole, frame.header.flags.binary);
        let asked = match &request {
            // N8: what cannot be read in its place is a negotiation that has failed.
            Err(_) if !self.negotiated => Asked::Negotiation,
            Ok(ControlRequest::TransportNegotiate) => Asked::Negotiation,
            Ok(ControlRequest::CatalogList { .. }) => Asked::Catalog,
            Ok(ControlRequest::HostShutdown) => Asked::Shutdown,
            Ok(ControlRequest::RouteOpen(_) | ControlRequest::Unknown) | Err(_) => Asked::Other,
        };
        self.control_step("recv", frame);
        // N1, N9: negotiation comes first, and once.
        if self.negotiated == (asked == Asked::Negotiation) {
            self.broken = Some("setup");
            return;
        }
        self.negotiated = true;
        if let Ok(ControlRequest::RouteOpen(open)) = &request {
            let (target, identity) = (open.target(), open.identity());
            let known = Role::parse(target.kind())
                .is_some_and(|role| *self.modules.entry(target.module_id().into()).or_insert(role) == role);
            if known {
                self.open.insert(corr, Open::Bind);
                let mut event = format!("event route_open corr={corr}");
                for (key, value) in [("kind", target.kind()), ("module", target.module_id())] {
                    if plain(value) {
                        event.push_str(&format!(" {key}={}", quoted(value)));
                    }
                }
                line(&mut self.text, &event);
                for (key, value) in [
                    ("root", identity.project_root()),
                    ("harness", identity.harness()),
                    ("session", identity.session()),
                ] {
                    field(&mut self.text, key, Content::whole(value.as_bytes()));
                }
                return;
            }
        }
        self.open.insert(corr, Open::Answered(asked));
    }

    fn routed_request(&mut self, frame: &Frame, route: (u16, u32), corr: u64) {
        if !self.negotiated {
            self.broken = Some("setup"); // N1
            return self.step("recv", frame);
        }
        // R6: nothing is dispatched on a route behind its `Goodbye`.
        if let Some(Some(goodbye)) = self.routes.get_mut(&route).map(Option::take) {
            self.close_route(route, &goodbye);
        }
        if !self.allowed(frame, corr) {
            return;
        }
        self.step("recv", frame);
        if !self.routes.contains_key(&route) {
            self.open.insert(corr, Open::Answered(Asked::Other));
            return;
        }
        self.open.insert(corr, Open::Routed { route, cancels: Vec::new() });
        let binary = if frame.header.flags.binary { "yes" } else { "no" };
        let (channel, epoch) = route;
        line(
            &mut self.text,
            &format!("event request channel={channel} epoch={epoch} corr={corr} binary={binary}"),
        );
        field(&mut self.text, "body", Content::of(frame));
    }

    fn pending_on(&self, wanted: (u16, u32)) -> impl Iterator<Item = u64> + '_ {
        self.open.iter().filter_map(move |(corr, open)| match open {
            Open::Routed { route, .. } if *route == wanted => Some(*corr),
            Open::Routed { .. } | Open::Answered(_) | Open::Bind => None,
        })
    }

    /// R6: the route's end reaches its work.
    fn close_route(&mut self, route: (u16, u32), goodbye: &Frame) {
        self.routes.remove(&route);
        self.step("recv", goodbye);
        let stopped: Vec<u64> = self.pending_on(route).collect();
        for corr in stopped {
            line(&mut self.text, &format!("event stop corr={corr} why=route_closed"));
        }
        let (channel, epoch) = route;
        line(&mut self.text, &format!("event route_closed channel={channel} epoch={epoch}"));
    }

    /// A request's `Cancel`s, behind its end, where they mean nothing any more; its route's `Goodbye` if that was the last.
    fn settled(&mut self, route: (u16, u32), cancels: &[Frame]) {
        for cancel in cancels {
            self.step("recv", cancel);
        }
        if self.pending_on(route).next().is_none()
            && let Some(Some(goodbye)) = self.routes.get_mut(&route).map(Option::take)
        {
            self.close_route(route, &goodbye);
        }
    }

    fn host_frame(&mut self, at: Duration, frame: &Frame) {
        self.recorded.frames += 1;
        if self.recorded.left_for.is_some() {
            return;
        }
        self.at(at);
        match (frame.header.kind, frame.header.identity) {
            // L1: liveness has its own clock, which a recording does not play.
            (FrameType::Ping, _) => line(&mut self.text, &format!("# host: {}", name(frame))),
            (FrameType::Goodbye, Identity::Connection) => {
                self.drained = true;
                line(&mut self.text, "command drain");
                self.step("expect", frame);
            }
            (FrameType::Response, Identity::Control(corr)) => self.control_response(frame, corr.value()),
            (FrameType::Error, identity) => self.error(frame, identity.raw().2),
            (_, Identity::Routed(_, corr)) => self.routed_answer(frame, corr.value()),
            (_, _) => self.step("expect", frame),
        }
    }

    fn control_response(&mut self, frame: &Frame, corr: u64) {
        match self.open.remove(&corr) {
            Some(Open::Bind) => {
                if let Ok(route) = decode_route_opened(&frame.kept) {
                    let (channel, epoch) = (route.channel.value(), route.epoch.value());
                    self.routes.insert((channel, epoch), None);
                    line(
                        &mut self.text,
                        &format!("command bind corr={corr} channel={channel} epoch={epoch}"),
                    );
                }
                self.expect_json(frame);
            }
            Some(Open::Answered(Asked::Negotiation)) => self.selected(frame),
            Some(Open::Answered(Asked::Catalog)) => {
                // Another host has other components: any catalog will do.
                line(&mut self.text, &format!("# said: {}", printable(&frame.kept)));
                self.expect(frame, r#"json "*""#);
            }
            Some(Open::Answered(Asked::Shutdown)) => {
                self.expect_json(frame);
                line(&mut self.text, "event shutdown_committed");
            }
            Some(Open::Answered(Asked::Other)) | None => self.expect_json(frame),
            Some(other @ Open::Routed { .. }) => {
                self.open.insert(corr, other);
                self.expect_json(frame);
            }
        }
    }

    /// The transport is chosen: everything else is here, or somewhere else.
    fn selected(&mut self, frame: &Frame) {
        let answer: serde_json::Value = serde_json::from_slice(&frame.kept).unwrap_or_default();
        let transport = answer.pointer("/selected/transport").and_then(serde_json::Value::as_str);
        match transport {
            Some("tcp") | None => {
                self.candidate = match answer.get("reason").and_then(serde_json::Value::as_str) {
                    None => None,
                    Some("unavailable") => Some("unix/1:unavailable"),
                    Some(_) => Some("unix/1:available"),
                };
                self.expect_json(frame);
            }
            Some(other) => {
                self.candidate = Some("unix/1:available");
                let other = if plain(other) { other } else { "another transport" };
                self.recorded.left_for = Some(other.to_owned());
                line(&mut self.text, &format!("event candidate_wanted transport={}", quoted(other)));
                line(
                    &mut self.text,
                    &format!("# left: {other} was selected; what went over it is not recorded"),
                );
            }
        }
    }

    fn error(&mut self, frame: &Frame, corr: u64) {
        let body = ErrorBody::decode(&frame.kept).ok();
        let code = body.as_ref().map_or("", ErrorBody::code);
        let advice = body.as_ref().and_then(ErrorBody::retry_after_ms);
        let message = body.as_ref().map_or("", ErrorBody::message);
        let told = !self.no_bodies && plain(message);
        let mut said = format!("code={}", quoted(code));
        if told {
            said.push_str(&format!(" message={}", quoted(message)));
        }
        let mut short = format!("error {code}");
        if let Some(advice) = advice {
            said.push_str(&format!(" retry_after_ms={advice}"));
            short.push_str(&format!(" retry_after_ms={advice}"));
        }
        let expect = |recorder: &mut Self| match &body {
            None => recorder.step("expect", frame),
            Some(_) if told => recorder.expect_json(frame),
            Some(_) => recorder.expect(frame, &short),
        };
        match self.open.remove(&corr) {
            Some(Open::Bind) => {
                line(&mut self.text, &format!("command reject corr={corr} {said}"));
                expect(self);
            }
            Some(Open::Routed { route, mut cancels }) => {
                if code == "cancelled" && !cancels.is_empty() {
                    // X1: the cancel won.
                    let first = cancels.remove(0);
                    self.step("recv", &first);
                    line(&mut self.text, &format!("event stop corr={corr} why=cancelled"));
                    line(&mut self.text, &format!("command stopped corr={corr}"));
                } else if code == "cancelled" && self.goodbye_held(route) {
                    // R6: the route's end won; it reaches its other requests too.
                    self.open.insert(corr, Open::Routed { route, cancels: Vec::new() });
                    if let Some(Some(goodbye)) = self.routes.get_mut(&route).map(Option::take) {
                        self.close_route(route, &goodbye);
                    }
                    self.open.remove(&corr);
                    line(&mut self.text, &format!("command stopped corr={corr}"));
                } else if code == "server_busy" {
                    line(&mut self.text, &format!("command busy corr={corr}"));
                } else if code == "cancelled" && !self.routes.contains_key(&route) {
                    line(&mut self.text, &format!("command stopped corr={corr}"));
                } else {
                    let (channel, epoch) = route;
                    line(
                        &mut self.text,
                        &format!("command fail channel={channel} epoch={epoch} corr={corr} {said}"),
                    );
                }
                if code == "cancelled" {
                    self.expect(frame, "error cancelled");
                } else if code == "server_busy" {
                    self.expect(frame, &short);
                } else {
                    expect(self);
                }
                self.settled(route, &cancels);
            }
            Some(Open::Answered(asked)) => {
                if !message.is_empty() && told {
                    line(&mut self.text, &format!("# said: {}", printable(message.as_bytes())));
                }
                self.expect(frame, &short);
                if asked == Asked::Negotiation {
                    self.broken.get_or_insert("negotiation"); // N8
                }
            }
            None => expect(self),
        }
    }

    fn goodbye_held(&self, route: (u16, u32)) -> bool {
        self.routes.get(&route).is_some_and(Option::is_some)
    }

    fn routed_answer(&mut self, frame: &Frame, corr: u64) {
        let Some(Open::Routed { route, .. }) = self.open.get(&corr) else {
            return self.step("expect", frame);
        };
        let (channel, epoch) = *route;
        let binary = if frame.header.flags.binary { "yes" } else { "no" };
        match frame.header.kind {
            FrameType::StreamData => {
                line(&mut self.text, &format!("command item corr={corr} binary={binary}"));
                field(&mut self.text, "body", Content::of(frame));
                self.step("expect", frame);
                return;
            }
            FrameType::StreamEnd => line(&mut self.text, &format!("command end corr={corr}")),
            FrameType::Response => {
                line(
                    &mut self.text,
                    &format!("command respond channel={channel} epoch={epoch} corr={corr} binary={binary}"),
                );
                field(&mut self.text, "body", Content::of(frame));
            }
            FrameType::Request
            | FrameType::Push
            | FrameType::Error
            | FrameType::Cancel
            | FrameType::Ping
            | FrameType::Pong
            | FrameType::Hello
            | FrameType::HelloAck
            | FrameType::Goodbye => return self.step("expect", frame),
        }
        self.step("expect", frame);
        if let Some(Open::Routed { route, cancels }) = self.open.remove(&corr) {
            self.settled(route, &cancels);
        }
    }

    /// `Cancel`s and `Goodbye`s whose effect never showed.
    fn waiting(&mut self) {
        for (corr, open) in std::mem::take(&mut self.open) {
            if let Open::Routed { cancels, .. } = &open {
                for (index, cancel) in cancels.iter().enumerate() {
                    self.step("recv", cancel);
                    if index == 0 {
                        line(&mut self.text, &format!("event stop corr={corr} why=cancelled"));
                    }
                }
                if cancels.is_empty() {
                    self.open.insert(corr, open);
                }
            }
        }
        let held: Vec<(u16, u32)> = self.routes.keys().copied().collect();
        for route in held {
            if let Some(Some(goodbye)) = self.routes.get_mut(&route).map(Option::take) {
                self.close_route(route, &goodbye);
            }
        }
    }

    fn end(&mut self) {
        let unfinished = self.client.unfinished();
        let close = |recorder: &mut Self, cause: &str| {
            line(&mut recorder.text, &format!("closed {cause}"));
            recorder.recorded.ended = cause.to_owned();
        };
        if !self.client.authenticated() {
            line(&mut self.text, "# the connection ended before or in its handshake");
            self.recorded.ended = "in the handshake".to_owned();
        } else if self.recorded.left_for.is_some() {
            self.recorded.ended = "left".to_owned();
        } else if let Some(cause) = self.broken {
            close(self, cause);
        } else if self.drained {
            close(self, "drained");
        } else if let Some(goodbye) = self.goodbye.take() {
            self.step("recv", &goodbye);
            close(self, "goodbye");
        } else if self.first_end == Some(Sender::Client) {
            if let Some((raw, more)) = &unfinished {
                line(&mut self.text, "recv bytes of a frame that never became whole");
                field(&mut self.text, "bytes", Content { kept: raw, len: raw.len() + more });
                for frame in std::mem::take(&mut self.early) {
                    match ErrorBody::decode(&frame.kept) {
                        Ok(body) => self.expect(&frame, &format!("error {}", body.code())),
                        Err(_) => self.step("expect", &frame),
                    }
                }
                line(&mut self.text, "eof");
                close(self, "corruption"); // W2
            } else {
                line(&mut self.text, "eof");
                close(self, "eof");
            }
        } else {
            line(&mut self.text, "# the host has ended the connection, or is gone");
            self.recorded.ended = "by the host".to_owned();
        }
        if let Some((raw, more)) = self.host.unfinished() {
            line(
                &mut self.text,
                &format!("# host: {} bytes of a frame that never became whole", raw.len() + more),
            );
        }
    }
}

/// A body as a comment.
fn printable(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A module ID in `config:`, which is parted by blanks, commas and slashes.
fn escaped(module: &str) -> String {
    let mut text = String::new();
    for byte in module.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    text
}
