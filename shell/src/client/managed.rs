//! Generations one after the other, for as long as handles live: the session's policy under a runtime (K1 to K5).
//!
//! One task per client does it all: it reads the discovery file, dials, drives the generation, and begins again while somebody waits.
//! Without a generation and without anybody who waits there is no task.

use super::candidate::{Bootstrap, go_over, reach};
use super::config::{ClientConfig, ConnectError};
use super::result::Evidence;
use super::shared::{Root, Shared, drive};
use super::slot::Finished;
use crate::discovery::{Location, read_shared};
use crate::drive::Driver;
use crate::runtime::{BlockingLost, Runtime};
use crate::socket::{Farewell, Socket, connect_tcp};
use crate::sync::lock;
use hostwire_core::auth::{Credentials, DaemonId, Nonce};
use hostwire_core::body::Body;
use hostwire_core::client::session::{Ending, Need, RetryPolicy, Session, SessionPolicy};
use hostwire_core::client::{self as core, CandidateConfig, Connection};
use hostwire_core::fault::CloseReason;
use hostwire_core::outcome::{NotSentCode, Outcome};
use hostwire_core::time::Instant;
use std::fmt;
use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

pub(super) type BoxSleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where generations come from.
pub(super) enum Source {
    Discovery(Location),
    /// One connected stream, for one generation.
    Stream(Option<(Ends, Credentials)>),
}

/// This side's ends of a connected stream.
pub(crate) enum Ends {
    /// Both in one socket.
    Socket(OwnedFd),
    /// A pipe for each direction.
    Pipes { input: OwnedFd, output: OwnedFd, farewell: Farewell },
}

impl Ends {
    /// Under a runtime.
    pub(crate) fn register<R: Runtime>(self, runtime: &R) -> std::io::Result<Socket<R::Io>> {
        Ok(match self {
            Self::Socket(fd) => Socket::new(runtime.register(fd)?),
            Self::Pipes { input, output, farewell } => {
                Socket::lent_pipes(runtime.register(input)?, runtime.register(output)?, farewell)
            }
        })
    }
}

pub(super) struct Managed {
    root: Arc<Root>,
    state: Mutex<State>,
    /// Operations that wait for a generation. A waiter's drop takes no lock.
    waiters: AtomicUsize,
    sleep: Box<dyn Fn(Instant) -> BoxSleep + Send + Sync>,
    start: Box<dyn Fn(Arc<Managed>) + Send + Sync>,
    retry: RetryPolicy,
}

struct State {
    session: Session,
    source: Option<Source>,
    running: bool,
    closing: bool,
    current: Option<Arc<Shared>>,
    daemon_id: Option<DaemonId>,
    generations: u64,
    incarnations: u64,
    /// Why the last attempt failed, for whoever made the client.
    failure: Option<ConnectError>,
    /// The file was read again after an authentication failure (K3).
    reread: bool,
    reason: Option<CloseReason>,
    wakers: Vec<Waker>,
}

impl fmt::Debug for Managed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Managed").finish_non_exhaustive()
    }
}

impl Managed {
    pub(super) fn new<R: Runtime>(runtime: &R, config: &ClientConfig, source: Source) -> Arc<Self> {
        let reconnect = config.reconnect && matches!(source, Source::Discovery(_));
        let policy = SessionPolicy { reconnect, setup: config.timeouts.setup, ..SessionPolicy::default() };
        let retry = config.retry;
        let (sleeper, starter, config) = (runtime.clone(), runtime.clone(), config.clone());
        Arc::new(Self {
            root: Root::new(runtime.clone()),
            state: Mutex::new(State {
                session: Session::new(policy),
                source: Some(source),
                running: false,
                closing: false,
                current: None,
                daemon_id: None,
                generations: 0,
                incarnations: 0,
                failure: None,
                reread: !reconnect, // without another attempt nothing is read again
                reason: None,
                wakers: Vec::new(),
            }),
            waiters: AtomicUsize::new(0),
            sleep: Box::new(move |at| Box::pin(sleeper.sleep_until(at))),
            start: Box::new(move |managed| {
                let guard = RunGuard { managed, ended: false };
                starter.spawn(run(starter.clone(), config.clone(), guard));
            }),
            retry,
        })
    }

