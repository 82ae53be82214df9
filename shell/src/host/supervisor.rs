//! The one task that owns a host: its start, its accepting, its end.
//!
//! Owns the order of P7 and §17. Invariant: on every path (a failed start, a dropped start, a shutdown, a runtime that dies at any
//! await) the record says `stopping` before the publication is removed, and the lock is free only after the last callback has ended.

use super::candidate::Candidate;
use super::config::{HostConfig, StartError};
use super::conn::{Conn, Task};
use super::handle::Control;
use super::hub::{Ask, Hub, Member};
use super::keep::{Keep, WeakKeep};
use super::report::{Callback, Cause, Failures};
use crate::client::Ends;
use crate::component::{BoxError, BoxFuture};
use crate::discovery::{InstanceLock, RunDir, Tenure, unix_now_ms};
use crate::drive::{Alarm, Driver};
use crate::runtime::{Direction, Io, Runtime};
use crate::socket;
use hostwire_core::auth::{Credentials, Nonce};
use hostwire_core::host::{self, ComponentSpec, Connection, Shared};
use hostwire_core::lifecycle::RENEW_EVERY_MS;
use hostwire_core::time::Instant;
use std::future::{Future, poll_fn};
use std::io;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Connections that are accepted before the loop lets others run.
const ACCEPTS: usize = 16;

/// What a host is made of, checked.
pub(super) struct Plan {
    pub(super) config: HostConfig,
    pub(super) components: Vec<ComponentSpec>,
    pub(super) members: Vec<Member>,
}

/// Runs a host from its start to its end, and tells `control`.
pub(super) async fn supervise<R: Runtime>(runtime: R, plan: Plan, control: Arc<Control>) {
    // Whatever happens from here on, whoever waits for the start or the end learns of it.
    let told = Told(control);
    let failures = Arc::new(Failures::default());
    match start(&runtime, plan, &told.0, &failures).await {
        Ok(host) => {
            let ended = host.serve().await;
            told.0.end(ended);
        }
        Err(error) => {
            told.0.refuse(error);
            told.0.end(failures.report(false));
        }
    }
}

/// Says that the runtime has died, unless something better was said before.
struct Told(Arc<Control>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.refuse(StartError::RuntimeEnded);
        self.0.end(super::report::Ended { cut_short: true, ..Default::default() });
    }
}

/// A host that runs.
struct Running<R: Runtime> {
    hub: Arc<Hub<R>>,
    control: Arc<Control>,
    listener: Option<R::Io>,
    keep: WeakKeep,
    tender: Tender<R>,
}

/// If the runtime dies: files first, then components, then sockets; the lock goes with the last task that holds it.
impl<R: Runtime> Drop for Running<R> {
    fn drop(&mut self) {
        if let Some(keep) = self.hub.take_keep() {
            keep.retire();
            self.hub.drop_members();
            self.listener = None;
            self.hub.conns().iter().for_each(|conn| conn.close_socket());
            drop(keep);
        }
    }
}

/// What all connections share, if the limits carry the components (V49).
pub(super) fn shared(
    config: &HostConfig,
    components: Vec<ComponentSpec>,
    credentials: &Credentials,
) -> Result<Arc<Shared>, host::StartError> {
    Shared::new(host::HostConfig {
        limits: config.limits,
        timeouts: config.timeouts,
        key: credentials.key.clone(),
        daemon_id: credentials.daemon_id,
        daemon_ver: credentials.daemon_ver.clone(),
        components,
        served: config.served(),
        catalog_generation: 1,
    })
}

