//! `run`: a command through the component `runner`: its output as it comes, its exit code.
//!
//! The host is the one that is named, or one of its own in a temporary directory. Nothing is lost: output is asked for in windows, and the
//! command is not read on while one is being printed.

use super::serve::{DAEMON_VER, make_runner};
use crate::args::Common;
use crate::connect::{connect, connect_to, open};
use crate::exit::{Exit, Stop};
use crate::output::{Output, complain, text_or_base64, write};
use crate::runtime::{Job, acting_on};
use crate::signals::Interrupt;
use clap::Args;
use hostwire::Runtime;
use hostwire::client::{Call, CallError, Client, Failure, Item, Request, Route};
use hostwire::core::child::TEARDOWN_UNCONFIRMED;
use hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire::core::time::Instant;
use hostwire::discovery::{Environment, Location, Place};
use hostwire::host::{Host, HostConfig, HostHandle};
use hostwire::runner::RUNNER;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// Items of one subscription.
const WINDOW: u64 = 32;
/// Bytes of an item before its output: the stream, and the index.
const HEADER: usize = 9;
/// What shells say of a command that cannot be found, or cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// What is added to a signal's number.
const SIGNALLED: u64 = 128;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Run {
    pub(crate) fn prepare(self, common: Common) -> Result<Prepared, Stop> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(Stop::usage("a command is needed"));
        }
        let target = Target::new("tool_provider", RUNNER).map_err(Stop::usage)?;
        let identity = Identity::new("/", "cli", "run").map_err(Stop::usage)?;
        Ok(Prepared { common, open: RouteOpen::new(target, identity), command: self.command })
    }
}

/// A command that can be run.
pub(crate) struct Prepared {
    common: Common,
    open: RouteOpen,
    command: Vec<String>,
}

#[derive(Serialize)]
struct Start<'a> {
    op: &'static str,
    command: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    lossless: bool,
}

#[derive(Serialize)]
struct Subscribe<'a> {
    op: &'static str,
    run: &'a str,
    from: u64,
    items: u64,
}

#[derive(Serialize)]
struct Cancel<'a> {
    op: &'static str,
    run: &'a str,
}

#[derive(Deserialize)]
struct Started {
    run: String,
    pid: u32,
}

#[derive(Serialize)]
struct StartedLine<'a> {
    event: &'static str,
    run: &'a str,
    pid: u32,
}

#[derive(Serialize)]
struct OutputLine<'a> {
    event: &'static str,
    stream: &'static str,
    index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// A text item of a subscription.
#[derive(Deserialize)]
struct Event {
    event: String,
    to: Option<u64>,
    outcome: Option<String>,
    exit_code: Option<u64>,
    signal: Option<u64>,
}

impl Job for Prepared {
    type Output = Result<Exit, Stop>;

    async fn run<R: Runtime>(self, runtime: R) -> Self::Output {
        let interrupt = Interrupt::install()?;
        let own = if self.common.names_a_place() {
            None
        } else {
            Some(Own::start(&runtime, self.common.output()).await?)
        };
        let connected = match &own {
            Some(own) => connect_to(&runtime, &self.common, own.place()).await,
            None => connect(&runtime, &self.common).await,
        };
        let exit = match connected {
            Ok(client) => {
                let exit = self.on(&client, &interrupt).await;
                client.close().await;
                exit
            }
            Err(error) => self.common.output().not_connected(&error),
        };
        match own {
            Some(own) => own.end(exit).await,
            None => exit,
        }
    }
}

/// A host of this command's own.
struct Own {
    dir: tempfile::TempDir,
    host: HostHandle,
}

impl Own {
    async fn start<R: Runtime>(runtime: &R, output: Output) -> Result<Self, Stop> {
        let failed = |what: String| Stop::Failed(format!("cannot start a host: {what}"));
        let dir = tempfile::Builder::new()
            .prefix("hostwire-run-")
            .tempdir()
            .map_err(|error| failed(error.to_string()))?;
        let place = Place::DataDir(dir.path().to_owned());
        let location =
            Location::resolve(&Environment::default(), &place).map_err(|error| failed(error.to_string()))?;
        let config = HostConfig::new(location, DAEMON_VER);
        let runner = Arc::new(make_runner(runtime.clone(), output)?);
        let host = Host::start(runtime.clone(), config, vec![runner])
            .await
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { dir, host })
    }

    fn place(&self) -> Place {
        Place::DataDir(self.dir.path().to_owned())
    }

    /// Nothing of a run stays: the host's end confirms it, or the command has failed.
    async fn end(self, exit: Result<Exit, Stop>) -> Result<Exit, Stop> {
        self.host.shutdown();
        let ended = self.host.wait().await;
        let _ = self.dir.close();
        let exit = exit?;
        if ended.graceful() {
            return Ok(exit);
        }
        for failure in &ended.failures {
            complain(&failure.to_string());
        }
        Ok(Exit::FAILED)
    }
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Stop> {
    serde_json::to_vec(value).map_err(|error| Stop::Bug(error.to_string()))
}

