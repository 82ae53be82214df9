//! `serve`: starting, refusing to start, and what is seen of it from outside.

use super::*;
use hostwire::discovery::{Environment, InstanceLock, Location, Place, RunDir, unix_now_ms};
use serde_json::json;

on_both_runtimes! {
    fn ready_says_where_it_is(runtime) {
        let host = Serving::start(runtime, &[]);
        assert_eq!(
            host.ready_line.trim_end(),
            format!(
                r#"{{"event":"ready","connection_file":"{}","port":{},"pid":{}}}"#,
                host.spot.file().display(),
                host.ready["port"],
                host.child.id()
            )
        );
        let probe = host.run(&["probe", "--json"]).line();
        assert_eq!((&probe["state"], &probe["lock"]), (&json!("running"), &json!("held")));
        assert_eq!(probe["publication"]["port"], host.ready["port"]);
        assert_eq!(probe["publication"]["pid"], host.child.id());
        assert_eq!(probe["record"]["phase"], "running");
    }

    fn an_explicit_file_names_the_run_directory(runtime) {
        let spot = Spot::new();
        let file = spot.make_run_dir().join("other.json");
        let arguments = ["--runtime", runtime, "--connection-file", file.to_str().unwrap()];
        let mut child = hostwire(&[&["serve"], &arguments[..]].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("other.json"), "{line}");
        assert!(spot.run_dir().join("mc-host.lock").exists());
        let ran = run(&[&["call", "--data", "x"], &arguments[..]].concat());
        assert_eq!((ran.stdout.as_str(), ran.code), ("x\n", Some(0)));
        assert_eq!(run(&[&["stop"], &arguments[..]].concat()).code, Some(0));
        assert!(child.wait().unwrap().success());
    }

    fn a_call_goes_over_the_transport_that_both_sides_want_most(runtime) {
        for (served, offered, over) in [
            ("tcp,unix", "unix,tcp", " over unix"),
            ("tcp,unix", "tcp,unix", " over tcp"),
            ("tcp", "unix,tcp", " over tcp"),
        ] {
            let host = Serving::start(runtime, &["--transport", served]);
            let ran = host.call("x", &["--transport", offered, "--verbose"]);
            assert_eq!((&ran.line()["body"], ran.code), (&json!("x"), Some(0)));
            assert!(ran.stderr.lines().any(|line| line.ends_with(over)), "{served} {offered}: {}", ran.stderr);
            let sockets = || {
                let left = std::fs::read_dir(host.spot.run_dir()).unwrap().filter_map(Result::ok);
                left.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "sock")).count()
            };
            // The host removes it on a thread of its own, behind the commit.
            for _ in 0..2_000 {
                if sockets() == 0 {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert_eq!(sockets(), 0, "{served} {offered}");
        }
    }

    fn a_second_host_is_told_that_one_runs(runtime) {
        let host = Serving::start(runtime, &[]);
        let ran = host.run(&["serve"]);
        let expected = format!("{{\"event\":\"already_running\",\"state\":\"running\",\"pid\":{}}}\n", host.child.id());
        assert_eq!((ran.code, &ran.stdout), (Some(3), &expected));
        ran.complains_of("already running");
        assert_eq!(host.call("x", &[]).code, Some(0), "the first one is not disturbed");
    }

    fn a_lock_that_is_held_without_a_host_is_wedged(runtime) {
        let spot = Spot::new();
        let location = Location::resolve(&Environment::default(), &Place::DataDir(spot.dir().into())).unwrap();
        let lock = InstanceLock::acquire(RunDir::open_or_create(&location).unwrap(), unix_now_ms).unwrap();
        let ran = spot.run(&["serve", "--runtime", runtime]);
        assert_eq!(ran.line(), json!({"event":"already_running","state":"wedged","pid":null}));
        assert_eq!(ran.code, Some(3));
        let probe = spot.run(&["probe", "--json"]);
        let expected = json!({"state":"wedged","lock":"held","record":"missing","publication":"missing"});
        assert_eq!((probe.line(), probe.code), (expected, Some(0)));
        // P9: asked in vain, and nothing is broken or removed.
        let ran = spot.run(&["stop", "--json", "--timeout", "700", "--runtime", runtime]);
        let line = ran.line();
        assert_eq!((&line["stopped"], &line["was_running"], ran.code), (&json!(false), &json!(true), Some(1)));
        ran.complains_of("has not ended");
        drop(lock);
        assert_eq!(spot.run(&["stop", "--runtime", runtime]).code, Some(0));
    }

    fn limits_that_cannot_hold_are_refused_by_name(runtime) {
        for (limit, bound) in [
            ("lab_reserved_pending=1024", "pending_requests"),
            ("lab_reserved_tasks=256", "handler_tasks"),
            ("pending_requests=4", "pending_requests"),
            ("handler_tasks=2", "handler_tasks"),
            ("resident_bytes=1000000", "resident_bytes"),
            ("routes=65536", "routes"),
        ] {
            let spot = Spot::new();
            let ran = spot.run(&["serve", "--runtime", runtime, "--limit", limit]);
            assert_eq!(ran.line(), json!({"event":"refused","bound":bound}), "V49: {limit}");
            assert_eq!(ran.code, Some(2), "{limit}");
            assert!(!spot.file().exists(), "V49: before publication");
            assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        }
    }

    fn what_is_configured_is_what_is_served(runtime) {
        let host = Serving::start(
            runtime,
            &[
                "--limit", "handshakes=4", "--limit", "connections=8", "--limit", "routes=1", "--limit", "pending_requests=64",
                "--limit", "handler_tasks=16", "--limit", "writer_frames=8", "--limit", "resident_bytes=300000000",
                "--liveness", "20,20000", "--frame-deadline", "20000", "--auth-deadline", "20000",
                "--shutdown-deadline", "20000", "--transport", "tcp",
            ],
        );
        // One route: while it is taken, nobody else gets one (B6).
        let mut hog = host.begin(r#"{"do":"hang"}"#, &[]);
        let refused = loop {
            let ran = host.call("x", &["--no-retry"]);
            if ran.code != Some(0) {
                break ran;
            }
            look_again();
        };
        let line = refused.line();
        assert_eq!((refused.code, &line["code"], &line["stage"]), (Some(1), &json!("target_unavailable"), &json!("route_open")));
        hog.kill().unwrap();
        hog.wait().unwrap();
        // Given back when its connection ended (K2).
        assert_eq!(host.call("x", &[]).code, Some(0));
    }

    fn an_insecure_run_directory_is_refused(runtime) {
        let refused = |spot: &Spot| {
            let ran = spot.run(&["serve", "--runtime", runtime]);
            assert_eq!((ran.line(), ran.code), (json!({"event":"refused","reason":"insecure"}), Some(2)), "{ran:?}");
            ran.complains_of("insecure");
        };
        let (spot, elsewhere) = (Spot::new(), Spot::new());
        elsewhere.make_run_dir();
        std::fs::create_dir(spot.0.path().join("cortexkit")).unwrap();
        std::os::unix::fs::symlink(elsewhere.run_dir(), spot.run_dir()).unwrap();
        refused(&spot);
        assert_eq!(std::fs::read_dir(elsewhere.run_dir()).unwrap().count(), 0, "nothing behind the link is touched");

        let spot = Spot::new();
        let target = spot.0.path().join("target");
        std::fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, spot.make_run_dir().join("mc-host.lock")).unwrap();
        refused(&spot);
    }
}

#[test]
fn a_probe_of_nothing_says_stopped_and_makes_nothing() {
    let spot = Spot::new();
    let ran = spot.run(&["probe", "--json"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.code),
        (
            "{\"state\":\"stopped\",\"lock\":\"free\",\"record\":\"missing\",\"publication\":\"missing\"}\n",
            Some(0)
        )
    );
    assert_eq!(std::fs::read_dir(spot.0.path()).unwrap().count(), 0);
    let ran = spot.run(&["probe"]);
    assert_eq!((ran.stdout.lines().next(), ran.code), (Some("stopped"), Some(0)));
}