/// P7: lock → `starting` → initialize → bind → publish → `running`.
async fn start<R: Runtime>(
    runtime: &R,
    plan: Plan,
    control: &Arc<Control>,
    failures: &Arc<Failures>,
) -> Result<Running<R>, StartError> {
    let Plan { config, components, members } = plan;
    let (location, launch) = (config.location.clone(), config.launch());
    let credentials = config.credentials.clone();
    let tenure = runtime
        .blocking(move || {
            let lock = InstanceLock::acquire(RunDir::open_or_create(&location)?, unix_now_ms)?;
            Ok::<_, StartError>(Tenure::begin_as(lock, launch, credentials, unix_now_ms())?)
        })
        .await
        .map_err(|_| StartError::RuntimeEnded)??;
    let core = shared(&config, components, tenure.credentials())?;
    let daemon_id = tenure.credentials().daemon_id;
    let keep = Keep::new(tenure);
    let hub = Hub::new(runtime.clone(), &config, core, members, Arc::clone(failures), keep.clone());
    let keep = keep.downgrade();
    let tender = Tender::new(runtime.clone(), keep.clone());
    let mut host = Running { hub, control: Arc::clone(control), listener: None, keep, tender };

    let mut initialized = 0;
    match host.begin(config.port, &mut initialized).await {
        Ok(port) => {
            let weak = Arc::downgrade(&host.hub);
            let hub: std::sync::Weak<dyn Ask> = weak;
            host.hub.notes.host_runs(host.hub.now(), port);
            control.run(port, daemon_id, config.location.connection_file().to_owned(), hub);
            Ok(host)
        }
        Err(error) => {
            host.abandon(initialized).await;
            Err(error)
        }
    }
}

impl<R: Runtime> Running<R> {
    async fn begin(&mut self, port: u16, initialized: &mut usize) -> Result<u16, StartError> {
        for Member { module_id, component } in self.hub.members() {
            let (hub, control) = (Arc::clone(&self.hub), Arc::clone(&self.control));
            let timer = hub.timer.clone();
            let callback: BoxFuture<'static, Result<(), BoxError>> =
                Box::pin(async move { component.initialize(timer).await });
            let hold = hub.hold();
            let called = async {
                let mut call = pin!(hub.call(callback));
                let mut stop = control.bell.until(|| control.is_stopping().then_some(()));
                poll_fn(|cx| {
                    if Pin::new(&mut stop).poll(cx).is_ready() {
                        return Poll::Ready(None);
                    }
                    call.as_mut().poll(cx).map(Some)
                })
                .await
            };
            let called = self.tender.attend(called).await;
            drop(hold);
            let failed =
                |cause, source| StartError::Initialize { module_id: module_id.to_string(), cause, source };
            match called {
                None => return Err(StartError::Stopped),
                Some(Ok(Ok(()))) => *initialized += 1,
                Some(Ok(Err(source))) => return Err(failed(Cause::Failed, Some(source))),
                Some(Err(cause)) => return Err(failed(cause, None)),
            }
        }
        let socket::Listener { fd, port } = socket::listen_tcp(port).map_err(StartError::Listen)?;
        self.listener = Some(self.hub.runtime.register(fd).map_err(StartError::Listen)?);
        if self.control.is_stopping() {
            return Err(StartError::Stopped);
        }
        let keep = self.keep.clone();
        let nonzero = NonZeroU16::new(port)
            .ok_or_else(|| StartError::Listen(std::io::ErrorKind::AddrNotAvailable.into()))?;
        let published =
            self.hub.runtime.blocking(move || keep.upgrade().map_or(Ok(false), |keep| keep.publish(nonzero)));
        self.tender.attend(published).await.map_err(|_| StartError::RuntimeEnded)??;
        Ok(port)
    }

    /// An abandoned start goes the way of a shutdown: `stopping`, unpublish, the callbacks of those that were initialized, unlock.
    async fn abandon(&mut self, initialized: usize) {
        self.hub.start_draining();
        self.listener = None;
        self.retire().await;
        self.shut_down_members(initialized).await;
        self.release().await;
    }

    async fn serve(mut self) -> super::report::Ended {
        self.accept_until_stopped().await;
        self.shut_down().await;
        self.hub.failures.report(false)
    }

