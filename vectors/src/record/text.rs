//! How a recording is spelled: steps and fields as the format has them.

use std::fmt::Write as _;

use super::half::Frame;

/// The byte that stands for those which were not kept.
const LEFT_OUT: &str = "2e";

/// How long a line of text, and of bytes as hex, may be.
const LINE: usize = 4096;
const HEX_LINE: usize = 64;

/// A text that is one line of a vector file.
pub(super) fn plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// A value behind `name=`.
pub(super) fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// `channel/epoch/corr` of a frame.
pub(super) fn name(frame: &Frame) -> String {
    let (channel, epoch, corr) = frame.header.identity.raw();
    format!("{:?} {channel}/{epoch}/{corr}", frame.header.kind)
}

/// Where a body's bytes are said.
#[derive(Clone, Copy)]
pub(super) struct Content<'b> {
    pub(super) kept: &'b [u8],
    pub(super) len: usize,
}

impl<'b> Content<'b> {
    pub(super) fn of(frame: &'b Frame) -> Self {
        Self { kept: &frame.kept, len: frame.seen }
    }

    pub(super) const fn whole(kept: &'b [u8]) -> Self {
        Self { kept, len: kept.len() }
    }
}

/// The header's seven fields. `len` is said where the body is no longer the one that the header was made for.
pub(super) fn header(out: &mut String, frame: &Frame, len: Option<&str>) {
    let mut at = 0;
    for (name, width) in
        [("len", 4), ("ver", 1), ("type", 1), ("flags", 1), ("channel", 2), ("epoch", 4), ("corr", 8)]
    {
        let bytes = frame.raw.get(at..at + width).unwrap_or_default();
        at += width;
        match len {
            Some(len) if name == "len" => line(out, &format!("  len     {len}")),
            Some(_) | None => line(out, &format!("  {name:<7} {}", hex(bytes))),
        }
    }
}

/// A field with these bytes; none where there are none.
pub(super) fn field(out: &mut String, name: &str, content: Content<'_>) {
    let mut label = name;
    let mut put = |value: &str| {
        line(out, &format!("  {label:<7} {value}"));
        label = "+";
    };
    let kept = content.kept;
    if !kept.is_empty() && kept.iter().all(|byte| (0x20..0x7f).contains(byte)) {
        for piece in kept.chunks(LINE) {
            put(&format!("text {}", String::from_utf8_lossy(piece)));
        }
    } else {
        for piece in kept.chunks(HEX_LINE) {
            put(&hex(piece));
        }
    }
    if content.len > kept.len() {
        put(&format!("fill {LEFT_OUT} * {}", content.len - kept.len()));
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

pub(super) fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}
