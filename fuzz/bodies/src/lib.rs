//! The bodies of the fuzz targets: plain functions from bytes, so that stable tests replay the seeds through the same code.
//!
//! Each compares the core with something that is not the core: a second reading of the contract, another parser, the same bytes split
//! otherwise, or the simulator's model. A panic is a finding.

mod auth;
mod choices;
mod control;
mod discovery;
mod header;
mod incremental;
mod json;
mod negotiate;
mod session;

pub use auth::auth;
pub use control::control;
pub use discovery::discovery;
pub use header::header;
pub use incremental::incremental_input;
pub use negotiate::negotiate;
pub use session::{client_session, host_session, pair};

/// A target: its name and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 9] = [
    ("header", header),
    ("incremental_input", incremental_input),
    ("auth", auth),
    ("control", control),
    ("negotiate", negotiate),
    ("discovery", discovery),
    ("client_session", client_session),
    ("host_session", host_session),
    ("pair", pair),
];
