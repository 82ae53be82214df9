//! Authentication, negotiation, candidates.

use super::harness::*;
use crate::raw::{T0, frame, message, take};
use hostwire_core::auth::AuthError;
use hostwire_core::endpoint::{DeadlineReason, Disconnect};
use hostwire_core::fault::{CloseReason, PeerMisbehaved};
use hostwire_core::host::*;
use hostwire_core::json::RawJson;
use hostwire_core::negotiate::{
    ActivationToken, CandidateError, Grant, Installed, Served, encode_activate, encode_commit,
};
use hostwire_core::wire::FrameType;
use std::sync::Arc;

const REQUEST: FrameType = FrameType::Request;

#[test]
fn the_fixed_vector_of_the_contract_authenticates() {
    let mut host = Host::new();
    let mut conn = host.accept();
    let (hello, auth) = handshake();
    conn.feed(&hello);
    assert_eq!(conn.take_bytes(), crate::raw::server_hello());
    assert_eq!(auth, fixed_auth());
    conn.feed(&auth);
    assert!(conn.take_bytes().is_empty(), "A9: there is no success message");
    assert_eq!(
        (host.shared.admission().handshakes_in_use(), host.shared.admission().connections_in_use()),
        (0, 1)
    );
    assert!(!conn.inner.is_active());
}

#[test]
fn b100_a10_bytes_behind_the_last_auth_message_are_the_first_envelope_at_every_split() {
    let (hello, auth) = handshake();
    let mut bytes = auth;
    bytes.extend(frame(REQUEST, 0x02, (0, 0, 1), NEGOTIATE));
    for split in 0..=bytes.len() {
        let mut conn = Host::new().accept();
        conn.feed(&hello);
        conn.take_bytes();
        conn.feed(&bytes[..split]);
        conn.feed(&bytes[split..]);
        assert_eq!(conn.said(), [(1, "Response".into())], "split at {split}");
        assert!(conn.inner.is_active());
    }
}

#[test]
fn v11_a8_every_end_of_a_handshake_frees_its_slot() {
    let mut host = Host::limited(|limits| limits.handshakes = 1);
    let (hello, _) = handshake();
    let ends: [&dyn Fn(&mut Conn); 6] = [
        &|conn| conn.feed_any(&[0xFF; 8]),
        &|conn| conn.feed_any(&message("{}")),
        &|conn| conn.inner.handle_eof(T0),
        &|conn| conn.inner.handle_timeout(secs(2)),
        &|conn| conn.inner.handle_disconnect(T0, Disconnect::ReadFailed),
        &|conn| conn.inner.begin_drain(T0),
    ];
    for end in ends {
        for hello in [&[][..], &hello] {
            let mut conn = host.accept();
            assert!(host.shared.admit_handshake().is_none(), "V11");
            conn.feed(hello);
            end(&mut conn);
            assert!(conn.inner.is_closed() && conn.take_bytes().is_empty());
            assert_eq!(host.shared.admission().handshakes_in_use(), 0);
        }
    }
}

#[test]
fn b104_v8_v9_an_auth_message_of_4096_bytes_goes_and_a_longer_one_is_refused_on_its_prefix() {
    let text = String::from_utf8(handshake().0[4..].to_vec()).unwrap();
    let mut conn = Host::new().accept();
    conn.feed(&message(&format!("{text:4096}")));
    assert_eq!(conn.take_bytes(), crate::raw::server_hello());
    for len in [4_097_u32, u32::MAX] {
        let mut conn = Host::new().accept();
        let reason = conn.feed_fatal(&len.to_le_bytes());
        assert_eq!(reason, CloseReason::Authentication(AuthError::MessageTooLong));
    }
}

#[test]
fn b106_v23_a5_a_byte_a_second_does_not_extend_the_handshake() {
    let mut host = Host::new();
    let mut conn = host.accept();
    let deadline = conn.inner.deadline().unwrap();
    assert_eq!((deadline.at, deadline.reason), (secs(2), DeadlineReason::Handshake));
    for second in 0..2 {
        conn.feed_at(secs(second), &[0]);
        conn.inner.handle_timeout(at(1_999_999));
        assert_eq!(conn.inner.deadline(), Some(deadline), "CC5");
    }
    conn.inner.handle_timeout(secs(2));
    assert_eq!(conn.closed().1, CloseReason::HandshakeTimeout);
    assert_nothing_left(&conn.inner);
}

