//! Control requests: bounds, permits, semantics.

use super::harness::*;
use crate::raw::frame;
use hostwire_core::host::*;
use hostwire_core::wire::FrameType;

fn refusal(conn: &mut Conn, body: &[u8]) -> String {
    let corr = conn.control(body);
    assert!(conn.inner.poll_event().is_none(), "no bind, no callback");
    let said = conn.said();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].0, corr);
    said[0].1.clone()
}

#[test]
fn c3_b099_v16_what_is_malformed_or_out_of_bounds_is_invalid_and_nothing_else_happens() {
    let mut conn = Host::new().active();
    let deep = format!(r#"{{"op":"catalog.list","x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let long = |n: usize| OPEN_LAB.replace(r#""session":"s""#, &format!(r#""session":"{}""#, "s".repeat(n)));
    let bad = [
        deep,
        String::new(),
        "{".into(),
        "[]".into(),
        "{}".into(),
        r#"{"op":"catalog.list","op":"catalog.list"}"#.into(),
        OPEN_LAB.replace(r#""/""#, r#""relative""#),
        long(257),
    ];
    for body in &bad {
        assert_eq!(refusal(&mut conn, body.as_bytes()), "invalid_control_request", "{body}");
    }
    let corr = conn.next();
    conn.feed(&frame(FrameType::Request, 0x03, (0, 0, corr), CATALOG));
    assert_eq!(conn.said(), [(corr, "invalid_control_request".into())], "the binary bit");
    conn.control(long(256).as_bytes());
    assert!(matches!(conn.inner.poll_event(), Some(Event::RouteOpen { .. })));
    assert_eq!(conn.inner.counters().refused.invalid_control_request, bad.len() as u64 + 1);
}

#[test]
fn c1_an_oversize_control_body_is_answered_on_its_header_and_drained_without_being_buffered() {
    let mut host = Host::new();
    let mut conn = host.active();
    let corr = conn.next();
    let mut bytes = frame(FrameType::Request, 0x02, (0, 0, corr), b"");
    bytes[..4].copy_from_slice(&1_000_000_u32.to_le_bytes());
    conn.feed(&bytes);
    assert_eq!(conn.said(), [(corr, "invalid_control_request".into())]);
    conn.feed(&vec![b'x'; 999_999]);
    assert_eq!(
        (host.shared.resident().ingress().high_water(), host.shared.resident().small().high_water()),
        (0, 0)
    );
    conn.feed(b"x");
    assert!(conn.take_bytes().is_empty(), "that correlation has its terminal");
    conn.control(CATALOG);
    assert_eq!(conn.said(), [(conn.corr, "Response".into())], "the connection goes on");
    let mut exact = String::from(r#"{"op":"catalog.list"}"#);
    exact.push_str(&" ".repeat(65_536 - exact.len()));
    conn.control(exact.as_bytes());
    assert_eq!(conn.said(), [(conn.corr, "Response".into())]);
}

/// B170: operations.
#[test]
fn v41_c4_c5_unknown_operations_are_unsupported_and_the_connection_goes_on() {
    let mut conn = Host::new().active();
    for op in ["health", "transport.activate", "transport.commit", "x"] {
        assert_eq!(refusal(&mut conn, format!(r#"{{"op":"{op}"}}"#).as_bytes()), "unsupported_operation");
    }
    assert_eq!(refusal(&mut conn, CATALOG), "Response");
}

#[test]
fn v40_ae10_the_catalog_lists_all_in_order_or_one_or_none() {
    let mut conn = Host::new().active();
    let mut list = |body: &str| {
        conn.control(body.as_bytes());
        String::from_utf8(conn.frames().remove(0).body).unwrap()
    };
    let all = list(r#"{"op":"catalog.list"}"#);
    assert!(all.find(r#""lab""#).unwrap() < all.find(r#""lab-reserved""#).unwrap());
    let one = list(r#"{"op":"catalog.list","module_id":"lab-reserved"}"#);
    assert!(one.contains("lab-reserved") && !one.contains(r#""lab""#));
    assert!(list(r#"{"op":"catalog.list","module_id":"x"}"#).contains(r#""modules":[]"#));
    assert_eq!(list(r#"{"op":"catalog.list","module_id":null}"#), all);
}

#[test]
fn the_table_of_targets_decides_who_is_bound() {
    let mut conn = Host::new().active();
    let target = |kind: &str, id: &str| {
        OPEN_LAB.replace("tool_provider", kind).replace(r#""lab""#, &format!("\"{id}\""))
    };
    for (kind, id, want) in [
        ("management_surface", "lab", "target_unavailable"),
        ("tool_provider", "absent", "unknown_module"),
        ("management_surface", "absent", "unknown_module"),
        ("other", "lab", "target_unavailable"),
        ("other", "absent", "target_unavailable"),
    ] {
        assert_eq!(refusal(&mut conn, target(kind, id).as_bytes()), want);
    }
    conn.control(target("management_surface", "lab-reserved").as_bytes());
    match conn.inner.poll_event() {
        Some(Event::RouteOpen { component: 1, class: RouteClass::Reserved, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn c8_c12_the_permit_comes_before_what_the_target_is_and_after_the_bounds() {
    let mut host = Host::limited(|limits| limits.pending_requests = 5); // 4 of them reserved
    let (mut conn, route) = host.routed();
    let job = conn.start(route);
    let unknown = OPEN_LAB.replace(r#""lab""#, r#""absent""#);
    for body in [CATALOG, SHUTDOWN, br#"{"op":"x"}"#, OPEN_LAB.as_bytes(), unknown.as_bytes()] {
        assert_eq!(refusal(&mut conn, body), "server_busy");
    }
    assert_eq!(refusal(&mut conn, b"{"), "invalid_control_request", "bounds first");
    let reserved =
        OPEN_LAB.replace("tool_provider", "management_surface").replace(r#""lab""#, r#""lab-reserved""#);
    conn.control(reserved.as_bytes());
    assert!(matches!(conn.inner.poll_event(), Some(Event::RouteOpen { .. })), "its own class has room");
    host.active(); // C12: a negotiation draws none
    conn.inner.respond(crate::raw::T0, job.id, false, Default::default()).unwrap();
    conn.take_bytes();
    assert_eq!(refusal(&mut conn, unknown.as_bytes()), "unknown_module");
}

#[test]
fn b6_while_the_host_drains_routes_and_requests_are_refused_and_the_catalog_works() {
    let mut host = Host::new();
    let (mut conn, route) = host.routed();
    host.shared.set_draining();
    conn.inner.begin_drain(crate::raw::T0);
    assert_eq!(refusal(&mut conn, OPEN_LAB.as_bytes()), "target_unavailable");
    assert_eq!(refusal(&mut conn, CATALOG), "Response");
    conn.request(route, b"x");
    assert_eq!(conn.said(), [(conn.corr, "server_busy".into())]);
    conn.request(crate::raw::route(9, 9), b"x");
    assert_eq!(conn.said(), [(conn.corr, "unknown_channel".into())]);
    assert!(conn.events().is_empty(), "no dispatch");
}

#[test]
fn b8_a_control_request_without_memory_is_refused_and_a_waiting_bind_keeps_its_charge() {
    let mut host = Host::new();
    let mut conn = host.active();
    conn.control(OPEN_LAB.as_bytes());
    let held = host.shared.resident().small().used();
    assert!(held > 0);
    let Some(Event::RouteOpen { id, open, .. }) = conn.inner.poll_event() else { panic!() };
    drop(open);
    assert_eq!(host.shared.resident().small().used(), held, "until its bind has ended");
    conn.inner
        .reject_route(crate::raw::T0, id, &hostwire_core::control::HostCode::TargetUnavailable.into())
        .unwrap();
    assert_eq!(host.shared.resident().small().used(), 0);
    conn.take_bytes();
    let split = *host.shared.resident().split();
    let all = (
        host.shared.resident().small().try_charge(split.small),
        host.shared.resident().ingress().try_charge(split.ingress),
    );
    assert!(all.0.is_some() && all.1.is_some());
    assert_eq!(refusal(&mut conn, OPEN_LAB.as_bytes()), "server_busy");
}
