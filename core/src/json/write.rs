//! Writing compact JSON. Absent members are left out by not writing them (C10).

use alloc::vec::Vec;
use core::fmt;

/// Appends one object, whose members `fill` writes in order.
pub fn write_object(out: &mut Vec<u8>, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
    out.push(b'{');
    fill(&mut ObjectWriter { out, first: true });
    out.push(b'}');
}

/// Writes the members of one object.
pub struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl fmt::Debug for ObjectWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Z1: what has been written is a body.
        f.debug_struct("ObjectWriter").finish_non_exhaustive()
    }
}

impl ObjectWriter<'_> {
    fn key(&mut self, name: &str) -> &mut Vec<u8> {
        separate(self.out, &mut self.first);
        write_string(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// A string member.
    pub fn string(&mut self, name: &str, value: &str) {
        write_string(self.key(name), value);
    }

    /// An integer member.
    pub fn number(&mut self, name: &str, value: u64) {
        write_number(self.key(name), value);
    }

    /// A boolean member.
    pub fn boolean(&mut self, name: &str, value: bool) {
        self.key(name).extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// A member that is an array of numbers 0..=255.
    pub fn bytes(&mut self, name: &str, value: &[u8]) {
        self.array(name, |array| {
            for &byte in value {
                array.number(u64::from(byte));
            }
        });
    }

    /// A member that is an array of strings.
    pub fn strings<'s>(&mut self, name: &str, values: impl IntoIterator<Item = &'s str>) {
        self.array(name, |array| {
            for value in values {
                array.string(value);
            }
        });
    }

    /// A member whose value is JSON already.
    pub fn raw(&mut self, name: &str, value: &super::RawJson) {
        self.key(name).extend_from_slice(value.text().as_bytes());
    }

    /// A member that is an object.
    pub fn object(&mut self, name: &str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        write_object(self.key(name), fill);
    }

    /// A member that is an array.
    pub fn array(&mut self, name: &str, fill: impl FnOnce(&mut ArrayWriter<'_>)) {
        let out = self.key(name);
        out.push(b'[');
        fill(&mut ArrayWriter { out, first: true });
        out.push(b']');
    }
}

/// Writes the elements of one array.
pub struct ArrayWriter<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl fmt::Debug for ArrayWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Z1: what has been written is a body.
        f.debug_struct("ArrayWriter").finish_non_exhaustive()
    }
}

impl ArrayWriter<'_> {
    /// A string.
    pub fn string(&mut self, value: &str) {
        separate(self.out, &mut self.first);
        write_string(self.out, value);
    }

    /// An integer.
    pub fn number(&mut self, value: u64) {
        separate(self.out, &mut self.first);
        write_number(self.out, value);
    }

    /// An object.
    pub fn object(&mut self, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        separate(self.out, &mut self.first);
        write_object(self.out, fill);
    }
}

fn separate(out: &mut Vec<u8>, first: &mut bool) {
    if !core::mem::take(first) {
        out.push(b',');
    }
}

fn write_number(out: &mut Vec<u8>, value: u64) {
    if value >= 10 {
        write_number(out, value / 10); // at most 20 digits, so as many levels
    }
    // A digit, so the cast is exact.
    out.push(b'0' + u8::try_from(value % 10).unwrap_or_default());
}

fn write_string(out: &mut Vec<u8>, value: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let needs_escape = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    out.push(b'"');
    let mut rest = value.as_bytes();
    while let Some(at) = rest.iter().position(needs_escape) {
        let (plain, from) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, behind)) = from.split_first() else { break };
        rest = behind;
        let short = match byte {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..=0x1f => {
                out.extend_from_slice(b"\\u00");
                out.extend(HEX.get(usize::from(byte >> 4)));
                out.extend(HEX.get(usize::from(byte & 0xf)));
                continue;
            }
            _ => byte,
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::json::RawJson;

    fn written(fill: impl FnOnce(&mut ObjectWriter<'_>)) -> alloc::string::String {
        let mut out = Vec::new();
        write_object(&mut out, fill);
        alloc::string::String::from_utf8(out).unwrap()
    }

    #[test]
    fn c10_an_absent_member_is_left_out_and_commas_stand_between_members_only() {
        assert_eq!(written(|_| {}), "{}");
        assert_eq!(written(|o| o.string("a", "x")), r#"{"a":"x"}"#);
        let text = written(|o| {
            o.number("n", 0);
            o.number("max", u64::MAX);
            o.bytes("b", &[0, 7, 255]);
            o.bytes("none", &[]);
            o.strings("s", ["p", "q"]);
            o.raw("r", &RawJson::new(" null ").unwrap());
            o.object("o", |o| o.number("i", 10));
            o.array("a", |a| {
                a.object(|o| o.string("k", ""));
                a.object(|_| {});
            });
        });
        assert_eq!(
            text,
            r#"{"n":0,"max":18446744073709551615,"b":[0,7,255],"none":[],"s":["p","q"],"r":null,"o":{"i":10},"a":[{"k":""},{}]}"#
        );
    }

    #[test]
    fn every_string_is_written_as_a_reader_of_json_reads_it() {
        let mut all: alloc::string::String = (0..=0x80_u8).map(char::from).collect();
        all.push_str("é\u{2028}\u{1f600}\u{10ffff}");
        let text = written(|o| o.string(&all, &all));
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read[&all], all.as_str());
        assert_eq!(text.matches("\\u00").count(), 2 * (32 - 5));
        assert!(
            text.contains("\\u001f") && text.contains("\\u0010") && text.contains("\\n\\u000b\\f\\r\\u000e")
        );
    }

    #[test]
    fn z1_a_writer_does_not_print_what_it_wrote() {
        written(|o| {
            o.string("secret", "s3");
            assert_eq!(format!("{o:?}"), "ObjectWriter { .. }");
            o.array("a", |a| {
                a.string("s3");
                assert_eq!(format!("{a:?}"), "ArrayWriter { .. }");
            });
        });
    }
}
