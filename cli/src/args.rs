//! The command line: what all commands share, and how a bad one is answered.

use crate::commands::Command;
use crate::exit::{Exit, Stop};
use crate::output::Output;
use crate::runtime::RuntimeKind;
use clap::error::ErrorKind;
use clap::{Args, Parser, ValueEnum};
use hostwire::core::negotiate::{Offer, OfferList};
use hostwire::discovery::Place;
use std::path::PathBuf;

/// Requests and streams between a local host process and its clients
#[derive(Debug, Parser)]
#[command(name = "hostwire", version, propagate_version = true, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// One JSON object a line on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The async runtime to run on
    #[arg(long, global = true, value_enum, default_value = "tokio")]
    pub(crate) runtime: RuntimeKind,
    /// The connection file; its parent is the run directory
    #[arg(long, global = true, value_name = "PATH")]
    connection_file: Option<PathBuf>,
    /// The data directory that the default connection file lies below
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Nothing on stderr but errors
    #[arg(long, global = true)]
    quiet: bool,
    /// More on stderr
    #[arg(long, global = true)]
    verbose: bool,
}

impl Common {
    /// Which connection file is meant.
    pub(crate) fn place(&self) -> Place {
        match (&self.connection_file, &self.data_dir) {
            (Some(file), _) => Place::File(file.clone()),
            (None, Some(dir)) => Place::DataDir(dir.clone()),
            (None, None) => Place::Default,
        }
    }

    /// Whether a host was named at all.
    pub(crate) const fn names_a_place(&self) -> bool {
        self.connection_file.is_some() || self.data_dir.is_some()
    }

    pub(crate) fn output(&self) -> Output {
        Output { json: self.json, quiet: self.quiet, verbose: self.verbose }
    }

    /// Global arguments may stand on either side of the command, so that clap sees no conflict between two of them.
    fn check(&self) -> Result<(), Stop> {
        if self.connection_file.is_some() && self.data_dir.is_some() {
            return Err(Stop::usage("--connection-file and --data-dir exclude each other"));
        }
        if self.quiet && self.verbose {
            return Err(Stop::usage("--quiet and --verbose exclude each other"));
        }
        Ok(())
    }
}

/// Ways to a host that can be offered or served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// TCP on 127.0.0.1
    Tcp,
    /// A Unix domain socket in the run directory, negotiated over TCP
    Unix,
}

impl Transport {
    /// N2, N3: what `--transport` has to name, and not twice.
    pub(crate) fn check(given: &[Self]) -> Result<(), Stop> {
        let count = |one: Self| given.iter().filter(|other| **other == one).count();
        if count(Self::Tcp) != 1 {
            return Err(Stop::usage("--transport has to name tcp once"));
        }
        if count(Self::Unix) > 1 {
            return Err(Stop::usage("--transport names unix twice"));
        }
        Ok(())
    }

    /// The offers, in this order.
    pub(crate) fn offers(given: &[Self]) -> Result<OfferList, Stop> {
        let offer = |one: &Self| match one {
            Self::Tcp => Offer::tcp(),
            Self::Unix => Offer::unix(),
        };
        OfferList::new(given.iter().map(offer).collect()).map_err(Stop::usage)
    }
}

/// The arguments, or what to do instead.
pub(crate) fn parse() -> Result<Cli, Result<Exit, Stop>> {
    let error = match Cli::try_parse() {
        Ok(cli) => {
            return match cli.common.check() {
                Ok(()) => Ok(cli),
                Err(stop) => Err(Err(stop)),
            };
        }
        Err(error) => error,
    };
    // Help that was asked for is a result.
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Err(error.print().map(|()| Exit::SUCCESS).map_err(Stop::Output));
    }
    Err(Err(Stop::Usage(one_line(&error.to_string()))))
}

/// clap's error without its usage and hints: one line.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let end = ["\nUsage:", "\nFor more information"].iter().filter_map(|mark| text.find(mark)).min();
    let words: Vec<&str> = text.get(..end.unwrap_or(text.len())).unwrap_or(text).split_whitespace().collect();
    if words.is_empty() { "a command is needed: see --help".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_usage_error_is_one_line_that_names_the_argument() {
        for (arguments, part) in [
            (&["hostwire", "call", "--nonsense"][..], "--nonsense"),
            (&["hostwire", "call", "--timeout", "soon"], "--timeout"),
            (&["hostwire", "fly"], "fly"),
        ] {
            let error = Cli::try_parse_from(arguments).unwrap_err();
            let line = one_line(&error.to_string());
            assert!(line.contains(part) && !line.contains('\n') && !line.contains("Usage"), "{line}");
        }
    }
}
