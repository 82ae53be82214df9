//! The core's host as a subject: the vector is its client, and the player is the program that embeds it.

use std::collections::VecDeque;
use std::sync::Arc;

use hostwire_core::auth::{ClientHandshake, Credentials, MessageReader};
use hostwire_core::body::Body;
use hostwire_core::control::{ErrorBody, Manifest, Role as TargetRole, RouteClass, RouteOpen};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::host::{
    CandidateTicket, ComponentSpec, Connection, Declaration, Event, HostConfig, HostLimits, HostTimeouts,
    Owner, Registry, RequestId, Shared, Step, StopReason, TaskPermit,
};
use hostwire_core::json::RawJson;
use hostwire_core::negotiate::{ActivationToken, Grant, Installed, Offer, Served};
use hostwire_core::time::Instant;
use hostwire_core::wire::{Epoch, RouteHandle};

use super::exchange::{Role, Seen};
use super::{cause, route, world};
use crate::format::{Exchange, Report};

/// The route of the vectors: the first epoch of every channel, and the channels below 7 belong to somebody else.
const FIRST_EPOCH: u32 = 77;
const TAKEN_CHANNELS: usize = 6;

/// Whose routes the vector's are.
const OWNER: Owner = Owner(1);

pub(super) struct Host {
    connection: Connection,
    candidate: Option<Connection>,
    shared: Arc<Shared>,
    offer: Option<Offer>,
    ticket: Option<CandidateTicket>,
    registry: Registry,
    /// A recording's routes have the numbers of the host that was recorded.
    recording: bool,
    seen: [VecDeque<Seen>; 2],
    binds: Vec<RequestId>,
    handlers: Vec<(RequestId, TaskPermit)>,
    authenticated: bool,
    handshake: Handshake,
}

/// The client's side of a handshake that a vector leaves out.
enum Handshake {
    Hello(ClientHandshake),
    Proof(ClientHandshake),
    Done,
}

