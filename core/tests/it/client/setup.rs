//! Authentication and negotiation, from the client's side.

use super::harness::{TCP_SELECTED, active, assert_nothing_left, closed, config, feed, fresh};
use crate::raw::{T0, frame, frames, message, server_hello, take, take_all};
use hostwire_core::auth::AuthError;
use hostwire_core::client::{Connection, Event, Stage};
use hostwire_core::endpoint::{DeadlineReason, Disconnect, WriteFailure};
use hostwire_core::fault::{CloseReason, Fault, PeerMisbehaved};
use hostwire_core::limits::ClientLimits;
use hostwire_core::wire::FrameType;
use std::time::Duration;

#[test]
fn ae1_the_handshake_says_what_the_contract_says() {
    let mut conn = fresh();
    let hello = take_all(&mut conn);
    let numbers: Vec<String> = (0x20..0x40).map(|n: u8| n.to_string()).collect();
    assert_eq!(hello, message(&format!(r#"{{"client_nonce":[{}],"role":"client"}}"#, numbers.join(","))));
    feed(&mut conn, &server_hello());
    let out = take_all(&mut conn);
    // A10: the negotiation follows right behind `client_auth`.
    let len = u32::from_le_bytes(out[..4].try_into().unwrap()) as usize;
    let auth = std::str::from_utf8(&out[4..4 + len]).unwrap();
    assert!(auth.starts_with(r#"{"client_auth":[168,51,199,61,"#), "{auth}"); // a833c73d…
    let negotiation = frames(&out[4 + len..]);
    assert_eq!(negotiation.len(), 1);
    assert_eq!(negotiation[0].identity.raw(), (0, 0, 1)); // N1
    assert_eq!(
        negotiation[0].body,
        br#"{"op":"transport.negotiate","negotiation_version":1,"offers":[{"transport":"tcp","capability_version":1}]}"#
    );
    assert!(conn.poll_event().is_none());
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 1), TCP_SELECTED));
    assert!(matches!(conn.poll_event(), Some(Event::Ready { .. })));
}

#[test]
fn cc3_the_handshake_may_arrive_in_any_pieces() {
    let mut wire = server_hello();
    wire.extend(frame(FrameType::Response, 0x0A, (0, 0, 1), TCP_SELECTED));
    let hello = server_hello().len();
    for split in 1..wire.len() {
        let mut conn = fresh();
        take_all(&mut conn);
        feed(&mut conn, &wire[..split.min(hello)]);
        take_all(&mut conn);
        feed(&mut conn, &wire[split.min(hello)..]);
        assert!(matches!(conn.poll_event(), Some(Event::Ready { .. })), "{split}");
    }
}

#[test]
fn v10_nothing_is_sent_to_a_host_that_did_not_prove_itself() {
    let good = String::from_utf8(server_hello()[4..].to_vec()).unwrap();
    let cases = [
        (good.replace("[234,", "[235,"), AuthError::BadProof),
        (good.replace("0.1.0", "0.2.0"), AuthError::WrongDaemonVersion),
    ];
    for (json, error) in cases {
        let mut conn = fresh();
        take_all(&mut conn);
        let fault = Fault(CloseReason::Authentication(error));
        assert_eq!(conn.handle_input(T0, &message(&json)), Err(fault));
        assert!(conn.poll_transmit(T0).is_none(), "A3");
        assert_eq!(closed(&mut conn), CloseReason::Authentication(error));
        assert_eq!(conn.handle_input(T0, &[1]), Err(fault)); // CC11
        assert_nothing_left(&conn);
    }
}

#[test]
fn a1_an_over_long_message_is_refused_on_its_prefix() {
    let mut conn = fresh();
    assert!(conn.handle_input(T0, &4097_u32.to_le_bytes()).is_err());
    assert_eq!(closed(&mut conn), CloseReason::Authentication(AuthError::MessageTooLong));
}

#[test]
fn the_setup_deadline_covers_both_exchanges() {
    for answered in [false, true] {
        let mut conn = fresh();
        take_all(&mut conn);
        if answered {
            feed(&mut conn, &server_hello());
        }
        let deadline = conn.deadline().unwrap();
        assert_eq!((deadline.at, deadline.reason), (T0 + Duration::from_secs(2), DeadlineReason::Handshake));
        conn.handle_timeout(T0 + Duration::from_micros(1_999_999));
        assert!(!conn.is_closed());
        conn.handle_timeout(deadline.at);
        let stage = if answered { Stage::Negotiating } else { Stage::Authenticating };
        match conn.poll_event() {
            Some(Event::Closed { reason: CloseReason::HandshakeTimeout, stage: got }) => {
                assert_eq!(got, stage);
            }
            other => panic!("{other:?}"),
        }
        assert_nothing_left(&conn);
    }
}

#[test]
fn v53_a_refused_or_bent_negotiation_retires_the_generation() {
    let answer = |from: &str, to: &str| {
        let text = std::str::from_utf8(TCP_SELECTED).unwrap().replace(from, to);
        assert_ne!(text.as_bytes(), TCP_SELECTED);
        frame(FrameType::Response, 0x0A, (0, 0, 1), text.as_bytes())
    };
    let cases = [
        frame(FrameType::Error, 0x0A, (0, 0, 1), br#"{"code":"unsupported_operation","message":""}"#),
        frame(FrameType::Error, 0x0A, (0, 0, 1), b"{}"),
        answer("\"negotiation_version\":1", "\"negotiation_version\":2"),
        answer("tcp", "unix"),
        answer("capability_version\":1", "capability_version\":2"),
        answer("}}", "},\"reason\":\"unavailable\"}"), // N7: only `tcp` was offered
        answer("}}", "}"),
    ];
    for bytes in cases {
        let mut conn = fresh();
        take_all(&mut conn);
        feed(&mut conn, &server_hello());
        take_all(&mut conn);
        assert!(conn.handle_input(T0, &bytes).is_err());
        assert!(conn.poll_transmit(T0).is_none(), "N8: nothing more over that connection");
        assert!(matches!(closed(&mut conn), CloseReason::Negotiation(_) | CloseReason::NegotiationRefused));
        assert_nothing_left(&conn);
    }
}

#[test]
fn l1_a_ping_is_answered_before_selection_too() {
    let mut conn = fresh();
    take_all(&mut conn);
    feed(&mut conn, &server_hello());
    take_all(&mut conn);
    feed(&mut conn, &frame(FrameType::Ping, 0x04, (0, 0, 1), &[])); // N13, Q3
    let out = frames(&take_all(&mut conn));
    assert_eq!((out[0].kind, out[0].flags, out[0].identity.raw()), (FrameType::Pong, 0x04, (0, 0, 1)));
    feed(&mut conn, &frame(FrameType::Response, 0x0A, (0, 0, 1), TCP_SELECTED));
    assert!(matches!(conn.poll_event(), Some(Event::Ready { .. })));
}

#[test]
fn every_way_to_lose_the_transport_during_setup_is_one_teardown() {
    type Loss = fn(&mut Connection);
    let losses: [(Loss, CloseReason); 5] = [
        (|conn| conn.handle_eof(T0), CloseReason::Eof),
        (|conn| conn.handle_disconnect(T0, Disconnect::ReadFailed), CloseReason::Io),
        (|conn| conn.handle_disconnect(T0, Disconnect::Abandoned), CloseReason::Abandoned),
        (|conn| conn.shutdown(T0), CloseReason::Local),
        (|conn| conn.poll_transmit(T0).unwrap().failed(WriteFailure::NothingAccepted), CloseReason::Io),
    ];
    for (lose, reason) in losses {
        for stage in [Stage::Authenticating, Stage::Negotiating] {
            let mut conn = fresh();
            if stage == Stage::Negotiating {
                feed(&mut conn, &server_hello());
            }
            lose(&mut conn);
            assert_eq!(conn.close_reason(), Some(reason));
            assert_eq!(closed(&mut conn), reason);
            assert_nothing_left(&conn);
        }
    }
}

#[test]
fn v14_an_end_inside_a_frame_is_corruption() {
    let mut conn = active();
    feed(&mut conn, &[0, 0]);
    conn.handle_eof(T0);
    assert_eq!(closed(&mut conn), CloseReason::Peer(PeerMisbehaved::Truncated));
}

#[test]
fn zero_limits_are_refused() {
    let limits = ClientLimits { live_streams: 0, ..ClientLimits::default() };
    assert!(Connection::new(T0, config(limits)).is_err()); // B1
}

#[test]
fn b115_a_handshake_taken_byte_by_byte_is_the_same() {
    let mut conn = fresh();
    let mut slow = take(&mut conn, T0, usize::MAX, 1);
    feed(&mut conn, &server_hello());
    slow.extend(take(&mut conn, T0, usize::MAX, 1));
    let mut conn = fresh();
    let mut fast = take_all(&mut conn);
    feed(&mut conn, &server_hello());
    fast.extend(take_all(&mut conn));
    assert_eq!(slow, fast);
}

#[test]
fn a_refused_control_request_gives_no_body_back() {
    let mut conn = fresh();
    let filter = hostwire_core::client::CatalogFilter::new(Some("lab")).unwrap();
    let error = conn.catalog(T0, filter, super::harness::LATE).unwrap_err();
    assert_eq!((error.code.as_str(), error.body.len()), ("connection_retired", 0), "not active yet");
}
