//! One direction of a recorded connection, cut into frames.
//!
//! Owns the bytes of at most one frame, and of its body no more than is to be kept. Of the handshake it keeps nothing, not even
//! for a moment longer than it takes to count its bytes.

use hostwire_core::auth::MAX_MESSAGE_BYTES;
use hostwire_core::wire::{FrameType, HEADER_LEN, Header, Identity, PREFIX_LEN, VERSION};

/// Whole control bodies are kept: they say which operation it is (C1).
const CONTROL: usize = hostwire_core::control::MAX_BODY_BYTES;

/// A frame, or as much of one as there was.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) raw: [u8; HEADER_LEN],
    pub(super) header: Header,
    /// The first bytes of the body.
    pub(super) kept: Vec<u8>,
    /// How many bytes of it have come.
    pub(super) seen: usize,
}

impl Frame {
    fn whole(&self) -> bool {
        self.seen == self.len()
    }

    /// The declared length.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.header.len).unwrap_or(usize::MAX)
    }
}

/// What a direction says next.
#[derive(Debug)]
pub(super) enum Cut {
    /// A message of the handshake has passed.
    Message,
    /// A frame.
    Frame(Frame),
    /// These bytes are no header: nothing behind them can be understood.
    Garbage(Vec<u8>),
}

#[derive(Debug)]
enum State {
    /// The prefix of a handshake message, so far.
    Prefix(Vec<u8>),
    /// So many bytes of a message are to come.
    Message(usize),
    /// A header, so far.
    Header(Vec<u8>),
    Body(Box<Frame>),
    /// Passed on unread.
    Opaque,
}

/// The cutter of one direction.
#[derive(Debug)]
pub(super) struct Half {
    state: State,
    /// Handshake messages to come.
    messages: usize,
    max_body: usize,
}

impl Half {
    pub(super) fn new(messages: usize, max_body: usize) -> Self {
        Self { state: State::Prefix(Vec::new()), messages, max_body }
    }

    /// Whether the handshake is over on this side.
    pub(super) fn authenticated(&self) -> bool {
        self.messages == 0
    }

    /// Takes bytes from the front of `input`, up to the end of what it gives.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Option<Cut> {
        while !input.is_empty() {
            if let Some(cut) = self.step(input) {
                return Some(cut);
            }
        }
        // A body without bytes is whole at once.
        match &self.state {
            State::Body(frame) if frame.whole() => self.step(input),
            State::Prefix(_) | State::Message(_) | State::Header(_) | State::Body(_) | State::Opaque => None,
        }
    }

    fn step(&mut self, input: &mut &[u8]) -> Option<Cut> {
        match &mut self.state {
            State::Prefix(prefix) => {
                prefix.extend(take(input, 4 - prefix.len()));
                let length = prefix.first_chunk::<4>().map(|wide| u32::from_le_bytes(*wide))?;
                match usize::try_from(length) {
                    Ok(length) if length <= MAX_MESSAGE_BYTES => self.state = State::Message(length),
                    // A1: no such message is read by anyone.
                    Ok(_) | Err(_) => self.state = State::Opaque,
                }
                self.message_end()
            }
            State::Message(left) => {
                *left -= take(input, *left).len();
                self.message_end()
            }
            State::Header(raw) => {
                let wanted = if raw.len() < PREFIX_LEN { PREFIX_LEN } else { HEADER_LEN };
                raw.extend(take(input, wanted - raw.len()));
                let version = raw.get(PREFIX_LEN - 1).copied();
                let Some(whole) = raw.first_chunk::<HEADER_LEN>() else {
                    // W1: the version is judged first, and the rest may never come.
                    return match version {
                        Some(other) if other != VERSION => self.garbage(),
                        Some(_) | None => None,
                    };
                };
                match Header::decode(whole) {
                    Ok(header) => {
                        let frame = Frame { raw: *whole, header, kept: Vec::new(), seen: 0 };
                        self.state = State::Body(Box::new(frame));
                        if header.len == 0 { self.step(input) } else { None }
                    }
                    Err(_) => self.garbage(),
                }
            }
            State::Body(frame) => {
                let short = match frame.header.identity {
                    Identity::Control(_) | Identity::Connection => true,
                    Identity::Route(_) | Identity::Routed(..) => frame.header.kind == FrameType::Error,
                };
                let most = if short { CONTROL } else { self.max_body };
                let piece = take(input, frame.len() - frame.seen);
                frame.seen += piece.len();
                let room = most.saturating_sub(frame.kept.len());
                frame.kept.extend(piece.iter().take(room));
                if !frame.whole() {
                    return None;
                }
                match std::mem::replace(&mut self.state, State::Header(Vec::new())) {
                    State::Body(frame) => Some(Cut::Frame(*frame)),
                    State::Prefix(_) | State::Message(_) | State::Header(_) | State::Opaque => None,
                }
            }
            State::Opaque => {
                *input = &[];
                None
            }
        }
    }

    fn message_end(&mut self) -> Option<Cut> {
        if !matches!(self.state, State::Message(0)) {
            return None;
        }
        self.messages -= 1;
        self.state = if self.messages == 0 { State::Header(Vec::new()) } else { State::Prefix(Vec::new()) };
        Some(Cut::Message)
    }

    fn garbage(&mut self) -> Option<Cut> {
        match std::mem::replace(&mut self.state, State::Opaque) {
            State::Header(raw) => Some(Cut::Garbage(raw)),
            State::Prefix(_) | State::Message(_) | State::Body(_) | State::Opaque => None,
        }
    }

    /// The correlation of the frame whose body is coming in.
    pub(super) fn current(&self) -> Option<u64> {
        match &self.state {
            State::Body(frame) => Some(frame.header.identity.raw().2),
            State::Prefix(_) | State::Message(_) | State::Header(_) | State::Opaque => None,
        }
    }

    /// What there is of a frame that never became whole: the bytes to show, and how many more there were.
    pub(super) fn unfinished(&mut self) -> Option<(Vec<u8>, usize)> {
        match std::mem::replace(&mut self.state, State::Opaque) {
            State::Header(raw) if !raw.is_empty() => Some((raw, 0)),
            State::Body(frame) => Some((frame.raw.to_vec(), frame.seen)),
            State::Header(_) | State::Prefix(_) | State::Message(_) | State::Opaque => None,
        }
    }
}

fn take<'b>(input: &mut &'b [u8], most: usize) -> &'b [u8] {
    let (piece, rest) = input.split_at_checked(most).unwrap_or((input, &[]));
    *input = rest;
    piece
}
