//! Bytes against what was expected of them.

use serde_json::Value;

use super::Difference;
use crate::bytes::Bytes;
use crate::format::{Expect, Pattern, Report};

/// The fields of an envelope's header, with their widths.
const HEADER: [(&str, usize); 7] =
    [("len", 4), ("ver", 1), ("type", 1), ("flags", 1), ("channel", 2), ("epoch", 4), ("corr", 8)];

/// Bytes for people: text where it is text, else hex, and never more than a line of it.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 100;
    let text = |bytes: &[u8]| bytes.len() > 2 && bytes.iter().all(|byte| (0x20..0x7f).contains(byte));
    let some = bytes.get(..MOST).unwrap_or(bytes);
    let mut line = if text(some) {
        format!("text {}", String::from_utf8_lossy(some))
    } else if some.is_empty() {
        return "no bytes".into();
    } else {
        some.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    if some.len() < bytes.len() {
        line.push_str(&format!("… ({} bytes)", bytes.len()));
    }
    line
}

/// How many bytes at the front of `sent` are the next message of this form, if all of them are there.
pub(crate) fn next_len(expect: &Expect, sent: &[u8]) -> Option<usize> {
    let prefix = sent.first_chunk::<4>()?;
    let body = usize::try_from(u32::from_le_bytes(*prefix)).ok()?;
    let whole = body.checked_add(match expect {
        Expect::Frame(_) => 21,
        Expect::Message(_) => 4,
    })?;
    (sent.len() >= whole).then_some(whole)
}

/// Compares one whole frame or message, field by field.
pub(crate) fn compare(expect: &Expect, sent: &[u8]) -> Vec<Difference> {
    let (patterns, widths): (_, &[(&str, usize)]) = match expect {
        Expect::Frame(patterns) => (patterns, &HEADER),
        Expect::Message(patterns) => (patterns, &[("len", 4)]),
    };
    let head: usize = widths.iter().map(|(_, width)| width).sum();
    let body = sent.get(head..).unwrap_or_default();
    let mut at = 0;
    let mut differences = Vec::new();
    let mut judge = |name: &str, got: &[u8]| {
        let none = Pattern::Exact(Bytes::default());
        let pattern = patterns.iter().find(|(other, _)| other == name).map_or(&none, |(_, pattern)| pattern);
        if let Some((expected, got)) = unlike(pattern, got, body.len()) {
            differences.push(Difference::new(name, expected, got));
        }
    };
    for (name, width) in widths {
        judge(name, sent.get(at..at + width).unwrap_or_default());
        at += width;
    }
    judge(if matches!(expect, Expect::Frame(_)) { "body" } else { "json" }, body);
    differences
}

/// What a program under test has reported, against what a vector says that it reports: `name`, arguments by name, bytes by name.
///
/// What the vector names must be equal; `none` stands for an argument that is absent. Empty where nothing differs.
#[must_use]
pub fn compare_report(
    expected: &Report,
    name: &str,
    arguments: &[(&str, String)],
    fields: &[(&str, Vec<u8>)],
) -> Vec<Difference> {
    if name != expected.name {
        return vec![Difference::new("event", &expected.name, name)];
    }
    let mut differences = Vec::new();
    for (key, value) in &expected.arguments {
        let got = arguments.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str());
        if got.unwrap_or("none") != value {
            differences.push(Difference::new(key, value, got.unwrap_or("none")));
        }
    }
    for (key, value) in &expected.fields {
        let got = fields.iter().find(|(other, _)| other == key).map_or(&[][..], |(_, value)| value);
        if let Some(at) = value.first_difference(got) {
            let expected = format!("{} (differs from byte {at})", shown(&value.to_vec()));
            differences.push(Difference::new(key, expected, shown(got)));
        }
    }
    // A body that the vector does not mention is empty: an event never carries bytes behind its back.
    for (key, got) in fields {
        if *key == "body" && !got.is_empty() && !expected.fields.contains_key("body") && name != "settled" {
            differences.push(Difference::new(*key, "no bytes", shown(got)));
        }
    }
    differences
}

/// What was expected and what came, where they differ.
fn unlike(pattern: &Pattern, got: &[u8], body: usize) -> Option<(String, String)> {
    match pattern {
        Pattern::Exact(bytes) => {
            let at = bytes.first_difference(got)?;
            let all = bytes.to_vec();
            if at < 60 {
                return Some((shown(&all), shown(got)));
            }
            let tail =
                |bytes: &[u8]| format!("from byte {at}: {}", shown(bytes.get(at..).unwrap_or_default()));
            Some((tail(&all), tail(got)))
        }
        Pattern::Length => {
            let len = got.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
            let same = len.and_then(|len| usize::try_from(len).ok()) == Some(body);
            (!same).then(|| (format!("the length of the body, {body}"), shown(got)))
        }
        Pattern::Json(expected) => {
            let value: Option<Value> = serde_json::from_slice(got).ok();
            let same = value.is_some_and(|value| same_json(expected, &value));
            (!same).then(|| (format!("json {expected}"), shown(got)))
        }
        Pattern::Error { code, retry_after_ms } => {
            let same = serde_json::from_slice(got).is_ok_and(|value: Value| {
                value.get("code").and_then(Value::as_str) == Some(code)
                    && value.get("message").is_some_and(Value::is_string)
                    && value.get("retry_after_ms").and_then(Value::as_u64) == *retry_after_ms
            });
            (!same).then(|| (format!("an error with the code {code}"), shown(got)))
        }
    }
}

