//! One child from its spawn to its end: the order of steps (child-processes.md §4.7) as a state machine.
//!
//! Owns the state, the ledger of what the shell holds for it, the queue towards the child, what it said, and the facts of its end. It is told
//! everything (output, exits, looks at the process table, time) and answers with [`Action`]s. Invariants: the end is reached through one
//! function; the first cause counts (PA9); no signal is asked for without a look that says whose the number is; read ends are closed only
//! behind the kill; the leader is reaped last; after the end nothing changes any more (TD). It never waits, never reads a clock.
//!
//! ```text
//! Setup(stage) ─► Online ─► Closing: flush ─► grace ─► term ─► kill ─► sweep ─► drain ─► close ─► Closed
//!      └───────────────────────┴─ any cause ─┘         (each step is left as early as the facts allow)
//! ```

use super::action::{Action, Ledger, Resource, Signal};
use super::budget::Phase;
use super::cause::{Cause, Stage, State};
use super::config::{Capture, Config};
use super::lines::line_ends;
use super::look::{Look, Owner};
use super::outbox::{Outbox, Unanswered};
use super::outcome::{Ended, EndedBy, Exit, Failure, Group, Proof, Report, Stream, Verdict};
use super::ring::Ring;
use crate::time::{Clock, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

/// What is taken beyond the limit of a delivered stream once the child is being torn down: more than its pipe holds (LX7).
const CLOSING_EXTRA: usize = 1 << 18;
/// The first pause between two looks; it doubles.
const LOOK_FIRST: Duration = Duration::from_millis(2);
/// The longest.
const LOOK_MAX: Duration = Duration::from_millis(50);

/// One child.
#[derive(Debug)]
pub struct Session {
    config: Config,
    clock: Clock,
    state: State,
    ledger: Ledger,
    outbox: Outbox,
    output: VecDeque<(Stream, Vec<u8>)>,
    waiting: [usize; 2],
    tails: [Ring; 2],
    actions: VecDeque<Action>,
    setup_ends: Option<Instant>,
    began: Instant,
    phase_began: Instant,
    phase_ends: Instant,
    ends: Instant,
    exited: bool,
    reap_asked: bool,
    signal_due: bool,
    termed: bool,
    killed: bool,
    look: Option<Look>,
    look_asked: bool,
    /// The look that was asked for began before what it has to show.
    look_stale: bool,
    /// The last look failed.
    blind: bool,
    next_look: Option<Instant>,
    look_delay: Duration,
    result: Option<Vec<u8>>,
    nothing_owed: bool,
    heard: Instant,
    report: Report,
    ended: Option<Ended>,
    late: u64,
}

impl Session {
    /// A session whose child is there: `pid`, its pipes, its exit notice.
    #[must_use]
    pub fn new(now: Instant, pid: u32, config: Config) -> Self {
        let tail = |capture| match capture {
            Capture::Tail(limit) => Ring::new(limit),
            Capture::Deliver(_) => Ring::default(),
        };
        let mut clock = Clock::default();
        let now = clock.observe(now);
        let setup_ends = config.setup.map(|time| now + time);
        Self {
            state: if setup_ends.is_some() { State::Setup(Stage::Spawn) } else { State::Online },
            ledger: Ledger { stdin: config.stdin, stdout: true, stderr: true, child: true },
            outbox: Outbox::new(config.queue),
            output: VecDeque::new(),
            waiting: [0; 2],
            tails: [tail(config.stdout), tail(config.stderr)],
            actions: VecDeque::new(),
            setup_ends,
            began: now,
            phase_began: now,
            phase_ends: now,
            ends: Instant::FAR_FUTURE,
            exited: false,
            reap_asked: false,
            signal_due: false,
            termed: false,
            killed: false,
            look: None,
            look_asked: false,
            look_stale: false,
            blind: false,
            next_look: None,
            look_delay: LOOK_FIRST,
            result: None,
            nothing_owed: false,
            heard: now,
            report: Report { pid: Some(pid), ..Report::default() },
            ended: None,
            late: 0,
            config,
            clock,
        }
    }

    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether it can be used.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.state == State::Online
    }

    /// Which one it is.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.config.generation
    }

    /// Why its end has begun, once it has.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        match (self.state, &self.ended) {
            (State::Setup(_) | State::Online, _) => None,
            (State::Closing(_) | State::Closed, None) => Some(self.report.cause),
            (State::Closing(_) | State::Closed, Some(ended)) => Some(ended.report().cause),
        }
    }

    /// Its end, once it has ended.
    #[must_use]
    pub const fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Inputs that came after the end: ignored, and counted (PA11, PD11).
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// The queue towards the child, to be read.
    #[must_use]
    pub const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The queue towards the child. What it refuses it refuses by itself; call [`Session::handle_written`] for what was written.
    pub const fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// TD: it has ended, and nothing of it is left: no resource, no queued frame, no call without an end, no timer, nothing to do.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.state == State::Closed
            && self.ledger.is_empty()
            && self.outbox.is_idle()
            && self.outbox.pending() == 0
            && self.deadline().is_none()
            && self.actions.is_empty()
    }

    // Setup.

    /// The making has come so far.
    pub fn advance_to(&mut self, stage: Stage) {
        if let State::Setup(at) = &mut self.state {
            *at = (*at).max(stage);
        }
    }

    /// It is ready. False: it has ended, or is about to, and must not be reported as online (PA12).
    pub fn ready(&mut self) -> bool {
        if matches!(self.state, State::Setup(_)) {
            // PA12: without both ends of the conversation nothing is ready.
            self.state = State::Online;
            self.setup_ends = None;
        }
        self.state == State::Online
    }

    // The end.

    /// Begins the end, for the first cause that comes; a later one changes nothing (PA3, PA9), but that a cancel makes a teardown that
    /// still waits politely go on.
    pub fn close(&mut self, now: Instant, cause: Cause) {
        let now = self.clock.observe(now);
        match self.state {
            State::Setup(_) | State::Online => {}
            State::Closing(Phase::Flush | Phase::Grace) if cause == Cause::Cancelled && !self.exited => {
                self.outbox.finish(Unanswered::Ended);
                self.enter(now, Phase::Term);
                return self.advance(now);
            }
            State::Closing(_) | State::Closed => return,
        }
        self.report.cause = cause;
        self.setup_ends = None;
        self.began = now;
        self.phase_began = now;
        self.ends = now + self.config.budget.outer();
        self.outbox.close();
        // PA6: the state leaves `Online` here, before any reader or writer is touched.
        let first = if cause.flushes() && self.ledger.stdin && !self.outbox.is_idle() {
            Phase::Flush
        } else {
            self.outbox.finish(Unanswered::Ended);
            self.after_flush()
        };
        self.state = State::Closing(first);
        self.enter(now, first);
        self.advance(now);
    }

    /// Its owner is gone, or the runtime: it ends here and now. The shell kills the group, closes everything, and waits for nothing (PA4).
    pub fn abandon(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        if self.state == State::Closed {
            return;
        }
        if !matches!(self.state, State::Closing(_)) {
            self.report.cause = Cause::Dropped;
            self.began = now;
        }
        self.killed = true;
        self.report.ended_by = if self.exited { EndedBy::Itself } else { EndedBy::OurKill };
        self.freeze(now, Some(Verdict::Abandoned));
    }

    // What the child says.

    /// Whether this stream is to be read now. Always, once the child is being torn down: one that is blocked in a write cannot see the
    /// end of its input (LX7).
    #[must_use]
    pub const fn wants(&self, stream: Stream) -> bool {
        let (open, capture, waiting) = match stream {
            Stream::Stdout => (self.ledger.stdout, self.config.stdout, self.waiting[0]),
            Stream::Stderr => (self.ledger.stderr, self.config.stderr, self.waiting[1]),
        };
        let room = match capture {
            Capture::Deliver(limit) => waiting < limit,
            Capture::Tail(_) => true,
        };
        open && match self.state {
            State::Setup(_) | State::Online => room,
            State::Closing(_) => true,
            State::Closed => false,
        }
    }

    /// Bytes have arrived.
    pub fn handle_output(&mut self, now: Instant, stream: Stream, bytes: Vec<u8>) {
        let now = self.clock.observe(now);
        if self.state == State::Closed {
            self.late += 1; // PD11: what is frozen stays as it is
            return;
        }
        self.heard = now;
        let count = bytes.len();
        let closing = matches!(self.state, State::Closing(_));
        let report = self.report.stream_mut(stream);
        report.bytes += u64::try_from(count).unwrap_or(u64::MAX);
        report.lines += u64::try_from(line_ends(&bytes)).unwrap_or(u64::MAX);
        let [stdout, stderr] = &mut self.waiting;
        let [stdout_tail, stderr_tail] = &mut self.tails;
        let (capture, waiting, tail) = match stream {
            Stream::Stdout => (self.config.stdout, stdout, stdout_tail),
            Stream::Stderr => (self.config.stderr, stderr, stderr_tail),
        };
        match capture {
            Capture::Tail(_) => {
                tail.push(&bytes);
                report.truncated = tail.dropped();
            }
            Capture::Deliver(limit) if !closing || *waiting < limit.saturating_add(CLOSING_EXTRA) => {
                *waiting += count;
                self.output.push_back((stream, bytes));
            }
            // Nobody takes it, and the child has to be read on: the end of it is lost, and counted.
            Capture::Deliver(_) => report.truncated += u64::try_from(count).unwrap_or(u64::MAX),
        }
    }

    /// Takes the oldest output that waits.
    pub fn take_output(&mut self) -> Option<(Stream, Vec<u8>)> {
        let (stream, bytes) = self.output.pop_front()?;
        let [stdout, stderr] = &mut self.waiting;
        let waiting = match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        };
        *waiting = waiting.saturating_sub(bytes.len());
        Some((stream, bytes))
    }

    /// A stream has ended, and its reader with it.
    pub fn handle_eof(&mut self, now: Instant, stream: Stream) {
        let now = self.clock.observe(now);
        if self.state == State::Closed {
            self.late += 1;
            *self.ledger.entry(Resource::Output(stream)) = false;
            return;
        }
        self.report.stream_mut(stream).eof = true;
        *self.ledger.entry(Resource::Output(stream)) = false;
        if self.config.peer && stream == Stream::Stdout {
            self.close(now, Cause::Eof); // PA12: a peer that can say nothing is no peer
        }
        self.advance(now);
    }

    /// Reading a stream failed; its reader is gone.
    pub fn handle_read_failed(&mut self, now: Instant, stream: Stream) {
        let now = self.clock.observe(now);
        *self.ledger.entry(Resource::Output(stream)) = false;
        if self.state == State::Closed {
            self.late += 1;
            return;
        }
        // PD13: the first failure is the one that counts, and one of before the drain is the first.
        self.report.failure.get_or_insert(Failure::Read(stream));
        self.close(now, Cause::ReadFailed);
        self.advance(now);
    }

    /// A frame that looks like a result: it can be had at once, and the last one counts (PD14, PD15).
    pub fn note_result(&mut self, now: Instant, result: Vec<u8>) {
        let now = self.clock.observe(now);
        if self.state == State::Closed {
            self.late += 1;
            return;
        }
        self.result = Some(result);
        self.nothing_owed = false; // PD15: more than one may come; it has to be said again
        self.heard = now;
    }

    /// The protocol says that nothing more is owed (PD14).
    pub fn note_nothing_owed(&mut self) {
        self.nothing_owed = self.result.is_some();
    }

    /// The last result so far.
    #[must_use]
    pub fn result(&self) -> Option<&[u8]> {
        match &self.ended {
            Some(ended) => ended.result(),
            None => self.result.as_deref(),
        }
    }

    // What it is told.

    /// The child took so many bytes of what was offered.
    pub fn handle_written(&mut self, now: Instant, count: usize) {
        let now = self.clock.observe(now);
        self.outbox.accepted(now, count);
        self.advance(now);
    }

    /// The child's input is broken: it does not take more (PD17).
    pub fn handle_write_failed(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        if self.state == State::Closed {
            self.late += 1;
            return;
        }
        self.outbox.write_failed();
        self.report.input_closed_early |= !self.exited;
        if self.config.peer {
            self.close(now, Cause::WriteFailed);
        }
        self.shut_input();
        self.advance(now);
    }

    /// Asks for the child's input to be closed behind what is queued.
    pub fn finish_input(&mut self) {
        self.outbox.close();
        if self.outbox.is_idle() {
            self.shut_input();
        }
    }

    /// A resource is gone.
    pub fn handle_gone(&mut self, now: Instant, resource: Resource) {
        let now = self.clock.observe(now);
        *self.ledger.entry(resource) = false;
        self.advance(now);
    }

    // What happens to it.

    /// The leader has exited, and is not reaped.
    pub fn handle_exited(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        if self.state == State::Closed {
            self.late += 1;
            return;
        }
        if self.exited {
            return;
        }
        self.exited = true;
        self.forget_look();
        self.close(now, Cause::ChildExited);
        self.advance(now);
    }

    /// What a look has shown.
    pub fn handle_look(&mut self, now: Instant, look: Look) {
        let now = self.clock.observe(now);
        self.look_asked = false;
        let State::Closing(phase) = self.state else { return };
        self.blind = false;
        if core::mem::take(&mut self.look_stale) {
            if self.signal_due || self.needs_look() {
                self.ask_look();
            }
            return self.advance(now);
        }
        let owner = look.owner();
        if self.signal_due {
            self.signal_due = false;
            self.signal(phase, owner);
        }
        if phase == Phase::Sweep && self.config.sweep && !look.escaped.is_empty() {
            self.report.swept += look.escaped.len();
            self.actions.push_back(Action::KillEscaped(look.escaped.clone())); // §4.7, 7
        }
        self.look = Some(look);
        self.next_look = Some(now + self.look_delay);
        self.look_delay = (self.look_delay * 2).min(LOOK_MAX);
        self.advance(now);
    }

    /// A step of the teardown failed (PD8). It goes on with the next one.
    pub fn handle_failure(&mut self, now: Instant, failure: Failure) {
        let now = self.clock.observe(now);
        if self.state == State::Closed {
            self.late += 1;
            return;
        }
        self.report.failure.get_or_insert(failure);
        match failure {
            Failure::Look | Failure::Panicked if self.look_asked => {
                self.look_asked = false;
                self.look_stale = false;
                self.blind = true;
                self.next_look = Some(now + LOOK_MAX);
                if let State::Closing(phase) = self.state
                    && core::mem::take(&mut self.signal_due)
                {
                    // Not seen, but not reaped by us either: the shell's own guard decides.
                    self.signal(phase, Owner::Ours);
                }
            }
            Failure::Reap => return self.freeze(now, None),
            Failure::Look | Failure::Panicked | Failure::Read(_) | Failure::Signal => {}
        }
        self.advance(now);
    }

    /// The leader is reaped; `None`: somebody else was faster, and how it ended is not known.
    pub fn handle_reaped(&mut self, now: Instant, exit: Option<Exit>) {
        let now = self.clock.observe(now);
        self.ledger.child = false;
        if self.state == State::Closed {
            self.late += 1;
            return;
        }
        self.report.reaped = true;
        self.report.exit = exit.unwrap_or_default();
        self.report.ended_by = match self.report.exit {
            Exit::Signal(9) if self.killed => EndedBy::OurKill,
            Exit::Signal(15) | Exit::Code(_) if self.termed => EndedBy::OurTerm,
            Exit::Signal(_) | Exit::Code(_) | Exit::Unknown => EndedBy::Itself,
        };
        self.freeze(now, None);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.clock.observe(now);
        if self.state == State::Closed {
            return;
        }
        self.outbox.handle_timeout(now);
        if self.setup_ends.is_some_and(|at| at <= now) {
            self.close(now, Cause::Timeout);
        }
        if self.outbox.is_stalled(now) {
            self.close(now, Cause::StalledSink); // PB4
            self.outbox.finish(Unanswered::Ended); // a flush that stalls is over
        }
        if self.idle_at().is_some_and(|at| at <= now) {
            self.close(now, Cause::Idle); // PD14
        }
        if self.next_look.is_some_and(|at| at <= now) && self.needs_look() {
            self.ask_look();
        }
        self.advance(now);
    }

    /// The next moment at which time alone changes something; none once it has ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let next_look = self.next_look.filter(|_| !self.look_asked && self.needs_look());
        let closing = match self.state {
            State::Closed => return None,
            // The readers' time is over, or they are gone: only the leader's end is awaited.
            State::Closing(Phase::Close)
                if self.phase_ends <= self.clock.latest() || !self.ledger.readers() =>
            {
                Some(self.ends)
            }
            State::Closing(_) => Some(self.phase_ends.min(self.ends)),
            State::Setup(_) | State::Online => None,
        };
        [self.outbox.deadline(), self.setup_ends, self.idle_at(), next_look, closing]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn idle_at(&self) -> Option<Instant> {
        (self.nothing_owed && self.state == State::Online).then(|| self.heard + self.config.linger)
    }

    // The order of steps.

    /// Whether the leader has exited and nobody of the group lives, as far as was seen since.
    fn is_quiet(&self) -> bool {
        self.exited
            && self
                .look
                .as_ref()
                .is_some_and(|look| look.group() != Group::Alive || look.owner() != Owner::Ours)
    }

    const fn is_heard_out(&self) -> bool {
        self.report.stdout.eof && self.report.stderr.eof
    }

    fn needs_look(&self) -> bool {
        match self.state {
            State::Closing(Phase::Grace | Phase::Term | Phase::Kill) => self.exited && !self.is_quiet(),
            State::Closing(Phase::Sweep) => true,
            State::Closing(Phase::Flush | Phase::Drain | Phase::Close)
            | State::Setup(_)
            | State::Online
            | State::Closed => false,
        }
    }

    /// Without an input there is no polite request, and who was cancelled is not asked politely; a leader that has gone is waited for.
    fn after_flush(&self) -> Phase {
        if self.exited || (self.config.stdin && self.report.cause != Cause::Cancelled) {
            Phase::Grace
        } else {
            Phase::Term
        }
    }

    /// Goes on as far as the facts allow.
    fn advance(&mut self, now: Instant) {
        // A queue that is to be closed behind its last frame.
        if self.state == State::Online && self.outbox.is_idle() && self.outbox.is_closing() {
            self.shut_input();
        }
        while let State::Closing(phase) = self.state {
            if now >= self.ends {
                return self.freeze(now, None); // PD7, PD19: at exactly the budget, whatever the rest does
            }
            let over = now >= self.phase_ends;
            let next = match phase {
                Phase::Flush if over || self.outbox.is_idle() || !self.ledger.stdin || self.exited => {
                    self.outbox.finish(Unanswered::Ended); // PB5
                    self.after_flush()
                }
                Phase::Grace if self.is_quiet() && self.is_heard_out() => Phase::Sweep,
                Phase::Grace if over && self.is_quiet() => Phase::Sweep,
                // PD2: the leader went by itself; what is left of its group has had its time.
                Phase::Grace if over && self.exited && self.report.cause == Cause::ChildExited => Phase::Kill,
                Phase::Grace if over => Phase::Term,
                // PD25: the leader's end is not the group's.
                Phase::Term if self.is_quiet() => Phase::Sweep,
                Phase::Term if over => Phase::Kill,
                Phase::Kill if over || self.is_quiet() || self.has_no_more_to_see() => Phase::Sweep,
                Phase::Sweep if over || self.is_swept() || self.has_no_more_to_see() => Phase::Drain,
                Phase::Drain if over || self.is_heard_out() => Phase::Close,
                Phase::Close if !over && self.ledger.readers() => break,
                Phase::Close if self.exited && !self.reap_asked => {
                    // §4.7, 10: last of all.
                    self.reap_asked = true;
                    self.actions.push_back(Action::Reap);
                    break;
                }
                Phase::Flush
                | Phase::Grace
                | Phase::Term
                | Phase::Kill
                | Phase::Sweep
                | Phase::Drain
                | Phase::Close => break,
            };
            self.enter(now, next);
        }
        if self.next_look.is_none() && self.needs_look() {
            self.ask_look();
        }
    }

    /// Killed and not to be seen: the leader and the streams have ended, and nothing else would ever show. It is an error already.
    const fn has_no_more_to_see(&self) -> bool {
        self.blind && self.killed && self.exited && self.is_heard_out()
    }

    /// Nobody has escaped, or nothing is to be done about it, as far as was seen.
    fn is_swept(&self) -> bool {
        self.look.as_ref().is_some_and(|look| look.escaped.is_empty() || !self.config.sweep)
    }

    fn leave(&mut self, now: Instant, phase: Phase) {
        self.report.phases.push((phase, now.saturating_since(self.phase_began)));
        self.phase_began = now;
    }

    fn enter(&mut self, now: Instant, phase: Phase) {
        if let State::Closing(before) = self.state
            && before != phase
        {
            self.leave(now, before);
            if before == Phase::Kill && core::mem::take(&mut self.signal_due) {
                // PD19: the look did not come in its time; the shell's own guard decides.
                self.signal(before, Owner::Ours);
            }
        }
        self.state = State::Closing(phase);
        self.phase_ends = now + self.config.budget.phases().of(phase);
        self.next_look = None;
        self.look_delay = LOOK_FIRST;
        match phase {
            Phase::Flush | Phase::Drain => {}
            Phase::Grace => self.shut_input(), // §4.7, 3
            Phase::Term | Phase::Kill => {
                self.shut_input();
                // §4.7, 5 and 6. A fresh look first: PD22.
                self.signal_due = true;
                self.look_stale = self.look_asked;
                self.ask_look();
            }
            // What was seen last holds still, unless somebody is to be killed for it.
            Phase::Sweep => {
                if !self.is_swept() {
                    self.forget_look();
                    self.ask_look();
                }
            }
            Phase::Close => {
                if self.ledger.readers() {
                    // PD6: behind the kill and the natural drain, never before.
                    self.actions.push_back(Action::CloseOutput);
                }
            }
        }
    }

    fn signal(&mut self, phase: Phase, owner: Owner) {
        match phase {
            Phase::Term => {
                self.termed = true;
                if owner == Owner::Ours {
                    self.actions.push_back(Action::SignalGroup(Signal::Term));
                    self.actions.push_back(Action::SignalGroup(Signal::Cont)); // PD23
                }
            }
            Phase::Kill => {
                self.killed = true;
                if owner == Owner::Ours {
                    self.actions.push_back(Action::SignalGroup(Signal::Kill)); // PD24: one for all
                }
                if !self.exited {
                    self.actions.push_back(Action::SignalLeader(Signal::Kill));
                }
            }
            Phase::Flush | Phase::Grace | Phase::Sweep | Phase::Drain | Phase::Close => {}
        }
        // What was seen before the signal says nothing of after it.
        self.next_look = None;
        self.look_delay = LOOK_FIRST;
    }

    /// What was seen before, or is being looked at, says nothing of after it.
    fn forget_look(&mut self) {
        self.look = None;
        self.next_look = None;
        self.look_stale = self.look_asked;
    }

    fn shut_input(&mut self) {
        if self.ledger.stdin && !self.actions.contains(&Action::CloseStdin) {
            self.actions.push_back(Action::CloseStdin);
        }
    }

    fn ask_look(&mut self) {
        if !self.look_asked {
            self.look_asked = true;
            self.next_look = None;
            self.actions.push_back(Action::Look);
        }
    }

    /// The one place where a session ends (PA15), and the one value that is left of it (PD12: it cannot fail).
    fn freeze(&mut self, now: Instant, abandoned: Option<Verdict>) {
        if let State::Closing(phase) = self.state {
            self.leave(now, phase);
        }
        self.state = State::Closed;
        self.outbox.finish(Unanswered::Ended);
        self.actions.clear();
        self.look_asked = false;
        self.look_stale = false;
        self.signal_due = false;
        let mut report = core::mem::take(&mut self.report);
        report.elapsed = now.saturating_since(self.began);
        report.input_bytes = self.outbox.counters().bytes;
        if let Some(look) = self.look.take() {
            report.group = look.group();
            if look.owner() == Owner::Ours {
                report.survivors = look.members;
            }
            report.survivors.extend(look.escaped); // PD4: whatever the streams say
        }
        if !self.exited && abandoned.is_none() {
            report.ended_by = EndedBy::Nobody;
        }
        report.killed_in_teardown =
            self.result.is_some() && matches!(report.ended_by, EndedBy::OurTerm | EndedBy::OurKill);
        let proof = Proof::of(&report, !self.ledger.readers());
        // PD10: what went wrong comes before what took too long, and that before what is left.
        let verdict = match (abandoned, report.failure, proof) {
            (Some(verdict), _, _) => verdict,
            (None, Some(failure), _) => Verdict::Errored(failure),
            (None, None, Some(proof)) => Verdict::Completed(proof),
            (None, None, None) if !report.reaped => Verdict::BudgetExceeded,
            (None, None, None) => Verdict::Leaked,
        };
        let [stdout_tail, stderr_tail] = &mut self.tails;
        self.waiting = [0; 2];
        // PD11: moved, not shared.
        self.ended = Some(Ended {
            verdict,
            report,
            output: core::mem::take(&mut self.output).into(),
            stdout_tail: stdout_tail.take(),
            stderr_tail: stderr_tail.take(),
            result: self.result.take(),
            generation: self.config.generation,
        });
    }
}

#[cfg(test)]
mod looks;
#[cfg(test)]
mod tests;
