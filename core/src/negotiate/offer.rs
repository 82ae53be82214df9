//! What a client offers: a list that satisfies N2 and N3 once it exists, and the request that carries it.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::{NEGOTIATION_VERSION, NegotiateError, TCP_VERSION};
use super::{expect_version, own_opaque, peer_opaque, positive, root};
use crate::control::{MAX_BODY_BYTES, op};
use crate::json::{self, Problem, RawJson, ReadError, Value};

/// How many offers one request may have (N2).
pub const MAX_OFFERS: usize = 8;

/// A transport's name: `[a-z][a-z0-9._-]{0,31}` (N3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportName(Cow<'static, str>);

impl TransportName {
    /// `tcp`: the connection that the negotiation runs on.
    pub const TCP: Self = Self(Cow::Borrowed("tcp"));
    /// `unix`: our own candidate (N14).
    pub const UNIX: Self = Self(Cow::Borrowed("unix"));

    const MAX_BYTES: usize = 32;

    /// A transport of this name.
    ///
    /// # Errors
    ///
    /// The name does not match the pattern of N3.
    pub fn new(name: &str) -> Result<Self, ReadError> {
        if Self::is_valid(name) {
            Ok(Self(Cow::Owned(name.into())))
        } else {
            Err(ReadError { member: "transport", problem: Problem::NotAllowed })
        }
    }

    fn is_valid(name: &str) -> bool {
        name.len() <= Self::MAX_BYTES
            && name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
            })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `tcp`.
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        *self == Self::TCP
    }

    pub(super) fn decode(value: Value<'_>) -> Result<Self, ReadError> {
        Self::new(&value.string(Self::MAX_BYTES)?)
    }
}

/// One transport that a client can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    transport: TransportName,
    capability_version: NonZeroU32,
    parameters: Option<RawJson>,
}

impl Offer {
    /// An offer. `parameters` are sent compact.
    ///
    /// # Errors
    ///
    /// `parameters` that are no object, or over 8,192 compact bytes or 8 levels of containers (N3).
    pub fn new(
        transport: TransportName,
        capability_version: NonZeroU32,
        parameters: Option<&RawJson>,
    ) -> Result<Self, ReadError> {
        let parameters = parameters.map(|value| own_opaque("parameters", value)).transpose()?;
        Ok(Self { transport, capability_version, parameters })
    }

    /// `tcp`, version 1, without parameters.
    #[must_use]
    pub const fn tcp() -> Self {
        Self { transport: TransportName::TCP, capability_version: TCP_VERSION, parameters: None }
    }

    /// `unix`, version 1, without parameters (N14).
    #[must_use]
    pub const fn unix() -> Self {
        Self { transport: TransportName::UNIX, capability_version: NonZeroU32::MIN, parameters: None }
    }

    /// The transport.
    #[must_use]
    pub const fn transport(&self) -> &TransportName {
        &self.transport
    }

    /// The version of it.
    #[must_use]
    pub const fn capability_version(&self) -> NonZeroU32 {
        self.capability_version
    }

    /// Its parameters, if there are any.
    #[must_use]
    pub const fn parameters(&self) -> Option<&RawJson> {
        self.parameters.as_ref()
    }

    fn decode(value: Value<'_>) -> Result<Self, ReadError> {
        let [transport, version, parameters] =
            value.object()?.pick_closed(["transport", "capability_version", "parameters"])?;
        Ok(Self {
            transport: TransportName::decode(transport.required()?)?,
            capability_version: positive(version)?,
            // N4: `null` is no object, so it is malformed here.
            parameters: parameters.present().map(peer_opaque).transpose()?,
        })
    }
}

/// 1 to 8 offers in order of preference, at least one of them `tcp`, none repeated (N2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferList {
    offers: Vec<Offer>,
}