    pub(super) const fn root(&self) -> &Arc<Root> {
        &self.root
    }

    pub(super) fn now(&self) -> Instant {
        self.root.now()
    }

    pub(super) const fn retry(&self) -> RetryPolicy {
        self.retry
    }

    pub(super) fn sleep(&self, at: Instant) -> BoxSleep {
        (self.sleep)(at)
    }

    /// The generation that can be used now.
    pub(super) fn live(&self) -> Option<Arc<Shared>> {
        lock(&self.state).live()
    }

    /// The last generation, live or not.
    pub(super) fn current(&self) -> Option<Arc<Shared>> {
        lock(&self.state).current.clone()
    }

    pub(super) fn daemon_id(&self) -> DaemonId {
        lock(&self.state).daemon_id.unwrap_or(DaemonId::new([0; 16]))
    }

    /// Generations and incarnations so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.generations, state.incarnations)
    }

    pub(super) fn reason(&self) -> Option<CloseReason> {
        let state = lock(&self.state);
        state.current.as_ref().map_or(state.reason, |shared| shared.close_reason())
    }

    /// A result for a request that was never made.
    pub(super) fn unsent(&self, code: NotSentCode, body: Body) -> Finished {
        let evidence = Evidence { bytes_handed: 0, attempts: 0, daemon_id: self.daemon_id() };
        Finished { outcome: Outcome::NotSent { code, body }, evidence, route: None }
    }

    /// Waits for a generation, connecting if there is none, until `deadline` (K4).
    pub(super) async fn generation(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Shared>, NotSentCode> {
        let waiting = Waiting::new(self);
        let mut timer = self.sleep(deadline);
        let found = poll_fn(|cx| {
            let code = {
                let mut state = lock(&self.state);
                if let Some(shared) = state.live() {
                    return Poll::Ready(Ok(shared));
                }
                if state.closing {
                    Some(NotSentCode::ClientClosed)
                } else if !state.may_go_on() {
                    Some(NotSentCode::ConnectionRetired)
                } else {
                    state.wait(cx);
                    None
                }
            };
            if let Some(code) = code {
                return Poll::Ready(Err(code));
            }
            self.ensure_running();
            timer.as_mut().poll(cx).map(|()| Err(NotSentCode::DeadlineExpired)) // E2
        })
        .await;
        drop(waiting);
        found
    }

    /// Waits for the outcome of the first attempt: what whoever makes a client learns.
    pub(super) async fn first(self: &Arc<Self>) -> Result<(), ConnectError> {
        let waiting = Waiting::new(self);
        let first = poll_fn(|cx| {
            {
                let mut state = lock(&self.state);
                if state.generations > 0 {
                    return Poll::Ready(Ok(()));
                }
                if let Some(failure) = state.failure.take() {
                    return Poll::Ready(Err(failure));
                }
                if !state.may_go_on() {
                    return Poll::Ready(Err(BlockingLost.into()));
                }
                state.wait(cx);
            }
            self.ensure_running();
            Poll::Pending
        })
        .await;
        drop(waiting);
        first
    }

    /// Ends the client: no generation follows this one.
    pub(super) fn close(&self) -> Option<Arc<Shared>> {
        let (current, wakers) = {
            let mut state = lock(&self.state);
            state.closing = true;
            state.session.close();
            (state.current.clone(), std::mem::take(&mut state.wakers))
        };
        wakers.into_iter().for_each(Waker::wake);
        if let Some(shared) = &current {
            shared.command(Connection::shutdown);
        }
        self.root.orphan();
        current
    }

    fn ensure_running(self: &Arc<Self>) {
        let start = !std::mem::replace(&mut lock(&self.state).running, true);
        if start {
            (self.start)(Arc::clone(self));
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let wakers = {
            let mut state = lock(&self.state);
            change(&mut state);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn is_wanted(&self) -> bool {
        !self.root.is_orphaned()
    }

    fn failed(&self, failure: ConnectError, ending: Ending) {
        let now = self.now();
        self.root.notes.attempt_failed(now, &failure);
        self.change(|state| {
            state.session.ended(now, ending);
            // K3: the session reads the file again at once, and that attempt is the one that counts.
            let rejected = matches!(ending, Ending::Closed(CloseReason::Authentication(_)));
            if !rejected || std::mem::replace(&mut state.reread, true) {
                state.failure = Some(failure);
            }
        });
    }
}

impl State {
    fn live(&self) -> Option<Arc<Shared>> {
        self.current.as_ref().filter(|shared| shared.standing().1.is_none()).cloned()
    }

    fn may_go_on(&self) -> bool {
        self.source.is_some()
    }

    fn wait(&mut self, cx: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.wakers.push(cx.waker().clone());
        }
    }
}

/// Somebody waits for a generation.
struct Waiting<'a>(&'a Managed);

impl<'a> Waiting<'a> {
    fn new(managed: &'a Managed) -> Self {
        managed.waiters.fetch_add(1, Ordering::AcqRel);
        Self(managed)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.waiters.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.root.signal.raise();
        }
    }
}

