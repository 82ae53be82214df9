//! The client's side: believes the host only after proof, then identity, then version.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::message::{ServerHello, encode_client_auth, encode_client_hello};
use super::secret::{DaemonId, Domain, Key, Nonce, proof};
use super::{AuthError, Authenticated};

/// What a client knows about a host, all from one snapshot of its discovery file (D6).
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The incarnation's key.
    pub key: Key,
    /// The incarnation's ID.
    pub daemon_id: DaemonId,
    /// The host's version text.
    pub daemon_ver: Box<str>,
}

/// A handshake that waits for the host's answer.
pub struct ClientHandshake {
    credentials: Credentials,
    client_nonce: Nonce,
    hello: Vec<u8>,
}

impl fmt::Debug for ClientHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientHandshake")
            .field("daemon_id", &self.credentials.daemon_id)
            .finish_non_exhaustive()
    }
}

impl ClientHandshake {
    /// Begins a handshake. `client_nonce` is fresh for it (A2); `role` is a claim that decides nothing (A4).
    ///
    /// # Errors
    ///
    /// [`AuthError::MessageTooLong`] if `role` does not fit.
    pub fn new(credentials: Credentials, client_nonce: Nonce, role: &str) -> Result<Self, AuthError> {
        let hello = encode_client_hello(&client_nonce, role)?;
        Ok(Self { credentials, client_nonce, hello })
    }

    /// The first message, prefix and all.
    #[must_use]
    pub fn hello(&self) -> Vec<u8> {
        self.hello.clone()
    }

