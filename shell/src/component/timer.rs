//! The host's clock as components see it.

use super::BoxFuture;
use crate::runtime::Runtime;
use hostwire_core::time::Instant;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A clock and its sleep, whatever runtime they come from.
pub trait Sleeper: Send + Sync + 'static {
    /// The present reading.
    fn now(&self) -> Instant;
    /// Resolves at `at`, or at once if that has passed. Dropping it frees the timer.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;
}

/// The clock of the runtime that runs the host, so that components need no runtime of their own and tests can turn it by hand.
///
/// Cloning is cheap.
#[derive(Clone)]
pub struct Timer(Arc<dyn Sleeper>);

impl Timer {
    /// A timer over `sleeper`.
    pub fn new(sleeper: impl Sleeper) -> Self {
        Self(Arc::new(sleeper))
    }

    /// The timer of a runtime.
    pub fn of<R: Runtime>(runtime: R) -> Self {
        Self::new(Of(runtime))
    }

    /// The present reading.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// Waits for `duration` from now. Dropping the future frees its timer; it is cancel-safe, but starts anew when made anew.
    #[must_use]
    pub fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep_until(self.now() + duration)
    }

    /// Waits until `at`.
    #[must_use]
    pub fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }
}

struct Of<R>(R);

impl<R: Runtime> Sleeper for Of<R> {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(self.0.sleep_until(at))
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timer")
    }
}
