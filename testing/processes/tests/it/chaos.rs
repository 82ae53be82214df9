//! Starting `chaos-child`, knowing every process of it, and being sure of their ends.

use crate::audit::Bench;
use hostwire::Runtime;
use hostwire::core::child::{Budget, Capture, Config, Phases};
use rustix::process::{Pid, Signal, test_kill_process};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::Duration;

/// Listens for the processes of one test, and kills them if it fails.
pub(crate) struct Control {
    dir: tempfile::TempDir,
    listener: UnixListener,
    /// Every process that has said its number, and the connection that ends with it.
    known: Vec<(u32, UnixStream)>,
}

impl Control {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("control")).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { dir, listener, known: Vec::new() }
    }

    /// `chaos-child` in this mode, under this control.
    pub(crate) fn command(&self, mode: &str, number: usize) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chaos-child"));
        command.arg(self.dir.path().join("control")).arg(mode).arg(number.to_string());
        command
    }

    /// Takes in who has come.
    fn accept(&mut self) {
        while let Ok((mut connection, _)) = self.listener.accept() {
            connection.set_nonblocking(false).unwrap();
            let mut line = String::new();
            if BufReader::new(&connection).read_line(&mut line).is_ok()
                && let Some(pid) = line.trim().strip_prefix("pid ").and_then(|pid| pid.parse().ok())
            {
                self.known.push((pid, connection.try_clone().unwrap()));
                let _ = connection.write_all(b"g");
            }
        }
    }

    /// Waits until so many processes have said who they are.
    pub(crate) async fn know<R: Runtime>(&mut self, bench: &Bench<R>, count: usize) {
        bench
            .until("the processes", || {
                self.accept();
                self.known.len() >= count
            })
            .await;
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.known.iter().map(|(pid, _)| *pid).collect()
    }

    fn lives(pid: u32) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        state.is_some_and(|stat| {
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            !fields.trim_start().starts_with(['Z', 'X'])
        })
    }

    /// Waits until every process of the test has ended.
    pub(crate) async fn all_gone<R: Runtime>(&mut self, bench: &Bench<R>) {
        self.accept();
        bench
            .until("the ends of all processes", || self.known.iter().all(|(pid, _)| !Self::lives(*pid)))
            .await;
    }

    pub(crate) fn all_gone_blocking(&mut self) {
        self.accept();
        for _ in 0..60_000 {
            if self.known.iter().all(|(pid, _)| !Self::lives(*pid)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("never ended: {:?}", self.pids());
    }

    /// Kills what is meant to live on.
    pub(crate) fn kill(&mut self) {
        self.accept();
        for (pid, _) in &self.known {
            if Self::lives(*pid)
                && let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw)
                && test_kill_process(pid).is_ok()
            {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A short grace, and all the time in the world for what is left as soon as it is done.
pub(crate) fn patient() -> Budget {
    let long = Duration::from_secs(30);
    let phases = Phases {
        grace: Duration::from_millis(100),
        term: long,
        kill: long,
        sweep: long,
        drain: Duration::from_millis(300),
        ..Phases::default()
    };
    Budget::around(phases).unwrap()
}

/// A child without input.
pub(crate) fn run() -> Config {
    Config { stdin: false, budget: patient(), stdout: Capture::Deliver(1 << 20), ..Config::default() }
}