/// The task is over, by itself or with its runtime.
struct RunGuard {
    managed: Arc<Managed>,
    /// By itself: it can be started again.
    ended: bool,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let ended = self.ended;
        self.managed.change(|state| {
            state.running = false;
            if !ended {
                state.source = None;
            }
        });
    }
}

/// The client's task.
async fn run<R: Runtime>(runtime: R, config: ClientConfig, mut guard: RunGuard) {
    let managed = Arc::clone(&guard.managed);
    while managed.is_wanted() && managed.waiters.load(Ordering::Acquire) > 0 {
        let now = managed.now();
        let need = lock(&managed.state).session.need(now);
        match need {
            Need::Wait(until) => {
                let wanted = || managed.is_wanted() && managed.waiters.load(Ordering::Acquire) > 0;
                let _ = while_wanted(&managed, runtime.sleep_until(until), wanted).await;
            }
            Need::ReadDiscovery { deadline } => {
                if let Err((failure, ending)) = attempt(&runtime, &config, &managed, deadline).await {
                    managed.failed(failure, ending);
                }
            }
            Need::Nothing | Need::Dial { .. } | Need::GiveUp => {
                managed.change(|state| state.source = None);
                break;
            }
        }
    }
    guard.ended = true;
    drop(guard);
    // Somebody may have come to wait between the last look and the end.
    if managed.is_wanted() && managed.waiters.load(Ordering::Acquire) > 0 && lock(&managed.state).may_go_on()
    {
        managed.ensure_running();
    }
}

