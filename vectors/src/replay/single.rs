//! Cases without a connection: headers, documents, proofs.

use std::collections::BTreeMap;

use hostwire_core::auth::{DaemonId, Domain, Key, Nonce, proof};
use hostwire_core::discovery::Document;
use hostwire_core::lifecycle::Record;
use hostwire_core::wire::{Admission, FlagsError, HEADER_LEN, Header, HeaderDecoder, HeaderError, Priority};

use super::Difference;
use super::matching::shown;
use crate::bytes::Bytes;
use crate::format::{HeaderResult, Schema};

/// A header decoded in every way there is: in one piece, byte by byte, in two pieces, and all at once.
pub(super) fn header(bytes: &[u8], expected: &HeaderResult) -> Vec<Difference> {
    let mut ways: Vec<(String, HeaderResult)> = (0..=bytes.len())
        .map(|cut| {
            let (first, second) = bytes.split_at_checked(cut).unwrap_or((bytes, &[]));
            (format!("in two pieces, cut at {cut}"), decoded([first, second].into_iter()))
        })
        .collect();
    ways.push(("byte by byte".into(), decoded(bytes.chunks(1))));
    if let Ok(whole) = <&[u8; HEADER_LEN]>::try_from(bytes) {
        let result =
            Header::decode(whole).map_or_else(malformed, |header| HeaderResult::Frame(facts(&header)));
        ways.push(("at once".into(), result));
    }
    let Some((way, got)) = ways.into_iter().find(|(_, got)| got != expected) else {
        return Vec::new();
    };
    match (expected, &got) {
        (HeaderResult::Frame(expected), HeaderResult::Frame(got)) => expected
            .iter()
            .filter(|(name, value)| got.get(*name) != Some(value))
            .map(|(name, value)| {
                Difference::new(name, value, got.get(name).map_or("nothing", String::as_str))
            })
            .collect(),
        (expected, got) => vec![Difference::new(way, said(expected), said(got))],
    }
}

fn said(result: &HeaderResult) -> String {
    match result {
        HeaderResult::Incomplete => "incomplete".into(),
        HeaderResult::Malformed(name) => name.clone(),
        HeaderResult::Frame(_) => "a frame".into(),
    }
}

fn decoded<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> HeaderResult {
    let mut decoder = HeaderDecoder::default();
    for piece in pieces {
        match decoder.feed(piece) {
            Ok((_, Some(header))) => return HeaderResult::Frame(facts(&header)),
            Ok((_, None)) => {}
            Err(error) => return malformed(error),
        }
    }
    HeaderResult::Incomplete
}

fn malformed(error: HeaderError) -> HeaderResult {
    let name = match error {
        HeaderError::Version => "unsupported_version",
        HeaderError::Type => "unknown_type",
        HeaderError::Flags(how) => match how {
            FlagsError::Reserved => "reserved_flags",
            FlagsError::Priority => "invalid_priority",
            FlagsError::Admission => "invalid_admission",
        },
        HeaderError::Sheddable => "sheddable_not_allowed",
        HeaderError::PureHeaderFlags => "pure_header_flags",
        HeaderError::PureHeaderLength => "pure_header_length",
        HeaderError::BodyTooLarge => "body_too_large",
        HeaderError::ControlEpoch => "control_epoch",
        HeaderError::ZeroEpoch => "zero_epoch",
        other => return HeaderResult::Malformed(other.to_string()),
    };
    HeaderResult::Malformed(name.into())
}

fn facts(header: &Header) -> BTreeMap<String, String> {
    let yes_no = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let (channel, epoch, corr) = header.identity.raw();
    let priority = match header.flags.priority {
        Priority::Passive => "passive",
        Priority::Interactive => "interactive",
        Priority::Background => "background",
    };
    let admission = match header.flags.admission {
        Admission::Normal => "normal",
        Admission::Expedite => "expedite",
        Admission::Sheddable => "sheddable",
    };
    [
        ("type", format!("{:?}", header.kind)),
        ("len", header.len.to_string()),
        ("channel", channel.to_string()),
        ("epoch", epoch.to_string()),
        ("corr", corr.to_string()),
        ("binary", yes_no(header.flags.binary)),
        ("priority", priority.to_owned()),
        ("last", yes_no(header.flags.last)),
        ("admission", admission.to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

pub(super) fn document(schema: Schema, bytes: &Bytes, accepted: bool) -> Vec<Difference> {
    let bytes = bytes.to_vec();
    let got = match schema {
        Schema::Discovery => Document::parse(&bytes).map(drop),
        Schema::Lifecycle => Record::parse(&bytes).map(drop),
    };
    if got.is_ok() == accepted {
        return Vec::new();
    }
    let got = got.map_or_else(|error| format!("refused: {error}"), |()| "accepted".into());
    vec![Difference::new("document", if accepted { "accepted" } else { "refused" }, got)]
}

pub(super) fn proofs(values: &BTreeMap<String, Vec<u8>>) -> Vec<Difference> {
    fn field<const N: usize>(values: &BTreeMap<String, Vec<u8>>, name: &str) -> [u8; N] {
        values.get(name).and_then(|value| value.as_slice().try_into().ok()).unwrap_or([0; N])
    }
    let key = Key::new(field(values, "key"));
    let client = Nonce::new(field(values, "client_nonce"));
    let server = Nonce::new(field(values, "server_nonce"));
    let daemon = DaemonId::new(field(values, "daemon_id"));
    [(Domain::Server, "server_p"), (Domain::Client, "client_p")]
        .into_iter()
        .filter_map(|(domain, name)| {
            let got = proof(&key, domain, &client, &server, &daemon);
            let expected: [u8; 32] = field(values, name);
            (*got.expose() != expected).then(|| Difference::new(name, shown(&expected), shown(got.expose())))
        })
        .collect()
}
