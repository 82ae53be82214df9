//! Reading the small language of requests.

use hostwire::component::ErrorReply;
use hostwire::core::json::{self, Member, Problem, ReadError};

/// The largest body (W7).
const MAX: u64 = 67_108_864;
/// The longest code or message that is read; whether it may be said is the host's to judge.
const TEXT: usize = 65_536;

/// One request, read.
pub(crate) enum Command {
    /// Not of this language: comes back as it is.
    Same,
    Echo {
        answer: Vec<u8>,
    },

    Sleep {
        ms: u64,
    },
    Stream {
        items: u64,
        size: usize,
        every_ms: u64,
        binary: bool,
        code: Option<String>,
    },
    Fail {
        error: ErrorReply,
    },
    Big {
        size: usize,
    },
    Panic,
    Hang,
    SlowStop {
        ms: u64,
    },
    ItemThenResponse,
    Stats,
}

impl Command {
    pub(crate) fn read(body: &[u8]) -> Result<Self, ReadError> {
        let Ok(object) = json::parse(body).map_err(ReadError::from).and_then(|root| root.object()) else {
            return Ok(Self::Same);
        };
        let [what, value, ms, items, size, every_ms, binary, code, message, retry] = object.pick([
            "do",
            "value",
            "ms",
            "items",
            "size",
            "every_ms",
            "binary",
            "code",
            "message",
            "retry_after_ms",
        ]);
        let Some(what) = what.present() else { return Ok(Self::Same) };
        let bytes = |member: Member<'_>| {
            let value = member.required()?;
            let number = value.u64()?;
            if number > MAX {
                return Err(value.problem(Problem::OutOfRange));
            }
            usize::try_from(number).map_err(|_| value.problem(Problem::OutOfRange))
        };
        let number = |member: Member<'_>| member.required()?.u64();
        let text = |member: Member<'_>| Ok::<_, ReadError>(member.required()?.string(TEXT)?.into_owned());
        Ok(match what.string(64)?.as_ref() {
            "echo" => {
                let mut answer = b"{\"echo\":".to_vec();
                compact(value.required()?.text(), &mut answer);
                answer.push(b'}');
                Self::Echo { answer }
            }
            "sleep" => Self::Sleep { ms: number(ms)? },
            "stream" => Self::Stream {
                items: number(items)?,
                size: bytes(size)?,
                every_ms: every_ms.non_null().map_or(Ok(0), |value| value.u64())?,
                binary: binary.non_null().map_or(Ok(false), |value| value.bool())?,
                code: None,
            },
            "stream_fail" => Self::Stream {
                items: number(items)?,
                size: 8,
                every_ms: 0,
                binary: false,
                code: Some(text(code)?),
            },
            "fail" => {
                let message = message.non_null().map_or(Ok("".into()), |value| value.string(TEXT))?;
                let mut error = ErrorReply::new(text(code)?, message);
                if let Some(ms) = retry.non_null() {
                    error = error.retry_after_ms(ms.u64()?);
                }
                Self::Fail { error }
            }
            "big" => Self::Big { size: bytes(size)? },
            "panic" => Self::Panic,
            "hang" => Self::Hang,
            "slow_stop" => Self::SlowStop { ms: number(ms)? },
            "item_then_response" => Self::ItemThenResponse,
            "stats" => Self::Stats,
            _ => return Err(what.problem(Problem::NotAllowed)),
        })
    }
}

/// Appends JSON without its insignificant white space; nothing else changes.
fn compact(text: &str, out: &mut Vec<u8>) {
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        if !in_string && matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        }
        if byte == b'"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && byte == b'\\' && !escaped;
        out.push(byte);
    }
}
