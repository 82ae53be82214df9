//! The host's side: proves first, then judges the client's proof.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::message::{ClientHello, decode_client_auth, encode_server_hello};
use super::secret::{DaemonId, Domain, Key, Nonce, Proof, proof};
use super::{AuthError, Authenticated};

/// The longest version text that our host publishes: escaped at its worst it still fits its message (A1).
pub const MAX_DAEMON_VER_BYTES: usize = 512;

/// A handshake that waits for the client's first message.
pub struct HostHandshake {
    key: Key,
    daemon_id: DaemonId,
    daemon_ver: Box<str>,
    server_nonce: Nonce,
}

impl fmt::Debug for HostHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostHandshake").field("daemon_id", &self.daemon_id).finish_non_exhaustive()
    }
}

impl HostHandshake {
    /// Begins a handshake. `server_nonce` is fresh for it (A2).
    ///
    /// # Errors
    ///
    /// [`AuthError::BadDaemonVersion`] unless `daemon_ver` has 1 to [`MAX_DAEMON_VER_BYTES`] bytes.
    pub fn new(
        key: Key,
        daemon_id: DaemonId,
        daemon_ver: &str,
        server_nonce: Nonce,
    ) -> Result<Self, AuthError> {
        if daemon_ver.is_empty() || daemon_ver.len() > MAX_DAEMON_VER_BYTES {
            return Err(AuthError::BadDaemonVersion);
        }
        Ok(Self { key, daemon_id, daemon_ver: daemon_ver.into(), server_nonce })
    }

    /// Judges the client's first message: the answer, prefix and all, and the handshake that waits for its proof.
    ///
    /// # Errors
    ///
    /// [`AuthError::Malformed`]; the socket is then closed without a word (A6).
    pub fn handle_client_hello(self, body: &[u8]) -> Result<(Vec<u8>, HostChallenge), AuthError> {
        let Self { key, daemon_id, daemon_ver, server_nonce } = self;
        let ClientHello { client_nonce } = ClientHello::decode(body)?;
        let prove = |domain| proof(&key, domain, &client_nonce, &server_nonce, &daemon_id);
        let answer = encode_server_hello(&daemon_id, &server_nonce, &daemon_ver, &prove(Domain::Server))?;
        Ok((answer, HostChallenge { wanted: prove(Domain::Client) }))
    }
}

/// A handshake that waits for the client's proof. It holds no key any more.
#[derive(Debug)]
pub struct HostChallenge {
    wanted: Proof,
}

