//! `serve`: a host with the components `lab` and `lab-reserved`, and `runner` where it is asked for.

use super::probe::locate;
use crate::args::{Common, Transport};
use crate::exit::{Exit, Stop};
use crate::output::{Output, complain, whole};
use crate::runtime::Job;
use crate::signals::Caught;
use clap::Args;
use hostwire::Runtime;
use hostwire::component::Component;
use hostwire::core::limits::LivenessTimes;
use hostwire::discovery::{HostFileError, LockError};
use hostwire::host::{Ended, Host, HostConfig, HostHandle, StartError};
use hostwire::process::become_subreaper;
use hostwire::runner::{Runner, RunnerConfig};
use hostwire_lab::{Lab, LabReserved};
use serde::Serialize;
use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// What the host calls itself.
pub(crate) const DAEMON_VER: &str = concat!("hostwire/", env!("CARGO_PKG_VERSION"));

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// A capacity, by name; may be given several times
    #[arg(long = "limit", value_name = "NAME=VALUE", long_help = LIMIT_HELP)]
    limits: Vec<Limit>,
    /// Probe clients: from one probe to the next, and how long to wait for the answer
    #[arg(long, value_name = "INTERVAL_MS,TIMEOUT_MS")]
    liveness: Option<Liveness>,
    /// How long one frame may take, in or out
    #[arg(long, value_name = "MS")]
    frame_deadline: Option<NonZeroU64>,
    /// How long authentication may take
    #[arg(long, value_name = "MS")]
    auth_deadline: Option<NonZeroU64>,
    /// How long work may go on when the host shuts down
    #[arg(long, value_name = "MS")]
    shutdown_deadline: Option<NonZeroU64>,
    /// What is served
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp")]
    transport: Vec<Transport>,
    /// Run commands for clients, with the component runner; orphans of theirs come to this process
    #[arg(long)]
    runner: bool,
}

const LIMIT_HELP: &str = "A capacity, by name; may be given several times: handshakes, connections, routes, pending_requests, \
handler_tasks, writer_frames, resident_bytes, lab_reserved_pending, lab_reserved_tasks";

#[derive(Debug, Clone, Copy)]
struct Limit {
    name: LimitName,
    value: NonZeroUsize,
}

#[derive(Debug, Clone, Copy)]
enum LimitName {
    Handshakes,
    Connections,
    Routes,
    PendingRequests,
    HandlerTasks,
    WriterFrames,
    ResidentBytes,
    LabReservedPending,
    LabReservedTasks,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("not of the form NAME=VALUE")?;
        let name = match name {
            "handshakes" => LimitName::Handshakes,
            "connections" => LimitName::Connections,
            "routes" => LimitName::Routes,
            "pending_requests" => LimitName::PendingRequests,
            "handler_tasks" => LimitName::HandlerTasks,
            "writer_frames" => LimitName::WriterFrames,
            "resident_bytes" => LimitName::ResidentBytes,
            "lab_reserved_pending" => LimitName::LabReservedPending,
            "lab_reserved_tasks" => LimitName::LabReservedTasks,
            _ => return Err("no such limit".to_owned()),
        };
        // B1: zero is refused.
        let value = value.parse().map_err(|error| format!("{value}: {error}"))?;
        Ok(Self { name, value })
    }
}

#[derive(Debug, Clone, Copy)]
struct Liveness {
    interval: NonZeroU64,
    timeout: NonZeroU64,
}

impl FromStr for Liveness {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (interval, timeout) = text.split_once(',').ok_or("not of the form INTERVAL_MS,TIMEOUT_MS")?;
        let ms = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
        Ok(Self { interval: ms(interval)?, timeout: ms(timeout)? })
    }
}

impl Serve {
    pub(crate) fn prepare(self, common: Common) -> Result<Prepared, Stop> {
        Transport::check(&self.transport)?;
        let mut config = HostConfig::new(locate(&common)?, DAEMON_VER);
        let (mut reserved_pending, mut reserved_tasks) = (4, 2);
        for Limit { name, value } in self.limits {
            let place = match name {
                LimitName::Handshakes => &mut config.limits.handshakes,
                LimitName::Connections => &mut config.limits.connections,
                LimitName::Routes => &mut config.limits.routes,
                LimitName::PendingRequests => &mut config.limits.pending_requests,
                LimitName::HandlerTasks => &mut config.limits.handler_tasks,
                LimitName::WriterFrames => &mut config.limits.writer_frames,
                LimitName::ResidentBytes => &mut config.limits.resident_bytes,
                LimitName::LabReservedPending => &mut reserved_pending,
                LimitName::LabReservedTasks => &mut reserved_tasks,
            };
            *place = value.get();
        }
        let ms = |time: NonZeroU64| Duration::from_millis(time.get());
        config.timeouts.liveness = self.liveness.map(|Liveness { interval, timeout }| LivenessTimes {
            interval: ms(interval),
            timeout: ms(timeout),
        });
        for (given, place) in [
            (self.frame_deadline, &mut config.timeouts.frame),
            (self.auth_deadline, &mut config.timeouts.authentication),
            (self.shutdown_deadline, &mut config.timeouts.drain),
        ] {
            if let Some(time) = given {
                *place = ms(time);
            }
        }
        config.unix = self.transport.contains(&Transport::Unix);
        let reserved = LabReserved::new(reserved_pending, reserved_tasks);
        Ok(Prepared {
            output: common.output(),
            config,
            components: vec![Arc::new(Lab::new()), Arc::new(reserved)],
            runner: self.runner,
        })
    }
}

