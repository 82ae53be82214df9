//! Input: frames put together from whatever pieces arrive, with bodies that grow by what arrived (W12).
//!
//! Owns the frame in progress and its buffer. The role judges each header and says what becomes of the body (its plan) before a byte of
//! it is buffered (W1); what cannot be charged is drained, never waited for (B4, B8).

mod assembler;

pub(crate) use assembler::{Assembler, Payload, Plan};

/// A body of at least this many bytes can be read straight into its final buffer.
pub const LEASE_THRESHOLD: u32 = 65_536;
