//! Tests over files: what comes with the crate, and what the loader refuses, and the raw peer.

mod divergence;
mod loader;
mod peer;
