//! A control request as the host reads it: the operation, and what it asks for.

use alloc::boxed::Box;

use super::open::RouteOpen;
use super::{MAX_BODY_BYTES, limit, op};
use crate::json::{self, Member, Problem, ReadError};

/// A well-formed control request (C5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// `route.open`, every value within its bounds.
    RouteOpen(Box<RouteOpen>),
    /// `catalog.list`.
    CatalogList {
        /// Only this module, if the filter is given.
        module_id: Option<Box<str>>,
    },
    /// `host.shutdown`.
    HostShutdown,
    /// `transport.negotiate`; [`negotiate`](crate::negotiate) reads the rest of the body, strictly.
    TransportNegotiate,
    /// Another operation: `unsupported_operation` (C4).
    Unknown,
}

/// Why a control request is refused with `invalid_control_request` (C1–C3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// A body over [`MAX_BODY_BYTES`].
    #[error("control body too large")]
    TooLarge,
    /// The binary bit is set.
    #[error("control body marked binary")]
    Binary,
    /// The body is not what its operation needs.
    #[error("malformed control body: {0}")]
    Malformed(#[from] ReadError),
}

impl ControlError {
    /// Which member was at fault, if one was.
    #[must_use]
    pub const fn read_error(self) -> Option<ReadError> {
        match self {
            Self::Malformed(error) => Some(error),
            Self::TooLarge | Self::Binary => None,
        }
    }
}

/// Reads a control request, bounds and all, and asks nobody whether it can be served (C8).
///
/// # Errors
///
/// [`ControlError`]: answer `invalid_control_request`, and nothing else happens (C3).
pub fn decode_request(body: &[u8], binary: bool) -> Result<ControlRequest, ControlError> {
    if body.len() > MAX_BODY_BYTES {
        return Err(ControlError::TooLarge);
    }
    if binary {
        return Err(ControlError::Binary);
    }
    let body = json::parse(body)?.object()?;
    let [op, module_id] = body.pick(["op", "module_id"]);
    let op = op.required()?.name(limit::OP)?;
    match &*op {
        op::ROUTE_OPEN => Ok(ControlRequest::RouteOpen(Box::new(RouteOpen::decode(body)?))),
        op::CATALOG_LIST => {
            let module_id = module_id.non_null().map(|id| id.name(limit::MODULE_ID)).transpose()?;
            Ok(ControlRequest::CatalogList { module_id: module_id.map(Box::from) })
        }
        op::HOST_SHUTDOWN => Ok(ControlRequest::HostShutdown),
        op::NEGOTIATE => Ok(ControlRequest::TransportNegotiate),
        // C5: the candidate's operations are unknown ones here too.
        _ => Ok(ControlRequest::Unknown),
    }
}

impl From<json::SyntaxError> for ControlError {
    fn from(error: json::SyntaxError) -> Self {
        Self::Malformed(error.into())
    }
}

/// `host.shutdown`, the request and its success alike.
pub const SHUTDOWN_BODY: &[u8] = br#"{"op":"host.shutdown"}"#;

/// Reads the success of `host.shutdown`.
///
/// # Errors
///
/// The body is not that of section 8 (F8).
pub fn decode_shutdown_committed(body: &[u8]) -> Result<(), ReadError> {
    expect_op(json::parse(body)?.object()?.field("op"), op::HOST_SHUTDOWN)
}

