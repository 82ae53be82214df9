//! The program as its users meet it: real processes, real sockets, both runtimes.
//!
//! Nothing here waits for a moment: a test waits for a line, a file, an answer, or the end of a process.

mod calls;
mod ends;
mod hosts;
mod others;
mod pages;
mod records;
mod runs;
mod strangers;
mod usage;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

const RUNTIMES: [&str; 2] = ["tokio", "smol"];

/// The program, in an environment that names no place and no identity.
fn hostwire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hostwire"));
    for variable in ["XDG_DATA_HOME", "HOME", "SUBC_MODULE_ID", "SUBC_LAUNCH_NONCE"] {
        command.env_remove(variable);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// What a process left behind.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn of(Output { status, stdout, stderr }: Output) -> Self {
        Self {
            code: status.code(),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    /// The objects on stdout.
    fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The one object on stdout.
    fn line(&self) -> Value {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{self:?}");
        lines.remove(0)
    }

    /// One clear line on stderr, and no panic.
    #[track_caller]
    fn complains_of(&self, part: &str) {
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(self.stderr.starts_with("hostwire: ") && self.stderr.contains(part), "{part}: {self:?}");
        assert!(!self.stderr.contains("panic"), "{self:?}");
    }
}

fn run(arguments: &[&str]) -> Ran {
    Ran::of(hostwire(arguments).output().unwrap())
}

/// Runs with standard input.
fn run_with(arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = hostwire(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

/// A data directory of its own.
struct Spot(tempfile::TempDir);

impl Spot {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn dir(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    fn run_dir(&self) -> PathBuf {
        self.0.path().join("cortexkit").join("run")
    }

    fn file(&self) -> PathBuf {
        self.run_dir().join("subc-connection.json")
    }

    /// The run directory, before any host made it.
    fn make_run_dir(&self) -> PathBuf {
        DirBuilder::new().recursive(true).mode(0o700).create(self.run_dir()).unwrap();
        self.run_dir()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        run(&[arguments, &["--data-dir", self.dir()]].concat())
    }
}

/// An owner-only file.
fn write_private(path: &Path, content: &[u8]) {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(content).unwrap();
}

/// A host that has said that it is ready. Killed when dropped.
struct Serving {
    spot: Spot,
    child: Child,
    stdout: BufReader<ChildStdout>,
    ready: Value,
    ready_line: String,
    runtime: &'static str,
}

impl Serving {
    fn start(runtime: &'static str, arguments: &[&str]) -> Self {
        let spot = Spot::new();
        let mut command = hostwire(&["serve", "--runtime", runtime, "--data-dir", spot.dir()]);
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["event"], "ready", "{line}");
        Self { spot, child, stdout, ready, ready_line: line, runtime }
    }

    /// Runs a command against it, on the same runtime.
    fn run(&self, arguments: &[&str]) -> Ran {
        self.spot.run(&[arguments, &["--runtime", self.runtime]].concat())
    }

    /// `call --json` with a body.
    fn call(&self, body: &str, arguments: &[&str]) -> Ran {
        self.run(&[&["call", "--json", "--data", body], arguments].concat())
    }

    /// The same, without waiting for it.
    fn begin(&self, body: &str, arguments: &[&str]) -> Child {
        hostwire(&[
            "call",
            "--json",
            "--data",
            body,
            "--runtime",
            self.runtime,
            "--data-dir",
            self.spot.dir(),
        ])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
    }

    fn stats(&self) -> Value {
        let line = self.call(r#"{"do":"stats"}"#, &[]).line();
        serde_json::from_str(line["body"].as_str().unwrap()).unwrap()
    }

    /// Waits until so many requests run in `lab`.
    fn wait_for_running(&self, expected: u64) {
        while self.stats()["running"] != expected {
            look_again();
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end. What it has written besides `ready`, and the status.
    fn end(mut self) -> (ExitStatus, String, String, Spot) {
        let (mut rest, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut rest).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = self.child.wait().unwrap();
        let spot = std::mem::replace(&mut self.spot, Spot::new());
        (status, rest, stderr, spot)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Between two looks at something that will come.
fn look_again() {
    std::thread::sleep(Duration::from_millis(10));
}

/// Defines a test for each runtime.
macro_rules! on_both_runtimes {
    ($($(#[$meta:meta])* fn $name:ident($runtime:ident) $body:block)+) => {
        $(mod $name {
            #[allow(unused_imports, reason = "not every test needs all of them")]
            use super::*;

            fn test($runtime: &'static str) $body

            #[test]
            fn on_tokio() {
                test(crate::RUNTIMES[0]);
            }

            #[test]
            fn on_smol() {
                test(crate::RUNTIMES[1]);
            }
        })+
    };
}
pub(crate) use on_both_runtimes;
