//! The core's client as a subject: the vector is its host.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hostwire_core::auth::{Credentials, HostChallenge, HostHandshake, MessageReader};
use hostwire_core::client::{
    CatalogFilter, Config, Connection, Event, Item, OpId, Request, Stage, StreamPoll, SubmitError, Transport,
};
use hostwire_core::control::{ErrorBody, Identity, RouteOpen, Target};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::json::RawJson;
use hostwire_core::limits::{ClientLimits, ClientTimeouts};
use hostwire_core::negotiate::{Offer, OfferList};
use hostwire_core::outcome::{Outcome, Terminal};
use hostwire_core::time::Instant;
use hostwire_core::wire::RouteHandle;

use super::exchange::{Role, Seen};
use super::{cause, world};
use crate::format::{Exchange, Report};

/// The contract's patience for a request and for a route (§15).
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Client {
    connection: Connection,
    /// Operations by the vector's names for them.
    names: BTreeMap<OpId, String>,
    seen: VecDeque<Seen>,
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
            names: BTreeMap::new(),
            seen: VecDeque::new(),
            handshake: Handshake::Hello(host),
        })
    }

    fn name(&self, op: OpId) -> String {
        self.names.get(&op).cloned().unwrap_or_else(|| "unnamed".into())
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Ready { transport } => {
                let (transport, reason) = match transport {
                    Transport::Tcp { reason } => ("tcp", reason.map_or("none", |reason| reason.as_str())),
                    Transport::Candidate => ("candidate", "none"),
                };
                self.report(
                    "ready",
                    vec![("transport", transport.into()), ("reason", reason.into())],
                    Vec::new(),
                );
            }
            Event::Settled { op, outcome, .. } => self.settled(op, outcome),
            Event::Readable { op } => {
                while let StreamPoll::Item(Item { binary, body }) = self.connection.take_item(op) {
                    let arguments = vec![("op", self.name(op)), ("binary", yes_no(binary))];
                    self.report("item", arguments, vec![("body", body.as_slice().to_vec())]);
                }
            }
            Event::Closed { reason, stage } => {
                let authenticated = match stage {
                    Stage::Authenticating => false,
                    Stage::Negotiating | Stage::Active => true,
                };
                self.seen.push_back(Seen::Closed(cause::word(reason, authenticated)));
            }
            other @ (Event::Granted { .. } | Event::RouteGone { .. } | _) => {
                self.seen.push_back(Seen::Other(format!("{other:?}")));
            }
        }
    }

    fn settled(&mut self, op: OpId, outcome: Outcome) {
        let op = ("op", self.name(op));
        let mut fields = Vec::new();
        let mut arguments = vec![op.clone()];
        let mut terminal = |kind: &str| {
            arguments.extend([("outcome", "terminal".to_owned()), ("kind", kind.to_owned())]);
        };
        match outcome {
            Outcome::Terminal(Terminal::RouteOpened(RouteHandle { channel, epoch })) => {
                let numbers = vec![op, ("channel", channel.to_string()), ("epoch", epoch.to_string())];
                self.report("route_opened", numbers, fields);
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
        self.report("settled", arguments, fields);
    }

    fn report(
        &mut self,
        name: &'static str,
        arguments: Vec<(&'static str, String)>,
        fields: Vec<(&'static str, Vec<u8>)>,
    ) {
        self.seen.push_back(Seen::Report { name, arguments, fields });
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
    fn endpoint(&mut self) -> &mut dyn Endpoint {
        &mut self.connection
    }

    fn poll(&mut self) -> Option<Seen> {
        while self.seen.is_empty() {
            let event = self.connection.poll_event()?;
            self.note(event);
        }
        self.seen.pop_front()
    }

    fn command(&mut self, now: Instant, command: &Report) -> Result<(), String> {
        let deadline = now + PATIENCE;
        let flag = |name| command.argument(name) == Some("yes");
        let submitted = match command.name.as_str() {
            "open_route" => self.connection.open_route(now, &route_open(command)?, deadline),
            "catalog" => {
                let filter =
                    CatalogFilter::new(command.argument("module")).map_err(|error| error.to_string())?;
                self.connection.catalog(now, filter, deadline)
            }
            "request" => {
                let mut request = if flag("stream") {
                    Request::stream(command.field("body"), deadline)
                } else {
                    Request::unary(command.field("body"), deadline)
                };
                request.binary = flag("binary");
                self.connection.request(now, route(command)?, request)
            }
            "close" => {
                self.connection.shutdown(now);
                return Ok(());
            }
            other => return Err(format!("the player has no `{other}`")),
        };
        let op = submitted.map_err(|SubmitError { code, .. }| format!("not_sent {code}"))?;
        self.names.insert(op, command.argument("op").unwrap_or("unnamed").into());
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

/// The route that a command names by its numbers.
fn route(command: &Report) -> Result<RouteHandle, String> {
    let number = |name| command.argument(name).and_then(|value| value.parse::<u32>().ok());
    number("channel")
        .and_then(|channel| u16::try_from(channel).ok())
        .zip(number("epoch"))
        .and_then(|(channel, epoch)| RouteHandle::new(channel, epoch))
        .ok_or_else(|| "a request needs `channel` and `epoch`".into())
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
