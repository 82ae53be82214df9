//! What a handshake is made of: the key, nonces, proofs and the daemon ID.
//!
//! Invariant: no key, nonce or proof can be printed (Z1), keys are wiped when dropped, and secrets are compared in
//! constant time.

use core::fmt;
use core::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::hex;

/// The 32-byte bearer key of one incarnation of a host (T1). Wiped when dropped.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Takes the bytes; wiping the copy that they came from is the caller's.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for publication.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// 32 bytes that are fresh for every attempt (A2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Nonce([u8; 32]);

impl Nonce {
    /// Takes bytes that the caller drew from the operating system's CSPRNG, for this attempt only.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(super) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

/// The identity of one incarnation of a host; not a secret. Displays as 32 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DaemonId([u8; 16]);

impl DaemonId {
    /// An ID of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for DaemonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(&self.0, f)
    }
}

impl fmt::Debug for DaemonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DaemonId({self})")
    }
}

/// A text that is not 32 lowercase hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 32 lowercase hex digits")]
pub struct NotADaemonId;

impl FromStr for DaemonId {
    type Err = NotADaemonId;

    fn from_str(text: &str) -> Result<Self, NotADaemonId> {
        hex::parse(text).map(Self).ok_or(NotADaemonId)
    }
}

/// A proof that its maker holds the key. Equality takes the same time whatever differs (A3, A4).
#[derive(Clone, Copy)]
pub struct Proof([u8; 32]);

impl Proof {
    /// A proof as a peer sent it.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for the message that carries it.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for Proof {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Proof {}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(..)")
    }
}

/// Which side a proof speaks for: a proof of one side is worthless as the other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// `server_proof`
    Server,
    /// `client_auth`
    Client,
}

impl Domain {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Server => b"subc-server-v1",
            Self::Client => b"subc-client-v1",
        }
    }
}

/// `HMAC-SHA256(key, domain ‖ client_nonce ‖ server_nonce ‖ daemon_id)`.
#[must_use]
pub fn proof(
    key: &Key,
    domain: Domain,
    client_nonce: &Nonce,
    server_nonce: &Nonce,
    daemon_id: &DaemonId,
) -> Proof {
    // HMAC pads a short key with zeros to the block: done here, because this constructor cannot fail.
    let mut block = Zeroizing::new([0_u8; 64]);
    for (padded, &byte) in block.iter_mut().zip(&key.0) {
        *padded = byte;
    }
    let mut mac = <Hmac<Sha256> as KeyInit>::new((&*block).into());
    mac.update(domain.label());
    mac.update(&client_nonce.0);
    mac.update(&server_nonce.0);
    mac.update(&daemon_id.0);
    Proof(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;

    fn counting<const N: usize>(from: u8) -> [u8; N] {
        core::array::from_fn(|i| from + u8::try_from(i).unwrap())
    }

    fn fixed(domain: Domain) -> String {
        let proof = proof(
            &Key::new(counting(0)),
            domain,
            &Nonce::new(counting(0x20)),
            &Nonce::new(counting(0x40)),
            &DaemonId::new(counting(0x60)),
        );
        let mut text = String::new();
        hex::write(proof.expose(), &mut text).unwrap();
        text
    }

    #[test]
    fn the_fixed_vector_of_section_5_holds() {
        assert_eq!(fixed(Domain::Server), "eaaef5c991b53669e1c35c18b93a4f2b1bac2954550c0f908141ae29a339cec0");
        assert_eq!(fixed(Domain::Client), "a833c73da0b7206ddf520661de0151f0871b8c5bc4ab15a1453bd6754063e4cd");
    }

    #[test]
    fn proofs_and_keys_that_differ_in_any_byte_are_unequal() {
        for at in 0..32 {
            let mut bytes = [9; 32];
            bytes[at] ^= 0x80;
            assert!(Proof::new(bytes) != Proof::new([9; 32]) && Key::new(bytes) != Key::new([9; 32]));
        }
        assert!(Proof::new([9; 32]) == Proof::new([9; 32]) && Key::new([9; 32]) == Key::new([9; 32]));
    }

    #[test]
    fn a_daemon_id_is_written_and_read_as_lowercase_hex() {
        let id = DaemonId::new(counting(0x60));
        assert_eq!(id.to_string(), "606162636465666768696a6b6c6d6e6f");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(format!("{id:?}"), "DaemonId(606162636465666768696a6b6c6d6e6f)");
        assert_eq!("606162636465666768696A6B6C6D6E6F".parse::<DaemonId>(), Err(NotADaemonId));
    }

    #[test]
    fn z1_no_secret_can_be_printed() {
        let (key, nonce, proof) = (Key::new([0xab; 32]), Nonce::new([0xab; 32]), Proof::new([0xab; 32]));
        assert_eq!(format!("{key:?} {nonce:?} {proof:?}"), "Key(..) Nonce(..) Proof(..)");
        assert_eq!(format!("{key:#?} {nonce:#?} {proof:#?}"), "Key(..) Nonce(..) Proof(..)");
    }
}
