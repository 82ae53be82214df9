//! One value of a scanned text, and the typed reads of it.
//!
//! A [`Value`] is a span and the name that it was read under; it owns nothing, and its errors say which member was
//! wrong and why, never what stood there.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

use super::object::Object;
use super::scan::SyntaxError;
use super::text::Unescape;

/// What sort of value stands in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number, integer or not.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// What is wrong with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text as a whole is not acceptable JSON.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A required member is not there.
    #[error("missing")]
    Missing,
    /// A closed set of members has one more.
    #[error("member outside the closed set")]
    Unknown,
    /// A value of another [`Kind`].
    #[error("wrong type")]
    WrongType,
    /// A number with a fraction, an exponent or a negative zero where an integer belongs.
    #[error("not an integer")]
    NotInteger,
    /// An integer outside its range.
    #[error("out of range")]
    OutOfRange,
    /// A string, or an opaque value, that has more bytes than allowed.
    #[error("too long")]
    TooLong,
    /// An opaque value that is nested deeper than allowed.
    #[error("nested too deep")]
    TooDeep,
    /// A string without a byte where one is needed.
    #[error("empty")]
    Empty,
    /// A string with a NUL in it.
    #[error("contains NUL")]
    Nul,
    /// An array whose length is not the fixed one, or over the limit.
    #[error("wrong length")]
    WrongLength,
    /// A value that is well typed but not among those allowed.
    #[error("not allowed here")]
    NotAllowed,
}

/// Which member could not be read, and why. Holds nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{member}: {problem}")]
pub struct ReadError {
    /// The member's name as the contract spells it; `body` for the root.
    pub member: &'static str,
    /// What is wrong with it.
    pub problem: Problem,
}

impl From<SyntaxError> for ReadError {
    fn from(error: SyntaxError) -> Self {
        Self { member: ROOT, problem: Problem::Syntax(error) }
    }
}

const ROOT: &str = "body";

/// The size of an opaque value, as its limits count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Bytes of the text less insignificant white space (C2).
    pub compact_bytes: usize,
    /// Levels of containers: a scalar has 0, `{}` has 1 (C2, N3).
    pub containers: usize,
    /// Levels of values, scalars included: a scalar and `{}` have 1, `[0]` has 2 (C7).
    pub levels: usize,
}

/// One value, within the text it was read from.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    member: &'static str,
    text: &'a str,
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Z1: a body is never printed.
        f.debug_struct("Value")
            .field("member", &self.member)
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

impl<'a> Value<'a> {
    pub(super) const fn root(text: &'a str) -> Self {
        Self { member: ROOT, text }
    }

    /// `text` is exactly one scanned value.
    pub(super) const fn new(member: &'static str, text: &'a str) -> Self {
        Self { member, text }
    }

    /// An error about this value.
    #[must_use]
    pub const fn problem(&self, problem: Problem) -> ReadError {
        ReadError { member: self.member, problem }
    }

