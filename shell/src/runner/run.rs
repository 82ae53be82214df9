//! One run: its child, its replay, and who listens.
//!
//! Owns the pacing. Invariants: a run belongs to no connection; a subscriber that is gone holds nothing; without `lossless` nothing that a
//! subscriber does or leaves undone reaches the command.

use super::replay::{At, Replay};
use crate::host::bell::Bell;
use crate::process::Session;
use crate::runtime::Runtime;
use crate::sync::lock;
use bytes::Bytes;
use hostwire_core::child::Ended;
use hostwire_core::time::Instant;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

pub(super) struct Run<R: Runtime> {
    pub(super) session: Session<R>,
    runtime: R,
    lossless: bool,
    hold: Duration,
    state: Mutex<State>,
    bell: Bell,
}

struct State {
    replay: Replay,
    /// All of its output is in the replay.
    ended: Option<Arc<Ended>>,
    /// What each subscriber has not taken yet.
    subscribers: BTreeMap<u64, u64>,
    next_subscriber: u64,
    /// Everything below was taken by somebody.
    taken: u64,
    /// Until when the next subscriber is waited for.
    held_until: Instant,
    /// The command is not read on: there is no room.
    full: bool,
}

/// What comes next for a subscriber.
pub(super) enum Next {
    Item(Bytes),
    Gap {
        from: u64,
        to: u64,
    },
    /// What is there is sent, and more comes only when it is taken.
    Full,
    Ended(Arc<Ended>),
}

impl<R: Runtime> Run<R> {
    pub(super) fn new(
        runtime: &R,
        session: Session<R>,
        replay: usize,
        lossless: bool,
        hold: Duration,
    ) -> Arc<Self> {
        let state = State {
            replay: Replay::new(replay),
            ended: None,
            subscribers: BTreeMap::new(),
            next_subscriber: 0,
            taken: 0,
            held_until: runtime.now() + hold,
            full: false,
        };
        let (state, bell) = (Mutex::new(state), Bell::default());
        Arc::new(Self { session, runtime: runtime.clone(), lossless, hold, state, bell })
    }

    /// Takes the child's output to its end.
    pub(super) async fn pump(self: Arc<Self>) {
        while let Some((stream, bytes)) = self.session.read().await {
            self.room(bytes.len()).await;
            lock(&self.state).replay.push(stream, &bytes);
            self.bell.ring();
        }
        let ended = self.session.ended().await;
        lock(&self.state).ended = Some(Arc::new(ended));
        self.bell.ring();
    }

    /// Waits until output may be added: where losing none was asked for, until what would make room was taken.
    async fn room(&self, bytes: usize) {
        if !self.lossless {
            return;
        }
        loop {
            let hold = {
                let mut state = lock(&self.state);
                let free = state.make_room(bytes);
                let held = !state.subscribers.is_empty() || state.held_until > self.runtime.now();
                state.full = !free && held;
                if !state.full {
                    return;
                }
                // With a subscriber it is for that to move on.
                if state.subscribers.is_empty() { state.held_until } else { Instant::FAR_FUTURE }
            };
            self.bell.ring();
            let waits = hold < Instant::FAR_FUTURE;
            let mut changed = self.bell.until(|| {
                let mut state = lock(&self.state);
                let free = state.make_room(bytes);
                (free || waits != state.subscribers.is_empty()).then_some(())
            });
            let mut timer = waits.then(|| Box::pin(self.runtime.sleep_until(hold)));
            poll_fn(|cx| {
                if Pin::new(&mut changed).poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                match &mut timer {
                    Some(timer) => timer.as_mut().poll(cx),
                    None => Poll::Pending,
                }
            })
            .await;
        }
    }

    /// First and next index, and the end if it has come.
    pub(super) fn standing(&self) -> (u64, u64, Option<Arc<Ended>>) {
        let state = lock(&self.state);
        (state.replay.first(), state.replay.next(), state.ended.clone())
    }

    /// Listens from `from` on. `window`: what is sent counts as taken only when a later subscription says so.
    pub(super) fn subscribe(self: &Arc<Self>, from: u64, window: bool) -> Subscriber<R> {
        let mut state = lock(&self.state);
        let key = state.next_subscriber;
        state.next_subscriber += 1;
        state.subscribers.insert(key, from);
        state.taken = state.taken.max(from);
        drop(state);
        self.bell.ring();
        Subscriber { run: Arc::clone(self), key, at: from, window }
    }
}

impl State {
    fn make_room(&mut self, bytes: usize) -> bool {
        let taken = self.unread();
        self.replay.make_room(bytes, taken)
    }

    /// The oldest index that somebody has yet to take.
    fn unread(&self) -> u64 {
        self.subscribers.values().copied().min().unwrap_or(self.taken)
    }
}

/// One who listens.
pub(super) struct Subscriber<R: Runtime> {
    run: Arc<Run<R>>,
    key: u64,
    at: u64,
    window: bool,
}

impl<R: Runtime> Subscriber<R> {
    pub(super) async fn next(&mut self) -> Next {
        let (at, window) = (self.at, self.window);
        let run = Arc::clone(&self.run);
        let waited = run.bell.until(|| {
            let state = lock(&run.state);
            match state.replay.at(at) {
                At::Item(item) => Some(Next::Item(item)),
                At::Gone(first) => Some(Next::Gap { from: at, to: first }),
                At::Later => match &state.ended {
                    Some(ended) => Some(Next::Ended(Arc::clone(ended))),
                    None if state.full && window => Some(Next::Full),
                    None => None,
                },
            }
        });
        let next = waited.await;
        match &next {
            Next::Item(_) => self.at += 1,
            Next::Gap { to, .. } => self.at = *to,
            Next::Full | Next::Ended(_) => {}
        }
        next
    }

    /// What was given so far has been sent on.
    pub(super) fn sent(&self) {
        if !self.window {
            let mut state = lock(&self.run.state);
            state.subscribers.insert(self.key, self.at);
            state.taken = state.taken.max(self.at);
            drop(state);
            self.run.bell.ring();
        }
    }
}

impl<R: Runtime> Drop for Subscriber<R> {
    fn drop(&mut self) {
        let mut state = lock(&self.run.state);
        state.subscribers.remove(&self.key);
        state.held_until = self.run.runtime.now() + self.run.hold;
        drop(state);
        self.run.bell.ring();
    }
}
