//! What all tasks of one host share.
//!
//! Owns the components, the registry of channels, the connections and the count of tasks that run a component's code. Its locks are
//! held for a step of a table each, never across an await, and never while a component's code runs.

use super::bell::Bell;
use super::config::HostConfig;
use super::conn::Conn;
use super::keep::Keep;
use super::report::{Callback, Cause, Failures};
use super::route::Route;
use crate::client::Ends;
use crate::component::{BoxFuture, Component, Contained, Health, Timer};
use crate::runtime::Runtime;
use crate::trace::Notes;
use hostwire_core::host::{Counters, Owner, Registry, Shared};
use hostwire_core::limits::HostTimeouts;
use hostwire_core::time::Instant;
use hostwire_core::wire::RouteHandle;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// A component and its name.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) module_id: Arc<str>,
    pub(super) component: Arc<dyn Component>,
}

/// Everything that the host's tasks share.
pub(super) struct Hub<R: Runtime> {
    pub(super) runtime: R,
    pub(super) timer: Timer,
    pub(super) core: Arc<Shared>,
    pub(super) timeouts: HostTimeouts,
    pub(super) failures: Arc<Failures>,
    pub(super) notes: Notes,
    run_dir: PathBuf,
    /// Rung when the shutdown is committed, and from then on when a connection, a route or a task has ended.
    pub(super) bell: Bell,
    members: Mutex<Vec<Member>>,
    registry: Mutex<Registry>,
    routes: Mutex<HashMap<RouteHandle, Arc<Route>>>,
    conns: Mutex<HashMap<Owner, Arc<Conn<R>>>>,
    /// What the connections that have ended had counted (Z2).
    counted: Mutex<Counters>,
    next_owner: AtomicU64,
    keep: Mutex<Option<Keep>>,
    tasks: AtomicUsize,
    /// Handlers and binds whose answer is awaited.
    work: AtomicUsize,
    draining: AtomicBool,
    committed: AtomicBool,
    /// The drain's time is over: binds that are still out are dropped.
    forced: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Runtime> Hub<R> {
    pub(super) fn new(
        runtime: R,
        config: &HostConfig,
        core: Arc<Shared>,
        members: Vec<Member>,
        failures: Arc<Failures>,
        keep: Keep,
    ) -> Arc<Self> {
        Arc::new(Self {
            timer: Timer::of(runtime.clone()),
            runtime,
            core,
            timeouts: config.timeouts,
            failures,
            notes: Notes::default(),
            run_dir: config.location.run_dir().to_owned(),
            bell: Bell::default(),
            members: Mutex::new(members),
            registry: Mutex::new(Registry::new(config.limits.routes)),
            routes: Mutex::default(),
            conns: Mutex::default(),
            counted: Mutex::default(),
            next_owner: AtomicU64::new(1),
            keep: Mutex::new(Some(keep)),
            tasks: AtomicUsize::new(0),
            work: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            committed: AtomicBool::new(false),
            forced: AtomicBool::new(false),
        })
    }

    pub(super) fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    pub(super) fn now(&self) -> Instant {
        self.runtime.now()
    }

    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    pub(super) fn member(&self, index: usize) -> Option<Member> {
        lock(&self.members).get(index).cloned()
    }

    pub(super) fn members(&self) -> Vec<Member> {
        lock(&self.members).clone()
    }

    /// §17 (7): the host lets go of its components.
    pub(super) fn drop_members(&self) {
        let members = std::mem::take(&mut *lock(&self.members));
        let _ = crate::component::contain(move || drop(members));
    }

    // Connections.

    pub(super) fn next_owner(&self) -> Owner {
        Owner(self.next_owner.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn enter(&self, conn: &Arc<Conn<R>>) {
        lock(&self.conns).insert(conn.owner(), Arc::clone(conn));
    }

    pub(super) fn leave(&self, owner: Owner) {
        let left = {
            let mut conns = lock(&self.conns);
            let left = conns.remove(&owner);
            // Under the same lock, so that a sum holds it once and not twice.
            if let Some(conn) = &left {
                lock(&self.counted).add(&conn.counters());
            }
            left
        };
        drop(left);
        self.ring_if_draining();
    }

    pub(super) fn conns(&self) -> Vec<Arc<Conn<R>>> {
        lock(&self.conns).values().cloned().collect()
    }

    pub(super) fn no_conns(&self) -> bool {
        lock(&self.conns).is_empty()
    }

    // Routes.

    pub(super) fn add_route(&self, route: &Arc<Route>) {
        lock(&self.routes).insert(route.handle(), Arc::clone(route));
    }

    pub(super) fn route(&self, handle: RouteHandle) -> Option<Arc<Route>> {
        lock(&self.routes).get(&handle).cloned()
    }

    pub(super) fn remove_route(&self, handle: RouteHandle) {
        let removed = lock(&self.routes).remove(&handle);
        drop(removed);
        self.ring_if_draining();
    }

    pub(super) fn no_routes(&self) -> bool {
        lock(&self.routes).is_empty()
    }

    // Shutdown.

    /// H1: somebody's `host.shutdown` is committed.
    pub(super) fn commit(&self) {
        self.committed.store(true, Ordering::Release);
        self.bell.ring();
    }

    pub(super) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Acquire)
    }

    pub(super) fn start_draining(&self) {
        self.core.set_draining();
        self.draining.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Who waits for an end waits in a drain; before it, nobody is woken. (Sequentially consistent with the counts: either the drain
    /// sees the change, or the change sees the drain.)
    fn ring_if_draining(&self) {
        if self.is_draining() {
            self.bell.ring();
        }
    }

    pub(super) fn force(&self) {
        self.forced.store(true, Ordering::Release);
        self.bell.ring();
    }

    pub(super) fn is_forced(&self) -> bool {
        self.forced.load(Ordering::Acquire)
    }

    /// A handler or a bind begins.
    pub(super) fn begin_work(&self) {
        self.work.fetch_add(1, Ordering::AcqRel);
    }

    /// It has answered.
    pub(super) fn end_work(&self) {
        if self.work.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.ring_if_draining();
        }
    }

    pub(super) fn no_work(&self) -> bool {
        self.work.load(Ordering::SeqCst) == 0
    }

    // Tasks.

    /// A hold on the lock for a task that runs a component's code (P1, H4).
    pub(super) fn hold(self: &Arc<Self>) -> Hold<R> {
        self.tasks.fetch_add(1, Ordering::AcqRel);
        Hold { keep: lock(&self.keep).clone(), hub: Arc::clone(self) }
    }

    pub(super) fn no_tasks(&self) -> bool {
        self.tasks.load(Ordering::SeqCst) == 0
    }

    /// The hub's own hold, given up at the end.
    pub(super) fn take_keep(&self) -> Option<Keep> {
        lock(&self.keep).take()
    }

    pub(super) fn fail(&self, module_id: &str, callback: Callback, cause: Cause) {
        self.failures.add(module_id, callback, cause);
        self.notes.callback_failed(self.now(), module_id, callback, cause);
    }

    /// Polls `future` until it is ready or `patience` is over.
    pub(super) async fn within<T>(
        &self,
        patience: Duration,
        future: impl Future<Output = T> + Unpin,
    ) -> Option<T> {
        let mut sleep = pin!(self.runtime.sleep_until(self.now() + patience));
        let mut future = future;
        poll_fn(|cx| {
            if let Poll::Ready(value) = std::pin::Pin::new(&mut future).poll(cx) {
                return Poll::Ready(Some(value));
            }
            sleep.as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    /// Runs a callback for at most its deadline, and drops it then. The cause, if it did not end well by itself.
    pub(super) async fn call<T: Send + 'static>(&self, callback: BoxFuture<'static, T>) -> Result<T, Cause> {
        let mut callback = Contained::new(callback);
        match self.within(self.timeouts.callback, &mut callback).await {
            Some(Ok(value)) => Ok(value),
            Some(Err(_)) => Err(Cause::Panicked),
            None => {
                let _ = callback.stop();
                Err(Cause::Overran)
            }
        }
    }
}

/// Held by every task that runs a component's code, and for every door in the run directory: while one is left, the lock is not free and the host has not ended.
pub(super) struct Hold<R: Runtime> {
    keep: Option<Keep>,
    hub: Arc<Hub<R>>,
}

impl<R: Runtime> Hold<R> {
    pub(super) const fn hub(&self) -> &Arc<Hub<R>> {
        &self.hub
    }
}

impl<R: Runtime> Drop for Hold<R> {
    fn drop(&mut self) {
        self.keep = None; // the lock first, then the news
        if self.hub.tasks.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.hub.ring_if_draining();
        }
    }
}

/// How the components are, asked by the embedder.
pub(super) trait Ask: Send + Sync {
    fn health(self: Arc<Self>) -> BoxFuture<'static, Vec<(Arc<str>, Option<Health>)>>;
    fn counters(&self) -> Counters;
    fn attach(self: Arc<Self>, ends: Ends) -> std::io::Result<()>;
}

impl<R: Runtime> Ask for Hub<R> {
    fn attach(self: Arc<Self>, ends: Ends) -> std::io::Result<()> {
        if self.is_draining() {
            return Err(std::io::ErrorKind::NotConnected.into());
        }
        super::supervisor::admit(&self, ends)
    }

    fn counters(&self) -> Counters {
        let conns = lock(&self.conns);
        let mut sum = *lock(&self.counted);
        conns.values().for_each(|conn| sum.add(&conn.counters()));
        sum
    }

    fn health(self: Arc<Self>) -> BoxFuture<'static, Vec<(Arc<str>, Option<Health>)>> {
        Box::pin(async move {
            let mut reports = Vec::new();
            for Member { module_id, component } in self.members() {
                if self.is_draining() {
                    break; // §17 (6): probes are quiet before `shutdown` is called
                }
                let hold = self.hold();
                let asked = Box::pin(async move { component.health().await });
                let answer = self.call(asked).await;
                drop(hold);
                if let Err(cause) = answer {
                    self.fail(&module_id, Callback::Health, cause); // H5
                }
                reports.push((module_id, answer.ok()));
            }
            reports
        })
    }
}
