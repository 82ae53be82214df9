//! The component: requests in, runs in a table.

use super::ask::{Ask, Start};
use super::report;
use super::run::{Next, Run};
use crate::component::{
    BoxError, BoxFuture, Component, ErrorReply, Handled, Manifest, Reply, RequestContext, Role, SendError,
};
use crate::process::{Extras, Observer, Pool, Session};
use crate::runtime::Runtime;
use crate::sync::lock;
use hostwire_core::child::{Budget, Capture, Cause, Config, Ended, MISSING, State, TEARDOWN_UNCONFIRMED};
use hostwire_core::json::{ObjectWriter, write_object};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The module ID of [`Runner`].
pub const RUNNER: &str = "runner";

/// What a runner is told at its start.
#[derive(Clone)]
#[non_exhaustive]
pub struct RunnerConfig {
    /// How long a teardown may take.
    pub budget: Budget,
    /// Runs that may live at once.
    pub runs: usize,
    /// Runs that have ended and are remembered; the oldest is forgotten first.
    pub kept: usize,
    /// Bytes of output that are kept of each run.
    pub replay_bytes: usize,
    /// How long a lossless run waits for a subscriber before its oldest output makes room.
    pub hold: Duration,
    /// Told of each teardown that had more to do than to watch (PD29).
    pub observer: Option<Observer>,
}

impl Default for RunnerConfig {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            runs: 64,
            kept: 64,
            replay_bytes: 1 << 20,
            hold: Duration::from_secs(10),
            observer: None,
        }
    }
}

impl fmt::Debug for RunnerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerConfig")
            .field("budget", &self.budget)
            .field("runs", &self.runs)
            .field("kept", &self.kept)
            .field("replay_bytes", &self.replay_bytes)
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}

/// The component `runner`. See the [module](super) for what it answers.
///
/// **Drop.** When the host lets go of it, what still runs is killed.
pub struct Runner<R: Runtime> {
    inner: Arc<Inner<R>>,
}

struct Inner<R: Runtime> {
    runtime: R,
    config: RunnerConfig,
    /// In every ID, so that one of another incarnation is known as such.
    incarnation: String,
    pool: Pool,
    table: Mutex<Table<R>>,
    closing: AtomicBool,
}

struct Table<R: Runtime> {
    runs: BTreeMap<u64, Arc<Run<R>>>,
    next: u64,
}

impl<R: Runtime> Runner<R> {
    /// A runner without runs.
    ///
    /// # Errors
    /// The operating system gives no randomness for the incarnation's name.
    pub fn new(runtime: R, config: RunnerConfig) -> io::Result<Self> {
        let mut name = [0_u8; 8];
        getrandom::fill(&mut name).map_err(|_| io::ErrorKind::Unsupported)?;
        let incarnation = format!("{:016x}", u64::from_le_bytes(name));
        let pool = Pool::new(config.runs);
        let table = Mutex::new(Table { runs: BTreeMap::new(), next: 1 });
        let closing = AtomicBool::new(false);
        Ok(Self { inner: Arc::new(Inner { runtime, config, incarnation, pool, table, closing }) })
    }
}

impl<R: Runtime> fmt::Debug for Runner<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("runs", &lock(&self.inner.table).runs.len()).finish_non_exhaustive()
    }
}

impl<R: Runtime> Inner<R> {
    fn name(&self, number: u64) -> String {
        format!("{}-{number}", self.incarnation)
    }

    fn find(&self, run: &str) -> Option<Arc<Run<R>>> {
        let (incarnation, number) = run.rsplit_once('-')?;
        if incarnation != self.incarnation {
            return None;
        }
        lock(&self.table).runs.get(&number.parse().ok()?).cloned()
    }

