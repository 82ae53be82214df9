//! `stop`: `host.shutdown`, and then the wait for the lock. Kills nothing and repairs nothing (P9).

use super::probe::locate;
use crate::args::Common;
use crate::connect::connect_offering;
use crate::exit::{Exit, Stop as Stopped};
use crate::runtime::{Job, by, pause};
use clap::Args;
use hostwire::Runtime;
use hostwire::client::Patience;
use hostwire::core::client::session::RetryPolicy;
use hostwire::core::lifecycle::Lock;
use hostwire::core::negotiate::OfferList;
use hostwire::discovery::{Location, Probe, probe, unix_now_ms};
use serde::Serialize;
use std::time::Duration;

/// Between two looks at the lock. A look holds it shared for a moment, which a starting host forgives (P1).
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// After a request that failed: the host may be starting, or busy.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Arguments of `stop`.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// How long to wait until the host has ended
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    timeout: u64,
}

impl Stop {
    pub(crate) fn prepare(self, common: Common) -> Result<Prepared, Stopped> {
        Ok(Prepared { location: locate(&common)?, timeout: Duration::from_millis(self.timeout), common })
    }
}

/// A stop that can begin.
pub(crate) struct Prepared {
    common: Common,
    location: Location,
    timeout: Duration,
}

#[derive(Serialize)]
struct Line {
    stopped: bool,
    was_running: bool,
    ms: u64,
}

impl Job for Prepared {
    type Output = Result<Exit, Stopped>;

    async fn run<R: Runtime>(self, runtime: R) -> Self::Output {
        let (output, began) = (self.common.output(), runtime.now());
        let deadline = began + self.timeout;
        let (mut was_running, mut committed, mut trouble) = (false, false, None);
        let last = loop {
            let found = self.look(&runtime).await?;
            if found.lock == Lock::Free {
                break found;
            }
            was_running = true;
            // Behind an insecure lock nothing can be asked, and nothing will change by itself.
            if found.lock == Lock::Insecure || runtime.now() >= deadline {
                break found;
            }
            if !committed {
                match by(&runtime, deadline, self.ask(&runtime)).await {
                    Some(Ok(())) => committed = true,
                    Some(Err(why)) => trouble = Some(why),
                    None => {}
                }
            }
            pause(&runtime, if committed { LOOK_EVERY } else { ASK_EVERY }).await;
        };
        let stopped = last.lock == Lock::Free;
        let ms = u64::try_from(runtime.now().saturating_since(began).as_millis()).unwrap_or(u64::MAX);
        if output.json {
            output.object(&Line { stopped, was_running, ms })?;
        }
        match (stopped, was_running) {
            (true, false) => output.info("no host is running here"),
            (true, true) => output.info(&format!("the host has ended, after {ms} ms")),
            (false, _) => {
                let why = trouble.filter(|_| !committed).map_or_else(String::new, |why| format!(" ({why})"));
                crate::output::complain(&format!("the host has not ended: {}{why}", last.state.as_str()));
            }
        }
        Ok(if stopped { Exit::SUCCESS } else { Exit::FAILED })
    }
}

impl Prepared {
    async fn look<R: Runtime>(&self, runtime: &R) -> Result<Probe, Stopped> {
        let location = self.location.clone();
        let found = runtime.blocking(move || probe(&location, unix_now_ms)).await;
        found
            .map_err(|error| Stopped::Bug(error.to_string()))?
            .map_err(|error| Stopped::Failed(error.to_string()))
    }

    /// Asks once. What became of it shows in the lock: nothing here depends on the answer but whether to ask again.
    async fn ask<R: Runtime>(&self, runtime: &R) -> Result<(), String> {
        let client = connect_offering(runtime, &self.common, OfferList::tcp_only(), RetryPolicy::NONE)
            .await
            .map_err(|error| crate::output::whole(&error))?;
        let asked = client.shutdown_host(Patience::Default).await;
        client.close().await;
        asked.map(drop).map_err(|error| error.to_string())
    }
}
