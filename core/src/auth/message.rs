//! The three messages as bytes: a length prefix, a JSON object, and the reader that takes one message at a time.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use super::AuthError;
use super::secret::{DaemonId, Nonce, Proof};
use crate::json::{self, ObjectWriter, ReadError};

/// The longest authentication message, without its prefix (A1).
pub const MAX_MESSAGE_BYTES: usize = 4096;

const PREFIX: usize = 4;

/// Collects the bytes of one message after another, and takes none that belongs to what follows (A10).
#[derive(Default)]
pub struct MessageReader {
    prefix: [u8; PREFIX],
    prefix_len: usize,
    body: Vec<u8>,
}

impl fmt::Debug for MessageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Z1: a message holds nonces and proofs.
        f.debug_struct("MessageReader")
            .field("prefix_len", &self.prefix_len)
            .field("body_len", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl MessageReader {
    /// A reader at the start of a message.
    #[must_use]
    pub const fn new() -> Self {
        Self { prefix: [0; PREFIX], prefix_len: 0, body: Vec::new() }
    }

    /// Whether bytes of an unfinished message are held: an EOF here is one inside a message.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.prefix_len > 0
    }

    /// Takes bytes up to the end of the message: how many were taken, and the body once it is whole. Then the next
    /// message begins. Bytes that are not taken belong to what follows (A10).
    ///
    /// # Errors
    ///
    /// [`AuthError::MessageTooLong`], on the prefix alone; again on every later call.
    pub fn handle_input(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), AuthError> {
        let mut taken = 0;
        for (slot, &byte) in self.prefix.iter_mut().skip(self.prefix_len).zip(bytes) {
            *slot = byte;
            taken += 1;
        }
        self.prefix_len += taken;
        if self.prefix_len < PREFIX {
            return Ok((taken, None));
        }
        // A1: judged on the prefix, before there is a buffer.
        let declared = usize::try_from(u32::from_le_bytes(self.prefix)).unwrap_or(usize::MAX);
        if declared > MAX_MESSAGE_BYTES {
            return Err(AuthError::MessageTooLong);
        }
        let missing = declared.saturating_sub(self.body.len());
        let rest = bytes.get(taken..).unwrap_or_default();
        let arrived = rest.get(..missing).unwrap_or(rest);
        // Memory follows the bytes that arrive, and never passes the declared length.
        if self.body.capacity() - self.body.len() < arrived.len() {
            self.body.reserve_exact(arrived.len().max(self.body.len().min(missing)));
        }
        self.body.extend_from_slice(arrived);
        taken += arrived.len();
        if arrived.len() < missing {
            return Ok((taken, None));
        }
        self.prefix_len = 0;
        Ok((taken, Some(core::mem::take(&mut self.body))))
    }
}

/// One message with its prefix.
fn encode(fill: impl FnOnce(&mut ObjectWriter<'_>)) -> Result<Vec<u8>, AuthError> {
    let mut message = Vec::with_capacity(512);
    message.extend_from_slice(&[0; PREFIX]);
    json::write_object(&mut message, fill);
    let len = message.len().saturating_sub(PREFIX);
    let prefix = u32::try_from(len).map_err(|_| AuthError::MessageTooLong)?.to_le_bytes();
    if len > MAX_MESSAGE_BYTES {
        return Err(AuthError::MessageTooLong);
    }
    for (slot, byte) in message.iter_mut().zip(prefix) {
        *slot = byte;
    }
    Ok(message)
}

pub(super) fn encode_client_hello(client_nonce: &Nonce, role: &str) -> Result<Vec<u8>, AuthError> {
    encode(|message| {
        message.bytes("client_nonce", client_nonce.bytes());
        message.string("role", role);
    })
}

pub(super) fn encode_server_hello(
    daemon_id: &DaemonId,
    server_nonce: &Nonce,
    daemon_ver: &str,
    proof: &Proof,
) -> Result<Vec<u8>, AuthError> {
    encode(|message| {
        message.bytes("daemon_id", daemon_id.bytes());
        message.bytes("server_nonce", server_nonce.bytes());
        message.string("daemon_ver", daemon_ver);
        message.bytes("server_proof", proof.expose());
    })
}

pub(super) fn encode_client_auth(proof: &Proof) -> Result<Vec<u8>, AuthError> {
    encode(|message| message.bytes("client_auth", proof.expose()))
}

/// What a client says first.
pub(super) struct ClientHello {
    pub(super) client_nonce: Nonce,
}

impl ClientHello {
    pub(super) fn decode(body: &[u8]) -> Result<Self, ReadError> {
        // A7: other members are ignored; a repeated one, known or not, is malformed.
        let [nonce, role] = json::parse(body)?.object()?.pick(["client_nonce", "role"]);
        // A4, A6: it has to be a string, and what it says decides nothing.
        role.required()?.string(MAX_MESSAGE_BYTES)?;
        Ok(Self { client_nonce: Nonce::new(nonce.required()?.bytes()?) })
    }
}

/// What the host answers.
pub(super) struct ServerHello<'a> {
    pub(super) daemon_id: DaemonId,
    pub(super) server_nonce: Nonce,
    pub(super) daemon_ver: Cow<'a, str>,
    pub(super) server_proof: Proof,
}

