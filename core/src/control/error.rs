//! The error body, both ways, and the closed list of codes that the host itself says (C6, F7, B11, §14).

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use crate::json::{self, ReadError};

/// The longest code (C6).
pub const MAX_CODE_BYTES: usize = 128;

/// The longest message that is sent, and what is kept of a received one (C6).
pub const MAX_ERROR_MESSAGE_BYTES: usize = 4096;

macro_rules! host_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $message:literal;)+) => {
        /// The codes that the host itself says. A closed list; components have their own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum HostCode {
            $($(#[$doc])* $variant,)+
        }

        impl HostCode {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code as it stands in a body.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// The message that goes with it, for people.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self {
                    $(Self::$variant => $message,)+
                }
            }

            /// The whole error body, ready: a refusal allocates nothing.
            #[must_use]
            pub const fn body(self) -> &'static [u8] {
                match self {
                    $(Self::$variant =>
                        concat!("{\"code\":\"", $code, "\",\"message\":\"", $message, "\"}").as_bytes(),)+
                }
            }
        }
    };
}

host_codes! {
    /// A limit was reached before dispatch (B6): nothing ran.
    ServerBusy = "server_busy", "a limit is reached, try again";
    /// The route is not there (§7, R5): nothing ran.
    UnknownChannel = "unknown_channel", "no such route";
    /// No component has this module ID (§8).
    UnknownModule = "unknown_module", "no such module";
    /// The target cannot be had: another role, no channel left, or draining (§8, R3, B6).
    TargetUnavailable = "target_unavailable", "the target is not available";
    /// A control body that is malformed or out of bounds (C3).
    InvalidControlRequest = "invalid_control_request", "the control request is not valid";
    /// A control operation that does not exist here (C4).
    UnsupportedOperation = "unsupported_operation", "no such operation";
    /// A component failed, or said what it may not say (B11).
    InternalError = "internal_error", "internal error";
    /// The request was cancelled, and its handler has stopped (X1).
    Cancelled = "cancelled", "cancelled";
    /// A component rejected a bind without a code of its own (R2).
    BindRejected = "bind_rejected", "the bind was rejected";
    /// A bind did not end in time (R2).
    ModuleTimeout = "module_timeout", "the module did not answer in time";
    /// A component is being replaced; `route.open` may be tried again (O4).
    ModuleReloading = "module_reloading", "the module is reloading";
}

impl HostCode {
    /// The code of this text, if it is one of the host's.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|host| host.as_str() == code)
    }

    /// Whether this code proves that nothing ran, so that only the host itself may say it (B11).
    #[must_use]
    pub const fn proves_no_dispatch(self) -> bool {
        match self {
            Self::ServerBusy | Self::UnknownChannel => true,
            Self::UnknownModule
            | Self::TargetUnavailable
            | Self::InvalidControlRequest
            | Self::UnsupportedOperation
            | Self::InternalError
            | Self::Cancelled
            | Self::BindRejected
            | Self::ModuleTimeout
            | Self::ModuleReloading => false,
        }
    }
}

impl fmt::Display for HostCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a text is a code: 1 to [`MAX_CODE_BYTES`] bytes of `[A-Za-z0-9_.-]` (C6).
#[must_use]
pub fn is_code(text: &str) -> bool {
    (1..=MAX_CODE_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// An `Error` frame's body, valid by construction: a code, a message for people, and a hint when to try again.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ErrorBody {
    code: Cow<'static, str>,
    message: Cow<'static, str>,
    retry_after_ms: Option<u64>,
}

impl fmt::Debug for ErrorBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Z1: the message is free text of a body; the code is a name.
        f.debug_struct("ErrorBody")
            .field("code", &self.code)
            .field("retry_after_ms", &self.retry_after_ms)
            .finish_non_exhaustive()
    }
}

impl From<HostCode> for ErrorBody {
    fn from(code: HostCode) -> Self {
        Self { code: code.as_str().into(), message: code.message().into(), retry_after_ms: None }
    }
}

/// An error body that is not the canonical JSON (F7): the request settles as `malformed_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("malformed error body")]
pub struct MalformedError;

impl From<ReadError> for MalformedError {
    fn from(_: ReadError) -> Self {
        Self
    }
}

impl ErrorBody {
    /// What a handler's error becomes before it is queued (B11): itself, or `internal_error` if its code is one that a
    /// handler cannot say or no code at all, or if its message is over the limit.
    #[must_use]
    pub fn from_handler(code: &str, message: &str, retry_after_ms: Option<u64>) -> Self {
        // B11: these prove that nothing ran, and a handler has run.
        if HostCode::parse(code).is_some_and(HostCode::proves_no_dispatch) {
            return HostCode::InternalError.into();
        }
        Self::checked(code, message, retry_after_ms)
    }

    /// What a rejected bind becomes (R2): as [`from_handler`](Self::from_handler), but any well-formed code goes (B11),
    /// and an empty one becomes `bind_rejected`.
    #[must_use]
    pub fn from_bind(code: &str, message: &str, retry_after_ms: Option<u64>) -> Self {
        let code = if code.is_empty() { HostCode::BindRejected.as_str() } else { code };
        Self::checked(code, message, retry_after_ms)
    }

