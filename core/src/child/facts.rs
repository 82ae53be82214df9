//! Small facts that others rely on: names, bounds to the byte, the ledger, and which of several conditions a step waits for.

use super::action::Ledger;
use super::*;
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;

const START: Instant = Instant::from_micros(10_000_000);
const NEVER: Instant = Instant::FAR_FUTURE;

fn look(members: &[u32], escaped: &[u32]) -> Look {
    let named = |pids: &[u32]| {
        pids.iter().map(|pid| Survivor { pid: *pid, group: 100, state: 'S', start: 5 }).collect()
    };
    Look {
        leader: Leader::Unreaped,
        number_reused: false,
        members: named(members),
        zombies: 0,
        same_session: true,
        escaped: named(escaped),
    }
}

fn actions(session: &mut Session) -> Vec<Action> {
    core::iter::from_fn(|| session.poll_action()).collect()
}

/// A session whose leader has exited, with its first look asked for.
fn exited(config: Config) -> Session {
    let mut session = Session::new(START, 100, config);
    session.handle_exited(START);
    assert_eq!(session.state(), State::Closing(Phase::Grace));
    assert!(actions(&mut session).contains(&Action::Look));
    session
}

fn phase(session: &Session) -> Phase {
    match session.state() {
        State::Closing(phase) => phase,
        state @ (State::Setup(_) | State::Online | State::Closed) => panic!("{state:?}"),
    }
}

#[test]
fn names_are_stable() {
    let phases = Phase::ALL.map(Phase::as_str);
    assert_eq!(phases, ["flush", "grace", "term", "kill", "sweep", "drain", "close"]);
    assert_eq!(Stream::ALL.map(Stream::as_str), ["stdout", "stderr"]);
    let causes = [Cause::Closed, Cause::ChildExited, Cause::StalledSink, Cause::BadProof].map(Cause::as_str);
    assert_eq!(causes, ["closed", "child_exited", "stalled_sink", "bad_proof"]);
    let failures = [Failure::Read(Stream::Stdout), Failure::Look, Failure::Reap].map(Failure::as_str);
    assert_eq!(failures, ["read_stdout", "look", "reap"]);
    let verdicts = [Verdict::BudgetExceeded, Verdict::Leaked, Verdict::Abandoned].map(Verdict::as_str);
    assert_eq!(verdicts, ["budget_exceeded", "leaked", "abandoned"]);
}

#[test]
fn a_ledger_is_empty_only_without_any_entry() {
    assert!(Ledger::default().is_empty() && !Ledger::default().readers());
    for (resource, reads) in [
        (Resource::Stdin, false),
        (Resource::Output(Stream::Stdout), true),
        (Resource::Output(Stream::Stderr), true),
        (Resource::Child, false),
    ] {
        let mut ledger = Ledger::default();
        *ledger.entry(resource) = true;
        assert!(!ledger.is_empty(), "{resource:?}");
        assert_eq!(ledger.readers(), reads, "{resource:?}");
    }
}

#[test]
fn a_queue_takes_what_fits_to_the_byte_and_counts_what_it_took() {
    let limits = QueueLimits { bytes: 10, control_bytes: 5, ..QueueLimits::default() };
    let mut outbox = Outbox::new(limits);
    assert!(!outbox.is_closing());
    assert_eq!(outbox.admit(10), Ok(()));
    assert_eq!(outbox.admit(11), Err(Refused::TooLarge));
    let call = outbox.call(START, vec![b'c'; 10], None, NEVER).unwrap();
    assert_eq!((outbox.counters().frames_high, outbox.counters().bytes_high), (1, 10));
    assert!(!outbox.answered(call), "of a call that has not begun, no answer is one");
    assert_eq!(outbox.poll_transmit().map(<[u8]>::len), Some(10));
    assert!(!outbox.answered(call), "nor before its first byte");
    outbox.accepted(START, 4);
    outbox.accepted(START, 1_000);
    assert_eq!(outbox.counters().bytes, 10, "no more than was offered");
    assert!(outbox.answered(call));
    assert_eq!(outbox.control(START, ControlKey::Goodbye, vec![0; 6]), Err(Refused::TooLarge));
    let slots: Vec<ReplySlot> = (0..2).map(|_| outbox.reserve_reply(1).unwrap()).collect();
    outbox.close();
    assert!(outbox.is_closing());
    for slot in slots {
        assert_eq!(outbox.reply(START, slot, vec![0]), Err(Refused::Closed));
    }
    assert_eq!(outbox.counters().unsent, 2);
    assert_eq!(outbox.control(START, ControlKey::Cancel(call), vec![0]), Err(Refused::Closed));
    assert_eq!(outbox.control(START, ControlKey::Goodbye, vec![0; 5]), Ok(()), "the last word");
}