    /// The value exactly as it was sent.
    #[must_use]
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// What sort of value this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.text.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    fn require(&self, kind: Kind) -> Result<(), ReadError> {
        if self.kind() == kind { Ok(()) } else { Err(self.problem(Problem::WrongType)) }
    }

    /// The members of an object.
    ///
    /// # Errors
    ///
    /// [`Problem::WrongType`].
    pub fn object(&self) -> Result<Object<'a>, ReadError> {
        self.require(Kind::Object)?;
        Ok(Object::new(self.member, self.inner()))
    }

    /// The elements of an array; each carries this value's name.
    ///
    /// # Errors
    ///
    /// [`Problem::WrongType`].
    pub fn elements(&self) -> Result<Elements<'a>, ReadError> {
        self.require(Kind::Array)?;
        Ok(Elements { member: self.member, rest: Spans::new(self.inner()) })
    }

    /// What stands between the first and the last byte: both are ASCII in a container and in a string.
    fn inner(&self) -> &'a str {
        self.text.get(1..self.text.len().saturating_sub(1)).unwrap_or_default()
    }

    /// A string of at most `max_bytes` bytes of UTF-8 after unescaping; copied only if it has escapes.
    ///
    /// # Errors
    ///
    /// [`Problem::WrongType`], [`Problem::TooLong`].
    pub fn string(&self, max_bytes: usize) -> Result<Cow<'a, str>, ReadError> {
        let (string, whole) = self.string_prefix(max_bytes)?;
        if whole { Ok(string) } else { Err(self.problem(Problem::TooLong)) }
    }

    /// As [`string`](Self::string), but a longer string is cut at `max_bytes`, at the end of a character.
    ///
    /// # Errors
    ///
    /// [`Problem::WrongType`].
    pub fn string_cut(&self, max_bytes: usize) -> Result<Cow<'a, str>, ReadError> {
        self.string_prefix(max_bytes).map(|(string, _)| string)
    }

    /// The string, or its longest prefix within the limit, and whether that is all of it.
    fn string_prefix(&self, max_bytes: usize) -> Result<(Cow<'a, str>, bool), ReadError> {
        self.require(Kind::String)?;
        let raw = self.inner();
        if !raw.as_bytes().contains(&b'\\') {
            let cut = raw.floor_char_boundary(max_bytes);
            return Ok((Cow::Borrowed(raw.get(..cut).unwrap_or_default()), cut == raw.len()));
        }
        let mut string = String::with_capacity(raw.len().min(max_bytes));
        for scalar in Unescape::new(raw) {
            if string.len() + scalar.len_utf8() > max_bytes {
                return Ok((Cow::Owned(string), false));
            }
            string.push(scalar);
        }
        Ok((Cow::Owned(string), true))
    }

    /// A string as names and identities are: 1 to `max_bytes` bytes, no NUL (C2).
    ///
    /// # Errors
    ///
    /// [`Problem::WrongType`], [`Problem::TooLong`], [`Problem::Empty`], [`Problem::Nul`].
    pub fn name(&self, max_bytes: usize) -> Result<Cow<'a, str>, ReadError> {
        let string = self.string(max_bytes)?;
        check_name(&string, max_bytes).map_err(|problem| self.problem(problem))?;
        Ok(string)
    }

    /// A bool.
    ///
    /// # Errors
    ///
    /// [`Problem::WrongType`].
    pub fn bool(&self) -> Result<bool, ReadError> {
        self.require(Kind::Bool)?;
        Ok(self.text == "true")
    }

    /// The digits of an integer, and whether a minus stands before them.
    fn integer(&self) -> Result<(bool, &'a str), ReadError> {
        self.require(Kind::Number)?;
        let (negative, digits) = match self.text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, self.text),
        };
        // An integer is one by its spelling: `1.0` and `1e0` are other texts, and `-0` would lose its sign.
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) || (negative && digits == "0") {
            return Err(self.problem(Problem::NotInteger));
        }
        Ok((negative, digits))
    }

    /// An integer 0..=`u64::MAX`, read exactly: no fraction, no exponent, no `-0`, no saturation.
    ///
    /// # Errors
    ///
    /// [`Problem::WrongType`], [`Problem::NotInteger`], [`Problem::OutOfRange`].
    pub fn u64(&self) -> Result<u64, ReadError> {
        let (negative, digits) = self.integer()?;
        match digits.parse() {
            Ok(value) if !negative => Ok(value),
            Ok(_) | Err(_) => Err(self.problem(Problem::OutOfRange)),
        }
    }

    /// As [`u64`](Self::u64), for 0..=`u32::MAX`.
    ///
    /// # Errors
    ///
    /// As [`u64`](Self::u64).
    pub fn u32(&self) -> Result<u32, ReadError> {
        self.u64().and_then(|value| u32::try_from(value).map_err(|_| self.problem(Problem::OutOfRange)))
    }

    /// As [`u64`](Self::u64), for 0..=`u16::MAX`.
    ///
    /// # Errors
    ///
    /// As [`u64`](Self::u64).
    pub fn u16(&self) -> Result<u16, ReadError> {
        self.u64().and_then(|value| u16::try_from(value).map_err(|_| self.problem(Problem::OutOfRange)))
    }

    /// As [`u64`](Self::u64), for the range of `i64`.
    ///
    /// # Errors
    ///
    /// As [`u64`](Self::u64).
    pub fn i64(&self) -> Result<i64, ReadError> {
        self.integer()?;
        self.text.parse().map_err(|_| self.problem(Problem::OutOfRange))
    }

    /// An array of exactly `N` integers 0..=255.
    ///
    /// # Errors
    ///
    /// [`Problem::WrongType`], [`Problem::WrongLength`], and those of [`u64`](Self::u64) for an element.
    pub fn bytes<const N: usize>(&self) -> Result<[u8; N], ReadError> {
        let mut elements = self.elements()?;
        // Nonces and proofs are most of what a handshake reads: what is spelled as everybody spells it is read in one go.
        if let Some(bytes) = plain_bytes(self.inner()) {
            return Ok(bytes);
        }
        let mut bytes = [0; N];
        for byte in &mut bytes {
            let element = elements.next().ok_or_else(|| self.problem(Problem::WrongLength))?;
            *byte = u8::try_from(element.u64()?).map_err(|_| self.problem(Problem::OutOfRange))?;
        }
        match elements.next() {
            None => Ok(bytes),
            Some(_) => Err(self.problem(Problem::WrongLength)),
        }
    }

    /// The size of this value as the limits on opaque values count it.
    #[must_use]
    pub fn measure(&self) -> Measure {
        let mut measure = Measure { compact_bytes: 0, containers: 0, levels: 0 };
        let mut depth = 0_usize;
        for (byte, in_string) in significant(self.text) {
            measure.compact_bytes += 1;
            if in_string {
                continue;
            }
            match byte {
                b'{' | b'[' => {
                    depth += 1;
                    measure.containers = measure.containers.max(depth);
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                // A scalar; or a key, a comma or a colon, beside which there is a value that lies as deep.
                _ => measure.levels = measure.levels.max(depth + 1),
            }
        }
        measure.levels = measure.levels.max(measure.containers);
        measure
    }
}

