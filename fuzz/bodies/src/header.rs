//! One-shot decoding against a second reading of section 6 and 7, by offsets.

use hostwire_core::wire::{
    FlagsError, FrameType, HEADER_LEN, Header, HeaderDecoder, HeaderError, Illegal, MAX_BODY, Sender, judge,
};

/// Judges 21 bytes twice, and writes what was read.
///
/// # Panics
/// If the two readings differ.
pub fn header(data: &[u8]) {
    let Some(raw) = data.first_chunk::<HEADER_LEN>() else {
        short(data);
        return;
    };
    let decoded = Header::decode(raw);
    assert_eq!(decoded.err(), fault(raw), "W9: {raw:?}");
    let fed = HeaderDecoder::default().feed(data);
    assert_eq!(
        fed,
        decoded.map(|header| (HEADER_LEN, Some(header))),
        "the decoder takes no byte of the body"
    );
    let Ok(header) = decoded else { return };
    assert_eq!(&header.encode(), raw, "what is read is written back");
    assert_eq!(header.len, u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]));
    assert_eq!(header.kind, FrameType::ALL[usize::from(raw[5])]);
    for from in [Sender::Client, Sender::Host] {
        assert_eq!(judge(from, &header), legal(from, raw), "F1: {from:?} {raw:?}");
    }
}

/// W1: fewer than five bytes wait, then the version is judged.
fn short(data: &[u8]) {
    let mut decoder = HeaderDecoder::default();
    let wrong = data.len() >= 5 && data[4] != 2;
    let wanted = if wrong { Err(HeaderError::Version) } else { Ok((data.len(), None)) };
    assert_eq!(decoder.feed(data), wanted);
    assert!(wrong || decoder.is_mid_header() != data.is_empty(), "W5");
}

/// W9, in its order.
fn fault(raw: &[u8; HEADER_LEN]) -> Option<HeaderError> {
    let (kind, flags) = (raw[5], raw[6]);
    let len = u64::from(raw[0]) | u64::from(raw[1]) << 8 | u64::from(raw[2]) << 16 | u64::from(raw[3]) << 24;
    let zero = |range: core::ops::Range<usize>| raw[range].iter().all(|byte| *byte == 0);
    let pure = matches!(kind, 6 | 7 | 8 | 11);
    let checks = [
        (raw[4] != 2, HeaderError::Version),
        (kind > 11, HeaderError::Type),
        (flags & 0xC0 != 0, HeaderError::Flags(FlagsError::Reserved)),
        (flags & 0x06 == 0x06, HeaderError::Flags(FlagsError::Priority)),
        (flags & 0x30 == 0x30, HeaderError::Flags(FlagsError::Admission)),
        (flags & 0x30 == 0x20 && kind != 2 && kind != 3, HeaderError::Sheddable),
        (pure && flags & 0x39 != 0, HeaderError::PureHeaderFlags),
        (pure && len != 0, HeaderError::PureHeaderLength),
        (len > u64::from(MAX_BODY), HeaderError::BodyTooLarge),
        (zero(7..9) && !zero(9..13), HeaderError::ControlEpoch),
        (!zero(7..9) && zero(9..13), HeaderError::ZeroEpoch),
    ];
    checks.into_iter().find_map(|(failed, error)| failed.then_some(error))
}

/// The table of section 7, by type number; the header is structurally valid.
fn legal(from: Sender, raw: &[u8; HEADER_LEN]) -> Result<(), Illegal> {
    let client = from == Sender::Client;
    let control = raw[7] == 0 && raw[8] == 0;
    let corr = raw[13..].iter().any(|byte| *byte != 0);
    let (sender, identity) = match raw[5] {
        0 => (client, corr),                  // Request: 0/0/n, n/n/n
        1 | 5 => (!client, corr),             // Response, Error: a pending request's
        2 => (!client, !control && !corr),    // Push: n/n/0
        3 | 4 => (!client, !control && corr), // StreamData, StreamEnd: n/n/n
        6 => (client, !control && corr),      // Cancel: n/n/n
        7 => (!client, control && corr),      // Ping: 0/0/n
        8 => (client, control && corr),       // Pong: 0/0/n
        11 => (true, !corr),                  // Goodbye: 0/0/0, n/n/0
        _ => (false, false),                  // Hello, HelloAck: nobody
    };
    let empty = raw[..4] == [0; 4];
    let len = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
    let body = match raw[5] {
        4 => empty,                                              // F3
        1 | 5 => !control || (raw[6] & 1 == 0 && len <= 65_536), // F4
        _ => true,
    };
    match (sender, identity, body) {
        (false, _, _) => Err(Illegal::Direction),
        (true, false, _) => Err(Illegal::Identity),
        (true, true, false) => Err(Illegal::Body),
        (true, true, true) => Ok(()),
    }
}
