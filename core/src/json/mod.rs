//! Strict JSON reading: one iterative scan, then typed reads over text that is known to be well formed.
//!
//! [`parse`] owns every judgement about syntax: UTF-8, escapes, depth, repeated keys, what may follow the root. After
//! it a [`Value`] is a span of that text, and reading a member is a walk over spans. Nothing is ever re-encoded, so an
//! opaque member can be cut out exactly as it was sent.
//!
//! What a peer can make this module do is bounded: no recursion, a stack of [`MAX_LEVELS`] entries, at most
//! [`MAX_OPEN_KEYS`] remembered keys, time `O(n log n)` in the length of the text. Errors and `Debug` never hold text.

mod keys;
mod object;
mod raw;
mod scan;
mod text;
mod value;
mod write;

pub use object::{Member, Members, Object};
pub use raw::RawJson;
pub use scan::{MAX_LEVELS, MAX_OPEN_KEYS, SyntaxError};
pub use value::{Elements, Kind, Measure, Problem, ReadError, Value, check_name};
pub use write::{ArrayWriter, ObjectWriter, write_object};

/// Reads one complete JSON text and returns its root.
///
/// The whole text is judged before anything of it can be read: a fault in a member that nobody asks for is still a
/// fault (C3, C7).
///
/// ```
/// let root = hostwire_core::json::parse(br#"{"op":"catalog.list"}"#)?;
/// let [op, filter] = root.object()?.pick(["op", "module_id"]);
/// assert_eq!(op.required()?.string(64)?, "catalog.list");
/// assert!(filter.present().is_none());
/// # Ok::<(), hostwire_core::json::ReadError>(())
/// ```
///
/// # Errors
///
/// [`SyntaxError`] names the first rule that the text breaks.
pub fn parse(text: &[u8]) -> Result<Value<'_>, SyntaxError> {
    // C3: UTF-8 is judged over the whole text, strings and all; the standard check is as strict as RFC 3629.
    let text = core::str::from_utf8(text).map_err(|_| SyntaxError::InvalidUtf8)?;
    scan::scan(text)?;
    Ok(Value::root(text.trim_matches(scan::is_space)))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn verdict(text: &str) -> Result<(), SyntaxError> {
        parse(text.as_bytes()).map(|_| ())
    }

    #[test]
    fn c3_what_is_no_json_is_refused_and_named() {
        use SyntaxError::*;
        let cases: &[(&[u8], SyntaxError)] = &[
            (b"", UnexpectedEnd),
            (b" \t\r\n", UnexpectedEnd),
            (b"\xef\xbb\xbf{}", ByteOrderMark),
            (b" \xef\xbb\xbf{}", UnexpectedByte),
            (b"\xff\xfe{\0}\0", InvalidUtf8),
            (b"\"\xff\"", InvalidUtf8),
            (b"\"\xc0\x80\"", InvalidUtf8),
            (b"\"\xed\xa0\x80\"", InvalidUtf8),
            (b"\"\xf4\x90\x80\x80\"", InvalidUtf8),
            (b"\xc2\xa01", UnexpectedByte),
            (b"\x0b1", UnexpectedByte),
            (b"{", UnexpectedEnd),
            (b"{\"a\"", UnexpectedEnd),
            (b"{\"a\":", UnexpectedEnd),
            (b"{\"a\":1", UnexpectedEnd),
            (b"{\"a\":1,", UnexpectedEnd),
            (b"{\"a\":1,}", UnexpectedByte),
            (b"{\"a\" 1}", UnexpectedByte),
            (b"{\"a\":1 \"b\":2}", UnexpectedByte),
            (b"{\"a\":1]", UnexpectedByte),
            (b"{a:1}", UnexpectedByte),
            (b"{1:1}", UnexpectedByte),
            (b"{,}", UnexpectedByte),
            (b"[", UnexpectedEnd),
            (b"[1", UnexpectedEnd),
            (b"[1,", UnexpectedEnd),
            (b"[1,]", UnexpectedByte),
            (b"[,1]", UnexpectedByte),
            (b"[1 2]", UnexpectedByte),
            (b"[1}", UnexpectedByte),
            (b"]", UnexpectedByte),
            (b"}", UnexpectedByte),
            (b"tru", UnexpectedEnd),
            (b"trux", UnexpectedByte),
            (b"True", UnexpectedByte),
            (b"nul", UnexpectedEnd),
            (b"falsy", UnexpectedByte),
            (b"NaN", UnexpectedByte),
            (b"'a'", UnexpectedByte),
            (b"// c\n1", UnexpectedByte),
            (b"-", UnexpectedEnd),
            (b"+1", UnexpectedByte),
            (b"-a", UnexpectedByte),
            (b"01", TrailingBytes),
            (b"-01", TrailingBytes),
            (b"1.", UnexpectedEnd),
            (b"1.a", UnexpectedByte),
            (b".5", UnexpectedByte),
            (b"1e", UnexpectedEnd),
            (b"1e+", UnexpectedEnd),
            (b"1ea", UnexpectedByte),
            (b"1E-a", UnexpectedByte),
            (b"0x10", TrailingBytes),
            (b"\"a", UnexpectedEnd),
            (b"\"a\\\"", UnexpectedEnd),
            (b"\"\n\"", ControlCharacter),
            (b"\"\x1f\"", ControlCharacter),
            (b"\"\0\"", ControlCharacter),
            (b"\"\\a\"", BadEscape),
            (b"\"\\U0041\"", BadEscape),
            (b"\"\\u004\"", BadEscape),
            (b"\"\\u00g0\"", BadEscape),
            (b"\"\\u+041\"", BadEscape),
            (b"\"\\u", UnexpectedEnd),
            (b"\"\\ud800\"", LoneSurrogate),
            (b"\"\\ud800x\"", LoneSurrogate),
            (b"\"\\ud800\\n\"", LoneSurrogate),
            (b"\"\\ud800\\u0041\"", LoneSurrogate),
            (b"\"\\ud800\\ud800\"", LoneSurrogate),
            (b"\"\\ud800\\ue000\"", LoneSurrogate),
            (b"\"\\udbff\\udbff\"", LoneSurrogate),
            (b"\"\\udc00\"", LoneSurrogate),
            (b"\"\\udfff\"", LoneSurrogate),
            (b"{\"\\udc00\":1}", LoneSurrogate),
            (b"\"\\ud800", UnexpectedEnd),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text).map(|_| ()), Err(*wanted), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_json_is_read_whatever_its_spacing() {
        for text in [
            "{}",
            "[]",
            "null",
            "true",
            "false",
            "0",
            "-0",
            "-0.0e-0",
            "10",
            "1.50",
            "1e5",
            "1E+05",
            "-12.25E-2",
            "\"\"",
            "\t{ \"a\" : [ 1 , { } , [ ] ] ,\r\n\"b\":null } ",
            "\"\u{7f}\u{feff}é\u{10ffff}\"",
            r#""\"\\\/\b\f\n\r\t\u0000\uD83D\uDE00\ud7ff\ue000\udbff\udfff""#,
        ] {
            assert_eq!(verdict(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn c7_only_white_space_may_stand_behind_the_root() {
        for tail in ["", " ", "\n\t \r"] {
            assert_eq!(verdict(&format!("{{}}{tail}")), Ok(()));
        }
        for tail in ["{}", "\0", ",", "}", " x", "\u{a0}", "\u{feff}"] {
            assert_eq!(verdict(&format!("{{}}{tail}")), Err(SyntaxError::TrailingBytes), "{tail:?}");
        }
    }

    #[test]
    fn c7_level_33_is_read_and_level_34_is_refused_for_containers_and_scalars_alike() {
        let nest = |n: usize, leaf: &str| format!("{}{leaf}{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(verdict(&nest(33, "")), Ok(()));
        assert_eq!(verdict(&nest(34, "")), Err(SyntaxError::TooDeep));
        assert_eq!(verdict(&nest(32, "0")), Ok(()));
        assert_eq!(verdict(&nest(33, "0")), Err(SyntaxError::TooDeep));
        let objects = |n: usize, leaf: &str| format!("{}{leaf}{}", r#"{"a":"#.repeat(n), "}".repeat(n));
        assert_eq!(verdict(&objects(32, "{}")), Ok(()));
        assert_eq!(verdict(&objects(32, "null")), Ok(()));
        assert_eq!(verdict(&objects(33, "{}")), Err(SyntaxError::TooDeep));
        assert_eq!(verdict(&objects(33, "null")), Err(SyntaxError::TooDeep));
        // Siblings do not add up, closed or not.
        let wide = alloc::vec![r#"[[],{},{"a":1}]"#; 100].join(",");
        assert_eq!(verdict(&format!("[{wide}]")), Ok(()));
    }

    #[test]
    fn c7_64_kib_of_opening_brackets_is_refused_at_level_34() {
        for open in ["[", "{\"a\":"] {
            assert_eq!(verdict(&open.repeat(65_536)), Err(SyntaxError::TooDeep));
        }
    }

    #[test]
    fn c7_a_repeated_key_is_refused_at_every_depth() {
        for text in [
            r#"{"op":"catalog.list","op":"host.shutdown"}"#,
            r#"{"a":1,"b":2,"a":1}"#,
            r#"{"x":{"a":1,"b":{"c":0,"c":0}}}"#,
            r#"{"x":[0,{"a":1,"a":1}]}"#,
            r#"{"":1,"":1}"#,
            r#"{"a":{"z":1},"b":{"z":1},"a":3}"#,
        ] {
            assert_eq!(verdict(text), Err(SyntaxError::RepeatedKey), "{text}");
        }
        for text in [
            r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#,
            r#"[{"a":1},{"a":1}]"#,
            r#"{"a":1,"A":1,"a ":1,"":1,"aa":1}"#,
            r#"{"x":{"a":1,"b":1},"a":1,"b":1}"#,
        ] {
            assert_eq!(verdict(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn c7_keys_are_compared_unescaped() {
        for (one, other) in [
            ("op", r"\u006fp"),
            ("op", r"o\u0070"),
            (r"\u006fp", r"o\u0070"),
            ("/", r"\/"),
            (r"\n", r"\u000a"),
            (r"\u000A", r"\u000a"),
            (r#"\""#, r"\u0022"),
            (r"\\", r"\u005c"),
            ("é", r"\u00e9"),
            ("\u{1f600}", r"\ud83d\ude00"),
            (r"\b\f\r\t", r"\u0008\u000c\u000d\u0009"),
        ] {
            let text = format!(r#"{{"{one}":1,"{other}":2}}"#);
            assert_eq!(verdict(&text), Err(SyntaxError::RepeatedKey), "{text}");
            let text = format!(r#"{{"{other}":1,"{one}":2}}"#);
            assert_eq!(verdict(&text), Err(SyntaxError::RepeatedKey), "{text}");
        }
        for (one, other) in [
            ("n", r"\n"),
            ("u0041", r"\u0041"),
            ("a", r"a\u0000"),
            (r"\u00e9", "è"),
            (r#"a\""#, "a"),
            ("é", "\u{e9}e"),
        ] {
            assert_eq!(verdict(&format!(r#"{{"{one}":1,"{other}":2}}"#)), Ok(()), "{one} {other}");
        }
    }

    #[test]
    fn c7_a_repeat_is_found_in_an_object_of_any_size_wherever_it_stands() {
        let object = |keys: &[String]| {
            let members: Vec<_> = keys.iter().map(|key| format!(r#""{key}":0"#)).collect();
            format!("{{{}}}", members.join(","))
        };
        for n in (1..40).chain([1000]) {
            let keys: Vec<_> = (0..n).map(|i| format!("k{i}")).collect();
            assert_eq!(verdict(&object(&keys)), Ok(()), "{n}");
            for twice in [0, n / 2, n - 1] {
                let mut keys = keys.clone();
                keys.push(format!(r"\u006b{twice}"));
                assert_eq!(verdict(&object(&keys)), Err(SyntaxError::RepeatedKey), "{n} {twice}");
                // Also when a larger object follows or stands around it.
                let inner = object(&keys);
                assert_eq!(verdict(&format!(r#"{{"a":1,"k":{inner}}}"#)), Err(SyntaxError::RepeatedKey));
            }
            // A large object inside another leaves the outer one's keys alone.
            let inner = object(&keys);
            assert_eq!(verdict(&format!(r#"{{"a":1,"k0":{inner},"b":1}}"#)), Ok(()));
            assert_eq!(verdict(&format!(r#"{{"a":1,"k0":{inner},"a":1}}"#)), Err(SyntaxError::RepeatedKey));
        }
    }

    #[test]
    fn the_fullest_body_has_fewer_keys_than_a_scan_remembers_and_one_more_key_is_refused() {
        let keys = |n: usize| {
            let members: Vec<_> = (0..n).map(|i| format!(r#""{i}":0"#)).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(keys(65_536 / 5).len() > 65_536);
        assert_eq!(verdict(&keys(MAX_OPEN_KEYS)), Ok(()));
        assert_eq!(verdict(&keys(MAX_OPEN_KEYS + 1)), Err(SyntaxError::TooManyKeys));
        // Keys of closed objects are forgotten.
        let closed = keys(MAX_OPEN_KEYS / 2);
        assert_eq!(verdict(&format!("[{closed},{closed},{closed}]")), Ok(()));
    }

    /// A second opinion that shares nothing with the scanner: serde_json's syntax, with what it lets pass added.
    mod peer {
        use alloc::collections::BTreeSet;
        use alloc::string::{String, ToString};
        use core::fmt;

        use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

        /// The level of the deepest value; an error if a key repeats.
        pub(super) struct Depth(pub(super) usize);

        impl<'de> Deserialize<'de> for Depth {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Walk)
            }
        }

        struct Walk;

        impl<'de> Visitor<'de> for Walk {
            type Value = Depth;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_bool<E>(self, _: bool) -> Result<Depth, E> {
                Ok(Depth(1))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Depth, E> {
                Ok(Depth(1))
            }
            fn visit_u64<E>(self, _: u64) -> Result<Depth, E> {
                Ok(Depth(1))
            }
            fn visit_f64<E>(self, _: f64) -> Result<Depth, E> {
                Ok(Depth(1))
            }
            fn visit_str<E>(self, _: &str) -> Result<Depth, E> {
                Ok(Depth(1))
            }
            fn visit_unit<E>(self) -> Result<Depth, E> {
                Ok(Depth(1))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Depth, A::Error> {
                let mut deepest = 0;
                while let Some(Depth(depth)) = seq.next_element()? {
                    deepest = deepest.max(depth);
                }
                Ok(Depth(deepest + 1))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Depth, A::Error> {
                let mut keys = BTreeSet::new();
                let mut deepest = 0;
                while let Some((key, Depth(depth))) = map.next_entry::<String, Depth>()? {
                    if !keys.insert(key) {
                        return Err(A::Error::custom("repeated"));
                    }
                    deepest = deepest.max(depth);
                }
                Ok(Depth(deepest + 1))
            }
        }

        /// `None` where serde_json has no say: it reads numbers into floats, and refuses those beyond them.
        pub(super) fn accepts(text: &[u8]) -> Option<bool> {
            match serde_json::from_slice(text) {
                Ok(Depth(depth)) => Some(depth <= super::MAX_LEVELS),
                Err(error) if error.to_string().contains("number out of range") => None,
                Err(_) => Some(false),
            }
        }
    }

    fn judged_alike(text: &[u8]) -> bool {
        peer::accepts(text).is_none_or(|accepted| accepted == parse(text).is_ok())
    }

    /// JSON text of every shape, with spacing, escapes and now and then a repeated key.
    fn any_json() -> impl Strategy<Value = String> {
        let space = prop::sample::select(alloc::vec!["", "", "", " ", "\n", "\t \r"]);
        let string = prop::collection::vec(
            prop_oneof![
                4 => "[a-c]",
                1 => "[^\"\\\\\u{0}-\u{1f}]",
                1 => prop::sample::select(alloc::vec![
                    r"\n", r"\\", r#"\""#, r"\u0061", r"\u00e9", r"\ud83d\ude00", r"\/", "]", "}", ",", ":", "{", "["
                ]).prop_map(ToString::to_string),
            ],
            0..4,
        )
        .prop_map(|parts| format!("\"{}\"", parts.concat()));
        let scalar = prop_oneof![
            Just("null".to_string()),
            Just("true".to_string()),
            Just("false".to_string()),
            any::<i64>().prop_map(|n| n.to_string()),
            "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
            string.clone(),
        ];
        scalar.prop_recursive(6, 48, 5, move |inner| {
            let spaced = (space.clone(), inner, space.clone()).prop_map(|(a, v, b)| format!("{a}{v}{b}"));
            let member = (space.clone(), string.clone(), space.clone(), spaced.clone())
                .prop_map(|(a, k, b, v)| format!("{a}{k}{b}:{v}"));
            prop_oneof![
                prop::collection::vec(spaced, 0..5).prop_map(|v| format!("[{}]", v.join(","))),
                prop::collection::vec(member, 0..5).prop_map(|v| format!("{{{}}}", v.join(","))),
            ]
        })
    }

    /// What our reads say of a value, rebuilt as serde_json's tree.
    fn tree(value: Value<'_>) -> serde_json::Value {
        match value.kind() {
            Kind::Null => serde_json::Value::Null,
            Kind::Bool => value.bool().unwrap().into(),
            Kind::Number => serde_json::from_str(value.text()).unwrap(),
            Kind::String => value.string(usize::MAX).unwrap().into_owned().into(),
            Kind::Array => value.elements().unwrap().map(tree).collect(),
            Kind::Object => {
                let members = value.object().unwrap().members().map(|(key, value)| {
                    (serde_json::from_str::<String>(&format!("\"{key}\"")).unwrap(), tree(value))
                });
                serde_json::Value::Object(members.collect())
            }
        }
    }

    proptest! {
        #[test]
        fn what_we_accept_is_what_serde_json_accepts_without_repeats(text in any_json()) {
            prop_assert!(judged_alike(text.as_bytes()));
            if let Ok(root) = parse(text.as_bytes()) {
                prop_assert_eq!(tree(root), serde_json::from_str::<serde_json::Value>(&text).unwrap());
            }
        }

        #[test]
        fn a_damaged_text_is_judged_as_serde_json_judges_it(text in any_json(), at in any::<prop::sample::Index>(), byte in any::<u8>(), how in 0..3) {
            let mut text = text.into_bytes();
            let at = at.index(text.len());
            match how {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => { text.remove(at); }
            }
            prop_assert!(judged_alike(&text), "{}", String::from_utf8_lossy(&text));
        }

        #[test]
        fn any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(judged_alike(&bytes));
        }

        #[test]
        fn a_value_measures_as_its_text_without_white_space(text in any_json()) {
            if let Ok(root) = parse(text.as_bytes()) {
                let measure = root.measure();
                let mut compact = Vec::new();
                let mut in_string = false;
                let mut escaped = false;
                for byte in text.bytes() {
                    if byte == b'"' && !escaped { in_string = !in_string; }
                    escaped = in_string && byte == b'\\' && !escaped;
                    if in_string || !byte.is_ascii_whitespace() { compact.push(byte); }
                }
                prop_assert_eq!(measure.compact_bytes, compact.len());
            }
        }
    }
}
