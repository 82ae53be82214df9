//! A client as the subject of a vector: its handles do what the vector's commands say, and what they report is compared.
//!
//! Lives on the raw peer's thread and waits there, for at most its patience: handles need no runtime.

use hostwire::client::{
    CallError, Client, ConnectError, ControlCall, Evidence, Failure, Opening, Patience, Request,
    ResponseStream, Route,
};
use hostwire::core::client::{CatalogFilter, Item, Stage, Transport};
use hostwire::core::control::{CatalogReply, Identity, RouteOpen, Target};
use hostwire::core::fault::CloseReason;
use hostwire::core::json::RawJson;
use hostwire_vectors::{Difference, Report, Surroundings, close_cause, compare_report};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a command has begun and no step has seen the end of.
enum Open {
    Route(Opening),
    Catalog(ControlCall<CatalogReply>),
    Shutdown(ControlCall<Evidence>),
    Call(hostwire::client::Call),
    Stream(ResponseStream),
}

enum Connecting {
    Going(Later<Result<Client, ConnectError>>),
    Ready(Client),
    Failed(ConnectError),
}

pub(super) struct ClientUnderTest {
    connecting: Connecting,
    patience: Duration,
    open: BTreeMap<String, Open>,
    routes: BTreeMap<(String, String), Route>,
    /// Until it has ended.
    closing: Option<Later<CloseReason>>,
}

