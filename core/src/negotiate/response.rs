//! The host's answer, and the client's judgement of it (N5–N8).

use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

use super::offer::{Offer, OfferList, TransportName};
use super::token::ActivationToken;
use super::{NEGOTIATION_VERSION, NegotiateError, TCP_VERSION};
use super::{expect_version, own_opaque, peer_opaque, positive, root};
use crate::control::op;
use crate::json::{self, Problem, RawJson, ReadError, Value};

/// Why TCP was selected although something else was wanted first: a closed set (N5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FallbackReason {
    /// An eligible installed candidate cannot serve now. The only reason that permits a later try (N12).
    Unavailable,
    /// The transport is installed, but not in the version that was offered.
    CapabilityVersionMismatch,
}

impl FallbackReason {
    /// The wire's spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::CapabilityVersionMismatch => "capability_version_mismatch",
        }
    }

    /// Whether a client may probe for an upgrade later (N12).
    #[must_use]
    pub const fn permits_upgrade(self) -> bool {
        // N12: an installed candidate that cannot serve now may serve later; a version will not change.
        match self {
            Self::Unavailable => true,
            Self::CapabilityVersionMismatch => false,
        }
    }

    fn decode(value: Value<'_>) -> Result<Self, ReadError> {
        let text = value.string(64)?;
        [Self::Unavailable, Self::CapabilityVersionMismatch]
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| value.problem(Problem::NotAllowed))
    }
}

/// A granted candidate: what the client needs to reach it and to be let in (N6).
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    transport: TransportName,
    capability_version: NonZeroU32,
    token: ActivationToken,
    descriptor: RawJson,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // N15: token and descriptor stay out.
        f.debug_struct("Grant")
            .field("transport", &self.transport)
            .field("capability_version", &self.capability_version)
            .finish_non_exhaustive()
    }
}

impl Grant {
    /// Grants an offer. `token` is fresh for this grant (N11); `descriptor` is sent compact.
    ///
    /// # Errors
    ///
    /// A descriptor that is no object, or over 8,192 compact bytes or 8 levels of containers (N3).
    pub fn new(offer: &Offer, token: ActivationToken, descriptor: &RawJson) -> Result<Self, ReadError> {
        Ok(Self {
            transport: offer.transport().clone(),
            capability_version: offer.capability_version(),
            token,
            descriptor: own_opaque("descriptor", descriptor)?,
        })
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

    /// What the candidate's first frame has to show.
    #[must_use]
    pub const fn token(&self) -> &ActivationToken {
        &self.token
    }

    /// Where the candidate is, in its transport's own words.
    #[must_use]
    pub const fn descriptor(&self) -> &RawJson {
        &self.descriptor
    }
}

/// The success of `transport.negotiate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Go on over TCP.
    Tcp {
        /// Why not a candidate, if the host says so.
        reason: Option<FallbackReason>,
    },
    /// Go to the candidate.
    Granted(Grant),
}

impl Response {
    /// The body.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(160);
        let tcp = (&TransportName::TCP, TCP_VERSION);
        let (transport, version) = match self {
            Self::Tcp { .. } => tcp,
            Self::Granted(grant) => (&grant.transport, grant.capability_version),
        };
        json::write_object(&mut body, |body| {
            body.string("op", op::NEGOTIATE);
            body.number("negotiation_version", NEGOTIATION_VERSION.into());
            body.object("selected", |selected| {
                selected.string("transport", transport.as_str());
                selected.number("capability_version", version.get().into());
            });
            match self {
                Self::Tcp { reason } => {
                    if let Some(reason) = reason {
                        body.string("reason", reason.as_str());
                    }
                }
                Self::Granted(grant) => {
                    body.string("activation_token", &grant.token.to_hex());
                    body.raw("descriptor", &grant.descriptor);
                }
            }
        });
        body
    }
}