/// `N` numbers 0..=255 with a comma between two and nothing else; `None` says that it is something else, and not what.
fn plain_bytes<const N: usize>(scanned: &str) -> Option<[u8; N]> {
    let mut rest = scanned.as_bytes();
    let mut bytes = [0; N];
    for byte in &mut bytes {
        let mut value = 0_u16;
        loop {
            let (next, behind) = rest.split_first()?;
            rest = behind;
            // The scan has seen to it that there is a digit, and no zero before another.
            value = value * 10 + u16::from(next.checked_sub(b'0').filter(|digit| *digit <= 9)?);
            *byte = u8::try_from(value).ok()?;
            match rest.split_first() {
                None => break,
                Some((b',', behind)) => {
                    rest = behind;
                    break;
                }
                Some(_) => {}
            }
        }
    }
    rest.is_empty().then_some(bytes)
}

/// The bytes of a scanned text less insignificant white space, and whether each stands within a string (behind its
/// opening quote, up to and with its closing one).
pub(super) fn significant(text: &str) -> impl Iterator<Item = (u8, bool)> {
    let mut in_string = false;
    let mut escaped = false;
    text.bytes().filter_map(move |byte| {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            return Some((byte, true));
        }
        in_string = byte == b'"';
        (!matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).then_some((byte, false))
    })
}

