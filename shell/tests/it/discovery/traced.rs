//! What only a tracer can show: every step of a host's stay stopped, killed or failed, and every mode that was ever asked
//! for. `strace` does it from outside, so the code has no hooks for it. Without `strace` these tests say so and end.

use super::{Spot, document, example, mode, put};
use hostwire::discovery::{probe, unix_now_ms};
use hostwire_core::lifecycle::{HostState, LaunchId, Lock, Phase, PublicationEvidence, Record};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

const RECORD: &str = "\"mc-host-lifecycle.json\"";

const PUBLICATION: &str = "\"c.json\"";

/// One system call as `strace -f` prints it.
#[derive(Clone, Debug)]
struct Call {
    pid: i32,
    name: String,
    /// Arguments and result.
    rest: String,
    /// Which call of this name it was, from 1 on.
    ordinal: u32,
}

impl Call {
    fn succeeded(&self) -> bool {
        self.rest.contains(") ") && self.rest.contains("= 0")
    }
}

fn parse(log: &str) -> Vec<Call> {
    let mut counts = HashMap::new();
    log.lines()
        .filter_map(|line| {
            let (pid, call) = line.split_once(' ')?;
            let (name, rest) = call.trim_start().split_once('(')?;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return None;
            }
            let ordinal = counts.entry(name.to_owned()).or_insert(0);
            *ordinal += 1;
            Some(Call { pid: pid.parse().ok()?, name: name.into(), rest: rest.into(), ordinal: *ordinal })
        })
        .collect()
}

/// Where our code begins: the first step of the first walk.
fn ours(calls: &[Call]) -> &[Call] {
    let start = calls.iter().position(|call| call.rest.contains("\"/\", ") && call.rest.contains("O_PATH"));
    let end = calls.iter().position(|call| call.name == "exit_group");
    &calls[start.expect("a walk")..end.expect("an end")]
}

fn have_strace() -> bool {
    // Tracing may be forbidden as well as missing.
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let works = works.is_ok_and(|status| status.success());
    if !works {
        println!("skipped: strace is missing or may not trace here");
    }
    works
}

struct Run<'a> {
    spot: &'a Spot,
    command: &'a str,
    umask: &'a str,
    inject: String,
}

impl Run<'_> {
    fn log(&self) -> std::path::PathBuf {
        self.spot.temp.path().join("strace.log")
    }

    fn start(&self) -> Child {
        let script =
            format!("umask {}; exec strace -f -o \"$1\" {} \"$2\" \"$3\" \"$4\"", self.umask, self.inject);
        Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(self.log())
            .arg(example())
            .arg(self.command)
            .arg(self.spot.file())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn calls(&self) -> Vec<Call> {
        parse(&fs::read_to_string(self.log()).unwrap_or_default())
    }

    fn finish(&self) -> (ExitStatus, Vec<Call>) {
        let status = self.start().wait().unwrap();
        (status, self.calls())
    }
}

/// One undisturbed run.
fn trace(spot: &Spot, command: &str, umask: &str) -> Vec<Call> {
    let (status, calls) = Run { spot, command, umask, inject: String::new() }.finish();
    assert!(status.success());
    calls
}

fn bare() -> Spot {
    Spot::bare()
}

/// A killed predecessor's files.
fn leftovers() -> Spot {
    let spot = Spot::published();
    let record = Record {
        phase: Phase::Running,
        launch_id: LaunchId([9; 16]),
        daemon_id: document(1).credentials.daemon_id,
        payload_manifest_digest: None,
        pid: 9,
        written_at_ms: 1,
    };
    put(&spot.path("mc-host-lifecycle.json"), &record.render());
    put(&spot.path(".mc-host-00000000000000000000000000000000.tmp"), b"{\"schema\":1,\"wi");
    spot
}

/// What P8 says after these calls, followed call by call.
fn expected(calls: &[Call], left_over: bool) -> (HostState, Lock) {
    let mut held = false;
    let mut writes = 0;
    let mut record = left_over.then_some(HostState::Running);
    for call in calls.iter().filter(|call| call.succeeded()) {
        match call.name.as_str() {
            "flock" => held = call.rest.contains("LOCK_EX"),
            "unlinkat" if call.rest.contains(RECORD) => record = None,
            "renameat" if call.rest.contains(RECORD) => {
                record = Some([HostState::Starting, HostState::Running, HostState::Stopping][writes]);
                writes += 1;
            }
            _ => {}
        }
    }
    match (held, record) {
        (false, _) => (HostState::Stopped, Lock::Free),
        (true, Some(state)) => (state, Lock::Held),
        // After the grace.
        (true, None) => (HostState::Wedged, Lock::Held),
    }
}