impl HostChallenge {
    /// Judges the client's proof. There is no answer: envelopes follow (A9).
    ///
    /// # Errors
    ///
    /// [`AuthError::Malformed`], [`AuthError::BadProof`]; the socket is then closed without a word (A6).
    pub fn handle_client_auth(self, body: &[u8]) -> Result<Authenticated, AuthError> {
        // A4: the comparison is `Proof`'s, in constant time.
        if decode_client_auth(body)? == self.wanted {
            Ok(Authenticated(()))
        } else {
            Err(AuthError::BadProof)
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::super::message::{encode_client_auth, encode_client_hello};
    use super::super::{ClientHandshake, Credentials, MessageReader};
    use super::*;

    const VERSION: &str = "example/0.1.0";

    fn host(server_nonce: u8) -> HostHandshake {
        HostHandshake::new(Key::new([1; 32]), DaemonId::new([2; 16]), VERSION, Nonce::new([server_nonce; 32]))
            .unwrap()
    }

    fn client(key: u8) -> ClientHandshake {
        let credentials = Credentials {
            key: Key::new([key; 32]),
            daemon_id: DaemonId::new([2; 16]),
            daemon_ver: VERSION.into(),
        };
        ClientHandshake::new(credentials, Nonce::new([3; 32]), "client").unwrap()
    }

    fn body(message: &[u8]) -> Vec<u8> {
        let (taken, body) = MessageReader::new().handle_input(message).unwrap();
        assert_eq!(taken, message.len());
        body.unwrap()
    }

    fn hello() -> Vec<u8> {
        body(&encode_client_hello(&Nonce::new([3; 32]), "client").unwrap())
    }

    /// The `server_proof` of an answer.
    fn server_proof(answer: &[u8]) -> Proof {
        super::super::message::ServerHello::decode(answer).unwrap().server_proof
    }

    #[test]
    fn both_sides_of_one_key_authenticate_each_other() {
        let client = client(1);
        let (answer, challenge) = host(4).handle_client_hello(&body(&client.hello())).unwrap();
        let (auth, _) = client.handle_server_hello(&body(&answer)).unwrap();
        assert!(challenge.handle_client_auth(&body(&auth)).is_ok());
    }

    #[test]
    fn v39_a4_a_client_with_another_key_is_refused() {
        let (_, challenge) = host(4).handle_client_hello(&hello()).unwrap();
        let (client_nonce, server_nonce) = (Nonce::new([3; 32]), Nonce::new([4; 32]));
        let forged =
            proof(&Key::new([9; 32]), Domain::Client, &client_nonce, &server_nonce, &DaemonId::new([2; 16]));
        let auth = body(&encode_client_auth(&forged).unwrap());
        assert_eq!(challenge.handle_client_auth(&auth).err(), Some(AuthError::BadProof));
    }

    #[test]
    fn b101_an_echoed_server_proof_is_no_client_proof() {
        let (answer, challenge) = host(4).handle_client_hello(&hello()).unwrap();
        let echo = encode_client_auth(&server_proof(&body(&answer))).unwrap();
        assert_eq!(challenge.handle_client_auth(&body(&echo)).err(), Some(AuthError::BadProof));
    }

    #[test]
    fn b101_values_relayed_between_two_connections_prove_nothing() {
        let (first_answer, first) = host(4).handle_client_hello(&hello()).unwrap();
        let (second_answer, second) = host(5).handle_client_hello(&hello()).unwrap();
        let proofs = [&first_answer, &second_answer].map(|answer| server_proof(&body(answer)));
        for proof in proofs {
            let auth = body(&encode_client_auth(&proof).unwrap());
            let challenge = HostChallenge { wanted: first.wanted };
            assert_eq!(challenge.handle_client_auth(&auth).err(), Some(AuthError::BadProof));
        }
        // A client's true proof for one connection is worthless on the other.
        let (auth, _) = client(1).handle_server_hello(&body(&first_answer)).unwrap();
        assert_eq!(second.handle_client_auth(&body(&auth)).err(), Some(AuthError::BadProof));
        assert!(first.handle_client_auth(&body(&auth)).is_ok());
    }

    #[test]
    fn b103_a_client_proof_of_another_shape_or_value_is_refused() {
        let (_, HostChallenge { wanted }) = host(4).handle_client_hello(&hello()).unwrap();
        let right = wanted.expose();
        let auth = |numbers: &[String]| format!(r#"{{"client_auth":[{}]}}"#, numbers.join(","));
        let numbers: Vec<_> = right.iter().map(|byte| format!("{byte}")).collect();
        let judge = |body: &str| HostChallenge { wanted }.handle_client_auth(body.as_bytes());
        assert!(judge(&auth(&numbers)).is_ok());
        assert!(judge(&format!(" {} \n", auth(&numbers))).is_ok());
        for at in [0, 31] {
            let mut wrong = numbers.clone();
            wrong[at] = format!("{}", right[at] ^ 1);
            assert_eq!(judge(&auth(&wrong)).err(), Some(AuthError::BadProof));
            for other in ["256", "-1", "1.0", "null", "\"7\""] {
                wrong[at] = other.into();
                assert!(matches!(judge(&auth(&wrong)), Err(AuthError::Malformed(_))), "{other}");
            }
        }
        let mut longer = numbers.clone();
        longer.push("0".into());
        for wrong in [&[][..], &numbers[..31], &longer] {
            assert!(matches!(judge(&auth(wrong)), Err(AuthError::Malformed(_))));
        }
        assert!(matches!(judge("{}"), Err(AuthError::Malformed(_))));
    }

    #[test]
    fn a4_no_role_is_better_than_another() {
        for role in ["client", "", "admin", "\0", "ü"] {
            let hello = encode_client_hello(&Nonce::new([3; 32]), role).unwrap();
            assert!(host(4).handle_client_hello(&body(&hello)).is_ok());
        }
    }

    #[test]
    fn a6_a_malformed_hello_is_refused() {
        assert!(matches!(host(4).handle_client_hello(b"{}"), Err(AuthError::Malformed(_))));
        assert!(matches!(host(4).handle_client_hello(b""), Err(AuthError::Malformed(_))));
    }

    #[test]
    fn a1_the_longest_version_fits_its_message_even_fully_escaped_and_one_byte_more_is_refused() {
        let new = |version: &str| {
            HostHandshake::new(Key::new([1; 32]), DaemonId::new([255; 16]), version, Nonce::new([255; 32]))
        };
        let longest = "\u{1}".repeat(MAX_DAEMON_VER_BYTES);
        let (answer, _) = new(&longest).unwrap().handle_client_hello(&hello()).unwrap();
        assert!(body(&answer).len() > 6 * MAX_DAEMON_VER_BYTES);
        assert_eq!(new(&(longest + "v")).err(), Some(AuthError::BadDaemonVersion));
        assert_eq!(new("").err(), Some(AuthError::BadDaemonVersion));
    }

    #[test]
    fn b111_z1_a_handshake_prints_no_secret() {
        let host =
            HostHandshake::new(Key::new([0xab; 32]), DaemonId::new([2; 16]), VERSION, Nonce::new([0xcd; 32]))
                .unwrap();
        let printed = format!("{host:?}");
        assert_eq!(
            printed,
            format!("HostHandshake {{ daemon_id: DaemonId({}), .. }}", DaemonId::new([2; 16]))
        );
        let (_, challenge) = host.handle_client_hello(&hello()).unwrap();
        let wanted = challenge.wanted.expose()[0];
        let printed = format!("{printed}{challenge:?}");
        for secret in ["abab", "171", "cdcd", "205", &format!("{wanted},")] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }
}
