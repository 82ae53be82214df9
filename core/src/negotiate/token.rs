//! The activation token: what a candidate's first frame has to show (N11).

use core::fmt;

use alloc::string::String;
use subtle::ConstantTimeEq;

use crate::auth::hex;
use crate::json::{Problem, ReadError, Value};

/// 16 bytes that are fresh for every grant; 32 lowercase hex digits on the wire (N3). Compared in constant time, never
/// printed (N15).
#[derive(Clone)]
pub struct ActivationToken([u8; 16]);

impl ActivationToken {
    /// A token of bytes that the caller drew from the operating system's CSPRNG, for this grant only.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The wire's spelling.
    pub(super) fn to_hex(&self) -> String {
        let mut text = String::with_capacity(32);
        // A `String` takes everything.
        let _ = hex::write(&self.0, &mut text);
        text
    }

    pub(super) fn decode(value: Value<'_>) -> Result<Self, ReadError> {
        let text = value.string(32)?;
        hex::parse(&text).map(Self).ok_or_else(|| value.problem(Problem::NotAllowed))
    }
}

impl PartialEq for ActivationToken {
    fn eq(&self, other: &Self) -> bool {
        // N11: in constant time.
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for ActivationToken {}

impl fmt::Debug for ActivationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ActivationToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::json;

    #[test]
    fn n3_a_token_is_exactly_32_lowercase_hex_digits() {
        let token = ActivationToken::new([0xaf; 16]);
        let text = "af".repeat(16);
        assert_eq!(token.to_hex(), text);
        let read = |text: &str| {
            ActivationToken::decode(json::parse(format!("\"{text}\"").as_bytes()).unwrap())
                .map_err(|e| e.problem)
        };
        assert_eq!(read(&text), Ok(token));
        assert_eq!(read(&text[1..]), Err(Problem::NotAllowed));
        assert_eq!(read(&text[2..]), Err(Problem::NotAllowed));
        assert_eq!(read(&(text.clone() + "a")), Err(Problem::TooLong));
        assert_eq!(read(&text.to_uppercase()), Err(Problem::NotAllowed));
        assert_eq!(read(""), Err(Problem::NotAllowed));
        let number = json::parse(b"1").unwrap();
        assert_eq!(ActivationToken::decode(number).unwrap_err().problem, Problem::WrongType);
    }

    #[test]
    fn n11_tokens_that_differ_in_any_byte_are_unequal() {
        for at in 0..16 {
            let mut bytes = [3; 16];
            bytes[at] ^= 1;
            assert!(ActivationToken::new(bytes) != ActivationToken::new([3; 16]));
        }
        assert!(ActivationToken::new([3; 16]) == ActivationToken::new([3; 16]));
    }

    #[test]
    fn n15_a_token_is_not_printed() {
        assert_eq!(format!("{:?}", ActivationToken::new([0xaf; 16])), "ActivationToken(..)");
    }
}
