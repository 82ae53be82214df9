//! Transport negotiation, version 1: offers, the host's choice, the client's judgement of it, and the exchange that makes
//! a granted candidate the connection (N1–N15).
//!
//! Everything of this family is read strictly: closed sets of members, no `null` for an optional one, no repeated key
//! at any depth (N4). Tokens, descriptors and parameters are never printed (N15). When what may happen, deadlines and
//! sockets are the roles' business.

mod candidate;
mod offer;
mod response;
mod select;
mod token;

pub use candidate::{
    CandidateError, ClientCandidate, ClientInput, ClientState, ClientStep, FIRST_APPLICATION_CORRELATION,
    HostCandidate, HostInput, HostState, HostStep, decode_activate, decode_commit, encode_activate,
    encode_activated, encode_commit, encode_committed, validate_activated, validate_committed,
};
pub use offer::{MAX_OFFERS, Offer, OfferList, TransportName, decode_request, encode_request};
pub use response::{FallbackReason, Grant, Response, validate_response};
pub use select::{Installed, InstalledError, Selection, Served, select};
pub use token::ActivationToken;

use core::num::NonZeroU32;

use crate::control::MAX_BODY_BYTES;
use crate::json::{self, Member, Object, Problem, RawJson, ReadError, Value};

/// The one negotiation version.
pub const NEGOTIATION_VERSION: u32 = 1;

/// The one capability version of `tcp`, and the only one that a selected `tcp` has (N5).
pub const TCP_VERSION: NonZeroU32 = NonZeroU32::MIN;

/// The longest `parameters` or `descriptor`, in compact bytes (N3).
pub const MAX_OPAQUE_BYTES: usize = 8192;

/// The deepest `parameters` or `descriptor`, in levels of containers (N3).
pub const MAX_OPAQUE_CONTAINERS: usize = 8;

/// Why a negotiation failed. On the host the answer is `invalid_control_request`, then the end (N8); a client ends without
/// a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiateError {
    /// A body over the limit of C1.
    #[error("negotiation body too large")]
    TooLarge,
    /// The binary bit is set.
    #[error("negotiation body marked binary")]
    Binary,
    /// The body is not what it has to be (N2–N6).
    #[error("malformed negotiation body: {0}")]
    Malformed(#[from] ReadError),
    /// A negotiation version other than 1 (N8).
    #[error("unsupported negotiation version")]
    UnsupportedVersion,
    /// Not 1 to [`MAX_OFFERS`] offers (N2).
    #[error("wrong number of offers")]
    OfferCount,
    /// No offer is `tcp` (N2).
    #[error("no offer is tcp")]
    NoTcpOffer,
    /// Two offers have the same transport and version (N2).
    #[error("repeated offer")]
    RepeatedOffer,
    /// The host selected what was not offered (N8).
    #[error("selection that was not offered")]
    NotOffered,
    /// The host gave a reason where none can be (N6, N7).
    #[error("fallback reason where there can be none")]
    UnexpectedReason,
    /// A token or descriptor with `tcp`, or a candidate without both (N6).
    #[error("token or descriptor does not go with the selection")]
    GrantMismatch,
    /// The host answered with an error (N8).
    #[error("the host refused the negotiation")]
    Refused,
}

impl From<json::SyntaxError> for NegotiateError {
    fn from(error: json::SyntaxError) -> Self {
        Self::Malformed(error.into())
    }
}

/// The root of a body of this family, once its size and flag have been judged.
fn root(body: &[u8], binary: bool) -> Result<Object<'_>, NegotiateError> {
    if body.len() > MAX_BODY_BYTES {
        return Err(NegotiateError::TooLarge);
    }
    if binary {
        return Err(NegotiateError::Binary);
    }
    // N4: the scan refuses a repeated key at any depth.
    Ok(json::parse(body)?.object()?)
}

/// Judges `op` and the version, which stand before all else: another version's body may look different.
fn expect_version(body: Object<'_>, op: &str) -> Result<(), NegotiateError> {
    let [found, version] = body.pick(["op", "negotiation_version"]);
    crate::control::expect_op(found, op)?;
    // N8: another version is never a fallback.
    if positive(version)?.get() == NEGOTIATION_VERSION {
        Ok(())
    } else {
        Err(NegotiateError::UnsupportedVersion)
    }
}

/// N3: a JSON integer 1..=4,294,967,295.
fn positive(member: Member<'_>) -> Result<NonZeroU32, ReadError> {
    let value = member.required()?;
    // N3: zero is out of range, and so is all that is no integer.
    NonZeroU32::new(value.u32()?).ok_or_else(|| value.problem(Problem::OutOfRange))
}

/// N3: what `parameters` and `descriptor` may be.
fn bound_opaque(value: Value<'_>) -> Result<(), Problem> {
    if value.kind() != json::Kind::Object {
        return Err(Problem::WrongType);
    }
    let measure = value.measure();
    if measure.compact_bytes > MAX_OPAQUE_BYTES {
        return Err(Problem::TooLong);
    }
    if measure.containers > MAX_OPAQUE_CONTAINERS {
        return Err(Problem::TooDeep);
    }
    Ok(())
}

/// An opaque value that this side's caller gave: bounded, and compact.
fn own_opaque(member: &'static str, value: &RawJson) -> Result<RawJson, ReadError> {
    let compact = value.compacted();
    match bound_opaque(compact.value()) {
        Ok(()) => Ok(compact),
        Err(problem) => Err(ReadError { member, problem }),
    }
}

/// An opaque value that a peer sent: bounded, and verbatim.
fn peer_opaque(value: Value<'_>) -> Result<RawJson, ReadError> {
    match bound_opaque(value) {
        Ok(()) => Ok(value.into()),
        Err(problem) => Err(value.problem(problem)),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn no_byte_that_means_something_leads_to_a_panic_in_any_place() {
        let parameters = RawJson::new(r#"{"a":["\u0061",-1.5e3,{}]}"#).unwrap();
        let offer = Offer::new(TransportName::UNIX, TCP_VERSION, Some(&parameters)).unwrap();
        let offers = OfferList::new(vec![offer.clone(), Offer::tcp()]).unwrap();
        let grant = Grant::new(&offer, ActivationToken::new([9; 16]), &parameters).unwrap();
        let mut read = 0;
        for good in [
            encode_request(&offers),
            Response::Granted(grant).encode(),
            Response::Tcp { reason: Some(FallbackReason::Unavailable) }.encode(),
            encode_activate(&ActivationToken::new([9; 16])),
            encode_commit(),
        ] {
            for at in 0..good.len() {
                let mut body = good.clone();
                for byte in *b"\"\\{}[],:-.019eunt \0\x1f\x80\xc3\xff" {
                    body[at] = byte;
                    read += usize::from(decode_request(&body, false).is_ok());
                    read += usize::from(validate_response(&body, false, &offers).is_ok());
                    read += usize::from(decode_activate(&body, false).is_ok());
                    read += usize::from(decode_commit(&body, false).is_ok());
                }
            }
        }
        assert!(read > 500, "some places take another byte: {read}");
    }
}
