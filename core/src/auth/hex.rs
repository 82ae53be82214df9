//! Lowercase hexadecimal, the one spelling that the protocol's identifiers have.

/// The bytes of exactly `2 * N` lowercase hex digits.
pub(crate) fn parse<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N.checked_mul(2)? {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        for &digit in pair {
            let digit = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            // Two digits make at most 255.
            *byte = *byte * 16 + digit;
        }
    }
    Some(bytes)
}

/// Writes bytes as lowercase hex.
pub(crate) fn write(bytes: &[u8], to: &mut impl core::fmt::Write) -> core::fmt::Result {
    bytes.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    #[test]
    fn hex_is_read_in_one_spelling_and_written_in_it() {
        assert_eq!(parse("00ff19af"), Some([0, 0xff, 0x19, 0xaf]));
        for text in [
            "00ff19a",
            "00ff19af0",
            "00ff19af00",
            "00FF19af",
            "00fg19af",
            "0x00ff1f",
            " 0ff19af",
            "é0ff19a",
            "",
        ] {
            assert_eq!(parse::<4>(text), None, "{text}");
        }
        let mut text = String::new();
        write(&[0, 0xff, 0x19, 0xaf], &mut text).unwrap();
        assert_eq!(text, "00ff19af");
        assert_eq!(parse::<0>(""), Some([]));
    }
}
