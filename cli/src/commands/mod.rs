//! The commands, one file each.

mod bench;
mod call;
mod catalog;
mod completions;
mod demo;
mod explain;
mod man;
mod probe;
mod record;
mod replay;
mod run;
mod serve;
mod stop;

use crate::args::Cli;
use crate::exit::{Exit, Stop, unless_panicked};
use crate::runtime::{Threads, run as run_on};
use clap::Subcommand;

/// What the program does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show everything in one go, in a temporary directory, and check it
    Demo,
    /// Run a host with the components lab and lab-reserved, and runner if asked
    Serve(serve::Serve),
    /// Make one request
    Call(call::Call),
    /// Ask which components a host has
    Catalog(catalog::Catalog),
    /// Shut a host down, and wait until it has ended
    Stop(stop::Stop),
    /// Say whether a host runs, with the evidence; touches nothing
    Probe,
    /// Stand between clients and a host, and write each connection as a vector
    Record(record::Record),
    /// Play vectors against this build
    Replay(replay::Replay),
    /// Show a vector or a recording to people
    Explain(explain::Explain),
    /// Run a command: its output as it comes, its exit code
    Run(run::Run),
    /// Measure calls on a running host
    Bench(bench::Bench),
    /// Print a script that completes this program's arguments
    Completions(completions::Completions),
    /// Print the manual page
    #[command(hide = true)]
    Man,
}

/// Runs the chosen command.
pub(crate) fn run(cli: Cli) -> Result<Exit, Stop> {
    let Cli { common, command } = cli;
    let runtime = common.runtime;
    let exit = match command {
        Command::Demo => run_on(runtime, Threads::One, demo::Demo { common })?,
        // Panics of its components are contained, and no bug of the program.
        Command::Serve(serve) => return run_on(runtime, Threads::Many, serve.prepare(common)?)?,
        Command::Call(call) => run_on(runtime, Threads::One, call.prepare(common)?)?,
        Command::Catalog(catalog) => run_on(runtime, Threads::One, catalog.prepare(common)?)?,
        Command::Stop(stop) => run_on(runtime, Threads::One, stop.prepare(common)?)?,
        Command::Probe => probe::run(&common),
        Command::Record(record) => record.run(&common),
        Command::Replay(replay) => replay.run(&common),
        Command::Explain(explain) => explain.run(&common),
        Command::Run(run) => run_on(runtime, Threads::One, run.prepare(common)?)?,
        Command::Bench(bench) => run_on(runtime, Threads::Many, bench.prepare(common)?)?,
        Command::Completions(completions) => completions.run(),
        Command::Man => man::run(),
    };
    exit.map(unless_panicked)
}
