//! Where the files are: the environment as a value, and the one [`Location`] that a run resolves from it.
//!
//! A location is resolved once, at start, and everything afterwards (lock, record, temporaries, publication,
//! removal) comes from that one value: a later change of `XDG_DATA_HOME` or of the working directory moves nothing.
//! This module never touches the file system and never falls back to a directory that others share.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// Name of the discovery file in the run directory (protocol.md §3).
pub const CONNECTION_FILE: &str = "subc-connection.json";
/// Name of the single-instance lock in the run directory (P1).
pub const LOCK_FILE: &str = "mc-host.lock";
/// Name of the lifecycle record in the run directory (P6).
pub const RECORD_FILE: &str = "mc-host-lifecycle.json";

/// Bytes of the longest path that other programs can open by name (`PATH_MAX` without its NUL).
const MAX_PATH: usize = 4_095;

/// What discovery and the client's default identity take from the process's environment, as a value.
///
/// Tests and embedders build their own; [`Environment::from_process`] is the default.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `XDG_DATA_HOME`; empty counts as unset.
    pub xdg_data_home: Option<OsString>,
    /// `HOME`; empty counts as unset.
    pub home: Option<OsString>,
    /// `SUBC_MODULE_ID` (C11).
    pub module_id: Option<OsString>,
    /// `SUBC_LAUNCH_NONCE` (C11).
    pub launch_nonce: Option<OsString>,
}

impl Environment {
    /// Reads the four variables of this process.
    #[must_use]
    pub fn from_process() -> Self {
        Self {
            xdg_data_home: std::env::var_os("XDG_DATA_HOME"),
            home: std::env::var_os("HOME"),
            module_id: std::env::var_os("SUBC_MODULE_ID"),
            launch_nonce: std::env::var_os("SUBC_LAUNCH_NONCE"),
        }
    }

    /// The identity (module ID, launch nonce) that a client claims by default: both set, not empty and UTF-8, or
    /// nothing (C11).
    #[must_use]
    pub fn identity(&self) -> Option<(&str, &str)> {
        // C11: both or neither; an empty one counts as not set.
        let module_id = text(self.module_id.as_ref())?;
        Some((module_id, text(self.launch_nonce.as_ref())?))
    }

    /// The data directory: `$XDG_DATA_HOME`, else `$HOME/.local/share` (protocol.md §3).
    ///
    /// # Errors
    ///
    /// [`LocationError`] when neither is set, or the one that counts is relative or not UTF-8. A bad
    /// `XDG_DATA_HOME` is an error, not a reason to use `HOME`.
    pub fn data_dir(&self) -> Result<PathBuf, LocationError> {
        if let Some(value) = set(self.xdg_data_home.as_ref()) {
            return absolute("XDG_DATA_HOME", value);
        }
        if let Some(value) = set(self.home.as_ref()) {
            return Ok(absolute("HOME", value)?.join(".local").join("share"));
        }
        Err(LocationError::NoDataDirectory)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Z1: identity values are not shown.
        f.debug_struct("Environment")
            .field("xdg_data_home", &self.xdg_data_home)
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

/// Empty counts as unset (as the XDG base directory specification has it).
fn set(value: Option<&OsString>) -> Option<&OsString> {
    value.filter(|value| !value.is_empty())
}

fn text(value: Option<&OsString>) -> Option<&str> {
    set(value)?.to_str()
}

fn absolute(variable: &'static str, value: &OsStr) -> Result<PathBuf, LocationError> {
    let path = PathBuf::from(value);
    if value.to_str().is_none() {
        return Err(LocationError::NotUnicode { variable, path });
    }
    if !path.is_absolute() {
        return Err(LocationError::Relative { variable, path });
    }
    Ok(path)
}

/// The system's Unix time in milliseconds: what records are dated with (P6). Zero before 1970.
#[must_use]
pub fn unix_now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Which discovery file is meant, before the environment is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The default place under the environment's data directory.
    #[default]
    Default,
    /// The default place under this data directory instead.
    DataDir(PathBuf),
    /// This very file; its parent is the run directory.
    File(PathBuf),
}

/// The discovery file and the run directory it lies in, resolved once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    connection_file: PathBuf,
    run_dir: PathBuf,
    file_name: OsString,
}

