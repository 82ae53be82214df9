//! What a session is made of: how its streams are kept, and its bounds.

use super::budget::Budget;
use super::outbox::QueueLimits;
use core::time::Duration;

/// How a stream is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// For somebody who takes it: at most so many bytes wait, then the child is not read until some are taken.
    Deliver(usize),
    /// Its last bytes only; it is always read.
    Tail(usize),
}

/// What a session is made of.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Which one of its line it is: no two are alike, and nothing of one is seen by another (PA11).
    pub generation: u64,
    /// How long the teardown may take.
    pub budget: Budget,
    /// The queue towards the child.
    pub queue: QueueLimits,
    /// How long it may take until it is ready; for a child that is ready at once this is nothing.
    pub setup: Option<Duration>,
    /// How long it may be silent once nothing more is owed (PD14).
    pub linger: Duration,
    /// Whether the child is a peer: then its closing an end of the conversation is the end of it.
    pub peer: bool,
    /// Whether its input is a pipe of ours.
    pub stdin: bool,
    /// Descriptor 1.
    pub stdout: Capture,
    /// Descriptor 2.
    pub stderr: Capture,
    /// Whether escapees are killed, since orphans come to us (LX21). Otherwise they are reported.
    pub sweep: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            generation: 0,
            budget: Budget::default(),
            queue: QueueLimits::default(),
            setup: None,
            linger: Duration::from_secs(2),
            peer: false,
            stdin: true,
            stdout: Capture::Deliver(1 << 20),
            stderr: Capture::Tail(1 << 16),
            sweep: false,
        }
    }
}