impl OfferList {
    /// A list of these offers, the most wanted first.
    ///
    /// # Errors
    ///
    /// What N2 forbids, or a request that would pass the limit of C1.
    pub fn new(offers: Vec<Offer>) -> Result<Self, NegotiateError> {
        let list = Self::of_valid(offers)?;
        if encode_request(&list).len() > MAX_BODY_BYTES { Err(NegotiateError::TooLarge) } else { Ok(list) }
    }

    /// `tcp` and nothing else.
    #[must_use]
    pub fn tcp_only() -> Self {
        Self { offers: alloc::vec![Offer::tcp()] }
    }

    fn of_valid(offers: Vec<Offer>) -> Result<Self, NegotiateError> {
        // N2: one to eight, `tcp` among them, none twice.
        if !(1..=MAX_OFFERS).contains(&offers.len()) {
            return Err(NegotiateError::OfferCount);
        }
        if !offers.iter().any(|offer| offer.transport.is_tcp()) {
            return Err(NegotiateError::NoTcpOffer);
        }
        let mut rest = offers.as_slice();
        while let Some((offer, others)) = rest.split_first() {
            let same = |other: &Offer| {
                other.transport == offer.transport && other.capability_version == offer.capability_version
            };
            if others.iter().any(same) {
                return Err(NegotiateError::RepeatedOffer);
            }
            rest = others;
        }
        Ok(Self { offers })
    }

    /// The offers, the most wanted first.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// The offer of this transport and version.
    pub(super) fn find(&self, transport: &TransportName, version: NonZeroU32) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.transport == *transport && offer.capability_version == version)
    }

    /// Whether every offer is `tcp`.
    pub(super) fn is_tcp_only(&self) -> bool {
        self.offers.iter().all(|offer| offer.transport.is_tcp())
    }
}

/// The request `transport.negotiate`.
#[must_use]
pub fn encode_request(offers: &OfferList) -> Vec<u8> {
    let mut body = Vec::with_capacity(160);
    json::write_object(&mut body, |body| {
        body.string("op", op::NEGOTIATE);
        body.number("negotiation_version", NEGOTIATION_VERSION.into());
        body.array("offers", |list| {
            for offer in &offers.offers {
                list.object(|to| {
                    to.string("transport", offer.transport.as_str());
                    to.number("capability_version", offer.capability_version.get().into());
                    if let Some(parameters) = &offer.parameters {
                        to.raw("parameters", parameters);
                    }
                });
            }
        });
    });
    body
}

