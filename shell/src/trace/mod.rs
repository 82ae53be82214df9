//! What the program's `tracing` subscriber learns, with the feature `tracing`; without it nothing is here and nothing is paid.
//!
//! Owns every span and event of this crate. Invariants: a field is a number, a word of a closed list, or a component's own module ID,
//! so that no key, nonce, proof, token, body, identity value or text of a peer can get into one (Z1, N15); every event passes a limiter of
//! its kind, one per host or client (Z3), while counters count all the same (Z2). No lock of a connection is held while a subscriber runs.

#[cfg(any(feature = "tracing", test))]
mod limit;
#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{Notes, Span};
#[cfg(feature = "tracing")]
pub(crate) use on::{Notes, Span};