    /// Judges the host's answer: what to send next, prefix and all, and the evidence that the host is the one that was
    /// published. Envelope bytes may follow that message at once (A10).
    ///
    /// # Errors
    ///
    /// Any [`AuthError`]; the client then sends nothing more and closes (A3, A6).
    pub fn handle_server_hello(self, body: &[u8]) -> Result<(Vec<u8>, Authenticated), AuthError> {
        let answer = ServerHello::decode(body)?;
        let Credentials { key, daemon_id, daemon_ver } = &self.credentials;
        let prove = |domain| proof(key, domain, &self.client_nonce, &answer.server_nonce, &answer.daemon_id);
        // A3: proof first, in constant time; nothing else of the answer means anything before it.
        if prove(Domain::Server) != answer.server_proof {
            return Err(AuthError::BadProof);
        }
        // A3: then the incarnation, then the version.
        if answer.daemon_id != *daemon_id {
            return Err(AuthError::WrongDaemonId);
        }
        if answer.daemon_ver != **daemon_ver {
            return Err(AuthError::WrongDaemonVersion);
        }
        Ok((encode_client_auth(&prove(Domain::Client))?, Authenticated(())))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::super::message::encode_server_hello;
    use super::super::secret::Proof;
    use super::*;

    fn handshake() -> ClientHandshake {
        let credentials = Credentials {
            key: Key::new([1; 32]),
            daemon_id: DaemonId::new([2; 16]),
            daemon_ver: "v/1".into(),
        };
        ClientHandshake::new(credentials, Nonce::new([3; 32]), "client").unwrap()
    }

    fn answer(key: u8, id: u8, version: &str, domain: Domain) -> Vec<u8> {
        let (id, nonce) = (DaemonId::new([id; 16]), Nonce::new([4; 32]));
        let proof = proof(&Key::new([key; 32]), domain, &Nonce::new([3; 32]), &nonce, &id);
        encode_server_hello(&id, &nonce, version, &proof).unwrap().split_off(4)
    }

    #[test]
    fn a3_v10_proof_then_daemon_id_then_version_are_judged_before_anything_is_sent() {
        let judge = |key, id, version, domain| {
            handshake().handle_server_hello(&answer(key, id, version, domain)).map(|(message, _)| message)
        };
        let message = judge(1, 2, "v/1", Domain::Server).unwrap();
        let wanted = proof(
            &Key::new([1; 32]),
            Domain::Client,
            &Nonce::new([3; 32]),
            &Nonce::new([4; 32]),
            &DaemonId::new([2; 16]),
        );
        assert_eq!(message, encode_client_auth(&wanted).unwrap());
        // All wrong: the proof speaks first.
        assert_eq!(judge(9, 9, "v/9", Domain::Server), Err(AuthError::BadProof));
        assert_eq!(judge(9, 2, "v/1", Domain::Server), Err(AuthError::BadProof));
        assert_eq!(judge(1, 2, "v/1", Domain::Client), Err(AuthError::BadProof));
        assert_eq!(judge(1, 9, "v/9", Domain::Server), Err(AuthError::WrongDaemonId));
        assert_eq!(judge(1, 2, "v/9", Domain::Server), Err(AuthError::WrongDaemonVersion));
        assert_eq!(judge(1, 2, "v/", Domain::Server), Err(AuthError::WrongDaemonVersion));
    }

    #[test]
    fn a3_a_proof_over_other_nonces_or_another_id_is_refused() {
        let (key, id) = (Key::new([1; 32]), DaemonId::new([2; 16]));
        let (ours, theirs, other) = (Nonce::new([3; 32]), Nonce::new([4; 32]), Nonce::new([5; 32]));
        for (client, server, signed_id) in [
            (&other, &theirs, id),
            (&ours, &other, id),
            (&theirs, &ours, id),
            (&ours, &theirs, DaemonId::new([9; 16])),
        ] {
            let proof = proof(&key, Domain::Server, client, server, &signed_id);
            let body = encode_server_hello(&id, &theirs, "v/1", &proof).unwrap().split_off(4);
            assert_eq!(handshake().handle_server_hello(&body).err(), Some(AuthError::BadProof));
        }
    }

    #[test]
    fn a3_a_proof_wrong_in_one_byte_is_refused_wherever_it_is() {
        let (id, nonce) = (DaemonId::new([2; 16]), Nonce::new([4; 32]));
        let right = proof(&Key::new([1; 32]), Domain::Server, &Nonce::new([3; 32]), &nonce, &id);
        for at in [0, 15, 31] {
            let mut bytes = *right.expose();
            bytes[at] ^= 1;
            let body = encode_server_hello(&id, &nonce, "v/1", &Proof::new(bytes)).unwrap().split_off(4);
            assert_eq!(handshake().handle_server_hello(&body).err(), Some(AuthError::BadProof));
        }
    }

    #[test]
    fn a1_v8_an_answer_padded_to_4096_bytes_is_read() {
        let mut body = answer(1, 2, "v/1", Domain::Server);
        body.resize(4096, b' ');
        assert!(handshake().handle_server_hello(&body).is_ok());
    }

    #[test]
    fn a6_a_malformed_answer_is_named_as_such() {
        assert!(matches!(handshake().handle_server_hello(b"{}"), Err(AuthError::Malformed(_))));
    }

    #[test]
    fn a1_a_role_that_does_not_fit_is_refused_before_anything_is_sent() {
        let credentials = handshake().credentials;
        let role = "r".repeat(4096);
        let refused = ClientHandshake::new(credentials, Nonce::new([0; 32]), &role);
        assert_eq!(refused.err(), Some(AuthError::MessageTooLong));
    }

    #[test]
    fn b111_z1_neither_credentials_nor_handshake_print_a_secret() {
        let handshake = ClientHandshake { client_nonce: Nonce::new([0xab; 32]), ..handshake() };
        let handshake = ClientHandshake {
            credentials: Credentials { key: Key::new([0xcd; 32]), ..handshake.credentials.clone() },
            ..handshake
        };
        let printed = format!("{handshake:?} {:?}", handshake.credentials);
        let id = handshake.credentials.daemon_id;
        assert!(
            printed.starts_with(&format!("ClientHandshake {{ daemon_id: DaemonId({id}), .. }} ")),
            "{printed}"
        );
        for secret in ["abab", "171", "cdcd", "205"] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }
}
