//! Making a child that is a peer: spawn, handshake, ready; or one teardown and the first reason (PA1, PA9).
//!
//! [`connect`] makes one. A [`Keeper`] makes a line of them, after the policy of
//! [`Lifecycle`]: several attempts, another when one is lost, nothing after the shutdown. Neither owns a task.

use super::session::{Extras, Session};
use crate::component::BoxFuture;
use crate::host::bell::Bell;
use crate::runtime::Runtime;
use crate::sync::lock;
use hostwire_core::child::{Cause, Config, Ended, Lifecycle, LifecycleRefused, Restart, State, Status};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

/// How long a peer may take to be ready, where its configuration does not say.
const SETUP: Duration = Duration::from_secs(10);

/// Why there is no peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no process.
    #[error("cannot start the child: {0}")]
    Spawn(#[source] io::Error),
    /// The handshake failed; the child is torn down.
    #[error("the child's handshake failed: {}", .0.report().cause.as_str())]
    Handshake(Box<Ended>),
    /// Nothing is made any more, or something is there.
    #[error(transparent)]
    Refused(#[from] LifecycleRefused),
}

impl ConnectError {
    /// The first reason (PA9).
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::Spawn(_) => Cause::SpawnFailed,
            Self::Handshake(ended) => ended.report().cause,
            Self::Refused(_) => Cause::Shutdown,
        }
    }
}

/// Starts a peer and shakes hands with it. `handshake` says when it is ready, or why it is not good; meanwhile the child's exit, the end of its
/// output and the setup's deadline end the attempt as well (PA12).
///
/// Cancel safety: dropped at any point, the child's group is killed and its descriptors are closed before the drop returns (PA4).
///
/// # Errors
/// [`ConnectError`]; the child is torn down.
pub async fn connect<R, F>(
    runtime: &R,
    command: Command,
    config: Config,
    extras: Extras,
    handshake: impl FnOnce(Session<R>) -> F,
) -> Result<Session<R>, ConnectError>
where
    R: Runtime,
    F: Future<Output = Result<(), Cause>>,
{
    let config = Config { peer: true, setup: config.setup.or(Some(SETUP)), ..config };
    let session = Session::spawn_with(runtime, command, config, None, extras).map_err(ConnectError::Spawn)?;
    greet(&session, handshake(session.clone())).await?;
    Ok(session)
}

async fn greet<R: Runtime>(
    session: &Session<R>,
    handshake: impl Future<Output = Result<(), Cause>>,
) -> Result<(), ConnectError> {
    let verdict = {
        let (mut handshake, mut closing) = (pin!(handshake), pin!(session.closing()));
        poll_fn(|cx| {
            // The session's own end first: it is the earlier reason.
            if closing.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(None));
            }
            handshake.as_mut().poll(cx).map_err(Some)
        })
        .await
    };
    match verdict {
        Ok(()) if session.ready() => return Ok(()),
        Ok(()) | Err(None) => {}
        Err(Some(cause)) => session.close(cause),
    }
    Err(ConnectError::Handshake(Box::new(session.ended().await)))
}

type Make = Box<dyn Fn() -> Command + Send + Sync>;
type Greet<R> = Box<dyn Fn(Session<R>) -> BoxFuture<'static, Result<(), Cause>> + Send + Sync>;

/// A line of peers, one at a time.
pub struct Keeper<R: Runtime> {
    runtime: R,
    config: Config,
    extras: Extras,
    make: Make,
    greet: Greet<R>,
    line: Mutex<Line<R>>,
    bell: Bell,
}

struct Line<R: Runtime> {
    lifecycle: Lifecycle,
    current: Option<Session<R>>,
}

/// An attempt that is dropped has failed (PA8), and its child goes with it (PA13).
struct Attempt<'a, R: Runtime> {
    keeper: &'a Keeper<R>,
    generation: u64,
    open: bool,
}

impl<R: Runtime> Drop for Attempt<'_, R> {
    fn drop(&mut self) {
        if self.open {
            let now = self.keeper.runtime.now();
            let gone = {
                let mut line = lock(&self.keeper.line);
                line.lifecycle.failed(now, self.generation, Cause::Dropped);
                line.current.take_if(|session| session.generation() == self.generation)
            };
            drop(gone);
            self.keeper.bell.ring();
        }
    }
}

