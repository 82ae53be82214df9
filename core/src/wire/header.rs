//! The 21 header bytes: decoding in the order of W9, whole or byte by byte, and encoding.
//!
//! Allocates nothing and trusts nothing: a [`Header`] that exists has passed every structural check. Lengths stay
//! `u32` until they are known to be at most 64 MiB, so nothing here can overflow on any target.

use super::flags::{Admission, Flags, FlagsError};
use super::identity::{Channel, Correlation, Epoch, Identity, RouteHandle};

/// Bytes of a header.
pub const HEADER_LEN: usize = 21;
/// Bytes of the frozen prefix (`len`, `ver`), judged as soon as they are in (W1).
pub const PREFIX_LEN: usize = 5;
/// The only protocol version.
pub const VERSION: u8 = 2;
/// The largest body, 64 MiB (W7).
pub const MAX_BODY: u32 = 67_108_864;

/// The `type` byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameType {
    /// 0: a client asks.
    Request = 0,
    /// 1: a host answers; a terminal.
    Response = 1,
    /// 2: unsolicited; never sent in this profile.
    Push = 2,
    /// 3: one item of a stream.
    StreamData = 3,
    /// 4: the clean end of a stream; a terminal.
    StreamEnd = 4,
    /// 5: a failure; a terminal.
    Error = 5,
    /// 6: a client asks for a stop.
    Cancel = 6,
    /// 7: a host probes.
    Ping = 7,
    /// 8: a client answers a probe.
    Pong = 8,
    /// 9: reserved, sent by nobody.
    Hello = 9,
    /// 10: reserved, sent by nobody.
    HelloAck = 10,
    /// 11: the end of a route or of the connection.
    Goodbye = 11,
}

impl FrameType {
    /// Every type, in wire order.
    pub const ALL: [Self; 12] = [
        Self::Request,
        Self::Response,
        Self::Push,
        Self::StreamData,
        Self::StreamEnd,
        Self::Error,
        Self::Cancel,
        Self::Ping,
        Self::Pong,
        Self::Hello,
        Self::HelloAck,
        Self::Goodbye,
    ];

    /// The type with this number.
    #[must_use]
    pub const fn decode(raw: u8) -> Option<Self> {
        Some(match raw {
            0 => Self::Request,
            1 => Self::Response,
            2 => Self::Push,
            3 => Self::StreamData,
            4 => Self::StreamEnd,
            5 => Self::Error,
            6 => Self::Cancel,
            7 => Self::Ping,
            8 => Self::Pong,
            9 => Self::Hello,
            10 => Self::HelloAck,
            11 => Self::Goodbye,
            _ => return None,
        })
    }

    /// Whether the frame is a header and nothing else (W3).
    #[must_use]
    pub const fn is_pure_header(self) -> bool {
        match self {
            Self::Cancel | Self::Ping | Self::Pong | Self::Goodbye => true,
            Self::Request
            | Self::Response
            | Self::Push
            | Self::StreamData
            | Self::StreamEnd
            | Self::Error
            | Self::Hello
            | Self::HelloAck => false,
        }
    }
}

/// A structurally valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Body length in bytes, at most [`MAX_BODY`].
    pub len: u32,
    /// What the frame is.
    pub kind: FrameType,
    /// Its flags.
    pub flags: Flags,
    /// What it is addressed to.
    pub identity: Identity,
}

/// Why bytes are no header. The first that applies, in the order of W9; each closes the generation (W2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// `ver` is not 2.
    #[error("unsupported protocol version")]
    Version,
    /// `type` is over 11.
    #[error("unknown frame type")]
    Type,
    /// Reserved bits, priority 3 or admission class 3.
    #[error(transparent)]
    Flags(FlagsError),
    /// `Sheddable` on anything but `Push` and `StreamData` (W4).
    #[error("sheddable on a frame that must not be shed")]
    Sheddable,
    /// A pure-header frame with binary, last or an admission class (W3).
    #[error("flags that a pure-header frame must not have")]
    PureHeaderFlags,
    /// A pure-header frame with a body.
    #[error("a pure-header frame with a body")]
    PureHeaderLength,
    /// `len` over 64 MiB (W7).
    #[error("body over 64 MiB")]
    BodyTooLarge,
    /// `epoch` ≠ 0 on channel 0.
    #[error("an epoch on the control channel")]
    ControlEpoch,
    /// `epoch` = 0 on a routed channel.
    #[error("no epoch on a routed channel")]
    ZeroEpoch,
}

