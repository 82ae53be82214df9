use std::path::Path;

use hostwire_vectors::{Action, Auth, Body, Subject, files, load, load_all};

/// Writes a vector to a fresh folder and loads it.
fn try_load(text: &str) -> Result<hostwire_vectors::Vector, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sample.vec");
    std::fs::write(&path, text).expect("a file");
    load(&path).map_err(|error| {
        let line = error.to_string();
        assert!(!line.contains('\n'), "one line: {line}");
        line.rsplit_once("sample.vec:").expect("names the file").1.to_owned()
    })
}

const HEADER: &str = "hostwire-vector 1\nkind: header\nabout: a\n\ncase W1: b\n";
const EXCHANGE: &str =
    "hostwire-vector 1\nkind: exchange\nabout: a\nsubject: host\nauth: full\n\ncase W1: b\n";

#[test]
fn every_file_that_comes_with_the_crate_loads() {
    let vectors = load_all(&files()).expect("all load");
    assert!(vectors.len() > 40, "{}", vectors.len());
    let cases: usize = vectors.iter().map(|vector| vector.cases.len()).sum();
    assert!(cases > 800, "{cases}");
}

#[test]
fn a_vector_begins_with_the_steps_of_the_one_it_comes_after() {
    let vector = load(&files().join("frames/host-stale.vec")).expect("loads");
    let exchange = vector.exchange.expect("an exchange");
    assert_eq!(exchange.subject, Subject::Host);
    assert_eq!(exchange.auth, Auth::Elided);
    let first = exchange.before.first().expect("steps");
    assert!(matches!(first.action, Action::Auth));
    assert!(first.file.ends_with("host-route.vec"), "{}", first.file);
}

#[test]
fn header_bytes_are_those_of_the_fields_in_order() {
    let vector = load(&files().join("header/examples.vec")).expect("loads");
    let Some(Body::Header { bytes, .. }) = vector.cases.first().map(|case| &case.body) else {
        panic!("a header")
    };
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "ad0000000200020000000000000100000000000000");
}

#[test]
fn what_is_wrong_in_a_file_is_one_line_that_says_where() {
    let header = |steps: &str| format!("{HEADER}{steps}");
    let exchange = |steps: &str| format!("{EXCHANGE}{steps}");
    let preamble =
        |lines: &str| format!("hostwire-vector 1\n{lines}\ncase W1: b\nbytes\n  len 00\nresult incomplete\n");
    for (text, line) in [
        (String::new(), "1: does not begin with `hostwire-vector 1`"),
        ("hostwire-vector 2\n".into(), "1: does not begin with `hostwire-vector 1`"),
        ("hostwire-vector 1\nkind: header\nabout: a\n".into(), "0: no case"),
        (preamble("about: a"), "0: no `kind:` in the preamble"),
        (preamble("kind: header"), "0: no `about:` in the preamble"),
        (preamble("kind: poem\nabout: a"), "0: `poem` is no kind of vector"),
        (preamble("kind: header\nabout: a\nkind: header"), "4: `kind` for the second time"),
        (preamble("kind: header\nabout: a\nsubject: host"), "4: `subject` does not belong to this kind"),
        (preamble("kind: header\nabout"), "3: not a line `key: value`, and no case has begun"),
        (preamble("kind: document\nabout: a\ndocument: novel"), "4: `novel` is no document"),
        ("hostwire-vector 1\ncase b\n".into(), "2: not a line `case RULES: name`"),
        ("hostwire-vector 1\ncase W1 w2: b\n".into(), "2: `w2` is not a rule ID"),
        (header("  len 00\n"), "6: a field before any step"),
        (header("bytes\n  len\n"), "7: the field `len` has no value"),
        (header("bytes\n  + 00\n"), "7: `+` without a field above it"),
        (header("bytes\n  len 00\n  len 00\n"), "8: the field `len` for the second time"),
        (header("bytes\n\tlen 00\n"), "7: a tab or a carriage return"),
        (header("bytes\n"), "5: a case of this kind is `bytes`, then `result`"),
        (
            header("bytes\n  len 0\nresult frame\n"),
            "7: field `len`: neither hex nor `text …` nor `fill XX * N`",
        ),
        (
            header("bytes\n  len 0G\nresult frame\n"),
            "7: field `len`: neither hex nor `text …` nor `fill XX * N`",
        ),
        (
            header("bytes\n  len 00\nresult frame\n"),
            "8: a frame is told by type, len, channel, epoch, corr, binary, priority, last, admission",
        ),
        (header("bytes\n  len 00\nresult odd\n"), "8: `odd` is no result of a header"),
        (header("bytes\n  len fill 00 * 22\nresult incomplete\n"), "6: more than 21 bytes are no header"),
        (
            header("bytes\n  len fill 000 * 2\nresult incomplete\n"),
            "7: field `len`: the byte of `fill XX * N` is not two hex digits",
        ),
        (
            header("bytes\n  len fill 00 * 99999999999\nresult incomplete\n"),
            "7: field `len`: the count of `fill XX * N` is no number, or too large",
        ),
        (header("bytes  x\n"), "6: words are parted by one blank"),
        (exchange("wait 5\n"), "8: `wait` is no step"),
        (
            exchange("recv x\n  body 00\n"),
            "8: the fields are none of: len ver type flags channel epoch corr [body]; len [json]; bytes",
        ),
        (exchange("recv x\n  len 000000\n  json 00\n"), "9: field `len` has 4 bytes on the wire, here are 3"),
        (exchange("expect x\n  len *\n  json *\n"), "10: field `json`: only `len` may be `*`"),
        (exchange("expect x\n  len *\n  json json {\n"), "10: field `json`: not JSON"),
        (
            exchange("expect x\n  bytes 00\n"),
            "8: the fields are neither len ver type flags channel epoch corr [body] nor len json",
        ),
        (exchange("event weather\n"), "8: `weather` is no event of a host"),
        (exchange("event ready\n"), "8: `ready` is no event of a host"),
        (exchange("event request colour=red\n"), "8: `request` has no argument `colour`"),
        (exchange("event request corr=1 corr=2\n"), "8: `corr` for the second time"),
        (exchange("event request corr=\"1\n"), "8: a quote that is not closed"),
        (exchange("event request corr=\"\\n\"\n"), "8: `\\n` is no escape"),
        (exchange("event request\n  root 00\n"), "9: `request` has no field `root`"),
        (exchange("closed weather\n"), "8: `weather` is no cause"),
        (exchange("advance soon\n"), "8: not a number of milliseconds"),
        (exchange("eof now\n"), "8: `eof` stands alone"),
        (exchange("socket 3\n"), "8: `3`: a socket is 1 or 2"),
    ] {
        assert_eq!(try_load(&text).err().as_deref(), Some(line), "{text}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = load(Path::new("nowhere.vec")).expect_err("is not there").to_string();
    assert!(error.starts_with("nowhere.vec:0: "), "{error}");
}

#[test]
fn a_file_that_comes_after_itself_ends() {
    let text = EXCHANGE.replace("auth: full", "auth: full\nafter: sample.vec") + "eof\n";
    let line = try_load(&text).expect_err("is refused");
    assert_eq!(line, "6: too many files that come after each other");
}
