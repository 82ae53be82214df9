//! Looks that take their time: what has happened since one began is not in it, and nothing waits for one that never ends.

use super::super::budget::Budget;
use super::super::look::Leader;
use super::*;

const START: Instant = Instant::from_micros(10_000_000);

/// The next look is asked for, and not answered yet.
fn asked_to_look(session: &mut Session) -> bool {
    core::iter::from_fn(|| session.poll_action()).filter(|action| *action == Action::Look).count() == 1
}

fn alone(leader: Leader) -> Look {
    Look {
        leader,
        number_reused: false,
        members: Vec::new(),
        zombies: 0,
        same_session: true,
        escaped: Vec::new(),
    }
}

#[test]
fn a_look_that_began_before_the_exit_proves_nothing_after_it() {
    let mut session = Session::new(START, 100, Config::default());
    session.close(START, Cause::Cancelled);
    assert!(asked_to_look(&mut session));
    session.handle_exited(START);
    for stream in Stream::ALL {
        session.handle_eof(START, stream);
    }
    assert!(!asked_to_look(&mut session), "one at a time");
    // The leader may have started somebody since.
    session.handle_look(START, alone(Leader::Unreaped));
    assert_eq!(session.state(), State::Closing(Phase::Term));
    assert!(asked_to_look(&mut session), "that one counts");
    session.handle_look(START, alone(Leader::Unreaped));
    assert_eq!(session.state(), State::Closing(Phase::Close));
    assert_eq!(session.poll_action(), Some(Action::SignalGroup(Signal::Term)));
}

#[test]
fn pd22_no_signal_follows_a_look_that_began_in_another_phase() {
    let mut session = Session::new(START, 100, Config::default());
    session.close(START, Cause::Cancelled);
    assert!(asked_to_look(&mut session));
    let term_over = session.deadline().unwrap();
    session.handle_timeout(term_over);
    assert_eq!(session.state(), State::Closing(Phase::Kill));
    assert!(!asked_to_look(&mut session));
    session.handle_look(term_over, alone(Leader::Unreaped));
    assert_eq!(session.poll_action(), Some(Action::Look), "no KILL by what was seen before");
    session.handle_look(term_over, alone(Leader::Unreaped));
    assert_eq!(session.poll_action(), Some(Action::SignalGroup(Signal::Kill)));
}

#[test]
fn pd19_a_look_that_never_ends_holds_up_neither_the_kill_nor_the_end() {
    let mut session = Session::new(START, 100, Config::default());
    session.close(START, Cause::Cancelled);
    let mut done = Vec::new();
    while session.state() != State::Closed {
        done.extend(core::iter::from_fn(|| session.poll_action()));
        session.handle_timeout(session.deadline().unwrap());
    }
    assert_eq!(done.iter().filter(|action| **action == Action::Look).count(), 1);
    let killed = [Action::SignalGroup(Signal::Kill), Action::SignalLeader(Signal::Kill)];
    assert!(done.windows(2).any(|two| two == killed), "{done:?}");
    let ended = session.ended().unwrap();
    assert_eq!(ended.verdict(), Verdict::BudgetExceeded);
    assert_eq!(ended.report().elapsed, Budget::default().outer());
}
