//! The handshake of both roles: messages that arrive in pieces, and what they have to prove.

use hostwire_core::auth::{
    AuthError, ClientHandshake, Credentials, DaemonId, Domain, HostHandshake, Key, MAX_MESSAGE_BYTES,
    MessageReader, Nonce, Proof, proof,
};
use serde_json::Value;

fn counted<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|place| first.wrapping_add(place as u8))
}

const VERSION: &str = "example/0.1.0";

fn key() -> Key {
    Key::new(counted(0))
}

fn daemon_id() -> DaemonId {
    DaemonId::new(counted(0x60))
}

fn client() -> ClientHandshake {
    let credentials = Credentials { key: key(), daemon_id: daemon_id(), daemon_ver: VERSION.into() };
    ClientHandshake::new(credentials, Nonce::new(counted(0x20)), "client").expect("it fits")
}

fn host() -> HostHandshake {
    HostHandshake::new(key(), daemon_id(), VERSION, Nonce::new(counted(0x40))).expect("a valid version")
}

/// Plays a peer's bytes to both roles, with the secrets of the fixed vector (section 5).
///
/// # Panics
/// If a side accepts what does not prove the key, or tells more than a message.
pub fn auth(data: &[u8]) {
    crate::json::json(data);
    for body in messages(data) {
        as_client(&body);
        as_host(&body, None);
    }
    as_client(data);
    as_host(data, None);
    // Two messages in a row, as a host reads them.
    if let [hello, answer] = &messages(data)[..] {
        as_host(hello, Some(answer));
    }
    good(data);
}

/// Whole messages at the front, at most two: in one piece, and in pieces of every small size.
fn messages(data: &[u8]) -> Vec<Vec<u8>> {
    let whole = read(data, usize::MAX);
    for size in [1, 3, 7] {
        assert_eq!(read(data, size), whole, "A10: the pieces say nothing");
    }
    whole.0
}

fn read(data: &[u8], size: usize) -> (Vec<Vec<u8>>, usize, bool) {
    let (mut reader, mut bodies, mut at) = (MessageReader::new(), Vec::new(), 0);
    while at < data.len() && bodies.len() < 2 {
        let piece = &data[at..data.len().min(at.saturating_add(size))];
        match reader.handle_input(piece) {
            Ok((taken, body)) => {
                assert!(taken == piece.len() || body.is_some(), "all is taken but what follows a message");
                at += taken;
                if let Some(body) = body {
                    assert!(body.len() <= MAX_MESSAGE_BYTES && !reader.is_partial(), "A1");
                    assert!(data[..at].ends_with(&body));
                    bodies.push(body);
                }
            }
            Err(error) => {
                assert_eq!(error, AuthError::MessageTooLong, "A1");
                return (bodies, 0, true);
            }
        }
    }
    (bodies, at, false)
}

fn bytes<const N: usize>(value: Option<&Value>) -> Option<[u8; N]> {
    let list = value?.as_array()?;
    let bytes: Vec<u8> =
        list.iter().map(|one| one.as_u64().and_then(|n| u8::try_from(n).ok())).collect::<Option<_>>()?;
    bytes.try_into().ok()
}

fn as_client(body: &[u8]) {
    let judged = client().handle_server_hello(body);
    let Ok((answer, _)) = judged else { return };
    // A3: by the other parser the proof is right, the incarnation and the version are the published ones.
    let text: Value = serde_json::from_slice(body).expect("JSON");
    let nonce = Nonce::new(bytes(text.get("server_nonce")).expect("a nonce"));
    let shown = Proof::new(bytes(text.get("server_proof")).expect("a proof"));
    assert!(shown == proof(&key(), Domain::Server, &Nonce::new(counted(0x20)), &nonce, &daemon_id()), "A3");
    assert_eq!(bytes(text.get("daemon_id")), Some(*daemon_id().bytes()), "A3");
    assert_eq!(text.get("daemon_ver").and_then(Value::as_str), Some(VERSION), "A3");
    assert!(answer.len() <= 4 + MAX_MESSAGE_BYTES);
}

fn as_host(body: &[u8], then: Option<&[u8]>) {
    let Ok((answer, challenge)) = host().handle_client_hello(body) else { return };
    let text: Value = serde_json::from_slice(body).expect("JSON");
    let nonce = Nonce::new(bytes(text.get("client_nonce")).expect("A6: a nonce"));
    assert!(text.get("role").is_some_and(Value::is_string), "A6");
    assert!(answer.len() <= 4 + MAX_MESSAGE_BYTES, "A1");
    let Some(then) = then else { return };
    if challenge.handle_client_auth(then).is_ok() {
        let text: Value = serde_json::from_slice(then).expect("JSON");
        let shown = Proof::new(bytes(text.get("client_auth")).expect("a proof"));
        assert!(
            shown == proof(&key(), Domain::Client, &nonce, &Nonce::new(counted(0x40)), &daemon_id()),
            "A4"
        );
    }
}

/// Two of our own, with secrets and a flipped bit from the input: they agree unless the bit is there.
fn good(data: &[u8]) {
    let mut seed = [0; 33];
    seed.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    let [flip, rest @ ..] = seed;
    let key = Key::new(rest);
    let credentials = Credentials { key: key.clone(), daemon_id: daemon_id(), daemon_ver: VERSION.into() };
    let client = ClientHandshake::new(credentials, Nonce::new(rest), "role").expect("it fits");
    let mut other = rest;
    other[usize::from(flip & 31)] ^= flip >> 5;
    let host = HostHandshake::new(Key::new(other), daemon_id(), VERSION, Nonce::new(rest)).expect("valid");
    let hello = client.hello();
    let (answer, challenge) = host.handle_client_hello(&hello[4..]).expect("a good hello");
    match client.handle_server_hello(&answer[4..]) {
        Ok((auth, _)) => {
            assert!(flip >> 5 == 0, "A3: another key");
            assert!(challenge.handle_client_auth(&auth[4..]).is_ok());
        }
        Err(error) => assert!(error == AuthError::BadProof && flip >> 5 != 0),
    }
}
