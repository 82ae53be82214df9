//! Tests over files: what comes with the crate, what the loader refuses, what the replay notices, and the raw peer.

mod divergence;
mod loader;
mod peer;
mod record;
mod socket;
