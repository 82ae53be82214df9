//! What each frame of the host does: matched by its whole identity (Q4), stale ones dropped (F2), wrong ones fatal (F1).

use super::connection::{Connection, Owner, State};
use super::event::{Event, Item};
use super::pending::{Kind, Op, OpId};
use crate::control::{ErrorBody, decode_catalog, decode_route_opened, decode_shutdown_committed};
use crate::fault::{CloseReason, PeerMisbehaved};
use crate::limits::CONTROL_SLOTS;
use crate::outcome::{LocalCode, NotSentCode, Terminal, UnknownCode};
use crate::receive::{Payload, Plan};
use crate::time::Instant;
use crate::wire::{Correlation, Flags, FrameType, Header, Identity, RouteHandle, Sender, judge};
use alloc::sync::Arc;

impl Connection {
    /// Reads frames until the input or the room for events is used up. Returns how much was consumed.
    pub(super) fn read_frames(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut input = bytes;
        loop {
            if self.rx.is_leased() {
                if !input.is_empty() {
                    self.close(CloseReason::Misuse(crate::fault::ApiMisuse::InputDuringLease));
                }
                break;
            }
            if self.rx.in_body() {
                match self.rx.fill(&mut input) {
                    Some((header, payload)) => self.on_frame(now, &header, payload),
                    None => break,
                }
            } else {
                if self.is_backlogged() {
                    break;
                }
                match self.rx.header(now, &mut input) {
                    Ok(Some(header)) => match judge(Sender::Host, &header) {
                        Ok(()) => {
                            let plan = self.plan(now, &header);
                            if let Some(payload) = self.rx.begin(&header, plan, &mut input) {
                                self.on_frame(now, &header, payload);
                            }
                        }
                        Err(illegal) => self.misbehaved(PeerMisbehaved::Illegal(illegal)), // F1
                    },
                    Ok(None) => break,
                    Err(error) => self.misbehaved(PeerMisbehaved::Header(error)), // W2
                }
            }
            if matches!(self.state, State::Closed(_) | State::Closing { .. }) {
                break;
            }
        }
        bytes.len() - input.len()
    }

    /// What becomes of a body, and whose it is, decided on its header (W1).
    fn plan(&mut self, now: Instant, header: &Header) -> Plan {
        self.answered = None;
        let buffered = match (header.kind, header.identity) {
            // R8: an unmatched control success may name a route that nobody wants.
            (FrameType::Response, Identity::Control(_)) => return Plan::Buffer(None),
            (FrameType::Error, Identity::Control(corr)) if self.control_match(corr) => {
                return Plan::Buffer(None);
            }
            (
                FrameType::Response | FrameType::Error | FrameType::StreamData | FrameType::StreamEnd,
                Identity::Routed(route, corr),
            ) => {
                let Some((id, op)) = self.pending.matching(Some(route), corr) else { return Plan::Drain };
                self.answered = Some(id);
                match (header.kind, &op.kind) {
                    (FrameType::Error, _) | (FrameType::Response, Kind::Unary) => true,
                    (FrameType::StreamData, Kind::Stream(items)) => {
                        let room = items.queue.len() < self.limits.stream_items;
                        if !room {
                            self.saturate(now, id); // B4: the 17th unread item
                        }
                        room
                    }
                    (_, Kind::Unary | Kind::Stream(_) | Kind::RouteOpen | Kind::Catalog | Kind::Shutdown) => {
                        false
                    }
                }
            }
            (
                FrameType::Error
                | FrameType::Push
                | FrameType::StreamEnd
                | FrameType::Ping
                | FrameType::Goodbye
                | FrameType::Request
                | FrameType::Response
                | FrameType::StreamData
                | FrameType::Cancel
                | FrameType::Pong
                | FrameType::Hello
                | FrameType::HelloAck,
                _,
            ) => false,
        };
        if buffered { Plan::Buffer(Some(Arc::clone(&self.retained))) } else { Plan::Drain }
    }

    fn control_match(&self, corr: Correlation) -> bool {
        self.is_negotiation(corr) || self.pending.matching(None, corr).is_some()
    }

    fn is_negotiation(&self, corr: Correlation) -> bool {
        matches!(self.state, State::Negotiating) && corr == Correlation::FIRST
    }

