//! A child that misbehaves on request: `chaos-child CONTROL MODE [N]`.
//!
//! `CONTROL` is a Unix socket, or `-` for none: every process of a mode connects, says `pid N`, and keeps the connection for as long as it
//! lives. Whoever listens knows every process, and sees the end of each. Nothing here sleeps to synchronize.

use rustix::process::{Signal, getpid, kill_process, setsid};
use std::io::{Read, Write, stderr, stdin, stdout};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio, exit};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::park;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, control, mode, rest @ ..] = &arguments[..] else {
        eprintln!("chaos-child CONTROL MODE [N]");
        exit(64);
    };
    let number: usize = rest.first().and_then(|text| text.parse().ok()).unwrap_or(0);
    let chaos = Chaos { control };
    // Kept until the end of the process: its closing is the news of that end.
    let connection = chaos.report(mode);
    chaos.run(mode, number);
    drop(connection);
}

struct Chaos<'a> {
    control: &'a str,
}

/// Forever, whatever wakes it.
fn hang() -> ! {
    loop {
        park();
    }
}

fn say(bytes: &[u8]) {
    let mut out = stdout().lock();
    // Whoever closes the pipe wants no more.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

impl Chaos<'_> {
    fn report(&self, mode: &str) -> Option<UnixStream> {
        if self.control == "-" {
            return None;
        }
        if mode.starts_with("ignoring") || mode == "stubborn" {
            ignore_term();
        }
        if mode.contains("session") || mode == "daemon-process" {
            let _ = setsid();
        }
        let mut connection = UnixStream::connect(self.control).ok()?;
        writeln!(connection, "pid {}", std::process::id()).ok()?;
        // The listener says when it has noted it.
        let mut go = [0];
        connection.read_exact(&mut go).ok()?;
        Some(connection)
    }

    /// A descendant, once it has said who it is: its input is a socket on which it says so.
    fn copy(&self, mode: &str, detached: bool) {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([self.control, mode]);
        if detached {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let (mut here, there) = UnixStream::pair().expect("a pair");
        // It outlives this process, which is the point.
        let child = command.stdin(Stdio::from(OwnedFd::from(there))).spawn();
        drop((command, child));
        let _ = here.read_exact(&mut [0]);
    }

    fn run(&self, mode: &str, number: usize) {
        match mode {
            "exit" => exit(i32::try_from(number).unwrap_or(1)),
            // Descendants that outlive the leader.
            "grandchild" => self.leave_behind("hold", false),
            "stubborn-grandchild" => self.leave_behind("stubborn", false),
            "session-grandchild" => self.leave_behind("session-hold", false),
            "daemon" => self.leave_behind("daemon-process", true),
            "hold" | "stubborn" | "session-hold" | "daemon-process" => {
                let _ = rustix::io::write(stdin(), b"r");
                hang();
            }
            // A leader that ends on TERM with a grandchild that does not.
            "with-stubborn" => {
                self.copy("stubborn", false);
                say(b"ready\n");
                hang();
            }
            "ignoring" => {
                say(b"ready\n");
                hang();
            }
            // It ignores TERM and has a grandchild.
            "ignoring-family" => {
                self.copy("stubborn", false);
                say(b"ready\n");
                hang();
            }
            "stopped" => {
                say(b"ready\n");
                let _ = kill_process(getpid(), Signal::STOP);
                hang();
            }
            // Bounded in number and, by whoever kills it, in time.
            "fork-loop" => {
                say(b"ready\n");
                for _ in 0..number {
                    let mut command = Command::new(std::env::current_exe().expect("this program"));
                    let _ = command.args(["-", "fork-leaf"]).stdin(Stdio::null()).spawn();
                }
                hang();
            }
            "fork-leaf" => hang(),
            "full-pipe" => {
                // Exactly what a pipe holds, so that it can go without having been read.
                say(&vec![b'x'; 65_536 - 15]);
                say(b"\nthe last line\n");
            }
            "endless-line" => loop {
                if stdout().write_all(&[b'y'; 4_096]).is_err() {
                    exit(1);
                }
            },
            "bytes" => {
                let chunk = vec![b'z'; 1 << 16];
                let mut left = number;
                while left > 0 {
                    let take = left.min(chunk.len());
                    say(&chunk[..take]);
                    left -= take;
                }
            }
            "chatty-stderr" => {
                let mut left = number;
                while left > 0 {
                    let take = left.min(4_096);
                    if stderr().write_all(&vec![b'e'; take]).is_err() {
                        exit(1);
                    }
                    left -= take;
                }
                say(b"done\n");
            }
            "close-stdout" => {
                let null = std::fs::OpenOptions::new().write(true).open("/dev/null").expect("/dev/null");
                let _ = rustix::stdio::dup2_stdout(null);
                hang();
            }
            "never-read" => {
                say(b"ready\n");
                hang();
            }
            "read-only" => {
                let _ = std::io::copy(&mut stdin(), &mut std::io::sink());
            }
            "echo" => {
                let _ = std::io::copy(&mut stdin(), &mut stdout());
            }
            "slow-answer" => {
                let mut text = Vec::new();
                let _ = stdin().read_to_end(&mut text);
                for byte in text {
                    say(&[byte]);
                }
            }
            "die-at" => {
                let mut taken = vec![0; number];
                let _ = stdin().read_exact(&mut taken);
                exit(7);
            }
            // So many probes, and it never reads an answer.
            "pings" => {
                for ping in 0..number {
                    say(format!("ping {ping}\n").as_bytes());
                }
                hang();
            }
            // Peers of a small line protocol: a hello, an answer, a verification, an index.
            "peer-good" => peer(&["hello 1", "proof right", "index 3"], true),
            "peer-error" => peer(&["error no"], true),
            "peer-malformed" => peer(&["\u{1}\u{2}"], true),
            "peer-version" => peer(&["hello 9"], true),
            "peer-proof" => peer(&["hello 1", "proof wrong"], true),
            "peer-silent" => peer(&[], true),
            "peer-half" => peer(&["hello 1"], true),
            "peer-unproven" => peer(&["hello 1", "proof right"], true),
            "peer-exit" => peer(&["hello 1"], false),
            other => {
                eprintln!("no such mode: {other}");
                exit(64);
            }
        }
    }

    /// A descendant stays, and the leader goes with a last word.
    fn leave_behind(&self, mode: &str, detached: bool) {
        self.copy(mode, detached);
        say(b"the last line\n");
    }
}

/// Answers the first line with these, one for each line that comes, and then stays or goes.
fn peer(answers: &[&str], stays: bool) {
    let mut lines = stdin().lines();
    for answer in answers {
        if !matches!(lines.next(), Some(Ok(_))) {
            return;
        }
        say(format!("{answer}\n").as_bytes());
    }
    if stays {
        while matches!(lines.next(), Some(Ok(_))) {}
    }
}

/// TERM is taken, and nothing is done about it.
fn ignore_term() {
    let taken = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, taken).expect("a handler");
}
