//! Tests over files: what comes with the crate, and what the loader refuses, and the raw peer.

mod loader;
mod peer;