/// A success repeats the operation that it answers.
pub(crate) fn expect_op(op: Member<'_>, wanted: &str) -> Result<(), ReadError> {
    let op = op.required()?;
    if op.string(limit::OP)? == wanted { Ok(()) } else { Err(op.problem(Problem::NotAllowed)) }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;
    use crate::json::SyntaxError;

    fn read(text: &str) -> Result<ControlRequest, ControlError> {
        decode_request(text.as_bytes(), false)
    }

    fn malformed(member: &'static str, problem: Problem) -> ControlError {
        ControlError::Malformed(ReadError { member, problem })
    }

    fn syntax(error: SyntaxError) -> ControlError {
        malformed("body", Problem::Syntax(error))
    }

    #[test]
    fn c4_c5_v41_operations_are_told_apart_and_others_are_unknown() {
        assert_eq!(read(r#"{"op":"catalog.list"}"#), Ok(ControlRequest::CatalogList { module_id: None }));
        assert_eq!(decode_request(SHUTDOWN_BODY, false), Ok(ControlRequest::HostShutdown));
        assert_eq!(read(r#"{"op":"host.shutdown","x":1}"#), Ok(ControlRequest::HostShutdown));
        assert_eq!(read(r#"{"op":"transport.negotiate"}"#), Ok(ControlRequest::TransportNegotiate));
        for op in ["transport.activate", "transport.commit", "health", "Route.open", "route.open ", "x"] {
            assert_eq!(read(&format!(r#"{{"op":"{op}"}}"#)), Ok(ControlRequest::Unknown), "{op}");
        }
        assert_eq!(read(r#"{"op":"\u0068ost.shutdown"}"#), Ok(ControlRequest::HostShutdown));
    }

    #[test]
    fn c2_op_has_1_to_64_bytes_without_nul() {
        let op = |op: &str| read(&format!(r#"{{"op":"{op}"}}"#));
        assert_eq!(op(&"x".repeat(64)), Ok(ControlRequest::Unknown));
        assert_eq!(op(&"x".repeat(65)), Err(malformed("op", Problem::TooLong)));
        assert_eq!(op(""), Err(malformed("op", Problem::Empty)));
        assert_eq!(op("host.shutdown\\u0000"), Err(malformed("op", Problem::Nul)));
        assert_eq!(read("{}"), Err(malformed("op", Problem::Missing)));
        assert_eq!(read(r#"{"op":null}"#), Err(malformed("op", Problem::WrongType)));
        assert_eq!(read(r#"{"op":1}"#), Err(malformed("op", Problem::WrongType)));
        assert_eq!(read(r#"["op"]"#), Err(malformed("body", Problem::WrongType)));
    }

    #[test]
    fn c2_the_catalog_filter_has_its_bounds_and_null_is_none() {
        let list = |id: &str| read(&format!(r#"{{"op":"catalog.list","module_id":{id}}}"#));
        let quoted = |n: usize| format!("\"{}\"", "m".repeat(n));
        assert_eq!(list("null"), Ok(ControlRequest::CatalogList { module_id: None }));
        let longest = Some("m".repeat(128).into_boxed_str());
        assert_eq!(list(&quoted(128)), Ok(ControlRequest::CatalogList { module_id: longest }));
        assert_eq!(list(&quoted(129)), Err(malformed("module_id", Problem::TooLong)));
        assert_eq!(list("\"\""), Err(malformed("module_id", Problem::Empty)));
        assert_eq!(list("\"a\\u0000\""), Err(malformed("module_id", Problem::Nul)));
        assert_eq!(list("7"), Err(malformed("module_id", Problem::WrongType)));
        // Of another operation it is an unknown member.
        assert_eq!(read(r#"{"op":"host.shutdown","module_id":7}"#), Ok(ControlRequest::HostShutdown));
    }

    #[test]
    fn c1_65536_bytes_are_read_and_65537_refused() {
        let padded =
            |n: usize| format!("{}{}", r#"{"op":"host.shutdown"}"#, " ".repeat(n - SHUTDOWN_BODY.len()));
        assert_eq!(read(&padded(65_536)), Ok(ControlRequest::HostShutdown));
        assert_eq!(read(&padded(65_537)), Err(ControlError::TooLarge));
        // Unknown members count toward the size, as everything does.
        let filler = "x".repeat(65_536);
        assert_eq!(read(&format!(r#"{{"op":"x","y":"{filler}"}}"#)), Err(ControlError::TooLarge));
    }

    #[test]
    fn c3_the_binary_bit_and_every_kind_of_broken_json_are_invalid() {
        assert_eq!(decode_request(SHUTDOWN_BODY, true), Err(ControlError::Binary));
        for (text, error) in [
            ("", SyntaxError::UnexpectedEnd),
            ("{\"op\":\"host.shutdown\"", SyntaxError::UnexpectedEnd),
            ("\u{feff}{\"op\":\"host.shutdown\"}", SyntaxError::ByteOrderMark),
            (r#"{"op":"host.shutdown"}{}"#, SyntaxError::TrailingBytes),
            (r#"{"op":"host.shutdown","x":"\ud800"}"#, SyntaxError::LoneSurrogate),
            (r#"{"op":"host.shutdown",}"#, SyntaxError::UnexpectedByte),
        ] {
            assert_eq!(read(text), Err(syntax(error)), "{text}");
        }
        assert_eq!(decode_request(b"{\"op\":\"\xff\"}", false), Err(syntax(SyntaxError::InvalidUtf8)));
    }

    #[test]
    fn b013_a_repeated_key_runs_neither_operation() {
        for text in [
            r#"{"op":"catalog.list","op":"host.shutdown"}"#,
            r#"{"op":"host.shutdown","o\u0070":"host.shutdown"}"#,
            r#"{"op":"host.shutdown","params":{"x":{"a":1,"a":1}}}"#,
            r#"{"op":"transport.negotiate","offers":[{"parameters":{"a":1,"a":1}}]}"#,
        ] {
            assert_eq!(read(text), Err(syntax(SyntaxError::RepeatedKey)), "{text}");
        }
    }

    #[test]
    fn b014_b099_depth_33_is_read_and_34_refused_in_members_that_nobody_reads() {
        let deep = |n: usize| {
            let (open, close) = ("[".repeat(n), "]".repeat(n));
            read(&format!(r#"{{"op":"host.shutdown","ignored":{open}{close}}}"#))
        };
        assert_eq!(deep(32), Ok(ControlRequest::HostShutdown));
        assert_eq!(deep(33), Err(syntax(SyntaxError::TooDeep)));
        assert_eq!(deep(200), Err(syntax(SyntaxError::TooDeep)));
        assert_eq!(read(&"[".repeat(65_536)), Err(syntax(SyntaxError::TooDeep)));
    }

    #[test]
    fn f8_a_shutdown_success_names_its_operation() {
        assert_eq!(decode_shutdown_committed(SHUTDOWN_BODY), Ok(()));
        assert_eq!(decode_shutdown_committed(br#"{"x":1,"op":"host.shutdown"}"#), Ok(()));
        for body in [r#"{"op":"catalog.list"}"#, "{}", "", "null", r#"{"op":null}"#] {
            assert!(decode_shutdown_committed(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn no_byte_that_means_something_leads_to_a_panic_in_any_place() {
        let good = br#"{"op":"route.open","target":{"kind":"k","module_id":"m"},"identity":{"project_root":"/","harness":"h","session":"s"},"consumer_capabilities":["a"],"admission_facts":[-1.5e3,"\ud83d\ude00"]}"#;
        let mut read = 0;
        for at in 0..good.len() {
            let mut body = *good;
            for byte in *b"\"\\{}[],:-.019eunt \0\x1f\x80\xc3\xff" {
                body[at] = byte;
                read += usize::from(decode_request(&body, false).is_ok());
            }
        }
        assert!(read > 100, "some places take another byte: {read}");
    }

    #[test]
    fn z1_an_error_names_the_member_and_not_what_stood_there() {
        let error = read(r#"{"op":"catalog.list","module_id":"s3cr3t\u0000"}"#).unwrap_err();
        let printed: String = format!("{error:?} {error}");
        assert!(printed.contains("module_id") && !printed.contains("s3cr3t"));
    }
}
