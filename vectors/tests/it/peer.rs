//! The raw peer against a subject that does exactly what a vector says, and against one that does not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use hostwire_core::auth::{Credentials, DaemonId, HostHandshake, Key, MessageReader, Nonce};
use hostwire_vectors::{
    Action, Body, Case, Divergence, Expect, LabHost, Pattern, Peer, Vector, files, load, load_all,
};

fn credentials() -> Credentials {
    Credentials { key: Key::new([7; 32]), daemon_id: DaemonId::new([1; 16]), daemon_ver: "mirror/1".into() }
}

/// What a mirror does other than the vector says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// One bit of the last byte that it sends is another.
    Flip,
    /// It sends nothing in the last place where it should.
    Silence,
    /// It says one frame more at the end.
    More,
    /// It stays open where it should close.
    Open,
}

/// A host that knows the vector and numbers its route 3/9.
fn mirror(mut stream: TcpStream, vector: &Vector, case: &Case, fault: Fault) {
    let Body::Exchange(steps) = &case.body else { panic!("an exchange") };
    let exchange = vector.exchange.as_ref().expect("an exchange");
    let steps: Vec<_> = exchange.before.iter().chain(steps).collect();
    let last = steps.iter().rposition(|step| matches!(step.action, Action::Expect(_)));
    for (at, step) in steps.iter().enumerate() {
        match &step.action {
            Action::Auth => handshake(&mut stream),
            Action::Recv(fields) => {
                let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.value.to_vec()).collect();
                renumber(&mut bytes);
                let mut got = vec![0; bytes.len()];
                stream.read_exact(&mut got).expect("the peer writes");
                assert!(got == bytes, "the peer writes what the vector says");
            }
            Action::Expect(expect) => {
                let mut bytes = spoken(expect);
                renumber(&mut bytes);
                if Some(at) == last && fault == Fault::Flip {
                    *bytes.last_mut().expect("bytes") ^= 1;
                }
                if Some(at) != last || fault != Fault::Silence {
                    stream.write_all(&bytes).expect("the peer reads");
                }
            }
            Action::Closed(_) => break,
            Action::Eof => assert_eq!(stream.read(&mut [0]).expect("the end"), 0),
            Action::Event(_) | Action::Command(_) => {}
            Action::Advance(_) | Action::Socket(_) | Action::Cut { .. } => panic!("not over a socket"),
        }
    }
    if fault == Fault::More {
        stream.write_all(&[0; 21]).expect("the peer reads");
    }
    if fault == Fault::Open {
        // Until the peer has lost its patience and gone.
        assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    }
}

fn handshake(stream: &mut TcpStream) {
    let read = |stream: &mut TcpStream| {
        let mut reader = MessageReader::new();
        loop {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a message");
            if let (_, Some(body)) = reader.handle_input(&byte).expect("a message") {
                return body;
            }
        }
    };
    let Credentials { key, daemon_id, daemon_ver } = credentials();
    let host = HostHandshake::new(key, daemon_id, &daemon_ver, Nonce::new([5; 32])).expect("valid");
    let (challenge, rest) = host.handle_client_hello(&read(stream)).expect("a hello");
    stream.write_all(&challenge).expect("the peer reads");
    rest.handle_client_auth(&read(stream)).expect("a proof");
}

