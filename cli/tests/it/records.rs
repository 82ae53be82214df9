//! `record`, and what becomes of its recordings.

use super::*;
use std::os::unix::fs::PermissionsExt;

/// A proxy that has said that it is ready. Killed when dropped.
struct Recording {
    child: Child,
    stdout: BufReader<ChildStdout>,
    connection_file: PathBuf,
    port: u16,
    out: tempfile::TempDir,
}

impl Recording {
    fn start(host: &Serving, arguments: &[&str]) -> Self {
        let out = tempfile::tempdir().unwrap();
        let dir = out.path().join("recordings");
        let mut command =
            hostwire(&["record", "--json", "--data-dir", host.spot.dir(), "--runtime", host.runtime]);
        command.args(["--out-dir", dir.to_str().unwrap()]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["event"], "ready", "{line}");
        let connection_file = ready["connection_file"].as_str().unwrap().into();
        let port = u16::try_from(ready["port"].as_u64().unwrap()).unwrap();
        Self { child, stdout, connection_file, port, out }
    }

    fn dir(&self) -> PathBuf {
        self.out.path().join("recordings")
    }

    fn begin(&self, arguments: &[&str]) -> Child {
        let mut command = hostwire(&["--json", "--connection-file", self.connection_file.to_str().unwrap()]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.begin(arguments).wait_with_output().unwrap())
    }

