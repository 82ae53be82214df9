//! What is recorded of a conversation is a vector of that conversation.

use std::time::Duration;

use hostwire_core::wire::Sender;
use hostwire_vectors::{
    Action, Auth, Body, Case, Expect, Field, Pattern, Recorded, Recorder, Step, Subject, Vector, files, load,
    load_all, replay_core,
};

/// A conversation: who says what, in which order.
enum Said {
    Client(Vec<u8>),
    Host(Vec<u8>),
    ClientEnds,
}

fn client_handshake() -> Vec<u8> {
    [&[5, 0, 0, 0][..], b"SECRET"[..5].as_ref(), &[6, 0, 0, 0], b"SECRET"].concat()
}

fn host_handshake() -> Vec<u8> {
    [&[6, 0, 0, 0][..], b"SECRET"].concat()
}

/// Records it, each direction's bytes cut into pieces of `piece`.
fn record(said: &[Said], piece: usize, max_body: Option<usize>) -> (String, Recorded) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("it.vec");
    let file = std::fs::File::options().write(true).create_new(true).open(&path).expect("a file");
    let mut recorder = Recorder::new(file, "a test", max_body).expect("written");
    let at = Duration::from_micros(1500);
    for said in said {
        match said {
            Said::Client(bytes) => {
                for piece in bytes.chunks(piece) {
                    recorder.client_bytes(at, piece).expect("written");
                }
            }
            Said::Host(bytes) => {
                for piece in bytes.chunks(piece) {
                    recorder.host_bytes(at, piece).expect("written");
                }
            }
            Said::ClientEnds => recorder.ended(at, Sender::Client, false).expect("written"),
        }
    }
    let recorded = recorder.finish().expect("written");
    (std::fs::read_to_string(&path).expect("text"), recorded)
}

/// Loads it and plays it.
fn plays(text: &str) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("it.vec");
    std::fs::write(&path, text).expect("a file");
    let vector = load(&path).map_err(|error| format!("{error}\n{text}"))?;
    for case in &vector.cases {
        replay_core(&vector, case).map_err(|divergence| format!("{divergence}\n{text}"))?;
    }
    Ok(())
}

fn joined(fields: &[Field]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.value.to_vec()).collect()
}

/// Bytes that match what is expected.
fn made(expect: &Expect) -> Option<Vec<u8>> {
    let Expect::Frame(fields) = expect else { return None };
    let mut body = Vec::new();
    let mut head = Vec::new();
    for (name, pattern) in fields {
        let bytes = match pattern {
            Pattern::Exact(bytes) => bytes.to_vec(),
            Pattern::Length => vec![0; 4],
            Pattern::Json(value) => value.to_string().into_bytes(),
            Pattern::Error { code, retry_after_ms: None } => {
                format!(r#"{{"code":"{code}","message":"it \" is"}}"#).into_bytes()
            }
            Pattern::Error { code, retry_after_ms: Some(advice) } => {
                format!(r#"{{"code":"{code}","message":"","retry_after_ms":{advice}}}"#).into_bytes()
            }
        };
        if name == "body" { body = bytes } else { head.extend(bytes) }
    }
    let len = u32::try_from(body.len()).ok()?;
    head.splice(0..4, len.to_le_bytes());
    Some([head, body].concat())
}

/// The conversation of a host's case, where it is one that a proxy can see.
fn conversation(vector: &Vector, case: &Case) -> Option<Vec<Said>> {
    let exchange = vector.exchange.as_ref()?;
    let Body::Exchange(steps) = &case.body else { return None };
    if exchange.subject != Subject::Host || exchange.auth != Auth::Elided {
        return None;
    }
    let mut said = vec![Said::Client(client_handshake()), Said::Host(host_handshake())];
    let steps: Vec<&Step> = exchange.before.iter().chain(steps).collect();
    for step in &steps {
        match &step.action {
            Action::Recv(fields) => said.push(Said::Client(joined(fields))),
            Action::Expect(expect) => said.push(Said::Host(made(expect)?)),
            Action::Eof => said.push(Said::ClientEnds),
            Action::Advance(_) | Action::Cut { .. } | Action::Socket(_) => return None,
            Action::Event(_) | Action::Command(_) | Action::Closed(_) | Action::Auth => {}
        }
    }
    Some(said)
}

fn small(said: &[Said]) -> bool {
    let size = |said: &Said| match said {
        Said::Client(bytes) | Said::Host(bytes) => bytes.len(),
        Said::ClientEnds => 0,
    };
    said.iter().map(size).sum::<usize>() < 1 << 20
}

/// What is malformed inside a value that is left out, or says nothing when it ends, is not the same any more.
const LOST: [&str; 5] = [
    "parameters of 9 levels",
    "parameters of 8,193 bytes",
    "a repeated member inside opaque parameters",
    "the same, spelled with an escape",
    "version 2 alone",
];

#[test]
fn every_conversation_of_a_host_that_is_recorded_plays_again() {
    let (mut count, mut failed) = (0, Vec::new());
    for vector in load_all(&files()).expect("vectors") {
        for case in &vector.cases {
            let Some(said) = conversation(&vector, case).filter(|_| !LOST.contains(&case.name.as_str()))
            else {
                continue;
            };
            let name = format!("{}: {}", vector.path.display(), case.name);
            let (text, recorded) = record(&said, usize::MAX, Some(1 << 20));
            assert!(!text.contains("SECRET"), "{name}");
            let mut texts = vec![text.clone()];
            if small(&said) {
                assert_eq!(record(&said, 1, Some(1 << 20)), (text, recorded), "{name}: byte by byte");
                texts.extend([record(&said, 7, Some(3)).0, record(&said, 7, None).0]);
            }
            for text in texts {
                if let Err(why) = plays(&text) {
                    println!("{name}: {why}");
                    failed.push(name.clone());
                }
            }
            count += 1;
        }
    }
    println!("{count} conversations");
    assert_eq!(failed, Vec::<String>::new());
    assert!(count > 100, "{count}");
}

#[test]
fn a_recording_that_is_cut_anywhere_is_one_line_or_a_recording() {
    let vector = load(&files().join("requests/host-streams.vec")).expect("a vector");
    let case = &vector.cases[0];
    let said = conversation(&vector, case).expect("a conversation");
    let (text, _) = record(&said, usize::MAX, Some(100));
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("it.vec");
    let running = text.replace("recording: complete", "recording: running");
    for end in 0..running.len() {
        std::fs::write(&path, &running[..end]).expect("a file");
        let error = load(&path).expect_err("it has no end").to_string();
        assert!(error.contains("it.vec:") && error.lines().count() == 1, "{end}: {error}");
    }
}

#[test]
fn what_cannot_be_a_body_again_is_filled_up_to_its_length() {
    let vector = load(&files().join("requests/host-routes.vec")).expect("a vector");
    let said = conversation(&vector, &vector.cases[0]).expect("a conversation");
    let (text, recorded) = record(&said, usize::MAX, None);
    assert!(recorded.cut_bodies > 0 && text.contains("fill 2e * "), "{text}");
}
