//! The handle of one child.
//!
//! Owns the lock around the engine and the task that polls it. Invariants: the lock is held for one step, never across an await, never while
//! wakers run; when the last handle goes the child's group has been killed and every descriptor closed before the drop returns (PA4), and
//! the same when the runtime drops the task (PA5).

use super::engine::{Engine, Observer};
use super::linux::{is_subreaper, spawn};
use super::pool::Slot;
use super::port::Spawned;
use crate::client::Ends;
use crate::drive::Signal;
use crate::host::bell::Bell;
use crate::runtime::Runtime;
use crate::socket::Farewell;
use crate::sync::lock;
use hostwire_core::child::{
    CallId, Cause, Config, ControlKey, Ended, OutboxCounters, Refused, ReplySlot, Settled, Stage, State,
    Stream,
};
use hostwire_core::time::Instant;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// What goes with a child besides its [`Config`].
#[derive(Clone, Default)]
pub struct Extras {
    /// Told of each teardown that had more to do than to watch (PD29).
    pub observer: Option<Observer>,
}

impl fmt::Debug for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extras").field("observer", &self.observer.is_some()).finish()
    }
}

struct Shared<R: Runtime> {
    engine: Mutex<Engine<R>>,
    signal: Signal,
    bell: Bell,
}

impl<R: Runtime> Shared<R> {
    /// One step from outside the task; then both sides look again.
    fn step<T>(&self, step: impl FnOnce(&mut Engine<R>) -> T) -> T {
        let done = step(&mut lock(&self.engine));
        self.signal.raise();
        self.bell.ring();
        done
    }

    fn abandon(&self) {
        let mut engine = lock(&self.engine);
        if engine.ended().is_none() {
            engine.abandon();
        }
        drop(engine);
        self.signal.raise();
        self.bell.ring();
    }
}

/// One child process: cheap to clone, usable from any thread.
///
/// **Drop.** When the last clone is gone before the child has ended, the child is *abandoned*: its group is killed, its pipes are closed and
/// its slot is free before the drop returns; nothing is awaited and nothing spawned. For the polite order of things call
/// [`Session::close`] and await [`Session::ended`].
pub struct Session<R: Runtime> {
    handle: Arc<Handle<R>>,
}

impl<R: Runtime> Clone for Session<R> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

struct Handle<R: Runtime> {
    shared: Arc<Shared<R>>,
    pid: u32,
}

impl<R: Runtime> Drop for Handle<R> {
    fn drop(&mut self) {
        self.shared.abandon();
    }
}

/// The task is over, by itself or with its runtime.
struct Task<R: Runtime>(Arc<Shared<R>>);

impl<R: Runtime> Drop for Task<R> {
    fn drop(&mut self) {
        self.0.abandon(); // PA5
    }
}

impl<R: Runtime> Session<R> {
    /// Starts `command` in a group of its own, with pipes for its output and, if the configuration says so, for its input.
    ///
    /// # Errors
    /// As the system reports; nothing is left.
    pub fn spawn(runtime: &R, command: Command, config: Config) -> io::Result<Self> {
        Self::spawn_with(runtime, command, config, None, Extras::default())
    }

    /// The same in a slot of a pool, and with extras.
    ///
    /// # Errors
    /// As the system reports; nothing is left, and the slot is free.
    pub fn spawn_with(
        runtime: &R,
        command: Command,
        config: Config,
        slot: Option<Slot>,
        extras: Extras,
    ) -> io::Result<Self> {
        let spawned = spawn(command, config.stdin)?;
        Self::adopt(runtime, spawned, Config { sweep: is_subreaper(), ..config }, slot, extras)
    }

