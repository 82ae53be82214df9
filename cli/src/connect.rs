//! What the client commands share: a connection, and operations that are tried again as O4 and O5 allow.

use crate::args::Common;
use crate::exit::{Exit, Stop};
use crate::output::Output;
use hostwire::Runtime;
use hostwire::client::{CallError, Client, ClientConfig, ConnectError, Failure, Patience, Route, Transport};
use hostwire::core::client::session::{Attempt, Retry, RetryPolicy, Verdict};
use hostwire::core::control::RouteOpen;
use hostwire::core::limits::{ClientLimits, ClientTimeouts};
use hostwire::core::negotiate::OfferList;
use hostwire::core::outcome::{NotSentCode, Outcome, Terminal};
use hostwire::core::time::Instant;
use hostwire::discovery::Place;
use std::time::Duration;

/// Items that may wait while one is printed. At the contract's default a stream that arrives in one piece would be saturated before
/// its first item is looked at (B4); the bytes stay bounded by the retained budget.
const STREAM_ITEMS: usize = 1 << 20;

/// How long the end of a connection may take: its result is known already.
const CLOSE: Duration = Duration::from_secs(1);

/// Finds the host and sets a connection up.
pub(crate) async fn connect<R: Runtime>(runtime: &R, common: &Common) -> Result<Client, ConnectError> {
    connect_offering(runtime, common, OfferList::tcp_only()).await
}

/// The same, to this place.
pub(crate) async fn connect_to<R: Runtime>(
    runtime: &R,
    common: &Common,
    place: Place,
) -> Result<Client, ConnectError> {
    connect_at(runtime, common, place, OfferList::tcp_only()).await
}

/// The same, with these transports to choose from.
pub(crate) async fn connect_offering<R: Runtime>(
    runtime: &R,
    common: &Common,
    offers: OfferList,
) -> Result<Client, ConnectError> {
    connect_at(runtime, common, common.place(), offers).await
}

async fn connect_at<R: Runtime>(
    runtime: &R,
    common: &Common,
    place: Place,
    offers: OfferList,
) -> Result<Client, ConnectError> {
    let config = ClientConfig {
        place,
        role: "hostwire".to_owned(),
        offers,
        limits: ClientLimits { stream_items: STREAM_ITEMS, ..ClientLimits::default() },
        timeouts: ClientTimeouts { close: CLOSE, ..ClientTimeouts::default() },
        // Attempts are made, counted and shown one by one here.
        retry: RetryPolicy::NONE,
        reconnect: false,
        ..ClientConfig::default()
    };
    let client = Client::connect(runtime, &config).await?;
    let over = match client.transport() {
        Transport::Candidate => "unix".to_owned(),
        Transport::Tcp { reason: None } => "tcp".to_owned(),
        Transport::Tcp { reason: Some(reason) } => format!("tcp ({})", reason.as_str()),
    };
    common.output().detail(&format!("connected to host {} over {over}", client.daemon_id()));
    Ok(client)
}

/// An operation that has no answer: why, where, and after how many attempts.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: CallError,
    pub(crate) stage: Option<&'static str>,
    pub(crate) attempts: u32,
}

impl Failed {
    pub(crate) fn print(&self, output: Output) -> Result<Exit, Stop> {
        output.failed(&self.error, self.stage, self.attempts)
    }
}

/// The attempts of one operation, within its one deadline (E1).
pub(crate) struct Tries {
    retry: Retry,
    attempts: u32,
    /// What the last attempt that was to be repeated ended with.
    last: Option<CallError>,
}

impl Tries {
    pub(crate) const fn new(policy: RetryPolicy, deadline: Instant) -> Self {
        Self { retry: Retry::new(policy, deadline), attempts: 0, last: None }
    }

    /// The operation's one deadline.
    pub(crate) const fn deadline(&self) -> Instant {
        self.retry.deadline()
    }

    /// The same, as an attempt's patience.
    pub(crate) const fn patience(&self) -> Patience {
        Patience::Until(self.retry.deadline())
    }

    /// The attempts so far, with the one that has `last`.
    pub(crate) const fn count(&self, last: u32) -> u32 {
        self.attempts.saturating_add(last)
    }

    /// Judges an attempt's error, and counts the attempt if another follows.
    pub(crate) fn judge(&mut self, now: Instant, attempt: Attempt, error: &CallError) -> Verdict {
        let CallError::Failed { failure: Failure::Host(body), evidence } = error else {
            return Verdict::Return; // O4: nothing else is ever tried again
        };
        let verdict = self.retry.judge(now, attempt, &Outcome::Terminal(Terminal::Error(body.clone())));
        match verdict {
            Verdict::Return => {}
            Verdict::Again(_) => {
                self.attempts = self.count(evidence.attempts);
                let failure = Failure::Host(body.clone());
                self.last = Some(CallError::Failed { failure, evidence: *evidence });
            }
            Verdict::Reopen => self.attempts = self.count(evidence.attempts),
        }
        verdict
    }

    /// The operation ends with this attempt's error; or with the one before, if this was never made for want of time: what lasts to the
    /// deadline is what is said (O5).
    pub(crate) fn failed(&mut self, error: CallError, stage: Option<&'static str>) -> Failed {
        let attempts = self.count(error.evidence().attempts);
        let too_late = matches!(error, CallError::NotSent { code: NotSentCode::DeadlineExpired, .. });
        let error = if too_late { self.last.take().unwrap_or(error) } else { error };
        Failed { error, stage, attempts }
    }
}

/// Opens a route, within `deadline`.
pub(crate) async fn open<R: Runtime>(
    runtime: &R,
    client: &Client,
    open: &RouteOpen,
    policy: RetryPolicy,
    deadline: Instant,
) -> Result<Route, Failed> {
    let mut tries = Tries::new(policy, deadline);
    loop {
        let error = match client.open_within(open.clone(), tries.patience()).await {
            Ok(route) => return Ok(route),
            Err(error) => error,
        };
        match tries.judge(runtime.now(), Attempt::RouteOpen, &error) {
            Verdict::Again(at) => runtime.sleep_until(at).await,
            Verdict::Return | Verdict::Reopen => return Err(tries.failed(error, Some("route_open"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostwire::client::Evidence;
    use hostwire::core::auth::DaemonId;
    use hostwire::core::control::ErrorBody;

    #[test]
    fn an_attempt_that_came_too_late_does_not_hide_why_it_was_made() {
        let evidence = |attempts| Evidence { bytes_handed: 0, attempts, daemon_id: DaemonId::new([0; 16]) };
        let busy = || {
            let body = ErrorBody::decode(br#"{"code":"server_busy","message":""}"#).unwrap();
            CallError::Failed { failure: Failure::Host(body), evidence: evidence(1) }
        };
        let late = || CallError::NotSent {
            code: NotSentCode::DeadlineExpired,
            body: Vec::new().into(),
            evidence: evidence(0),
        };
        let deadline = Instant::ZERO + Duration::from_secs(1);
        let mut tries = Tries::new(RetryPolicy::default(), deadline);
        assert!(matches!(tries.judge(Instant::ZERO, Attempt::Routed, &busy()), Verdict::Again(_)));
        let failed = tries.failed(late(), None);
        assert_eq!((failed.error.code(), failed.attempts), ("server_busy", 1));
        let failed = Tries::new(RetryPolicy::default(), deadline).failed(late(), None);
        assert_eq!((failed.error.code(), failed.attempts), ("deadline_expired", 0));
    }
}
