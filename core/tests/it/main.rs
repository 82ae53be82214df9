//! The core's larger tests: one raw peer, everything else through the public API.

#![allow(clippy::cast_possible_truncation, reason = "test data is made from counters")]

mod client;
mod raw;