/// The next start always succeeds, and nothing that lies about is open to anybody.
fn next_start_succeeds(spot: &Spot, at: &Call) {
    let seen = probe(&spot.location, unix_now_ms).unwrap();
    assert_eq!(seen.state, HostState::Stopped, "{at:?}");
    let tenure = spot.run();
    assert_eq!(probe(&spot.location, unix_now_ms).unwrap().state, HostState::Running, "{at:?}");
    drop(tenure);
    assert!(!spot.file().exists(), "{at:?}");
    for name in spot.names() {
        assert_eq!(mode(&spot.path(&name)), 0o600, "{name} {at:?}");
        // Whatever stays is a temporary, or the lock.
        assert!(name == "mc-host.lock" || name.ends_with(".tmp"), "{name} {at:?}");
    }
}

/// Stops a host after each of its system calls, probes it, kills it, and starts the next.
fn stop_probe_kill_everywhere(prepare: fn() -> Spot, left_over: bool) -> usize {
    let undisturbed = trace(&prepare(), "host", "000");
    let points = ours(&undisturbed);
    for point in points {
        let spot = prepare();
        let inject = format!("-e inject={}:signal=SIGSTOP:when={}", point.name, point.ordinal);
        let run = Run { spot: &spot, command: "host", umask: "000", inject };
        let mut tracer = run.start();
        // Waits for the event, not for a time: the bound is only there so that a broken test ends.
        let stopped = (0..6_000).any(|_| {
            let stopped = fs::read_to_string(run.log()).is_ok_and(|log| log.contains("stopped by SIGSTOP"));
            if !stopped {
                std::thread::sleep(Duration::from_millis(5));
            }
            stopped
        });
        assert!(stopped, "{point:?}");
        let calls = run.calls();
        let seen = probe(&spot.location, unix_now_ms).unwrap();
        assert_eq!((seen.state, seen.lock), expected(&calls, left_over), "after {point:?}: {seen:?}");
        // A publication is whole wherever the host stands.
        let whole =
            matches!(seen.publication, PublicationEvidence::Present { .. } | PublicationEvidence::Missing);
        assert!(whole, "after {point:?}: {seen:?}");
        if spot.run_dir().exists() {
            for name in spot.names() {
                assert_eq!(mode(&spot.path(&name)) & 0o077, 0, "{name} after {point:?}");
            }
        }
        kill_process(Pid::from_raw(calls[0].pid).unwrap(), Signal::KILL).unwrap();
        tracer.wait().unwrap();
        next_start_succeeds(&spot, point);
    }
    points.len()
}

// P7, P8, B148, B158
#[test]
fn a_host_stopped_and_killed_after_any_call_is_probed_rightly_and_succeeded() {
    if have_strace() {
        let kills = stop_probe_kill_everywhere(bare, false);
        assert!(kills >= 80, "{kills}");
    }
}

// P7, P8. Between the lock and `starting` the probe sees what a killed predecessor left behind: that is what P8 says of it.
#[test]
fn a_host_among_a_killed_ones_leftovers_is_probed_rightly_and_succeeded() {
    if have_strace() {
        let kills = stop_probe_kill_everywhere(leftovers, true);
        assert!(kills >= 80, "{kills}");
    }
}

// P7: here the call itself never happens.
#[test]
fn a_host_killed_before_any_call_is_succeeded() {
    if have_strace() {
        let undisturbed = trace(&bare(), "host", "022");
        let points = ours(&undisturbed);
        assert!(points.len() >= 80, "{}", points.len());
        for point in points {
            let spot = bare();
            let inject = format!("-e inject={}:signal=SIGKILL:when={}", point.name, point.ordinal);
            let (status, _) = Run { spot: &spot, command: "host", umask: "022", inject }.finish();
            assert!(!status.success(), "{point:?}");
            next_start_succeeds(&spot, point);
        }
    }
}

// P3, B142: from its creation on.
#[test]
fn no_file_is_ever_asked_for_with_a_mode_wider_than_0600() {
    if !have_strace() {
        return;
    }
    for umask in ["000", "0277"] {
        let spot = if umask == "000" { Spot::bare() } else { Spot::new() };
        let calls = trace(&spot, "host", umask);
        let mut created = 0;
        for call in ours(&calls) {
            match call.name.as_str() {
                "open" | "openat" if call.rest.contains("O_CREAT") => {
                    created += 1;
                    assert!(call.rest.contains(", 0600)"), "{call:?}");
                }
                "mkdirat" | "mkdir" => assert!(call.rest.contains(", 0700)"), "{call:?}"),
                "fchmod" => assert!(call.rest.contains(", 0600)"), "{call:?}"),
                "creat" | "chmod" | "fchmodat" | "umask" | "mknodat" | "linkat" => panic!("{call:?}"),
                _ => {}
            }
            if call.name.starts_with("open") {
                assert!(call.rest.contains("O_NOFOLLOW") && call.rest.contains("O_CLOEXEC"), "{call:?}");
            }
        }
        // The lock, three records, the publication.
        assert_eq!(created, 5);
    }
}

/// The steps of P7 among these calls, those that succeeded.
fn steps(calls: &[Call]) -> Vec<&'static str> {
    let step = |call: &Call| match call.name.as_str() {
        "flock" if call.rest.contains("LOCK_EX") => Some("lock"),
        "flock" => Some("unlock"),
        "renameat" if call.rest.contains(RECORD) => Some("record"),
        "renameat" => Some("publish"),
        "unlinkat" if call.rest.contains(RECORD) => Some("remove record"),
        "unlinkat" if call.rest.contains(PUBLICATION) => Some("unpublish"),
        _ => None,
    };
    calls.iter().filter(|call| call.succeeded()).filter_map(step).collect()
}

