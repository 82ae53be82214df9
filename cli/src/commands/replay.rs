//! `replay`: vectors and recordings against this build's core, its shells, or a host that runs.

use super::probe::locate;
use crate::args::Common;
use crate::exit::{Exit, Stop};
use crate::output::{Output, Progress, whole};
use crate::runtime::{Job, RuntimeKind, Threads, run as run_on};
use clap::{Args, ValueEnum};
use hostwire::Runtime;
use hostwire::discovery::read_snapshot;
use hostwire_conformance::replay::play;
use hostwire_vectors::{
    Case, CoreOnly, Difference, Divergence, LabHost, Peer, Subject, Vector, find_all, load, replay_core,
};
use serde::Serialize;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a subject behind a socket may be silent where the vector says that it speaks.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Vector files and recordings, or folders with them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// What plays them
    #[arg(long, value_enum, default_value = "core")]
    target: Target,
}

/// What can play a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// The core, without sockets or clocks
    Core,
    /// A client or host of this build on tokio, over real sockets
    Tokio,
    /// A client or host of this build on smol, over real sockets
    Smol,
    /// The host that the connection file names; it really does what a recording asks for
    Connect,
}

#[derive(Serialize)]
struct Failed<'a> {
    failed: &'a str,
    file: &'a str,
    line: u32,
    difference: String,
    differences: Vec<Field<'a>>,
}

#[derive(Serialize)]
struct Field<'a> {
    field: &'a str,
    expected: &'a str,
    got: &'a str,
}

#[derive(Serialize)]
struct Summary {
    passed: u64,
    failed: u64,
    #[serde(skip_serializing_if = "is_zero")]
    skipped: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this shape")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Replay {
    pub(crate) fn run(&self, common: &Common) -> Result<Exit, Stop> {
        let mut tally = Tally { output: common.output(), passed: 0, failed: 0, skipped: 0 };
        let mut files = Vec::new();
        for path in &self.paths {
            // Looked for first: how many there are is known before the first is played.
            find(path, &mut files)?;
        }
        let progress = Progress::new(tally.output, "replay", files.len() as u64);
        for file in &files {
            let vector = load(file).map_err(Stop::usage)?;
            for case in &vector.cases {
                if let Some(why) = self.left_out(&vector, case) {
                    tally.skipped += 1;
                    tally.output.detail(&format!("left out: {}: {why}", case.name));
                    continue;
                }
                let played = self.play(common, &vector, case)?;
                progress.hidden(|| tally.count(case, played))?;
            }
            progress.step();
        }
        progress.end();
        tally.end()
    }

    /// Why this target cannot play a case.
    fn left_out(&self, vector: &Vector, case: &Case) -> Option<&'static str> {
        match self.target {
            Target::Core => None,
            Target::Tokio | Target::Smol => Peer::core_only(vector, case).map(CoreOnly::reason),
            Target::Connect => match &vector.exchange {
                Some(exchange) if exchange.subject == Subject::Client => Some("its subject is a client"),
                Some(_) | None => Peer::core_only(vector, case).map(CoreOnly::reason),
            },
        }
    }

    fn play(&self, common: &Common, vector: &Vector, case: &Case) -> Result<Result<(), Divergence>, Stop> {
        let on = |kind| {
            let job = Play { vector: vector.clone(), case: case.clone() };
            run_on(kind, Threads::Many, job)
        };
        match self.target {
            Target::Core => Ok(replay_core(vector, case)),
            Target::Tokio => on(RuntimeKind::Tokio),
            Target::Smol => on(RuntimeKind::Smol),
            Target::Connect => connect(common, vector, case),
        }
    }
}

struct Play {
    vector: Vector,
    case: Case,
}

impl Job for Play {
    type Output = Result<(), Divergence>;

    async fn run<R: Runtime>(self, runtime: R) -> Self::Output {
        play(&runtime, &self.vector, &self.case, PATIENCE).await
    }
}

/// Plays a case against the host that runs.
fn connect(common: &Common, vector: &Vector, case: &Case) -> Result<Result<(), Divergence>, Stop> {
    let document = read_snapshot(&locate(common)?)
        .map_err(|error| Stop::Unsent(format!("not_sent: {}: {}", error.code(), whole(&error))))?;
    let stream = TcpStream::connect(document.endpoint())
        .map_err(|error| Stop::Unsent(format!("not_sent: dial_failed: {error}")))?;
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| Stop::Failed(format!("no randomness: {error}")))?;
    Ok(Peer::new(stream, document.credentials, nonce, PATIENCE).play(vector, case, &mut LabHost))
}

/// The vector files that a path means: itself, or what is below it, in the order of their names.
pub(super) fn find(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Stop> {
    if !path.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    let found = find_all(path).map_err(Stop::usage)?;
    if found.is_empty() {
        return Err(Stop::usage(format!("no vector in {}", path.display())));
    }
    files.extend(found);
    Ok(())
}

struct Tally {
    output: Output,
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    fn count(&mut self, case: &Case, played: Result<(), Divergence>) -> Result<(), Stop> {
        let Err(divergence) = played else {
            self.passed += 1;
            return Ok(());
        };
        self.failed += 1;
        if !self.output.json {
            return self.output.line(&format!("{}: {divergence}", case.name));
        }
        self.output.object(&Failed {
            failed: &case.name,
            file: &divergence.file,
            line: divergence.line,
            difference: divergence.to_string(),
            differences: divergence
                .differences
                .iter()
                .map(|Difference { what, expected, got }| Field { field: what, expected, got })
                .collect(),
        })
    }

    fn end(self) -> Result<Exit, Stop> {
        let Self { output, passed, failed, skipped } = self;
        if skipped > 0 {
            output.info(&format!(
                "{skipped} cases left out, which this target cannot play; --verbose names them"
            ));
        }
        if output.json {
            output.object(&Summary { passed, failed, skipped })?;
        } else {
            output.line(&format!("{passed} passed, {failed} failed"))?;
        }
        Ok(if failed == 0 { Exit::SUCCESS } else { Exit::FAILED })
    }
}
