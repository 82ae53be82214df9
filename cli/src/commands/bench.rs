//! `bench`: how many requests a running host answers in a second, and how long each takes.
//!
//! So many connections, each with so many requests under way at any time. What is measured is the library's own client, from the call to
//! the answer, with what tasks and the machine add.

use crate::args::{Common, Transport};
use crate::connect::{connect_offering, open};
use crate::exit::{Exit, Stop};
use crate::output::Progress;
use crate::runtime::Job;
use bytes::Bytes;
use clap::Args;
use hostwire::Runtime;
use hostwire::client::{CallError, Client, Request, Route, Transport as Chosen};
use hostwire::core::client::session::RetryPolicy;
use hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire::core::negotiate::OfferList;
use hostwire::core::wire::MAX_BODY;
use hostwire_lab::LAB;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Requests, over all connections
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    requests: u64,
    /// Requests under way on each connection
    #[arg(long, value_name = "D", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    depth: u64,
    /// Bytes of each body, and of each item
    #[arg(long, value_name = "S", default_value_t = 64, value_parser = clap::value_parser!(u64).range(0..=u64::from(MAX_BODY)))]
    size: u64,
    /// Connections
    #[arg(long, value_name = "C", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    connections: u64,
    /// Transports to offer, the most wanted first
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp")]
    transport: Vec<Transport>,
    /// Ask for streams of so many items instead
    #[arg(long, value_name = "N")]
    stream_items: Option<u64>,
}

