//! The embedder's end of a host: it signals, it waits, it owns nothing.

use super::bell::Bell;
use super::config::{HostConfig, StartError};
use super::hub::{Ask, Member};
use super::report::Ended;
use super::supervisor::{Plan, shared, supervise};
use crate::client::Ends;
use crate::component::{Component, Health, Manifest};
use crate::runtime::Runtime;
use crate::socket::Farewell;
use hostwire_core::auth::{Credentials, DaemonId, Key};
use hostwire_core::control;
use hostwire_core::host::{ComponentSpec, Counters};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What a host's handle and its supervisor tell each other.
#[derive(Default)]
pub(super) struct Control {
    pub(super) bell: Bell,
    stopping: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    started: Option<Result<Facts, StartError>>,
    ended: Option<Ended>,
}

/// What is known of a host once it runs.
struct Facts {
    port: u16,
    daemon_id: DaemonId,
    connection_file: PathBuf,
    ask: Weak<dyn Ask>,
}

impl Control {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.bell.ring();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn run(&self, port: u16, daemon_id: DaemonId, connection_file: PathBuf, ask: Weak<dyn Ask>) {
        self.tell(Ok(Facts { port, daemon_id, connection_file, ask }));
    }

    pub(super) fn refuse(&self, error: StartError) {
        self.tell(Err(error));
    }

    /// The first word counts.
    fn tell(&self, started: Result<Facts, StartError>) {
        let late = self.with(|state| {
            if state.started.is_none() && state.ended.is_none() {
                state.started = Some(started);
                None
            } else {
                Some(started)
            }
        });
        drop(late);
        self.bell.ring();
    }

    pub(super) fn end(&self, ended: Ended) {
        self.with(|state| {
            state.ended.get_or_insert(ended);
        });
        self.bell.ring();
    }
}