impl Location {
    /// Resolves `place` with `environment`. An explicit path that is relative counts from the working directory of
    /// this moment.
    ///
    /// # Errors
    ///
    /// [`LocationError`]: no data directory, a relative or non-UTF-8 variable, a path that is too long, has no file
    /// name, names one of the host's own files, or cannot be made absolute.
    pub fn resolve(environment: &Environment, place: &Place) -> Result<Self, LocationError> {
        let data_dir = match place {
            Place::Default => environment.data_dir()?,
            Place::DataDir(dir) => from_here(dir)?,
            Place::File(file) => return Self::of_file(&from_here(file)?),
        };
        Self::of_file(&data_dir.join("cortexkit").join("run").join(CONNECTION_FILE))
    }

    /// The location of an explicit file by its absolute path: its parent is the run directory.
    fn of_file(file: &Path) -> Result<Self, LocationError> {
        let unusable = || LocationError::NotAFile { path: file.to_owned() };
        if file.as_os_str().len() > MAX_PATH {
            return Err(LocationError::TooLong { path: file.to_owned() });
        }
        if !matches!(file.components().next_back(), Some(Component::Normal(_))) {
            return Err(unusable());
        }
        let (Some(run_dir), Some(name)) = (file.parent(), file.file_name()) else {
            return Err(unusable());
        };
        // The publication must not be renamed over the lock or the record.
        if name == LOCK_FILE || name == RECORD_FILE {
            return Err(unusable());
        }
        Ok(Self { connection_file: file.to_owned(), run_dir: run_dir.to_owned(), file_name: name.to_owned() })
    }

    /// The discovery file's absolute path.
    #[must_use]
    pub fn connection_file(&self) -> &Path {
        &self.connection_file
    }

    /// The run directory: the discovery file's parent, where lock and record are too.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// The discovery file's name in the run directory.
    #[must_use]
    pub fn file_name(&self) -> &OsStr {
        &self.file_name
    }
}

fn from_here(path: &Path) -> Result<PathBuf, LocationError> {
    // An empty path has no absolute form; neither has a relative one when the working directory is gone.
    std::path::absolute(path).map_err(|_| LocationError::NotAFile { path: path.to_owned() })
}

