//! The core's larger tests: one raw peer, everything else through the public API.

#![allow(clippy::cast_possible_truncation, reason = "test data is made from counters")]
#![allow(
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants,
    reason = "a test names what it wants; all else fails"
)]

mod client;
mod host;
mod raw;