    fn checked(code: &str, message: &str, retry_after_ms: Option<u64>) -> Self {
        if !is_code(code) || message.len() > MAX_ERROR_MESSAGE_BYTES {
            return HostCode::InternalError.into();
        }
        let code = match HostCode::parse(code) {
            Some(host) => host.as_str().into(),
            None => Cow::Owned(code.into()),
        };
        Self { code, message: Cow::Owned(message.into()), retry_after_ms }
    }

    /// The code: stable, for programs.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The code, if it is one of the host's own list. A component may say some of them too.
    #[must_use]
    pub fn host_code(&self) -> Option<HostCode> {
        HostCode::parse(&self.code)
    }

    /// The message: for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How long to wait before trying again, in milliseconds. Advice.
    #[must_use]
    pub const fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after_ms
    }

    /// The body.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(64 + self.code.len() + self.message.len());
        json::write_object(&mut body, |body| {
            body.string("code", &self.code);
            body.string("message", &self.message);
            if let Some(wait) = self.retry_after_ms {
                body.number("retry_after_ms", wait);
            }
        });
        body
    }

    /// Reads a body, keeping at most [`MAX_ERROR_MESSAGE_BYTES`] of its message.
    ///
    /// # Errors
    ///
    /// [`MalformedError`]: the request is settled all the same (F7).
    pub fn decode(body: &[u8]) -> Result<Self, MalformedError> {
        Self::decode_keeping(body, MAX_ERROR_MESSAGE_BYTES)
    }

    /// As [`decode`](Self::decode), keeping at most `max_message_bytes` of the message.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    pub fn decode_keeping(body: &[u8], max_message_bytes: usize) -> Result<Self, MalformedError> {
        let [code, message, retry] =
            json::parse(body).map_err(ReadError::from)?.object()?.pick(["code", "message", "retry_after_ms"]);
        let code = code.required()?.string(MAX_CODE_BYTES)?;
        if !is_code(&code) {
            return Err(MalformedError);
        }
        let code = match HostCode::parse(&code) {
            Some(host) => host.as_str().into(),
            None => Cow::Owned(code.into_owned()),
        };
        // C6: a longer message is cut, at the end of a character.
        let message = message.required()?.string_cut(max_message_bytes)?.into_owned();
        // C6: the hint is advisory, so a bad one is none, and never breaks the call.
        let retry_after_ms = retry.present().and_then(|hint| hint.u64().ok());
        Ok(Self { code, message: Cow::Owned(message), retry_after_ms })
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    #[test]
    fn c6_each_ready_body_is_the_encoding_of_its_code() {
        assert_eq!(HostCode::ALL.len(), 11);
        for &code in HostCode::ALL {
            let body = ErrorBody::from(code);
            assert_eq!(code.body(), body.encode(), "{code}");
            assert_eq!(ErrorBody::decode(code.body()), Ok(body.clone()));
            assert!(is_code(code.as_str()));
            assert_eq!(HostCode::parse(code.as_str()), Some(code));
            assert_eq!((body.host_code(), body.code()), (Some(code), code.as_str()));
            assert_eq!(format!("{code}"), code.as_str());
        }
        assert_eq!(HostCode::parse("Server_busy"), None);
        assert_eq!(
            HostCode::ServerBusy.body(),
            br#"{"code":"server_busy","message":"a limit is reached, try again"}"#
        );
    }

    #[test]
    fn c6_a_hint_is_written_where_there_is_one() {
        let error = ErrorBody::from_handler("store_unavailable", "no \"disk\"\n", Some(50));
        assert_eq!(
            error.encode(),
            br#"{"code":"store_unavailable","message":"no \"disk\"\n","retry_after_ms":50}"#
        );
        assert_eq!(ErrorBody::decode(&error.encode()), Ok(error));
        let error = ErrorBody::from_handler("e", "", None);
        assert_eq!(error.encode(), br#"{"code":"e","message":""}"#);
        assert_eq!(
            (error.code(), error.host_code(), error.message(), error.retry_after_ms()),
            ("e", None, "", None)
        );
    }

    #[test]
    fn c6_f7_a_code_has_1_to_128_bytes_of_its_alphabet_or_the_body_is_malformed() {
        let read = |code: &str| {
            let body = format!(r#"{{"code":"{code}","message":"m"}}"#);
            ErrorBody::decode(body.as_bytes()).map(|error| String::from(error.code()))
        };
        for code in ["a", "AZ.az-09_", &"c".repeat(128)] {
            assert!(is_code(code));
            assert_eq!(read(code).as_deref(), Ok(code));
        }
        for code in
            ["", " ", "a b", "é", "a\\u0000", "a/b", "a:b", "a@", "[", "`", "{", "a+", &"c".repeat(129)]
        {
            assert!(!is_code(code));
            assert_eq!(read(code), Err(MalformedError), "{code}");
        }
    }

    #[test]
    fn f7_what_is_not_the_canonical_json_is_malformed() {
        for body in [
            "",
            "null",
            "[]",
            "{}",
            "not json",
            r#"{"code":"a"}"#,
            r#"{"message":"a"}"#,
            r#"{"code":1,"message":"m"}"#,
            r#"{"code":null,"message":"m"}"#,
            r#"{"code":"a","message":null}"#,
            r#"{"code":"a","message":7}"#,
            r#"{"code":"a","message":"m","code":"a"}"#,
            r#"{"code":"a","message":"m","retry_after_ms":1,"retry_after_ms":1}"#,
            r#"{"code":"a","message":"m","x":{"y":1,"y":1}}"#,
            r#"{"code":"a","message":"m"}x"#,
        ] {
            assert_eq!(ErrorBody::decode(body.as_bytes()), Err(MalformedError), "{body}");
        }
        assert!(ErrorBody::decode(br#" {"x":[],"message":"m","code":"a"} "#).is_ok());
    }

    #[test]
    fn c6_a_message_is_kept_up_to_4096_bytes_and_cut_at_a_character_beyond() {
        let read = |message: &str| {
            let body = format!(r#"{{"code":"a","message":"{message}"}}"#);
            String::from(ErrorBody::decode(body.as_bytes()).unwrap().message())
        };
        let x = |n: usize| "x".repeat(n);
        assert_eq!(read(&x(4096)), x(4096));
        assert_eq!(read(&x(4097)), x(4096));
        assert_eq!(read(&(x(4095) + "é")), x(4095));
        assert_eq!(read(&(x(4094) + "éé")), x(4094) + "é");
        assert_eq!(read(&(x(4095) + "\\u00e9")), x(4095));
        assert_eq!(read(&x(1_000_000)), x(4096));
        let body = br#"{"code":"a","message":"abc"}"#;
        assert_eq!(ErrorBody::decode_keeping(body, 2).unwrap().message(), "ab");
    }

    #[test]
    fn b015_a_bad_hint_is_no_hint_and_breaks_nothing() {
        for (hint, wanted) in [
            ("0", Some(0)),
            ("50", Some(50)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-1", None),
            ("-0", None),
            ("1.5", None),
            ("1e3", None),
            ("null", None),
            ("\"50\"", None),
            ("[50]", None),
            ("{}", None),
            ("true", None),
        ] {
            let body = format!(r#"{{"code":"a","message":"m","retry_after_ms":{hint}}}"#);
            assert_eq!(ErrorBody::decode(body.as_bytes()).unwrap().retry_after_ms(), wanted, "{hint}");
        }
    }

    #[test]
    fn b11_a_handler_cannot_say_that_nothing_ran_nor_anything_malformed() {
        let internal = ErrorBody::from(HostCode::InternalError);
        for code in ["unknown_channel", "server_busy", "", "a b", "é", &"c".repeat(129)] {
            assert_eq!(ErrorBody::from_handler(code, "m", Some(1)), internal, "{code}");
        }
        for code in ["e", "store_unavailable", "cancelled", "unknown_module", &"c".repeat(128)] {
            let error = ErrorBody::from_handler(code, "m", Some(1));
            assert_eq!((error.code(), error.message(), error.retry_after_ms()), (code, "m", Some(1)));
        }
        let proofs: Vec<_> = HostCode::ALL.iter().filter(|code| code.proves_no_dispatch()).collect();
        assert_eq!(proofs, [&HostCode::ServerBusy, &HostCode::UnknownChannel]);
    }

    #[test]
    fn section_14_a_message_over_4096_bytes_becomes_internal_error() {
        let x = |n: usize| "x".repeat(n);
        let internal = ErrorBody::from(HostCode::InternalError);
        assert_eq!(ErrorBody::from_handler("e", &x(4096), None).message().len(), 4096);
        assert_eq!(ErrorBody::from_handler("e", &x(4097), None), internal);
        assert_eq!(ErrorBody::from_handler("e", &"é".repeat(2049), None), internal);
        assert_eq!(ErrorBody::from_bind("e", &x(4096), None).message().len(), 4096);
        assert_eq!(ErrorBody::from_bind("e", &x(4097), None), internal);
    }

    #[test]
    fn r2_b11_a_bind_may_reject_with_any_code_and_an_empty_one_is_bind_rejected() {
        for code in ["server_busy", "unknown_channel", "module_reloading", "e"] {
            assert_eq!(ErrorBody::from_bind(code, "m", None).code(), code);
        }
        let empty = ErrorBody::from_bind("", "why", Some(9));
        assert_eq!(
            (empty.code(), empty.message(), empty.retry_after_ms()),
            ("bind_rejected", "why", Some(9))
        );
        assert_eq!(ErrorBody::from_bind("a b", "m", None), HostCode::InternalError.into());
    }

    #[test]
    fn z1_a_message_is_not_printed() {
        let error = ErrorBody::from_handler("code", "s3cr3t", Some(5));
        assert_eq!(format!("{error:?}"), r#"ErrorBody { code: "code", retry_after_ms: Some(5), .. }"#);
    }
}