#[test]
fn an_answer_to_a_call_that_is_half_out_is_an_answer_and_one_to_another_is_none() {
    let mut outbox = Outbox::new(QueueLimits::default());
    let first = outbox.call(START, vec![b'c'; 10], None, NEVER).unwrap();
    let second = outbox.call(START, vec![b'c'; 10], None, NEVER).unwrap();
    assert!(outbox.poll_transmit().is_some());
    outbox.accepted(START, 3);
    assert!(!outbox.answered(second));
    assert!(outbox.answered(first));
}

#[test]
fn pa6_a_line_that_closes_is_not_online() {
    let mut line = Lifecycle::new(Restart::default());
    let generation = line.begin().unwrap();
    assert!(line.online(generation));
    line.closing(generation);
    assert_eq!(line.status(), Status::Closing(generation));
}

#[test]
fn pd29_each_thing_that_had_to_be_done_is_worth_a_record() {
    let seen = StreamReport { eof: true, ..StreamReport::default() };
    let quiet = Report { stdout: seen, stderr: seen, reaped: true, ..Report::default() };
    assert!(!quiet.is_slow_path());
    let survivor = Survivor { pid: 7, group: 7, state: 'S', start: 1 };
    for loud in [
        Report { phases: vec![(Phase::Term, core::time::Duration::ZERO)], ..quiet.clone() },
        Report { failure: Some(Failure::Signal), ..quiet.clone() },
        Report { swept: 1, ..quiet.clone() },
        Report { survivors: vec![survivor], ..quiet.clone() },
        Report { stdout: StreamReport::default(), ..quiet.clone() },
        Report { stderr: StreamReport::default(), ..quiet.clone() },
        Report { reaped: false, ..quiet.clone() },
    ] {
        assert!(loud.is_slow_path(), "{loud:?}");
    }
}

#[test]
fn a_session_tells_who_it_is_why_it_ends_and_what_nobody_took() {
    let setup = Some(core::time::Duration::from_secs(1));
    let mut session = Session::new(START, 100, Config { generation: 7, setup, ..Config::default() });
    assert_eq!((session.generation(), session.cause()), (7, None));
    assert!(session.ready(), "PA12");
    session.handle_output(START, Stream::Stdout, b"said".to_vec());
    session.close(START, Cause::Timeout);
    assert_eq!(session.cause(), Some(Cause::Timeout));
    session.abandon(START);
    assert_eq!(session.cause(), Some(Cause::Timeout));
    let ended = session.ended().unwrap();
    assert_eq!(ended.output(), [(Stream::Stdout, b"said".to_vec())]);
    assert_eq!(ended.rest_text(Stream::Stdout), "said");
}

#[test]
fn only_a_cancel_hurries_a_grace_and_only_while_the_leader_lives() {
    let mut session = Session::new(START, 100, Config::default());
    session.close(START, Cause::Closed);
    session.close(START, Cause::Timeout);
    assert_eq!(phase(&session), Phase::Grace);
    session.close(START, Cause::Cancelled);
    assert_eq!(phase(&session), Phase::Term);
    let mut session = exited(Config::default());
    session.close(START, Cause::Cancelled);
    assert_eq!(phase(&session), Phase::Grace, "it went by itself");
}

#[test]
fn what_nobody_takes_during_the_teardown_is_kept_to_the_bound_and_counted_beyond_it() {
    let mut session = exited(Config { stdout: Capture::Deliver(0), ..Config::default() });
    session.handle_output(START, Stream::Stdout, vec![b'x'; 1 << 18]);
    session.handle_output(START, Stream::Stdout, vec![b'x'; 3]);
    session.abandon(START);
    let stdout = session.ended().unwrap().report().stdout;
    assert_eq!((stdout.bytes, stdout.truncated), ((1 << 18) + 3, 3));
}

