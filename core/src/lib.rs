//! The hostwire protocol as a pure state machine: bytes in; frames, events, deadlines and bytes out.

#![no_std]

extern crate alloc;

pub mod auth;
pub mod discovery;
pub mod json;
pub mod lifecycle;
