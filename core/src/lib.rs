//! The hostwire protocol as a pure state machine: bytes in; frames, events, deadlines and bytes out.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod auth;
pub mod body;
pub mod budget;
pub mod control;
pub mod discovery;
pub mod endpoint;
pub mod fault;
pub mod json;
pub mod lifecycle;
pub mod limits;
pub mod negotiate;
pub mod receive;
pub mod time;
mod timers;
pub mod transmit;
pub mod wire;
