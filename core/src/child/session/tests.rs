//! The order of steps against a world without processes: a process table that obeys, or does not, and a clock that is moved by hand.

use super::super::budget::Budget;
use super::super::look::Leader;
use super::super::outbox::{QueueLimits, Sent};
use super::super::outcome::Survivor;
use super::*;
use std::vec;

const START: Instant = Instant::from_micros(10_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obeys {
    Term,
    KillOnly,
    Nothing,
}

/// One process of the world.
#[derive(Clone, Copy, Debug)]
struct Process {
    pid: u32,
    in_group: bool,
    holds_pipes: bool,
    obeys: Obeys,
    stopped: bool,
}

fn process(pid: u32) -> Process {
    Process { pid, in_group: true, holds_pipes: true, obeys: Obeys::Term, stopped: false }
}

/// The port that the tests play.
struct World {
    now: Instant,
    session: Session,
    leader: Option<Process>,
    others: Vec<Process>,
    /// Bytes in stdout's pipe.
    pipe: Vec<u8>,
    pipe_open: bool,
    leader_state: Leader,
    number_reused: bool,
    /// Closing the reading ends is not confirmed.
    deaf_reader: bool,
    look_fails: bool,
    exit: Exit,
    done: Vec<Action>,
    notified: bool,
    eofs: bool,
}

impl World {
    fn new(config: Config) -> Self {
        Self {
            now: START,
            session: Session::new(START, 100, config),
            leader: Some(process(100)),
            others: Vec::new(),
            pipe: Vec::new(),
            pipe_open: true,
            leader_state: Leader::Unreaped,
            number_reused: false,
            deaf_reader: false,
            look_fails: false,
            exit: Exit::Code(0),
            done: Vec::new(),
            notified: false,
            eofs: false,
        }
    }

    fn online() -> Self {
        Self::new(Config::default())
    }

    fn exits(&mut self, exit: Exit) {
        self.leader = None;
        self.exit = exit;
    }

    fn survivor(process: &Process) -> Survivor {
        let group = if process.in_group { 100 } else { process.pid };
        Survivor { pid: process.pid, group, state: 'S', start: 5 }
    }

    fn hit(process: &Process, signal: Signal) -> bool {
        match signal {
            Signal::Kill => process.obeys != Obeys::Nothing,
            Signal::Term => process.obeys == Obeys::Term && !process.stopped,
            Signal::Cont => process.obeys == Obeys::Term && process.stopped,
        }
    }

    fn group_gets(&mut self, signal: Signal) {
        assert!(!self.number_reused, "a foreign group was signalled");
        if self.leader.as_ref().is_some_and(|leader| leader.in_group && Self::hit(leader, signal)) {
            self.leader_falls(signal);
        }
        self.others.retain(|other| !(other.in_group && Self::hit(other, signal)));
    }

    fn leader_falls(&mut self, signal: Signal) {
        self.exits(Exit::Signal(if signal == Signal::Kill { 9 } else { 15 }));
    }

    fn act(&mut self, action: Action) {
        let now = self.now;
        self.done.push(action.clone());
        match action {
            Action::CloseStdin => self.session.handle_gone(now, Resource::Stdin),
            Action::Look if self.look_fails => self.session.handle_failure(now, Failure::Look),
            Action::Look => {
                let of = |in_group: bool| -> Vec<Survivor> {
                    self.others.iter().filter(|p| p.in_group == in_group).map(Self::survivor).collect()
                };
                let look = Look {
                    leader: self.leader_state,
                    number_reused: self.number_reused,
                    members: of(true),
                    zombies: 0,
                    same_session: !self.number_reused,
                    escaped: of(false),
                };
                self.session.handle_look(now, look);
            }
            Action::SignalGroup(signal) => self.group_gets(signal),
            Action::SignalLeader(signal) => {
                assert_eq!(self.leader_state, Leader::Unreaped, "a reaped leader was signalled");
                if self.leader.as_ref().is_some_and(|leader| Self::hit(leader, signal)) {
                    self.leader_falls(signal);
                }
            }
            Action::KillEscaped(list) => {
                self.others.retain(|other| !list.iter().any(|escaped| escaped.pid == other.pid));
            }
            Action::CloseOutput => {
                self.pipe_open = false;
                if !self.deaf_reader {
                    for stream in Stream::ALL {
                        self.session.handle_gone(now, Resource::Output(stream));
                    }
                }
            }
            Action::Reap => {
                let exit = (self.leader_state == Leader::Unreaped).then_some(self.exit);
                self.session.handle_reaped(now, exit);
            }
        }
    }

    /// Everything that happens without time passing.
    fn settle(&mut self) {
        loop {
            if let Some(action) = self.session.poll_action() {
                self.act(action);
                continue;
            }
            if self.pipe_open && !self.pipe.is_empty() && self.session.wants(Stream::Stdout) {
                let bytes = core::mem::take(&mut self.pipe);
                self.session.handle_output(self.now, Stream::Stdout, bytes);
                continue;
            }
            let held = self.leader.iter().chain(&self.others).any(|process| process.holds_pipes);
            if self.pipe_open && !held && self.pipe.is_empty() && !core::mem::replace(&mut self.eofs, true) {
                for stream in Stream::ALL {
                    self.session.handle_eof(self.now, stream);
                }
                continue;
            }
            if self.leader.is_none() && !core::mem::replace(&mut self.notified, true) {
                self.session.handle_exited(self.now);
                continue;
            }
            return;
        }
    }

    /// Runs to the end by the session's own deadlines. How long it took.
    fn run(&mut self) -> Duration {
        let began = self.now;
        self.settle();
        for _ in 0..10_000 {
            let Some(at) = self.session.deadline() else { break };
            assert!(at > self.now || self.session.state() == State::Closed, "it spins");
            self.now = at;
            self.session.handle_timeout(self.now);
            self.settle();
        }
        assert_eq!(self.session.state(), State::Closed);
        self.now.saturating_since(began)
    }

    /// TD: what the shell still held is let go of, and then nothing is left.
    fn ended(&mut self) -> Ended {
        let ended = self.session.ended().cloned().expect("it has ended");
        for resource in [
            Resource::Stdin,
            Resource::Output(Stream::Stdout),
            Resource::Output(Stream::Stderr),
            Resource::Child,
        ] {
            self.session.handle_gone(self.now, resource);
        }
        while self.session.outbox_mut().poll_settled().is_some() {}
        assert!(self.session.is_settled(), "{:?}", self.session);
        assert_eq!(self.session.ended(), Some(&ended), "nothing changes any more");
        ended
    }

    fn did(&self, action: &Action) -> bool {
        self.done.contains(action)
    }

    fn place(&self, action: &Action) -> usize {
        self.done
            .iter()
            .position(|done| done == action)
            .unwrap_or_else(|| panic!("{action:?}: {:?}", self.done))
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn pd1_a_child_that_exits_alone_completes_at_once_with_every_byte() {
    let mut world = World::online();
    world.pipe = b"one\ntwo\n".to_vec();
    world.exits(Exit::Code(3));
    assert_eq!(world.run(), Duration::ZERO);
    let ended = world.ended();
    assert!(ended.verdict().is_completed());
    assert_eq!((ended.report().exit, ended.report().ended_by), (Exit::Code(3), EndedBy::Itself));
    assert_eq!((ended.report().stdout.bytes, ended.report().stdout.lines), (8, 2));
    assert_eq!(ended.rest(Stream::Stdout), b"one\ntwo\n");
    assert_eq!(ended.report().cause, Cause::ChildExited);
    assert!(!ended.report().is_slow_path(), "nothing to record");
    assert!(
        !world.done.iter().any(|action| matches!(action, Action::SignalGroup(_) | Action::SignalLeader(_)))
    );
}

#[test]
fn pd2_a_grandchild_that_holds_the_pipe_is_killed_after_the_grace() {
    let mut world = World::online();
    world.pipe = b"the last line\n".to_vec();
    world.others.push(Process { obeys: Obeys::KillOnly, ..process(101) });
    world.exits(Exit::Code(0));
    let took = world.run();
    assert!(took >= seconds(2) && took <= seconds(3), "{took:?}");
    let ended = world.ended();
    assert!(ended.verdict().is_completed(), "{ended:?}");
    assert_eq!(ended.rest(Stream::Stdout), b"the last line\n");
    assert_eq!(ended.report().ended_by, EndedBy::Itself, "the leader, that is");
    assert!(world.did(&Action::SignalGroup(Signal::Kill)) && !world.did(&Action::SignalLeader(Signal::Kill)));
    assert!(ended.report().is_slow_path(), "PD29");
}

#[test]
fn pd3_an_escaped_grandchild_is_killed_by_parentage_or_reported() {
    for sweep in [true, false] {
        let mut world = World::new(Config { sweep, ..Config::default() });
        world.others.push(Process { in_group: false, ..process(102) });
        world.exits(Exit::Code(0));
        let took = world.run();
        assert!(took <= Budget::default().outer());
        let ended = world.ended();
        assert_eq!(ended.verdict().is_completed(), sweep, "{ended:?}");
        assert_eq!((ended.report().swept, ended.report().is_slow_path()), (usize::from(sweep), true));
        assert_eq!(world.did(&Action::CloseOutput), !sweep, "no reader stays");
        let pids: Vec<u32> = ended.report().survivors.iter().map(|survivor| survivor.pid).collect();
        assert_eq!(pids, if sweep { vec![] } else { vec![102] });
        if !sweep {
            assert_eq!(ended.verdict(), Verdict::Leaked);
        }
    }
}

#[test]
fn pd4_an_end_of_the_streams_does_not_hide_who_is_left() {
    let mut world = World::online();
    world.others.push(Process { in_group: false, holds_pipes: false, ..process(103) });
    world.exits(Exit::Code(0));
    assert_eq!(world.run(), Duration::ZERO, "nothing to wait for");
    let ended = world.ended();
    assert_eq!(ended.verdict(), Verdict::Leaked);
    assert!(ended.report().stdout.eof && ended.report().group == Group::Empty);
    assert_eq!(ended.report().survivors.len(), 1);
}

#[test]
fn pd5_pd6_what_is_in_the_pipe_outlives_its_writers_since_read_ends_are_closed_last() {
    // PD6: somebody outside keeps the pipe open, so that it has to be closed: behind the kill and the drain.
    let mut world = World::online();
    world.leader = Some(Process { obeys: Obeys::KillOnly, ..process(100) });
    world.others.push(Process { in_group: false, obeys: Obeys::Nothing, ..process(104) });
    world.session.close(START, Cause::Closed);
    world.settle();
    // 64 KiB and a last line, written while nobody reads.
    world.pipe = [vec![b'x'; 65_536], b"\nlast\n".to_vec()].concat();
    world.run();
    let ended = world.ended();
    assert_eq!(ended.report().stdout.bytes, 65_542);
    assert!(ended.rest(Stream::Stdout).ends_with(b"\nlast\n"));
    assert!(world.place(&Action::CloseOutput) > world.place(&Action::SignalGroup(Signal::Kill)));
    assert!(world.place(&Action::CloseOutput) < world.place(&Action::Reap));
    assert!(world.place(&Action::CloseStdin) < world.place(&Action::SignalGroup(Signal::Term)));
    let drained = ended.report().phases.iter().find(|(phase, _)| *phase == Phase::Drain).unwrap().1;
    assert_eq!(drained, seconds(1), "the whole natural drain was waited for");
}

#[test]
fn pd7_what_cannot_be_killed_ends_at_exactly_the_budget_without_a_busy_wait() {
    let mut world = World::online();
    world.leader = Some(Process { obeys: Obeys::Nothing, ..process(100) });
    world.session.close(START, Cause::Cancelled);
    assert_eq!(world.run(), Budget::default().outer());
    let looks = world.done.iter().filter(|action| **action == Action::Look).count();
    assert!(looks <= 4, "{looks} looks");
    let ended = world.ended();
    assert_eq!(ended.verdict(), Verdict::BudgetExceeded);
    assert_eq!((ended.report().exit, ended.report().ended_by), (Exit::Unknown, EndedBy::Nobody));
    assert!(!ended.report().reaped);
}

#[test]
fn pd8_a_step_that_fails_is_the_verdict_and_the_kill_goes_on() {
    let mut world = World::online();
    world.look_fails = true;
    world.leader = Some(Process { obeys: Obeys::KillOnly, ..process(100) });
    world.session.close(START, Cause::Closed);
    let took = world.run();
    let ended = world.ended();
    assert_eq!(ended.verdict(), Verdict::Errored(Failure::Look));
    assert!(world.did(&Action::SignalGroup(Signal::Kill)), "seen or not");
    assert!(ended.report().reaped);
    // Killed, ended, and heard to its end: behind that there is nothing to wait for where nothing can be seen.
    assert_eq!(took, seconds(4), "the grace and the TERM, and no more");
    let mut world = World::online();
    world.exits(Exit::Code(0));
    world.session.handle_exited(START);
    world.session.handle_failure(START, Failure::Panicked);
    world.run();
    assert_eq!(world.ended().verdict(), Verdict::Errored(Failure::Panicked));
}

#[test]
fn pd9_a_reader_that_is_not_gone_is_a_leak() {
    let mut world = World::online();
    world.deaf_reader = true;
    world.others.push(Process { in_group: false, holds_pipes: true, ..process(105) });
    world.exits(Exit::Code(0));
    assert!(world.run() < Budget::default().outer());
    assert_eq!(world.session.ended().unwrap().verdict(), Verdict::Leaked);
    assert!(!world.session.is_settled(), "TD does not hold while the reader lives");
    world.ended();
}

#[test]
fn pd10_what_went_wrong_comes_before_what_took_too_long_and_that_before_what_is_left() {
    // Errored before BudgetExceeded.
    let mut world = World::online();
    world.leader = Some(Process { obeys: Obeys::Nothing, ..process(100) });
    world.session.close(START, Cause::Closed);
    world.session.handle_failure(START, Failure::Signal);
    world.run();
    let ended = world.ended();
    assert_eq!(ended.verdict(), Verdict::Errored(Failure::Signal));
    assert!(!ended.report().reaped, "the facts are all there");
    // BudgetExceeded before Leaked.
    let mut world = World::online();
    world.leader = Some(Process { obeys: Obeys::Nothing, ..process(100) });
    world.others.push(Process { in_group: false, ..process(106) });
    world.session.close(START, Cause::Closed);
    world.run();
    let ended = world.ended();
    assert_eq!(ended.verdict(), Verdict::BudgetExceeded);
    assert_eq!(ended.report().survivors.len(), 1);
}

#[test]
fn pd11_pd12_nothing_that_still_runs_changes_what_is_frozen() {
    let mut world = World::online();
    world.pipe = b"said".to_vec();
    world.exits(Exit::Code(0));
    world.run();
    let before = world.ended();
    let session = &mut world.session;
    let now = world.now + seconds(1);
    let late = session.late();
    session.handle_output(now, Stream::Stdout, b"late".to_vec());
    session.handle_eof(now, Stream::Stdout);
    session.handle_read_failed(now, Stream::Stdout);
    session.handle_failure(now, Failure::Panicked);
    session.handle_exited(now);
    session.handle_reaped(now, Some(Exit::Code(9)));
    session.handle_write_failed(now);
    session.note_result(now, b"late".to_vec());
    assert_eq!(session.late() - late, 8, "counted");
    session.close(now, Cause::Cancelled);
    session.abandon(now);
    session.handle_timeout(now);
    assert!(!session.ready() && session.poll_action().is_none() && session.take_output().is_none());
    assert_eq!(session.ended(), Some(&before));
    assert!(session.is_settled());
}

#[test]
fn pd13_a_read_error_of_before_the_drain_wins() {
    let mut world = World::online();
    world.session.handle_read_failed(START, Stream::Stderr);
    world.session.handle_failure(START, Failure::Look);
    world.session.handle_read_failed(START, Stream::Stdout);
    world.run();
    let ended = world.ended();
    assert_eq!(ended.verdict(), Verdict::Errored(Failure::Read(Stream::Stderr)));
    assert_eq!(ended.report().cause, Cause::ReadFailed);
}

#[test]
fn pd14_a_result_is_there_at_once_and_the_child_has_its_time() {
    let linger = Config::default().linger;
    let mut world = World::online();
    world.session.note_result(START, b"42".to_vec());
    assert_eq!(world.session.result(), Some(&b"42"[..]), "before the process has ended");
    assert_eq!(world.session.deadline(), None, "and nobody is in a hurry while something may be owed");
    world.session.note_nothing_owed();
    assert_eq!(world.session.deadline(), Some(START + linger));
    // It speaks again: the window begins anew.
    let later = START + linger / 2;
    world.session.handle_output(later, Stream::Stderr, b"more".to_vec());
    assert_eq!(world.session.deadline(), Some(later + linger));
    world.session.handle_timeout(START + linger);
    assert!(world.session.is_online());
    world.leader = Some(Process { obeys: Obeys::KillOnly, ..process(100) });
    world.run();
    let ended = world.ended();
    assert_eq!((ended.report().cause, ended.result()), (Cause::Idle, Some(&b"42"[..])));
    // PD16: the kill is housekeeping.
    assert!(
        ended.report().killed_in_teardown && ended.report().class() == crate::child::ExitClass::KilledByUs(9)
    );
    // Without a result there is nothing that could be complete.
    let mut world = World::online();
    world.session.note_nothing_owed();
    assert_eq!(world.session.deadline(), None);
}

#[test]
fn pd15_the_last_of_several_results_counts_and_none_is_killed_for_the_first() {
    let mut world = World::online();
    world.session.note_result(START, b"first".to_vec());
    world.session.note_nothing_owed();
    world.session.note_result(START + seconds(1), b"second".to_vec());
    assert_eq!(world.session.deadline(), None, "it has to be said again");
    world.exits(Exit::Code(0));
    world.run();
    let ended = world.ended();
    assert_eq!(ended.result(), Some(&b"second"[..]));
    assert!(!ended.report().killed_in_teardown);
}

#[test]
fn pd17_an_input_that_is_closed_early_is_a_typed_end_with_its_bytes() {
    for peer in [false, true] {
        let mut world = World::new(Config { peer, ..Config::default() });
        let call = world.session.outbox_mut().call(START, vec![b'c'; 10], None, Instant::FAR_FUTURE).unwrap();
        world.session.outbox_mut().poll_transmit().unwrap();
        world.session.handle_written(START, 4);
        world.session.handle_write_failed(START);
        let settled = world.session.outbox_mut().poll_settled().unwrap();
        assert_eq!(
            (settled.call, settled.sent, settled.why),
            (call, Sent::Partial(4), Unanswered::WriteFailed)
        );
        assert_eq!(
            matches!(world.session.state(), State::Closing(_)),
            peer,
            "a run goes on without its input"
        );
        world.exits(Exit::Code(1));
        world.run();
        let ended = world.ended();
        assert!(ended.report().input_closed_early && ended.report().input_bytes == 4);
        assert_eq!(ended.report().cause, if peer { Cause::WriteFailed } else { Cause::ChildExited });
    }
}

#[test]
fn pd19_the_bounds_hold_though_every_answer_is_missing() {
    // Nobody does what is asked, nobody answers: time alone ends it.
    let mut session = Session::new(START, 100, Config::default());
    session.close(START, Cause::Closed);
    let mut now = START;
    while let Some(at) = session.deadline() {
        assert!(at > now);
        now = at;
        session.handle_timeout(now);
    }
    assert_eq!(now.saturating_since(START), Budget::default().outer());
    assert_eq!(session.ended().unwrap().verdict(), Verdict::BudgetExceeded);
}

#[test]
fn pd21_a_leader_that_is_reaped_is_never_signalled_and_its_group_is() {
    let mut world = World::online();
    world.leader_state = Leader::Reaped;
    world.others.push(Process { obeys: Obeys::KillOnly, ..process(107) });
    world.exits(Exit::Code(0));
    world.run();
    let ended = world.ended();
    assert!(ended.verdict().is_completed(), "{ended:?}");
    assert_eq!(ended.report().exit, Exit::Unknown, "somebody else knows");
    assert!(world.did(&Action::SignalGroup(Signal::Kill)) && !world.did(&Action::SignalLeader(Signal::Kill)));
}

#[test]
fn pd22_a_number_that_belongs_to_others_is_not_signalled() {
    let mut world = World::online();
    world.leader_state = Leader::Reaped;
    world.number_reused = true;
    world.others.push(process(108)); // a foreign process; the world panics if it is hit
    world.exits(Exit::Code(0));
    world.run();
    assert!(
        !world.done.iter().any(|action| matches!(action, Action::SignalGroup(_) | Action::SignalLeader(_)))
    );
    let ended = world.ended();
    assert!(ended.report().survivors.is_empty(), "it is no survivor of ours");
    let look = |leader, number_reused, same_session, members: &[Survivor]| Look {
        leader,
        number_reused,
        members: members.to_vec(),
        zombies: 0,
        same_session,
        escaped: vec![],
    };
    let member = [Survivor { pid: 7, group: 100, state: 'S', start: 1 }];
    assert_eq!(look(Leader::Unreaped, false, true, &[]).owner(), Owner::Ours);
    assert_eq!(look(Leader::Reaped, false, true, &member).owner(), Owner::Ours);
    assert_eq!(look(Leader::Reaped, false, true, &[]).owner(), Owner::Gone);
    assert_eq!(look(Leader::Reaped, true, true, &member).owner(), Owner::Foreign);
    assert_eq!(look(Leader::Reaped, false, false, &member).owner(), Owner::Foreign);
}

#[test]
fn pd23_a_stopped_group_is_continued_behind_its_term() {
    let mut world = World::online();
    world.leader = Some(Process { stopped: true, ..process(100) });
    world.session.close(START, Cause::Cancelled);
    assert!(world.run() < seconds(1));
    assert!(
        world.place(&Action::SignalGroup(Signal::Term)) < world.place(&Action::SignalGroup(Signal::Cont))
    );
    assert!(world.ended().verdict().is_completed());
    // One that does not act on CONT either dies of KILL, stopped as it is.
    let mut world = World::online();
    world.leader = Some(Process { stopped: true, obeys: Obeys::KillOnly, ..process(100) });
    world.session.close(START, Cause::Cancelled);
    world.run();
    assert_eq!(world.ended().report().ended_by, EndedBy::OurKill);
}

#[test]
fn pd25_the_escalation_follows_the_group_when_the_leader_obeys() {
    let mut world = World::online();
    world.others.push(Process { obeys: Obeys::KillOnly, ..process(109) });
    world.session.close(START, Cause::Cancelled);
    let took = world.run();
    assert!(took >= seconds(2) && took < seconds(3), "{took:?}");
    let ended = world.ended();
    assert_eq!((ended.report().ended_by, ended.report().exit), (EndedBy::OurTerm, Exit::Signal(15)));
    assert!(ended.verdict().is_completed() && world.did(&Action::SignalGroup(Signal::Kill)));
}

/// PA1: every stage with every cause ends through the one function, and TD holds.
#[test]
fn pa1_every_stage_and_every_cause_end_in_one_way() {
    let stages = [Stage::Spawn, Stage::Hello, Stage::Reply, Stage::Verify, Stage::Index];
    for stage in stages {
        for cause in Cause::ALL {
            let mut world = World::new(Config {
                peer: true,
                setup: Some(seconds(5)),
                generation: 7,
                ..Config::default()
            });
            world.session.advance_to(stage);
            assert_eq!(world.session.state(), State::Setup(stage));
            let queue = world.session.outbox_mut();
            let call = queue.call(START, vec![0; 8], None, Instant::FAR_FUTURE).unwrap();
            queue.poll_transmit().unwrap();
            // What makes it end, as it comes.
            match cause {
                Cause::Eof => world.session.handle_eof(START, Stream::Stdout),
                Cause::ReadFailed => world.session.handle_read_failed(START, Stream::Stdout),
                Cause::WriteFailed => world.session.handle_write_failed(START),
                Cause::ChildExited => {
                    world.leader = None;
                    world.notified = true;
                    world.session.handle_exited(START);
                }
                Cause::Timeout => {
                    world.now = START + seconds(5);
                    world.session.handle_timeout(world.now);
                }
                Cause::Dropped => world.session.abandon(START),
                Cause::Closed
                | Cause::Shutdown
                | Cause::Cancelled
                | Cause::StalledSink
                | Cause::PeerError
                | Cause::Malformed
                | Cause::WrongVersion
                | Cause::BadProof
                | Cause::Idle
                | Cause::SpawnFailed => world.session.close(START, cause),
            }
            assert!(!world.session.ready(), "PA12: {stage:?} {cause:?}");
            world.run();
            let mut settled = Vec::new();
            settled.extend(core::iter::from_fn(|| world.session.outbox_mut().poll_settled()));
            assert_eq!(
                settled.iter().map(|end| (end.call, end.sent)).collect::<Vec<_>>(),
                [(call, Sent::Nothing)]
            );
            let ended = world.ended();
            assert_eq!((ended.report().cause, ended.generation()), (cause, 7), "{stage:?}");
            assert_eq!(ended.verdict() == Verdict::Abandoned, cause == Cause::Dropped);
        }
    }
}

#[test]
fn pa2_a_failed_handshake_with_a_stalled_sink_keeps_nothing_of_its_queue() {
    let mut world = World::new(Config { peer: true, setup: Some(seconds(5)), ..Config::default() });
    let queue = world.session.outbox_mut();
    queue.control(START, crate::child::ControlKey::Pong, vec![0; 21]).unwrap();
    queue.poll_transmit().unwrap(); // the writer is at it, and the sink takes nothing
    world.session.close(START, Cause::BadProof);
    assert!(world.session.outbox().is_idle(), "nothing is flushed to a peer that failed");
    world.run();
    let ended = world.ended();
    assert!(ended.verdict().is_completed());
    assert_eq!(ended.report().cause, Cause::BadProof);
    assert!(!ended.report().phases.iter().any(|(phase, _)| *phase == Phase::Flush));
}

#[test]
fn pa3_pa9_a_second_teardown_changes_nothing_and_the_first_cause_stays() {
    let mut world = World::online();
    world.session.close(START, Cause::BadProof);
    world.session.close(START, Cause::Shutdown);
    world.session.handle_failure(START, Failure::Signal);
    world.run();
    let closes = world.done.iter().filter(|action| **action == Action::CloseStdin).count();
    let reaps = world.done.iter().filter(|action| **action == Action::Reap).count();
    assert_eq!((closes, reaps), (1, 1));
    let ended = world.ended();
    assert_eq!(ended.report().cause, Cause::BadProof);
    assert_eq!(ended.report().failure, Some(Failure::Signal), "attached, not instead");
}

#[test]
fn pa6_the_state_leaves_online_before_any_reader_is_touched() {
    let mut world = World::online();
    world.session.close(START, Cause::Closed);
    assert!(!world.session.is_online());
    assert!(world.session.wants(Stream::Stdout), "and reading goes on");
    world.run();
    world.ended();
}

#[test]
fn pb5_a_flush_is_bounded_and_what_is_left_was_not_sent() {
    let mut world = World::online();
    let queue = world.session.outbox_mut();
    let head = queue.call(START, vec![0; 8], None, Instant::FAR_FUTURE).unwrap();
    let later = queue.call(START, vec![0; 8], None, Instant::FAR_FUTURE).unwrap();
    queue.poll_transmit().unwrap();
    world.session.handle_written(START, 3);
    world.session.close(START, Cause::Closed);
    assert_eq!(world.session.state(), State::Closing(Phase::Flush));
    world.settle();
    assert_eq!(world.session.deadline(), Some(START + Duration::from_millis(500)));
    world.now = START + Duration::from_millis(500);
    world.session.handle_timeout(world.now);
    let settled: Vec<_> = core::iter::from_fn(|| world.session.outbox_mut().poll_settled())
        .map(|end| (end.call, end.sent))
        .collect();
    assert_eq!(settled, [(head, Sent::Partial(3)), (later, Sent::Nothing)]);
    world.run();
    world.ended();
}

#[test]
fn pb4_a_stalled_sink_ends_the_session_with_that_cause() {
    for flushing in [false, true] {
        let mut world = World::online();
        world.session.outbox_mut().call(START, vec![0; 8], None, Instant::FAR_FUTURE).unwrap();
        let stall = START + QueueLimits::default().stall;
        assert_eq!(world.session.deadline(), Some(stall));
        if flushing {
            world.session.close(stall, Cause::Closed);
        }
        world.now = stall;
        world.session.handle_timeout(stall);
        world.run();
        let ended = world.ended();
        assert_eq!(ended.report().cause, if flushing { Cause::Closed } else { Cause::StalledSink });
    }
}

#[test]
fn a_cancel_makes_a_polite_teardown_go_on() {
    let mut world = World::online();
    world.session.close(START, Cause::Closed);
    assert_eq!(world.session.state(), State::Closing(Phase::Grace));
    world.session.close(START, Cause::Cancelled);
    assert_eq!(world.session.state(), State::Closing(Phase::Term));
    assert_eq!(world.run(), Duration::ZERO);
    assert_eq!(world.ended().report().cause, Cause::Closed);
}

#[test]
fn an_output_that_nobody_takes_stops_the_reading_until_the_teardown() {
    let mut world = World::new(Config { stdout: Capture::Deliver(10), ..Config::default() });
    world.session.handle_output(START, Stream::Stdout, vec![b'a'; 10]);
    assert!(!world.session.wants(Stream::Stdout) && world.session.wants(Stream::Stderr));
    assert_eq!(world.session.take_output().unwrap().1.len(), 10);
    assert!(world.session.wants(Stream::Stdout));
    world.session.handle_output(START, Stream::Stdout, vec![b'a'; 10]);
    world.session.close(START, Cause::Closed);
    // LX7: it is read on, up to more than a pipe holds; beyond that the end is lost, and counted.
    for _ in 0..10 {
        assert!(world.session.wants(Stream::Stdout));
        world.session.handle_output(START, Stream::Stdout, vec![b'b'; 1 << 16]);
    }
    world.run();
    let ended = world.ended();
    let kept = ended.rest(Stream::Stdout).len();
    assert_eq!(10 + kept as u64 + ended.report().stdout.truncated, ended.report().stdout.bytes);
    assert!(kept >= 1 << 18 && ended.report().stdout.truncated > 0);
}

#[test]
fn the_input_is_closed_behind_what_was_queued() {
    let mut world = World::online();
    world.session.outbox_mut().call(START, vec![0; 4], None, Instant::FAR_FUTURE).unwrap();
    world.session.finish_input();
    assert_eq!(world.session.poll_action(), None);
    world.session.outbox_mut().poll_transmit().unwrap();
    world.session.handle_written(START, 4);
    assert_eq!(world.session.poll_action(), Some(Action::CloseStdin));
    assert!(world.session.is_online());
}

/// PA15: the end is made in one place.
#[test]
fn pa15_the_end_is_constructed_in_one_place() {
    let source = include_str!("../session.rs");
    assert_eq!(source.matches("Ended {").count(), 1);
    assert_eq!(source.matches("State::Closed;").count(), 1);
    assert_eq!(source.matches("Verdict::Completed(").count(), 1);
    let others = [
        include_str!("../action.rs"),
        include_str!("../cause.rs"),
        include_str!("../config.rs"),
        include_str!("../lifecycle.rs"),
        include_str!("../look.rs"),
        include_str!("../outbox.rs"),
        include_str!("../ring.rs"),
    ];
    for other in others {
        assert!(!other.contains("Ended {") && !other.contains("Verdict::"));
    }
}
