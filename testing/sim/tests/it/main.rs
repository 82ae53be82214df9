//! The simulator's suites.

mod cuts;
mod exchange;
mod random;
