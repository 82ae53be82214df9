//! The strict reader against another parser.

use hostwire_core::json::{self, Kind, Object, RawJson, SyntaxError, Value, write_object};
use serde::de::IgnoredAny;

/// Reads a text with both, and walks what was accepted.
///
/// # Panics
/// If the strict reader accepts what no JSON is, or refuses JSON for another reason than its own rules give.
pub(crate) fn json(data: &[u8]) {
    let strict = json::parse(data);
    let lenient = std::str::from_utf8(data).ok().map(serde_json::from_str::<IgnoredAny>);
    match (&strict, &lenient) {
        (Ok(root), Some(Ok(_))) => walk(*root, 1),
        (Ok(_), None | Some(Err(_))) => panic!("accepted what is no JSON"),
        (Err(error), None) => assert_eq!(*error, SyntaxError::InvalidUtf8),
        // C7: these are ours alone.
        (Err(error), Some(Ok(_))) => assert!(
            matches!(
                error,
                SyntaxError::RepeatedKey
                    | SyntaxError::TooDeep
                    | SyntaxError::TooManyKeys
                    | SyntaxError::LoneSurrogate
            ),
            "refused JSON: {error}"
        ),
        (Err(_), Some(Err(_))) => {}
    }
}

fn walk(value: Value<'_>, level: usize) {
    assert!(level <= json::MAX_LEVELS, "C7");
    match value.kind() {
        Kind::Object => members(value.object().expect("an object"), level),
        Kind::Array => value.elements().expect("an array").for_each(|element| walk(element, level + 1)),
        Kind::String => string(value),
        Kind::Number => number(value),
        Kind::Bool => assert_eq!(value.bool().expect("a bool").to_string(), value.text()),
        Kind::Null => assert_eq!(value.text(), "null"),
    }
    if level == 1 {
        let raw = RawJson::from(value);
        let compact = raw.compacted();
        let measure = raw.measure();
        assert_eq!(measure.compact_bytes, compact.text().len(), "C2");
        assert_eq!(measure, compact.measure(), "C2: white space weighs nothing");
        assert_eq!(compact.compacted(), compact);
        assert_eq!(measure.levels, depth(value), "C7");
    }
}

fn depth(value: Value<'_>) -> usize {
    1 + match value.kind() {
        Kind::Object => {
            value.object().expect("an object").members().map(|(_, member)| depth(member)).max().unwrap_or(0)
        }
        Kind::Array => value.elements().expect("an array").map(depth).max().unwrap_or(0),
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => 0,
    }
}

fn members(object: Object<'_>, level: usize) {
    let mut keys = std::collections::BTreeSet::new();
    for (key, value) in object.members() {
        let name: String = serde_json::from_str(&format!("\"{key}\"")).expect("a key is a string");
        assert!(keys.insert(name), "C7: a repeated key");
        walk(value, level + 1);
    }
}

fn string(value: Value<'_>) {
    let text = value.string(usize::MAX).expect("a string");
    let other: String = serde_json::from_str(value.text()).expect("a string");
    assert_eq!(text, other, "unescaped as the other parser does");
    for limit in [0, 1, 2, 3, text.len().saturating_sub(1), text.len()] {
        let cut = value.string_cut(limit).expect("a string");
        assert!(cut.len() <= limit && limit - cut.len().min(limit) < 4 || cut.len() == text.len(), "C6");
        assert!(text.starts_with(&*cut));
        assert_eq!(value.string(limit).is_ok(), text.len() <= limit, "C2: bytes of UTF-8");
    }
    let mut out = Vec::new();
    write_object(&mut out, |object| object.string("s", &text));
    let back = json::parse(&out).expect("what is written can be read");
    let field = back.object().expect("an object").field("s").required().expect("there");
    assert_eq!(field.string(usize::MAX).expect("a string"), text);
}

fn number(value: Value<'_>) {
    // C3: an integer by its spelling, read exactly.
    let text = value.text();
    let integer = text != "-0" && !text.contains(['.', 'e', 'E']);
    assert_eq!(value.u64().ok(), if integer { text.parse().ok() } else { None }, "{text}");
    assert_eq!(value.i64().ok(), if integer { text.parse().ok() } else { None }, "{text}");
    assert_eq!(value.u32().ok(), value.u64().ok().and_then(|n| n.try_into().ok()));
    assert_eq!(value.u16().ok(), value.u64().ok().and_then(|n| n.try_into().ok()));
}