    async fn accept_until_stopped(&mut self) {
        let (hub, control) = (Arc::clone(&self.hub), Arc::clone(&self.control));
        let mut committed = hub.bell.until(|| hub.is_committed().then_some(()));
        let mut stop = control.bell.until(|| control.is_stopping().then_some(()));
        let mut alarm = Alarm::new(hub.runtime.clone());
        let mut paused: Option<Instant> = None;
        poll_fn(|cx| {
            if Pin::new(&mut committed).poll(cx).is_ready() || Pin::new(&mut stop).poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if paused.is_some() {
                if alarm.poll(cx, paused).is_pending() {
                    return Poll::Pending;
                }
                paused = None;
            }
            if self.poll_accept(cx) == Accept::Failed {
                // B120: neither a spin nor an end; those that are connected are served all the while.
                let until = hub.now() + hub.timeouts.accept_pause;
                paused = Some(until);
                if alarm.poll(cx, paused).is_ready() {
                    cx.waker().wake_by_ref();
                }
            }
            Poll::Pending
        })
        .await;
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Accept {
        let Some(listener) = &self.listener else { return Accept::Waiting };
        for _ in 0..ACCEPTS {
            match listener.try_io(Direction::Read, socket::accept).result {
                Ok(fd) => self.admit(fd),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    match listener.poll_read_ready(cx) {
                        Poll::Pending => return Accept::Waiting,
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(_)) => return Accept::Failed,
                    }
                }
                // A connection that was gone before it was accepted is nobody's failure.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.hub.notes.accept_failed(self.hub.now(), error.kind());
                    return Accept::Failed;
                }
            }
        }
        cx.waker().wake_by_ref();
        Accept::Waiting
    }

    fn admit(&self, fd: OwnedFd) {
        // What fails here is nobody's but that client's.
        let _ = admit(&self.hub, Ends::Socket(fd));
    }

    /// §17, in its order.
    async fn shut_down(&mut self) {
        let hub = Arc::clone(&self.hub);
        self.listener = None; // (1)
        hub.notes.host_ends(hub.now());
        hub.start_draining();
        hub.conns().iter().for_each(|conn| conn.begin_drain());
        let drain_ends = hub.now() + hub.timeouts.drain;
        self.retire().await; // (2)
        self.drain(drain_ends).await; // (3), (4)
        let quiet = hub.bell.until(|| (hub.no_routes() && hub.no_conns()).then_some(()));
        self.tender.attend(quiet).await; // (5)
        self.shut_down_members(usize::MAX).await; // (6)
        self.release().await; // (7), (8), (9)
    }

    /// (3) and (4). Handlers may end by themselves for four tenths of the time; those that still run are told to stop and have until nine
    /// tenths (with the defaults that is the route-close grace); then terminals and `Goodbye` leave. What is left at the end is cut off.
    async fn drain(&mut self, ends: Instant) {
        let hub = Arc::clone(&self.hub);
        let tenth = ends.saturating_since(hub.now()) / 10;
        let idle = || hub.no_work().then_some(());
        if self.tender.attend(hub.within(tenth * 4, hub.bell.until(idle))).await.is_none() {
            hub.conns().iter().for_each(|conn| conn.stop_all());
            let left = (tenth * 5).min(hub.timeouts.route_close);
            if self.tender.attend(hub.within(left, hub.bell.until(idle))).await.is_none() {
                hub.conns().iter().for_each(|conn| conn.stop_handlers());
                self.tender.attend(hub.within(tenth, hub.bell.until(idle))).await;
            }
        }
        hub.conns().iter().for_each(|conn| conn.finish_drain());
        let rest = ends.saturating_since(hub.now());
        let gone = hub.bell.until(|| hub.no_conns().then_some(()));
        if self.tender.attend(hub.within(rest, gone)).await.is_none() {
            // B085: a peer that ignores the end, or takes nothing, is cut off; that is no fault of this host's.
            hub.conns().iter().for_each(|conn| conn.abandon());
        }
        hub.force();
    }

    async fn retire(&mut self) {
        let keep = self.keep.clone();
        let retired = self.hub.runtime.blocking(move || keep.retire());
        match self.tender.attend(retired).await {
            Ok(true) => {}
            Ok(false) => self.hub.failures.files_failed(),
            // The work was lost, not the duty.
            Err(_) => {
                if !self.keep.retire() {
                    self.hub.failures.files_failed();
                }
            }
        }
    }

    /// §17 (6): children in reverse order, one child's failure never skipping the next.
    async fn shut_down_members(&mut self, initialized: usize) {
        let hub = Arc::clone(&self.hub);
        let quiet = hub.bell.until(|| hub.no_tasks().then_some(()));
        self.tender.attend(quiet).await;
        for Member { module_id, component } in hub.members().into_iter().take(initialized).rev() {
            let callback: BoxFuture<'static, Result<(), BoxError>> =
                Box::pin(async move { component.shutdown().await });
            let cause = match self.tender.attend(hub.call(callback)).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => {
                    drop(error); // H4: its text is the component's own
                    Cause::Failed
                }
                Err(cause) => cause,
            };
            hub.fail(&module_id, Callback::Shutdown, cause);
        }
    }

    /// §17 (7) to (9).
    async fn release(&mut self) {
        let hub = Arc::clone(&self.hub);
        hub.drop_members();
        let keep = hub.take_keep();
        if let Some(renewing) = self.tender.renewing.take() {
            renewing.await;
        }
        // P7: the record, then the lock. Where blocking work is lost, dropping it unrun does the same.
        let _ = hub.runtime.blocking(move || drop(keep)).await;
    }
}

