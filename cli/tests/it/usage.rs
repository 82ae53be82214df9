//! Bad usage: 64, and one line that says what.

use super::*;

#[test]
fn a_bad_argument_is_64_and_one_line_that_names_it() {
    for (arguments, part) in [
        (&[][..], "subcommand"),
        (&["fly"], "fly"),
        (&["record"], "--out-dir"),
        (&["record", "--out-dir", "x", "--max-body", "much"], "--max-body"),
        (&["record", "--out-dir", "x", "--max-body", "5", "--no-bodies"], "--no-bodies"),
        (&["call", "--nonsense"], "--nonsense"),
        (&["call", "--timeout", "soon"], "--timeout"),
        (&["call", "--timeout", "-1"], "-1"),
        (&["call", "--runtime", "async-std"], "--runtime"),
        (&["call", "--transport", "udp"], "--transport"),
        (&["call", "--transport", "tcp,tcp"], "--transport"),
        (&["call", "--transport", "unix"], "--transport"),
        (&["serve", "--transport", "unix,tcp,unix"], "--transport"),
        (&["call", "--data", "x", "--data-file", "y"], "--data"),
        (&["call", "--confirm-cancel", "5"], "--cancel-after"),
        (&["call", "--data", "x", "--project-root", "relative"], "project_root"),
        (&["call", "--data", "x", "--session", ""], "session"),
        (&["call", "--data-file", "/nonexistent/file"], "/nonexistent/file"),
        (&["call", "--data-file", "/"], "cannot read /"),
        (&["catalog", "--module-id", ""], "module_id"),
        (&["call", "--connection-file", "/a", "--data-dir", "/b"], "--data-dir"),
        (&["--connection-file", "/a", "call", "--data-dir", "/b"], "--data-dir"),
        (&["probe", "--quiet", "--verbose"], "--quiet"),
        (&["probe"], "data directory"),
        (&["probe", "--connection-file", "/"], "file"),
        (&["stop"], "data directory"),
        (&["serve"], "data directory"),
        (&["serve", "--limit", "routes"], "NAME=VALUE"),
        (&["serve", "--limit", "roots=5"], "no such limit"),
        (&["serve", "--limit", "routes=0"], "zero"),
        (&["serve", "--limit", "lab_reserved_tasks=0"], "zero"),
        (&["serve", "--limit", "routes=many"], "many"),
        (&["serve", "--liveness", "0,5"], "zero"),
        (&["serve", "--liveness", "5"], "--liveness"),
        (&["serve", "--frame-deadline", "0"], "zero"),
        (&["serve", "--auth-deadline", "0"], "zero"),
        (&["serve", "--shutdown-deadline", "0"], "zero"),
        (&["stop", "--timeout", "x"], "--timeout"),
        (&["replay"], "PATH"),
        (&["replay", "/nonexistent.vec"], "/nonexistent.vec"),
        (&["replay", "--target", "moon", "x"], "--target"),
        (&["bench", "--depth", "0"], "--depth"),
        (&["completions", "dos"], "dos"),
    ] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{arguments:?} {ran:?}");
        ran.complains_of(part);
    }
}

#[test]
fn help_and_version_are_results() {
    let ran = run(&["--version"]);
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("hostwire {}\n", env!("CARGO_PKG_VERSION"))));
    let ran = run(&["--help"]);
    assert_eq!(ran.code, Some(0));
    for command in [
        "demo",
        "serve",
        "call",
        "catalog",
        "stop",
        "probe",
        "record",
        "replay",
        "explain",
        "bench",
        "completions",
    ] {
        assert!(ran.stdout.contains(&format!("\n  {command} ")), "{command}");
        let help = run(&[command, "--help"]);
        assert!(help.code == Some(0) && help.stdout.contains("Usage: hostwire"), "{help:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_said_and_a_closed_one_is_not() {
    let spot = Spot::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = hostwire(&["probe", "--json", "--data-dir", spot.dir()]).stdout(full).output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, Some(64));
    ran.complains_of("cannot write to stdout");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran =
        Ran::of(hostwire(&["probe", "--json", "--data-dir", spot.dir()]).stdout(writer).output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}