/// What a request came to that has no answer: an exit code, or a bug.
fn failed(output: Output, error: &CallError) -> Result<Exit, Stop> {
    let exit = output.failed(error, None)?;
    Ok(match error {
        CallError::Failed { failure: Failure::Host(body), .. } => match body.code() {
            "command_not_found" => Exit::of_command(NOT_FOUND),
            "command_not_executable" => Exit::of_command(NOT_EXECUTABLE),
            _ => exit,
        },
        CallError::Failed { failure: Failure::Local(_), .. }
        | CallError::NotSent { .. }
        | CallError::Unknown { .. } => exit,
    })
}

impl Prepared {
    async fn on(&self, client: &Client, interrupt: &Interrupt) -> Result<Exit, Stop> {
        let output = self.common.output();
        let route = match open(client, &self.open, Duration::from_secs(30)).await {
            Ok(route) => route,
            Err(failed) => return failed.print(output),
        };
        let cwd = std::env::current_dir().ok().and_then(|cwd| cwd.into_os_string().into_string().ok());
        let start = Start { op: "run.start", command: &self.command, cwd, lossless: true };
        let started = match route.request(json(&start)?).await {
            Ok(reply) => reply,
            Err(error) => return failed(output, &error),
        };
        let Started { run, pid } = serde_json::from_slice(started.body.as_slice())
            .map_err(|_| Stop::Failed("the runner's answer is none".to_owned()))?;
        if output.json {
            output.object(&StartedLine { event: "started", run: &run, pid })?;
        }
        // Held until the end: dropping it would take the cancel back.
        let cancel: RefCell<Option<Call>> = RefCell::new(None);
        let cancel_run = || {
            if let Ok(body) = json(&Cancel { op: "run.cancel", run: &run }) {
                *cancel.borrow_mut() = Some(route.request(body));
            }
        };
        let printed = acting_on(self.follow(&route, &run), interrupt.raised(), cancel_run).await;
        match printed {
            Ok(exit) => Ok(exit),
            Err(stop) => {
                // Nobody takes the output any more: the run has no reader, and is not left behind.
                if let Ok(body) = json(&Cancel { op: "run.cancel", run: &run }) {
                    let _ = route.request(body).await;
                }
                Err(stop)
            }
        }
    }

    /// Prints what comes, window by window, to the end.
    async fn follow(&self, route: &Route, run: &str) -> Result<Exit, Stop> {
        let output = self.common.output();
        let mut next = 0;
        loop {
            let ask = Subscribe { op: "run.subscribe", run, from: next, items: WINDOW };
            let mut stream = route.stream(Request::new(json(&ask)?).until(Instant::FAR_FUTURE));
            while let Some(item) = stream.next().await {
                let item = match item {
                    Ok(item) => item,
                    Err(error) => return failed(output, &error),
                };
                if let Some(exit) = print(output, &item, &mut next)? {
                    return Ok(exit);
                }
            }
        }
    }
}

/// Prints an item; the exit code, if it was the last.
fn print(output: Output, item: &Item, next: &mut u64) -> Result<Option<Exit>, Stop> {
    let bytes = item.body.as_slice();
    let strange = || Stop::Failed("an item of the runner is none".to_owned());
    if item.binary {
        let (header, said) = bytes.split_at_checked(HEADER).ok_or_else(strange)?;
        let (kind, index) = header.split_first().ok_or_else(strange)?;
        let index = u64::from_le_bytes(index.try_into().map_err(|_| strange())?);
        *next = index + 1;
        let stream = if *kind == 2 { "stderr" } else { "stdout" };
        if output.json {
            let (body, body_base64) = text_or_base64(said);
            output.object(&OutputLine { event: "output", stream, index, body, body_base64 })?;
        } else if *kind == 2 {
            // If nobody reads it, so be it.
            let _ = std::io::stderr().lock().write_all(said);
        } else {
            write(said)?;
        }
        return Ok(None);
    }
    let event: Event = serde_json::from_slice(bytes).map_err(|_| strange())?;
    if output.json {
        write(&[bytes, b"\n"].concat())?;
    }
    match event.event.as_str() {
        "gap" => {
            *next = event.to.unwrap_or(*next);
            complain("output was lost: it came faster than it was taken");
            Ok(None)
        }
        "ended" => {
            let outcome = event.outcome.unwrap_or_default();
            if outcome != "completed" {
                complain(&format!("{TEARDOWN_UNCONFIRMED}: {outcome}"));
                return Ok(Some(Exit::FAILED));
            }
            let code = event.exit_code.or(event.signal.map(|signal| SIGNALLED + signal));
            Ok(Some(match code.and_then(|code| u8::try_from(code).ok()) {
                Some(code) => Exit::of_command(code),
                None => Exit::FAILED,
            }))
        }
        _ => Ok(None),
    }
}