/// Whether a text is a name as C2 wants it: 1 to `max_bytes` bytes, no NUL.
///
/// # Errors
///
/// [`Problem::TooLong`], [`Problem::Empty`], [`Problem::Nul`].
pub fn check_name(text: &str, max_bytes: usize) -> Result<(), Problem> {
    if text.len() > max_bytes {
        return Err(Problem::TooLong);
    }
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if text.as_bytes().contains(&0) {
        return Err(Problem::Nul);
    }
    Ok(())
}

/// The elements of an array, in order.
#[derive(Clone)]
pub struct Elements<'a> {
    member: &'static str,
    rest: Spans<'a>,
}

impl fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elements").field("member", &self.member).finish_non_exhaustive()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.rest.next().map(|text| Value::new(self.member, text))
    }
}

/// Walks the inside of a container of scanned text: each value or key in turn, punctuation left out.
#[derive(Clone)]
pub(super) struct Spans<'a> {
    rest: &'a str,
}

impl<'a> Spans<'a> {
    pub(super) const fn new(rest: &'a str) -> Self {
        Self { rest }
    }
}

impl<'a> Iterator for Spans<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        let is_gap = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':');
        let start = bytes.iter().position(|byte| !is_gap(byte))?;
        let end = start + value_len(bytes.get(start..).unwrap_or_default());
        let span = self.rest.get(start..end);
        self.rest = self.rest.get(end..).unwrap_or_default();
        span
    }
}