#[test]
fn pd3_escapees_are_killed_in_the_sweep_and_not_before() {
    let mut session = exited(Config { sweep: true, ..Config::default() });
    session.handle_look(START, look(&[], &[105]));
    let kill = |action: &Action| matches!(action, Action::KillEscaped(_));
    assert!(!actions(&mut session).iter().any(kill));
    Stream::ALL.into_iter().for_each(|stream| session.handle_eof(START, stream));
    assert_eq!(phase(&session), Phase::Sweep);
    assert!(actions(&mut session).contains(&Action::Look));
    session.handle_look(START, look(&[], &[105]));
    assert!(actions(&mut session).iter().any(kill));
}

#[test]
fn a_failure_of_something_else_says_nothing_of_the_next_look() {
    let mut session = exited(Config::default());
    session.handle_look(START, look(&[101], &[]));
    let next = session.deadline();
    session.handle_failure(START, Failure::Panicked);
    assert_eq!(session.deadline(), next);
}

#[test]
fn the_grace_goes_on_while_a_stream_is_open_or_somebody_lives() {
    let mut session = exited(Config::default());
    session.handle_look(START, look(&[], &[]));
    session.handle_eof(START, Stream::Stdout);
    assert_eq!(phase(&session), Phase::Grace, "errors may come");
    let mut session = exited(Config::default());
    session.handle_look(START, look(&[101], &[]));
    Stream::ALL.into_iter().for_each(|stream| session.handle_eof(START, stream));
    assert_eq!(phase(&session), Phase::Grace, "one of the group lives");
}

#[test]
fn pd6_the_leader_is_reaped_when_the_readers_are_gone() {
    let mut session = exited(Config::default());
    session.handle_look(START, look(&[], &[]));
    while phase(&session) != Phase::Close {
        session.handle_timeout(session.deadline().unwrap());
    }
    let now = session.deadline().unwrap();
    let done = actions(&mut session);
    assert!(done.contains(&Action::CloseOutput) && !done.contains(&Action::Reap), "{done:?}");
    session.handle_gone(START, Resource::Output(Stream::Stdout));
    assert_eq!(actions(&mut session), []);
    session.handle_gone(START, Resource::Output(Stream::Stderr));
    assert_eq!(actions(&mut session), [Action::Reap]);
    // Killed by others, it is not ours.
    session.handle_reaped(now, Some(Exit::Signal(9)));
    assert_eq!(session.ended().unwrap().report().ended_by, EndedBy::Itself);
}

#[test]
fn pb5_a_flush_is_over_when_all_is_out_or_nobody_takes_it() {
    let flushing = || {
        let mut session = Session::new(START, 100, Config::default());
        session.outbox_mut().call(START, vec![b'c'; 10], None, NEVER).unwrap();
        session.close(START, Cause::Closed);
        assert_eq!(phase(&session), Phase::Flush);
        session
    };
    let mut session = flushing();
    assert!(session.outbox_mut().poll_transmit().is_some());
    session.handle_written(START, 10);
    assert_eq!(phase(&session), Phase::Grace, "all is out");
    let mut session = flushing();
    session.handle_gone(START, Resource::Stdin);
    assert_eq!(phase(&session), Phase::Grace, "the input is gone");
    let mut session = flushing();
    session.handle_exited(START);
    assert_eq!(phase(&session), Phase::Grace, "the child is gone");
}

#[test]
fn pd24_the_group_is_killed_once() {
    let mut session = Session::new(START, 100, Config::default());
    session.close(START, Cause::Cancelled);
    let mut now = START;
    let mut done = Vec::new();
    for expected in [Phase::Term, Phase::Kill] {
        assert_eq!(phase(&session), expected);
        let asked = actions(&mut session);
        assert!(asked.contains(&Action::Look));
        done.extend(asked);
        session.handle_look(now, look(&[101], &[]));
        done.extend(actions(&mut session));
        now = session.deadline().unwrap();
        session.handle_timeout(now);
    }
    done.extend(actions(&mut session));
    let kills = done.iter().filter(|action| **action == Action::SignalGroup(Signal::Kill));
    assert_eq!(kills.count(), 1, "{done:?}");
}
