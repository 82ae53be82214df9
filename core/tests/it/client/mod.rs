//! The client's side of a generation against a raw host.

mod accounts;
mod candidate;
mod harness;
mod lost;
mod lying_host;
mod outcomes;
mod requests;
mod routes;
mod setup;
mod streams;