/// The length of the scanned value that `text` begins with.
fn value_len(text: &[u8]) -> usize {
    match text.first() {
        Some(b'"') => string_len(text),
        Some(b'{' | b'[') => {
            let mut depth = 0_usize;
            let mut at = 0;
            while let Some(byte) = text.get(at) {
                match byte {
                    b'"' => {
                        at += string_len(text.get(at..).unwrap_or_default());
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth == 1 => return at + 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
            }
            at
        }
        Some(_) | None => text
            .iter()
            .position(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b']' | b'}'))
            .unwrap_or(text.len()),
    }
}

/// The length of the string, quotes and all, that `text` begins with.
fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::super::parse;
    use super::*;

    fn value(text: &str) -> Value<'_> {
        parse(text.as_bytes()).unwrap()
    }

    fn fails<T: fmt::Debug>(result: Result<T, ReadError>) -> Problem {
        result.unwrap_err().problem
    }

    #[test]
    fn b015_an_integer_is_read_exactly_or_not_at_all() {
        for (text, wanted) in [
            ("0", Ok(0)),
            ("1", Ok(1)),
            ("4294967296", Ok(4_294_967_296)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(Problem::OutOfRange)),
            ("1000000000000000000000000000000", Err(Problem::OutOfRange)),
            ("-1", Err(Problem::OutOfRange)),
            ("-0", Err(Problem::NotInteger)),
            ("1.0", Err(Problem::NotInteger)),
            ("-1.0", Err(Problem::NotInteger)),
            ("1e0", Err(Problem::NotInteger)),
            ("1E2", Err(Problem::NotInteger)),
            ("0e0", Err(Problem::NotInteger)),
            ("\"1\"", Err(Problem::WrongType)),
            ("null", Err(Problem::WrongType)),
            ("true", Err(Problem::WrongType)),
            ("[1]", Err(Problem::WrongType)),
        ] {
            assert_eq!(value(text).u64().map_err(|e| e.problem), wanted, "{text}");
        }
    }

    #[test]
    fn narrower_integers_have_their_own_bounds() {
        assert_eq!(value("4294967295").u32(), Ok(u32::MAX));
        assert_eq!(fails(value("4294967296").u32()), Problem::OutOfRange);
        assert_eq!(value("65535").u16(), Ok(u16::MAX));
        assert_eq!(fails(value("65536").u16()), Problem::OutOfRange);
        assert_eq!(value("-9223372036854775808").i64(), Ok(i64::MIN));
        assert_eq!(value("9223372036854775807").i64(), Ok(i64::MAX));
        assert_eq!(fails(value("9223372036854775808").i64()), Problem::OutOfRange);
        assert_eq!(fails(value("-0").i64()), Problem::NotInteger);
        assert_eq!(fails(value("1.5").i64()), Problem::NotInteger);
    }

    #[test]
    fn a6_a_byte_array_has_exactly_its_length_and_bytes_only() {
        assert_eq!(value("[0, 255 ,7]").bytes(), Ok([0, 255, 7]));
        assert_eq!(value("[]").bytes(), Ok([]));
        for (text, wanted) in [
            ("[10,200]", [10, 200]),
            ("[9,0]", [9, 0]),
            ("[255,255]", [255, 255]),
            ("[ 255,100]", [255, 100]),
            ("[255,100 ]", [255, 100]),
        ] {
            assert_eq!(value(text).bytes(), Ok(wanted), "{text}");
        }
        for (text, wanted) in [
            ("[]", Problem::WrongLength),
            ("[1]", Problem::WrongLength),
            ("[1,2,3]", Problem::WrongLength),
            ("[1,256]", Problem::OutOfRange),
            ("[1,260]", Problem::OutOfRange),
            ("[1,2550]", Problem::OutOfRange),
            ("[65536,1]", Problem::OutOfRange),
            ("[1,-1]", Problem::OutOfRange),
            ("[1,1.0]", Problem::NotInteger),
            ("[1,\"1\"]", Problem::WrongType),
            ("[1,null]", Problem::WrongType),
            ("[1,[2]]", Problem::WrongType),
            ("\"12\"", Problem::WrongType),
            ("{\"0\":1,\"1\":2}", Problem::WrongType),
        ] {
            assert_eq!(fails(value(text).bytes::<2>()), wanted, "{text}");
        }
    }

    #[test]
    fn c2_a_string_is_bounded_in_bytes_after_unescaping() {
        assert_eq!(value(r#""abcd""#).string(4).unwrap(), "abcd");
        assert_eq!(fails(value(r#""abcde""#).string(4)), Problem::TooLong);
        assert_eq!(value(r#""\u0061bc\u0064""#).string(4).unwrap(), "abcd");
        assert_eq!(fails(value(r#""\u0061bcd\u0065""#).string(4)), Problem::TooLong);
        assert_eq!(value(r#""éé""#).string(4).unwrap(), "éé");
        assert_eq!(fails(value(r#""éé""#).string(3)), Problem::TooLong);
        assert_eq!(value(r#""\u00e9\u00e9""#).string(4).unwrap(), "éé");
        assert_eq!(fails(value(r#""\u00e9\u00e9""#).string(3)), Problem::TooLong);
        assert_eq!(value(r#""""#).string(0).unwrap(), "");
        assert!(matches!(value(r#""abcd""#).string(4), Ok(Cow::Borrowed(_))));
        assert_eq!(
            value(r#""\"\\\/\b\f\n\r\t\u0000\uD83D\uDE00\u20AC""#).string(64).unwrap(),
            "\"\\/\u{8}\u{c}\n\r\t\0\u{1f600}€"
        );
        for text in ["1", "null", "[\"a\"]", "{}"] {
            assert_eq!(fails(value(text).string(9)), Problem::WrongType);
        }
    }

    #[test]
    fn c2_a_name_is_not_empty_and_has_no_nul() {
        assert_eq!(value(r#""a""#).name(1).unwrap(), "a");
        assert_eq!(fails(value(r#""""#).name(1)), Problem::Empty);
        assert_eq!(fails(value(r#""ab""#).name(1)), Problem::TooLong);
        assert_eq!(fails(value(r#""a\u0000b""#).name(9)), Problem::Nul);
    }

    #[test]
    fn c6_a_cut_string_ends_at_a_character() {
        assert_eq!(value(r#""abc""#).string_cut(2).unwrap(), "ab");
        assert_eq!(value(r#""abc""#).string_cut(3).unwrap(), "abc");
        assert_eq!(value(r#""aé""#).string_cut(2).unwrap(), "a");
        assert_eq!(value(r#""a\u00e9b""#).string_cut(2).unwrap(), "a");
        assert_eq!(value(r#""a\u00e9b""#).string_cut(3).unwrap(), "aé");
        assert_eq!(fails(value("1").string_cut(3)), Problem::WrongType);
    }

    #[test]
    fn bools_are_bools() {
        assert_eq!(value("true").bool(), Ok(true));
        assert_eq!(value("false").bool(), Ok(false));
        assert_eq!(fails(value("0").bool()), Problem::WrongType);
        assert_eq!(fails(value("null").bool()), Problem::WrongType);
    }

    #[test]
    fn c2_compact_size_leaves_out_the_space_between_tokens_and_keeps_it_within_strings() {
        for (text, compact_bytes, containers, levels) in [
            ("0", 1, 0, 1),
            ("\"a b\"", 5, 0, 1),
            ("{}", 2, 1, 1),
            (" { \"a b\" :\t[ 1 ,\r\n{ } ] } ", 14, 3, 3),
            (r#"{"a":"\" ] {"}"#, 14, 1, 2),
            (r#"["\\", " "]"#, 10, 1, 2),
            (r#"["\\\" x", 1]"#, 12, 1, 2),
            ("[[],[[]],[]]", 12, 3, 3),
            ("[0,[0],{\"a\":{}}]", 16, 3, 3),
            ("[[[],[null]],0]", 15, 3, 4),
        ] {
            assert_eq!(value(text).measure(), Measure { compact_bytes, containers, levels }, "{text}");
        }
    }

    #[test]
    fn spans_are_cut_out_verbatim() {
        let root = value(r#" [ {"a" : [1, "]}"] } , "x\\" ,-1.5e3, true,[ ],"\"," ] "#);
        let texts: Vec<_> = root.elements().unwrap().map(|v| v.text()).collect();
        assert_eq!(texts, [r#"{"a" : [1, "]}"] }"#, r#""x\\""#, "-1.5e3", "true", "[ ]", r#""\",""#]);
        assert_eq!(value("[ ]").elements().unwrap().count(), 0);
        assert_eq!(fails(value("{}").elements()), Problem::WrongType);
        assert_eq!(fails(value("[]").object()), Problem::WrongType);
    }

    #[test]
    fn kinds_are_told_by_their_first_byte() {
        for (text, kind) in [
            ("null", Kind::Null),
            ("true", Kind::Bool),
            ("false", Kind::Bool),
            ("-1", Kind::Number),
            ("0", Kind::Number),
            ("\"\"", Kind::String),
            ("[]", Kind::Array),
            ("{}", Kind::Object),
        ] {
            assert_eq!(value(text).kind(), kind);
            assert_eq!(value(text).is_null(), kind == Kind::Null);
        }
    }

    #[test]
    fn z1_debug_and_errors_hold_nothing_of_the_text() {
        let root = value(r#"{"secret":["s3cr3t"]}"#);
        let object = root.object().unwrap();
        let [member] = object.pick(["secret"]);
        let inner = member.required().unwrap();
        let error = inner.string(1).unwrap_err();
        let elements = inner.elements().unwrap();
        assert_eq!(
            format!("{root:?} {object:?} {member:?}"),
            r#"Value { member: "body", kind: Object, .. } Object { member: "body", .. } Member { name: "secret", present: true }"#
        );
        assert_eq!(
            format!("{inner:?} {elements:?} {:?}", object.members()),
            r#"Value { member: "secret", kind: Array, .. } Elements { member: "secret", .. } Members { member: "body", .. }"#
        );
        assert_eq!(format!("{error:?}"), r#"ReadError { member: "secret", problem: WrongType }"#);
        assert_eq!(error.to_string(), "secret: wrong type");
    }
}