impl<R: Runtime> Keeper<R> {
    /// A line without a child. `make` gives the command of each attempt, `greet` its handshake.
    pub fn new<F>(
        runtime: R,
        config: Config,
        extras: Extras,
        restart: Restart,
        make: impl Fn() -> Command + Send + Sync + 'static,
        greet: impl Fn(Session<R>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Cause>> + Send + 'static,
    {
        Self {
            runtime,
            config,
            extras,
            make: Box::new(make),
            greet: Box::new(move |session| Box::pin(greet(session))),
            line: Mutex::new(Line { lifecycle: Lifecycle::new(restart), current: None }),
            bell: Bell::default(),
        }
    }

    /// Where the line stands.
    #[must_use]
    pub fn status(&self) -> Status {
        lock(&self.line).lifecycle.status()
    }

    /// Reconnects that were ever scheduled (PA6).
    #[must_use]
    pub fn scheduled(&self) -> u64 {
        lock(&self.line).lifecycle.scheduled()
    }

    /// Attempts since the last success.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        lock(&self.line).lifecycle.attempts()
    }

    /// Makes a peer, in as many attempts as the policy allows. Never waits for another caller's attempt: while one is under way it is refused
    /// (PA13).
    ///
    /// Cancel safety: dropped, the attempt under way is over and its child gone; no other follows (PA8).
    ///
    /// # Errors
    /// The last attempt's.
    pub async fn connect(&self) -> Result<Session<R>, ConnectError> {
        loop {
            let generation = lock(&self.line).lifecycle.begin()?;
            let mut attempt = Attempt { keeper: self, generation, open: true };
            let error = match self.attempt(generation).await {
                Ok(session) => {
                    attempt.open = false;
                    self.bell.ring();
                    return Ok(session);
                }
                Err(error) => error,
            };
            attempt.open = false;
            let next = {
                let now = self.runtime.now();
                let mut line = lock(&self.line);
                line.current = None;
                line.lifecycle.failed(now, generation, error.cause())
            };
            match next {
                Some(at) => self.pause(at).await,
                None => return Err(error),
            }
        }
    }

    async fn attempt(&self, generation: u64) -> Result<Session<R>, ConnectError> {
        let config =
            Config { peer: true, setup: self.config.setup.or(Some(SETUP)), generation, ..self.config };
        let session = Session::spawn_with(&self.runtime, (self.make)(), config, None, self.extras.clone())
            .map_err(ConnectError::Spawn)?;
        let shut = {
            let mut line = lock(&self.line);
            line.current = Some(session.clone());
            line.lifecycle.status() == Status::Shut
        };
        if shut {
            session.close(Cause::Shutdown); // PA7: it came in between
        }
        greet(&session, (self.greet)(session.clone())).await?;
        if !lock(&self.line).lifecycle.online(generation) {
            session.close(Cause::Shutdown);
            return Err(ConnectError::Handshake(Box::new(session.ended().await)));
        }
        Ok(session)
    }

    /// Waits for a moment, or the shutdown.
    async fn pause(&self, at: hostwire_core::time::Instant) {
        let mut timer = pin!(self.runtime.sleep_until(at));
        let mut shut = pin!(self.bell.until(|| (self.status() == Status::Shut).then_some(())));
        poll_fn(|cx| {
            if shut.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            timer.as_mut().poll(cx)
        })
        .await;
    }

    /// Watches the present child to its end, and makes the next one if it was lost and the policy says so. To be awaited by whoever wants the
    /// line kept up; without it nothing is made by itself.
    ///
    /// # Errors
    /// As [`Keeper::connect`]; [`LifecycleRefused::Shut`] when nothing follows.
    pub async fn next(&self) -> Result<Session<R>, ConnectError> {
        let current = lock(&self.line).current.clone();
        let session = current.ok_or(LifecycleRefused::Shut)?;
        session.closing().await;
        let generation = session.generation();
        lock(&self.line).lifecycle.closing(generation); // PA6
        let ended = session.ended().await;
        let due = {
            let now = self.runtime.now();
            let mut line = lock(&self.line);
            line.current = None;
            line.lifecycle.ended(now, generation, ended.report().cause)
        };
        self.pause(due.ok_or(LifecycleRefused::Shut)?).await;
        self.connect().await
    }

    /// Ends the line for good, and waits for its child's end, if there is one.
    pub async fn shutdown(&self) -> Option<Ended> {
        let current = {
            let mut line = lock(&self.line);
            line.lifecycle.shut();
            line.current.take()
        };
        self.bell.ring();
        let session = current?;
        session.close(Cause::Shutdown);
        Some(session.ended().await)
    }
}

impl<R: Runtime> fmt::Debug for Keeper<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl<R: Runtime> Session<R> {
    /// Whether it can be used.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.state() == State::Online
    }
}

/// Several children's ends at once: all are begun before the first is awaited, so that they take one budget together (PA10).
pub async fn close_all<R: Runtime>(sessions: &[Session<R>], cause: Cause) -> Vec<Ended> {
    sessions.iter().for_each(|session| session.close(cause));
    let mut all = Vec::with_capacity(sessions.len());
    for session in sessions {
        all.push(session.ended().await);
    }
    all
}

/// Shared so that an observer can be given to several.
impl Extras {
    /// Extras with an observer.
    pub fn observed(observer: impl Fn(&hostwire_core::child::Report) + Send + Sync + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)) }
    }
}
