//! Which frame may come from whom, addressed to what, with which body: protocol.md §7 as the table that runs.
//!
//! [`judge`] is asked once per header, after the structural checks and before a body is buffered. A frame without a
//! row closes the generation (F1); staleness is not judged here, since that needs state.

use super::header::{FrameType, Header};
use super::identity::Identity;

/// The largest body on the control channel, in bytes (C1, F4).
pub const MAX_CONTROL_BODY: u32 = 65_536;

/// Who sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The client.
    Client,
    /// The host.
    Host,
}

/// The zero pattern of channel / epoch / correlation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdentityShape {
    /// 0/0/0.
    Connection,
    /// 0/0/n.
    Control,
    /// n/n/0.
    Route,
    /// n/n/n.
    Routed,
}

/// What a body may be, as far as the header tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyShape {
    /// No body.
    Empty,
    /// Anything up to 64 MiB.
    Opaque,
    /// Control JSON from a client: its faults are answered, not closed (C1, C3).
    Judged,
    /// Control JSON from a host: binary 0, at most 65,536 bytes (F4).
    ControlJson,
}

/// One row of the table: a frame that is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The frame's type.
    pub kind: FrameType,
    /// Who may send it.
    pub from: Sender,
    /// What it is addressed to.
    pub identity: IdentityShape,
    /// What its body may be.
    pub body: BodyShape,
}

const fn row(kind: FrameType, from: Sender, identity: IdentityShape, body: BodyShape) -> Row {
    Row { kind, from, identity, body }
}

/// Every legal frame (§7). `Hello` and `HelloAck` have no row: nobody sends them (V17).
pub const LEGALITY: [Row; 16] = [
    row(FrameType::Request, Sender::Client, IdentityShape::Control, BodyShape::Judged),
    row(FrameType::Request, Sender::Client, IdentityShape::Routed, BodyShape::Opaque),
    row(FrameType::Response, Sender::Host, IdentityShape::Control, BodyShape::ControlJson), // F4
    row(FrameType::Response, Sender::Host, IdentityShape::Routed, BodyShape::Opaque),
    row(FrameType::Push, Sender::Host, IdentityShape::Route, BodyShape::Opaque),
    row(FrameType::StreamData, Sender::Host, IdentityShape::Routed, BodyShape::Opaque), // F4: never on control
    row(FrameType::StreamEnd, Sender::Host, IdentityShape::Routed, BodyShape::Empty),   // F3
    row(FrameType::Error, Sender::Host, IdentityShape::Control, BodyShape::ControlJson), // F4
    row(FrameType::Error, Sender::Host, IdentityShape::Routed, BodyShape::Opaque),
    row(FrameType::Cancel, Sender::Client, IdentityShape::Routed, BodyShape::Empty), // F4: never on control
    row(FrameType::Ping, Sender::Host, IdentityShape::Control, BodyShape::Empty),
    row(FrameType::Pong, Sender::Client, IdentityShape::Control, BodyShape::Empty),
    row(FrameType::Goodbye, Sender::Client, IdentityShape::Route, BodyShape::Empty),
    row(FrameType::Goodbye, Sender::Host, IdentityShape::Route, BodyShape::Empty),
    row(FrameType::Goodbye, Sender::Client, IdentityShape::Connection, BodyShape::Empty),
    row(FrameType::Goodbye, Sender::Host, IdentityShape::Connection, BodyShape::Empty),
];

/// Why a structurally valid frame is illegal (F1). Each closes the generation without an `Error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Illegal {
    /// This side never sends this type.
    #[error("a frame type that this peer never sends")]
    Direction,
    /// The identity has another shape.
    #[error("a frame whose identity has the wrong shape")]
    Identity,
    /// The body has another shape.
    #[error("a frame whose body has the wrong shape")]
    Body,
}

impl Identity {
    /// The zero pattern.
    #[must_use]
    pub const fn shape(self) -> IdentityShape {
        match self {
            Self::Connection => IdentityShape::Connection,
            Self::Control(_) => IdentityShape::Control,
            Self::Route(_) => IdentityShape::Route,
            Self::Routed(..) => IdentityShape::Routed,
        }
    }
}

