//! How a host ends, and how calls end with it.

use super::*;
use serde_json::json;

/// Nothing of the host is left but the lock's file, which is never removed.
#[track_caller]
fn nothing_left(spot: &Spot) {
    let names: Vec<_> =
        std::fs::read_dir(spot.run_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["mc-host.lock"]);
    assert_eq!(spot.run(&["probe", "--json"]).line()["state"], "stopped");
}

on_both_runtimes! {
    fn a_signal_ends_it_in_order_and_nothing_is_left(runtime) {
        for signal in [Signal::TERM, Signal::INT] {
            let host = Serving::start(runtime, &[]);
            assert_eq!(host.call("x", &[]).code, Some(0));
            host.signal(signal);
            let (status, rest, stderr, spot) = host.end();
            assert_eq!((status.code(), rest.as_str(), stderr.as_str()), (Some(0), "", ""));
            nothing_left(&spot);
        }
    }

    fn a_second_signal_ends_it_at_once(runtime) {
        let host = Serving::start(runtime, &[]);
        let mut call = host.begin(r#"{"do":"slow_stop","ms":600000}"#, &[]);
        host.wait_for_running(1);
        host.signal(Signal::TERM);
        while host.spot.file().exists() {
            look_again(); // the shutdown has begun, and waits for the handler
        }
        host.signal(Signal::TERM);
        let (status, _, stderr, _spot) = host.end();
        assert_eq!((status.code(), stderr.as_str()), (Some(1), "hostwire: second signal: ending at once\n"));
        call.wait().unwrap();
    }

    fn requests_in_flight_get_their_terminal_before_the_end(runtime) {
        let host = Serving::start(runtime, &["--shutdown-deadline", "500"]);
        let call = host.begin(r#"{"do":"hang"}"#, &[]);
        host.wait_for_running(1);
        host.signal(Signal::TERM);
        let ran = Ran::of(call.wait_with_output().unwrap());
        let line = ran.line();
        assert_eq!((ran.code, &line["kind"], &line["code"]), (Some(1), &json!("error"), &json!("cancelled")), "{ran:?}");
        let (status, ..) = host.end();
        assert_eq!(status.code(), Some(0));
    }

    fn a_host_that_is_killed_leaves_the_outcome_unknown(runtime) {
        let host = Serving::start(runtime, &[]);
        let call = host.begin(r#"{"do":"hang"}"#, &[]);
        host.wait_for_running(1);
        host.signal(Signal::KILL);
        let ran = Ran::of(call.wait_with_output().unwrap());
        let line = ran.line();
        let got = (ran.code, &line["outcome"], &line["code"], &line["bytes_handed"]);
        assert_eq!(got, (Some(3), &json!("outcome_unknown"), &json!("connection_lost"), &json!(34)), "{ran:?}");
        let (.., spot) = host.end();
        assert_eq!(spot.run(&["probe", "--json"]).line()["state"], "stopped", "the lock went with the process");
        // What it left behind is no host.
        let ran = spot.run(&["call", "--json", "--data", "x"]);
        assert_eq!((ran.code, &ran.line()["code"]), (Some(2), &json!("dial_failed")));
    }

    fn stop_ends_a_host_and_waits_for_its_end(runtime) {
        let host = Serving::start(runtime, &[]);
        // Its end takes a while: a handler needs its time to stop.
        let mut call = host.begin(r#"{"do":"slow_stop","ms":1500}"#, &[]);
        host.wait_for_running(1);
        let ran = host.run(&["stop", "--json"]);
        let line = ran.line();
        assert_eq!((&line["stopped"], &line["was_running"], ran.code), (&json!(true), &json!(true), Some(0)), "{ran:?}");
        assert!(ran.stdout.starts_with(r#"{"stopped":true,"was_running":true,"ms":"#), "{ran:?}");
        nothing_left(&host.spot);
        call.wait().unwrap();
        let (status, .., spot) = host.end();
        assert_eq!(status.code(), Some(0));
        let line = spot.run(&["stop", "--json", "--runtime", runtime]).line();
        assert_eq!((&line["stopped"], &line["was_running"]), (&json!(true), &json!(false)));
    }

    fn a_reader_that_has_seen_enough_ends_a_call_quietly(runtime) {
        let host = Serving::start(runtime, &[]);
        let mut call = host.begin(r#"{"do":"stream","items":1000000,"size":64,"every_ms":0}"#, &["--stream"]);
        let mut first = String::new();
        let mut stdout = BufReader::new(call.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        assert!(first.starts_with(r#"{"item":0,"#), "{first}");
        drop(stdout);
        let ran = Ran::of(call.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    }
}