// P7
#[test]
fn the_steps_of_a_stay_come_in_their_order() {
    if have_strace() {
        let calls = trace(&bare(), "host", "022");
        let wanted =
            ["lock", "record", "publish", "record", "record", "unpublish", "remove record", "unlock"];
        assert_eq!(steps(ours(&calls)), wanted);
    }
}

// B142, P7: whatever fails on the way in is an error, and everything is taken back, in its order.
#[test]
fn a_failed_write_flush_mode_or_rename_leaves_nothing_behind() {
    if !have_strace() {
        return;
    }
    let undisturbed = trace(&Spot::new(), "host", "0277");
    let points = ours(&undisturbed).iter().filter_map(|call| {
        let error = match call.name.as_str() {
            // Not the last line of the example's output.
            "write" if !call.rest.starts_with("1,") => "ENOSPC",
            "fsync" => "EIO",
            "fchmod" => "EPERM",
            "renameat" => "EACCES",
            "openat" if call.rest.contains("O_EXCL") => "EMFILE",
            _ => return None,
        };
        Some((call, error))
    });
    let mut tried = HashMap::new();
    for (point, error) in points {
        *tried.entry(point.name.as_str()).or_insert(0) += 1;
        let spot = Spot::new();
        let inject = format!("-e inject={}:error={error}:when={}", point.name, point.ordinal);
        let (status, calls) = Run { spot: &spot, command: "host", umask: "0277", inject }.finish();
        assert_eq!(status.code(), Some(1), "{point:?}");
        assert_eq!(spot.names(), ["mc-host.lock"], "{point:?}");
        let failed = |call: &Call| call.name == point.name && call.ordinal == point.ordinal;
        let (before, after) = calls.split_at(calls.iter().position(failed).unwrap());
        let way_out: &[&str] = match steps(before).as_slice() {
            [] => &[],
            ["lock"] => &["unlock"],
            ["lock", "record"] => &["record", "remove record", "unlock"],
            ["lock", "record", "publish"] => &["record", "unpublish", "remove record", "unlock"],
            ["lock", "record", "publish", "record"] => &["unpublish", "remove record", "unlock"],
            other => panic!("{other:?}"),
        };
        assert_eq!(steps(after), way_out, "{point:?}");
        assert_eq!(probe(&spot.location, unix_now_ms).unwrap().state, HostState::Stopped, "{point:?}");
    }
    let wanted = [("write", 4), ("fsync", 1), ("fchmod", 5), ("renameat", 4), ("openat", 4)];
    assert_eq!(tried, HashMap::from(wanted));
}

// P8, P9
#[test]
fn a_probe_creates_changes_and_follows_nothing() {
    if !have_strace() {
        return;
    }
    let spot = Spot::new();
    let _tenure = spot.run();
    let calls = trace(&spot, "probe", "022");
    let mut locks = 0;
    for call in ours(&calls) {
        match call.name.as_str() {
            "open" | "openat" => {
                let reads =
                    ["O_CREAT", "O_TRUNC", "O_RDWR", "O_WRONLY"].iter().all(|f| !call.rest.contains(f));
                assert!(reads && call.rest.contains("O_NOFOLLOW"), "{call:?}");
            }
            "flock" => {
                locks += 1;
                assert!(call.rest.contains("LOCK_SH|LOCK_NB"), "{call:?}");
            }
            "write" => assert!(call.rest.starts_with("1,"), "{call:?}"),
            "fstat" | "newfstatat" | "read" | "close" | "fcntl" | "geteuid" | "mmap" | "munmap" | "brk"
            | "sigaltstack" => {}
            _ => panic!("{call:?}"),
        }
    }
    // Before and after the evidence.
    assert_eq!(locks, 2);
}

// The list in the module's documentation.
#[test]
fn a_healthy_snapshot_costs_the_calls_that_are_documented() {
    if !have_strace() {
        return;
    }
    let spot = Spot::published();
    let calls = trace(&spot, "client", "022");
    let directories = u32::try_from(spot.run_dir().components().count()).unwrap();
    let mut counts = HashMap::new();
    for call in ours(&calls).iter().take_while(|call| call.name != "write") {
        let kind = match call.name.as_str() {
            "open" | "openat" if call.rest.contains("O_PATH") => "step",
            // Debug builds of the standard library check descriptors before they close them.
            "fcntl" | "geteuid" | "munmap" | "mmap" | "brk" => continue,
            name => name,
        };
        *counts.entry(kind).or_insert(0) += 1;
    }
    let wanted = [
        ("step", directories),
        ("openat", 1),
        ("fstat", directories + 2),
        ("close", directories + 1),
        ("read", 1),
        ("newfstatat", 1),
    ];
    assert_eq!(counts, HashMap::from(wanted));
}
