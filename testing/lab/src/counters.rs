//! What a lab component has counted, and what is running.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the component's start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    binds: AtomicU64,
    rejected: AtomicU64,
    route_gone: AtomicU64,
    dispatched: AtomicU64,
    cancelled: AtomicU64,
    running: AtomicU64,
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::AcqRel);
}

impl Counters {
    pub(crate) fn bound(&self) {
        add(&self.binds);
    }

    pub(crate) fn rejected(&self) {
        add(&self.rejected);
    }

    pub(crate) fn route_gone(&self) {
        add(&self.route_gone);
    }

    pub(crate) fn report(&self) -> Vec<u8> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        format!(
            "{{\"binds\":{},\"rejected\":{},\"route_gone\":{},\"dispatched\":{},\"cancelled\":{},\"running\":{}}}",
            of(&self.binds),
            of(&self.rejected),
            of(&self.route_gone),
            of(&self.dispatched),
            of(&self.cancelled),
            of(&self.running),
        )
        .into_bytes()
    }
}

/// A handler that has started. Dropped before it ended by itself, it counts as cancelled, unless a panic drops it.
pub(crate) struct Running {
    counters: Arc<Counters>,
    ended: bool,
}

impl Running {
    pub(crate) fn start(counters: &Arc<Counters>) -> Self {
        add(&counters.dispatched);
        add(&counters.running);
        Self { counters: Arc::clone(counters), ended: false }
    }

    /// The handler ends by itself, with `answer`.
    pub(crate) fn end<T>(mut self, answer: T) -> T {
        self.ended = true;
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.counters.running.fetch_sub(1, Ordering::AcqRel);
        if !self.ended && !std::thread::panicking() {
            add(&self.counters.cancelled);
        }
    }
}
