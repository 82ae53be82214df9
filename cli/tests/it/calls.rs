//! `call` and `catalog` against a host in another process: JSON and exit codes.

use super::*;
use serde_json::json;

/// Body, arguments, exit code, and the objects without what is checked for all: `bytes_handed`, `attempts`, `daemon_id`.
type Row = (&'static str, &'static [&'static str], i32, Vec<Value>);

fn response(binary: bool, body: &str) -> Value {
    json!({"outcome":"terminal","kind":"response","binary":binary,"body":body})
}

fn error(code: &str, message: &str) -> Value {
    json!({"outcome":"terminal","kind":"error","code":code,"message":message})
}

fn every_command() -> Vec<Row> {
    let item = |index: u64, body: &str| json!({"item":index,"binary":false,"body":body});
    let end = |items: u64| json!({"outcome":"terminal","kind":"stream_end","items":items});
    let unknown = |code: &str| json!({"outcome":"outcome_unknown","code":code});
    vec![
        ("plain text", &[], 0, vec![response(false, "plain text")]),
        ("plain bytes", &["--binary"], 0, vec![response(true, "plain bytes")]),
        (
            r#"{"do":"echo","value":{"a":[1,null]}}"#,
            &[],
            0,
            vec![response(false, r#"{"echo":{"a":[1,null]}}"#)],
        ),
        (r#"{"do":"sleep","ms":5}"#, &[], 0, vec![response(false, r#"{"slept":5}"#)]),
        (r#"{"do":"big","size":3}"#, &[], 0, vec![response(true, "\0\0\0")]),
        (
            r#"{"do":"stream","items":2,"size":9,"every_ms":1}"#,
            &["--stream"],
            0,
            vec![item(0, "\0\0\0\0\0\0\0\0\0"), item(1, "\u{1}\0\0\0\0\0\0\0\u{1}"), end(2)],
        ),
        (r#"{"do":"stream","items":0,"size":1,"every_ms":0}"#, &["--stream"], 0, vec![end(0)]),
        (
            r#"{"do":"stream","items":1,"size":1,"every_ms":0,"binary":true}"#,
            &["--stream"],
            0,
            vec![json!({"item":0,"binary":true,"body":"\0"}), end(1)],
        ),
        (
            r#"{"do":"stream_fail","items":1,"code":"broke"}"#,
            &["--stream"],
            1,
            vec![item(0, "\0\0\0\0\0\0\0\0"), error("broke", "failed, as the request asks")],
        ),
        (
            r#"{"do":"fail","code":"no_file","message":"not there"}"#,
            &[],
            1,
            vec![error("no_file", "not there")],
        ),
        (
            r#"{"do":"fail","code":"later","message":"m","retry_after_ms":50}"#,
            &[],
            1,
            vec![
                json!({"outcome":"terminal","kind":"error","code":"later","message":"m","retry_after_ms":50}),
            ],
        ),
        (r#"{"do":"panic"}"#, &[], 1, vec![error("internal_error", "internal error")]),
        (
            r#"{"do":"item_then_response"}"#,
            &["--stream"],
            1,
            vec![item(0, "\0\0\0\0\0\0\0\0"), error("internal_error", "internal error")],
        ),
        // F6, in all three shapes.
        (r#"{"do":"item_then_response"}"#, &[], 3, vec![unknown("unexpected_stream")]),
        (
            r#"{"do":"stream","items":0,"size":1,"every_ms":0}"#,
            &[],
            1,
            vec![json!({"outcome":"terminal","kind":"error","code":"unexpected_stream"})],
        ),
        (
            "no stream",
            &["--stream"],
            1,
            vec![json!({"outcome":"terminal","kind":"error","code":"unexpected_response"})],
        ),
        (r#"{"do":"hang"}"#, &["--timeout", "300"], 3, vec![unknown("deadline_expired")]),
        (r#"{"do":"hang"}"#, &["--stream", "--timeout", "300"], 3, vec![unknown("deadline_expired")]),
        (r#"{"do":"hang"}"#, &["--cancel-after", "300"], 3, vec![unknown("cancelled")]),
        (r#"{"do":"slow_stop","ms":10}"#, &["--cancel-after", "300"], 3, vec![unknown("cancelled")]),
        (
            r#"{"do":"hang"}"#,
            &["--cancel-after", "300", "--confirm-cancel", "20000"],
            1,
            vec![error("cancelled", "cancelled")],
        ),
        (
            r#"{"do":"slow_stop","ms":10}"#,
            &["--cancel-after", "300", "--confirm-cancel", "20000"],
            1,
            vec![error("cancelled", "cancelled")],
        ),
        // X4: no proof in time.
        (
            r#"{"do":"slow_stop","ms":4000}"#,
            &["--cancel-after", "300", "--confirm-cancel", "100"],
            3,
            vec![unknown("cancelled")],
        ),
        // X5: it had ended before.
        (
            r#"{"do":"sleep","ms":5}"#,
            &["--cancel-after", "20000"],
            0,
            vec![response(false, r#"{"slept":5}"#)],
        ),
    ]
}

on_both_runtimes! {
    fn every_lab_command_has_its_json_and_its_exit_code(runtime) {
        let host = Serving::start(runtime, &[]);
        let daemon_id = host.run(&["probe", "--json"]).line()["publication"]["daemon_id"].clone();
        for (body, arguments, code, expected) in every_command() {
            let ran = host.call(body, arguments);
            let mut lines = ran.lines();
            let last = lines.last_mut().unwrap().as_object_mut().unwrap();
            assert_eq!(last.remove("bytes_handed"), Some(json!(21 + body.len())), "{body} {ran:?}");
            assert_eq!(last.remove("attempts"), Some(json!(1)), "{body} {ran:?}");
            assert_eq!(last.remove("daemon_id").as_ref(), Some(&daemon_id), "{body} {ran:?}");
            assert_eq!((ran.code, lines), (Some(code), expected), "{body} {arguments:?}");
        }
    }

    fn a_request_without_time_is_not_sent(runtime) {
        let host = Serving::start(runtime, &[]);
        let before = host.stats();
        let ran = host.call("x", &["--timeout", "0"]);
        let line = ran.line();
        assert_eq!((ran.code, &line["outcome"], &line["code"]), (Some(2), &json!("not_sent"), &json!("deadline_expired")));
        assert_eq!((&line["bytes_handed"], &line["attempts"]), (&json!(0), &json!(0)), "E4");
        let ran = host.call("x", &["--route-timeout", "0"]);
        let line = ran.line();
        assert_eq!((ran.code, &line["outcome"], &line["code"]), (Some(2), &json!("not_sent"), &json!("deadline_expired")));
        assert_eq!(line["stage"], "route_open");
        // E4: neither was seen by the component. The first one's route was, and one each for the two looks.
        let after = host.stats();
        assert_eq!(after["dispatched"], before["dispatched"]);
        assert_eq!(after["binds"].as_u64().unwrap(), before["binds"].as_u64().unwrap() + 2);
    }

    fn a_route_that_is_refused_is_an_error_of_that_stage(runtime) {
        let host = Serving::start(runtime, &[]);
        for (arguments, code) in [
            (&["--session", "reject:closed"][..], "closed"),
            (&["--session", "reject"], "bind_rejected"),
            (&["--session", "panic"], "internal_error"),
            (&["--module", "lab-reserved", "--no-retry"], "target_unavailable"),
            (&["--module", "nobody", "--no-retry"], "unknown_module"),
        ] {
            let ran = host.call("x", arguments);
            let line = ran.line();
            assert_eq!((ran.code, &line["kind"], &line["stage"]), (Some(1), &json!("error"), &json!("route_open")));
            assert_eq!((&line["code"], &line["attempts"]), (&json!(code), &json!(1)), "{ran:?}");
        }
        let ran = host.call("x", &["--session", "slow:1"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        // R8: sent, and then nobody waited any more.
        let ran = host.call("x", &["--session", "slow:2000", "--route-timeout", "300"]);
        let line = ran.line();
        assert_eq!((ran.code, &line["code"], &line["stage"]), (Some(3), &json!("deadline_expired"), &json!("route_open")));
    }

    fn what_provably_did_not_run_is_tried_again_until_the_deadline(runtime) {
        let host = Serving::start(runtime, &[]);
        // By the doubling of O5 the last try that fits is at 775 ms: a slow machine still answers it in time.
        let ran = host.call("x", &["--module", "nobody", "--route-timeout", "1250"]);
        let line = ran.line();
        assert_eq!((ran.code, &line["code"]), (Some(1), &json!("unknown_module")), "{ran:?}");
        assert!(line["attempts"].as_u64().unwrap() > 1, "O4: {ran:?}");
    }

    fn a_busy_class_is_said_to_be_busy(runtime) {
        let host = Serving::start(runtime, &["--limit", "lab_reserved_pending=1", "--limit", "lab_reserved_tasks=1"]);
        let reserved = ["--kind", "management_surface", "--module", "lab-reserved"];
        let mut hog = host.begin(r#"{"do":"hang"}"#, &reserved);
        let busy = loop {
            let ran = host.call("x", &[&reserved[..], &["--no-retry"]].concat());
            if ran.code != Some(0) {
                break ran;
            }
            look_again();
        };
        let line = busy.line();
        assert_eq!((busy.code, &line["code"], &line["attempts"]), (Some(1), &json!("server_busy"), &json!(1)), "{busy:?}");
        // V48: the general class has room.
        assert_eq!(host.call("x", &["--no-retry"]).code, Some(0));
        hog.kill().unwrap();
        hog.wait().unwrap();
    }

    fn a_body_comes_from_an_argument_a_file_or_standard_input(runtime) {
        let host = Serving::start(runtime, &[]);
        let bytes = [0xff, 0x00, b'\n'];
        let file = host.spot.0.path().join("body");
        std::fs::write(&file, bytes).unwrap();
        let common = ["call", "--json", "--binary", "--runtime", runtime, "--data-dir", host.spot.dir()];
        let line = run_with(&common, &bytes).line();
        assert_eq!((&line["body_base64"], line.get("body")), (&json!("/wAK"), None));
        let line = run(&[&common[..], &["--data-file", file.to_str().unwrap()]].concat()).line();
        assert_eq!(line["body_base64"], "/wAK");
        // For people: the body and nothing else on stdout.
        let ran = host.run(&["call", "--data", "hello"]);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code), ("hello\n", "", Some(0)));
        let ran = host.run(&["call", "--data", "hello\n"]);
        assert_eq!(ran.stdout, "hello\n");
        let ran = host.run(&["call", "--data", r#"{"do":"fail","code":"c","message":"a\u001b[2J"}"#]);
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)));
        ran.complains_of("c: a\\u{1b}[2J");
    }

    fn a_body_over_the_limit_is_not_sent(runtime) {
        let host = Serving::start(runtime, &[]);
        let path = host.spot.0.path().join("large");
        std::fs::File::create(&path).unwrap().set_len((64 << 20) + 1).unwrap();
        let ran = host.run(&["call", "--json", "--data-file", path.to_str().unwrap()]);
        let line = ran.line();
        assert_eq!((ran.code, &line["code"]), (Some(2), &json!("body_too_large")), "{ran:?}");
        assert_eq!((&line["bytes_handed"], &line["attempts"]), (&json!(0), &json!(0)));
    }

    fn a_long_stream_that_comes_in_one_piece_is_printed_whole(runtime) {
        let host = Serving::start(runtime, &[]);
        let ran = host.call(r#"{"do":"stream","items":3000,"size":4,"every_ms":0}"#, &["--stream"]);
        let lines = ran.lines();
        assert_eq!((ran.code, lines.len()), (Some(0), 3001));
        assert!(lines.iter().take(3000).enumerate().all(|(index, line)| line["item"] == index));
        assert_eq!(lines[3000]["items"], 3000);
    }

    fn the_catalog_is_the_response_object(runtime) {
        let host = Serving::start(runtime, &[]);
        let version = env!("CARGO_PKG_VERSION");
        let entry = |id: &str, role: &str| {
            format!(r#"{{"module_id":"{id}","module_version":"{version}","roles":["{role}"],"control_ops":[]}}"#)
        };
        let (lab, reserved) = (entry("lab", "tool_provider"), entry("lab-reserved", "management_surface"));
        let whole = |modules: &str| {
            format!(
                "{{\"op\":\"catalog.list\",\"generation\":1,\"modules\":[{modules}],\
                 \"subc_ops\":[\"route.open\",\"catalog.list\",\"host.shutdown\",\"transport.negotiate\"]}}\n"
            )
        };
        for (arguments, modules) in [
            (&[][..], format!("{lab},{reserved}")),
            (&["--module-id", "lab-reserved"], reserved.clone()),
            (&["--module-id", "nobody"], String::new()),
        ] {
            let ran = host.run(&[&["catalog", "--json"], arguments].concat());
            assert_eq!((ran.code, ran.stdout), (Some(0), whole(&modules))); // V40
        }
        let ran = host.run(&["catalog"]);
        assert_eq!(ran.stdout, format!("lab {version} (tool_provider)\nlab-reserved {version} (management_surface)\n"));
    }
}

#[test]
fn the_members_stand_in_the_order_of_the_interface() {
    let host = Serving::start("tokio", &[]);
    let daemon_id =
        host.run(&["probe", "--json"]).line()["publication"]["daemon_id"].as_str().unwrap().to_owned();
    let rest =
        |handed: usize| format!("\"bytes_handed\":{handed},\"attempts\":1,\"daemon_id\":\"{daemon_id}\"}}\n");
    let ran = host.call("x", &[]);
    let head = r#"{"outcome":"terminal","kind":"response","binary":false,"body":"x","#;
    assert_eq!(ran.stdout, format!("{head}{}", rest(22)));
    let body = r#"{"do":"fail","code":"c","message":"m","retry_after_ms":50}"#;
    let head = r#"{"outcome":"terminal","kind":"error","code":"c","message":"m","retry_after_ms":50,"#;
    assert_eq!(host.call(body, &[]).stdout, format!("{head}{}", rest(21 + body.len())));
}