type Arguments = Vec<(&'static str, String)>;
type Fields = Vec<(&'static str, Vec<u8>)>;
type Said = (&'static str, Arguments, Fields);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
fn wait<T>(future: impl Future<Output = T>, patience: Duration) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let until = Instant::now() + patience;
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

fn look<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl ClientUnderTest {
    pub(super) fn new(mut connecting: Later<Result<Client, ConnectError>>, patience: Duration) -> Self {
        // It begins with its first poll.
        let connecting = match look(connecting.as_mut()) {
            None => Connecting::Going(connecting),
            Some(Ok(client)) => Connecting::Ready(client),
            Some(Err(error)) => Connecting::Failed(error),
        };
        Self { connecting, patience, open: BTreeMap::new(), routes: BTreeMap::new(), closing: None }
    }

    fn connect(&mut self) {
        if let Connecting::Going(connecting) = &mut self.connecting {
            match wait(connecting.as_mut(), self.patience) {
                Some(Ok(client)) => self.connecting = Connecting::Ready(client),
                Some(Err(error)) => self.connecting = Connecting::Failed(error),
                None => {}
            }
        }
    }

    fn client(&mut self) -> Result<Client, String> {
        self.connect();
        match &self.connecting {
            Connecting::Ready(client) => Ok(client.clone()),
            Connecting::Failed(error) => Err(error.to_string()),
            Connecting::Going(_) => Err("the client is not ready".into()),
        }
    }

    fn route(&self, command: &Report) -> Result<Route, String> {
        let word = |name| command.argument(name).unwrap_or_default().to_owned();
        let route = self.routes.get(&(word("channel"), word("epoch")));
        route.cloned().ok_or_else(|| "the client has no such route".into())
    }

    fn begin(&mut self, command: &Report) -> Result<Option<Open>, String> {
        let client = self.client()?;
        Ok(Some(match command.name.as_str() {
            "open_route" => Open::Route(client.open(route_open(command)?)),
            "catalog" => {
                let filter =
                    CatalogFilter::new(command.argument("module")).map_err(|error| error.to_string())?;
                Open::Catalog(client.catalog(filter, Patience::Default))
            }
            "host_shutdown" => Open::Shutdown(client.shutdown_host(Patience::Default)),
            "request" => {
                let mut request = Request::new(command.field("body"));
                request.binary = command.argument("binary") == Some("yes");
                let route = self.route(command)?;
                if command.argument("stream") == Some("yes") {
                    Open::Stream(route.stream(request))
                } else {
                    Open::Call(route.request(request))
                }
            }
            "close_route" => {
                self.route(command)?.close();
                return Ok(None);
            }
            "close" => {
                self.closing = Some(Box::pin(client.close()));
                return Ok(None);
            }
            other => return Err(format!("the player has no `{other}`")),
        }))
    }

    fn said(&mut self, expected: &Report) -> Option<Said> {
        match expected.name.as_str() {
            "ready" => {
                self.connect();
                let Connecting::Ready(client) = &self.connecting else { return None };
                Some(("ready", ready(client.transport()), Fields::new()))
            }
            "item" => {
                let op = expected.argument("op")?.to_owned();
                let Some(Open::Stream(stream)) = self.open.get_mut(&op) else { return None };
                match wait(stream.next(), self.patience)? {
                    Some(Ok(item)) => Some(item_said(&op, item)),
                    Some(Err(error)) => Some(failed(&op, error)),
                    None => Some(("settled", settled(&op, "stream_end"), Fields::new())),
                }
            }
            "route_opened" | "settled" => self.ended(expected.argument("op")?.to_owned()),
            _ => None,
        }
    }

    /// The end of an operation.
    fn ended(&mut self, op: String) -> Option<Said> {
        let patience = self.patience;
        Some(match self.open.remove(&op)? {
            Open::Route(mut opening) => match wait(&mut opening, patience) {
                Some(Ok(route)) => {
                    let handle = route.handle();
                    let (channel, epoch) = (handle.channel.to_string(), handle.epoch.to_string());
                    self.routes.insert((channel.clone(), epoch.clone()), route);
                    let numbers = vec![("op", op), ("channel", channel), ("epoch", epoch)];
                    ("route_opened", numbers, Fields::new())
                }
                Some(Err(error)) => failed(&op, error),
                None => return None,
            },
            Open::Catalog(mut call) => match wait(&mut call, patience)? {
                Ok(_) => ("settled", settled(&op, "response"), Fields::new()),
                Err(error) => failed(&op, error),
            },
            Open::Shutdown(mut call) => match wait(&mut call, patience)? {
                Ok(_) => ("settled", settled(&op, "response"), Fields::new()),
                Err(error) => failed(&op, error),
            },
            Open::Call(mut call) => match wait(&mut call, patience)? {
                Ok(reply) => {
                    let mut arguments = settled(&op, "response");
                    arguments.push(("binary", yes_no(reply.binary)));
                    ("settled", arguments, vec![("body", reply.body.into_vec())])
                }
                Err(error) => failed(&op, error),
            },
            Open::Stream(mut stream) => match wait(stream.next(), patience)? {
                None => ("settled", settled(&op, "stream_end"), Fields::new()),
                Some(Err(error)) => failed(&op, error),
                Some(Ok(item)) => item_said(&op, item),
            },
        })
    }
}

impl Surroundings for ClientUnderTest {
    fn command(&mut self, command: &Report) -> Result<(), String> {
        if let Some(open) = self.begin(command)? {
            self.open.insert(command.argument("op").unwrap_or("unnamed").to_owned(), open);
        }
        Ok(())
    }

    fn event(&mut self, expected: &Report) -> Result<(), Vec<Difference>> {
        let Some((name, arguments, fields)) = self.said(expected) else {
            return Err(vec![Difference::new("event", &expected.name, "nothing")]);
        };
        let differences = compare_report(expected, name, &arguments, &fields);
        if differences.is_empty() { Ok(()) } else { Err(differences) }
    }

    fn closed(&mut self, cause: &str) -> Result<(), Vec<Difference>> {
        self.connect();
        let ended = match (&self.connecting, self.closing.take()) {
            (Connecting::Ready(_), Some(closing)) => wait(closing, self.patience).map(|why| (why, true)),
            (Connecting::Ready(client), None) => wait(client.closed(), self.patience).map(|why| (why, true)),
            (Connecting::Failed(ConnectError::Setup { reason, stage, .. }), _) => {
                Some((*reason, !matches!(stage, Stage::Authenticating)))
            }
            (Connecting::Failed(_) | Connecting::Going(_), _) => None,
        };
        let got = ended.map_or_else(|| "open".into(), |(reason, stage)| close_cause(reason, stage));
        if got == cause { Ok(()) } else { Err(vec![Difference::new("closed", cause, got)]) }
    }

    fn finish(&mut self) -> Result<(), Vec<Difference>> {
        // What ends on the way to here and was not asked for is not what the vector says.
        let ops: Vec<_> = self.open.keys().cloned().collect();
        for op in ops {
            let over = match self.open.get_mut(&op) {
                Some(Open::Route(open)) => look(Pin::new(open)).is_some(),
                Some(Open::Catalog(open)) => look(Pin::new(open)).is_some(),
                Some(Open::Shutdown(open)) => look(Pin::new(open)).is_some(),
                Some(Open::Call(open)) => look(Pin::new(open)).is_some(),
                Some(Open::Stream(open)) => look(pin!(open.next())).is_some(),
                None => false,
            };
            if over {
                return Err(vec![Difference::new("event", "nothing more", format!("the end of {op}"))]);
            }
        }
        Ok(())
    }
}

fn ready(transport: Transport) -> Arguments {
    let (transport, reason) = match transport {
        Transport::Tcp { reason } => ("tcp", reason.map_or("none", |reason| reason.as_str())),
        Transport::Candidate => ("candidate", "none"),
    };
    vec![("transport", transport.into()), ("reason", reason.into())]
}

fn settled(op: &str, kind: &str) -> Arguments {
    vec![("op", op.into()), ("outcome", "terminal".into()), ("kind", kind.into())]
}

fn item_said(op: &str, Item { binary, body }: Item) -> Said {
    ("item", vec![("op", op.into()), ("binary", yes_no(binary))], vec![("body", body.into_vec())])
}

fn failed(op: &str, error: CallError) -> Said {
    let mut fields = Fields::new();
    let arguments = match error {
        CallError::Failed { failure: Failure::Host(error), .. } => {
            let mut arguments = settled(op, "error");
            let advice = error.retry_after_ms().map_or_else(|| "none".into(), |advice| advice.to_string());
            arguments.extend([
                ("code", error.code().into()),
                ("message", error.message().into()),
                ("retry_after_ms", advice),
            ]);
            fields.push(("message", error.message().as_bytes().to_vec()));
            arguments
        }
        CallError::Failed { failure: Failure::Local(code), .. } => {
            let mut arguments = settled(op, "error");
            arguments.push(("code", code.to_string()));
            arguments
        }
        CallError::Unknown { .. } | CallError::NotSent { .. } => {
            vec![("op", op.into()), ("outcome", error.outcome().into()), ("code", error.code().into())]
        }
    };
    ("settled", arguments, fields)
}

fn yes_no(flag: bool) -> String {
    if flag { "yes" } else { "no" }.into()
}

fn route_open(command: &Report) -> Result<RouteOpen, String> {
    let text = |name| String::from_utf8(command.field(name)).map_err(|_| format!("`{name}` is no text"));
    let word = |name| command.argument(name).ok_or_else(|| format!("`open_route` needs `{name}`"));
    let wrong = |error: hostwire::core::json::ReadError| error.to_string();
    let target = Target::new(word("kind")?, word("module")?).map_err(wrong)?;
    let identity = Identity::new(&text("root")?, &text("harness")?, &text("session")?).map_err(wrong)?;
    let open = RouteOpen::new(target, identity);
    if !command.fields.contains_key("facts") {
        return Ok(open);
    }
    let facts = RawJson::new(&text("facts")?).map_err(|error| error.to_string())?;
    open.with_admission_facts(&facts).map_err(wrong)
}