/// Asks for the ordered shutdown when it is dropped.
struct StopOnDrop(Arc<Control>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Starts hosts.
#[derive(Debug)]
pub struct Host;

impl Host {
    /// Starts a host: takes the lock, initializes the components in order, listens, publishes (P7). Ready when clients can connect.
    ///
    /// One task, the supervisor, owns everything from here on; the handle only signals it.
    ///
    /// Cancel safety: dropping the future asks a start that has begun to be abandoned; it then goes the way of a shutdown, without
    /// anybody waiting.
    ///
    /// # Errors
    /// [`StartError`]. Nothing is left behind: no lock, no record, no publication, and components that were initialized have been shut down.
    pub async fn start<R: Runtime>(
        runtime: R,
        config: HostConfig,
        components: Vec<Arc<dyn Component>>,
    ) -> Result<HostHandle, StartError> {
        let plan = plan(config, components)?;
        let control = Arc::new(Control::default());
        let guard = StopOnDrop(Arc::clone(&control));
        runtime.spawn(supervise(runtime.clone(), plan, Arc::clone(&control)));
        let known =
            control.bell.until(|| control.with(|state| state.started.as_ref().map(Result::is_ok))).await;
        let started = control.with(|state| state.started.take());
        match (known, started) {
            (true, Some(Ok(facts))) => Ok(HostHandle { guard, facts }),
            (_, Some(Err(error))) => {
                // The error is told when everything has been taken back.
                control.bell.until(|| control.with(|state| state.ended.as_ref().map(drop))).await;
                Err(error)
            }
            (_, Some(Ok(_)) | None) => Err(StartError::RuntimeEnded),
        }
    }
}

/// Checks what can be checked before anything is touched.
fn plan(config: HostConfig, components: Vec<Arc<dyn Component>>) -> Result<Plan, StartError> {
    let (mut members, mut specs) = (Vec::new(), Vec::new());
    for (index, component) in components.into_iter().enumerate() {
        let wrong = |problem| StartError::Manifest { index, problem };
        let manifest =
            crate::component::contain(|| component.manifest()).map_err(|_| wrong("it panicked"))?;
        let entry = entry(&manifest).ok_or_else(|| wrong("an ill-formed ID, version or role"))?;
        specs.push(ComponentSpec { manifest: entry, declaration: manifest.declaration });
        members.push(Member { module_id: manifest.module_id.into(), component });
    }
    // V49: judged before anything on disk is touched; the key of this trial goes nowhere.
    let trial = Credentials {
        key: Key::new([0; 32]),
        daemon_id: DaemonId::new([0; 16]),
        daemon_ver: config.version.as_str().into(),
    };
    shared(&config, specs.clone(), &trial)?;
    Ok(Plan { config, components: specs, members })
}

fn entry(manifest: &Manifest) -> Option<control::Manifest> {
    let entry = control::Manifest::new(&manifest.module_id, &manifest.version, manifest.role).ok()?;
    let entry = entry.with_provides(manifest.provides.iter().map(String::as_str)).ok()?;
    Some(entry.with_class(manifest.class))
}

/// A running host.
///
/// Dropping it asks for the ordered shutdown and waits for nobody; it takes no lock of the host, spawns nothing, and works outside a
/// runtime, on any thread, and while a runtime shuts down.
#[must_use = "dropping it shuts the host down"]
pub struct HostHandle {
    guard: StopOnDrop,
    facts: Facts,
}

impl HostHandle {
    /// The port on 127.0.0.1.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.facts.port
    }

    /// This incarnation's ID (P2).
    #[must_use]
    pub const fn daemon_id(&self) -> DaemonId {
        self.facts.daemon_id
    }

    /// The connection file that clients read.
    #[must_use]
    pub fn connection_file(&self) -> &Path {
        &self.facts.connection_file
    }

    /// Asks for the ordered shutdown (§17). Again: nothing more.
    pub fn shutdown(&self) {
        self.guard.0.stop();
    }

    /// A clonable value that asks for the shutdown, for signal handlers and components. Dropping it asks for nothing.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::downgrade(&self.guard.0))
    }

    /// Waits until the host has ended, for whatever reason: every callback over, sockets closed, lock free.
    ///
    /// Asks for nothing by itself. Cancel-safe: it can be dropped and called again, and gives the same answer every time.
    pub async fn wait(&self) -> Ended {
        let control = &self.guard.0;
        control.bell.until(|| control.with(|state| state.ended.clone())).await
    }

    /// What the host's connections have counted since its start, those that have ended included (Z2). `None` once the host has ended.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.facts.ask.upgrade().map(|ask| ask.counters())
    }

    /// Takes one more connection, over two non-blocking pipes: a child's output and input, or this process's own. It is served as any other,
    /// from authentication on, and counts as one.
    ///
    /// # Errors
    /// The host has ended or is about to, its handshakes are at their limit (A8), or the pipes cannot be registered. They are closed.
    pub fn attach(&self, input: OwnedFd, output: OwnedFd) -> io::Result<()> {
        self.attach_ends(Ends::Pipes { input, output, farewell: Farewell(None) })
    }

    pub(crate) fn attach_ends(&self, ends: Ends) -> io::Result<()> {
        let ask = self.facts.ask.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        ask.attach(ends)
    }

    /// Asks every component how it is, in order, each within the callback deadline. `None` for one that panicked or overran (H5).
    /// Empty once the host shuts down. It stays in this process: no client sees it (C5, AE9).
    ///
    /// Cancel-safe: dropped, it asks no further.
    pub async fn health(&self) -> Vec<(Arc<str>, Option<Health>)> {
        match self.facts.ask.upgrade() {
            Some(ask) => ask.health().await,
            None => Vec::new(),
        }
    }
}

impl fmt::Debug for HostHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostHandle").field("port", &self.facts.port).finish_non_exhaustive()
    }
}

/// Asks for a host's shutdown; keeps nothing alive.
#[derive(Clone)]
pub struct Stopper(Weak<Control>);

impl Stopper {
    /// Asks for the ordered shutdown. A host that has ended does not mind.
    pub fn shutdown(&self) {
        if let Some(control) = self.0.upgrade() {
            control.stop();
        }
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopper")
    }
}
