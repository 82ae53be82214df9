//! Nothing but the documentation's code blocks: each page is a module, so that `cargo test` compiles what it shows.
#![doc(test(attr(deny(unused_must_use))))]

/// docs/architecture.md
#[doc = include_str!("../architecture.md")]
pub mod architecture {}

/// docs/outcomes.md
#[doc = include_str!("../outcomes.md")]
pub mod outcomes {}

/// docs/embedding.md
#[doc = include_str!("../embedding.md")]
pub mod embedding {}