/// Judges the success of `transport.negotiate` against what was offered, strictly (N4–N8).
///
/// # Errors
///
/// Any [`NegotiateError`]: the client retires the generation, and never goes on over that TCP connection (N8).
pub fn validate_response(body: &[u8], binary: bool, offers: &OfferList) -> Result<Response, NegotiateError> {
    let body = root(body, binary)?;
    expect_version(body, op::NEGOTIATE)?;
    let [_, _, selected, reason, token, descriptor] = body.pick_closed([
        "op",
        "negotiation_version",
        "selected",
        "reason",
        "activation_token",
        "descriptor",
    ])?;
    let [transport, version] =
        selected.required()?.object()?.pick_closed(["transport", "capability_version"])?;
    let transport = TransportName::decode(transport.required()?)?;
    let capability_version = positive(version)?;
    // N4: `null` is none of what these may be, so it is malformed, not absent.
    let reason = reason.present().map(FallbackReason::decode).transpose()?;
    let token = token.present().map(ActivationToken::decode).transpose()?;
    let descriptor = descriptor.present().map(peer_opaque).transpose()?;
    // N8: the host selects what was offered.
    if offers.find(&transport, capability_version).is_none() {
        return Err(NegotiateError::NotOffered);
    }
    match (token, descriptor) {
        (None, None) if transport.is_tcp() => {
            // N7: who offered only `tcp` has not fallen back from anything.
            if reason.is_some() && offers.is_tcp_only() {
                return Err(NegotiateError::UnexpectedReason);
            }
            Ok(Response::Tcp { reason })
        }
        (Some(token), Some(descriptor)) if !transport.is_tcp() => {
            // N6: a grant is no fallback.
            if reason.is_some() {
                return Err(NegotiateError::UnexpectedReason);
            }
            Ok(Response::Granted(Grant { transport, capability_version, token, descriptor }))
        }
        // N6: both with a candidate, neither with `tcp`.
        (Some(_) | None, Some(_) | None) => Err(NegotiateError::GrantMismatch),
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;

    use super::*;
    use crate::json::SyntaxError;

    fn offers() -> OfferList {
        OfferList::new(vec![Offer::unix(), Offer::tcp()]).unwrap()
    }

    fn judge(text: &str) -> Result<Response, NegotiateError> {
        validate_response(text.as_bytes(), false, &offers())
    }

    fn malformed(text: &str) -> (&'static str, Problem) {
        match judge(text) {
            Err(NegotiateError::Malformed(error)) => (error.member, error.problem),
            other => panic!("{text}: {other:?}"),
        }
    }

    const TCP: &str = r#"{"op":"transport.negotiate","negotiation_version":1,"selected":{"transport":"tcp","capability_version":1}}"#;
    const GRANT: &str = r#"{"op":"transport.negotiate","negotiation_version":1,"selected":{"transport":"unix","capability_version":1},"activation_token":"000102030405060708090a0b0c0d0e0f","descriptor":{"path":"/run/s"}}"#;

    fn and(text: &str, member: &str) -> String {
        format!("{},{member}}}", text.strip_suffix('}').unwrap())
    }

    fn grant() -> Grant {
        let token = ActivationToken::new(core::array::from_fn(|i| u8::try_from(i).unwrap()));
        Grant::new(&Offer::unix(), token, &RawJson::new("{ \"path\": \"/run/s\" }").unwrap()).unwrap()
    }

    #[test]
    fn n5_n6_responses_are_written_as_the_contract_spells_them_and_judged_good() {
        let tcp = Response::Tcp { reason: None };
        assert_eq!(tcp.encode(), TCP.as_bytes());
        assert_eq!(judge(TCP), Ok(tcp));
        for (reason, text) in [
            (FallbackReason::Unavailable, "unavailable"),
            (FallbackReason::CapabilityVersionMismatch, "capability_version_mismatch"),
        ] {
            let tcp = Response::Tcp { reason: Some(reason) };
            let text = and(TCP, &format!(r#""reason":"{text}""#));
            assert_eq!(tcp.encode(), text.as_bytes());
            assert_eq!(judge(&text), Ok(tcp));
        }
        let granted = Response::Granted(grant());
        assert_eq!(String::from_utf8(granted.encode()).unwrap(), GRANT);
        assert_eq!(judge(GRANT), Ok(granted));
        assert_eq!(grant().transport(), &TransportName::UNIX);
        assert_eq!(grant().capability_version().get(), 1);
        assert_eq!(grant().descriptor().text(), r#"{"path":"/run/s"}"#);
        assert_eq!(grant().token().to_hex(), "000102030405060708090a0b0c0d0e0f");
    }

    #[test]
    fn n12_only_unavailable_permits_a_later_upgrade() {
        assert!(FallbackReason::Unavailable.permits_upgrade());
        assert!(!FallbackReason::CapabilityVersionMismatch.permits_upgrade());
    }

    #[test]
    fn n6_token_and_descriptor_go_with_a_candidate_both_and_with_tcp_neither() {
        let token = r#""activation_token":"000102030405060708090a0b0c0d0e0f""#;
        let unix = TCP.replace("\"tcp\"", "\"unix\"");
        for text in [
            and(TCP, token),
            and(TCP, r#""descriptor":{}"#),
            and(&and(TCP, token), r#""descriptor":{}"#),
            unix.clone(),
            and(&unix, token),
            and(&unix, r#""descriptor":{}"#),
        ] {
            assert_eq!(judge(&text), Err(NegotiateError::GrantMismatch), "{text}");
        }
        assert_eq!(judge(&and(GRANT, r#""reason":"unavailable""#)), Err(NegotiateError::UnexpectedReason));
    }

    #[test]
    fn n7_who_offered_only_tcp_refuses_any_reason() {
        let text = and(TCP, r#""reason":"unavailable""#);
        let judge = |offers: &OfferList| validate_response(text.as_bytes(), false, offers);
        assert_eq!(judge(&OfferList::tcp_only()), Err(NegotiateError::UnexpectedReason));
        let two = Offer::new(TransportName::TCP, NonZeroU32::MAX, None).unwrap();
        let only_tcp = OfferList::new(vec![Offer::tcp(), two]).unwrap();
        assert_eq!(judge(&only_tcp), Err(NegotiateError::UnexpectedReason));
        assert!(judge(&offers()).is_ok());
    }

    #[test]
    fn n8_v53_an_unoffered_selection_is_refused() {
        for text in [
            TCP.replace("capability_version\":1", "capability_version\":2"),
            TCP.replace("\"tcp\"", "\"shm\""),
            GRANT.replace("capability_version\":1", "capability_version\":2"),
        ] {
            assert_eq!(judge(&text), Err(NegotiateError::NotOffered), "{text}");
        }
    }

    #[test]
    fn n8_v53_another_version_or_operation_is_refused() {
        assert_eq!(
            judge(&TCP.replace("negotiation_version\":1", "negotiation_version\":2")),
            Err(NegotiateError::UnsupportedVersion)
        );
        assert_eq!(malformed(&TCP.replace("transport.negotiate", "route.open")), ("op", Problem::NotAllowed));
    }

    #[test]
    fn n4_n5_v53_a_malformed_response_is_refused() {
        for (text, wanted) in [
            (and(TCP, r#""reason":"busy""#), ("reason", Problem::NotAllowed)),
            (and(TCP, r#""reason":"""#), ("reason", Problem::NotAllowed)),
            (and(TCP, r#""reason":null"#), ("reason", Problem::WrongType)),
            (and(TCP, r#""activation_token":null"#), ("activation_token", Problem::WrongType)),
            (and(TCP, r#""descriptor":null"#), ("descriptor", Problem::WrongType)),
            (and(TCP, r#""x":1"#), ("body", Problem::Unknown)),
            (TCP.replace("\"tcp\"", "\"tcp\",\"parameters\":{}"), ("selected", Problem::Unknown)),
            (TCP.replace("\"tcp\"", "\"TCP\""), ("transport", Problem::NotAllowed)),
            (TCP.replace("\"transport\":\"tcp\",", ""), ("transport", Problem::Missing)),
            (TCP.replace(",\"capability_version\":1", ""), ("capability_version", Problem::Missing)),
            (
                TCP.replace("capability_version\":1", "capability_version\":0"),
                ("capability_version", Problem::OutOfRange),
            ),
            (
                TCP.replace("negotiation_version\":1", "negotiation_version\":1.0"),
                ("negotiation_version", Problem::NotInteger),
            ),
            (
                r#"{"op":"transport.negotiate","negotiation_version":1}"#.into(),
                ("selected", Problem::Missing),
            ),
            (
                r#"{"op":"transport.negotiate","negotiation_version":1,"selected":"tcp"}"#.into(),
                ("selected", Problem::WrongType),
            ),
            (GRANT.replace("0102", "0A02"), ("activation_token", Problem::NotAllowed)),
            (GRANT.replace("0102", "01"), ("activation_token", Problem::NotAllowed)),
            (GRANT.replace("0102", "010202"), ("activation_token", Problem::TooLong)),
            (GRANT.replace(r#"{"path":"/run/s"}"#, "[]"), ("descriptor", Problem::WrongType)),
            (
                GRANT.replace(r#""/run/s""#, r#"{"a":1,"a":2}"#),
                ("body", Problem::Syntax(SyntaxError::RepeatedKey)),
            ),
        ] {
            assert_eq!(malformed(&text), wanted, "{text}");
        }
        assert_eq!(validate_response(TCP.as_bytes(), true, &offers()), Err(NegotiateError::Binary));
    }

    #[test]
    fn n3_a_descriptor_has_8192_compact_bytes_and_8_levels_in_both_directions() {
        let check = |text: &str| {
            let read = judge(&GRANT.replace(r#"{"path":"/run/s"}"#, text));
            let made =
                Grant::new(&Offer::unix(), ActivationToken::new([0; 16]), &RawJson::new(text).unwrap());
            let made = made.map(|_| ()).map_err(|error| (error.member, error.problem));
            let read = match read {
                Ok(_) => Ok(()),
                Err(NegotiateError::Malformed(error)) => Err((error.member, error.problem)),
                Err(other) => panic!("{other:?}"),
            };
            assert_eq!(read, made);
            made.map_err(|(_, problem)| problem)
        };
        let sized = |n: usize| format!("{{\"a\": \"{}\"}}", "x".repeat(n - 8));
        assert_eq!(check(&sized(8192)), Ok(()));
        assert_eq!(check(&sized(8193)), Err(Problem::TooLong));
        let nest = |n: usize| format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n));
        assert_eq!(check(&nest(8)), Ok(()));
        assert_eq!(check(&nest(9)), Err(Problem::TooDeep));
    }

    #[test]
    fn n6_a_grant_has_its_offers_version() {
        let two = NonZeroU32::new(2).unwrap();
        let offer = Offer::new(TransportName::UNIX, two, None).unwrap();
        let grant = Grant::new(&offer, ActivationToken::new([7; 16]), &RawJson::new("{}").unwrap()).unwrap();
        assert_eq!((grant.transport(), grant.capability_version()), (offer.transport(), two));
    }

    #[test]
    fn n15_a_grant_prints_neither_token_nor_descriptor() {
        let printed = format!("{:?}", Response::Granted(grant()));
        assert!(printed.contains("unix"));
        for secret in ["run", "0001", "path"] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }
}
