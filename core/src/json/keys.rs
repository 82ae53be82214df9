//! The keys of the objects that are open during a scan, and the search for one that repeats.
//!
//! A key is remembered by where it begins; its closing quote ends it. A new key is compared with the first few of its
//! object, which is all there are in most; an object with more is sorted once when it closes, so that a text full of
//! keys costs `n log n`, not `n²`.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::scan::{MAX_OPEN_KEYS, SyntaxError};
use super::text::Unescape;

/// Each key is compared with this many at the front of its object when it comes.
const SMALL: usize = 16;

pub(super) struct Keys<'a> {
    text: &'a str,
    starts: Vec<u32>,
}

impl<'a> Keys<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, starts: Vec::new() }
    }

    /// Where the keys of an object that opens now will begin.
    pub(super) fn mark(&self) -> u32 {
        // `add` keeps the length under `MAX_OPEN_KEYS`.
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX)
    }

    fn of_object(&self, base: u32) -> &[u32] {
        self.starts.get(base as usize..).unwrap_or_default()
    }

    /// Takes a key, complete up to its closing quote, of the object that began at `base`.
    pub(super) fn add(&mut self, base: u32, start: usize) -> Result<(), SyntaxError> {
        if self.starts.len() >= MAX_OPEN_KEYS {
            return Err(SyntaxError::TooManyKeys);
        }
        let start = u32::try_from(start).map_err(|_| SyntaxError::TooManyKeys)?;
        // C7: refused at every depth, in members that nobody reads as well.
        if self.of_object(base).iter().take(SMALL).any(|&key| order(self.text, key, start).is_eq()) {
            return Err(SyntaxError::RepeatedKey);
        }
        self.starts.push(start);
        Ok(())
    }

    /// Ends the object that began at `base`, and forgets its keys.
    pub(super) fn close(&mut self, base: u32) -> Result<(), SyntaxError> {
        let text = self.text;
        if let Some(keys) = self.starts.get_mut(base as usize..)
            && keys.get(SMALL).is_some()
        {
            keys.sort_unstable_by(|&a, &b| order(text, a, b));
            if keys.array_windows().any(|&[a, b]| order(text, a, b).is_eq()) {
                return Err(SyntaxError::RepeatedKey);
            }
        }
        self.starts.truncate(base as usize);
        Ok(())
    }
}

/// Compares two keys of one text by their unescaped characters; each ends at its closing quote.
fn order(text: &str, a: u32, b: u32) -> Ordering {
    let (a, b) = (a as usize, b as usize);
    let bytes = text.as_bytes();
    let (raw_a, raw_b) = (bytes.get(a..).unwrap_or_default(), bytes.get(b..).unwrap_or_default());
    for (offset, (&x, &y)) in raw_a.iter().zip(raw_b).enumerate() {
        if x == b'\\' || y == b'\\' {
            // Equal up to here, so both stand between two characters.
            let rest = |key: usize| Unescape::new(text.get(key + offset..).unwrap_or_default());
            return rest(a).cmp(rest(b));
        }
        match (x, y) {
            (b'"', b'"') => return Ordering::Equal,
            (b'"', _) => return Ordering::Less,
            (_, b'"') => return Ordering::Greater,
            // UTF-8 sorts like the characters that it encodes.
            (x, y) if x != y => return x.cmp(&y),
            (_, _) => {}
        }
    }
    Ordering::Equal
}
