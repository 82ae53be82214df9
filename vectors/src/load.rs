//! Vectors from files and folders, with the steps that they come after.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::format::{Body, Step, Vector};
use crate::lex::{Blame, LoadError};
use crate::parse::{Parsed, parse};

/// The longest vector file that is read.
const MAX_FILE: u64 = 256 << 20;

/// How many files may come after each other.
const MAX_CHAIN: usize = 8;

/// The folder of the vectors that come with this crate.
#[must_use]
pub fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("files")
}

/// Reads one vector file, and those that it comes after.
///
/// # Errors
///
/// The first thing that is wrong in any of them, by file and line.
pub fn load(path: &Path) -> Result<Vector, LoadError> {
    load_chain(path, MAX_CHAIN)
}

/// Reads every `.vec` file below a folder, in the order of their names; or the one file that `path` names.
///
/// # Errors
///
/// The first thing that is wrong in any of them, by file and line, or a folder that cannot be read.
pub fn load_all(path: &Path) -> Result<Vec<Vector>, LoadError> {
    if !path.is_dir() {
        return Ok(vec![load(path)?]);
    }
    find_all(path)?.iter().map(|path| load(path)).collect()
}

/// Every `.vec` file below a folder, in the order of their names.
///
/// # Errors
///
/// A folder that cannot be read.
pub fn find_all(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let mut found = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let blame = Blame(&folder);
        let entries = fs::read_dir(&folder).map_err(|error| blame.at(0, error.to_string()))?;
        for entry in entries {
            let path = entry.map_err(|error| blame.at(0, error.to_string()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "vec") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn load_chain(path: &Path, left: usize) -> Result<Vector, LoadError> {
    let blame = Blame(path);
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
        .map_err(|error| blame.at(0, error.to_string()))?;
    if u64::try_from(text.len()).is_ok_and(|size| size > MAX_FILE) {
        return Err(blame.at(0, "too large for a vector"));
    }
    let Parsed { mut vector, after } = parse(path, &text)?;
    if let (Some((line, name)), Some(exchange)) = (after, vector.exchange.as_mut()) {
        if left == 0 {
            return Err(blame.at(line, "too many files that come after each other"));
        }
        let target = path.parent().unwrap_or(Path::new("")).join(name);
        let first = load_chain(&target, left - 1)?;
        let same = first.exchange.as_ref().is_some_and(|other| {
            other.subject == exchange.subject && other.offers == exchange.offers || other.before.is_empty()
        });
        let case = match first.cases.as_slice() {
            [case] if same => case,
            _ => return Err(blame.at(line, "comes after a file that is not one case with the same subject")),
        };
        let mut before: Vec<Step> = first.exchange.map(|other| other.before).unwrap_or_default();
        if let Body::Exchange(steps) = &case.body {
            before.extend(steps.iter().cloned());
        }
        exchange.before = before;
    }
    Ok(vector)
}
