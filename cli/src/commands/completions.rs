//! `completions`: a script for a shell.

use crate::args::Cli;
use crate::exit::{Exit, Stop};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell that is to complete
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<Exit, Stop> {
        // Into memory first: the generator panics where it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "hostwire", &mut script);
        std::io::stdout().lock().write_all(&script).map_err(Stop::Output)?;
        Ok(Exit::SUCCESS)
    }
}
