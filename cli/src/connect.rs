//! What the client commands share: a connection, and a route.

use crate::args::Common;
use crate::exit::{Exit, Stop};
use crate::output::Output;
use hostwire::Runtime;
use hostwire::client::{CallError, Client, ClientConfig, ConnectError, Patience, Route, Transport};
use hostwire::core::client::session::RetryPolicy;
use hostwire::core::control::RouteOpen;
use hostwire::core::limits::{ClientLimits, ClientTimeouts};
use hostwire::core::negotiate::OfferList;
use hostwire::discovery::Place;
use std::time::Duration;

/// Items that may wait while one is printed. At the contract's default a stream that arrives in one piece would be saturated before
/// its first item is looked at (B4); the bytes stay bounded by the retained budget.
const STREAM_ITEMS: usize = 1 << 20;

/// How long the end of a connection may take: its result is known already.
const CLOSE: Duration = Duration::from_secs(1);

/// Finds the host and sets a connection up.
pub(crate) async fn connect<R: Runtime>(runtime: &R, common: &Common) -> Result<Client, ConnectError> {
    connect_to(runtime, common, common.place()).await
}

/// The same, to this place.
pub(crate) async fn connect_to<R: Runtime>(
    runtime: &R,
    common: &Common,
    place: Place,
) -> Result<Client, ConnectError> {
    connect_at(runtime, common, place, OfferList::tcp_only(), RetryPolicy::default()).await
}

/// The same, with these transports to choose from, and with what is tried again.
pub(crate) async fn connect_offering<R: Runtime>(
    runtime: &R,
    common: &Common,
    offers: OfferList,
    retry: RetryPolicy,
) -> Result<Client, ConnectError> {
    connect_at(runtime, common, common.place(), offers, retry).await
}

async fn connect_at<R: Runtime>(
    runtime: &R,
    common: &Common,
    place: Place,
    offers: OfferList,
    retry: RetryPolicy,
) -> Result<Client, ConnectError> {
    let config = ClientConfig {
        place,
        role: "hostwire".to_owned(),
        offers,
        limits: ClientLimits { stream_items: STREAM_ITEMS, ..ClientLimits::default() },
        timeouts: ClientTimeouts { close: CLOSE, ..ClientTimeouts::default() },
        retry,
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

/// An operation that has no answer: why, and where.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: CallError,
    pub(crate) stage: Option<&'static str>,
}

impl Failed {
    pub(crate) fn print(&self, output: Output) -> Result<Exit, Stop> {
        output.failed(&self.error, self.stage)
    }
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        Self { error, stage: None }
    }
}

/// Opens a route, within `time`.
pub(crate) async fn open(client: &Client, open: &RouteOpen, time: Duration) -> Result<Route, Failed> {
    let opened = client.open_within(open.clone(), Patience::For(time)).await;
    opened.map_err(|error| Failed { error, stage: Some("route_open") })
}
