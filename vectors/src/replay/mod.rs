//! The replay of vectors against `hostwire-core`, with no socket and no clock but the vector's.
//!
//! Owns the comparison: whatever differs is a [`Divergence`] that names file, line, what was expected and what came.

mod cause;
mod client;
mod exchange;
mod host;
pub(crate) mod matching;
mod single;
mod world;

use std::fmt;
use std::sync::Arc;

use hostwire_core::wire::RouteHandle;

use crate::format::{Body, Case, Exchange, Report, Step, Subject, Vector};
pub use cause::close_cause;
use exchange::{Manner, Role};
pub use matching::compare_report;

/// Up to so many received bytes a case is also played byte by byte.
const SMALL: usize = 256 << 10;

/// The first point where the program under test does not do what a vector says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Divergence {
    /// The file of the step.
    pub file: Arc<str>,
    /// Its line there.
    pub line: u32,
    /// How the input was cut when it happened, where that matters.
    pub manner: &'static str,
    /// What differs, field by field.
    pub differences: Vec<Difference>,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field or what else is compared.
    pub what: String,
    /// What the vector says.
    pub expected: String,
    /// What came.
    pub got: String,
}

impl Difference {
    /// Something that differs.
    pub fn new(what: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self { what: what.into(), expected: expected.into(), got: got.into() }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if !self.manner.is_empty() {
            write!(f, " ({})", self.manner)?;
        }
        for Difference { what, expected, got } in &self.differences {
            write!(f, "\n  {what:<12} expected {expected}\n  {:<12} got      {got}", "")?;
        }
        Ok(())
    }
}

/// Plays one case of a vector against the core.
///
/// An exchange is played several times, each on fresh connections: with every step's bytes in one piece, with all bytes that
/// may arrive together in one piece, and byte by byte both ways.
///
/// # Errors
///
/// The first divergence.
pub fn replay_core(vector: &Vector, case: &Case) -> Result<(), Divergence> {
    let differences = match &case.body {
        Body::Header { bytes, result } => single::header(bytes, result),
        Body::Document { schema, bytes, accepted } => single::document(*schema, bytes, *accepted),
        Body::Proof { values } => single::proofs(values),
        Body::Exchange(steps) => {
            let Some(exchange) = &vector.exchange else { return Ok(()) };
            let steps: Vec<&Step> = exchange.before.iter().chain(steps).collect();
            return exchange_case(vector, case, exchange, &steps);
        }
    };
    if differences.is_empty() {
        return Ok(());
    }
    let file = Arc::from(vector.path.display().to_string());
    Err(Divergence { file, line: case.line, manner: "", differences })
}

fn exchange_case(
    vector: &Vector,
    case: &Case,
    exchange: &Exchange,
    steps: &[&Step],
) -> Result<(), Divergence> {
    let size = exchange::received(steps);
    for manner in Manner::ALL {
        if match manner {
            Manner::Steps | Manner::Together => false,
            Manner::Bytewise => size > SMALL,
            Manner::Leased => size <= SMALL,
        } {
            continue;
        }
        let made: Result<Box<dyn Role>, String> = match exchange.subject {
            Subject::Client => client::Client::new(exchange).map(|client| Box::new(client) as _),
            Subject::Host => host::Host::new(exchange).map(|host| Box::new(host) as _),
        };
        let mut role = made.map_err(|why| Divergence {
            file: Arc::from(vector.path.display().to_string()),
            line: case.line,
            manner: "",
            differences: vec![Difference::new("subject", "made", why)],
        })?;
        exchange::play(role.as_mut(), steps, manner, exchange.recording)?;
    }
    Ok(())
}

/// The route that a command names by its numbers.
fn route(command: &Report) -> Result<RouteHandle, String> {
    let number = |name| command.argument(name).and_then(|value| value.parse::<u32>().ok());
    number("channel")
        .and_then(|channel| u16::try_from(channel).ok())
        .zip(number("epoch"))
        .and_then(|(channel, epoch)| RouteHandle::new(channel, epoch))
        .ok_or_else(|| "the command needs `channel` and `epoch`".into())
}