impl<'a> ServerHello<'a> {
    pub(super) fn decode(body: &'a [u8]) -> Result<Self, ReadError> {
        let [id, nonce, version, proof] =
            json::parse(body)?.object()?.pick(["daemon_id", "server_nonce", "daemon_ver", "server_proof"]);
        Ok(Self {
            daemon_id: DaemonId::new(id.required()?.bytes()?),
            server_nonce: Nonce::new(nonce.required()?.bytes()?),
            daemon_ver: version.required()?.string(MAX_MESSAGE_BYTES)?,
            server_proof: Proof::new(proof.required()?.bytes()?),
        })
    }
}

pub(super) fn decode_client_auth(body: &[u8]) -> Result<Proof, ReadError> {
    let proof = json::parse(body)?.object()?.field("client_auth");
    Ok(Proof::new(proof.required()?.bytes()?))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use super::*;
    use crate::json::Problem;

    fn message(body: &[u8]) -> Vec<u8> {
        let mut message = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
        message.extend_from_slice(body);
        message
    }

    #[test]
    fn a1_4096_bytes_are_a_message_and_4097_are_refused_on_the_prefix_alone() {
        let body = vec![b' '; MAX_MESSAGE_BYTES];
        let mut reader = MessageReader::new();
        assert_eq!(reader.handle_input(&message(&body)), Ok((4100, Some(body))));
        for declared in [4097_u32, 65_536, u32::MAX] {
            let mut reader = MessageReader::new();
            let prefix = declared.to_le_bytes();
            assert_eq!(reader.handle_input(&prefix[..3]), Ok((3, None)));
            assert_eq!(reader.handle_input(&prefix[3..]), Err(AuthError::MessageTooLong));
            assert_eq!(reader.body.capacity(), 0);
            assert_eq!(reader.handle_input(b"x"), Err(AuthError::MessageTooLong));
        }
    }

    #[test]
    fn a10_no_byte_behind_a_message_is_taken_at_any_split() {
        let mut stream = message(b"{\"first\":1}");
        let first = stream.len();
        stream.extend(message(b""));
        let second = stream.len();
        stream.extend_from_slice(b"\0\0\0\0\x02envelope");
        for split in 0..=stream.len() {
            let mut reader = MessageReader::new();
            let mut bodies = Vec::new();
            let mut at = 0;
            for end in [split, stream.len()] {
                while at < end && bodies.len() < 2 {
                    let (taken, body) = reader.handle_input(&stream[at..end]).unwrap();
                    at += taken;
                    bodies.extend(body.map(|body| (at, body)));
                }
            }
            assert_eq!(bodies, [(first, b"{\"first\":1}".to_vec()), (second, vec![])], "{split}");
            assert!(!reader.is_partial());
        }
    }

    #[test]
    fn a_buffer_grows_with_the_bytes_that_arrive_and_never_past_the_declared_length() {
        let mut reader = MessageReader::new();
        reader.handle_input(&4096_u32.to_le_bytes()).unwrap();
        assert_eq!(reader.body.capacity(), 0);
        let mut growths = 0;
        for n in 1..4096 {
            let before = reader.body.capacity();
            assert!(reader.is_partial());
            assert_eq!(reader.handle_input(b" "), Ok((1, None)));
            assert!(reader.body.capacity() <= (2 * n).min(4096), "{n}: {}", reader.body.capacity());
            growths += usize::from(reader.body.capacity() != before);
        }
        assert_eq!(growths, 13);
        let (taken, body) = reader.handle_input(b"  ").unwrap();
        assert_eq!((taken, body.unwrap().len()), (1, 4096));
    }

    #[test]
    fn an_empty_feed_is_no_progress() {
        let mut reader = MessageReader::new();
        assert_eq!(reader.handle_input(b""), Ok((0, None)));
        assert!(!reader.is_partial());
        assert_eq!(reader.handle_input(b"\x01"), Ok((1, None)));
        assert!(reader.is_partial());
        assert_eq!(reader.handle_input(b""), Ok((0, None)));
    }

    #[test]
    fn section_5_messages_are_spelled_as_the_contract_spells_them() {
        let nonce = Nonce::new([1; 32]);
        let numbers = |n: usize, byte: &str| format!("[{}]", vec![byte; n].join(","));
        let hello = encode_client_hello(&nonce, "client").unwrap();
        let text = format!(r#"{{"client_nonce":{},"role":"client"}}"#, numbers(32, "1"));
        assert_eq!(hello, message(text.as_bytes()));
        let proof = Proof::new([255; 32]);
        let answer = encode_server_hello(&DaemonId::new([2; 16]), &nonce, "v/\"1\"", &proof).unwrap();
        let text = format!(
            r#"{{"daemon_id":{},"server_nonce":{},"daemon_ver":"v/\"1\"","server_proof":{}}}"#,
            numbers(16, "2"),
            numbers(32, "1"),
            numbers(32, "255")
        );
        assert_eq!(answer, message(text.as_bytes()));
        let auth = encode_client_auth(&proof).unwrap();
        assert_eq!(auth, message(format!(r#"{{"client_auth":{}}}"#, numbers(32, "255")).as_bytes()));
    }

    #[test]
    fn a1_our_own_messages_keep_the_limit() {
        let nonce = Nonce::new([1; 32]);
        let rest = encode_client_hello(&nonce, "").unwrap().len() - 4;
        let fits = "r".repeat(4096 - rest);
        assert_eq!(encode_client_hello(&nonce, &fits).unwrap().len(), 4100);
        assert_eq!(encode_client_hello(&nonce, &(fits + "r")), Err(AuthError::MessageTooLong));
    }

    #[test]
    fn a6_every_malformed_client_hello_is_refused() {
        let n = |n: usize| format!("[{}]", vec!["7"; n].join(","));
        let good = format!(r#"{{"client_nonce":{},"role":"x"}}"#, n(32));
        assert!(ClientHello::decode(good.as_bytes()).is_ok());
        for (text, member, problem) in [
            (format!(r#"{{"client_nonce":{}}}"#, n(32)), "role", Problem::Missing),
            (format!(r#"{{"client_nonce":{},"role":1}}"#, n(32)), "role", Problem::WrongType),
            (format!(r#"{{"client_nonce":{},"role":null}}"#, n(32)), "role", Problem::WrongType),
            (r#"{"role":"client"}"#.into(), "client_nonce", Problem::Missing),
            (format!(r#"{{"client_nonce":{},"role":"x"}}"#, n(31)), "client_nonce", Problem::WrongLength),
            (format!(r#"{{"client_nonce":{},"role":"x"}}"#, n(33)), "client_nonce", Problem::WrongLength),
            (good.replacen('7', "256", 1), "client_nonce", Problem::OutOfRange),
            (good.replacen('7', "-1", 1), "client_nonce", Problem::OutOfRange),
            (good.replacen('7', "1.0", 1), "client_nonce", Problem::NotInteger),
            (format!("[{good}]"), "body", Problem::WrongType),
            ("null".into(), "body", Problem::WrongType),
        ] {
            let error = ClientHello::decode(text.as_bytes()).err().unwrap();
            assert_eq!(error, ReadError { member, problem }, "{text}");
        }
        for text in ["", "{", "\u{feff}{}", &good.replace('}', ""), &format!("{good}x")] {
            assert!(matches!(
                ClientHello::decode(text.as_bytes()).err().unwrap().problem,
                Problem::Syntax(_)
            ));
        }
    }

    #[test]
    fn a7_extra_members_are_ignored_and_repeated_ones_are_malformed() {
        let n = vec!["7"; 32].join(",");
        let extra = format!(r#"{{"x":{{"y":[1]}},"role":"a","client_nonce":[{n}],"z":null}}"#);
        assert!(ClientHello::decode(extra.as_bytes()).is_ok());
        for text in [
            format!(r#"{{"role":"a","client_nonce":[{n}],"role":"a"}}"#),
            format!(r#"{{"role":"a","client_nonce":[{n}],"\u0072ole":"a"}}"#),
            format!(r#"{{"role":"a","client_nonce":[{n}],"client_nonce":[{n}]}}"#),
        ] {
            assert!(ClientHello::decode(text.as_bytes()).is_err(), "{text}");
        }
        assert!(decode_client_auth(format!(r#"{{"x":1,"client_auth":[{n}]}}"#).as_bytes()).is_ok());
        assert!(
            decode_client_auth(format!(r#"{{"client_auth":[{n}],"client_auth":[{n}]}}"#).as_bytes()).is_err()
        );
    }

    #[test]
    fn a6_every_malformed_server_hello_is_refused() {
        let message =
            encode_server_hello(&DaemonId::new([1; 16]), &Nonce::new([2; 32]), "v", &Proof::new([3; 32]))
                .unwrap();
        let good = core::str::from_utf8(&message[4..]).unwrap();
        assert!(ServerHello::decode(good.as_bytes()).is_ok());
        for (find, replace, member, problem) in [
            ("daemon_id", "daemon_id_", "daemon_id", Problem::Missing),
            ("server_nonce", "nonce", "server_nonce", Problem::Missing),
            ("daemon_ver", "ver", "daemon_ver", Problem::Missing),
            ("server_proof", "proof", "server_proof", Problem::Missing),
            ("[1,", "[1,1,", "daemon_id", Problem::WrongLength),
            ("[2,", "[", "server_nonce", Problem::WrongLength),
            ("[3,", "[300,", "server_proof", Problem::OutOfRange),
            ("\"v\"", "7", "daemon_ver", Problem::WrongType),
        ] {
            let error = ServerHello::decode(good.replacen(find, replace, 1).as_bytes()).err().unwrap();
            assert_eq!(error, ReadError { member, problem }, "{find}");
        }
    }

    #[test]
    fn z1_a_reader_does_not_print_what_it_holds() {
        let mut reader = MessageReader::new();
        reader.handle_input(b"\x09\0\0\0secret").unwrap();
        assert_eq!(format!("{reader:?}"), "MessageReader { prefix_len: 4, body_len: 6, .. }");
    }
}
