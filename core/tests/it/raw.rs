//! Raw bytes of either side, made by hand: the fixed secrets of protocol.md §5 and frames from their parts.

use hostwire_core::auth::{Credentials, DaemonId, Key, Nonce};
use hostwire_core::endpoint::Endpoint;
use hostwire_core::time::Instant;
use hostwire_core::transmit::MAX_SEGMENTS;
use hostwire_core::wire::{Correlation, FrameType, HEADER_LEN, Header, Identity, RouteHandle};

pub(crate) const T0: Instant = Instant::ZERO;

pub(crate) fn key() -> Key {
    Key::new(std::array::from_fn(|n| n as u8))
}

pub(crate) fn client_nonce() -> Nonce {
    Nonce::new(std::array::from_fn(|n| 0x20 + n as u8))
}

pub(crate) fn daemon_id() -> DaemonId {
    DaemonId::new(std::array::from_fn(|n| 0x60 + n as u8))
}

pub(crate) fn credentials() -> Credentials {
    Credentials { key: key(), daemon_id: daemon_id(), daemon_ver: "example/0.1.0".into() }
}

/// The host's proof for the fixed secrets, as protocol.md §5 gives it.
const SERVER_PROOF: &str = "eaaef5c991b53669e1c35c18b93a4f2b1bac2954550c0f908141ae29a339cec0";

fn numbers(bytes: impl IntoIterator<Item = u8>) -> String {
    let list: Vec<_> = bytes.into_iter().map(|n| n.to_string()).collect();
    format!("[{}]", list.join(","))
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

pub(crate) fn message(json: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(json.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

/// The host's hello for the fixed secrets, whole.
pub(crate) fn server_hello() -> Vec<u8> {
    message(&format!(
        r#"{{"daemon_id":{},"server_nonce":{},"daemon_ver":"example/0.1.0","server_proof":{}}}"#,
        numbers(0x60..0x70),
        numbers(0x40..0x60),
        numbers(unhex(SERVER_PROOF)),
    ))
}

pub(crate) fn corr(n: u64) -> Correlation {
    Correlation::new(n).unwrap()
}

pub(crate) fn route(channel: u16, epoch: u32) -> RouteHandle {
    RouteHandle::new(channel, epoch).unwrap()
}

/// A frame from its parts; identity as (channel, epoch, correlation).
pub(crate) fn frame(kind: FrameType, flags: u8, identity: (u16, u32, u64), body: &[u8]) -> Vec<u8> {
    let (channel, epoch, corr) = identity;
    let mut bytes = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend([2, kind as u8, flags]);
    bytes.extend(channel.to_le_bytes());
    bytes.extend(epoch.to_le_bytes());
    bytes.extend(corr.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A frame that was read back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameType,
    pub(crate) flags: u8,
    pub(crate) identity: Identity,
    pub(crate) body: Vec<u8>,
}

/// Whole frames of a byte stream; panics on anything else.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut all = Vec::new();
    while let Some(head) = bytes.first_chunk::<HEADER_LEN>() {
        let header = Header::decode(head).unwrap();
        let end = HEADER_LEN + header.len as usize;
        let body = bytes[HEADER_LEN..end].to_vec();
        all.push(Frame { kind: header.kind, flags: header.flags.encode(), identity: header.identity, body });
        bytes = &bytes[end..];
    }
    assert!(bytes.is_empty(), "a torn frame: {bytes:?}");
    all
}

/// Takes at most `most` bytes of what a connection offers, `size` at a time.
pub(crate) fn take(conn: &mut impl Endpoint, now: Instant, most: usize, size: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < most {
        let Some(offer) = conn.poll_transmit(now) else { break };
        let mut segments = [&[][..]; MAX_SEGMENTS];
        let filled = offer.segments(&mut segments);
        let bytes = segments[..filled].concat();
        assert_eq!(bytes.len(), offer.len());
        let n = size.min(bytes.len()).min(most - all.len());
        all.extend_from_slice(&bytes[..n]);
        offer.written(n).unwrap();
    }
    all
}

/// All that a connection has to say at present.
pub(crate) fn take_all(conn: &mut impl Endpoint) -> Vec<u8> {
    take(conn, T0, usize::MAX, usize::MAX)
}
