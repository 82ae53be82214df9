//! The host role, against a raw client.

mod accounts;
mod control;
mod ends;
mod floods;
mod harness;
mod input;
mod random;
mod requests;
mod routes;
mod setup;
mod shutdown;
mod timers;
