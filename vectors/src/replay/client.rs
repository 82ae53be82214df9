//! The core's client as a subject: the vector is its host.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hostwire_core::auth::{Credentials, HostChallenge, HostHandshake, MessageReader};
use hostwire_core::client::{
    CandidateConfig, CatalogFilter, Config, Connection, Event, Item, OpId, Request, Stage, StreamPoll,
    SubmitError, Transport,
};
use hostwire_core::control::{ErrorBody, Identity, RouteOpen, Target};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::json::RawJson;
use hostwire_core::limits::{ClientLimits, ClientTimeouts};
use hostwire_core::negotiate::{Grant, Offer, OfferList};
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use hostwire_core::wire::RouteHandle;

use super::exchange::{Role, Seen};
use super::{cause, route, world};
use crate::format::{Exchange, Report};

/// The contract's patience for a request and for a route (§15).
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Client {
    connection: Connection,
    candidate: Option<Connection>,
    grant: Option<Grant>,
    /// Operations by the vector's names for them.
    names: BTreeMap<(usize, OpId), String>,
    seen: [VecDeque<Seen>; 2],
    handshake: Handshake,
}

/// The host's side of a handshake that a vector leaves out.
enum Handshake {
    Hello(HostHandshake),
    Proof(HostChallenge),
    Done,
}

impl Client {
    pub(super) fn new(exchange: &Exchange) -> Result<Self, String> {
        let offers = exchange.offers.iter().map(|name| match name.as_str() {
            "tcp" => Ok(Offer::tcp()),
            "unix" => Ok(Offer::unix()),
            other => Err(format!("`{other}` is no transport that the core offers")),
        });
        let offers = OfferList::new(offers.collect::<Result<_, _>>()?).map_err(|error| error.to_string())?;
        let timeouts = ClientTimeouts::default();
        let config = Config {
            credentials: world::credentials(),
            nonce: world::client_nonce(),
            role: "client".into(),
            offers,
            limits: ClientLimits::default(),
            setup_deadline: Instant::ZERO + timeouts.setup,
            timeouts,
        };
        let connection = Connection::new(Instant::ZERO, config).map_err(|error| error.to_string())?;
        let Credentials { key, daemon_id, daemon_ver } = world::credentials();
        let host = HostHandshake::new(key, daemon_id, &daemon_ver, world::server_nonce())
            .map_err(|error| error.to_string())?;
        Ok(Self {
            connection,
            candidate: None,
            grant: None,
            names: BTreeMap::new(),
            seen: [VecDeque::new(), VecDeque::new()],
            handshake: Handshake::Hello(host),
        })
    }

    /// The connection on a socket.
    fn on(&mut self, socket: usize) -> &mut Connection {
        match &mut self.candidate {
            Some(candidate) if socket == 1 => candidate,
            Some(_) | None => &mut self.connection,
        }
    }

    fn seen(&mut self, socket: usize) -> &mut VecDeque<Seen> {
        let [first, second] = &mut self.seen;
        if socket == 0 { first } else { second }
    }

    fn name(&self, socket: usize, op: OpId) -> String {
        self.names.get(&(socket, op)).cloned().unwrap_or_else(|| "unnamed".into())
    }

    fn note(&mut self, socket: usize, event: Event) {
        match event {
            Event::Ready { transport } => {
                let (transport, reason) = match transport {
                    Transport::Tcp { reason } => ("tcp", reason.map_or("none", |reason| reason.as_str())),
                    Transport::Candidate => ("candidate", "none"),
                };
                self.report(
                    socket,
                    "ready",
                    vec![("transport", transport.into()), ("reason", reason.into())],
                    Vec::new(),
                );
            }
            Event::Settled { op, outcome, .. } => self.settled(socket, op, outcome),
            Event::Readable { op } => {
                while let StreamPoll::Item(Item { binary, body }) = self.on(socket).take_item(op) {
                    let arguments = vec![("op", self.name(socket, op)), ("binary", yes_no(binary))];
                    self.report(socket, "item", arguments, vec![("body", body.as_slice().to_vec())]);
                }
            }
            Event::Closed { reason, stage } => {
                let authenticated = match stage {
                    Stage::Authenticating => false,
                    Stage::Negotiating | Stage::Active => true,
                };
                self.seen(socket).push_back(Seen::Closed(cause::close_cause(reason, authenticated)));
            }
            Event::Granted { grant } => {
                let arguments = vec![
                    ("transport", grant.transport().as_str().into()),
                    ("version", grant.capability_version().to_string()),
                ];
                let fields = vec![("descriptor", grant.descriptor().text().as_bytes().to_vec())];
                self.grant = Some(grant);
                self.report(socket, "granted", arguments, fields);
            }
            other @ (Event::RouteGone { .. } | _) => {
                self.seen(socket).push_back(Seen::Other(format!("{other:?}")));
            }
        }
    }

