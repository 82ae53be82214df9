//! The scanner: decides whether a text is one well-formed JSON value within the limits, and remembers nothing else.
//!
//! Invariant: what passes here can be walked by the other files of this module without a further syntax check.
//! It never recurses; its stack is a fixed array.

use super::keys::Keys;
use super::text::surrogate_pair;

/// The deepest level that a value may have: the root is level 1, and each nested container or scalar adds one (C7).
pub const MAX_LEVELS: usize = 33;

/// How many keys of objects that are still open one scan remembers.
///
/// A member takes five bytes at least, so no text of up to 65,536 bytes reaches this; it bounds the memory that a
/// larger one can ask for.
pub const MAX_OPEN_KEYS: usize = 16_384;

/// Why a text is not one acceptable JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxError {
    /// The bytes are not UTF-8.
    #[error("text is not UTF-8")]
    InvalidUtf8,
    /// The text begins with a byte-order mark.
    #[error("text begins with a byte-order mark")]
    ByteOrderMark,
    /// The text ends inside a value.
    #[error("text ends early")]
    UnexpectedEnd,
    /// A byte stands where the grammar has no place for it.
    #[error("unexpected byte")]
    UnexpectedByte,
    /// A raw control character stands in a string.
    #[error("control character in a string")]
    ControlCharacter,
    /// A backslash is followed by something that is no escape.
    #[error("unknown escape in a string")]
    BadEscape,
    /// A `\u` escape names half of a surrogate pair.
    #[error("lone surrogate escape")]
    LoneSurrogate,
    /// One object has the same key twice, compared after unescaping.
    #[error("repeated key")]
    RepeatedKey,
    /// A value lies deeper than [`MAX_LEVELS`].
    #[error("value nested too deep")]
    TooDeep,
    /// The open objects have more than [`MAX_OPEN_KEYS`] keys.
    #[error("too many keys")]
    TooManyKeys,
    /// Something other than white space follows the root.
    #[error("bytes behind the root value")]
    TrailingBytes,
}

/// JSON's white space, and only that: Unicode has more.
pub(super) const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// What is open around the cursor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Array,
    /// An object, and where its keys begin in [`Keys`].
    Object(u32),
}

struct Stack {
    open: [Open; MAX_LEVELS],
    depth: usize,
}

impl Stack {
    fn top(&self) -> Option<Open> {
        self.depth.checked_sub(1).and_then(|top| self.open.get(top)).copied()
    }

    fn push(&mut self, container: Open) -> Result<(), SyntaxError> {
        *self.open.get_mut(self.depth).ok_or(SyntaxError::TooDeep)? = container;
        self.depth += 1;
        Ok(())
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn bump(&mut self) -> Result<u8, SyntaxError> {
        let byte = self.peek().ok_or(SyntaxError::UnexpectedEnd)?;
        self.at += 1;
        Ok(byte)
    }

    fn expect(&mut self, wanted: u8) -> Result<(), SyntaxError> {
        if self.bump()? == wanted { Ok(()) } else { Err(SyntaxError::UnexpectedByte) }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn literal(&mut self, rest: &[u8]) -> Result<(), SyntaxError> {
        rest.iter().try_for_each(|&byte| self.expect(byte))
    }

    /// The rest of a string, whose opening quote has been taken.
    fn string(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.bump()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                0..=0x1f => return Err(SyntaxError::ControlCharacter),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.bump()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => match self.hex4()? {
                // C3: half a pair has no meaning in UTF-8, and two readers would disagree about it.
                high @ 0xd800..=0xdbff => {
                    if self.bump()? != b'\\' || self.bump()? != b'u' {
                        return Err(SyntaxError::LoneSurrogate);
                    }
                    let low = self.hex4()?;
                    surrogate_pair(high, low).map(|_| ()).ok_or(SyntaxError::LoneSurrogate)
                }
                0xdc00..=0xdfff => Err(SyntaxError::LoneSurrogate),
                _ => Ok(()),
            },
            _ => Err(SyntaxError::BadEscape),
        }
    }

    fn hex4(&mut self) -> Result<u32, SyntaxError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = char::from(self.bump()?).to_digit(16).ok_or(SyntaxError::BadEscape)?;
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }

    /// A number, whose first byte is still to be taken.
    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.bump()? {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            _ => return Err(SyntaxError::UnexpectedByte),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        if !self.bump()?.is_ascii_digit() {
            return Err(SyntaxError::UnexpectedByte);
        }
        self.skip_digits();
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// A key with its colon, and the white space behind both.
    fn key(&mut self, base: u32, keys: &mut Keys<'_>) -> Result<(), SyntaxError> {
        self.expect(b'"')?;
        let start = self.at;
        self.string()?;
        keys.add(base, start)?;
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(())
    }
}

/// Judges one text.
pub(super) fn scan(text: &str) -> Result<(), SyntaxError> {
    if text.starts_with('\u{feff}') {
        return Err(SyntaxError::ByteOrderMark);
    }
    let mut cursor = Cursor { text: text.as_bytes(), at: 0 };
    let mut keys = Keys::new(text);
    let mut stack = Stack { open: [Open::Array; MAX_LEVELS], depth: 0 };
    cursor.skip_space();
    'value: loop {
        // C7: a value inside `depth` containers has level `depth + 1`, a scalar as well as a container.
        if stack.depth >= MAX_LEVELS {
            return Err(SyntaxError::TooDeep);
        }
        match cursor.bump()? {
            b'{' => {
                let base = keys.mark();
                stack.push(Open::Object(base))?;
                cursor.skip_space();
                if cursor.peek() == Some(b'}') {
                    cursor.at += 1;
                    stack.pop();
                } else {
                    cursor.key(base, &mut keys)?;
                    continue 'value;
                }
            }
            b'[' => {
                stack.push(Open::Array)?;
                cursor.skip_space();
                if cursor.peek() == Some(b']') {
                    cursor.at += 1;
                    stack.pop();
                } else {
                    continue 'value;
                }
            }
            b'"' => cursor.string()?,
            b'-' | b'0'..=b'9' => {
                cursor.at -= 1;
                cursor.number()?;
            }
            b't' => cursor.literal(b"rue")?,
            b'f' => cursor.literal(b"alse")?,
            b'n' => cursor.literal(b"ull")?,
            _ => return Err(SyntaxError::UnexpectedByte),
        }
        // A value has ended: close what it completes, or go on to its next sibling.
        loop {
            cursor.skip_space();
            match stack.top() {
                // C7: nothing behind the root but white space.
                None if cursor.peek().is_some() => return Err(SyntaxError::TrailingBytes),
                None => return Ok(()),
                Some(Open::Object(base)) => match cursor.bump()? {
                    b',' => {
                        cursor.skip_space();
                        cursor.key(base, &mut keys)?;
                        continue 'value;
                    }
                    b'}' => {
                        keys.close(base)?;
                        stack.pop();
                    }
                    _ => return Err(SyntaxError::UnexpectedByte),
                },
                Some(Open::Array) => match cursor.bump()? {
                    b',' => {
                        cursor.skip_space();
                        continue 'value;
                    }
                    b']' => stack.pop(),
                    _ => return Err(SyntaxError::UnexpectedByte),
                },
            }
        }
    }
}