/// Judges a header by the table.
///
/// # Errors
/// [`Illegal`]: direction before identity before body.
pub fn judge(from: Sender, header: &Header) -> Result<(), Illegal> {
    let mut worst = Illegal::Direction; // F1
    for row in &LEGALITY {
        if row.kind != header.kind || row.from != from {
            continue;
        }
        if row.identity != header.identity.shape() {
            worst = Illegal::Identity; // F1
            continue;
        }
        let fits = match row.body {
            BodyShape::Empty => header.len == 0,
            BodyShape::Opaque | BodyShape::Judged => true,
            BodyShape::ControlJson => !header.flags.binary && header.len <= MAX_CONTROL_BODY,
        };
        return if fits { Ok(()) } else { Err(Illegal::Body) };
    }
    Err(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Correlation, Flags, RouteHandle};

    /// B002: the whole space of type × sender × identity × body, against the prose of §7.
    #[test]
    fn f1_every_frame_outside_the_table_is_illegal() {
        let corr = Correlation::new(5).unwrap();
        let route = RouteHandle::new(3, 9).unwrap();
        let identities = [
            Identity::Connection,
            Identity::Control(corr),
            Identity::Route(route),
            Identity::Routed(route, corr),
        ];
        let mut legal = 0;
        for kind in FrameType::ALL {
            for from in [Sender::Client, Sender::Host] {
                for identity in identities {
                    for binary in [false, true] {
                        for len in [0, 1, MAX_CONTROL_BODY, MAX_CONTROL_BODY + 1] {
                            let header =
                                Header { len, kind, flags: Flags { binary, ..Flags::default() }, identity };
                            let verdict = judge(from, &header).is_ok();
                            assert_eq!(verdict, prose(from, &header), "{from:?} {header:?}");
                            legal += usize::from(verdict);
                        }
                    }
                }
            }
        }
        assert_eq!(legal, 70, "counted by hand");
    }

    fn prose(from: Sender, header: &Header) -> bool {
        use FrameType as T;
        use IdentityShape as I;
        let shape = header.identity.shape();
        let small_text = !header.flags.binary && header.len <= 65_536;
        match from {
            Sender::Client => match header.kind {
                T::Request => matches!(shape, I::Control | I::Routed),
                T::Cancel => shape == I::Routed && header.len == 0, // F4
                T::Pong => shape == I::Control && header.len == 0,
                T::Goodbye => matches!(shape, I::Route | I::Connection) && header.len == 0,
                T::Response | T::Push | T::StreamData | T::StreamEnd | T::Error | T::Ping => false,
                T::Hello | T::HelloAck => false, // V17
            },
            Sender::Host => match header.kind {
                T::Response | T::Error => shape == I::Routed || (shape == I::Control && small_text), // F4
                T::Push => shape == I::Route,
                T::StreamData => shape == I::Routed,
                T::StreamEnd => shape == I::Routed && header.len == 0, // F3
                T::Ping => shape == I::Control && header.len == 0,
                T::Goodbye => matches!(shape, I::Route | I::Connection) && header.len == 0,
                T::Request | T::Cancel | T::Pong => false, // V42
                T::Hello | T::HelloAck => false,
            },
        }
    }

    #[test]
    fn an_illegal_frame_is_named_by_direction_then_identity_then_body() {
        let header = |kind, identity, len| Header { len, kind, flags: Flags::default(), identity };
        let corr = Correlation::FIRST;
        assert_eq!(
            judge(Sender::Host, &header(FrameType::Request, Identity::Control(corr), 0)),
            Err(Illegal::Direction)
        );
        assert_eq!(
            judge(Sender::Client, &header(FrameType::Cancel, Identity::Control(corr), 0)),
            Err(Illegal::Identity)
        );
        let routed = Identity::Routed(RouteHandle::new(1, 1).unwrap(), corr);
        assert_eq!(judge(Sender::Host, &header(FrameType::StreamEnd, routed, 1)), Err(Illegal::Body));
    }
}