    fn settled(&mut self, socket: usize, op: OpId, outcome: Outcome) {
        let op = ("op", self.name(socket, op));
        let mut fields = Vec::new();
        let mut arguments = vec![op.clone()];
        let mut terminal = |kind: &str| {
            arguments.extend([("outcome", "terminal".to_owned()), ("kind", kind.to_owned())]);
        };
        match outcome {
            Outcome::Terminal(Terminal::RouteOpened(RouteHandle { channel, epoch })) => {
                let numbers = vec![op, ("channel", channel.to_string()), ("epoch", epoch.to_string())];
                self.report(socket, "route_opened", numbers, fields);
                return;
            }
            Outcome::Terminal(Terminal::Response { binary, body }) => {
                terminal("response");
                arguments.push(("binary", yes_no(binary)));
                fields.push(("body", body.as_slice().to_vec()));
            }
            Outcome::Terminal(Terminal::Catalog(_) | Terminal::ShutdownCommitted) => terminal("response"),
            Outcome::Terminal(Terminal::StreamEnd { .. }) => terminal("stream_end"),
            Outcome::Terminal(Terminal::Error(error)) => {
                terminal("error");
                arguments.extend(said(&error));
                fields.push(("message", error.message().as_bytes().to_vec()));
            }
            Outcome::Terminal(Terminal::Local(code)) => {
                terminal("error");
                arguments.push(("code", code.to_string()));
            }
            Outcome::Unknown { code } => {
                arguments.extend([("outcome", "outcome_unknown".into()), ("code", code.to_string())]);
            }
            Outcome::NotSent { code, .. } => {
                arguments.extend([("outcome", "not_sent".into()), ("code", code.to_string())]);
            }
        }
        self.report(socket, "settled", arguments, fields);
    }

    fn report(
        &mut self,
        socket: usize,
        name: &'static str,
        arguments: Vec<(&'static str, String)>,
        fields: Vec<(&'static str, Vec<u8>)>,
    ) {
        self.seen(socket).push_back(Seen::Report { name, arguments, fields });
    }
}

fn said(error: &ErrorBody) -> [(&'static str, String); 3] {
    let advice = error.retry_after_ms().map_or_else(|| "none".into(), |advice| advice.to_string());
    [("code", error.code().into()), ("message", error.message().into()), ("retry_after_ms", advice)]
}

fn yes_no(flag: bool) -> String {
    if flag { "yes" } else { "no" }.into()
}

impl Role for Client {
    fn endpoint(&mut self, socket: usize) -> &mut dyn Endpoint {
        self.on(socket)
    }

    fn poll(&mut self, socket: usize) -> Option<Seen> {
        while self.seen(socket).is_empty() {
            let event = self.on(socket).poll_event()?;
            self.note(socket, event);
        }
        self.seen(socket).pop_front()
    }

    fn open(&mut self, now: Instant) -> Result<(), String> {
        let grant = self.grant.take().ok_or("no candidate was granted")?;
        let timeouts = ClientTimeouts::default();
        let setup_deadline = Instant::ZERO + timeouts.setup;
        let config = CandidateConfig { grant, limits: ClientLimits::default(), timeouts, setup_deadline };
        self.candidate = Some(Connection::candidate(now, config).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn command(&mut self, now: Instant, socket: usize, command: &Report) -> Result<(), String> {
        let deadline = now + PATIENCE;
        let flag = |name| command.argument(name) == Some("yes");
        let submitted = match command.name.as_str() {
            "open_route" => self.on(socket).open_route(now, &route_open(command)?, deadline),
            "catalog" => {
                let filter =
                    CatalogFilter::new(command.argument("module")).map_err(|error| error.to_string())?;
                self.on(socket).catalog(now, filter, deadline)
            }
            "request" => {
                let mut request = if flag("stream") {
                    Request::stream(command.field("body"), deadline)
                } else {
                    Request::unary(command.field("body"), deadline)
                };
                request.binary = flag("binary");
                self.on(socket).request(now, route(command)?, request)
            }
            "host_shutdown" => self.on(socket).host_shutdown(now, deadline),
            "close_route" => {
                let route = route(command)?;
                self.on(socket).close_route(now, route);
                return Ok(());
            }
            "close" => {
                self.on(socket).shutdown(now);
                return Ok(());
            }
            other => return Err(format!("the player has no `{other}`")),
        };
        let op = submitted.map_err(|SubmitError { code, .. }| format!("not_sent {code}"))?;
        self.names.insert((socket, op), command.argument("op").unwrap_or("unnamed").into());
        Ok(())
    }

    fn handshake(&mut self, sent: &mut Vec<u8>) -> Option<Vec<u8>> {
        let (taken, body) = MessageReader::new().handle_input(sent).ok()?;
        let body = body?;
        match std::mem::replace(&mut self.handshake, Handshake::Done) {
            Handshake::Hello(host) => {
                let (challenge, rest) = host.handle_client_hello(&body).ok()?;
                sent.drain(..taken);
                self.handshake = Handshake::Proof(rest);
                Some(challenge)
            }
            Handshake::Proof(rest) => {
                rest.handle_client_auth(&body).ok()?;
                sent.drain(..taken);
                None
            }
            Handshake::Done => None,
        }
    }
}

fn route_open(command: &Report) -> Result<RouteOpen, String> {
    let text = |name| String::from_utf8(command.field(name)).map_err(|_| format!("`{name}` is no text"));
    let word = |name| command.argument(name).ok_or_else(|| format!("`open_route` needs `{name}`"));
    let wrong = |error: hostwire_core::json::ReadError| error.to_string();
    let target = Target::new(word("kind")?, word("module")?).map_err(wrong)?;
    let identity = Identity::new(&text("root")?, &text("harness")?, &text("session")?).map_err(wrong)?;
    let open = RouteOpen::new(target, identity);
    if !command.fields.contains_key("facts") {
        return Ok(open);
    }
    let facts = RawJson::new(&text("facts")?).map_err(|error| error.to_string())?;
    open.with_admission_facts(&facts).map_err(wrong)
}
