//! Control bodies of both directions, and the error body.

use hostwire_core::control::{
    ControlRequest, ErrorBody, HostCode, MAX_BODY_BYTES, MAX_CODE_BYTES, MAX_ERROR_MESSAGE_BYTES, Manifest,
    Role, Targets, decode_catalog, decode_request, decode_route_opened, decode_shutdown_committed,
    encode_catalog_list, encode_route_opened, is_code,
};

/// Reads one body as everything that a control body may be; what is accepted is written and read again.
///
/// # Panics
/// If a value is out of its bounds, or does not survive being written.
pub fn control(data: &[u8]) {
    crate::json::json(data);
    assert!(decode_request(data, true).is_err(), "F4");
    match decode_request(data, false) {
        Ok(request) => {
            assert!(data.len() <= MAX_BODY_BYTES, "C1");
            self::request(&request);
        }
        Err(error) => assert!(!format!("{error} {error:?}").is_empty()),
    }
    error(data);
    if let Ok(route) = decode_route_opened(data) {
        assert_eq!(decode_route_opened(&encode_route_opened(route)), Ok(route));
    }
    if let Ok(catalog) = decode_catalog(data) {
        assert!(catalog.modules.iter().all(|module| (1..=128).contains(&module.module_id.len())), "C2");
    }
    let _ = decode_shutdown_committed(data);
}

fn request(request: &ControlRequest) {
    match request {
        ControlRequest::RouteOpen(open) => {
            // C2's bounds.
            let bounded = |text: &str, max| (1..=max).contains(&text.len()) && !text.contains('\0');
            assert!(bounded(open.target().kind(), 64) && bounded(open.target().module_id(), 128));
            let identity = open.identity();
            assert!(bounded(identity.project_root(), 4096) && identity.project_root().starts_with('/'));
            assert!(bounded(identity.harness(), 128) && bounded(identity.session(), 256));
            if let Some(consumer) = open.consumer_identity() {
                assert!(bounded(consumer.module_id(), 128) && bounded(consumer.launch_nonce(), 256));
            }
            assert!(open.consumer_capabilities().len() <= 32);
            assert!(open.consumer_capabilities().all(|one| bounded(one, 64)));
            if let Some(facts) = open.admission_facts() {
                assert!(facts.measure().compact_bytes <= 8192 && facts.measure().containers <= 32);
            }
            let body = open.encode();
            assert!(body.len() <= MAX_BODY_BYTES, "C1");
            let Ok(ControlRequest::RouteOpen(again)) = decode_request(&body, false) else {
                panic!("what is written can be read")
            };
            assert!(again == *open);
            assert!(!format!("{open:?}").contains("project_root"), "Z1");
            let manifest = Manifest::new("magic-context", "1", Role::ToolProvider).expect("a valid manifest");
            let targets = Targets::new(vec![manifest]).expect("one component");
            let _ = (targets.resolve(open.target()), targets.class_of(open.target()));
        }
        ControlRequest::CatalogList { module_id } => {
            let body = encode_catalog_list(module_id.as_deref()).expect("within its bounds");
            assert_eq!(decode_request(&body, false).as_ref(), Ok(request));
        }
        ControlRequest::HostShutdown | ControlRequest::TransportNegotiate | ControlRequest::Unknown => {}
    }
}

fn error(data: &[u8]) {
    if let Ok(error) = ErrorBody::decode(data) {
        assert!(is_code(error.code()) && error.code().len() <= MAX_CODE_BYTES, "C6");
        assert!(error.message().len() <= MAX_ERROR_MESSAGE_BYTES, "C6");
        assert!(ErrorBody::decode(&error.encode()).as_ref() == Ok(&error));
        for max in [0, 1, 7] {
            let short = ErrorBody::decode_keeping(data, max).expect("the same body");
            assert!(short.message().len() <= max && error.message().starts_with(short.message()), "C6");
        }
    }
    // B11: whatever a handler says, what is sent can be read and proves nothing that it cannot prove.
    let text = String::from_utf8_lossy(data);
    let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
    for (made, handler) in [
        (ErrorBody::from_handler(code, message, None), true),
        (ErrorBody::from_bind(code, message, Some(7)), false),
    ] {
        let read = ErrorBody::decode(&made.encode()).expect("what is sent can be read");
        assert!(read == made && read.message().len() <= MAX_ERROR_MESSAGE_BYTES);
        assert!(!handler || !made.host_code().is_some_and(HostCode::proves_no_dispatch), "B11");
    }
}