/// Reads the request `transport.negotiate`, strictly (N2–N4).
///
/// # Errors
///
/// Any [`NegotiateError`]: answer `invalid_control_request`, then the end (N8).
pub fn decode_request(body: &[u8], binary: bool) -> Result<OfferList, NegotiateError> {
    let body = root(body, binary)?;
    expect_version(body, op::NEGOTIATE)?;
    let [_, _, offers] = body.pick_closed(["op", "negotiation_version", "offers"])?;
    let mut list = Vec::new();
    for offer in offers.required()?.elements()? {
        // Judged before the ninth is read: the list never grows past its limit.
        if list.len() >= MAX_OFFERS {
            return Err(NegotiateError::OfferCount);
        }
        list.push(Offer::decode(offer)?);
    }
    OfferList::of_valid(list)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;

    use super::*;
    use crate::json::SyntaxError;

    fn version(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    fn read(text: &str) -> Result<OfferList, NegotiateError> {
        decode_request(text.as_bytes(), false)
    }

    fn with_offers(offers: &str) -> String {
        format!(r#"{{"op":"transport.negotiate","negotiation_version":1,"offers":[{offers}]}}"#)
    }

    const TCP: &str = r#"{"transport":"tcp","capability_version":1}"#;

    fn problem(result: Result<OfferList, NegotiateError>) -> (&'static str, Problem) {
        match result {
            Err(NegotiateError::Malformed(error)) => (error.member, error.problem),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn n2_a_request_is_written_as_the_contract_spells_it_and_read_back() {
        let parameters = RawJson::new("{ \"a\" : [ 1 ] }").unwrap();
        let offers = vec![
            Offer::unix(),
            Offer::new(TransportName::new("x.y_z-1").unwrap(), version(u32::MAX), Some(&parameters)).unwrap(),
            Offer::tcp(),
        ];
        let list = OfferList::new(offers).unwrap();
        let body = encode_request(&list);
        let wanted = with_offers(&format!(
            r#"{{"transport":"unix","capability_version":1}},{{"transport":"x.y_z-1","capability_version":4294967295,"parameters":{{"a":[1]}}}},{TCP}"#
        ));
        assert_eq!(String::from_utf8(body.clone()).unwrap(), wanted);
        assert_eq!(decode_request(&body, false), Ok(list.clone()));
        assert_eq!(list.offers()[1].parameters().unwrap().text(), "{\"a\":[1]}");
        assert_eq!(list.offers()[1].capability_version(), version(u32::MAX));
        assert_eq!(list.offers()[0].transport().as_str(), "unix");
        assert_eq!(read(&with_offers(TCP)), Ok(OfferList::tcp_only()));
    }

    #[test]
    fn n2_1_to_8_offers_one_of_them_tcp_and_none_repeated() {
        let offer = |name: &str, n: u32| format!(r#"{{"transport":"{name}","capability_version":{n}}}"#);
        let list = |n: u32| (1..n).map(|i| offer("x", i)).chain([TCP.into()]).collect::<Vec<_>>().join(",");
        assert_eq!(read(&with_offers("")), Err(NegotiateError::OfferCount));
        assert_eq!(read(&with_offers(&list(1))).unwrap().offers().len(), 1);
        assert_eq!(read(&with_offers(&list(8))).unwrap().offers().len(), 8);
        assert_eq!(read(&with_offers(&list(9))), Err(NegotiateError::OfferCount));
        assert_eq!(read(&with_offers(&offer("unix", 1))), Err(NegotiateError::NoTcpOffer));
        assert_eq!(read(&with_offers(&offer("tcp", 7))).unwrap().offers().len(), 1);
        let join = |offers: &[String]| with_offers(&offers.join(","));
        assert_eq!(read(&join(&[offer("tcp", 1), offer("tcp", 1)])), Err(NegotiateError::RepeatedOffer));
        assert_eq!(
            read(&join(&[offer("x", 2), offer("y", 2), offer("tcp", 1), offer("x", 2)])),
            Err(NegotiateError::RepeatedOffer)
        );
        assert!(read(&join(&[offer("tcp", 1), offer("tcp", 2), offer("x", 1)])).is_ok());
        assert_eq!(OfferList::new(vec![]), Err(NegotiateError::OfferCount));
        assert_eq!(OfferList::new(vec![Offer::unix()]), Err(NegotiateError::NoTcpOffer));
        assert_eq!(OfferList::new(vec![Offer::tcp(), Offer::tcp()]), Err(NegotiateError::RepeatedOffer));
    }

    #[test]
    fn c1_offers_that_pass_a_control_body_together_are_no_list() {
        let parameters = RawJson::new(&format!("{{\"a\":\"{}\"}}", "x".repeat(8192 - 8))).unwrap();
        let offers = |n: u32| {
            (1..=n)
                .map(|i| Offer::new(TransportName::new("x").unwrap(), version(i), Some(&parameters)).unwrap())
                .chain([Offer::tcp()])
                .collect()
        };
        assert!(OfferList::new(offers(7)).is_ok());
        let seven = encode_request(&OfferList::new(offers(7)).unwrap()).len();
        // Fill up to the limit exactly, then by one byte more.
        let tcp_with = |n: usize| {
            let text = format!("{{\"a\":\"{}\"}}", "x".repeat(n));
            let mut list: Vec<Offer> = offers(7);
            list.pop();
            list.push(
                Offer::new(TransportName::TCP, TCP_VERSION, Some(&RawJson::new(&text).unwrap())).unwrap(),
            );
            OfferList::new(list).map(|list| encode_request(&list).len())
        };
        let empty = ",\"parameters\":{\"a\":\"\"}".len();
        assert_eq!(tcp_with(65_536 - seven - empty), Ok(65_536));
        assert_eq!(tcp_with(65_536 - seven - empty + 1), Err(NegotiateError::TooLarge));
    }

    #[test]
    fn n3_versions_are_integers_1_to_u32_max() {
        for (text, wanted) in [
            ("0", Problem::OutOfRange),
            ("-1", Problem::OutOfRange),
            ("4294967296", Problem::OutOfRange),
            ("18446744073709551616", Problem::OutOfRange),
            ("-0", Problem::NotInteger),
            ("1.0", Problem::NotInteger),
            ("1e0", Problem::NotInteger),
            ("\"1\"", Problem::WrongType),
            ("null", Problem::WrongType),
            ("true", Problem::WrongType),
        ] {
            let offer = format!(r#"{{"transport":"x","capability_version":{text}}},{TCP}"#);
            assert_eq!(problem(read(&with_offers(&offer))), ("capability_version", wanted), "{text}");
            let body = with_offers(TCP).replacen("n\":1", &format!("n\":{text}"), 1);
            assert_eq!(problem(read(&body)), ("negotiation_version", wanted), "{text}");
        }
        let offer = format!(r#"{{"transport":"x","capability_version":4294967295}},{TCP}"#);
        assert!(read(&with_offers(&offer)).is_ok());
    }

    #[test]
    fn n8_b015_another_version_is_told_from_malformed_whatever_follows_it() {
        for version in ["2", "4294967295"] {
            let body = format!(r#"{{"op":"transport.negotiate","negotiation_version":{version},"new":[]}}"#);
            assert_eq!(read(&body), Err(NegotiateError::UnsupportedVersion));
        }
    }

    #[test]
    fn n3_a_transport_name_has_1_to_32_bytes_of_its_alphabet() {
        let long = "a".repeat(32);
        for name in ["a", "z9", "a.b_c-d", "tcp", &long] {
            assert_eq!(TransportName::new(name).unwrap().as_str(), name);
            assert!(
                read(&with_offers(&format!(r#"{{"transport":"{name}","capability_version":9}},{TCP}"#)))
                    .is_ok()
            );
        }
        for name in ["", "A", "aB", "1a", ".a", "-a", "_a", "a b", "a/b", "é", "aé", "a\\u0000"] {
            let offer = format!(r#"{{"transport":"{name}","capability_version":9}},{TCP}"#);
            assert_eq!(problem(read(&with_offers(&offer))), ("transport", Problem::NotAllowed), "{name}");
            assert!(TransportName::new(name).is_err());
        }
        let longer = "a".repeat(33);
        assert!(TransportName::new(&longer).is_err());
        let offer = format!(r#"{{"transport":"{longer}","capability_version":9}},{TCP}"#);
        assert_eq!(problem(read(&with_offers(&offer))), ("transport", Problem::TooLong));
        assert!(TransportName::TCP.is_tcp() && !TransportName::UNIX.is_tcp());
    }

    #[test]
    fn n3_parameters_are_objects_of_8192_compact_bytes_and_8_levels_in_both_directions() {
        let judge = |text: &str| {
            let offer = format!(r#"{{"transport":"x","capability_version":1,"parameters":{text}}},{TCP}"#);
            let decoded = match read(&with_offers(&offer)) {
                Ok(_) => Ok(()),
                Err(NegotiateError::Malformed(ReadError { member: "parameters", problem })) => Err(problem),
                Err(other) => panic!("{other:?}"),
            };
            let built = Offer::new(TransportName::UNIX, version(1), Some(&RawJson::new(text).unwrap()));
            assert_eq!(built.map(|_| ()).map_err(|error| error.problem), decoded, "{text}");
            decoded
        };
        let sized = |n: usize| format!("{{ \"a\" :\n\"{}\" }}", "x".repeat(n - 8));
        assert_eq!(judge(&sized(8192)), Ok(()));
        assert_eq!(judge(&sized(8193)), Err(Problem::TooLong));
        let nest =
            |n: usize, leaf: &str| format!("{{\"a\":{}{leaf}{}}}", "[".repeat(n - 1), "]".repeat(n - 1));
        // Scalars add no level here.
        assert_eq!(judge(&nest(8, "0")), Ok(()));
        assert_eq!(judge(&nest(8, "")), Ok(()));
        assert_eq!(judge(&nest(9, "")), Err(Problem::TooDeep));
        assert_eq!(judge("{}"), Ok(()));
        for text in ["[]", "null", "\"{}\"", "1", "true"] {
            assert_eq!(judge(text), Err(Problem::WrongType), "{text}");
        }
    }

    #[test]
    fn n4_member_sets_are_closed_and_repeats_are_malformed_at_any_depth() {
        let unknown = |text: &str| assert_eq!(problem(read(text)).1, Problem::Unknown, "{text}");
        unknown(&with_offers(TCP).replacen('{', r#"{"x":1,"#, 1));
        unknown(&with_offers(&TCP.replacen('{', r#"{"x":null,"#, 1)));
        for text in [
            with_offers(TCP).replacen('{', r#"{"op":"transport.negotiate","#, 1),
            with_offers(&TCP.replacen('{', r#"{"transport":"tcp","#, 1)),
            with_offers(&TCP.replacen('{', r#"{"parameters":{"a":[{"b":1,"\u0062":2}]},"#, 1)),
        ] {
            assert_eq!(problem(read(&text)), ("body", Problem::Syntax(SyntaxError::RepeatedKey)), "{text}");
        }
    }

    #[test]
    fn n2_missing_and_mistyped_members_are_malformed() {
        let good = with_offers(TCP);
        for (find, replace, wanted) in [
            ("\"op\":\"transport.negotiate\",", "", ("op", Problem::Missing)),
            ("transport.negotiate", "host.shutdown", ("op", Problem::NotAllowed)),
            ("\"negotiation_version\":1,", "", ("negotiation_version", Problem::Missing)),
            (",\"offers\":[", ",\"offer\":[", ("body", Problem::Unknown)),
            ("\"transport\":\"tcp\",", "", ("transport", Problem::Missing)),
            ("\"tcp\"", "1", ("transport", Problem::WrongType)),
            (",\"capability_version\":1", "", ("capability_version", Problem::Missing)),
        ] {
            assert_eq!(problem(read(&good.replacen(find, replace, 1))), wanted, "{find}");
        }
        let no_offers = r#"{"op":"transport.negotiate","negotiation_version":1}"#;
        assert_eq!(problem(read(no_offers)), ("offers", Problem::Missing));
        let null = r#"{"op":"transport.negotiate","negotiation_version":1,"offers":null}"#;
        assert_eq!(problem(read(null)), ("offers", Problem::WrongType));
        assert_eq!(problem(read(&with_offers("null"))), ("offers", Problem::WrongType));
        assert_eq!(decode_request(good.as_bytes(), true), Err(NegotiateError::Binary));
        let padded = |n: usize| good.clone() + &" ".repeat(n - good.len());
        assert!(read(&padded(65_536)).is_ok());
        assert_eq!(read(&padded(65_537)), Err(NegotiateError::TooLarge));
        assert_eq!(problem(read("")), ("body", Problem::Syntax(SyntaxError::UnexpectedEnd)));
        assert_eq!(problem(read("[]")), ("body", Problem::WrongType));
    }

    #[test]
    fn n15_parameters_are_not_printed() {
        let raw = RawJson::new("{\"k\":\"s3cr3t\"}").unwrap();
        let list = OfferList::new(vec![
            Offer::new(TransportName::UNIX, version(1), Some(&raw)).unwrap(),
            Offer::tcp(),
        ])
        .unwrap();
        assert!(!format!("{list:?}").contains("s3cr3t"));
    }
}
