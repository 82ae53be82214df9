//! `demo`, `bench`, `replay`, `completions`.

use super::*;
use serde_json::json;

on_both_runtimes! {
    fn the_demo_shows_every_end_and_all_hold(runtime) {
        let ran = run(&["demo", "--json", "--runtime", runtime]);
        let mut lines = ran.lines();
        assert_eq!(lines.pop(), Some(json!({"held":13,"failed":0})), "{ran:?}");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let steps: Vec<&str> = lines.iter().map(|line| line["step"].as_str().unwrap()).collect();
        assert_eq!(
            steps,
            [
                "start", "connect", "route", "call", "stream", "error", "deadline, unsent", "cancel", "confirmed cancel",
                "deadline, sent", "lost connection", "after the loss", "shutdown"
            ]
        );
        assert!(lines.iter().all(|line| line["held"] == true));
        let ran = run(&["demo", "--runtime", runtime]);
        assert!(ran.code == Some(0) && ran.stdout.ends_with("13 held, 0 failed\n"), "{ran:?}");
    }

    fn a_bench_counts_what_it_was_asked_for(runtime) {
        let host = Serving::start(runtime, &[]);
        for arguments in [
            &["--requests", "300", "--depth", "7", "--connections", "2", "--size", "100"][..],
            &["--requests", "20", "--stream-items", "5"],
        ] {
            let before = host.stats()["dispatched"].as_u64().unwrap();
            let ran = host.run(&[&["bench", "--json"], arguments].concat());
            let line = ran.line();
            assert_eq!((ran.code, &line["failed"]), (Some(0), &json!(0)), "{ran:?}");
            let requests = line["requests"].as_u64().unwrap();
            assert_eq!(requests.to_string(), arguments[1]);
            assert_eq!(host.stats()["dispatched"].as_u64().unwrap(), before + requests);
            let figures = ["p50", "p90", "p99", "max"].map(|name| line[name].as_u64().unwrap());
            assert!(figures.is_sorted() && figures[3] > 0 && line["rate"].as_f64().unwrap() > 0.0, "{ran:?}");
        }
        assert_eq!(run(&["bench", "--json", "--data-dir", Spot::new().dir()]).code, Some(2));
    }
}

#[test]
fn the_vectors_of_this_build_pass() {
    let files = hostwire_vectors::files();
    let ran = run(&["replay", files.join("header").to_str().unwrap(), files.join("proof").to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.ends_with(" passed, 0 failed\n") && !ran.stdout.starts_with('0'), "{ran:?}");
}

#[test]
fn a_vector_that_does_not_hold_is_shown_with_its_place() {
    let spot = Spot::new();
    let file = spot.0.path().join("wrong.vec");
    let text = "hostwire-vector 1\nkind: header\nabout: A claim that is wrong\n\ncase W1: it is said to be longer\nbytes\n  \
                len     02000000\n  ver     02\n  type    00\n  flags   02\n  channel 0000\n  epoch   00000000\n  \
                corr    0100000000000000\nresult frame type=Request len=3 channel=0 epoch=0 corr=1 binary=no \
                priority=interactive last=no admission=normal\n";
    std::fs::write(&file, text).unwrap();
    let ran = run(&["replay", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("wrong.vec:5") && ran.stdout.ends_with("0 passed, 1 failed\n"), "{ran:?}");
    let line = run(&["replay", "--json", file.to_str().unwrap()]).lines().pop();
    assert_eq!(line, Some(json!({"passed":0,"failed":1})));
    std::fs::write(&file, "nonsense\n").unwrap();
    let ran = run(&["replay", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(64));
    ran.complains_of("wrong.vec:1");
}

#[test]
fn the_manual_page_has_every_command() {
    let ran = run(&["man"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for command in
        ["demo", "serve", "call", "catalog", "stop", "probe", "record", "replay", "explain", "bench"]
    {
        assert!(ran.stdout.contains(&format!(".SH \"hostwire {command}\"")), "{command}");
    }
    assert!(ran.stdout.starts_with(".ie") && ran.stdout.contains("route\\-timeout"), "{}", ran.stdout);
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        assert!(ran.code == Some(0) && ran.stdout.contains("route-timeout"), "{shell}: {ran:?}");
    }
}
