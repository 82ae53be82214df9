//! The `hostwire` program: a host with the test components, calls on it, and what one needs to look at both.
//!
//! Names, output and exit codes are an interface. Machine-readable output goes to stdout, everything else to stderr.

mod args;
mod commands;
mod connect;
mod exit;
mod explain;
mod output;
mod proxy;
mod runtime;
mod signals;

use exit::Exit;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn main() {
    exit::report_panics();
    // Whatever happens inside is an exit code in the end, a panic too.
    let exit = catch_unwind(AssertUnwindSafe(program)).unwrap_or(Exit::BUG);
    // Without waiting for threads: a file system that hangs does not keep the program.
    std::process::exit(exit.code().into());
}

fn program() -> Exit {
    match args::parse() {
        Ok(cli) => exit::finish(commands::run(cli)),
        Err(early) => exit::finish(early),
    }
}