impl Header {
    /// Reads a complete header.
    ///
    /// # Errors
    /// [`HeaderError`]: the first failing check in the order of W9.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        let [l0, l1, l2, l3, ver, kind, flags, c0, c1, e0, e1, e2, e3, k0, k1, k2, k3, k4, k5, k6, k7] =
            *bytes;
        // W9: the order of these checks is the contract.
        if ver != VERSION {
            return Err(HeaderError::Version); // W1
        }
        let kind = FrameType::decode(kind).ok_or(HeaderError::Type)?;
        let flags = Flags::decode(flags).map_err(HeaderError::Flags)?;
        if matches!(flags.admission, Admission::Sheddable)
            && !matches!(kind, FrameType::Push | FrameType::StreamData)
        {
            return Err(HeaderError::Sheddable); // W4
        }
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        if kind.is_pure_header() {
            if flags.binary || flags.last || !matches!(flags.admission, Admission::Normal) {
                return Err(HeaderError::PureHeaderFlags); // W3
            }
            if len != 0 {
                return Err(HeaderError::PureHeaderLength); // W2
            }
        }
        if len > MAX_BODY {
            return Err(HeaderError::BodyTooLarge); // W7: before anything is allocated
        }
        let channel = Channel::new(u16::from_le_bytes([c0, c1]));
        let epoch = Epoch::new(u32::from_le_bytes([e0, e1, e2, e3]));
        let corr = Correlation::new(u64::from_le_bytes([k0, k1, k2, k3, k4, k5, k6, k7]));
        let identity = match (channel, epoch, corr) {
            (None, Some(_), _) => return Err(HeaderError::ControlEpoch), // W2
            (Some(_), None, _) => return Err(HeaderError::ZeroEpoch),    // W2
            (None, None, None) => Identity::Connection,
            (None, None, Some(corr)) => Identity::Control(corr),
            (Some(channel), Some(epoch), None) => Identity::Route(RouteHandle { channel, epoch }),
            (Some(channel), Some(epoch), Some(corr)) => {
                Identity::Routed(RouteHandle { channel, epoch }, corr)
            }
        };
        Ok(Self { len, kind, flags, identity })
    }

    /// The bytes on the wire.
    #[must_use]
    pub const fn encode(&self) -> [u8; HEADER_LEN] {
        let (channel, epoch, corr) = self.identity.raw();
        let [l0, l1, l2, l3] = self.len.to_le_bytes();
        let [c0, c1] = channel.to_le_bytes();
        let [e0, e1, e2, e3] = epoch.to_le_bytes();
        let [k0, k1, k2, k3, k4, k5, k6, k7] = corr.to_le_bytes();
        let (kind, flags) = (self.kind as u8, self.flags.encode());
        [l0, l1, l2, l3, VERSION, kind, flags, c0, c1, e0, e1, e2, e3, k0, k1, k2, k3, k4, k5, k6, k7]
    }
}

/// Collects a header that arrives in pieces.
///
/// ```text
///  |len·len·len·len·ver|type·flags·channel…·epoch……·corr…………|
///  └── judged at 5 ────┘                                     └ judged at 21
/// ```
#[derive(Clone, Debug, Default)]
pub struct HeaderDecoder {
    bytes: [u8; HEADER_LEN],
    filled: usize,
}