    /// Takes a child that is there already.
    ///
    /// # Errors
    /// A descriptor cannot be registered: the child is killed.
    pub fn adopt(
        runtime: &R,
        spawned: Spawned,
        config: Config,
        slot: Option<Slot>,
        extras: Extras,
    ) -> io::Result<Self> {
        let pid = spawned.pid;
        let engine = Engine::new(runtime, spawned, config, extras.observer, slot)?;
        let shared =
            Arc::new(Shared { engine: Mutex::new(engine), signal: Signal::default(), bell: Bell::default() });
        // PD27: registered before anything else can happen; a task that is dropped unpolled kills it.
        let session = Self { handle: Arc::new(Handle { shared: Arc::clone(&shared), pid }) };
        let task = Task(shared);
        runtime.spawn(async move {
            let Task(shared) = &task;
            poll_fn(|cx| {
                shared.signal.listen(cx);
                let (changed, polled) = {
                    let mut engine = lock(&shared.engine);
                    if engine.ended().is_some() { (true, Poll::Ready(())) } else { engine.poll(cx) }
                };
                if changed {
                    shared.bell.ring();
                }
                polled
            })
            .await;
        });
        Ok(session)
    }

    fn step<T>(&self, step: impl FnOnce(&mut Engine<R>) -> T) -> T {
        self.handle.shared.step(step)
    }

    fn look<T>(&self, look: impl FnOnce(&Engine<R>) -> T) -> T {
        look(&lock(&self.handle.shared.engine))
    }

