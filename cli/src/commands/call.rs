//! `call`: one request, with the truth about it.

use crate::args::{Common, Transport};
use crate::connect::{Failed, connect_offering, open};
use crate::exit::{Exit, Stop};
use crate::output::{Output, route_name};
use crate::runtime::{Job, acting_on};
use bytes::Bytes;
use clap::Args;
use hostwire::Runtime;
use hostwire::client::{CallError, Canceller, Client, Patience, Request, ResponseStream, Route, StreamEnd};
use hostwire::core::client::session::RetryPolicy;
use hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire::core::negotiate::OfferList;
use hostwire::core::wire::MAX_BODY;
use std::fs::File;
use std::future::pending;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `call`.
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The component's module ID
    #[arg(long, value_name = "ID", default_value = "lab")]
    module: String,
    /// The kind of the target
    #[arg(long, default_value = "tool_provider")]
    kind: String,
    /// The identity's project root
    #[arg(long, value_name = "PATH", default_value = "/")]
    project_root: String,
    /// The identity's harness
    #[arg(long, value_name = "NAME", default_value = "cli")]
    harness: String,
    /// The identity's session
    #[arg(long, value_name = "NAME", default_value = "s")]
    session: String,
    /// How long the request may take; 0 settles at once, not_sent
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    timeout: u64,
    /// How long opening the route may take
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    route_timeout: u64,
    /// Expect a stream
    #[arg(long)]
    stream: bool,
    /// Set the binary bit
    #[arg(long)]
    binary: bool,
    /// Cancel so long after the request was accepted for sending
    #[arg(long, value_name = "MS")]
    cancel_after: Option<u64>,
    /// With --cancel-after: wait so long for proof of the stop
    #[arg(long, value_name = "MS", requires = "cancel_after")]
    confirm_cancel: Option<u64>,
    /// The body; without this and --data-file: standard input
    #[arg(long, value_name = "TEXT", conflicts_with = "data_file")]
    data: Option<String>,
    /// The file that holds the body
    #[arg(long, value_name = "FILE")]
    data_file: Option<PathBuf>,
    /// What is offered, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp")]
    transport: Vec<Transport>,
    /// Send nothing again, not even what provably did not run
    #[arg(long)]
    no_retry: bool,
}

impl Call {
    /// Reads and checks what can be, before anything is dialled.
    pub(crate) fn prepare(self, common: Common) -> Result<Prepared, Stop> {
        Transport::check(&self.transport)?;
        let offers = Transport::offers(&self.transport)?;
        let target = Target::new(&self.kind, &self.module).map_err(Stop::usage)?;
        let identity =
            Identity::new(&self.project_root, &self.harness, &self.session).map_err(Stop::usage)?;
        let body = match (&self.data, &self.data_file) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(path)) => File::open(path)
                .and_then(read)
                .map_err(|error| Stop::usage(format!("cannot read {}: {error}", path.display())))?,
            (None, None) => read(std::io::stdin().lock())
                .map_err(|error| Stop::usage(format!("cannot read standard input: {error}")))?,
        };
        let open = RouteOpen::new(target, identity);
        Ok(Prepared { common, offers, open, body: body.into(), call: self })
    }
}

/// A body, or enough of one to see that it is too large: then the client says so.
fn read(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    from.take(u64::from(MAX_BODY) + 1).read_to_end(&mut body)?;
    Ok(body)
}

/// A call that can begin.
pub(crate) struct Prepared {
    common: Common,
    offers: OfferList,
    open: RouteOpen,
    body: Bytes,
    call: Call,
}

impl Job for Prepared {
    type Output = Result<Exit, Stop>;

    async fn run<R: Runtime>(self, runtime: R) -> Self::Output {
        let output = self.common.output();
        let retry = if self.call.no_retry { RetryPolicy::NONE } else { RetryPolicy::default() };
        let client = match connect_offering(&runtime, &self.common, self.offers.clone(), retry).await {
            Ok(client) => client,
            Err(error) => return output.not_connected(&error),
        };
        // Printed before the connection is closed: nobody waits for a farewell.
        let exit = match self.request(&runtime, &client).await? {
            Ok(exit) => exit,
            Err(failed) => failed.print(output)?,
        };
        client.close().await;
        Ok(exit)
    }
}

/// A success has been printed as it came; a failure is still to be.
type Settled = Result<Result<Exit, Failed>, Stop>;

impl Prepared {
    async fn request<R: Runtime>(&self, runtime: &R, client: &Client) -> Settled {
        let time = Duration::from_millis(self.call.route_timeout);
        let route = match open(client, &self.open, time).await {
            Ok(route) => route,
            Err(failed) => return Ok(Err(failed)),
        };
        self.common.output().detail(&format!("opened route {}", route_name(route.handle())));
        Ok(self.settle(runtime, &route).await?.map_err(Failed::from))
    }

    async fn settle<R: Runtime>(&self, runtime: &R, route: &Route) -> Result<Result<Exit, CallError>, Stop> {
        let output = self.common.output();
        let request = Request {
            binary: self.call.binary,
            patience: Patience::For(Duration::from_millis(self.call.timeout)),
            ..Request::new(self.body.clone())
        };
        if self.call.stream {
            let stream = route.stream(request);
            let (event, act) = self.cancelling(runtime, stream.canceller());
            match acting_on(print_items(output, stream), event, act).await? {
                Ok(end) => output.stream_end(end).map(Ok),
                Err(error) => Ok(Err(error)),
            }
        } else {
            let call = route.request(request);
            let (event, act) = self.cancelling(runtime, call.canceller());
            match acting_on(call, event, act).await {
                Ok(reply) => output.reply(&reply).map(Ok),
                Err(error) => Ok(Err(error)),
            }
        }
    }

    /// When to cancel, and how. The time counts from here.
    fn cancelling<R: Runtime>(
        &self,
        runtime: &R,
        canceller: Canceller,
    ) -> (impl Future<Output = ()> + use<R>, impl FnOnce() + use<R>) {
        let after = self.call.cancel_after.map(Duration::from_millis);
        let timer = after.map(|after| runtime.sleep_until(runtime.now() + after));
        let confirm = self.call.confirm_cancel.map(Duration::from_millis);
        let event = async {
            match timer {
                Some(timer) => timer.await,
                None => pending().await,
            }
        };
        let act = move || match confirm {
            Some(time) => canceller.cancel_confirmed(time),
            None => canceller.cancel(),
        };
        (event, act)
    }
}

async fn print_items(
    output: Output,
    mut stream: ResponseStream,
) -> Result<Result<StreamEnd, CallError>, Stop> {
    let mut index = 0;
    while let Some(item) = stream.next().await {
        match item {
            Ok(item) => output.item(index, &item)?,
            Err(error) => return Ok(Err(error)),
        }
        index += 1;
    }
    match stream.outcome() {
        Some(Some(end)) => Ok(Ok(end)),
        None | Some(None) => Err(Stop::Bug("a stream without an end".to_owned())),
    }
}