    /// A whole, legal frame.
    pub(super) fn on_frame(&mut self, now: Instant, header: &Header, payload: Payload) {
        self.counters.received.count(header.kind);
        if matches!(self.state, State::Candidate(_))
            && !matches!(header.kind, FrameType::Ping)
            && !matches!((header.kind, header.identity), (FrameType::Goodbye, Identity::Connection))
        {
            self.on_candidate_frame(now, header, &payload);
            return;
        }
        match (header.kind, header.identity) {
            (FrameType::Response, Identity::Control(corr)) => {
                self.on_control_success(now, header, corr, &payload);
            }
            (FrameType::Error, Identity::Control(corr)) => {
                if self.is_negotiation(corr) {
                    self.on_refused_negotiation(); // N8
                } else {
                    let asked = self.pending.matching(None, corr).map(|(id, _)| id);
                    self.on_error(asked, payload);
                }
            }
            (FrameType::Response, Identity::Routed(..)) => self.on_response(header, payload),
            (FrameType::Error, Identity::Routed(..)) => self.on_error(self.answered, payload),
            (FrameType::StreamData, Identity::Routed(..)) => self.on_item(now, header, payload),
            (FrameType::StreamEnd, Identity::Routed(..)) => self.on_stream_end(),
            (FrameType::Push, Identity::Route(_)) => self.counters.dropped_push += 1, // F2
            (FrameType::Ping, Identity::Control(corr)) => self.on_ping(now, header.flags, corr),
            (FrameType::Goodbye, Identity::Route(route)) => self.on_route_goodbye(route),
            (FrameType::Goodbye, Identity::Connection) => self.close(CloseReason::PeerGoodbye), // G1
            // The table has no such row; should it grow one, this side fails closed.
            (
                FrameType::Request
                | FrameType::Response
                | FrameType::Push
                | FrameType::StreamData
                | FrameType::StreamEnd
                | FrameType::Error
                | FrameType::Cancel
                | FrameType::Ping
                | FrameType::Pong
                | FrameType::Hello
                | FrameType::HelloAck
                | FrameType::Goodbye,
                _,
            ) => self.misbehaved(PeerMisbehaved::Illegal(crate::wire::Illegal::Identity)),
        }
    }

    /// L1: at once, whatever the application is doing. Only a `Pong` without room retires the generation (B2).
    fn on_ping(&mut self, now: Instant, flags: Flags, corr: Correlation) {
        // L1: whatever the application does; Q3: its correlation is of the host's own namespace.
        let (waiting, _) = self.out.control_frames(|_| false);
        if self.out.is_over() {
            return;
        }
        if waiting >= CONTROL_SLOTS {
            self.close(CloseReason::ControlBacklog); // B2
            return;
        }
        let header = Header { len: 0, kind: FrameType::Pong, flags, identity: Identity::Control(corr) }; // V35
        self.out.push_control(now, &header, Owner::Pong);
    }

    fn on_control_success(&mut self, now: Instant, header: &Header, corr: Correlation, payload: &Payload) {
        let Payload::Body(body) = payload else { return };
        let body = body.as_slice();
        if self.is_negotiation(corr) {
            self.on_selection(header.flags.binary, body);
            return;
        }
        let Some((id, op)) = self.pending.matching(None, corr) else {
            self.counters.dropped_unmatched += 1; // F5
            // R8: somebody gave up on this route before it stood.
            if let Ok(route) = decode_route_opened(body)
                && self.routes.get(&route.channel.value()) != Some(&route.epoch)
            {
                self.say_goodbye(now, route);
            }
            return;
        };
        let terminal = match op.kind {
            Kind::RouteOpen => match decode_route_opened(body) {
                Ok(route) if self.routes.contains_key(&route.channel.value()) => {
                    self.misbehaved(PeerMisbehaved::RouteOpenLiveChannel); // F8
                    return;
                }
                Ok(route) => {
                    self.routes.insert(route.channel.value(), route.epoch);
                    Terminal::RouteOpened(route)
                }
                Err(_) => {
                    self.misbehaved(PeerMisbehaved::RouteOpenMalformed); // F8
                    return;
                }
            },
            Kind::Catalog => match decode_catalog(body) {
                Ok(catalog) => Terminal::Catalog(catalog),
                Err(_) => Terminal::Local(LocalCode::MalformedResponse), // F8
            },
            Kind::Shutdown => match decode_shutdown_committed(body) {
                Ok(()) => Terminal::ShutdownCommitted,
                Err(_) => Terminal::Local(LocalCode::MalformedResponse), // F8
            },
            Kind::Unary | Kind::Stream(_) => return,
        };
        self.finish(id, terminal);
    }