/// Bytes that match an expectation.
fn spoken(expect: &Expect) -> Vec<u8> {
    let (Expect::Frame(fields) | Expect::Message(fields)) = expect;
    let mut head = Vec::new();
    let mut body = Vec::new();
    let mut len = None;
    for (name, pattern) in fields {
        let bytes = match pattern {
            Pattern::Exact(bytes) => bytes.to_vec(),
            Pattern::Length => {
                len = Some(());
                vec![0; 4]
            }
            Pattern::Json(value) => {
                value.to_string().replace(":77}", ":9}").replace(":7,", ":3,").into_bytes()
            }
            Pattern::Error { code, .. } => format!(r#"{{"message":"m","code":"{code}"}}"#).into_bytes(),
        };
        if name == "body" || name == "json" { body = bytes } else { head.extend(bytes) }
    }
    if len.is_some() {
        head[..4].copy_from_slice(&u32::try_from(body.len()).expect("short").to_le_bytes());
    }
    [head, body].concat()
}

/// The vector's route in the mirror's numbers.
fn renumber(bytes: &mut [u8]) {
    if bytes.len() >= 21 && bytes[7..9] == [7, 0] {
        let epoch = u32::from_le_bytes(bytes[9..13].try_into().expect("four"));
        bytes[7..9].copy_from_slice(&3_u16.to_le_bytes());
        bytes[9..13].copy_from_slice(&(epoch - 77 + 9).to_le_bytes());
    }
}

fn against(vector: &Vector, case: &Case, fault: Fault) -> Result<(), Divergence> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("dialled");
    let (subject, _) = listener.accept().expect("accepted");
    thread::scope(|scope| {
        let mirror = scope.spawn(|| mirror(subject, vector, case, fault));
        let patience = Duration::from_millis(if fault == Fault::None { 20_000 } else { 200 });
        let played = Peer::new(stream, credentials(), [2; 32], patience).play(vector, case, &mut LabHost);
        if fault == Fault::None {
            mirror.join().expect("the mirror sees what the vector says");
        } else {
            drop(mirror.join());
        }
        played
    })
}

fn host_cases(file: &str) -> Vec<(Vector, Case)> {
    let vector = load(&files().join(file)).expect("loads");
    vector.cases.clone().into_iter().map(|case| (vector.clone(), case)).collect()
}

#[test]
fn a_subject_that_does_what_a_vector_says_passes_whatever_its_route_is_called() {
    for file in ["frames/host-requests.vec", "negotiation/host-tcp.vec", "control/host-operations.vec"] {
        for (vector, case) in host_cases(file) {
            assert_eq!(against(&vector, &case, Fault::None), Ok(()), "{}", case.name);
        }
    }
}

#[test]
fn a_bit_that_differs_is_a_divergence_that_names_its_field() {
    let (vector, case) = host_cases("frames/host-requests.vec").swap_remove(0);
    let divergence = against(&vector, &case, Fault::Flip).expect_err("diverges");
    let names: Vec<_> = divergence.differences.iter().map(|difference| difference.what.as_str()).collect();
    assert_eq!(names, ["body"]);
    let text = divergence.to_string();
    assert!(text.contains("host-requests.vec:") && text.contains("over a socket"), "{text}");
}

#[test]
fn silence_is_a_divergence() {
    let (vector, case) = host_cases("frames/host-requests.vec").swap_remove(0);
    let text = against(&vector, &case, Fault::Silence).expect_err("diverges").to_string();
    assert!(text.contains("no bytes, then the end") || text.contains("no bytes, then silence"), "{text}");
}

#[test]
fn a_frame_more_than_the_vector_says_is_a_divergence() {
    let (vector, case) = host_cases("negotiation/host-first.vec").swap_remove(0);
    let text = against(&vector, &case, Fault::More).expect_err("diverges").to_string();
    assert!(text.contains("expected nothing more"), "{text}");
}

#[test]
fn a_subject_that_stays_open_is_a_divergence() {
    let (vector, case) = host_cases("negotiation/host-first.vec").swap_remove(0);
    let text = against(&vector, &case, Fault::Open).expect_err("diverges").to_string();
    assert!(text.contains("expected to be closed"), "{text}");
}

#[test]
fn a_case_for_the_core_alone_is_refused() {
    let (vector, case) = host_cases("auth/host-deadline.vec").swap_remove(0);
    assert!(!Peer::can_play(&vector, &case));
    let playable = load_all(&files())
        .expect("all load")
        .iter()
        .flat_map(|vector| vector.cases.iter().map(move |case| Peer::can_play(vector, case)))
        .filter(|playable| *playable)
        .count();
    assert!(playable > 300, "{playable}");
}
