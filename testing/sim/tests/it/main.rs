//! The simulator's suites.

mod cuts;
mod exchange;
mod exhaustive;
mod random;
mod turns;
