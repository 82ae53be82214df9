//! Authenticated, multiplexed requests and streams between a local host process and its clients, on any async runtime.

pub mod discovery;
