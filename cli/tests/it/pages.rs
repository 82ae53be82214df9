//! `explain`: as text, as Mermaid, and as a page in a real browser.

use super::*;

/// A recording's text, small enough to read: a call, a stream that fails, and a route that is refused.
fn recorded(dir: &Path) -> PathBuf {
    use hostwire::core::wire::Sender;
    use hostwire_vectors::Recorder;
    use std::time::Duration;
    let path = dir.join("session.vec");
    let file = std::fs::File::options().write(true).create_new(true).open(&path).unwrap();
    let mut recorder = Recorder::new(file, "a test", Some(30)).unwrap();
    let mut at = Duration::ZERO;
    let mut say = |side: Sender, bytes: &[u8]| {
        at += Duration::from_micros(1250);
        match side {
            Sender::Client => recorder.client_bytes(at, bytes).unwrap(),
            Sender::Host => recorder.host_bytes(at, bytes).unwrap(),
        }
    };
    let frame = |kind: u8, flags: u8, (channel, epoch, corr): (u16, u32, u64), body: &[u8]| {
        let mut frame = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
        frame.extend([2, kind, flags]);
        frame.extend(channel.to_le_bytes());
        frame.extend(epoch.to_le_bytes());
        frame.extend(corr.to_le_bytes());
        frame.extend(body);
        frame
    };
    say(Sender::Client, b"\x06\0\0\0SECRET\x06\0\0\0SECRET");
    say(Sender::Host, b"\x06\0\0\0SECRET");
    let control = |corr| (0, 0, corr);
    let negotiate = br#"{"op":"transport.negotiate","negotiation_version":1,"offers":[{"transport":"tcp","capability_version":1}]}"#;
    say(Sender::Client, &frame(0, 2, control(1), negotiate));
    let selected = br#"{"op":"transport.negotiate","negotiation_version":1,"selected":{"transport":"tcp","capability_version":1}}"#;
    say(Sender::Host, &frame(1, 10, control(1), selected));
    let open = br#"{"op":"route.open","target":{"kind":"tool_provider","module_id":"lab"},"identity":{"project_root":"/p","harness":"h","session":"s"}}"#;
    say(Sender::Client, &frame(0, 2, control(2), open));
    let opened = br#"{"op":"route.open","route_channel":7,"route_epoch":77}"#;
    say(Sender::Host, &frame(1, 10, control(2), opened));
    say(Sender::Client, &frame(0, 2, (7, 77, 3), b"</script><img src=x onerror=alert(1)> and a long tail"));
    say(Sender::Client, &frame(0, 2, (7, 77, 4), b"items"));
    say(Sender::Host, &frame(3, 2, (7, 77, 4), b"one"));
    say(Sender::Host, &frame(1, 11, (7, 77, 3), &[0, 1, 255]));
    say(Sender::Host, &frame(3, 2, (7, 77, 4), b"two"));
    say(Sender::Host, &frame(5, 10, (7, 77, 4), br#"{"code":"broke","message":"half way"}"#));
    say(Sender::Client, &frame(0, 2, control(5), br#"{"op":"strange"}"#));
    say(Sender::Host, &frame(5, 10, control(5), br#"{"code":"unsupported_operation","message":"m"}"#));
    say(Sender::Client, &frame(11, 0, (0, 0, 0), b""));
    recorder.ended(at, Sender::Client, false).unwrap();
    recorder.finish().unwrap();
    path
}

#[test]
fn a_recording_is_told_a_frame_a_line_with_fields_and_rules() {
    let spot = Spot::new();
    let path = recorded(spot.0.path());
    let ran = run(&["explain", path.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(run(&["explain", "--text", path.to_str().unwrap()]).stdout, ran.stdout);
    assert!(!ran.stdout.contains("SECRET") && !ran.stdout.contains("534543524554"), "{}", ran.stdout);
    for line in [
        "     3.750 ms  client → host  Request    channel=0 epoch=0 corr=1 flags=0x02 len=106 transport.negotiate",
        "     5.000 ms  client ← host  Response   channel=0 epoch=0 corr=1 flags=0x0a len=106 transport.negotiate",
        "     8.750 ms  client → host  Request    channel=7 epoch=77 corr=3 flags=0x02 len=53 body=</script>",
        "(kept: 30 of 53 bytes)",
        "    11.250 ms  client ← host  StreamData channel=7 epoch=77 corr=4 flags=0x02 len=3 body=one [Q5]",
        "    12.500 ms  client ← host  Response   channel=7 epoch=77 corr=3 flags=0x0b len=3 body=hex 0001ff [Q5]",
        "corr=4 flags=0x0a len=37 broke body={\"code\":\"broke\",\"message\":\"half way\"} [Q5]",
        "Error      channel=0 epoch=0 corr=5 flags=0x0a len=46 unsupported_operation",
        "[Q5 C4]",
        "    18.750 ms  client → host  Goodbye    channel=0 epoch=0 corr=0 flags=0x00 len=0 [G1]",
        "the host ends the connection: goodbye [G1 G2]",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    assert_eq!(ran.stdout.matches("Goodbye").count(), 1, "{}", ran.stdout);
    let lines = run(&["explain", "--json", path.to_str().unwrap()]).lines();
    let told = |name: &str| lines.iter().filter(|line| line.get(name).is_some()).count();
    assert_eq!(
        (told("case"), told("frame"), told("case") + told("frame") + told("note")),
        (1, 13, lines.len())
    );
}

/// The server's proof and the client's nonce of the vectors' world, as text and as hex, and a token.
const SECRETS: [&str; 4] = ["234,174,245,201", "eaaef5c991b5", "32,33,34,35,36", "a0a1a2a3a4a5"];

#[test]
fn every_vector_that_comes_along_can_be_told_in_every_form() {
    let files = hostwire_vectors::files();
    let spot = Spot::new();
    let page = spot.0.path().join("page.html");
    for form in [&["--text"][..], &["--mermaid"], &["--html", page.to_str().unwrap()], &["--json"]] {
        let ran = run(&[&["explain", files.to_str().unwrap()], form].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{form:?}");
        // The public key and nonces of the vectors' handshakes.
        for secret in SECRETS {
            assert!(!ran.stdout.contains(secret), "{form:?}: {secret}");
        }
    }
    let text = std::fs::read_to_string(page).unwrap();
    assert!(text.contains("StreamData") && SECRETS.iter().all(|secret| !text.contains(secret)));
}

#[test]
fn a_sequence_diagram_is_mermaid() {
    let spot = Spot::new();
    let ran = run(&["explain", "--mermaid", recorded(spot.0.path()).to_str().unwrap()]);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..3], ["sequenceDiagram", "    participant C as client", "    participant H as host"]);
    assert!(lines.contains(&"    C->>H: Request 7/77/3, 53 bytes at 8.750 ms"), "{}", ran.stdout);
    assert!(lines.contains(&"    H-->>C: Error 7/77/4 broke, 37 bytes at 15.000 ms"), "{}", ran.stdout);
    let known = ["    C->>H: ", "    H-->>C: ", "    Note over C,H: "];
    assert!(
        lines[3..].iter().all(|line| known.iter().any(|start| line.starts_with(start))),
        "{}",
        ran.stdout
    );
}

#[test]
fn what_cannot_be_explained_or_written_is_one_line() {
    let spot = Spot::new();
    let path = recorded(spot.0.path());
    let path = path.to_str().unwrap();
    let wrong = spot.0.path().join("wrong.vec");
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::write(&wrong, text.replace("  type    00", "  type    000")).unwrap();
    let wrong = wrong.to_str().unwrap();
    let empty = spot.0.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (arguments, part) in [
        (&["explain"][..], "PATH"),
        (&["explain", "/nonexistent.vec"], "/nonexistent.vec"),
        (&["explain", wrong], "wrong.vec:"),
        (&["explain", "/dev/null"], "/dev/null:1"),
        (&["explain", empty.to_str().unwrap()], "no vector"),
        (&["explain", path, "--html", "/nonexistent/page.html"], "/nonexistent/page.html"),
        (&["explain", path, "--html", path], "is a vector"),
        (&["explain", path, "--html", "/dev/full"], "/dev/full"),
        (&["explain", path, "--text", "--mermaid"], "--mermaid"),
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(64), "{arguments:?} {ran:?}");
        ran.complains_of(part);
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text, "it is still there");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = Ran::of(hostwire(&["explain", path]).stdout(writer).output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

/// The page as a browser has it after its script has run, and what the browser's console said.
fn shown(browser: &str, url: &str, more: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(more)
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (String::from_utf8(output.stdout).unwrap(), stderr)
}

#[test]
fn the_page_renders_folds_and_filters_in_a_browser() {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        let there = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        there.is_ok_and(|status| status.success())
    });
    let Some(browser) = browser else {
        println!("skipped: no Chromium is installed");
        return;
    };
    let spot = Spot::new();
    let path = recorded(spot.0.path());
    let page = spot.0.path().join("page.html");
    let ran = run(&["explain", path.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(
        !text.contains("SECRET") && !text.contains("http://") && !text.contains("https://"),
        "self-contained"
    );
    let look = |fragment: &str| {
        let url = format!("file://{}{fragment}", page.display());
        let (dom, console) = shown(browser, &url, &["--dump-dom"]);
        assert!(!console.contains("CONSOLE") && !console.contains("Uncaught"), "{console}");
        // What the script made, without the script.
        let (_, main) = dom.split_once("<main").unwrap_or_else(|| panic!("{dom} {console}"));
        let (main, _) = main.split_once("</main>").unwrap();
        (main.to_owned(), dom)
    };
    let (folded, dom) = look("");
    assert!(dom.contains("5 of 5 requests"), "{dom}");
    assert_eq!(folded.matches("row fold").count(), 5, "{folded}");
    assert!(folded.contains("error broke after 2 items") && folded.contains("transport.negotiate"));
    assert!(!folded.contains("row frame client") || folded.matches("row frame").count() == 1, "{folded}");
    assert!(!folded.contains("and a"), "bodies only on demand");
    let (flat, _) = look("#fold=no");
    assert_eq!((flat.matches("row fold").count(), flat.matches("row frame").count()), (0, 13), "{flat}");
    let (one, dom) = look("#corr=4&fold=no&bodies=yes");
    assert!(dom.contains("1 of 5 requests"));
    assert_eq!(one.matches("row frame").count(), 4, "{one}");
    assert!(one.contains("half way") && !one.contains("7/77/3"), "{one}");
    let (markup, _) = look("#corr=3&bodies=yes");
    assert!(markup.contains("&lt;/script&gt;&lt;img") && !markup.contains("<img"), "{markup}");
    assert!(markup.contains("kept: 30 of 53 bytes") && markup.contains("0001ff"), "{markup}");
    let (none, _) = look("#corr=99");
    assert!(none.contains("No request has this correlation."), "{none}");
    // Nothing stands out to the side, on a wide screen or on a phone's.
    for width in [1280_u32, 400] {
        let shot = spot.0.path().join(format!("{width}.png"));
        let url = format!("file://{}#bodies=yes&fold=no", page.display());
        let size = format!("--window-size={width},1600");
        let (_, console) = shown(browser, &url, &[&size, &format!("--screenshot={}", shot.display())]);
        let image = std::fs::read(&shot).unwrap_or_else(|error| panic!("{error} {console}"));
        assert!(image.starts_with(b"\x89PNG") && image.len() > 10_000, "{width}: {} bytes", image.len());
        assert_eq!(image.get(16..20), Some(&width.to_be_bytes()[..]));
    }
}