/// One attempt, and the generation that comes of it, to its end.
async fn attempt<R: Runtime>(
    runtime: &R,
    config: &ClientConfig,
    managed: &Arc<Managed>,
    deadline: Instant,
) -> Result<(), (ConnectError, Ending)> {
    let unreachable = |error| (error, Ending::Unreachable);
    let (socket, credentials) = connect(runtime, managed, deadline).await.map_err(unreachable)?;
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|_| unreachable(ConnectError::NoRandomness))?; // A2
    let daemon_id = credentials.daemon_id;
    let conn = Connection::new(
        managed.now(),
        core::Config {
            credentials,
            nonce: Nonce::new(nonce),
            role: config.role.clone(),
            offers: config.offers.clone(),
            limits: config.limits,
            timeouts: config.timeouts,
            setup_deadline: deadline,
        },
    )
    .map_err(|error| unreachable(error.into()))?;
    let shared = Shared::new(Arc::clone(&managed.root), conn, daemon_id);
    let announce = |shared: &Arc<Shared>| {
        managed.change(|state| {
            if state.session.ready(daemon_id) || state.incarnations == 0 {
                state.incarnations += 1; // K4
            }
            state.daemon_id = Some(daemon_id);
            state.generations += 1;
            state.current = Some(Arc::clone(shared));
        });
    };
    let driver = Driver::new(runtime.clone(), socket);
    let mut driving = Box::pin(drive(driver, Arc::clone(&shared), || announce(&shared)));
    let granted = poll_fn(|cx| {
        let driven = driving.as_mut().poll(cx);
        let granted = shared.take_grant();
        if granted.is_some() || driven.is_ready() { Poll::Ready(granted) } else { Poll::Pending }
    })
    .await;
    // The surviving generation is the only one that is announced (N10).
    let shared = match granted {
        None => Arc::clone(&shared),
        Some(grant) => {
            let reaching = by(runtime, managed, deadline, reach(runtime, config, &grant));
            let mut bootstrap = Bootstrap::new(driving);
            let io = bootstrap.during(reaching).await.map_err(unreachable)?;
            let io = io.map_err(|failure| unreachable(ConnectError::Candidate { failure, daemon_id }))?;
            let settings = CandidateConfig {
                grant,
                limits: config.limits,
                timeouts: config.timeouts,
                setup_deadline: deadline,
            };
            let conn =
                Connection::candidate(managed.now(), settings).map_err(|error| unreachable(error.into()))?;
            let candidate = Shared::new(Arc::clone(&managed.root), conn, daemon_id);
            let driver = Driver::new(runtime.clone(), Socket::new(io));
            let going = drive(driver, Arc::clone(&candidate), || announce(&candidate));
            go_over(&candidate, going, bootstrap).await;
            Arc::clone(&candidate)
        }
    };
    let (ready, ended) = shared.standing();
    let (reason, stage) = ended.unwrap_or((CloseReason::Abandoned, core::Stage::Authenticating));
    if !ready {
        return Err((ConnectError::Setup { reason, stage, daemon_id }, Ending::Closed(reason)));
    }
    let now = managed.now();
    managed.change(|state| {
        if shared.was_useful() {
            state.session.useful();
        }
        state.session.ended(now, Ending::Closed(reason));
        state.reason = Some(reason);
    });
    Ok(())
}

/// From nothing to a connected socket and whom to expect at its other end.
async fn connect<R: Runtime>(
    runtime: &R,
    managed: &Arc<Managed>,
    deadline: Instant,
) -> Result<(Socket<R::Io>, Credentials), ConnectError> {
    let location = {
        let mut state = lock(&managed.state);
        match &mut state.source {
            Some(Source::Discovery(location)) => Ok(location.clone()),
            Some(Source::Stream(stream)) => Err(stream.take()),
            None => Err(None),
        }
    };
    let location = match location {
        Ok(location) => location,
        Err(stream) => {
            let (ends, credentials) = stream.ok_or(ConnectError::TimedOut)?;
            advance(managed);
            return Ok((ends.register(runtime).map_err(ConnectError::Dial)?, credentials));
        }
    };
    // D7: the file is read for every attempt.
    let reading = read_shared(runtime, &location);
    let document = by(runtime, managed, deadline, reading).await??.map_err(ConnectError::Discovery)?;
    advance(managed);
    let dialling = connect_tcp(runtime, document.port.get());
    let io = by(runtime, managed, deadline, dialling).await?.map_err(ConnectError::Dial)?;
    Ok((Socket::new(io), document.credentials))
}

/// The session's next stage, within the attempt's one deadline.
fn advance(managed: &Managed) {
    let now = managed.now();
    let mut state = lock(&managed.state);
    state.session.discovered();
    let _dial = state.session.need(now);
}

/// E1: a stage shares the one deadline, and nobody goes on for a client that is gone.
async fn by<R: Runtime, T>(
    runtime: &R,
    managed: &Managed,
    deadline: Instant,
    stage: impl Future<Output = T>,
) -> Result<T, ConnectError> {
    let mut stage = pin!(stage);
    let both = async {
        let mut timer = pin!(runtime.sleep_until(deadline));
        poll_fn(|cx| {
            if let Poll::Ready(done) = stage.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            timer.as_mut().poll(cx).map(|()| None)
        })
        .await
    };
    while_wanted(managed, both, || managed.is_wanted()).await.flatten().ok_or(ConnectError::TimedOut)
}

/// Goes on while `wanted`, which is asked again whenever the signal is raised.
async fn while_wanted<T>(
    managed: &Managed,
    future: impl Future<Output = T>,
    wanted: impl Fn() -> bool,
) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        managed.root.signal.listen(cx);
        if !wanted() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(cx).map(Some)
    })
    .await
}
