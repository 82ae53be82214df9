//! `man`: the manual page, for packagers.

use crate::args::Cli;
use crate::exit::{Exit, Stop};
use clap::CommandFactory;
use clap_mangen::Man;
use std::io::Write;

/// The program's page, and behind it one section for each command.
pub(crate) fn run() -> Result<Exit, Stop> {
    let mut page = Vec::new();
    let bug = |error: std::io::Error| Stop::Bug(error.to_string());
    let mut program = Cli::command();
    program.build();
    Man::new(program.clone()).render(&mut page).map_err(bug)?;
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        if command.get_name() == "help" {
            continue;
        }
        let man = Man::new(command.clone());
        page.extend(format!(".SH \"hostwire {}\"\n", command.get_name()).as_bytes());
        man.render_description_section(&mut page).map_err(bug)?;
        man.render_options_section(&mut page).map_err(bug)?;
    }
    std::io::stdout().lock().write_all(&page).map_err(Stop::Output)?;
    Ok(Exit::SUCCESS)
}
