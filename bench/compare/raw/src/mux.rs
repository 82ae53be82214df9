//! *mux*, the pilot's prototype: a call API over one task per connection, a slab of waiters under one mutex, handlers called in
//! line. No outcomes, budgets, deadlines or JSON: what the shape costs without the protocol.

use crate::ceiling::{Source, filler};
use crate::frames::{END, Frame, Header, LARGE, REQUEST, RESPONSE, Reader, STREAM, Wire, Writer};
use futures::task::AtomicWaker;
use harness::{Client, Rt};
use slab::Slab;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

enum Slot {
    Waits(Option<Waker>),
    Done(Vec<u8>),
    Stream { queue: VecDeque<Vec<u8>>, ended: bool, waker: Option<Waker> },
}

struct State {
    out: Vec<u8>,
    large: Vec<(Header, Vec<u8>)>,
    slots: Slab<Slot>,
    /// The task knows of output.
    told: bool,
    /// A stream is read too slowly.
    stalled: bool,
    closed: bool,
}

struct Inner {
    state: Mutex<State>,
    task: AtomicWaker,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under it")
    }
}

/// Ends its connection with its last clone.
struct Owner(Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.task.wake();
    }
}

#[derive(Clone)]
pub struct Mux {
    inner: Arc<Inner>,
    _owner: Arc<Owner>,
}

impl Mux {
    pub fn start(rt: Rt, mut wire: impl Wire) -> Self {
        let state = State {
            out: Vec::with_capacity(16 << 10),
            large: Vec::new(),
            slots: Slab::with_capacity(64),
            told: false,
            stalled: false,
            closed: false,
        };
        let inner = Arc::new(Inner { state: Mutex::new(state), task: AtomicWaker::new() });
        let shared = Arc::clone(&inner);
        let (mut reader, mut out) = (Reader::new(), Writer::default());
        rt.detach(poll_fn(move |cx| {
            shared.task.register(cx.waker());
            loop {
                {
                    let mut state = shared.lock();
                    state.told = false;
                    if state.closed {
                        return Poll::Ready(());
                    }
                    if out.bytes < 8 << 20 {
                        out.push_encoded(&state.out);
                        state.out.clear();
                        state.large.drain(..).for_each(|(header, body)| out.push_large(header, body));
                    }
                    if state.stalled {
                        drop(state);
                        let _ = out.poll_flush(cx, &mut wire);
                        return Poll::Pending;
                    }
                }
                if out.bytes > 0
                    && let Poll::Ready(Err(_)) = out.poll_flush(cx, &mut wire)
                {
                    return Poll::Ready(());
                }
                match reader.poll_fill(cx, &mut wire) {
                    Poll::Ready(Ok(1..)) => shared.hand_out(&mut reader),
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        }));
        Self { _owner: Arc::new(Owner(Arc::clone(&inner))), inner }
    }

    fn submit(&self, kind: u8, slot: Slot, body: Vec<u8>) -> usize {
        let mut state = self.inner.lock();
        let key = state.slots.insert(slot);
        let header = Header { len: body.len(), kind, corr: key as u64 };
        if body.len() >= LARGE {
            state.large.push((header, body));
        } else {
            state.out.extend_from_slice(&header.encode());
            state.out.extend_from_slice(&body);
        }
        let told = std::mem::replace(&mut state.told, true);
        drop(state);
        if !told {
            self.inner.task.wake();
        }
        key
    }
}

impl Inner {
    fn hand_out(&self, reader: &mut Reader) {
        let mut state = self.lock();
        while let Some(frame) = reader.next() {
            let (header, body) = match frame {
                Frame::Small(header, body) => (header, body.to_vec()),
                Frame::Large(header, body) => (header, body),
            };
            let slot = &mut state.slots[header.corr as usize];
            let waker = match slot {
                Slot::Waits(waker) => {
                    let waker = waker.take();
                    *slot = Slot::Done(body);
                    waker
                }
                Slot::Stream { queue, ended, waker } => {
                    let waker = waker.take();
                    if header.kind == END {
                        *ended = true;
                    } else {
                        queue.push_back(body);
                    }
                    let full = queue.len() > 512;
                    state.stalled |= full;
                    waker
                }
                Slot::Done(_) => unreachable!("one answer each"),
            };
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl Client for Mux {
    async fn call(&self, body: Vec<u8>) -> usize {
        let key = self.submit(REQUEST, Slot::Waits(None), body);
        let answer = poll_fn(|cx| {
            let mut state = self.inner.lock();
            if let Slot::Waits(waker) = &mut state.slots[key] {
                *waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let Slot::Done(body) = state.slots.remove(key) else { unreachable!("a call's slot") };
            Poll::Ready(body)
        });
        answer.await.len()
    }

    async fn stream(&self, items: u64, size: usize) -> u64 {
        let slot = Slot::Stream { queue: VecDeque::new(), ended: false, waker: None };
        let key = self.submit(STREAM, slot, Source::ask(items, size));
        let mut got = 0;
        loop {
            let item = poll_fn(|cx| {
                let mut state = self.inner.lock();
                let State { slots, stalled, .. } = &mut *state;
                let Slot::Stream { queue, ended, waker } = &mut slots[key] else {
                    unreachable!("a stream's slot")
                };
                if let Some(item) = queue.pop_front() {
                    if *stalled && queue.len() < 256 {
                        *stalled = false;
                        self.inner.task.wake();
                    }
                    return Poll::Ready(Some(item));
                }
                if *ended {
                    slots.remove(key);
                    return Poll::Ready(None);
                }
                *waker = Some(cx.waker().clone());
                Poll::Pending
            });
            let Some(item) = item.await else { return got };
            assert_eq!(item.len(), size);
            got += 1;
        }
    }
}

/// A handler that is given an owned body and gives one back.
pub async fn serve(mut wire: impl Wire) -> io::Result<()> {
    let (mut reader, mut out) = (Reader::new(), Writer::default());
    let mut source: Option<Source> = None;
    let filler = filler();
    let handler = std::convert::identity::<Vec<u8>>;
    poll_fn(move |cx| {
        loop {
            if let Some(stream) = &mut source
                && !stream.fill(&mut out, |out, header| {
                    let item = filler[..header.len].to_vec();
                    out.push(header, &item);
                })
            {
                source = None;
            }
            let mut blocked = false;
            if out.bytes > 0 {
                match out.poll_flush(cx, &mut wire) {
                    Poll::Ready(result) => result?,
                    Poll::Pending => blocked = true,
                }
            }
            if source.is_some() {
                if blocked {
                    return Poll::Pending;
                }
                continue;
            }
            if out.bytes > 8 << 20 {
                return Poll::Pending;
            }
            match reader.poll_fill(cx, &mut wire) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
            while let Some(frame) = reader.next() {
                let (header, body) = match frame {
                    Frame::Small(header, body) => (header, body.to_vec()),
                    Frame::Large(header, body) => (header, body),
                };
                if header.kind == STREAM {
                    source = Some(Source::parse(header.corr, &body));
                    continue;
                }
                let reply = handler(body);
                let header = Header { len: reply.len(), kind: RESPONSE, ..header };
                if reply.len() >= LARGE { out.push_large(header, reply) } else { out.push(header, &reply) }
            }
        }
    })
    .await
}
