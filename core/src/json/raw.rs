//! An opaque JSON value that someone else will read: kept as the text it was sent as.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::scan::SyntaxError;
use super::value::{Measure, Value, significant};

/// One JSON value, verbatim, without white space around it. Never printed (Z1, N15).
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson {
    text: Box<str>,
}

impl RawJson {
    /// Takes a text that is one JSON value.
    ///
    /// # Errors
    ///
    /// As [`parse`](super::parse).
    pub fn new(text: &str) -> Result<Self, SyntaxError> {
        super::parse(text.as_bytes()).map(Self::from)
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value, for reading.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        Value::root(&self.text)
    }

    /// The same value less insignificant white space; within strings, and in numbers, nothing changes (C2).
    #[must_use]
    pub fn compacted(&self) -> Self {
        let compact = significant(&self.text).map(|(byte, _)| byte).collect();
        // Only ASCII has gone, and none of it from within a character.
        match String::from_utf8(compact) {
            Ok(text) => Self { text: text.into() },
            Err(_) => self.clone(),
        }
    }

    /// Its size, as the limits count it.
    #[must_use]
    pub fn measure(&self) -> Measure {
        self.value().measure()
    }
}

impl From<Value<'_>> for RawJson {
    fn from(value: Value<'_>) -> Self {
        Self { text: value.text().into() }
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawJson(..)")
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn an_opaque_value_is_kept_verbatim_and_never_printed() {
        let raw = RawJson::new(" { \"k\" : 1.0e0 } ").unwrap();
        assert_eq!(raw.text(), "{ \"k\" : 1.0e0 }");
        assert_eq!(raw.measure(), Measure { compact_bytes: 11, containers: 1, levels: 2 });
        assert_eq!(raw.compacted().text(), "{\"k\":1.0e0}");
        assert_eq!(
            RawJson::new("[ \"\\\" é \\\\\" ,\t1 ]").unwrap().compacted().text(),
            "[\"\\\" é \\\\\",1]"
        );
        assert_eq!(format!("{raw:?}"), "RawJson(..)");
        assert_eq!(RawJson::new("{\"a\":1,\"a\":1}"), Err(SyntaxError::RepeatedKey));
        assert_eq!(raw.value().object().unwrap().field("k").required().unwrap().text(), "1.0e0");
    }
}
