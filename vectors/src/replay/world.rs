//! The world that all vectors share: protocol.md §5's key, nonces and daemon ID.

use hostwire_core::auth::{Credentials, DaemonId, Key, Nonce};

pub(super) const DAEMON_VER: &str = "example/0.1.0";

/// `from`, and the bytes after it.
fn counting<const N: usize>(from: u8) -> [u8; N] {
    let mut next = from;
    [(); N].map(|()| {
        let byte = next;
        next = next.wrapping_add(1);
        byte
    })
}

pub(super) fn credentials() -> Credentials {
    Credentials {
        key: Key::new(counting(0x00)),
        daemon_id: DaemonId::new(counting(0x60)),
        daemon_ver: DAEMON_VER.into(),
    }
}

pub(super) fn client_nonce() -> Nonce {
    Nonce::new(counting(0x20))
}

pub(super) fn server_nonce() -> Nonce {
    Nonce::new(counting(0x40))
}
