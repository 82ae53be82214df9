//! Two cores in memory: a client and a host, joined by byte pipes with knobs, under a virtual clock.
//!
//! There is no socket, no thread and no wall clock here, so that every race is a test case. The pieces:
//!
//! | file | owns |
//! | --- | --- |
//! | `rng` | the seed and what is drawn from it |
//! | `pipe` | one direction: how much is accepted, delivered, cut and delayed |
//! | `application` | a host's embedder: registry, binds, handlers named by their request's first byte |
//! | `world` | both connections, both pipes, the clock; one step at a time, with the contract's rules checked after each |
//! | `model` | the reference: only cumulative byte offsets, from which each outcome follows by arithmetic |

mod application;
mod model;
mod pipe;
mod rng;
mod secrets;
mod world;

pub use application::Application;
pub use model::Model;
pub use pipe::{Cut, Knobs, Pipe, WriteCut};
pub use rng::Rng;
pub use secrets::{client_config, host_shared, route_open};
pub use world::{Settled, World};