    /// The request that the frame answers, unless it has been settled since its header came.
    fn asked(&self, id: Option<OpId>) -> Option<(OpId, &Op)> {
        let id = id?;
        self.pending.unsettled(id).map(|op| (id, op))
    }

    fn on_response(&mut self, header: &Header, payload: Payload) {
        let Some((id, op)) = self.asked(self.answered) else {
            self.counters.dropped_unmatched += 1; // F5, V19
            return;
        };
        let terminal = match (&op.kind, payload) {
            (Kind::Unary, Payload::Body(body)) => Terminal::Response { binary: header.flags.binary, body },
            (Kind::Unary, Payload::Overflowed | Payload::Drained) => {
                self.counters.discarded += 1;
                Terminal::Local(LocalCode::ResponseDiscarded) // B4: it completed, its body is lost
            }
            (Kind::Stream(_) | Kind::RouteOpen | Kind::Catalog | Kind::Shutdown, _) => {
                Terminal::Local(LocalCode::UnexpectedResponse) // F6
            }
        };
        self.finish(id, terminal);
    }

    fn on_error(&mut self, asked: Option<OpId>, payload: Payload) {
        let Some((id, _)) = self.asked(asked) else {
            self.counters.dropped_unmatched += 1; // F5, V19
            return;
        };
        let terminal = match payload {
            Payload::Body(body) => match ErrorBody::decode(body.as_slice()) {
                Ok(error) => Terminal::Error(error),
                Err(_) => Terminal::Local(LocalCode::MalformedError), // F7
            },
            Payload::Overflowed | Payload::Drained => {
                self.counters.discarded += 1;
                Terminal::Local(LocalCode::ResponseDiscarded) // B4
            }
        };
        self.finish(id, terminal);
    }

    fn on_item(&mut self, now: Instant, header: &Header, payload: Payload) {
        let found = self.asked(self.answered).map(|(id, _)| id);
        let Some((id, op)) = found.and_then(|id| self.pending.get_mut(id).map(|op| (id, op))) else {
            self.counters.dropped_unmatched += 1; // F5, V19
            return;
        };
        match (&mut op.kind, payload) {
            (Kind::Stream(items), Payload::Body(body)) => {
                items.received += 1;
                items.queue.push_back(Item { binary: header.flags.binary, body }); // Q5
                if !items.told {
                    items.told = true;
                    self.events.push_back(Event::Readable { op: id });
                }
            }
            (Kind::Stream(_), Payload::Overflowed | Payload::Drained) => self.saturate(now, id), // B4: no bytes left
            (Kind::Unary, _) => {
                // F6: it may have side effects that go on; what it meant to answer is not known.
                self.stop(now, id, NotSentCode::CancelledUnsent, UnknownCode::UnexpectedStream);
            }
            (Kind::RouteOpen | Kind::Catalog | Kind::Shutdown, _) => {}
        }
    }

    fn on_stream_end(&mut self) {
        let Some((id, op)) = self.asked(self.answered) else {
            self.counters.dropped_unmatched += 1; // F5, V19
            return;
        };
        let terminal = match &op.kind {
            Kind::Stream(items) => Terminal::StreamEnd { items: items.received },
            Kind::Unary | Kind::RouteOpen | Kind::Catalog | Kind::Shutdown => {
                Terminal::Local(LocalCode::UnexpectedStream) // F6
            }
        };
        self.finish(id, terminal);
    }

    /// The host ended a route. Repeats, and routes that are not ours, are ignored (F2).
    fn on_route_goodbye(&mut self, route: RouteHandle) {
        if self.routes.get(&route.channel.value()) != Some(&route.epoch) {
            self.counters.dropped_unmatched += 1;
            return;
        }
        self.end_route(route);
        self.events.push_back(Event::RouteGone { route });
    }

    /// B4: settled, cancelled; what was read so far stays a prefix without gaps.
    fn saturate(&mut self, now: Instant, id: OpId) {
        self.counters.saturated += 1;
        self.stop(now, id, NotSentCode::CancelledUnsent, UnknownCode::StreamSaturated);
    }
}