/// Why there is no [`Location`]. Nothing has been opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// Neither `XDG_DATA_HOME` nor `HOME` is set (or both are empty). There is no shared fallback.
    #[error("no data directory: neither XDG_DATA_HOME nor HOME is set")]
    NoDataDirectory,
    /// The variable holds a relative path.
    #[error("{variable} is a relative path: {}", path.display())]
    Relative {
        /// The variable's name.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// The variable's value is not UTF-8.
    #[error("{variable} is not UTF-8: {}", path.display())]
    NotUnicode {
        /// The variable's name.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// The path is longer than the system can open by name.
    #[error("path of {} bytes is too long: {}", path.as_os_str().len(), path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The path cannot name a discovery file: no file name in it, a name of the host's other files, or no
    /// absolute form.
    #[error("not a path of a connection file: {}", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(xdg: Option<&str>, home: Option<&str>) -> Environment {
        Environment {
            xdg_data_home: xdg.map(Into::into),
            home: home.map(Into::into),
            ..Environment::default()
        }
    }

    fn resolve(xdg: Option<&str>, home: Option<&str>) -> Result<Location, LocationError> {
        Location::resolve(&environment(xdg, home), &Place::Default)
    }

    #[test]
    fn the_data_directory_is_the_override_then_xdg_then_home() {
        let env = environment(Some("/x"), Some("/h"));
        let file = |place| Location::resolve(&env, &place).unwrap().connection_file().to_owned();
        assert_eq!(file(Place::Default), Path::new("/x/cortexkit/run/subc-connection.json"));
        assert_eq!(file(Place::DataDir("/d".into())), Path::new("/d/cortexkit/run/subc-connection.json"));
        assert_eq!(file(Place::File("/f/conn.json".into())), Path::new("/f/conn.json"));
        let home = resolve(None, Some("/h")).unwrap();
        assert_eq!(home.connection_file(), Path::new("/h/.local/share/cortexkit/run/subc-connection.json"));
        assert_eq!(home.run_dir(), Path::new("/h/.local/share/cortexkit/run"));
        assert_eq!(home.file_name(), "subc-connection.json");
    }

    // B160
    #[test]
    fn empty_counts_as_unset_and_nothing_set_is_no_data_directory() {
        assert_eq!(resolve(Some(""), Some("/h")), resolve(None, Some("/h")));
        assert_eq!(resolve(None, None), Err(LocationError::NoDataDirectory));
        assert_eq!(resolve(Some(""), Some("")), Err(LocationError::NoDataDirectory));
    }

    // B160
    #[test]
    fn a_relative_variable_is_an_error_and_not_a_reason_for_the_other() {
        let relative = |variable, path: &str| Err(LocationError::Relative { variable, path: path.into() });
        assert_eq!(resolve(Some("data"), Some("/h")), relative("XDG_DATA_HOME", "data"));
        assert_eq!(resolve(None, Some("./h")), relative("HOME", "./h"));
    }

    // B160
    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_not_utf8_is_an_error_with_the_path() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(b"/x\xff".to_vec());
        let env = Environment { xdg_data_home: Some(odd.clone()), ..environment(None, Some("/h")) };
        assert_eq!(
            Location::resolve(&env, &Place::Default),
            Err(LocationError::NotUnicode { variable: "XDG_DATA_HOME", path: odd.clone().into() })
        );
        let env = Environment { home: Some(odd.clone()), ..Environment::default() };
        assert_eq!(env.data_dir(), Err(LocationError::NotUnicode { variable: "HOME", path: odd.into() }));
    }

    // B160
    #[test]
    fn a_path_of_five_thousand_bytes_is_refused_whole() {
        let long = format!("/{}", "a/".repeat(2_500));
        let Err(LocationError::TooLong { path }) = resolve(Some(&long), None) else { panic!("not too long") };
        assert!(path.starts_with(&long));
        let exactly = |n: usize| {
            Location::resolve(&Environment::default(), &Place::File(format!("/{}", "a".repeat(n - 1)).into()))
        };
        assert!(exactly(4_095).is_ok());
        assert!(exactly(4_096).is_err());
    }

    #[test]
    fn a_file_must_have_a_name_and_not_that_of_lock_or_record() {
        for path in ["/", "/a/..", "/a/mc-host.lock", "/a/mc-host-lifecycle.json", ""] {
            let resolved = Location::resolve(&Environment::default(), &Place::File(path.into()));
            assert_eq!(resolved, Err(LocationError::NotAFile { path: path.into() }));
        }
    }

    #[test]
    fn an_explicit_relative_path_counts_from_here() {
        let here = std::env::current_dir().unwrap();
        let location = Location::resolve(&Environment::default(), &Place::File("c.json".into())).unwrap();
        assert_eq!(location.run_dir(), here);
    }

    #[test]
    fn the_default_identity_is_both_values_or_none() {
        let env = |m: Option<&str>, n: Option<&str>| Environment {
            module_id: m.map(Into::into),
            launch_nonce: n.map(Into::into),
            ..Environment::default()
        };
        assert_eq!(env(Some("m"), Some("n")).identity(), Some(("m", "n")));
        for (m, n) in [(None, Some("n")), (Some("m"), None), (Some(""), Some("n")), (Some("m"), Some(""))] {
            assert_eq!(env(m, n).identity(), None);
        }
        let shown = format!("{:?}", env(Some("secret-module"), Some("secret-nonce")));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