#[test]
fn b101_b103_v39_every_wrong_proof_is_refused_the_same_silent_way() {
    let (hello, auth) = handshake();
    let json = String::from_utf8(auth[4..].to_vec()).unwrap();
    let list = json.trim_start_matches(r#"{"client_auth":["#).trim_end_matches("]}");
    let numbers: Vec<_> = list.split(',').map(String::from).collect();
    let with = |at: usize, value: &str| {
        let mut numbers = numbers.clone();
        numbers[at] = value.into();
        numbers.join(",")
    };
    let mut bad: Vec<String> = vec![
        with(0, "0"),
        with(31, "0"),
        with(0, "256"),
        with(0, "-1"),
        with(0, "1.0"),
        String::new(),
        numbers[..31].join(","),
        format!("{list},0"),
    ];
    // B101: the server's own proof, echoed.
    let hello_text = String::from_utf8(crate::raw::server_hello()[4..].to_vec()).unwrap();
    bad.push(hello_text.split("\"server_proof\":[").nth(1).unwrap().trim_end_matches("]}").into());
    for list in bad {
        let mut host = Host::new();
        let mut conn = host.accept();
        conn.feed(&hello);
        conn.take_bytes();
        let reason = conn.feed_fatal(&message(&format!(r#"{{"client_auth":[{list}]}}"#)));
        assert!(matches!(reason, CloseReason::Authentication(_)), "{list}");
        assert_eq!(host.shared.admission().connections_in_use(), 0);
    }
}

#[test]
fn a9_over_the_connection_limit_a_connection_is_closed_without_a_frame() {
    let mut host = Host::limited(|limits| limits.connections = 1);
    let first = host.active();
    let mut second = host.accept();
    let (hello, auth) = handshake();
    second.feed(&hello);
    second.take_bytes();
    assert_eq!(second.feed_fatal(&auth), CloseReason::OverCapacity);
    assert_eq!(host.shared.admission().handshakes_in_use(), 0);
    drop(first);
    host.active();
}

#[test]
fn v52_n1_anything_but_a_negotiation_retires_the_generation_without_a_frame() {
    let large = vec![b' '; 65_537];
    type Wrong<'b> = (FrameType, (u16, u32, u64), &'b [u8]);
    let wrong: [Wrong<'_>; 8] = [
        (REQUEST, (0, 0, 1), CATALOG),
        (REQUEST, (0, 0, 1), SHUTDOWN), // H6: not before authentication and selection
        (REQUEST, (0, 0, 1), br#"{"op":"other"}"#),
        (REQUEST, (0, 0, 1), &large),
        (REQUEST, (7, 77, 1), b"x"),
        (FrameType::Cancel, (7, 77, 1), b""),
        (FrameType::Pong, (0, 0, 1), b""),
        (FrameType::Goodbye, (7, 77, 0), b""),
    ];
    for (kind, identity, body) in wrong {
        let mut host = Host::new();
        let mut conn = host.authenticated();
        let flags = if kind == REQUEST { 2 } else { 0 };
        let bytes = frame(kind, flags, identity, &body[..body.len().min(1_000)]);
        let mut bytes = bytes;
        bytes[..4].copy_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
        let reason = conn.feed_fatal(&bytes);
        assert_eq!(reason, CloseReason::Peer(PeerMisbehaved::BeforeSelection), "{kind:?}");
        assert_eq!(conn.closed().0.len(), 0, "no dispatch");
    }
    let mut conn = Host::new().authenticated();
    conn.feed_fatal(&frame(FrameType::Goodbye, 0, (0, 0, 0), b""));
}

#[test]
fn n8_a_malformed_negotiation_gets_one_error_then_a_lingering_close() {
    let text = String::from_utf8(NEGOTIATE.to_vec()).unwrap();
    let malformed = [
        (2, String::from("{")),
        (2, String::from("{}")),
        (2, String::from(r#"{"op":7}"#)),
        (2, text.replace("\"negotiation_version\":1", "\"negotiation_version\":2")),
        (2, text.replace("[{", "[").replace("}]", "]")),
        (2, text.replace("}]", "},{\"transport\":\"tcp\",\"capability_version\":1}]")),
        (2, text.replace("]}", "],\"x\":1}")),
        (3, text.clone()),
    ];
    for (flags, body) in malformed {
        let mut conn = Host::new().authenticated();
        let corr = conn.next();
        conn.feed(&frame(REQUEST, flags, (0, 0, corr), body.as_bytes()));
        assert!(!conn.inner.interest().half_close);
        assert_eq!(conn.said(), [(1, "invalid_control_request".into())], "{body}");
        assert!(conn.inner.interest().half_close && conn.inner.interest().read);
        assert!(conn.events().is_empty());
        conn.feed(&frame(REQUEST, 2, (0, 0, 2), CATALOG));
        assert!(conn.take_bytes().is_empty());
        conn.inner.handle_eof(T0);
        assert!(matches!(conn.closed().1, CloseReason::Negotiation(_)));
    }
}

#[test]
fn n7_an_offer_of_tcp_in_versions_that_the_host_lacks_is_closed_silently() {
    let mut conn = Host::new().authenticated();
    let text = String::from_utf8(NEGOTIATE.to_vec())
        .unwrap()
        .replace("\"capability_version\":1", "\"capability_version\":2");
    assert_eq!(conn.feed_fatal(&frame(REQUEST, 2, (0, 0, 1), text.as_bytes())), CloseReason::NothingServed);
}

#[test]
fn n9_a_second_negotiation_retires_the_generation_without_a_frame() {
    let mut conn = Host::new().active();
    let reason = conn.feed_fatal(&frame(REQUEST, 2, (0, 0, 2), NEGOTIATE));
    assert_eq!(reason, CloseReason::Peer(PeerMisbehaved::SecondNegotiation));
}

#[test]
fn a_setup_that_takes_too_long_is_closed_without_a_frame() {
    let mut conn = Host::new().authenticated();
    assert_eq!(conn.inner.deadline().unwrap().at, secs(2));
    conn.inner.handle_timeout(at(1_999_999));
    assert!(!conn.inner.is_closed());
    conn.inner.handle_timeout(secs(2));
    assert_eq!(conn.closed().1, CloseReason::HandshakeTimeout);
    assert!(conn.take_bytes().is_empty());
}

#[test]
fn b086_h5_a_connection_that_has_not_said_anything_does_not_hold_a_drain() {
    let mut host = Host::new();
    for mut conn in [host.accept(), host.authenticated()] {
        conn.inner.begin_drain(T0);
        assert!(conn.take_bytes().is_empty());
        assert_eq!(conn.closed().1, CloseReason::Drained);
    }
}

fn with_unix(available: bool) -> Host {
    let mut config = config();
    config.served = Served::new(vec![Installed::unix(available)]).unwrap();
    Host::with(config)
}

const WANT_UNIX: &[u8] = br#"{"op":"transport.negotiate","negotiation_version":1,"offers":[{"transport":"unix","capability_version":1},{"transport":"tcp","capability_version":1}]}"#;

fn token() -> ActivationToken {
    ActivationToken::new([7; 16])
}

fn granted(host: &mut Host) -> (Conn, CandidateTicket) {
    let mut bootstrap = host.authenticated();
    bootstrap.control(WANT_UNIX);
    let Some(Event::CandidateWanted { offer }) = bootstrap.inner.poll_event() else { panic!() };
    assert!(bootstrap.take_bytes().is_empty(), "the answer waits for the embedder");
    let grant = Grant::new(&offer, token(), &RawJson::new(r#"{"path":"/run/x"}"#).unwrap()).unwrap();
    let ticket = bootstrap.inner.grant_candidate(T0, grant).unwrap();
    assert_eq!(bootstrap.said(), [(1, "Response".into())]);
    (bootstrap, ticket)
}

fn candidate(host: &Host, ticket: CandidateTicket) -> Conn {
    Conn { inner: Connection::candidate(T0, ticket, Arc::clone(&host.shared)), owner: Owner(99), corr: 0 }
}

#[test]
fn n10_n11_a_candidate_becomes_the_connection_when_its_commit_response_is_out() {
    let mut host = with_unix(true);
    let (mut bootstrap, ticket) = granted(&mut host);
    assert_eq!(host.shared.admission().connections_in_use(), 1, "the pair counts as one");
    let mut conn = candidate(&host, ticket);
    conn.control(&encode_activate(&token()));
    assert_eq!(conn.said(), [(1, "Response".into())]);
    conn.control(&encode_commit());
    let whole = conn.waiting_bytes();
    take(&mut conn.inner, T0, whole - 1, 1);
    assert!(!conn.inner.is_active() && conn.inner.poll_event().is_none(), "N11: wholly handed over");
    conn.take_bytes();
    assert!(conn.inner.is_active() && matches!(conn.inner.poll_event(), Some(Event::Active)));
    bootstrap.inner.superseded(T0);
    assert_eq!(bootstrap.closed().1, CloseReason::Superseded);
    conn.control(CATALOG);
    assert_eq!(conn.said(), [(3, "Response".into())]);
    assert_eq!(host.shared.admission().connections_in_use(), 1);
    drop(conn);
    assert_eq!(host.shared.admission().connections_in_use(), 0);
}

#[test]
fn n11_every_wrong_step_on_a_candidate_ends_it_without_a_frame() {
    let activate = encode_activate(&token());
    let wrong = encode_activate(&ActivationToken::new([8; 16]));
    let request = |corr: u64, body: &[u8]| frame(REQUEST, 2, (0, 0, corr), body);
    let again = [request(1, &activate), request(2, &activate)].concat();
    let early = [request(1, &activate), request(2, &encode_commit()), request(3, CATALOG)].concat();
    let routed = frame(REQUEST, 2, (1, 1, 1), b"x");
    let cases =
        [request(1, &wrong), request(2, &activate), request(1, &encode_commit()), again, early, routed];
    for bytes in cases {
        let mut host = with_unix(true);
        let (_bootstrap, ticket) = granted(&mut host);
        let mut conn = candidate(&host, ticket);
        let reason = conn.feed_fatal(&bytes);
        assert!(
            matches!(reason, CloseReason::Candidate(_) | CloseReason::Peer(PeerMisbehaved::BeforeSelection)),
            "{reason:?}"
        );
        assert_eq!(host.shared.admission().connections_in_use(), 0, "both have lost their place");
    }
    let mut host = with_unix(true);
    let (_bootstrap, ticket) = granted(&mut host);
    let mut late = candidate(&host, ticket);
    assert_eq!(late.inner.deadline().unwrap().at, secs(2), "the setup's deadline goes on");
    late.inner.handle_timeout(secs(2));
    assert_eq!(late.closed().1, CloseReason::HandshakeTimeout);
}

#[test]
fn n11_a_frame_on_a_granted_bootstrap_ends_it_and_a_declined_candidate_falls_back() {
    let mut host = with_unix(true);
    let (mut bootstrap, _ticket) = granted(&mut host);
    let reason = bootstrap.feed_fatal(&frame(REQUEST, 2, (0, 0, 2), CATALOG));
    assert_eq!(reason, CloseReason::Candidate(CandidateError::Unexpected));

    let mut declined = host.authenticated();
    declined.control(WANT_UNIX);
    assert!(matches!(declined.inner.poll_event(), Some(Event::CandidateWanted { .. })));
    declined.inner.decline_candidate(T0);
    let answer = declined.frames().remove(0);
    assert!(String::from_utf8(answer.body).unwrap().contains(r#""reason":"unavailable""#), "N5");
    assert!(declined.inner.is_active());
    declined.inner.superseded(T0);
    assert!(declined.inner.is_active(), "only a granted one is superseded");

    let mut unavailable = with_unix(false).authenticated();
    unavailable.control(WANT_UNIX);
    assert!(unavailable.inner.is_active(), "V54");
}

#[test]
fn n11_the_end_of_the_bootstrap_is_the_candidates_until_the_commit_response_is_out_and_nothing_after_it() {
    for committed in [false, true] {
        let mut host = with_unix(true);
        let (_bootstrap, ticket) = granted(&mut host);
        let mut conn = candidate(&host, ticket);
        conn.control(&encode_activate(&token()));
        conn.control(&encode_commit());
        if committed {
            conn.take_bytes();
        }
        conn.inner.bootstrap_ended(T0);
        if committed {
            assert!(conn.inner.is_active(), "N10");
            conn.inner.begin_drain(T0);
            conn.inner.finish_drain(T0);
            conn.inner.bootstrap_ended(T0);
            assert_eq!(conn.said().last().unwrap().1, "Goodbye", "it does not cut an orderly end short");
        } else {
            assert_eq!(conn.closed().1, CloseReason::Abandoned);
        }
    }
}
