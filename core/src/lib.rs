//! The hostwire protocol as a pure state machine: bytes in; frames, events, deadlines and bytes out.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, reason = "test data is made from counters"))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod auth;
pub mod body;
pub mod budget;
pub mod client;
pub mod control;
pub mod counters;
pub mod discovery;
pub mod endpoint;
pub mod fault;
mod hash;
pub mod host;
pub mod json;
pub mod lifecycle;
pub mod limits;
pub mod negotiate;
pub mod outcome;
pub mod receive;
pub mod time;
mod timers;
pub mod transmit;
pub mod wire;
