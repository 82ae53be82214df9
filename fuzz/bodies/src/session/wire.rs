//! What both single-role targets do on the wire: a peer's frames, pieces of input, and writes that end in every way.

use crate::choices::Choices;
use hostwire_core::endpoint::{Endpoint, WriteFailure};
use hostwire_core::fault::Fault;
use hostwire_core::time::Instant;
use hostwire_core::transmit::MAX_SEGMENTS;
use hostwire_core::wire::{FrameType, HEADER_LEN};

/// A frame with a truthful length unless the input wants otherwise; nothing else about it is judged.
pub(super) fn frame(
    u: &mut Choices<'_>,
    kind: FrameType,
    identity: (u16, u32, u64),
    binary: bool,
    body: &[u8],
) -> Vec<u8> {
    let (channel, epoch, corr) = identity;
    let mut len = u32::try_from(body.len()).expect("a small body");
    if u.once_in(40) {
        len = u.pick(&[0, 1, 65_536, 70_000, 67_108_864, 67_108_865, u32::MAX]).unwrap_or(len);
    }
    let pure = matches!(kind, FrameType::Cancel | FrameType::Ping | FrameType::Pong | FrameType::Goodbye);
    let mut flags = if pure { 0x04 } else { 0x02 } | u8::from(binary && !pure);
    if u.once_in(40) {
        flags = u.below(256) as u8;
    }
    let mut bytes = Vec::with_capacity(HEADER_LEN + body.len());
    bytes.extend(len.to_le_bytes());
    bytes.extend([if u.once_in(200) { 1 } else { 2 }, kind as u8, flags]);
    bytes.extend(channel.to_le_bytes());
    bytes.extend(epoch.to_le_bytes());
    bytes.extend(corr.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Gives input in pieces until it is taken, refused or a fault; the fault is latched (CC11).
pub(super) fn give(
    u: &mut Choices<'_>,
    conn: &mut impl Endpoint,
    now: Instant,
    mut bytes: &[u8],
) -> Option<Fault> {
    // A large body comes in a few hundred pieces at most.
    let (size, lease) = (u.size().max(bytes.len() / 256), u.once_in(2));
    while !bytes.is_empty() {
        let piece = &bytes[..bytes.len().min(size)];
        let taken = if lease && let Some(mut lease) = conn.lease_body() {
            let n = lease.room().min(piece.len());
            lease.buffer().extend_from_slice(&piece[..n]);
            conn.return_body(now, lease);
            n
        } else {
            match conn.handle_input(now, piece) {
                Ok(taken) => taken,
                Err(fault) => {
                    assert_eq!(conn.handle_input(now, piece), Err(fault), "CC11");
                    return Some(fault);
                }
            }
        };
        assert!(taken <= piece.len());
        if taken == 0 {
            return None; // refused: the rest of it never comes
        }
        bytes = &bytes[taken..];
    }
    None
}

/// One write, answered in any way there is. Whether it was the transport's last.
pub(super) fn write(u: &mut Choices<'_>, conn: &mut impl Endpoint, now: Instant) -> bool {
    let copy = |conn: &mut dyn FnMut(&mut Vec<u8>) -> bool| {
        let mut bytes = Vec::new();
        conn(&mut bytes).then_some(bytes)
    };
    let mut look = |bytes: &mut Vec<u8>| {
        let Some(offer) = conn.poll_transmit(now) else { return false };
        let mut segments = [&[][..]; MAX_SEGMENTS];
        let filled = offer.segments(&mut segments);
        segments[..filled].iter().for_each(|part| bytes.extend_from_slice(part));
        assert_eq!(bytes.len(), offer.len());
        offer.blocked();
        true
    };
    let first = copy(&mut look);
    assert!(copy(&mut look) == first, "CC1");
    let Some(offer) = conn.poll_transmit(now) else { return false };
    let all = offer.len();
    match u.below(24) {
        20 => offer.blocked(),
        21 => {
            offer.failed(WriteFailure::NothingAccepted);
            return true;
        }
        22 => {
            offer.failed(WriteFailure::Indeterminate);
            return true;
        }
        23 => {
            drop(offer);
            return true;
        }
        _ => {
            let n = all.min(u.size().max(all / 256));
            offer.written(n).expect("no more than was offered");
        }
    }
    false
}

/// Lets time pass: some, or up to the deadline, at which there is progress (CC5).
pub(super) fn wait(u: &mut Choices<'_>, conn: &mut impl Endpoint, now: &mut Instant) {
    if u.once_in(3)
        && let Some(due) = conn.deadline()
        && due.at < Instant::FAR_FUTURE
    {
        *now = (*now).max(due.at);
        conn.handle_timeout(*now);
        assert!(conn.deadline().is_none_or(|next| next.at > *now), "CC5: progress at the deadline");
    } else {
        *now = *now + u.duration();
        if u.once_in(2) {
            conn.handle_timeout(*now);
        }
    }
}
