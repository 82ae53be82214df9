//! `demo`: everything in one go, in a temporary directory: a host, a client, and each kind of end that a request can have.
//!
//! Every step is checked against what the contract promises; the exit code says whether all held.

use super::serve::DAEMON_VER;
use crate::args::Common;
use crate::exit::{Exit, Stop};
use crate::output::{Output, route_name, whole};
use crate::runtime::Job;
use hostwire::Runtime;
use hostwire::client::{
    CallError, Client, ClientConfig, Consumer, Failure, Patience, Reply, Request, ResponseStream, Route,
};
use hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire::core::lifecycle::HostState;
use hostwire::core::outcome::{NotSentCode, UnknownCode};
use hostwire::discovery::{Environment, Location, Place, probe, read_snapshot, unix_now_ms};
use hostwire::host::{Host, HostConfig};
use hostwire_lab::{LAB, Lab};
use serde::Serialize;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

const HANG: &str = r#"{"do":"hang"}"#;

/// The demonstration.
pub(crate) struct Demo {
    pub(crate) common: Common,
}

impl Job for Demo {
    type Output = Result<Exit, Stop>;

    async fn run<R: Runtime>(self, runtime: R) -> Self::Output {
        let mut stage = Stage { output: self.common.output(), held: 0, failed: 0 };
        let dir = tempfile::Builder::new()
            .prefix("hostwire-demo-")
            .tempdir()
            .map_err(|error| Stop::Failed(format!("cannot make a temporary directory: {error}")))?;
        perform(&runtime, dir.path().to_owned(), &mut stage).await?;
        dir.close()
            .map_err(|error| Stop::Failed(format!("cannot remove the temporary directory: {error}")))?;
        stage.curtain()
    }
}

/// Where the steps are shown, and counted.
struct Stage {
    output: Output,
    held: u32,
    failed: u32,
}

#[derive(Serialize)]
struct Step<'a> {
    step: &'a str,
    asked: &'a str,
    got: &'a str,
    held: bool,
}

#[derive(Serialize)]
struct Summary {
    held: u32,
    failed: u32,
}

impl Stage {
    fn show(&mut self, step: &str, asked: &str, got: &str, held: bool) -> Result<(), Stop> {
        *(if held { &mut self.held } else { &mut self.failed }) += 1;
        if self.output.json {
            return self.output.object(&Step { step, asked, got, held });
        }
        let mark = if held { "ok  " } else { "FAIL" };
        self.output.line(&format!("{mark}  {step:<16} {asked}"))?;
        self.output.line(&format!("      {:<16} {got}", ""))
    }

    fn curtain(self) -> Result<Exit, Stop> {
        let Self { output, held, failed } = self;
        if output.json {
            output.object(&Summary { held, failed })?;
        } else {
            output.line(&format!("{held} held, {failed} failed"))?;
        }
        Ok(if failed == 0 { Exit::SUCCESS } else { Exit::FAILED })
    }
}

async fn perform<R: Runtime>(runtime: &R, dir: std::path::PathBuf, stage: &mut Stage) -> Result<(), Stop> {
    let place = Place::DataDir(dir);
    let location = Location::resolve(&Environment::default(), &place).map_err(failed)?;
    let host = Host::start(
        runtime.clone(),
        HostConfig::new(location.clone(), DAEMON_VER),
        vec![Arc::new(Lab::new())],
    )
    .await
    .map_err(failed)?;
    let state = state(runtime, &location).await?;
    stage.show(
        "start",
        "a host with the component lab",
        &format!("the host is {state}"),
        state == HostState::Running,
    )?;

    let config = ClientConfig { place, consumer: Consumer::Anonymous, ..ClientConfig::default() };
    let client = Client::connect(runtime, &config).await.map_err(failed)?;
    let got = format!("each has proved itself to the other; the host is {}", client.daemon_id());
    stage.show(
        "connect",
        "discover, dial, authenticate, negotiate",
        &got,
        client.daemon_id() == host.daemon_id(),
    )?;
    let route = client.open(target()?).await.map_err(failed)?;
    stage.show(
        "route",
        "a route to lab",
        &format!("route {}", route_name(route.handle())),
        route.is_live(),
    )?;

    answers(&route, stage).await?;
    stops(&route, stage).await?;
    lost(runtime, &location, &config, stage).await?;

    // The ordered end: committed to first, then carried out, with nothing left behind.
    let committed = client.shutdown_host(Patience::Default).await;
    let ended = host.wait().await;
    let state = self::state(runtime, &location).await?;
    let files_gone = !location.connection_file().exists();
    let got = format!(
        "committed; ended {}; the host is {state}",
        if ended.graceful() { "in order" } else { "badly" }
    );
    let held = committed.is_ok() && ended.graceful() && state == HostState::Stopped && files_gone;
    stage.show("shutdown", "host.shutdown", &got, held)
}

