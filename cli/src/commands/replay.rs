//! `replay`: vectors against this build's core.

use crate::args::Common;
use crate::exit::{Exit, Stop};
use clap::{Args, ValueEnum};
use hostwire_vectors::{load_all, replay_core};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Vector files, or folders with them
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
}

#[derive(Serialize)]
struct Divergence<'a> {
    failed: &'a str,
    file: &'a str,
    line: u32,
    difference: String,
}

#[derive(Serialize)]
struct Summary {
    passed: u64,
    failed: u64,
}

impl Replay {
    pub(crate) fn run(&self, common: &Common) -> Result<Exit, Stop> {
        let output = common.output();
        let Target::Core = self.target;
        let (mut passed, mut failed) = (0, 0);
        for path in &self.paths {
            for vector in load_all(path).map_err(Stop::usage)? {
                for case in &vector.cases {
                    let Err(divergence) = replay_core(&vector, case) else {
                        passed += 1;
                        continue;
                    };
                    failed += 1;
                    if common.json {
                        output.object(&Divergence {
                            failed: &case.name,
                            file: &divergence.file,
                            line: divergence.line,
                            difference: divergence.to_string(),
                        })?;
                    } else {
                        output.line(&format!("{}: {divergence}", case.name))?;
                    }
                }
            }
        }
        if common.json {
            output.object(&Summary { passed, failed })?;
        } else {
            output.line(&format!("{passed} passed, {failed} failed"))?;
        }
        Ok(if failed == 0 { Exit::SUCCESS } else { Exit::FAILED })
    }
}
