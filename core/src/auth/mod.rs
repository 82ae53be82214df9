//! Authentication: three JSON messages before the first envelope (A1–A10).
//!
//! Owns the messages, the proofs and the order in which each side judges them. A handshake is a chain of values, each
//! consumed by its step, so that a step cannot be skipped or repeated; only the last one yields [`Authenticated`].
//! Nonces come from the caller, and so does time: this module has no deadline and no randomness.
//!
//! ```
//! use hostwire_core::auth::*;
//!
//! let (key, id) = (Key::new([7; 32]), DaemonId::new([1; 16]));
//! let credentials = Credentials { key: key.clone(), daemon_id: id, daemon_ver: "example/0.1.0".into() };
//! let client = ClientHandshake::new(credentials, Nonce::new([2; 32]), "client")?;
//! let host = HostHandshake::new(key, id, "example/0.1.0", Nonce::new([3; 32]))?;
//!
//! let body = |message: Vec<u8>| MessageReader::new().handle_input(&message).map(|(_, body)| body.unwrap());
//! let (server_hello, challenge) = host.handle_client_hello(&body(client.hello())?)?;
//! let (client_auth, _on_the_client) = client.handle_server_hello(&body(server_hello)?)?;
//! let _on_the_host: Authenticated = challenge.handle_client_auth(&body(client_auth)?)?;
//! # Ok::<(), AuthError>(())
//! ```

mod client;
pub(crate) mod hex;
mod host;
mod message;
mod secret;

pub use client::{ClientHandshake, Credentials};
pub use host::{HostChallenge, HostHandshake, MAX_DAEMON_VER_BYTES};
pub use message::{MAX_MESSAGE_BYTES, MessageReader};
pub use secret::{DaemonId, Domain, Key, Nonce, NotADaemonId, Proof, proof};

use crate::json::ReadError;

/// Why a handshake failed. For the own side's eyes only: the peer is told nothing (A6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A message over [`MAX_MESSAGE_BYTES`], received or about to be made (A1).
    #[error("authentication message too long")]
    MessageTooLong,
    /// A message that is not what it has to be (A6).
    #[error("malformed authentication message: {0}")]
    Malformed(#[from] ReadError),
    /// The peer does not hold the key (A3, A4).
    #[error("authentication proof does not match")]
    BadProof,
    /// The host holds the key but is another incarnation (A3).
    #[error("daemon ID is not the published one")]
    WrongDaemonId,
    /// The host holds the key but is another version (A3).
    #[error("daemon version is not the published one")]
    WrongDaemonVersion,
    /// A daemon version for our own host that is empty or over [`MAX_DAEMON_VER_BYTES`].
    #[error("daemon version is empty or too long")]
    BadDaemonVersion,
}

/// Proof that a handshake has been finished on this side. Only a finished handshake yields one.
#[derive(Debug)]
pub struct Authenticated(());
