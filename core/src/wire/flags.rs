//! The flags byte: binary, priority, last, admission class (protocol.md §6).

/// Bits 1–2: a hint about urgency, carried but never judged beyond its validity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// 0.
    Passive,
    /// 1: what we send unless the caller chooses (W11).
    #[default]
    Interactive,
    /// 2.
    Background,
}

/// Bits 4–5: how a frame may be treated under load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Admission {
    /// 0.
    #[default]
    Normal,
    /// 1.
    Expedite,
    /// 2: legal on `Push` and `StreamData` only (W4).
    Sheddable,
}

/// A valid flags byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Bit 0: the body is not text.
    pub binary: bool,
    /// Bits 1–2.
    pub priority: Priority,
    /// Bit 3: the last frame of its request.
    pub last: bool,
    /// Bits 4–5.
    pub admission: Admission,
}

/// Why a flags byte is no flags byte, in the order of W9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FlagsError {
    /// Bits 6–7 are not zero.
    #[error("reserved flag bits are set")]
    Reserved,
    /// Priority 3.
    #[error("priority 3 does not exist")]
    Priority,
    /// Admission class 3.
    #[error("admission class 3 does not exist")]
    Admission,
}

impl Flags {
    /// Reads a flags byte.
    ///
    /// # Errors
    /// [`FlagsError`], the first that applies in the order of W9.
    pub const fn decode(raw: u8) -> Result<Self, FlagsError> {
        if raw & 0b1100_0000 != 0 {
            return Err(FlagsError::Reserved); // W2
        }
        let priority = match (raw >> 1) & 0b11 {
            0 => Priority::Passive,
            1 => Priority::Interactive,
            2 => Priority::Background,
            _ => return Err(FlagsError::Priority), // W2
        };
        let admission = match (raw >> 4) & 0b11 {
            0 => Admission::Normal,
            1 => Admission::Expedite,
            2 => Admission::Sheddable,
            _ => return Err(FlagsError::Admission), // W2
        };
        Ok(Self { binary: raw & 1 != 0, priority, last: raw & 0b1000 != 0, admission })
    }

    /// The byte on the wire.
    #[must_use]
    pub const fn encode(self) -> u8 {
        let priority: u8 = match self.priority {
            Priority::Passive => 0,
            Priority::Interactive => 1,
            Priority::Background => 2,
        };
        let admission: u8 = match self.admission {
            Admission::Normal => 0,
            Admission::Expedite => 1,
            Admission::Sheddable => 2,
        };
        (self.binary as u8) | priority << 1 | (self.last as u8) << 3 | admission << 4
    }

    /// W11: a request or stream item, `0x02` or `0x03` at the default priority.
    #[must_use]
    pub const fn data(binary: bool, priority: Priority) -> Self {
        Self { binary, priority, last: false, admission: Admission::Normal }
    }

    /// W11: a terminal, `0x0A` or `0x0B`.
    #[must_use]
    pub const fn terminal(binary: bool) -> Self {
        Self { binary, priority: Priority::Interactive, last: true, admission: Admission::Normal }
    }

    /// W11: a pure-header frame, `0x00`.
    #[must_use]
    pub const fn pure() -> Self {
        Self { binary: false, priority: Priority::Passive, last: false, admission: Admission::Normal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_refused_for_the_first_reason_or_survives_a_round_trip() {
        for raw in 0..=u8::MAX {
            let want = if raw & 0xC0 != 0 {
                Err(FlagsError::Reserved)
            } else if raw & 0x06 == 0x06 {
                Err(FlagsError::Priority)
            } else if raw & 0x30 == 0x30 {
                Err(FlagsError::Admission)
            } else {
                Ok(raw)
            };
            assert_eq!(Flags::decode(raw).map(Flags::encode), want, "{raw:#04x}");
        }
    }

    #[test]
    fn w11_emitted_flags_have_their_bytes() {
        assert_eq!(Flags::data(false, Priority::Interactive).encode(), 0x02);
        assert_eq!(Flags::data(true, Priority::Interactive).encode(), 0x03);
        assert_eq!(Flags::terminal(false).encode(), 0x0A);
        assert_eq!(Flags::terminal(true).encode(), 0x0B);
        assert_eq!(Flags::pure().encode(), 0x00);
    }
}
