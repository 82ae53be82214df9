//! The reference: it knows which bytes were accepted and delivered, and nothing else. From these offsets each outcome follows.

use hostwire_core::wire::{Correlation, FrameType, HEADER_LEN, Header, Identity};
use std::collections::BTreeMap;

/// What the bytes alone say about one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Bytes of its frame that the client's transport accepted.
    pub handed: usize,
    /// Bytes that a failed write may have taken of it.
    pub maybe: bool,
    /// Its frame was delivered to the host, whole.
    pub arrived: bool,
    /// A terminal for it was delivered to the client, whole.
    pub answered: bool,
}

/// Evidence by correlation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    requests: BTreeMap<u64, Evidence>,
    /// Accepted bytes of a header that is not whole: they belong to the one frame that has begun.
    tail: usize,
}

impl Model {
    /// Reads both directions' bytes from the first envelope on.
    ///
    /// `sent` is what the client's transport accepted, `reached` what the host was given and `seen` what the client was given; `honest`
    /// says that the last is what the host said. All three begin at the first envelope.
    #[must_use]
    pub fn of(sent: &[u8], reached: &[u8], seen: &[u8], honest: bool) -> Self {
        let mut model = Self::default();
        let tail = walk(sent, |header, start, end| {
            if let Some(corr) = request(header) {
                let evidence = model.requests.entry(corr).or_default();
                assert_eq!(evidence.handed, 0, "Q1: a correlation stands on the wire once");
                evidence.handed = end - start;
            }
        });
        model.tail = tail.expect("CC2: a well-formed frame sequence");
        // What misbehaves may end in anything; up to there it counts.
        let _ = walk(reached, |header, start, end| {
            if let Some(corr) = request(header)
                && is_whole(header, start, end)
            {
                model.requests.entry(corr).or_default().arrived = true;
            }
        });
        let read = walk(seen, |header, start, end| {
            let terminal =
                matches!(header.kind, FrameType::Response | FrameType::Error | FrameType::StreamEnd);
            if let (true, true, Identity::Control(corr) | Identity::Routed(_, corr)) =
                (terminal, is_whole(header, start, end), header.identity)
            {
                let evidence = model.requests.entry(corr.value()).or_default();
                assert!(!honest || !evidence.answered, "F5: a host sends one terminal");
                evidence.answered = true;
            }
        });
        assert!(!honest || read.is_some(), "CC2: a well-formed frame sequence");
        model
    }

    /// The evidence about a correlation.
    #[must_use]
    pub fn evidence(&self, corr: u64) -> Evidence {
        self.requests.get(&corr).copied().unwrap_or_default()
    }

    /// Bytes of a header that has begun and is not whole.
    #[must_use]
    pub const fn tail(&self) -> usize {
        self.tail
    }

    /// Every correlation with evidence.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Evidence)> + '_ {
        self.requests.iter().map(|(corr, evidence)| (*corr, *evidence))
    }
}

fn request(header: &Header) -> Option<u64> {
    (header.kind == FrameType::Request)
        .then(|| header.identity.correlation())
        .flatten()
        .map(Correlation::value)
}

const fn is_whole(header: &Header, start: usize, end: usize) -> bool {
    start + HEADER_LEN + header.len as usize == end
}

/// Calls `each` with every frame whose header is whole, its start, and the end of what is there of it (CC2). Returns what is left over,
/// or nothing where a header is none.
fn walk(bytes: &[u8], mut each: impl FnMut(&Header, usize, usize)) -> Option<usize> {
    let mut start = 0;
    while let Some(head) = bytes[start..].first_chunk::<HEADER_LEN>() {
        let header = Header::decode(head).ok()?;
        let end = (start + HEADER_LEN + header.len as usize).min(bytes.len());
        each(&header, start, end);
        start = end;
    }
    Some(bytes.len() - start)
}
