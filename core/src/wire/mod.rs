//! The envelope: headers, their decoding and encoding, and which frame may stand where.
//!
//! Owns the 21 bytes (protocol.md §6) and the legality table (§7). Knows nothing of state: what a well-shaped
//! frame does to a connection is decided by the roles.

mod flags;
mod header;
mod identity;
mod legality;

pub use flags::{Admission, Flags, FlagsError, Priority};
pub use header::{FrameType, HEADER_LEN, Header, HeaderDecoder, HeaderError, MAX_BODY, PREFIX_LEN, VERSION};
pub use identity::{Channel, Correlation, Epoch, Identity, RouteHandle};
pub use legality::{BodyShape, IdentityShape, Illegal, LEGALITY, MAX_CONTROL_BODY, Row, Sender, judge};