impl HeaderDecoder {
    /// Takes header bytes from the front of `input`; never one byte past the header.
    ///
    /// Returns how many were taken, and the header once it is complete; the decoder is then empty again.
    ///
    /// # Errors
    /// As [`Header::decode`]; a wrong version as soon as five bytes are in (W1).
    #[inline]
    pub fn feed(&mut self, input: &[u8]) -> Result<(usize, Option<Header>), HeaderError> {
        match input.first_chunk::<HEADER_LEN>() {
            Some(whole) if self.filled == 0 => Header::decode(whole).map(|header| (HEADER_LEN, Some(header))),
            Some(_) | None => self.collect(input),
        }
    }

    fn collect(&mut self, input: &[u8]) -> Result<(usize, Option<Header>), HeaderError> {
        let mut taken = 0;
        for (slot, byte) in self.bytes.iter_mut().skip(self.filled).zip(input) {
            *slot = *byte;
            taken += 1;
        }
        self.filled += taken;
        // W1, W9: the version first; the rest may never come.
        if self.filled >= PREFIX_LEN && self.bytes.get(PREFIX_LEN - 1) != Some(&VERSION) {
            return Err(HeaderError::Version);
        }
        if self.filled < HEADER_LEN {
            return Ok((taken, None));
        }
        self.filled = 0;
        Header::decode(&self.bytes).map(|header| (taken, Some(header)))
    }

