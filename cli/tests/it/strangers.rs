//! `call` where there is no host, a wrong key, or something else behind the port: one clear line and the exit code.

use super::*;
use hostwire::core::auth::{ClientHandshake, Credentials, DaemonId, HostHandshake, Key, Nonce};
use hostwire::core::discovery::Document;
use serde_json::json;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::thread;

fn document(port: u16) -> Document {
    let credentials = Credentials {
        key: Key::new([7; 32]),
        daemon_id: DaemonId::new([9; 16]),
        daemon_ver: "stranger/1".into(),
    };
    Document { port: NonZeroU16::new(port).unwrap(), credentials, pid: 1 }
}

/// A connection file that names a listener, which does `act` with the first who comes.
fn stranger(act: impl FnOnce(TcpStream) + Send + 'static) -> (Spot, thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let spot = Spot::new();
    spot.make_run_dir();
    write_private(&spot.file(), &document(listener.local_addr().unwrap().port()).render());
    (spot, thread::spawn(move || act(listener.accept().unwrap().0)))
}

#[track_caller]
fn not_sent(ran: &Ran, code: &str, daemon_id: Value) {
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let expected =
        json!({"outcome":"not_sent","code":code,"bytes_handed":0,"attempts":0,"daemon_id":daemon_id});
    assert_eq!(ran.line(), expected, "{ran:?}");
    ran.complains_of(code);
}

/// Each command that needs a host.
const COMMANDS: [&[&str]; 2] = [&["call", "--json", "--data", "x"], &["catalog", "--json"]];

on_both_runtimes! {
    fn without_a_file_it_is_missing(runtime) {
        let spot = Spot::new();
        for command in COMMANDS {
            not_sent(&spot.run(&[command, &["--runtime", runtime]].concat()), "discovery_missing", Value::Null);
        }
    }

    fn a_file_that_is_not_to_be_trusted_is_refused(runtime) {
        let spot = Spot::new();
        spot.make_run_dir();
        std::os::unix::fs::symlink("elsewhere", spot.file()).unwrap();
        let call = ["call", "--json", "--data", "x", "--runtime", runtime];
        not_sent(&spot.run(&call), "discovery_insecure", Value::Null);
        std::fs::remove_file(spot.file()).unwrap();
        write_private(&spot.file(), b"{}");
        not_sent(&spot.run(&call), "discovery_invalid", Value::Null);
        std::fs::remove_file(spot.file()).unwrap();
        write_private(&spot.file(), &[b' '; 65_537]);
        not_sent(&spot.run(&call), "discovery_invalid", Value::Null); // V2
        // Neither a file, nor a data directory, nor a variable.
        not_sent(&run(&call), "discovery_invalid", Value::Null);
    }

    fn a2_no_two_attempts_share_a_nonce(runtime) {
        // The client's: what it says first, to two strangers.
        let mut hellos = Vec::new();
        for _ in 0..2 {
            let (send, receive) = std::sync::mpsc::channel();
            let (spot, stranger) = super::stranger(move |mut stream| send.send(message(&mut stream)).unwrap());
            let ran = spot.run(&["call", "--json", "--data", "x", "--runtime", runtime]);
            not_sent(&ran, "authentication_failed", Value::Null);
            stranger.join().unwrap();
            hellos.push(receive.recv().unwrap());
        }
        assert_ne!(hellos[0], hellos[1]);
        // The host's: what it answers to two who say the same.
        let host = Serving::start(runtime, &[]);
        let document = Document::parse(&std::fs::read(host.spot.file()).unwrap()).unwrap();
        let answer = || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, document.port.get())).unwrap();
            let hello = ClientHandshake::new(document.credentials.clone(), Nonce::new([1; 32]), "client").unwrap();
            stream.write_all(&hello.hello()).unwrap();
            message(&mut stream)
        };
        assert_ne!(answer(), answer());
    }

    fn a_port_where_nobody_listens_cannot_be_dialled(runtime) {
        let spot = Spot::new();
        spot.make_run_dir();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        write_private(&spot.file(), &document(listener.local_addr().unwrap().port()).render());
        drop(listener);
        not_sent(&spot.run(&["call", "--json", "--data", "x", "--runtime", runtime]), "dial_failed", Value::Null);
    }

    fn a_wrong_key_is_a_failed_authentication(runtime) {
        let host = Serving::start(runtime, &[]);
        let mut document = Document::parse(&std::fs::read(host.spot.file()).unwrap()).unwrap();
        document.credentials.key = Key::new([0; 32]);
        let copy = Spot::new();
        copy.make_run_dir();
        write_private(&copy.file(), &document.render());
        for command in COMMANDS {
            not_sent(&copy.run(&[command, &["--runtime", runtime]].concat()), "authentication_failed", Value::Null);
        }
        let file = host.spot.file();
        let ran = run(&["call", "--data", "x", "--runtime", runtime, "--connection-file", file.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "the original is good: {ran:?}");
    }

    fn a_port_that_speaks_something_else_is_a_failed_authentication(runtime) {
        let call = ["call", "--json", "--data", "x", "--runtime", runtime];
        let (spot, stranger) = super::stranger(|mut stream| {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        not_sent(&spot.run(&call), "authentication_failed", Value::Null);
        stranger.join().unwrap();
        let (spot, stranger) = super::stranger(drop);
        not_sent(&spot.run(&call), "authentication_failed", Value::Null);
        stranger.join().unwrap();
    }

    fn a_port_that_says_nothing_is_a_timeout(runtime) {
        let (spot, stranger) = super::stranger(|mut stream| {
            let _ = stream.read_to_end(&mut Vec::new());
        });
        not_sent(&spot.run(&["call", "--json", "--data", "x", "--runtime", runtime]), "handshake_timeout", Value::Null);
        stranger.join().unwrap();
    }

    fn a_host_that_closes_behind_its_proof_is_a_failed_negotiation(runtime) {
        let (spot, stranger) = super::stranger(|mut stream| {
            let Document { credentials, .. } = document(1);
            let nonce = Nonce::new([5; 32]);
            let host = HostHandshake::new(credentials.key, credentials.daemon_id, &credentials.daemon_ver, nonce);
            let (answer, _) = host.unwrap().handle_client_hello(&message(&mut stream)).unwrap();
            stream.write_all(&answer).unwrap();
            message(&mut stream);
        });
        let id = DaemonId::new([9; 16]).to_string();
        let ran = spot.run(&["call", "--json", "--data", "x", "--runtime", runtime]);
        not_sent(&ran, "negotiation_failed", json!(id));
        stranger.join().unwrap();
    }
}

/// A message of the handshake, without its length.
fn message(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut body).unwrap();
    body
}
