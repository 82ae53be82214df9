//! Negotiation bodies of both directions, the choice, and the candidate exchange.

use hostwire_core::json::{Kind, RawJson};
use hostwire_core::negotiate::{
    ActivationToken, ClientCandidate, ClientState, ClientStep, HostCandidate, HostInput, HostState, HostStep,
    Installed, MAX_OFFERS, Offer, OfferList, Response, Selection, Served, decode_activate, decode_commit,
    decode_request, encode_activate, encode_request, select, validate_activated, validate_committed,
    validate_response,
};
use hostwire_core::wire::Correlation;

/// Reads one body as everything that belongs to the negotiation.
///
/// # Panics
/// If what is accepted breaks N2, N3, N6 or N7, or does not survive being written.
pub fn negotiate(data: &[u8]) {
    crate::json::json(data);
    assert!(decode_request(data, true).is_err() && decode_activate(data, true).is_err());
    if let Ok(offers) = decode_request(data, false) {
        self::offers(&offers);
    }
    let unix = OfferList::new(vec![Offer::unix(), Offer::tcp()]).expect("two offers");
    for list in [OfferList::tcp_only(), unix] {
        response(data, &list);
    }
    candidate(data);
    let _ = (validate_activated(data, false), validate_committed(data, false));
}

fn offers(offers: &OfferList) {
    let list = offers.offers();
    assert!((1..=MAX_OFFERS).contains(&list.len()), "N2");
    assert!(list.iter().any(|offer| offer.transport().is_tcp()), "N2");
    for offer in list {
        let name = offer.transport().as_str();
        assert!((1..=32).contains(&name.len()) && name.as_bytes()[0].is_ascii_lowercase(), "N3");
        if let Some(parameters) = offer.parameters() {
            opaque(parameters);
        }
    }
    assert_eq!(decode_request(&encode_request(&compact(offers)), false).as_ref(), Ok(&compact(offers)));
    for served in [None, Some(false), Some(true)] {
        let installed: Vec<_> = served.map(Installed::unix).into_iter().collect();
        match select(offers, &Served::new(installed).expect("one version")) {
            Selection::Candidate(place) => {
                assert_eq!(served, Some(true), "N7: nothing is invented");
                assert_eq!(list[place].transport().as_str(), "unix");
                assert_eq!(list[place].capability_version().get(), 1);
            }
            Selection::Tcp { reason } => {
                let tcp = |offer: &Offer| offer.transport().is_tcp() && offer.capability_version().get() == 1;
                assert!(list.iter().any(tcp), "N7");
                assert!(served.is_some() || reason.is_none(), "N7: an unknown transport is no reason");
            }
            Selection::NoTcp => {}
        }
    }
}

/// The same offers with compact parameters, as our own side sends them.
fn compact(offers: &OfferList) -> OfferList {
    let own = |offer: &Offer| {
        Offer::new(offer.transport().clone(), offer.capability_version(), offer.parameters())
            .expect("within its bounds")
    };
    OfferList::new(offers.offers().iter().map(own).collect()).expect("as valid as before")
}

fn opaque(value: &RawJson) {
    assert_eq!(value.value().kind(), Kind::Object, "N3");
    let measure = value.measure();
    assert!(measure.compact_bytes <= 8192 && measure.containers <= 8, "N3");
}

fn response(data: &[u8], offers: &OfferList) {
    let Ok(response) = validate_response(data, false, offers) else { return };
    match &response {
        Response::Tcp { reason } => assert!(reason.is_none() || offers.offers().len() > 1, "N7"),
        Response::Granted(grant) => {
            assert_eq!(grant.transport().as_str(), "unix", "N8");
            opaque(grant.descriptor());
            assert!(!format!("{grant:?}").contains("token"), "N15");
        }
    }
    assert_eq!(validate_response(&response.encode(), false, offers).as_ref(), Ok(&response));
}

/// Both sides of a candidate: whatever comes as a body stands once in each place of a good exchange.
fn candidate(data: &[u8]) {
    let token = ActivationToken::new([7; 16]);
    let corr = |n| Correlation::new(n).expect("not zero");
    if let Ok(read) = decode_activate(data, false) {
        assert_eq!(decode_activate(&encode_activate(&read), false).as_ref(), Ok(&read));
    }
    for place in 0..3 {
        let mut host = HostCandidate::new(token.clone());
        let (mut client, activate) = ClientCandidate::new(&token);
        let mut request = activate;
        for step in 1..=2 {
            let body = if step == place { data } else { &request };
            let before = host.state();
            let Ok(HostStep::Answer(answer)) = host.handle_request(corr(step), body, false) else {
                assert_eq!(host.state(), HostState::Retired, "N11");
                assert!(step == place, "a good exchange ends well");
                return;
            };
            assert_ne!(host.state(), before);
            let good = step == 1 && decode_activate(body, false).is_ok_and(|shown| shown == token)
                || step == 2 && decode_commit(body, false).is_ok();
            assert!(good, "N11: only the granted token lets in");
            match client.handle_response(corr(step), &answer, false) {
                Ok(ClientStep::Commit(commit)) => request = commit,
                Ok(ClientStep::Active) => assert_eq!(step, 2),
                other => panic!("a good answer is taken: {other:?}"),
            }
        }
        assert_eq!(host.handle(HostInput::CommitWritten), HostState::Active);
        assert_eq!(client.state(), ClientState::Active);
    }
    let (mut client, _) = ClientCandidate::new(&token);
    if client.handle_response(corr(1), data, false).is_err() {
        assert_eq!(client.state(), ClientState::Retired, "N11");
    }
}
