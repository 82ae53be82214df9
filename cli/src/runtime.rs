//! The one place where a runtime is chosen: commands are generic over [`Runtime`], and run on either.

use crate::exit::Stop;
use clap::ValueEnum;
use hostwire::Runtime;
use hostwire::core::time::Instant;
use hostwire_smol::Smol;
use hostwire_tokio::Tokio;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The runtimes that the program carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeKind {
    /// tokio
    Tokio,
    /// smol
    Smol,
}

/// How many threads run tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The one that waits: enough for a client.
    One,
    /// As many as the machine runs at once.
    Many,
}

/// What a command does on a runtime.
pub(crate) trait Job {
    type Output;

    /// Runs to its end on `runtime`.
    async fn run<R: Runtime>(self, runtime: R) -> Self::Output;
}

/// Runs a job to its end. Tasks that are left over are dropped, or left to the end of the process.
pub(crate) fn run<J: Job>(kind: RuntimeKind, threads: Threads, job: J) -> Result<J::Output, Stop> {
    match kind {
        RuntimeKind::Tokio => run_tokio(threads, job),
        RuntimeKind::Smol => run_smol(threads, job),
    }
}

fn run_tokio<J: Job>(threads: Threads, job: J) -> Result<J::Output, Stop> {
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Many => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Stop::Failed(format!("cannot start the tokio runtime: {error}")))?;
    let output = runtime.block_on(job.run(Tokio::new(runtime.handle().clone())));
    runtime.shutdown_background();
    Ok(output)
}

fn run_smol<J: Job>(threads: Threads, job: J) -> Result<J::Output, Stop> {
    let executor = Arc::new(async_executor::Executor::new());
    let more = match threads {
        Threads::One => 0,
        Threads::Many => std::thread::available_parallelism().map_or(0, |all| all.get() - 1),
    };
    for _ in 0..more {
        let executor = Arc::clone(&executor);
        std::thread::Builder::new()
            .name("smol".to_owned())
            .spawn(move || async_io::block_on(executor.run(pending::<()>())))
            .map_err(|error| Stop::Failed(format!("cannot start a thread: {error}")))?;
    }
    let runtime = Smol::new(&executor);
    Ok(async_io::block_on(executor.run(job.run(runtime))))
}

/// Lets time pass.
pub(crate) async fn pause<R: Runtime>(runtime: &R, time: Duration) {
    runtime.sleep_until(runtime.now() + time).await;
}

/// Does `work`, and calls `act` once if `event` comes before its end.
pub(crate) async fn acting_on<T>(
    work: impl Future<Output = T>,
    event: impl Future<Output = ()>,
    act: impl FnOnce(),
) -> T {
    let (mut work, mut event, mut act) = (pin!(work), pin!(event), Some(act));
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(done);
        }
        if act.is_some() && event.as_mut().poll(cx).is_ready() {
            if let Some(act) = act.take() {
                act();
            }
            return work.as_mut().poll(cx); // what it did may have ended the work
        }
        Poll::Pending
    })
    .await
}

/// What `work` gives, if it ends by `deadline`.
pub(crate) async fn by<R: Runtime, T>(
    runtime: &R,
    deadline: Instant,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (mut work, mut timer) = (pin!(work), pin!(runtime.sleep_until(deadline)));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}