/// Requests that end with an answer.
async fn answers(route: &Route, stage: &mut Stage) -> Result<(), Stop> {
    let asked = r#"{"do":"echo","value":"hello"}"#;
    let got = route.request(asked).await;
    let held = matches!(&got, Ok(reply) if reply.body.as_slice() == br#"{"echo":"hello"}"#);
    stage.show("call", asked, &described(&got), held)?;

    let asked = r#"{"do":"stream","items":3,"size":8,"every_ms":20}"#;
    let mut stream = route.stream(asked);
    let (in_order, ended) = read(&mut stream).await;
    let got = match &ended {
        Ok(()) => format!("terminal: the end, after {in_order} items in order"),
        Err(error) => error_described(error),
    };
    stage.show("stream", asked, &got, ended.is_ok() && in_order == 3)?;

    let asked = r#"{"do":"fail","code":"no_such_file","message":"it is not there"}"#;
    let got = route.request(asked).await;
    let held = matches!(&got, Err(CallError::Failed { failure: Failure::Host(error), .. }) if error.code() == "no_such_file");
    stage.show("error", asked, &described(&got), held)
}

/// Items that have the index that they should, and the end.
async fn read(stream: &mut ResponseStream) -> (u64, Result<(), CallError>) {
    let mut in_order = 0_u64;
    while let Some(item) = stream.next().await {
        match item {
            Ok(item) if item.body.as_slice() == in_order.to_le_bytes() => in_order += 1,
            Ok(_) => {}
            Err(error) => return (in_order, Err(error)),
        }
    }
    (in_order, Ok(()))
}

/// Requests that are stopped, before or after they have left.
async fn stops(route: &Route, stage: &mut Stage) -> Result<(), Stop> {
    let got = route.request(Request::from(HANG).within(Duration::ZERO)).await;
    let held = matches!(&got, Err(CallError::NotSent { code: NotSentCode::DeadlineExpired, evidence, .. }) if evidence.bytes_handed == 0);
    stage.show("deadline, unsent", &format!("{HANG} with no time at all"), &described(&got), held)?;

    let call = route.request(HANG);
    let begun = runs(route).await;
    call.cancel();
    let got = call.await;
    let held = begun
        && matches!(&got, Err(CallError::Unknown { code: UnknownCode::Cancelled, evidence }) if evidence.bytes_handed > 0);
    stage.show("cancel", &format!("{HANG}, cancelled while it runs"), &described(&got), held)?;

    let call = route.request(HANG);
    let begun = runs(route).await;
    call.cancel_confirmed(Duration::from_secs(10));
    let got = call.await;
    let held = begun
        && matches!(&got, Err(CallError::Failed { failure: Failure::Host(error), .. }) if error.code() == "cancelled");
    stage.show("confirmed cancel", &format!("{HANG}, cancelled with proof"), &described(&got), held)?;

    let got = route.request(Request::from(HANG).within(Duration::from_millis(500))).await;
    let held = matches!(&got, Err(CallError::Unknown { code: UnknownCode::DeadlineExpired, evidence }) if evidence.bytes_handed > 0);
    stage.show("deadline, sent", &format!("{HANG} within 500 ms"), &described(&got), held)
}

/// A connection that is cut under a request, and what is asked on it afterwards.
async fn lost<R: Runtime>(
    runtime: &R,
    location: &Location,
    config: &ClientConfig,
    stage: &mut Stage,
) -> Result<(), Stop> {
    let location = location.clone();
    let document =
        runtime.blocking(move || read_snapshot(&location)).await.map_err(failed)?.map_err(failed)?;
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, document.port.get())).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    let scissors = socket.try_clone().map_err(failed)?;
    let client =
        Client::from_socket(runtime, socket.into(), document.credentials, config).await.map_err(failed)?;
    let route = client.open(target()?).await.map_err(failed)?;
    let call = route.request(HANG);
    let begun = runs(&route).await;
    scissors.shutdown(Shutdown::Both).map_err(failed)?;
    let got = call.await;
    let held = begun
        && matches!(&got, Err(CallError::Unknown { code: UnknownCode::ConnectionLost, evidence }) if evidence.bytes_handed > 0);
    stage.show("lost connection", &format!("{HANG}, and the socket is cut"), &described(&got), held)?;
    let got = route.request(HANG).await;
    let held = matches!(&got, Err(CallError::NotSent { evidence, .. }) if evidence.bytes_handed == 0);
    stage.show("after the loss", &format!("{HANG} on the same route"), &described(&got), held)
}

/// Whether a request that was made just before runs in `lab`: requests reach it in the order in which they are made.
async fn runs(route: &Route) -> bool {
    let Ok(reply) = route.request(r#"{"do":"stats"}"#).await else { return false };
    let stats: Option<serde_json::Value> = serde_json::from_slice(reply.body.as_slice()).ok();
    stats.and_then(|stats| stats.get("running")?.as_u64()).is_some_and(|running| running > 0)
}

async fn state<R: Runtime>(runtime: &R, location: &Location) -> Result<HostState, Stop> {
    let location = location.clone();
    let found = runtime.blocking(move || probe(&location, unix_now_ms)).await.map_err(failed)?;
    Ok(found.map_err(failed)?.state)
}

fn target() -> Result<RouteOpen, Stop> {
    let target = Target::new("tool_provider", LAB).map_err(failed)?;
    Ok(RouteOpen::new(target, Identity::new("/", "cli", "demo").map_err(failed)?))
}

fn described(result: &Result<Reply, CallError>) -> String {
    match result {
        Ok(reply) => format!("terminal: {}", String::from_utf8_lossy(reply.body.as_slice())),
        Err(error) => error_described(error),
    }
}

fn error_described(error: &CallError) -> String {
    let meaning = match error {
        CallError::NotSent { .. } => "may be sent again",
        CallError::Unknown { .. } => "may have been carried out",
        CallError::Failed { .. } => "the host's word",
    };
    format!("{error} ({} bytes handed over: {meaning})", error.evidence().bytes_handed)
}

/// What stops the show.
fn failed(error: impl std::error::Error) -> Stop {
    Stop::Failed(format!("the demo cannot go on: {}", whole(&error)))
}
