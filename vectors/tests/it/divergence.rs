//! The replay notices: each vector here says something that the core does not do.

use hostwire_vectors::{Divergence, files, load, replay_core};

const REQUEST: &str = "\
recv Request 7/77/3
  len     02000000
  ver     02
  type    00
  flags   02
  channel 0700
  epoch   4d000000
  corr    0300000000000000
  body    text hi
";
const EVENT: &str = "\
event request channel=7 epoch=77 corr=3 binary=no
  body    text hi
";
const RESPOND: &str = "\
command respond channel=7 epoch=77 corr=3
  body    text ho
";
const RESPONSE: &str = "\
expect Response 7/77/3
  len     02000000
  ver     02
  type    01
  flags   0a
  channel 0700
  epoch   4d000000
  corr    0300000000000000
  body    text ho
";
const WRONG: &str = "\
recv Ping 0/0/1
  len     00000000
  ver     02
  type    07
  flags   00
  channel 0000
  epoch   00000000
  corr    0100000000000000
";

/// Plays steps on a host with one route.
fn play(steps: &[&str]) -> Result<(), Divergence> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sample.vec");
    let after = files().join("setup/host-route.vec");
    let text = format!(
        "hostwire-vector 1\nkind: exchange\nabout: a\nsubject: host\nauth: elided\nafter: {}\n\ncase W1: b\n{}",
        after.display(),
        steps.concat()
    );
    std::fs::write(&path, text).expect("a file");
    let vector = load(&path).expect("loads");
    replay_core(&vector, &vector.cases[0])
}

/// The line of the step in question, and what differs there.
fn divergence(steps: &[&str]) -> (u32, Vec<(String, String)>) {
    let divergence = play(steps).expect_err("diverges");
    assert!(divergence.file.ends_with("sample.vec"), "{divergence}");
    let differences = divergence.differences.into_iter().map(|one| (one.what, one.got)).collect();
    (divergence.line, differences)
}

fn one(what: &str, got: &str) -> Vec<(String, String)> {
    vec![(what.into(), got.into())]
}

#[test]
fn the_steps_that_the_others_spoil_pass() {
    assert_eq!(play(&[REQUEST, EVENT, RESPOND, RESPONSE]), Ok(()));
    assert_eq!(play(&[WRONG, "closed wrong_frame\n"]), Ok(()));
}

#[test]
fn a_field_that_differs_is_named_at_its_step() {
    for (from, to, what, got) in [
        ("flags   0a", "flags   0b", "flags", "0a"),
        ("type    01", "type    05", "type", "01"),
        ("text ho", "text hu", "body", "686f"),
    ] {
        let spoiled = RESPONSE.replace(from, to);
        assert_eq!(divergence(&[REQUEST, EVENT, RESPOND, &spoiled]), (22, one(what, got)));
    }
}

#[test]
fn an_argument_or_a_body_of_an_event_that_differs_is_named() {
    assert_eq!(divergence(&[REQUEST, &EVENT.replace("corr=3", "corr=4")]), (18, one("corr", "3")));
    assert_eq!(divergence(&[REQUEST, &EVENT.replace("text hi", "text hu")]), (18, one("body", "6869")));
    assert_eq!(divergence(&[REQUEST, &EVENT.replace("  body    text hi\n", "")]), (18, one("body", "6869")));
}

#[test]
fn an_event_that_does_not_come_and_one_that_nobody_names_are_divergences() {
    assert_eq!(divergence(&[EVENT]), (9, one("event", "nothing")));
    let got = "request channel=7 epoch=77 corr=3 binary=no";
    assert_eq!(divergence(&[REQUEST]), (9, one("event", got)));
    assert_eq!(divergence(&[REQUEST, "advance 5\n"]), (18, one("event", got)));
    assert_eq!(
        divergence(&[REQUEST, "stop\n".replace("stop", "event stop corr=3").as_str()]),
        (18, one("event", got))
    );
}

#[test]
fn bytes_that_do_not_come_and_bytes_that_nobody_names_are_divergences() {
    assert_eq!(divergence(&[REQUEST, EVENT, RESPONSE]), (20, one("sent", "nothing")));
    let (line, differences) = divergence(&[REQUEST, EVENT, RESPOND]);
    assert_eq!((line, differences[0].0.as_str()), (20, "sent"));
}

#[test]
fn an_end_that_does_not_come_an_end_of_another_cause_and_an_end_that_nobody_names_are_divergences() {
    let (line, differences) = divergence(&["closed eof\n"]);
    assert_eq!((line, differences.len()), (9, 2));
    assert_eq!(differences[0], ("closed".into(), "open".into()));
    assert_eq!(divergence(&[WRONG, "closed eof\n"]), (17, one("closed", "closed wrong_frame")));
    let (line, differences) = divergence(&[WRONG]);
    assert_eq!((line, differences[0].0.as_str()), (9, "input"));
}

#[test]
fn what_the_surroundings_cannot_do_is_a_divergence() {
    assert_eq!(divergence(&[RESPOND]), (9, one("command", "no handler of request 3 runs")));
    assert_eq!(divergence(&["socket 2\n"]), (9, one("socket", "no candidate was granted")));
}
