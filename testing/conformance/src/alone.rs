//! A test in a process of its own: for what belongs to the process, such as its descriptors, its threads and its signals.

use std::process::{Command, ExitStatus, Stdio};

const ALONE: &str = "HOSTWIRE_CONFORMANCE_ALONE";

/// Where this test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a process of its own.
    Alone,
    /// In the same process as others, which has just seen it pass alone.
    Passed,
}

/// Runs the calling test again, alone in a process; there it says [`Place::Alone`], and here, when that has passed, [`Place::Passed`].
///
/// It is found by the name of its thread, which is the test's own under Rust's test harness. Under another, the caller is taken to be alone.
///
/// # Panics
/// If the test fails there.
#[must_use]
pub fn alone() -> Place {
    if is_alone() {
        return Place::Alone;
    }
    let Some(status) = run_again("yes") else { return Place::Alone };
    assert!(status.success(), "alone in a process: {status}");
    Place::Passed
}

/// Whether this process was begun for one test.
#[must_use]
pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Whether this process was begun for one test to be a certain way.
#[must_use]
pub fn is_alone_as(way: &str) -> bool {
    std::env::var_os(ALONE).is_some_and(|value| value == way)
}

/// Runs the calling test again, alone in a process that knows that it is to be this way. `None`: the test has no name to be found by.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn run_again(way: &str) -> Option<ExitStatus> {
    let name = std::thread::current().name().filter(|name| name.contains("::")).map(str::to_owned)?;
    let program = std::env::current_exe().expect("a program");
    let output = Command::new(program)
        .args([name.as_str(), "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, way)
        .stdin(Stdio::null())
        .output()
        .expect("a process");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("running 1 test"), "{told}");
    if !output.status.success() {
        eprintln!("{told}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Some(output.status)
}