    /// Whether a header has begun: an end here is corruption (W2), otherwise an orderly close (W5).
    #[must_use]
    pub const fn is_mid_header(&self) -> bool {
        self.filled != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Priority;
    use alloc::vec::Vec;

    fn hex(text: &str) -> [u8; HEADER_LEN] {
        let bytes: Vec<u8> =
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect();
        bytes.try_into().unwrap()
    }

    #[test]
    fn the_two_examples_of_the_contract_are_read_and_written() {
        let open = Header {
            len: 173,
            kind: FrameType::Request,
            flags: Flags::data(false, Priority::Interactive),
            identity: Identity::Control(Correlation::FIRST),
        };
        let bytes = hex("ad0000000200020000000000000100000000000000");
        assert_eq!(Header::decode(&bytes), Ok(open));
        assert_eq!(open.encode(), bytes);
        let call = Header {
            len: 44,
            kind: FrameType::Request,
            flags: Flags::data(false, Priority::Background),
            identity: Identity::Routed(RouteHandle::new(7, 77).unwrap(), Correlation::new(2).unwrap()),
        };
        let bytes = hex("2c00000002000407004d0000000200000000000000");
        assert_eq!(Header::decode(&bytes), Ok(call));
        assert_eq!(call.encode(), bytes);
    }

    /// B170: version, type and flags. A header with every fault of W9 at once; each fix uncovers the next error in the contract's order.
    #[test]
    fn w9_the_first_failing_check_names_the_error() {
        let mut bytes = [0xFF; HEADER_LEN];
        let steps: [(usize, u8, HeaderError); 6] = [
            (4, 2, HeaderError::Version),
            (5, 6, HeaderError::Type),
            (6, 0x3F, HeaderError::Flags(FlagsError::Reserved)),
            (6, 0x39, HeaderError::Flags(FlagsError::Priority)),
            (6, 0x29, HeaderError::Flags(FlagsError::Admission)),
            (6, 0x09, HeaderError::Sheddable),
        ];
        for (at, fix, error) in steps {
            assert_eq!(Header::decode(&bytes), Err(error));
            bytes[at] = fix;
        }
        assert_eq!(Header::decode(&bytes), Err(HeaderError::PureHeaderFlags));
        bytes[6] = 0;
        assert_eq!(Header::decode(&bytes), Err(HeaderError::PureHeaderLength));
        bytes[5] = 0;
        assert_eq!(Header::decode(&bytes), Err(HeaderError::BodyTooLarge));
        bytes[..4].copy_from_slice(&MAX_BODY.to_le_bytes());
        bytes[7..9].fill(0);
        assert_eq!(Header::decode(&bytes), Err(HeaderError::ControlEpoch));
        bytes[7] = 1;
        bytes[9..13].fill(0);
        assert_eq!(Header::decode(&bytes), Err(HeaderError::ZeroEpoch));
        bytes[9] = 1;
        assert!(Header::decode(&bytes).is_ok());
    }

    #[test]
    fn w3_each_pure_header_flag_is_refused_on_its_own() {
        for kind in [6, 7, 8, 11] {
            for flags in [0x01, 0x08, 0x10] {
                let mut bytes = hex("0000000002000000000000000000000000000000ff");
                bytes[5] = kind;
                bytes[6] = flags;
                assert_eq!(Header::decode(&bytes), Err(HeaderError::PureHeaderFlags), "{kind} {flags:#x}");
                bytes[6] = 0x04;
                assert!(Header::decode(&bytes).is_ok(), "priority is free");
            }
        }
    }

    #[test]
    fn w4_sheddable_is_legal_on_push_and_stream_data_only() {
        for kind in FrameType::ALL {
            let mut bytes = hex("0000000002000000000000000000000000000000ff");
            bytes[5] = kind as u8;
            bytes[6] = 0x20;
            let legal = matches!(kind, FrameType::Push | FrameType::StreamData);
            assert_eq!(Header::decode(&bytes).is_ok(), legal, "{kind:?}");
            if !legal {
                assert_eq!(Header::decode(&bytes), Err(HeaderError::Sheddable));
            }
        }
    }

    #[test]
    fn w7_the_largest_body_is_accepted_and_one_byte_more_is_not() {
        // B004: boundary lengths on the width-free path.
        for (len, ok) in [
            (MAX_BODY, true),
            (MAX_BODY + 1, false),
            (0x7FFF_FFFF, false),
            (u32::MAX - 20, false),
            (u32::MAX, false),
        ] {
            let mut bytes = hex("0000000002000000000000000000000000000000ff");
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            assert_eq!(Header::decode(&bytes).is_ok(), ok, "{len:#x}");
        }
    }

    /// B002: nothing is subtracted from a length, and nothing waited for.
    #[test]
    fn w1_a_wrong_version_is_refused_with_five_bytes_in_hand() {
        let mut decoder = HeaderDecoder::default();
        assert_eq!(decoder.feed(&[0, 0, 0, 0]), Ok((4, None)));
        assert_eq!(decoder.feed(&[1]), Err(HeaderError::Version));
    }

    /// Incremental and one-shot decoding agree for every split, for every single-byte change of both examples.
    #[test]
    fn b001_pieces_and_the_whole_give_the_same_answer() {
        for text in
            ["ad0000000200020000000000000100000000000000", "2c00000002000407004d0000000200000000000000"]
        {
            let base = hex(text);
            for at in 0..HEADER_LEN {
                for value in [0x00, 0x01, 0x02, 0x03, 0x06, 0x0C, 0x20, 0x30, 0x40, 0x80, 0xFF] {
                    let mut bytes = base;
                    bytes[at] = value;
                    let whole = Header::decode(&bytes);
                    for split in 0..=HEADER_LEN {
                        let mut decoder = HeaderDecoder::default();
                        let first = decoder.feed(&bytes[..split]);
                        let pieces = match first {
                            Ok((n, Some(header))) => {
                                assert_eq!((n, split), (HEADER_LEN, HEADER_LEN));
                                Ok(header)
                            }
                            Ok((n, None)) => {
                                assert_eq!(n, split);
                                assert_eq!(decoder.is_mid_header(), split > 0);
                                let mut with_tail = bytes[split..].to_vec();
                                with_tail.extend_from_slice(&[9; 4]);
                                decoder.feed(&with_tail).map(|(n, header)| {
                                    assert_eq!(n, HEADER_LEN - split, "no byte past the header");
                                    header.unwrap()
                                })
                            }
                            Err(error) => Err(error),
                        };
                        assert_eq!(pieces, whole);
                    }
                }
            }
        }
    }

    #[test]
    fn b004_one_byte_of_ones_anywhere_is_judged_the_same_every_time() {
        for at in 0..HEADER_LEN {
            let mut bytes = [0; HEADER_LEN];
            bytes[at] = 0xFF;
            assert!(Header::decode(&bytes).is_err(), "version 0 or 255 at least");
        }
    }
}