    /// The leader's number, and its group's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.handle.pid
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.look(|engine| engine.core.state())
    }

    /// Why its end has begun, once it has.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.look(|engine| engine.core.cause())
    }

    /// Which one of its line it is.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.look(|engine| engine.core.generation())
    }

    /// TD: it has ended and nothing of it is left.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.look(|engine| engine.core.is_settled())
    }

    // Output.

    /// The next output of a delivered stream, in the order of its arrival; `None` at the end. Cancel-safe: it takes nothing unless it is
    /// ready.
    pub async fn read(&self) -> Option<(Stream, Vec<u8>)> {
        let Shared { bell, engine, signal } = &*self.handle.shared;
        let (taken, has_room) = bell
            .until(|| {
                let mut engine = lock(engine);
                match engine.take_output() {
                    Some((output, has_room)) => Some((Some(output), has_room)),
                    None if engine.ended().is_some() => Some((None, false)),
                    None => None,
                }
            })
            .await;
        if has_room {
            signal.raise();
        }
        taken
    }

    /// What waits to be read, without waiting.
    #[must_use]
    pub fn try_read(&self) -> Option<(Stream, Vec<u8>)> {
        self.step(|engine| engine.take_output().map(|(output, _)| output))
    }

    // Input.

    /// Queues a call, waiting for room until `deadline` (PB3). `notice` tells the child of a cancel; a call that may not be cancelled has
    /// none (PB7).
    ///
    /// # Errors
    /// [`Refused`]: nothing of it was sent.
    pub async fn call(
        &self,
        bytes: Vec<u8>,
        notice: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<CallId, Refused> {
        let runtime = self.look(|engine| engine.runtime().clone());
        let mut timer = pin!(runtime.sleep_until(deadline));
        let mut room = self.handle.shared.bell.until(|| {
            let admitted = self.look(|engine| engine.core.outbox().admit(bytes.len()));
            (admitted != Err(Refused::QueueFull)).then_some(())
        });
        let waited = poll_fn(|cx| {
            use std::future::Future;
            if std::pin::Pin::new(&mut room).poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            timer.as_mut().poll(cx).map(|()| false)
        })
        .await;
        drop(room);
        if waited { self.try_call(bytes, notice, deadline) } else { Err(Refused::QueueFull) }
    }

    /// Queues a call, or refuses it at once.
    ///
    /// # Errors
    /// [`Refused`]: nothing of it was sent.
    pub fn try_call(
        &self,
        bytes: Vec<u8>,
        notice: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<CallId, Refused> {
        self.step(|engine| {
            let now = engine.now();
            engine.core.outbox_mut().call(now, bytes, notice, deadline)
        })
    }

    /// A call's answer is there. False: it had ended before (PB11).
    #[must_use]
    pub fn answered(&self, call: CallId) -> bool {
        self.step(|engine| engine.core.outbox_mut().answered(call))
    }

    /// Gives a call up (PB7, PB8).
    pub fn cancel(&self, call: CallId) {
        self.step(|engine| {
            let now = engine.now();
            engine.core.outbox_mut().cancel(now, call);
        });
    }

    /// The next call that has ended without an answer, with what of it was sent.
    #[must_use]
    pub fn try_settled(&self) -> Option<Settled> {
        self.step(|engine| engine.core.outbox_mut().poll_settled())
    }

    /// Queues a control frame in the lane of its own.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn control(&self, key: ControlKey, bytes: Vec<u8>) -> Result<(), Refused> {
        self.step(|engine| {
            let now = engine.now();
            engine.core.outbox_mut().control(now, key, bytes)
        })
    }

    /// Queues telemetry: the oldest makes room for the newest.
    pub fn notify(&self, bytes: Vec<u8>) -> bool {
        self.step(|engine| {
            let now = engine.now();
            engine.core.outbox_mut().notify(now, bytes)
        })
    }

    /// Reserves room for a reply that is owed (PB3).
    #[must_use]
    pub fn reserve_reply(&self, bytes: usize) -> Option<ReplySlot> {
        self.step(|engine| engine.core.outbox_mut().reserve_reply(bytes))
    }

    /// Queues a reply in its room.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn reply(&self, slot: ReplySlot, bytes: Vec<u8>) -> Result<(), Refused> {
        self.step(|engine| {
            let now = engine.now();
            engine.core.outbox_mut().reply(now, slot, bytes)
        })
    }

    /// Closes the child's input behind what is queued.
    pub fn finish_input(&self) {
        self.step(|engine| engine.core.finish_input());
    }

    /// What the queue has counted.
    #[must_use]
    pub fn counters(&self) -> OutboxCounters {
        self.look(|engine| engine.core.outbox().counters())
    }

    /// Lends our ends of its input and output to a connection. When that has closed them, what the child still says is read here.
    ///
    /// The child's input is the connection's alone from here on: its closing is the end of it (LX8).
    pub(crate) fn lend(&self) -> io::Result<Ends> {
        let (input, output) = self.step(Engine::lend)?;
        let shared = Arc::downgrade(&self.handle.shared);
        let tell = move || {
            if let Some(shared) = shared.upgrade() {
                shared.step(Engine::take_back);
            }
        };
        // What is read from is the child's output.
        Ok(Ends::Pipes { input: output, output: input, farewell: Farewell(Some(Box::new(tell))) })
    }

    // Making and ending.

    /// The making has come so far.
    pub fn advance_to(&self, stage: Stage) {
        self.step(|engine| engine.core.advance_to(stage));
    }

    /// It is ready. False: it has ended meanwhile (PA12).
    #[must_use]
    pub fn ready(&self) -> bool {
        self.step(|engine| engine.core.ready())
    }

    /// Begins the end, for the first cause that comes; later ones change nothing (PA3).
    pub fn close(&self, cause: Cause) {
        self.step(|engine| {
            let now = engine.now();
            engine.core.close(now, cause);
        });
    }

    /// Resolves when the end has begun, whoever began it.
    pub async fn closing(&self) {
        let shared = &self.handle.shared;
        shared
            .bell
            .until(|| {
                let state = lock(&shared.engine).core.state();
                matches!(state, State::Closing(_) | State::Closed).then_some(())
            })
            .await;
    }

    /// Waits for the end, and gives the same value to everybody who asks. Asks for nothing by itself. Cancel-safe.
    pub async fn ended(&self) -> Ended {
        let shared = &self.handle.shared;
        shared.bell.until(|| lock(&shared.engine).ended().cloned()).await
    }

    /// The end, if it has come.
    #[must_use]
    pub fn try_ended(&self) -> Option<Ended> {
        self.look(|engine| engine.ended().cloned())
    }

    /// A frame that looks like a result: the last one counts (PD15).
    pub fn note_result(&self, result: Vec<u8>) {
        self.step(|engine| {
            let now = engine.now();
            engine.core.note_result(now, result);
        });
    }

    /// The protocol says that nothing more is owed: once it is silent for its linger time the child may be ended (PD14).
    pub fn note_nothing_owed(&self) {
        self.step(|engine| engine.core.note_nothing_owed());
    }

    /// The last result so far.
    #[must_use]
    pub fn result(&self) -> Option<Vec<u8>> {
        self.look(|engine| engine.core.result().map(<[u8]>::to_vec))
    }
}

impl<R: Runtime> fmt::Debug for Session<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("pid", &self.pid())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