/// A connection begins.
pub(super) fn admit<R: Runtime>(hub: &Arc<Hub<R>>, ends: Ends) -> io::Result<()> {
    let mut nonce = [0; 32];
    // A2: fresh for every attempt. Without randomness there is no handshake.
    getrandom::fill(&mut nonce).map_err(|_| io::ErrorKind::Unsupported)?;
    let owner = hub.next_owner();
    // A8: over the limit, closed at once without a read.
    let Some(slot) = hub.core.admit_handshake() else {
        hub.notes.handshakes_full(hub.now());
        return Err(io::ErrorKind::QuotaExceeded.into());
    };
    let socket = ends.register(&hub.runtime)?;
    let core = Connection::new(hub.now(), slot, Nonce::new(nonce), Arc::clone(&hub.core));
    let driver = Driver::new(hub.runtime.clone(), socket);
    let conn = Conn::new(Arc::clone(hub), owner, core, driver);
    hub.enter(&conn);
    hub.runtime.spawn(Task::new(conn, Candidate::None));
    Ok(())
}

/// What one look at the listener came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accept {
    Waiting,
    Failed,
}

/// P9: renews the record every 20 s while something is awaited, so that a slow start or end is not taken for a dead one.
struct Tender<R: Runtime> {
    runtime: R,
    keep: WeakKeep,
    next: Instant,
    alarm: Alarm<R>,
    renewing: Option<BoxFuture<'static, ()>>,
}

impl<R: Runtime> Tender<R> {
    fn new(runtime: R, keep: WeakKeep) -> Self {
        let next = runtime.now() + Duration::from_millis(RENEW_EVERY_MS);
        Self { alarm: Alarm::new(runtime.clone()), runtime, keep, next, renewing: None }
    }

    /// Awaits `future`, renewing all the while.
    async fn attend<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(value);
            }
            self.poll(cx);
            Poll::Pending
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        loop {
            if let Some(renewing) = &mut self.renewing {
                if renewing.as_mut().poll(cx).is_pending() {
                    return;
                }
                self.renewing = None;
                self.next = self.runtime.now() + Duration::from_millis(RENEW_EVERY_MS);
            }
            if self.alarm.poll(cx, Some(self.next)).is_pending() {
                return;
            }
            let keep = self.keep.clone();
            let renewed = self.runtime.blocking(move || keep.upgrade().map(|keep| keep.renew()));
            // A renewal that fails is tried again in its turn; a record that expires says so by itself (P9).
            self.renewing = Some(Box::pin(async move { drop(renewed.await) }));
        }
    }
}
