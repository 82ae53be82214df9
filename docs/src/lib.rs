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

/// docs/migrating.md
#[doc = include_str!("../migrating.md")]
pub mod migrating {}

/// docs/operations.md
#[doc = include_str!("../operations.md")]
pub mod operations {}

/// docs/security.md
#[doc = include_str!("../security.md")]
pub mod security {}

/// docs/child-processes.md
#[doc = include_str!("../child-processes.md")]
pub mod child_processes {}
