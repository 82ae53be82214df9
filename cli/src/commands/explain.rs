//! `explain`: a vector or a recording for people.

use super::replay::find;
use crate::args::Common;
use crate::exit::{Exit, Stop};
use crate::explain::{Story, Told, html, mermaid, text};
use clap::Args;
use hostwire_vectors::LoadError;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Vector files and recordings, or folders with them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A frame a line, fields named, rule IDs where a rule bites; this is the default
    #[arg(long, conflicts_with_all = ["mermaid", "html"])]
    text: bool,
    /// A Mermaid sequence diagram
    #[arg(long, conflicts_with = "html")]
    mermaid: bool,
    /// Write a page for a browser to this file; - is stdout
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Explain {
    pub(crate) fn run(&self, common: &Common) -> Result<Exit, Stop> {
        let mut files = Vec::new();
        for path in &self.paths {
            find(path, &mut files)?;
        }
        if let Some(page) = &self.html {
            return self.page(page, &files);
        }
        let mut out = BufWriter::new(io::stdout().lock());
        if self.mermaid && !common.json {
            say(&mut out, mermaid::HEAD)?;
        }
        each(&files, |told| {
            let line = if common.json {
                serde_json::to_string(told).map_err(|error| Stop::Bug(error.to_string()))?
            } else if self.mermaid {
                mermaid::line(told)
            } else {
                text::line(told)
            };
            say(&mut out, &line)
        })?;
        out.flush().map_err(Stop::Output)?;
        Ok(Exit::SUCCESS)
    }

    fn page(&self, page: &Path, files: &[PathBuf]) -> Result<Exit, Stop> {
        if page == Path::new("-") {
            let mut out = BufWriter::new(io::stdout().lock());
            write_page(&mut out, files, Stop::Output)?;
            return out.flush().map(|()| Exit::SUCCESS).map_err(Stop::Output);
        }
        let unwritable = |error: io::Error| Stop::usage(format!("cannot write {}: {error}", page.display()));
        if is_vector(page) {
            return Err(Stop::usage(format!(
                "{} is a vector: --html names the page that is written",
                page.display()
            )));
        }
        let mut out = BufWriter::new(File::create(page).map_err(unwritable)?);
        write_page(&mut out, files, unwritable)?;
        out.flush().map(|()| Exit::SUCCESS).map_err(unwritable)
    }
}

fn write_page(
    out: &mut impl Write,
    files: &[PathBuf],
    failed: impl Fn(io::Error) -> Stop + Copy,
) -> Result<(), Stop> {
    out.write_all(html::head().as_bytes()).map_err(failed)?;
    let mut first = true;
    each(files, |told| {
        let line = html::line(told).map_err(|error| Stop::Bug(error.to_string()))?;
        let comma = if std::mem::take(&mut first) { "" } else { "," };
        writeln!(out, "{comma}{line}").map_err(failed)
    })?;
    out.write_all(html::tail().as_bytes()).map_err(failed)
}

fn say(out: &mut impl Write, line: &str) -> Result<(), Stop> {
    writeln!(out, "{line}").map_err(Stop::Output)
}

/// Everything that is told, as it is read.
fn each(files: &[PathBuf], mut tell: impl FnMut(&Told) -> Result<(), Stop>) -> Result<(), Stop> {
    let wrong = |error: LoadError| Stop::usage(error);
    for file in files {
        for told in Story::open(file).map_err(wrong)? {
            tell(&told.map_err(wrong)?)?;
        }
    }
    Ok(())
}

fn is_vector(path: &Path) -> bool {
    const BEGINNING: &[u8] = b"hostwire-vector";
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(15).read_to_end(&mut first));
    read.is_ok() && first == BEGINNING
}