/// Whether two values are the same, where the expected string `*` stands for anything.
fn same_json(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::String(any), _) if any == "*" => true,
        (Value::Object(expected), Value::Object(got)) => {
            expected.len() == got.len()
                && expected.iter().all(|(name, value)| got.get(name).is_some_and(|got| same_json(value, got)))
        }
        (Value::Array(expected), Value::Array(got)) => {
            expected.len() == got.len()
                && expected.iter().zip(got).all(|(expected, got)| same_json(expected, got))
        }
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            got,
        ) => expected == got,
    }
}

/// Moves the first whole message that has the identity of an expected frame to the front, and says whether there is one.
pub(crate) fn to_front(expect: &Expect, sent: &mut Vec<u8>) -> bool {
    let Expect::Frame(fields) = expect else { return true };
    let mut wanted = Vec::new();
    for name in ["channel", "epoch", "corr"] {
        match fields.iter().find(|(other, _)| other == name) {
            Some((_, Pattern::Exact(bytes))) => wanted.extend(bytes.to_vec()),
            Some((_, Pattern::Length | Pattern::Json(_) | Pattern::Error { .. })) | None => return true,
        }
    }
    let mut at = 0;
    while let Some(rest) = sent.get(at..)
        && let Some(len) = next_len(expect, rest)
    {
        if rest.get(7..21) == Some(wanted.as_slice()) {
            let message: Vec<u8> = sent.drain(at..at + len).collect();
            sent.splice(0..0, message);
            return true;
        }
        at += len;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{compare, next_len, shown};
    use crate::bytes::Bytes;
    use crate::format::{Expect, Pattern};

    fn exact(bytes: &[u8]) -> Pattern {
        let mut value = Bytes::default();
        value.push(bytes.to_vec());
        Pattern::Exact(value)
    }

    fn frame(body: Pattern) -> Expect {
        let mut fields: Vec<(String, Pattern)> = [
            ("ver", &b"\x02"[..]),
            ("type", b"\x01"),
            ("flags", b"\x0a"),
            ("channel", b"\0\0"),
            ("epoch", &[0; 4]),
            ("corr", &[1, 0, 0, 0, 0, 0, 0, 0]),
        ]
        .into_iter()
        .map(|(name, bytes)| (name.to_owned(), exact(bytes)))
        .collect();
        fields.push(("len".into(), Pattern::Length));
        fields.push(("body".into(), body));
        Expect::Frame(fields)
    }

    fn sent(body: &[u8]) -> Vec<u8> {
        let mut all = u32::try_from(body.len()).expect("short").to_le_bytes().to_vec();
        all.extend_from_slice(&[2, 1, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        all.extend_from_slice(body);
        all
    }

    fn names(expect: &Expect, sent: &[u8]) -> Vec<String> {
        compare(expect, sent).into_iter().map(|difference| difference.what).collect()
    }

    #[test]
    fn a_frame_is_whole_when_its_body_is_there() {
        let expect = frame(exact(b"{}"));
        for len in 0..23 {
            assert_eq!(next_len(&expect, &sent(b"{}")[..len]), None, "{len}");
        }
        assert_eq!(next_len(&expect, &[sent(b"{}"), sent(b"")].concat()), Some(23));
    }

    #[test]
    fn every_field_that_differs_is_named() {
        let expect = frame(exact(b"{}"));
        assert!(names(&expect, &sent(b"{}")).is_empty());
        for (offset, name) in [
            (0, "len"),
            (4, "ver"),
            (5, "type"),
            (6, "flags"),
            (7, "channel"),
            (12, "epoch"),
            (20, "corr"),
            (22, "body"),
        ] {
            let mut other = sent(b"{}");
            other[offset] ^= 0x40;
            assert_eq!(names(&expect, &other), [name], "{offset}");
        }
        assert_eq!(names(&expect, &sent(b"{}x")), ["body"]);
        assert_eq!(names(&expect, &sent(b"")), ["body"]);
    }

    #[test]
    fn json_is_compared_by_value_and_a_star_is_anything() {
        let expect = frame(Pattern::Json(serde_json::json!({"a": 1, "b": ["*", 2]})));
        assert!(names(&expect, &sent(br#"{ "b":["x",2], "a":1 }"#)).is_empty());
        for other in [
            r#"{"a":1,"b":["x",3]}"#,
            r#"{"a":1,"b":["x",2,2]}"#,
            r#"{"a":1,"b":["x",2],"c":0}"#,
            r#"{"a":1}"#,
            "x",
        ] {
            assert_eq!(names(&expect, &sent(other.as_bytes())), ["body"], "{other}");
        }
    }

    #[test]
    fn an_error_is_compared_by_its_code_and_its_advice() {
        let expect = |retry_after_ms| frame(Pattern::Error { code: "nope".into(), retry_after_ms });
        assert!(names(&expect(None), &sent(br#"{"code":"nope","message":"x"}"#)).is_empty());
        assert!(
            names(&expect(Some(5)), &sent(br#"{"code":"nope","message":"x","retry_after_ms":5}"#)).is_empty()
        );
        for other in [
            r#"{"code":"yes","message":"x"}"#,
            r#"{"code":"nope"}"#,
            r#"{"code":"nope","message":"x","retry_after_ms":5}"#,
        ] {
            assert_eq!(names(&expect(None), &sent(other.as_bytes())), ["body"], "{other}");
        }
    }

    #[test]
    fn bytes_are_shown_as_text_where_they_are_and_never_at_length() {
        assert_eq!(shown(b"{\"a\":1}"), "text {\"a\":1}");
        assert_eq!(shown(b"\x00\x01"), "0001");
        assert_eq!(shown(b""), "no bytes");
        assert!(shown(&[b'a'; 5000]).len() < 150);
    }
}
