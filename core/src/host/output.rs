//! Output: what is queued, and what each accepted byte means for requests, permits, the latch and probes.

use super::connection::{Connection, Phase};
use super::end::End;
use super::event::Event;
use super::requests::{Act, Entry, RequestId, State};
use crate::body::Body;
use crate::control::{HostCode, RouteClass};
use crate::endpoint::WriteFailure;
use crate::fault::ApiMisuse;
use crate::time::Instant;
use crate::transmit::{FrameKey, Head, Offer, Outgoing, Transmit};
use crate::wire::{Correlation, Flags, FrameType, Header, Identity};

/// What a queued frame is, to be remembered when its bytes leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) kind: FrameType,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An authentication message: no envelope.
    Auth,
    /// The terminal of an admitted request.
    Terminal(RequestId),
    /// The success of `host.shutdown` that owns the attempt (H1).
    Shutdown(RequestId),
    Item,
    /// A refusal, without a permit.
    Refusal,
    /// The refusal of the over-size control body that is arriving (C1).
    Early(Correlation),
    Ping,
    /// The success of a candidate's commit (N11).
    Commit,
    Other,
}

/// The early terminal of an over-size control body, while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Early {
    pub(super) corr: Correlation,
    pub(super) key: FrameKey,
}

impl Connection {
    /// The next bytes to write. Without anything between, idempotent (CC1).
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let now = self.clock.observe(now);
        let offer = self.outbox.offer()?;
        Some(Transmit::new(self, offer, now))
    }

    pub(super) fn push(
        &mut self,
        now: Instant,
        identity: Identity,
        kind: FrameType,
        binary: bool,
        body: Body,
        what: What,
    ) -> FrameKey {
        let flags = match kind {
            FrameType::StreamData => Flags::data(binary, crate::wire::Priority::Interactive), // W11
            FrameType::Request
            | FrameType::Response
            | FrameType::Push
            | FrameType::StreamEnd
            | FrameType::Error
            | FrameType::Cancel
            | FrameType::Ping
            | FrameType::Pong
            | FrameType::Hello
            | FrameType::HelloAck
            | FrameType::Goodbye => Flags::terminal(binary), // W11
        };
        // W10: the length is the body's own. Bodies over 64 MiB were refused before they came here.
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let header = Header { len, kind, flags, identity }; // F9
        self.outbox.push_data(now, Head::envelope(&header), body, Sent { kind, what })
    }

    /// B6: a refusal needs no permit and no task; it counts against the pause instead.
    pub(super) fn refuse(&mut self, now: Instant, identity: Identity, code: HostCode) {
        // C9: it ends its own correlation only.
        self.push(now, identity, FrameType::Error, false, Body::from_static(code.body()), What::Refusal);
        self.refused(now, code);
    }

    pub(super) fn refuse_early(&mut self, now: Instant, corr: Correlation) {
        let code = HostCode::InvalidControlRequest;
        let body = Body::from_static(code.body());
        let key = self.push(now, Identity::Control(corr), FrameType::Error, false, body, What::Early(corr));
        self.early = Some(Early { corr, key });
        self.refused(now, code);
    }

    fn refused(&mut self, now: Instant, code: HostCode) {
        self.refusals += 1;
        self.counters.refused.count(code);
        if self.refusals == self.shared.limits.writer_frames {
            self.counters.pauses += 1;
            self.liveness.set_paused(now, true); // L2: the clock stands
        }
    }

    /// Queues the terminal of an admitted request; its permit goes with the first byte (B9).
    pub(super) fn terminal(
        &mut self,
        now: Instant,
        id: RequestId,
        kind: FrameType,
        binary: bool,
        body: Body,
    ) {
        let Some(entry) = self.requests.get(id) else { return };
        let identity = entry.identity();
        self.push(now, identity, kind, binary, body, What::Terminal(id));
    }

    /// Answers a control request at once: a terminal, and the permit that it holds until it leaves.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        corr: Correlation,
        class: RouteClass,
        reply: Result<Body, HostCode>,
    ) {
        let identity = Identity::Control(corr);
        let Some(id) = self.requests.admit(Entry::control(corr, State::Finishing, class)) else {
            return self.refuse(now, identity, HostCode::ServerBusy);
        };
        match reply {
            Ok(body) => {
                self.counters.settled.response += 1;
                self.terminal(now, id, FrameType::Response, false, body);
            }
            Err(code) => {
                self.counters.settled.error += 1;
                self.terminal(now, id, FrameType::Error, false, Body::from_static(code.body()));
            }
        }
    }

    /// The terminals that carry nothing of the embedder's.
    pub(super) fn say(&mut self, now: Instant, id: RequestId, act: Act) {
        match act {
            Act::Cancelled | Act::TellCancelled => {
                self.counters.settled.cancelled += 1;
                self.terminal(
                    now,
                    id,
                    FrameType::Error,
                    false,
                    Body::from_static(HostCode::Cancelled.body()),
                );
            }
            Act::Internal => {
                self.counters.settled.internal_error += 1;
                self.terminal(
                    now,
                    id,
                    FrameType::Error,
                    false,
                    Body::from_static(HostCode::InternalError.body()),
                );
            }
            Act::StreamEnd => {
                self.counters.settled.stream_end += 1;
                self.terminal(now, id, FrameType::StreamEnd, false, Body::default());
            }
            Act::Nothing
            | Act::Dispatch
            | Act::Item
            | Act::RefuseItem
            | Act::Response
            | Act::Error
            | Act::Tell => {}
        }
    }

    fn began(&mut self, now: Instant, what: What) {
        match what {
            // B9: the first byte of the terminal is out; nothing of the request stays (X6).
            What::Terminal(id) | What::Shutdown(id) => drop(self.requests.remove(id)),
            What::Item => self.items = self.items.saturating_sub(1),
            What::Refusal => self.refusal_left(now),
            What::Early(corr) => {
                self.early.take_if(|early| early.corr == corr);
                self.refusal_left(now);
            }
            What::Auth | What::Ping | What::Commit | What::Other => {}
        }
    }

    fn refusal_left(&mut self, now: Instant) {
        // Reading stops at the limit, so that one fewer is below it.
        self.refusals = self.refusals.saturating_sub(1);
        self.liveness.set_paused(now, false);
    }

    fn left(&mut self, now: Instant, sent: Sent) {
        match sent.what {
            What::Auth => return,
            What::Shutdown(_) => {
                if let Some(attempt) = self.attempt.take()
                    && self.shared.latch.commit(attempt)
                {
                    self.events.push_back(Event::ShutdownCommitted); // H1: the last byte is out
                }
                self.latch_moved(now);
            }
            What::Ping => self.liveness.written(now),
            What::Commit => self.commit_written(now),
            What::Terminal(_) | What::Item | What::Refusal | What::Early(_) | What::Other => {}
        }
        self.counters.sent.count(sent.kind);
    }
}

impl Outgoing for Connection {
    fn gather<'s>(&'s self, offer: Offer, out: &mut [&'s [u8]]) -> usize {
        self.outbox.gather(offer, out)
    }

    fn accepted(&mut self, now: Instant, n: usize) {
        self.counters.sent.bytes += n as u64;
        let mut left = n;
        while let Some(progress) = self.outbox.accept(now, &mut left) {
            if progress.began {
                self.began(now, progress.owner.what);
            }
            if progress.finished {
                self.left(now, progress.owner);
            }
        }
        self.requests.give_back(); // B9: once for all terminals that have begun
        // A slot is free with an item's first byte, its memory with its last: either is worth another try.
        if self.room_wanted && self.items < self.shared.limits.writer_frames {
            self.room_wanted = false;
            self.events.push_back(Event::Room);
        }
        self.flushed(now);
    }

    fn write_failed(&mut self, now: Instant, _offer: Offer, _how: WriteFailure) {
        // The host claims nothing about what it sent; a failed write is an I/O error (G3).
        if !matches!(self.phase, Phase::Closed) {
            self.end(now, End::Io);
        }
    }

    fn misused(&mut self, now: Instant, _offer: Offer, how: ApiMisuse) {
        self.end(now, End::Misuse(how));
    }
}
