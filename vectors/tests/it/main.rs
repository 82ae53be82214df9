//! Tests over files: what comes with the crate, and what the loader refuses.

mod loader;
