//! Strings of a text that has been scanned: unescaping, one character at a time.

use core::str::Chars;

/// The characters of a raw string (what stands between its quotes), unescaped. Ends at a raw quote as well.
///
/// On text that has not been scanned a broken escape ends it early; it never panics.
#[derive(Clone)]
pub(super) struct Unescape<'a> {
    raw: Chars<'a>,
}

impl<'a> Unescape<'a> {
    pub(super) fn new(raw: &'a str) -> Self {
        Self { raw: raw.chars() }
    }

    fn hex4(&mut self) -> Option<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            unit = unit * 16 + self.raw.next()?.to_digit(16)?;
        }
        Some(unit)
    }

    fn escape(&mut self) -> Option<char> {
        Some(match self.raw.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let unit = self.hex4()?;
                if let Some(scalar) = char::from_u32(unit) {
                    scalar
                } else {
                    // The scan has seen to it that `\u` and the other half follow.
                    self.raw.next()?;
                    self.raw.next()?;
                    surrogate_pair(unit, self.hex4()?)?
                }
            }
            // The quote, the backslash and the solidus stand for themselves.
            itself => itself,
        })
    }
}

impl Iterator for Unescape<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.raw.next()? {
            '"' => None,
            '\\' => self.escape(),
            plain => Some(plain),
        }
    }
}

/// The character that two halves make, if they are a high and a low one.
pub(super) fn surrogate_pair(high: u32, low: u32) -> Option<char> {
    match (high, low) {
        (0xd800..=0xdbff, 0xdc00..=0xdfff) => {
            char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
        }
        (_, _) => None,
    }
}