impl Host {
    pub(super) fn new(exchange: &Exchange) -> Result<Self, String> {
        let Credentials { key, daemon_id, daemon_ver } = world::credentials();
        let component = |module, role, class, declaration| {
            let manifest = Manifest::new(module, "0.1.0", role)
                .and_then(|manifest| manifest.with_provides([role.as_str()]))
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(ComponentSpec { manifest: manifest.with_class(class), declaration })
        };
        let reserved = Declaration { reserved_pending: 4, reserved_tasks: 2, ..Declaration::default() };
        let components = vec![
            component("lab", TargetRole::ToolProvider, RouteClass::General, Declaration::default())?,
            component("lab-reserved", TargetRole::ManagementSurface, RouteClass::Reserved, reserved)?,
        ];
        let named = exchange.components.iter().map(|(module, kind)| {
            let role = TargetRole::parse(kind).ok_or_else(|| format!("`{kind}` is no kind of component"))?;
            component(module, role, RouteClass::General, Declaration::default())
        });
        let named = named.collect::<Result<Vec<_>, String>>()?;
        let components = if named.is_empty() { components } else { named };
        let served: Vec<_> = exchange.unix.map(Installed::unix).into_iter().collect();
        let shared = Shared::new(HostConfig {
            limits: HostLimits::default(),
            timeouts: HostTimeouts::default(),
            key,
            daemon_id,
            daemon_ver: daemon_ver.as_ref().into(),
            components,
            served: Served::new(served).map_err(|error| error.to_string())?,
            catalog_generation: 1,
        })
        .map_err(|error| error.to_string())?;
        let slot = shared.admit_handshake().ok_or("no handshake is admitted")?;
        let mut registry = Registry::with_first_epoch(64, Epoch::new(FIRST_EPOCH).ok_or("an epoch")?);
        for _ in 0..TAKEN_CHANNELS {
            registry.claim(Owner(0)).map_err(|error| error.to_string())?;
        }
        let client = ClientHandshake::new(world::credentials(), world::client_nonce(), "client")
            .map_err(|error| error.to_string())?;
        Ok(Self {
            connection: Connection::new(Instant::ZERO, slot, world::server_nonce(), Arc::clone(&shared)),
            candidate: None,
            shared,
            offer: None,
            ticket: None,
            registry,
            recording: exchange.recording,
            seen: [VecDeque::new(), VecDeque::new()],
            binds: Vec::new(),
            handlers: Vec::new(),
            authenticated: false,
            handshake: Handshake::Hello(client),
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

    fn note(&mut self, socket: usize, event: Event) {
        match event {
            Event::Active => self.authenticated = true,
            Event::RouteOpen { id, open, .. } => {
                self.binds.push(id);
                self.seen(socket).push_back(opened(id, &open));
            }
            Event::Request { id, route, binary, body, permit, .. } => {
                self.handlers.push((id, permit));
                self.seen(socket).push_back(Seen::Report {
                    name: "request",
                    arguments: vec![
                        ("channel", route.channel.to_string()),
                        ("epoch", route.epoch.to_string()),
                        ("corr", id.correlation().to_string()),
                        ("binary", if binary { "yes" } else { "no" }.into()),
                    ],
                    fields: vec![("body", body.as_slice().to_vec())],
                });
            }
            // The connection is going: its handlers end at once, and its routes are closed.
            Event::Stop { id, why: StopReason::ConnectionLost } => {
                self.handlers.retain(|(other, _)| *other != id);
            }
            Event::RouteClosed { route, .. } if self.on(socket).close_reason().is_some() => {
                drop(self.registry.close(route));
                drop(self.registry.gone(route));
            }
            Event::RouteOpenWithdrawn { id } => self.binds.retain(|other| *other != id),
            Event::Closed { reason } => {
                let authenticated = self.authenticated || socket == 1;
                self.seen(socket).push_back(Seen::Closed(cause::close_cause(reason, authenticated)));
            }
            Event::CandidateWanted { offer } => {
                let arguments = vec![
                    ("transport", offer.transport().as_str().into()),
                    ("version", offer.capability_version().to_string()),
                ];
                self.offer = Some(offer);
                self.seen(socket).push_back(Seen::Report {
                    name: "candidate_wanted",
                    arguments,
                    fields: Vec::new(),
                });
            }
            Event::Stop { id, why } => {
                let why = match why {
                    StopReason::Cancelled => "cancelled",
                    StopReason::RouteClosed => "route_closed",
                    StopReason::Draining => "draining",
                    StopReason::ConnectionLost => "connection_lost",
                };
                let arguments = vec![("corr", id.correlation().to_string()), ("why", why.into())];
                self.seen(socket).push_back(Seen::Report { name: "stop", arguments, fields: Vec::new() });
            }
            Event::RouteClosed { route, .. } => {
                let arguments =
                    vec![("channel", route.channel.to_string()), ("epoch", route.epoch.to_string())];
                self.seen(socket).push_back(Seen::Report {
                    name: "route_closed",
                    arguments,
                    fields: Vec::new(),
                });
            }
            Event::ShutdownCommitted => {
                let name = "shutdown_committed";
                self.seen(socket).push_back(Seen::Report { name, arguments: Vec::new(), fields: Vec::new() });
            }
            other @ (Event::Room | Event::ShutdownReopened | _) => {
                self.seen(socket).push_back(Seen::Other(format!("{other:?}")));
            }
        }
    }

    /// The handler of the request that a command names by its correlation.
    fn handler(&mut self, command: &Report) -> Result<(RequestId, TaskPermit), String> {
        let corr = command.argument("corr").unwrap_or_default();
        let at = self.handlers.iter().position(|(id, _)| id.correlation().to_string() == corr);
        at.map(|at| self.handlers.remove(at)).ok_or_else(|| format!("no handler of request {corr} runs"))
    }

    fn grant(&mut self, now: Instant, command: &Report) -> Result<(), String> {
        let token = command.field("token").try_into().map_err(|_| "a token has 16 bytes")?;
        let text = String::from_utf8(command.field("descriptor")).map_err(|error| error.to_string())?;
        let descriptor = RawJson::new(&text).map_err(|error| error.to_string())?;
        let offer = self.offer.take().ok_or("no candidate was wanted")?;
        let grant = Grant::new(&offer, ActivationToken::new(token), &descriptor)
            .map_err(|error| error.to_string())?;
        self.ticket = self.connection.grant_candidate(now, grant);
        if self.ticket.is_some() { Ok(()) } else { Err("the connection has ended".into()) }
    }

    /// The request of a `route.open` that a command names by its correlation.
    fn opening(&mut self, command: &Report) -> Result<RequestId, String> {
        let corr = command.argument("corr").unwrap_or_default();
        let at = self.binds.iter().position(|id| id.correlation().to_string() == corr);
        at.map(|at| self.binds.remove(at)).ok_or_else(|| format!("no bind of request {corr} is out"))
    }

    /// R2: the channel is claimed, and released before the error goes out.
    fn reject(&mut self, now: Instant, socket: usize, command: &Report) -> Result<(), String> {
        let id = self.opening(command)?;
        let route = self.registry.claim(OWNER).map_err(|error| error.to_string())?;
        let Step::RouteGone = self.registry.bind_rejected(route) else {
            return Err("the registry asks for no `route_gone`".into());
        };
        let Step::Released = self.registry.gone(route) else {
            return Err("the registry does not release the channel".into());
        };
        let text = |name| command.argument(name).unwrap_or_default();
        let advice = command.argument("retry_after_ms").and_then(|advice| advice.parse().ok());
        let error = ErrorBody::from_bind(text("code"), text("message"), advice);
        self.on(socket).reject_route(now, id, &error).map_err(|error| error.to_string())
    }

    /// The route's end, as its host goes through it: close, `route_gone`, release (R6).
    fn gone(&mut self, command: &Report) -> Result<(), String> {
        let route = route(command)?;
        let Step::RouteGone = self.registry.close(route) else {
            return Err("the registry asks for no `route_gone`".into());
        };
        match self.registry.gone(route) {
            Step::Released => Ok(()),
            other @ (Step::Publish(_) | Step::RouteGone | Step::Busy | Step::Nothing) => {
                Err(format!("the registry says {other:?}"))
            }
        }
    }

    /// The request of a running handler, which goes on.
    fn running(&self, command: &Report) -> Result<RequestId, String> {
        let corr = command.argument("corr").unwrap_or_default();
        let mut ids = self.handlers.iter().map(|(id, _)| *id);
        ids.find(|id| id.correlation().to_string() == corr)
            .ok_or_else(|| format!("no handler of request {corr} runs"))
    }

    fn bind(&mut self, now: Instant, socket: usize, command: &Report) -> Result<(), String> {
        let id = self.opening(command)?;
        if self.recording {
            self.registry = registry_at(route(command)?)?;
        }
        let route = self.registry.claim(OWNER).map_err(|error| error.to_string())?;
        let wanted = (command.argument("channel"), command.argument("epoch"));
        let got = (route.channel.to_string(), route.epoch.to_string());
        if wanted != (Some(got.0.as_str()), Some(got.1.as_str())) {
            return Err(format!("the registry names the route {}/{}", got.0, got.1));
        }
        match self.registry.bind_accepted(route) {
            Step::Publish(grant) => {
                self.on(socket).accept_route(now, id, grant).map_err(|error| error.to_string())
            }
            other @ (Step::RouteGone | Step::Released | Step::Busy | Step::Nothing) => {
                Err(format!("the registry says {other:?}"))
            }
        }
    }
}

/// A registry whose next route is this one.
fn registry_at(route: RouteHandle) -> Result<Registry, String> {
    let mut registry = Registry::with_first_epoch(usize::from(u16::MAX), route.epoch);
    for _ in 1..route.channel.value() {
        registry.claim(Owner(0)).map_err(|error| error.to_string())?;
    }
    Ok(registry)
}

fn opened(id: RequestId, open: &RouteOpen) -> Seen {
    let (target, identity) = (open.target(), open.identity());
    Seen::Report {
        name: "route_open",
        arguments: vec![
            ("corr", id.correlation().to_string()),
            ("kind", target.kind().into()),
            ("module", target.module_id().into()),
        ],
        fields: vec![
            ("root", identity.project_root().as_bytes().to_vec()),
            ("harness", identity.harness().as_bytes().to_vec()),
            ("session", identity.session().as_bytes().to_vec()),
        ],
    }
}

impl Role for Host {
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
        let ticket = self.ticket.take().ok_or("no candidate was granted")?;
        self.candidate = Some(Connection::candidate(now, ticket, Arc::clone(&self.shared)));
        Ok(())
    }

    fn command(&mut self, now: Instant, socket: usize, command: &Report) -> Result<(), String> {
        match command.name.as_str() {
            "bind" => self.bind(now, socket, command),
            "reject" => self.reject(now, socket, command),
            "gone" => self.gone(command),
            "item" => {
                let id = self.running(command)?;
                let binary = command.argument("binary") == Some("yes");
                let body = Body::from(command.field("body"));
                self.on(socket).item(now, id, binary, body).map_err(|refused| refused.why.to_string())
            }
            "end" => {
                let (id, permit) = self.handler(command)?;
                drop(permit);
                self.on(socket).end_stream(now, id).map_err(|error| error.to_string())
            }
            "stopped" => {
                let (id, permit) = self.handler(command)?;
                drop(permit);
                self.on(socket).stopped(now, id).map_err(|error| error.to_string())
            }
            "grant" => self.grant(now, command),
            "decline" => {
                self.connection.decline_candidate(now);
                Ok(())
            }
            "supersede" => {
                self.connection.superseded(now);
                Ok(())
            }
            "busy" => {
                let (id, permit) = self.handler(command)?;
                drop(permit);
                self.on(socket).busy(now, id).map_err(|error| error.to_string())
            }
            "drain" => {
                self.shared.set_draining();
                self.on(socket).begin_drain(now);
                self.on(socket).finish_drain(now);
                Ok(())
            }
            "respond" => {
                let (id, permit) = self.handler(command)?;
                let binary = command.argument("binary") == Some("yes");
                let body = Body::from(command.field("body"));
                drop(permit);
                self.on(socket).respond(now, id, binary, body).map_err(|error| error.to_string())
            }
            "fail" => {
                let (id, permit) = self.handler(command)?;
                let advice = command.argument("retry_after_ms").and_then(|advice| advice.parse().ok());
                let text = |name| command.argument(name).unwrap_or_default();
                let error = ErrorBody::from_handler(text("code"), text("message"), advice);
                drop(permit);
                self.on(socket).fail(now, id, &error).map_err(|error| error.to_string())
            }
            other => Err(format!("the player has no `{other}`")),
        }
    }

    fn handshake(&mut self, sent: &mut Vec<u8>) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.handshake, Handshake::Done) {
            Handshake::Hello(client) => {
                let hello = client.hello();
                self.handshake = Handshake::Proof(client);
                Some(hello)
            }
            Handshake::Proof(client) => {
                let (taken, body) = MessageReader::new().handle_input(sent).ok()?;
                let (proof, _done) = client.handle_server_hello(&body?).ok()?;
                sent.drain(..taken);
                self.authenticated = true;
                Some(proof)
            }
            Handshake::Done => None,
        }
    }
}
