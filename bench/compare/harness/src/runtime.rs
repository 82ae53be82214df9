//! The runtimes that contenders run on.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A runtime by its name: `ct` and `mt` are tokio's with one thread and with two, `smol` is smol with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rt {
    /// tokio.
    Tokio,
    /// smol.
    Smol,
}

type Joined<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Rt {
    /// smol's executor.
    #[must_use]
    pub fn executor() -> &'static Arc<smol::Executor<'static>> {
        static EXECUTOR: OnceLock<Arc<smol::Executor<'static>>> = OnceLock::new();
        EXECUTOR.get_or_init(Arc::default)
    }

    /// Runs a future beside this one.
    ///
    /// # Panics
    /// If it panicked, where the result is awaited.
    pub fn spawn<T: Send + 'static>(self, task: impl Future<Output = T> + Send + 'static) -> Joined<T> {
        match self {
            Self::Tokio => {
                let task = tokio::spawn(task);
                Box::pin(async move { task.await.expect("no panic") })
            }
            Self::Smol => Box::pin(Self::executor().spawn(task)),
        }
    }

    /// The same, for a task whose end nobody awaits.
    pub fn detach(self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Tokio => drop(tokio::spawn(task)),
            Self::Smol => Self::executor().spawn(task).detach(),
        }
    }

    /// Waits.
    pub async fn sleep(self, time: Duration) {
        match self {
            Self::Tokio => tokio::time::sleep(time).await,
            Self::Smol => drop(smol::Timer::after(time).await),
        }
    }
}

/// Runs a contender on the runtime of that name, as a task: what is polled by `block_on` itself is polled at every wake-up.
///
/// # Panics
/// If there is no such runtime.
pub fn block_on<F: Future<Output = ()> + Send + 'static>(name: &str, run: impl FnOnce(Rt) -> F) {
    let tokio = match name {
        "smol" => {
            let executor = Rt::executor();
            let task = executor.spawn(run(Rt::Smol));
            return smol::block_on(executor.run(task));
        }
        "ct" => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        "mt" => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        other => panic!("no runtime {other}"),
    };
    let tokio = tokio.expect("a runtime");
    let task = tokio.spawn(run(Rt::Tokio));
    tokio.block_on(task).expect("no panic");
}