    /// The next thing that it says.
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Ends it with a signal, and gives its folder, its exit code and what it still said.
    fn end(mut self) -> (PathBuf, tempfile::TempDir, Option<i32>, Vec<Value>) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let code = self.child.wait().unwrap().code();
        let lines = rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let out = std::mem::replace(&mut self.out, tempfile::tempdir().unwrap());
        (out.path().join("recordings"), out, code, lines)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// The recordings, with their text.
fn recordings(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[track_caller]
fn replays(dir: &Path) {
    let ran = run(&["replay", dir.to_str().unwrap()]);
    assert!(ran.code == Some(0) && ran.stdout.ends_with(" passed, 0 failed\n"), "{ran:?}");
}

/// Whether a cancel or a deadline comes before the first byte or behind it is the machine's to say; both are recorded.
const ANY: i32 = -1;

on_both_runtimes! {
    fn a_session_of_calls_is_recorded_without_a_secret_and_plays_again(runtime) {
        let host = Serving::start(runtime, &[]);
        let recording = Recording::start(&host, &[]);
        let file = recording.connection_file.clone();
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        let original: Value = serde_json::from_slice(&std::fs::read(host.spot.file()).unwrap()).unwrap();
        let copy: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(copy["key"], original["key"]);
        assert_ne!(copy["endpoints"], original["endpoints"]);
        for (arguments, code) in [
            (&["call", "--data", r#"{"do":"echo","value":"zebra"}"#][..], 0),
            (&["call", "--data", r#"{"do":"stream","items":9,"size":20}"#, "--stream"], 0),
            (&["call", "--data", r#"{"do":"stream_fail","items":2,"code":"mid"}"#, "--stream"], 1),
            (&["call", "--data", r#"{"do":"hang"}"#, "--cancel-after", "50", "--confirm-cancel", "30000"], ANY),
            (&["call", "--data", r#"{"do":"hang"}"#, "--cancel-after", "50"], ANY),
            (&["call", "--data", r#"{"do":"hang"}"#, "--timeout", "50"], ANY),
            (&["call", "--data", r#"{"do":"fail","code":"nope","message":"a \"b\" \\","retry_after_ms":7}"#], 1),
            (&["call", "--data", r#"{"do":"panic"}"#], 1),
            (&["call", "--data", "x", "--session", "reject:no.way"], 1),
            (&["call", "--data", "x", "--module", "nobody", "--no-retry"], 1),
            (&["call", "--data", "x", "--kind", "strange", "--no-retry"], 1),
            (&["call", "--data", "\u{1}\u{2}", "--binary", "--transport", "unix,tcp"], 0),
            (&["catalog"], 0),
            (&["catalog", "--module-id", "lab"], 0),
            (&["bench", "--requests", "40", "--depth", "8", "--connections", "2"], 0),
            (&["bench", "--requests", "6", "--depth", "3", "--stream-items", "4"], 0),
        ] {
            let ran = recording.run(arguments);
            assert!(code == ANY || ran.code == Some(code), "{arguments:?} {ran:?}");
        }
        let (dir, _out, code, lines) = recording.end();
        assert_eq!(code, Some(0));
        assert_eq!(lines.last().unwrap()["connections"], 17, "{lines:?}");
        assert!(lines.iter().all(|line| line["event"] != "recorded" || line["frames"].as_u64() > Some(0)));
        assert!(!file.exists() && !file.parent().unwrap().exists(), "the copy holds the key");
        let key = original["key"].to_string();
        let hex: String =
            original["key"].as_array().unwrap().iter().map(|byte| format!("{:02x}", byte.as_u64().unwrap())).collect();
        let texts = recordings(&dir);
        assert_eq!(texts.len(), 17);
        for (path, text) in &texts {
            assert_eq!(mode(path), 0o600);
            for secret in [key.as_str(), &hex, "nonce", "proof", "client_auth"] {
                assert!(!text.contains(secret), "{secret} in {}", path.display());
            }
        }
        assert!(texts[0].1.contains("zebra"));
        replays(&dir);
    }

    fn a_recording_survives_whoever_dies(runtime) {
        let mut host = Serving::start(runtime, &[]);
        let mut recording = Recording::start(&host, &[]);
        // A client that is killed while it waits.
        let mut client = recording.begin(&["call", "--data", r#"{"do":"hang"}"#]);
        host.wait_for_running(1);
        client.kill().unwrap();
        client.wait().unwrap();
        let line = recording.line();
        assert_eq!((&line["event"], &line["ended"]), (&"recorded".into(), &"eof".into()), "{line}");
        // A client that says nothing, and one that talks nonsense.
        for said in [&b""[..], b"\x05", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 5000]] {
            let mut socket = std::net::TcpStream::connect(("127.0.0.1", recording.port)).unwrap();
            socket.write_all(said).unwrap();
            drop(socket);
            assert_eq!(recording.line()["ended"], "in the handshake");
        }
        // A host that is killed while it works.
        let client = recording.begin(&["call", "--data", r#"{"do":"hang"}"#]);
        host.wait_for_running(1);
        host.child.kill().unwrap();
        let ran = Ran::of(client.wait_with_output().unwrap());
        assert_eq!((ran.code, &ran.line()["code"]), (Some(3), &"connection_lost".into()), "{ran:?}");
        assert_eq!(recording.line()["ended"], "by the host");
        // Nobody is there any more.
        let ran = recording.run(&["call", "--data", "x"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let (dir, _out, code, _) = recording.end();
        assert_eq!(code, Some(0));
        replays(&dir);
    }

    fn what_leaves_for_another_transport_is_said_and_its_descriptor_is_not(runtime) {
        let host = Serving::start(runtime, &["--transport", "tcp,unix"]);
        let mut recording = Recording::start(&host, &[]);
        // Our client goes to no socket outside its discovery file's folder (N14).
        let ran = recording.run(&["call", "--data", "x", "--transport", "unix,tcp"]);
        assert_eq!((ran.code, &ran.line()["code"]), (Some(2), &"negotiation_failed".into()), "{ran:?}");
        let line = recording.line();
        assert_eq!((&line["ended"], &line["left_for"]), (&"left".into(), &"unix".into()), "{line}");
        let (dir, _out, _, _) = recording.end();
        let (_, text) = recordings(&dir).remove(0);
        assert!(text.contains("# left: unix was selected"), "{text}");
        assert!(!text.contains("descriptor") && !text.contains("activation_token") && !text.contains(host.spot.dir()));
        replays(&dir);
    }

    fn bodies_are_cut_or_left_out_and_what_is_left_still_plays(runtime) {
        let host = Serving::start(runtime, &[]);
        let zebras = format!(r#"{{"do":"echo","value":"{}"}}"#, "zebra ".repeat(10_000));
        let body = host.spot.0.path().join("body");
        std::fs::write(&body, &zebras).unwrap();
        for (arguments, kept) in [(&["--no-bodies"][..], false), (&["--max-body", "100"], true)] {
            let recording = Recording::start(&host, arguments);
            assert_eq!(recording.run(&["call", "--data-file", body.to_str().unwrap()]).code, Some(0));
            assert_eq!(recording.run(&["call", "--data", r#"{"do":"fail","code":"c","message":"zebra"}"#]).code, Some(1));
            let (dir, _out, _, lines) = recording.end();
            assert_eq!(lines[0]["cut_bodies"], 2, "{lines:?}");
            let texts = recordings(&dir);
            assert!(texts[0].1.len() < 20_000);
            for (_, text) in &texts {
                assert_eq!(text.contains("zebra"), kept, "{text}");
            }
            replays(&dir);
        }
    }
}

#[test]
fn a_recording_without_its_end_is_one_line_and_can_still_be_looked_at() {
    let host = Serving::start("tokio", &[]);
    let recording = Recording::start(&host, &[]);
    let client = recording.begin(&["call", "--data", r#"{"do":"hang"}"#, "--timeout", "60000"]);
    host.wait_for_running(1);
    let path = recording.dir().join("connection-0001.vec");
    let text = std::fs::read_to_string(&path).unwrap();
    let looks = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let ran = run(&["replay", path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(64), "{ran:?}");
        ran.complains_of("connection-0001.vec");
        run(&["explain", path.to_str().unwrap()])
    };
    for cut in [text.len(), text.len() - 5, text.len() - 300] {
        let ran = looks(&text[..cut]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        assert!(
            ran.stdout.contains("route.open") && ran.stdout.contains("this recording has no end"),
            "{ran:?}"
        );
    }
    let ran = looks(&text.replace("  epoch   ", "  epoch   zz"));
    assert!(ran.stdout.contains("no end"), "{ran:?}");
    let ran = looks("");
    assert_eq!(ran.code, Some(64));
    ran.complains_of("connection-0001.vec:1");
    drop(recording);
    let mut client = client;
    client.wait().unwrap();
}

#[test]
fn what_cannot_be_recorded_is_one_line() {
    let spot = Spot::new();
    let ran = spot.run(&["record", "--out-dir", spot.dir()]);
    assert_eq!(ran.code, Some(64));
    ran.complains_of("no host to record");
    let host = Serving::start("tokio", &[]);
    let ran = host.run(&["record", "--out-dir", "/proc/nothing"]);
    assert_eq!(ran.code, Some(64));
    ran.complains_of("/proc/nothing");
    let file = host.spot.0.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let ran = host.run(&["record", "--out-dir", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(64));
    ran.complains_of("file");
}

#[test]
fn a_recording_that_cannot_be_written_ends_and_its_connection_does_not() {
    let host = Serving::start("tokio", &[]);
    let recording = Recording::start(&host, &[]);
    std::fs::remove_dir_all(recording.dir()).unwrap();
    // The connection file is gone with its folder: dial as the program would with the original's key.
    let original = std::fs::read_to_string(host.spot.file()).unwrap();
    let mut copy: Value = serde_json::from_str(&original).unwrap();
    copy["endpoints"][0]["port"] = recording.port.into();
    let file = host.spot.0.path().join("mine.json");
    write_private(&file, copy.to_string().as_bytes());
    let ran = run(&["call", "--json", "--data", "x", "--connection-file", file.to_str().unwrap()]);
    assert_eq!((ran.code, &ran.line()["body"]), (Some(0), &"x".into()), "{ran:?}");
    let (_, _out, code, lines) = recording.end();
    assert_eq!((code, &lines.last().unwrap()["failed"]), (Some(1), &true.into()), "{lines:?}");
}

#[test]
fn a_recording_plays_against_both_shells_and_a_running_host() {
    let host = Serving::start("tokio", &[]);
    let recording = Recording::start(&host, &[]);
    for (arguments, code) in [
        (&["call", "--data", r#"{"do":"echo","value":1}"#][..], 0),
        (&["call", "--data", r#"{"do":"stream","items":3,"size":5}"#, "--stream"], 0),
        (&["call", "--data", "x", "--session", "reject:no"], 1),
        (&["bench", "--requests", "12", "--depth", "4", "--connections", "1"], 0),
        (&["catalog"], 0),
    ] {
        assert_eq!(recording.run(arguments).code, Some(code), "{arguments:?}");
    }
    let (dir, _out, _, _) = recording.end();
    let dir = dir.to_str().unwrap();
    for target in ["core", "tokio", "smol", "connect"] {
        let ran = host.run(&["replay", "--target", target, dir]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "5 passed, 0 failed\n"), "{target}: {ran:?}");
    }
    // What does not hold is shown field by field, at its place.
    let path = Path::new(dir).join("connection-0001.vec");
    let text = std::fs::read_to_string(&path).unwrap();
    let place = text.rfind("expect Response").unwrap();
    let (before, after) = text.split_at(place);
    let after = after.replacen("flags   0a", "flags   02", 1).replacen("{\"echo\":1}", "{\"echo\":2}", 1);
    std::fs::write(&path, format!("{before}{after}")).unwrap();
    let line = before.lines().count() + 1;
    for target in ["core", "tokio", "smol", "connect"] {
        let ran = host.run(&["replay", "--target", target, path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(1), "{target}: {ran:?}");
        for part in [
            &format!("connection-0001.vec:{line}"),
            "\n  flags        expected 02\n               got      0a\n",
            "\n  body         expected text {\"echo\":2}\n               got      text {\"echo\":1}\n",
            "0 passed, 1 failed\n",
        ] {
            assert!(ran.stdout.contains(part), "{target}: {part}: {}", ran.stdout);
        }
        let ran = host.run(&["replay", "--json", "--target", target, path.to_str().unwrap()]);
        let lines = ran.lines();
        assert_eq!(
            lines[0]["differences"][0],
            serde_json::json!({"field":"flags","expected":"02","got":"0a"})
        );
        assert_eq!(lines[1], serde_json::json!({"passed":0,"failed":1}));
    }
}

#[test]
fn a_target_plays_what_it_can_and_says_how_much_it_left_out() {
    let files = hostwire_vectors::files();
    let part = files.join("negotiation");
    for target in ["tokio", "smol"] {
        let ran = run(&["replay", "--target", target, part.to_str().unwrap()]);
        assert!(ran.code == Some(0) && ran.stdout.ends_with(" passed, 0 failed\n"), "{ran:?}");
        assert!(!ran.stdout.starts_with('0') && ran.stderr.contains("cases left out"), "{ran:?}");
    }
    let host = Serving::start("smol", &[]);
    let ran =
        host.run(&["replay", "--target", "connect", "--quiet", files.join("requests").to_str().unwrap()]);
    assert_eq!(ran.stderr, "", "{ran:?}");
    let nobody = Spot::new();
    let ran = nobody.run(&["replay", "--target", "connect", files.join("whole").to_str().unwrap()]);
    assert!(ran.code == Some(0), "nothing of it needs a host: {ran:?}");
    let ran = nobody.run(&["replay", "--target", "connect", files.join("frames").to_str().unwrap()]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    ran.complains_of("discovery_missing");
}