/// A host that can start.
pub(crate) struct Prepared {
    output: Output,
    config: HostConfig,
    components: Vec<Arc<dyn Component>>,
    runner: bool,
}

#[derive(Serialize)]
struct Ready<'a> {
    event: &'static str,
    connection_file: &'a str,
    port: u16,
    pid: u32,
}

#[derive(Serialize)]
struct Refused<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct AlreadyRunning {
    event: &'static str,
    state: &'static str,
    pid: Option<u32>,
}

impl Job for Prepared {
    type Output = Result<Exit, Stop>;

    async fn run<R: Runtime>(self, runtime: R) -> Self::Output {
        let Self { output, config, mut components, runner } = self;
        let signals = Caught::install()?;
        if runner {
            components.push(Arc::new(make_runner(runtime.clone(), output)?));
        }
        let host = match Host::start(runtime, config, components).await {
            Ok(host) => host,
            Err(error) => return refused(output, &error),
        };
        let stopper = host.stopper();
        signals.stop_with(move || stopper.shutdown());
        let told = ready(output, &host);
        if told.is_err() {
            host.shutdown();
        }
        let ended = host.wait().await;
        told?;
        Ok(judge(output, &ended))
    }
}

/// The component that runs commands, in a process that its escaped descendants come to.
pub(crate) fn make_runner<R: Runtime>(runtime: R, output: Output) -> Result<Runner<R>, Stop> {
    become_subreaper()
        .map_err(|error| Stop::Failed(format!("cannot take over orphaned processes: {error}")))?;
    let mut config = RunnerConfig::default();
    config.observer = Some(Arc::new(move |report| {
        let phases: Vec<String> = report
            .phases
            .iter()
            .map(|(phase, time)| format!("{} {} ms", phase.as_str(), time.as_millis()))
            .collect();
        let left: Vec<String> =
            report.survivors.iter().map(|one| format!("{} ({})", one.pid, one.state)).collect();
        let left = if left.is_empty() { "nobody".to_owned() } else { left.join(", ") };
        // PD29: no command line.
        output.info(&format!(
            "teardown of {}: {}; {}; left: {left}",
            report.pid.unwrap_or_default(),
            report.cause.as_str(),
            phases.join(", ")
        ));
    }));
    Runner::new(runtime, config).map_err(|error| Stop::Failed(format!("cannot make the runner: {error}")))
}

fn ready(output: Output, host: &HostHandle) -> Result<(), Stop> {
    // A path that is no UTF-8 is shown as well as it can be.
    let connection_file = host.connection_file().to_string_lossy();
    output.object(&Ready {
        event: "ready",
        connection_file: &connection_file,
        port: host.port(),
        pid: std::process::id(),
    })?;
    output.detail(&format!("host {} serves; SIGINT or SIGTERM ends it", host.daemon_id()));
    Ok(())
}

fn judge(output: Output, ended: &Ended) -> Exit {
    if ended.graceful() {
        output.detail("ended in order");
        return Exit::SUCCESS;
    }
    for failure in &ended.failures {
        complain(&failure.to_string());
    }
    let files = if ended.files_failed { ", and its files could not be kept" } else { "" };
    let cut = if ended.cut_short { ", and its runtime ended before it" } else { "" };
    complain(&format!("not ended in order: {} callbacks failed{files}{cut}", ended.failed));
    Exit::FAILED
}

fn refused(output: Output, error: &StartError) -> Result<Exit, Stop> {
    complain(&whole(error));
    if let StartError::Lock(LockError::AlreadyRunning(probe)) = error {
        let event =
            AlreadyRunning { event: "already_running", state: probe.state.as_str(), pid: probe.pid() };
        output.object(&event)?;
        return Ok(Exit::ALREADY_RUNNING);
    }
    let bound = error.bound();
    let reason = if bound.is_none() { Some(reason(error)) } else { None };
    output.object(&Refused { event: "refused", bound, reason })?;
    Ok(Exit::REFUSED)
}

fn reason(error: &StartError) -> &'static str {
    match error {
        StartError::Lock(LockError::File(error)) | StartError::Files(error) => match error {
            HostFileError::Insecure(_) => "insecure",
            HostFileError::Disk(_) => "disk",
            HostFileError::NoRandomness
            | HostFileError::BadDaemonVersion
            | HostFileError::Unsupported
            | _ => "unavailable",
        },
        StartError::Listen(_) => "listen",
        StartError::Plan(_)
        | StartError::Manifest { .. }
        | StartError::Lock(LockError::AlreadyRunning(_))
        | StartError::Initialize { .. }
        | StartError::Stopped
        | StartError::RuntimeEnded
        | _ => "unavailable",
    }
}
