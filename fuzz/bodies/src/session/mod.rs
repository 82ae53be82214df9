//! Stateful targets: a connection of one role against an arbitrary peer and an arbitrary embedder, and both roles in the simulator.
//! Whatever happens, every operation settles once, the close is said once and last, and nothing is left (CC6, CC9, G6).

mod client;
mod host;
mod pair;
mod wire;

pub use client::client_session;
pub use host::host_session;
pub use pair::pair;

/// Steps of one run at most.
const STEPS: usize = 300;