impl Bench {
    pub(crate) fn prepare(self, common: Common) -> Result<Prepared, Stop> {
        Transport::check(&self.transport)?;
        let offers = Transport::offers(&self.transport)?;
        let target = Target::new("tool_provider", LAB).map_err(Stop::usage)?;
        let open = RouteOpen::new(target, Identity::new("/", "cli", "bench").map_err(Stop::usage)?);
        let size = self.size;
        let body = match self.stream_items {
            // Not JSON, and so an echo of the same bytes.
            None => vec![b'x'; usize::try_from(size).map_err(Stop::usage)?],
            Some(items) => {
                format!(r#"{{"do":"stream","items":{items},"size":{size},"every_ms":0}}"#).into_bytes()
            }
        };
        let work = Work { body: body.into(), items: self.stream_items };
        Ok(Prepared { common, offers, open, work, bench: self })
    }
}

/// A measurement that can begin.
pub(crate) struct Prepared {
    common: Common,
    offers: OfferList,
    open: RouteOpen,
    work: Work,
    bench: Bench,
}

/// One request, many times.
#[derive(Clone)]
struct Work {
    body: Bytes,
    items: Option<u64>,
}

#[derive(Serialize)]
struct Figures {
    requests: u64,
    failed: u64,
    depth: u64,
    size: u64,
    connections: u64,
    /// What the connections went over: `tcp` or `unix`.
    transport: &'static str,
    stream_items: Option<u64>,
    seconds: f64,
    /// Per second.
    rate: f64,
    /// Microseconds, as all that follow.
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl Job for Prepared {
    type Output = Result<Exit, Stop>;

    async fn run<R: Runtime>(self, runtime: R) -> Self::Output {
        let output = self.common.output();
        let mut routes: Vec<(Client, Route)> = Vec::new();
        // What is measured is sent once.
        let retry = RetryPolicy { route_open: true, ..RetryPolicy::NONE };
        for _ in 0..self.bench.connections {
            let client = match connect_offering(&runtime, &self.common, self.offers.clone(), retry).await {
                Ok(client) => client,
                Err(error) => return output.not_connected(&error),
            };
            match open(&client, &self.open, Duration::from_secs(30)).await {
                Ok(route) => routes.push((client, route)),
                Err(failed) => return failed.print(output),
            }
        }
        let left = Arc::new(AtomicU64::new(self.bench.requests));
        let (sender, receiver) = channel();
        let progress = Arc::new(Progress::new(output, "bench", self.bench.requests));
        let began = runtime.now();
        for (_, route) in &routes {
            for _ in 0..self.bench.depth {
                let lane = lane(
                    runtime.clone(),
                    route.clone(),
                    self.work.clone(),
                    Arc::clone(&left),
                    Arc::clone(&progress),
                    sender.clone(),
                );
                runtime.spawn(lane);
            }
        }
        drop(sender);
        let lanes = runtime.blocking(move || receiver.iter().collect::<Vec<Lane>>()).await;
        let seconds = runtime.now().saturating_since(began).as_secs_f64();
        progress.end();
        let lanes = lanes.map_err(|error| Stop::Bug(error.to_string()))?;
        let failed = lanes.iter().map(|lane| lane.failed).sum();
        let error = lanes.iter().find_map(|lane| lane.error.clone());
        let mut times: Vec<u64> = lanes.into_iter().flat_map(|lane| lane.micros).collect();
        times.sort_unstable();
        let Bench { depth, size, connections, stream_items, .. } = self.bench;
        let requests = times.len() as u64;
        let over_unix = routes.iter().all(|(client, _)| matches!(client.transport(), Chosen::Candidate));
        let figures = Figures {
            requests,
            failed,
            depth,
            size,
            connections,
            transport: if over_unix { "unix" } else { "tcp" },
            stream_items,
            seconds,
            rate: times.len() as f64 / seconds,
            p50: quantile(&times, 50),
            p90: quantile(&times, 90),
            p99: quantile(&times, 99),
            max: quantile(&times, 100),
        };
        if output.json {
            output.object(&figures)?;
        } else {
            let Figures { rate, p50, p90, p99, max, .. } = figures;
            output.line(&format!("{requests} requests in {seconds:.3} s: {rate:.0} a second"))?;
            output.line(&format!("p50 {p50} µs   p90 {p90} µs   p99 {p99} µs   max {max} µs"))?;
        }
        for (client, route) in routes {
            drop(route);
            client.close().await;
        }
        match error {
            None => Ok(Exit::SUCCESS),
            Some(error) => Err(Stop::Failed(format!("{failed} requests failed, one of them so: {error}"))),
        }
    }
}

/// What one lane of requests has measured.
#[derive(Default)]
struct Lane {
    micros: Vec<u64>,
    failed: u64,
    error: Option<String>,
}

/// Requests one after the other, as long as there are any.
async fn lane<R: Runtime>(
    runtime: R,
    route: Route,
    work: Work,
    left: Arc<AtomicU64>,
    progress: Arc<Progress>,
    result: Sender<Lane>,
) {
    let mut lane = Lane::default();
    let take = |left: u64| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let began = runtime.now();
        match work.once(&route).await {
            Ok(()) => {
                let micros = runtime.now().saturating_since(began).as_micros();
                lane.micros.push(u64::try_from(micros).unwrap_or(u64::MAX));
            }
            Err(error) => {
                lane.failed += 1;
                lane.error.get_or_insert(error.to_string());
            }
        }
        progress.step();
    }
    let _ = result.send(lane); // nobody listens any more only when the measurement was given up
}

impl Work {
    async fn once(&self, route: &Route) -> Result<(), CallError> {
        if self.items.is_some() {
            let mut stream = route.stream(Request::new(self.body.clone()));
            while let Some(item) = stream.next().await {
                drop(item?);
            }
        } else {
            drop(route.request(Request::new(self.body.clone()).binary()).await?);
        }
        Ok(())
    }
}

/// The smallest time that so many of a hundred do not exceed; zero of nothing.
fn quantile(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let times: Vec<u64> = (1..=200).collect();
        assert_eq!([50, 90, 99, 100].map(|percent| quantile(&times, percent)), [100, 180, 198, 200]);
        assert_eq!([50, 100].map(|percent| quantile(&[7], percent)), [7, 7]);
        assert_eq!(quantile(&[], 50), 0);
    }
}
