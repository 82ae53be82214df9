//! `run` and `serve --runner`: commands with real processes behind them.

use crate::{Ran, Serving, hostwire, look_again, on_both_runtimes, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn run_on(runtime: &str, command: &[&str]) -> Ran {
    run(&[&["run", "--runtime", runtime, "--"], command].concat())
}

fn lives(pid: u64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        !fields.trim_start().starts_with(['Z', 'X'])
    })
}

/// One request to the runner, and its answer's body.
fn ask(host: &Serving, body: &Value) -> (Ran, Value) {
    let ran = host.call(&body.to_string(), &["--module", "runner"]);
    let answer =
        ran.line()["body"].as_str().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
    (ran, answer)
}

on_both_runtimes! {
    fn the_commands_output_and_exit_code_are_those_of_run(runtime) {
        let ran = run_on(runtime, &["sh", "-c", "echo out; echo err >&2; exit 3"]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(3), "out\n", "err\n"));
        assert_eq!(run_on(runtime, &["true"]).code, Some(0));
        assert_eq!(run_on(runtime, &["sh", "-c", "kill -9 $$"]).code, Some(137));
        let ran = run_on(runtime, &["/nonexistent/program"]);
        assert_eq!(ran.code, Some(127));
        ran.complains_of("command_not_found");
        let ran = run_on(runtime, &["/etc/passwd"]);
        assert_eq!(ran.code, Some(126));
        ran.complains_of("command_not_executable");
        let ran = run(&["run", "--runtime", runtime]);
        assert_eq!(ran.code, Some(64));
        ran.complains_of("COMMAND");
    }

    fn json_says_what_happened_line_by_line(runtime) {
        let ran = run(&["run", "--json", "--runtime", runtime, "--", "sh", "-c", "echo out; printf '\\377' >&2; exit 4"]);
        assert_eq!(ran.code, Some(4));
        let lines = ran.lines();
        assert_eq!((&lines[0]["event"], lines[0]["pid"].is_u64()), (&json!("started"), true));
        let output: Vec<&Value> = lines.iter().filter(|line| line["event"] == "output").collect();
        assert!(output.iter().any(|line| line["stream"] == "stdout" && line["body"] == "out\n"));
        assert!(output.iter().any(|line| line["stream"] == "stderr" && line["body_base64"] == "/w=="));
        let end = lines.last().unwrap();
        assert_eq!((&end["event"], &end["outcome"], &end["exit_code"]), (&json!("ended"), &json!("completed"), &json!(4)));
        assert_eq!((&end["group"], &end["ended_by"]), (&json!("empty"), &json!("itself")));
    }

    fn nothing_of_a_long_output_is_lost_though_its_reader_is_slow(runtime) {
        let mut command = hostwire(&["run", "--runtime", runtime, "--", "seq", "1", "1500000"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut expected = 0_u64;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            expected += 1;
            assert_eq!(line.unwrap(), expected.to_string());
        }
        assert_eq!(expected, 1_500_000);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }

    /// The first field story, end to end: exit, a grandchild with the pipe, and it settles with the output.
    fn pd2_a_grandchild_that_holds_the_pipe_does_not_hold_run(runtime) {
        let ran = run_on(runtime, &["sh", "-c", "sleep 1000 & echo $!; echo last"]);
        assert_eq!(ran.code, Some(0));
        let mut lines = ran.stdout.lines();
        let grandchild = lines.next().unwrap().parse().unwrap();
        assert_eq!(lines.next(), Some("last"));
        assert!(!lives(grandchild));
        ran.complains_of("left: nobody");
    }

    /// PD3, PD4: with orphans that come to it, an escaped descendant is found and ended as well.
    fn pd3_an_escaped_descendant_is_ended_too(runtime) {
        let script = "setsid sh -c 'echo $$; exec sleep 1000 <&- >&- 2>&-' & sleep 0.3; echo last";
        let ran = run_on(runtime, &["sh", "-c", script]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let escaped = ran.stdout.lines().next().unwrap().parse().unwrap();
        assert!(!lives(escaped));
    }

    fn an_interrupted_run_takes_its_whole_group_with_it(runtime) {
        let mut command = hostwire(&["run", "--runtime", runtime, "--", "sh", "-c", "trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(137), "TERM was ignored: {ran:?}");
        assert!(!lives(line.trim().parse().unwrap()));
    }

    fn a_host_that_is_named_is_used_and_one_that_is_not_there_is_not_sent(runtime) {
        let host = Serving::start(runtime, &["--runner"]);
        let on = |host: &Serving, more: &[&str], command: &[&str]| {
            let dir = host.spot.dir();
            run(&[&["run", "--runtime", runtime, "--data-dir", dir], more, &["--"], command].concat())
        };
        let ran = on(&host, &[], &["sh", "-c", "echo $PPID"]);
        assert_eq!((ran.code, ran.stdout.trim()), (Some(0), host.child.id().to_string().as_str()));
        let nowhere = crate::Spot::new();
        let ran = run(&["run", "--runtime", runtime, "--json", "--data-dir", nowhere.dir(), "--", "true"]);
        assert_eq!((ran.code, &ran.line()["outcome"]), (Some(2), &json!("not_sent")));
        // Without --runner there is no such component.
        let host = Serving::start(runtime, &[]);
        let ran = on(&host, &["--json"], &["true"]);
        assert_eq!((ran.code, &ran.line()["code"]), (Some(1), &json!("unknown_module")));
    }

    fn a_run_outlives_the_connection_that_started_it_and_can_be_asked_for_and_cancelled(runtime) {
        let host = Serving::start(runtime, &["--runner"]);
        let script = "echo first; sleep 1000 & echo second; wait";
        let (ran, started) = ask(&host, &json!({"op":"run.start","command":["sh","-c",script]}));
        assert_eq!(ran.code, Some(0));
        let (run, pid) = (started["run"].clone(), started["pid"].as_u64().unwrap());
        // Another connection.
        let status = || ask(&host, &json!({"op":"run.status","run":run})).1;
        while status()["next"].as_u64() == Some(0) {
            look_again();
        }
        assert_eq!((&status()["state"], lives(pid)), (&json!("running"), true));
        let (ran, cancelled) = ask(&host, &json!({"op":"run.cancel","run":run}));
        assert_eq!((ran.code, &cancelled["cancelled"], &cancelled["outcome"]), (Some(0), &json!(true), &json!("completed")));
        assert!(!lives(pid), "success means that it is gone");
        // From the start, and from an index.
        while status()["state"] != "ended" {
            look_again();
        }
        let all = host.call(&json!({"op":"run.subscribe","run":run}).to_string(), &["--module", "runner", "--stream"]);
        assert_eq!(all.code, Some(0));
        let next = status()["next"].as_u64().unwrap();
        let items = all.lines();
        assert_eq!(items.len() as u64, next + 2, "its output, the end, and the stream's");
        let end: Value = serde_json::from_str(items[items.len() - 2]["body"].as_str().unwrap()).unwrap();
        assert_eq!((&end["event"], &end["cause"]), (&json!("ended"), &json!("cancelled")));
        let tail = host.call(&json!({"op":"run.subscribe","run":run,"from":next}).to_string(), &["--module", "runner", "--stream"]);
        assert_eq!(tail.lines().len(), 2);
        // Again, and unknown ones.
        let (ran, again) = ask(&host, &json!({"op":"run.cancel","run":run}));
        assert_eq!((ran.code, &again["outcome"]), (Some(0), &json!("completed")));
        for unknown in ["0000000000000000-1", "nonsense", "", "-1"] {
            let (ran, answer) = ask(&host, &json!({"op":"run.status","run":unknown}));
            assert_eq!((ran.code, &answer["state"]), (Some(0), &json!("missing")));
            let (ran, _) = ask(&host, &json!({"op":"run.cancel","run":unknown}));
            assert_eq!((ran.code, &ran.line()["code"]), (Some(1), &json!("missing")));
        }
        let (ran, _) = ask(&host, &json!({"op":"run.dance"}));
        assert_eq!(&ran.line()["code"], &json!("invalid_request"));
    }

    fn a_cancel_that_cannot_be_confirmed_is_no_success(runtime) {
        let host = Serving::start(runtime, &["--runner"]);
        // A process that nobody can tell to be the run's: it has left its group and its mark, but holds the pipe.
        let script = "env -i setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000";
        let (_, started) = ask(&host, &json!({"op":"run.start","command":["sh","-c",script]}));
        let run = started["run"].clone();
        while ask(&host, &json!({"op":"run.status","run":run})).1["next"].as_u64() == Some(0) {
            look_again();
        }
        let (ran, _) = ask(&host, &json!({"op":"run.cancel","run":run}));
        assert_eq!((ran.code, &ran.line()["code"]), (Some(1), &json!("teardown_unconfirmed")));
        let output = host.call(&json!({"op":"run.subscribe","run":run,"items":1}).to_string(), &["--module", "runner", "--stream"]);
        let stranger = std::str::from_utf8(&base64(output.lines()[0]["body"].as_str().unwrap())).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(stranger).unwrap(), Signal::KILL).unwrap();
    }

    fn a_hosts_end_takes_its_runs_with_it_and_after_a_restart_they_are_missing(runtime) {
        let host = Serving::start(runtime, &["--runner"]);
        let (_, started) = ask(&host, &json!({"op":"run.start","command":["sh","-c","trap '' TERM; echo x; sleep 1000; sleep 1000"]}));
        let pid = started["pid"].as_u64().unwrap();
        host.signal(Signal::TERM);
        let (status, _, stderr, _) = host.end();
        assert_eq!(status.code(), Some(0), "{stderr}");
        assert!(!lives(pid));
        let host = Serving::start(runtime, &["--runner"]);
        let (_, answer) = ask(&host, &json!({"op":"run.status","run":started["run"]}));
        assert_eq!(answer["state"], "missing");
    }
}

/// An item's output, behind its header: bytes that are text as a whole come as text.
fn base64(body: &str) -> Vec<u8> {
    body.as_bytes()[9..].to_vec()
}