    fn start(&self, start: Start) -> Result<Reply, ErrorReply> {
        if self.closing.load(Ordering::Acquire) {
            return Err(ErrorReply::new("shutting_down", "the host shuts down"));
        }
        let slot = self.pool.try_slot().ok_or_else(|| {
            ErrorReply::new("too_many_runs", "as many runs live as may").retry_after_ms(1_000)
        })?;
        let mut words = start.command.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).envs(start.env);
        if let Some(cwd) = start.cwd {
            command.current_dir(cwd);
        }
        let replay = self.config.replay_bytes;
        let config = Config {
            budget: self.config.budget,
            stdin: false,
            stdout: Capture::Deliver(1 << 18),
            stderr: Capture::Deliver(1 << 18),
            ..Config::default()
        };
        let extras = Extras { observer: self.config.observer.clone() };
        let session = Session::spawn_with(&self.runtime, command, config, Some(slot), extras)
            .map_err(|error| refusal(&error))?;
        let run = Run::new(&self.runtime, session, replay, start.lossless, self.config.hold);
        let number = {
            let mut table = lock(&self.table);
            let number = table.next;
            table.next += 1;
            table.runs.insert(number, Arc::clone(&run));
            number
        };
        if self.closing.load(Ordering::Acquire) {
            run.session.close(Cause::Shutdown); // it came in between
        }
        self.forget();
        self.runtime.spawn(Arc::clone(&run).pump());
        let mut answer = Vec::new();
        write_object(&mut answer, |object| {
            object.string("run", &self.name(number));
            object.number("pid", run.session.pid().into());
        });
        Ok(Reply::text(answer))
    }

    /// The oldest that have ended are forgotten.
    fn forget(&self) {
        let forgotten: Vec<_> = {
            let mut table = lock(&self.table);
            let ended: Vec<u64> = table
                .runs
                .iter()
                .filter(|(_, run)| run.standing().2.is_some())
                .map(|(number, _)| *number)
                .collect();
            let over = ended.len().saturating_sub(self.config.kept);
            ended.into_iter().take(over).filter_map(|number| table.runs.remove(&number)).collect()
        };
        drop(forgotten);
    }

    fn status(&self, name: &str) -> Reply {
        let mut answer = Vec::new();
        write_object(&mut answer, |object| {
            object.string("run", name);
            let Some(run) = self.find(name) else {
                return object.string("state", MISSING);
            };
            let (first, next, ended) = run.standing();
            object.string(
                "state",
                match (&ended, run.session.state()) {
                    (Some(_), _) => "ended",
                    (None, State::Closing(_) | State::Closed) => "ending",
                    (None, State::Setup(_) | State::Online) => "running",
                },
            );
            object.number("first", first);
            object.number("next", next);
            if let Some(ended) = ended {
                report::write(object, &ended);
            }
        });
        Reply::text(answer)
    }

    async fn shutdown(&self) -> Result<(), BoxError> {
        self.closing.store(true, Ordering::Release);
        let runs: Vec<Arc<Run<R>>> = lock(&self.table).runs.values().cloned().collect();
        // PA10: all are begun before the first is awaited.
        runs.iter().for_each(|run| run.session.close(Cause::Shutdown));
        let mut left = 0_usize;
        for run in &runs {
            let ended = run.session.ended().await;
            // What had ended before, however, is not this shutdown's.
            left += usize::from(ended.report().cause == Cause::Shutdown && !ended.verdict().is_completed());
        }
        lock(&self.table).runs.clear();
        if left == 0 { Ok(()) } else { Err(format!("{TEARDOWN_UNCONFIRMED}: {left} runs").into()) }
    }
}

fn refusal(error: &io::Error) -> ErrorReply {
    let kind = error.kind();
    let code = if kind == io::ErrorKind::NotFound {
        "command_not_found"
    } else if kind == io::ErrorKind::PermissionDenied {
        "command_not_executable"
    } else {
        "spawn_failed"
    };
    ErrorReply::new(code, kind.to_string())
}

fn missing() -> ErrorReply {
    ErrorReply::new(MISSING, "no such run in this incarnation")
}

fn text(fill: impl FnOnce(&mut ObjectWriter<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write_object(&mut out, fill);
    out
}

async fn subscribe<R: Runtime>(
    cx: RequestContext,
    run: Arc<Run<R>>,
    from: u64,
    items: Option<u64>,
) -> Result<(), ErrorReply> {
    let failed = |error: SendError| match error {
        SendError::NoMemory => ErrorReply::new("no_memory", "no memory for the output"),
        SendError::Ended | SendError::TooLarge => ErrorReply::new("not_sent", "the request has ended"),
    };
    let mut subscriber = run.subscribe(from, items.is_some());
    let mut left = items.unwrap_or(u64::MAX);
    while left > 0 {
        match subscriber.next().await {
            Next::Item(item) => {
                cx.send_as(true, item).await.map_err(failed)?;
                left -= 1;
            }
            Next::Gap { from, to } => {
                let gap = text(|object| {
                    object.string("event", "gap");
                    object.number("from", from);
                    object.number("to", to);
                });
                cx.send_as(false, gap).await.map_err(failed)?;
            }
            Next::Full => break,
            Next::Ended(ended) => {
                let end = text(|object| {
                    object.string("event", "ended");
                    report::write(object, &ended);
                });
                cx.send_as(false, end).await.map_err(failed)?;
                break;
            }
        }
        subscriber.sent();
    }
    Ok(())
}

fn cancelled(name: &str, ended: &Ended) -> Result<Reply, ErrorReply> {
    // Success only when the whole group is gone, and all that came of it.
    if !ended.verdict().is_completed() {
        let outcome = ended.verdict().as_str();
        let message = format!("{outcome}, {} processes left", ended.report().survivors.len());
        return Err(ErrorReply::new(TEARDOWN_UNCONFIRMED, message));
    }
    Ok(Reply::text(text(|object| {
        object.string("run", name);
        object.boolean("cancelled", ended.report().cause == Cause::Cancelled);
        report::write(object, ended);
    })))
}

impl<R: Runtime> Component for Runner<R> {
    fn manifest(&self) -> Manifest {
        Manifest::new(RUNNER, env!("CARGO_PKG_VERSION"), Role::ToolProvider)
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        let ask = match Ask::read(cx.body().as_slice()) {
            Ok(ask) if !cx.binary() => ask,
            Ok(_) => return ErrorReply::new("invalid_request", "a request is text").into(),
            Err(problem) => return ErrorReply::new("invalid_request", problem.to_string()).into(),
        };
        match ask {
            // Making a process takes its time: not on the connection's task.
            Ask::Start(start) => Handled::future(async move { self.inner.start(start) }),
            Ask::Status { run } => self.inner.status(&run).into(),
            Ask::Subscribe { run, from, items } => match self.inner.find(&run) {
                Some(run) => Handled::stream(subscribe(cx, run, from, items)),
                None => missing().into(),
            },
            Ask::Cancel { run: name } => match self.inner.find(&name) {
                Some(run) => Handled::future(async move {
                    run.session.close(Cause::Cancelled);
                    cancelled(&name, &run.session.ended().await)
                }),
                None => missing().into(),
            },
        }
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(self.inner.shutdown())
    }
}
