//! Section 3 of child-processes.md with real processes: the end of a child, whatever it leaves behind.

use crate::chaos::{Control, patient, run};
use crate::fake::Fake;
use crate::on_both_runtimes;
use hostwire::Runtime;
use hostwire::core::child::{
    Budget, Capture, Cause, Config, EndedBy, Exit, Failure, Group, Phase, Phases, Report, State, Stream,
    Verdict,
};
use hostwire::process::{Extras, Pool, Session, close_all, spawn};
use hostwire::testing::ManualClock;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

/// Reads to the end; what stdout said.
async fn hear<R: Runtime>(session: &Session<R>) -> Vec<u8> {
    let mut heard = Vec::new();
    while let Some((stream, bytes)) = session.read().await {
        if stream == Stream::Stdout {
            heard.extend(bytes);
        }
    }
    heard
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

on_both_runtimes! {
    async fn pd1_a_normal_exit_completes_with_every_byte_and_no_record(bench) {
        let records = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&records);
        let extras = Extras::observed(move |_| { seen.fetch_add(1, Ordering::SeqCst); });
        let command = shell("echo one; echo two >&2; exit 3");
        let session = Session::spawn_with(&bench, command, run(), None, extras).unwrap();
        assert_eq!(hear(&session).await, b"one\n");
        let ended = session.ended().await;
        assert!(ended.verdict().is_completed(), "{ended:?}");
        assert_eq!((ended.report().exit, ended.report().ended_by), (Exit::Code(3), EndedBy::Itself));
        assert_eq!((ended.report().stdout.lines, ended.report().group), (1, Group::Empty));
        assert_eq!(ended.rest_text(Stream::Stderr), "two\n");
        assert_eq!(records.load(Ordering::SeqCst), 0, "PD29: nothing to record");
        assert!(session.is_settled());
    }

    /// The first field story: the child exits, a grandchild keeps its pipe, and it settles all the same, with the output.
    async fn pd2_an_exit_with_a_grandchild_that_holds_the_pipe_settles_with_its_output(bench) {
        for mode in ["grandchild", "stubborn-grandchild"] {
            let mut control = Control::new();
            let records = Arc::new(Mutex::new(Vec::<Report>::new()));
            let seen = Arc::clone(&records);
            let extras = Extras::observed(move |report| seen.lock().unwrap().push(report.clone()));
            let session = Session::spawn_with(&bench, control.command(mode, 0), run(), None, extras).unwrap();
            control.know(&bench, 2).await;
            assert_eq!(hear(&session).await, b"the last line\n");
            let ended = session.ended().await;
            assert!(ended.verdict().is_completed(), "{ended:?}");
            assert_eq!(ended.report().exit, Exit::Code(0));
            let phases: Vec<Phase> = ended.report().phases.iter().map(|(phase, _)| *phase).collect();
            assert_eq!(phases[..2], [Phase::Grace, Phase::Kill]);
            control.all_gone(&bench).await;
            assert_eq!(records.lock().unwrap().len(), 1, "PD29: one record");
        }
    }

    async fn pd3_an_escaped_grandchild_is_named_and_no_reader_stays(bench) {
        let mut control = Control::new();
        let session = Session::spawn(&bench, control.command("session-grandchild", 0), run()).unwrap();
        control.know(&bench, 2).await;
        assert_eq!(hear(&session).await, b"the last line\n");
        let ended = session.ended().await;
        assert_eq!(ended.verdict(), Verdict::Leaked, "{ended:?}");
        let survivors: Vec<u32> = ended.report().survivors.iter().map(|survivor| survivor.pid).collect();
        let escaped: Vec<u32> = control.pids().into_iter().filter(|pid| *pid != session.pid()).collect();
        assert_eq!(survivors, escaped);
        assert!(session.is_settled() && !ended.report().stdout.eof);
        control.kill();
        control.all_gone(&bench).await;
    }

    async fn pd4_a_daemon_without_our_pipes_is_not_hidden_by_their_end(bench) {
        let mut control = Control::new();
        let session = Session::spawn(&bench, control.command("daemon", 0), run()).unwrap();
        control.know(&bench, 2).await;
        let ended = session.ended().await;
        assert!(ended.report().stdout.eof && ended.report().stderr.eof && ended.report().group == Group::Empty);
        assert_eq!(ended.report().survivors.len(), 1, "{ended:?}");
        assert_eq!(ended.verdict(), Verdict::Leaked);
        control.kill();
        control.all_gone(&bench).await;
    }

    async fn pd5_what_was_written_before_the_kill_is_read_after_it(bench) {
        let mut control = Control::new();
        // Nothing is read before the teardown: a delivered stream without room.
        let config = Config { stdout: Capture::Deliver(0), ..run() };
        let session = Session::spawn(&bench, control.command("full-pipe", 0), config).unwrap();
        control.know(&bench, 1).await;
        let ended = session.ended().await;
        let said = ended.rest(Stream::Stdout);
        assert_eq!(said.len(), 65_536);
        assert!(said.ends_with(b"\nthe last line\n"));
        assert!(ended.verdict().is_completed());
    }

    async fn pd10_pd7_what_cannot_be_killed_ends_at_the_budget_on_the_injected_clock(bench) {
        let clock = ManualClock::new(bench.clone());
        let pool = Pool::new(1);
        let fake = Fake::default();
        let (spawned, _child_ends) = fake.spawned();
        let config = Config { budget: Budget::default(), ..run() };
        let session = Session::adopt(&clock, spawned, config, pool.try_slot(), Extras::default()).unwrap();
        assert_eq!(pool.free(), 0);
        let began = clock.now();
        session.close(Cause::Cancelled);
        while session.try_ended().is_none() {
            bench.pause().await; // the task takes in what has happened, then time goes on
            clock.advance_to_next();
        }
        let ended = session.ended().await;
        assert_eq!(ended.verdict(), Verdict::BudgetExceeded);
        assert_eq!(clock.now().saturating_since(began), config.budget.outer());
        assert_eq!((pool.free(), clock.timers()), (1, 0), "PD28");
        assert!(fake.looks() < 10, "it does not spin");
        bench.until("its task", || bench.tasks() == 0).await;
    }

    /// Also what looks at the processes may hang, on one that is stuck: it hangs where blocking is allowed, and holds up no bound.
    async fn pd19_a_look_that_hangs_holds_up_neither_the_kill_nor_the_end(bench) {
        let clock = ManualClock::new(bench.clone());
        let (end, hangs) = channel();
        let fake = Fake { hangs: Some(Arc::new(Mutex::new(hangs))), ..Fake::default() };
        let (spawned, _child_ends) = fake.spawned();
        let config = Config { budget: Budget::default(), ..run() };
        let session = Session::adopt(&clock, spawned, config, None, Extras::default()).unwrap();
        let began = clock.now();
        session.close(Cause::Cancelled);
        bench.until("a look", || fake.looks() == 1).await;
        while session.try_ended().is_none() {
            bench.pause().await;
            clock.advance_to_next();
        }
        let ended = session.ended().await;
        assert_eq!(ended.verdict(), Verdict::BudgetExceeded, "{ended:?}");
        assert_eq!(clock.now().saturating_since(began), config.budget.outer());
        assert!(fake.did("group Kill") && fake.did("leader Kill"), "its own guard decides");
        let own = format!("look on {:?}", std::thread::current().id());
        assert!(!fake.did(&own), "it would have held up its runtime");
        assert_eq!(fake.looks(), 1, "one at a time");
        drop(end);
        bench.until("its task", || bench.tasks() == 0).await;
    }

    /// PA10: the clock shows how long the teardown of many takes, and it is what one takes.
    async fn pa10_the_teardown_of_a_hundred_takes_the_budget_of_one(bench) {
        let clock = ManualClock::new(bench.clone());
        let began = clock.now();
        let mut ends = Vec::new();
        let sessions: Vec<_> = (0..100).map(|_| {
            let (spawned, child_ends) = Fake::default().spawned();
            ends.extend(child_ends);
            Session::adopt(&clock, spawned, run(), None, Extras::default()).unwrap()
        }).collect();
        let mut closing = pin!(close_all(&sessions, Cause::Shutdown));
        let all = loop {
            if let Poll::Ready(all) = poll_fn(|cx| Poll::Ready(closing.as_mut().poll(cx))).await {
                break all;
            }
            bench.pause().await;
            clock.advance_to_next();
        };
        assert_eq!(all.len(), 100);
        assert!(all.iter().all(|ended| ended.verdict() == Verdict::BudgetExceeded));
        assert_eq!(clock.now().saturating_since(began), run().budget.outer());
    }

    async fn pd8_a_step_that_panics_is_errored_and_the_child_is_killed(bench) {
        let fake = Fake { panics: true, ..Fake::default() };
        let (spawned, child_ends) = fake.spawned();
        // Nothing can be seen, so every phase lasts its time.
        let short = Duration::from_millis(50);
        let phases = Phases { term: short, kill: short, sweep: short, ..*patient().phases() };
        let config = Config { budget: Budget::around(phases).unwrap(), ..run() };
        let session = Session::adopt(&bench, spawned, config, None, Extras::default()).unwrap();
        session.close(Cause::Cancelled);
        bench.until("the kill", || fake.did("group Kill") || fake.did("group Term")).await;
        drop(child_ends); // now it dies
        let silent = session.ended().await;
        assert_eq!(silent.verdict(), Verdict::Errored(Failure::Panicked), "{silent:?}");
    }

    async fn pd12_two_waiters_get_the_same_value(bench) {
        let session = Session::spawn(&bench, shell("echo x"), run()).unwrap();
        let (first, second) = (session.clone(), session.clone());
        let first = first.ended().await;
        assert_eq!(first, second.ended().await);
        session.close(Cause::Cancelled);
        assert_eq!(first, session.ended().await, "PA3");
    }

    async fn pd14_a_result_is_delivered_at_once_and_a_lingering_child_is_ended_when_nothing_is_owed(bench) {
        let config = Config { linger: Duration::from_millis(50), ..run() };
        let control = Control::new();
        let session = Session::spawn(&bench, control.command("never-read", 0), config).unwrap();
        let mut control = control;
        control.know(&bench, 1).await;
        assert_eq!(session.read().await.unwrap().1, b"ready\n");
        session.note_result(b"42".to_vec());
        assert_eq!(session.result().unwrap(), b"42", "the process lives");
        assert!(session.is_online());
        session.note_nothing_owed();
        let ended = session.ended().await;
        assert_eq!((ended.report().cause, ended.result()), (Cause::Idle, Some(&b"42"[..])));
        assert!(ended.verdict().is_completed() && ended.report().killed_in_teardown, "PD16: {ended:?}");
        control.all_gone(&bench).await;
    }

    async fn pd17_a_child_that_reads_nothing_is_an_error_with_its_bytes_and_no_signal(bench) {
        let config = Config { stdin: true, ..run() };
        let session = Session::spawn(&bench, shell("exec 0<&-; echo closed; sleep 0.05; exit 4"), config).unwrap();
        assert_eq!(session.read().await.unwrap().1, b"closed\n");
        let never = bench.now() + Duration::from_secs(3_600);
        session.call(vec![b'x'; 100], None, never).await.unwrap();
        let ended = session.ended().await;
        assert!(ended.report().input_closed_early && ended.report().input_bytes == 0, "{ended:?}");
        assert_eq!(ended.report().exit, Exit::Code(4), "and its own end is its own");
        assert!(ended.verdict().is_completed());
    }

    async fn pd20_a_teardown_touches_nobody_else(bench) {
        let mut control = Control::new();
        let doomed = Session::spawn(&bench, control.command("with-stubborn", 0), run()).unwrap();
        let other = Session::spawn(&bench, shell("read line; exit 5"), Config { stdin: true, ..run() }).unwrap();
        control.know(&bench, 2).await;
        assert_eq!(doomed.read().await.unwrap().1, b"ready\n");
        doomed.close(Cause::Cancelled);
        drop(doomed);
        control.all_gone(&bench).await;
        assert!(other.is_online());
        other.finish_input();
        assert_eq!(other.ended().await.report().exit, Exit::Code(5));
    }

    async fn pd21_a_leader_that_somebody_else_has_reaped_is_not_signalled_and_its_group_is(bench) {
        let mut control = Control::new();
        let spawned = spawn(control.command("grandchild", 0), false).unwrap();
        let leader = rustix::process::Pid::from_raw(i32::try_from(spawned.pid).unwrap()).unwrap();
        control.know(&bench, 2).await;
        // Somebody who waits for any child has been faster.
        let reaped = rustix::process::waitpid(Some(leader), rustix::process::WaitOptions::empty());
        assert!(reaped.unwrap().is_some());
        let session = Session::adopt(&bench, spawned, run(), None, Extras::default()).unwrap();
        let ended = session.ended().await;
        assert!(ended.verdict().is_completed(), "{ended:?}");
        assert_eq!(ended.report().exit, Exit::Unknown);
        control.all_gone(&bench).await;
    }

    async fn pd22_a_number_that_belongs_to_others_gets_no_signal(bench) {
        let fake = Fake { foreign: true, ..Fake::default() };
        let (spawned, child_ends) = fake.spawned();
        let session = Session::adopt(&bench, spawned, run(), None, Extras::default()).unwrap();
        drop(child_ends); // it has exited, and was reaped by others
        session.ended().await;
        assert!(!fake.did("group Term") && !fake.did("group Kill") && !fake.did("leader Kill"));
    }

    async fn pd23_a_stopped_child_is_continued_and_ends(bench) {
        let mut control = Control::new();
        let session = Session::spawn(&bench, control.command("stopped", 0), run()).unwrap();
        control.know(&bench, 1).await;
        assert_eq!(session.read().await.unwrap().1, b"ready\n");
        let stat = format!("/proc/{}/stat", session.pid());
        bench.until("the stop", || std::fs::read_to_string(&stat).unwrap().contains(") T ")).await;
        session.close(Cause::Cancelled);
        let ended = session.ended().await;
        assert_eq!((ended.report().exit, ended.report().ended_by), (Exit::Signal(15), EndedBy::OurTerm));
        assert!(ended.verdict().is_completed());
    }

    async fn pd24_one_kill_ends_a_fork_loop(bench) {
        let mut control = Control::new();
        let budget = Budget::around(Phases {
            term: Duration::ZERO,
            ..*patient().phases()
        }).unwrap();
        let session = Session::spawn(&bench, control.command("fork-loop", 100), Config { budget, ..run() }).unwrap();
        control.know(&bench, 1).await;
        assert_eq!(session.read().await.unwrap().1, b"ready\n");
        session.close(Cause::Cancelled);
        let ended = session.ended().await;
        assert!(ended.verdict().is_completed(), "{ended:?}");
        assert!(ended.report().survivors.is_empty());
    }

    async fn pd25_the_escalation_follows_the_group(bench) {
        let mut control = Control::new();
        let budget = Budget::around(Phases {
            term: Duration::from_millis(200),
            ..*patient().phases()
        }).unwrap();
        let session = Session::spawn(&bench, control.command("with-stubborn", 0), Config { budget, ..run() }).unwrap();
        control.know(&bench, 2).await;
        assert_eq!(session.read().await.unwrap().1, b"ready\n");
        session.close(Cause::Cancelled);
        let ended = session.ended().await;
        assert!(ended.verdict().is_completed(), "{ended:?}");
        assert_eq!((ended.report().exit, ended.report().ended_by), (Exit::Signal(15), EndedBy::OurTerm));
        assert!(ended.report().phases.iter().any(|(phase, _)| *phase == Phase::Kill));
        control.all_gone(&bench).await;
    }

    async fn pd26_ten_megabytes_of_errors_without_a_line_end_never_block_the_child(bench) {
        const SIZE: usize = 10 << 20;
        let mut control = Control::new();
        let session = Session::spawn(&bench, control.command("chatty-stderr", SIZE), run()).unwrap();
        control.know(&bench, 1).await;
        assert_eq!(hear(&session).await, b"done\n");
        let ended = session.ended().await;
        assert_eq!(ended.report().stderr.bytes, SIZE as u64);
        assert_eq!(ended.rest(Stream::Stderr).len(), 1 << 16, "the ring");
        assert_eq!(ended.report().stderr.truncated, (SIZE - (1 << 16)) as u64);
        assert!(ended.verdict().is_completed());
    }

    async fn pd27_a_cancel_while_waiting_for_a_slot_makes_no_process_and_pd28_a_slot_comes_back(bench) {
        let pool = Pool::new(1);
        let slot = pool.slot().await;
        {
            let mut waiting = pin!(async { (pool.slot().await, spawn(shell("exit 1"), false)) });
            let polled = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await;
            assert!(polled, "no slot, no process");
        }
        // Between spawn and registration: a spawned child that nobody takes is killed.
        let mut control = Control::new();
        let spawned = spawn(control.command("never-read", 0), false).unwrap();
        control.know(&bench, 1).await;
        drop(spawned);
        control.all_gone(&bench).await;
        // Registered, and its task dropped before its first poll: the same.
        let session = Session::spawn_with(&bench, control.command("never-read", 0), run(), Some(slot), Extras::default());
        drop(session.unwrap());
        assert_eq!(pool.free(), 1, "PD28");
        // Each outcome gives it back.
        for script in ["exit 0", "sleep 1000", "kill -9 $$"] {
            let session = Session::spawn_with(&bench, shell(script), run(), pool.try_slot(), Extras::default()).unwrap();
            assert_eq!(pool.free(), 0);
            session.close(Cause::Cancelled);
            session.ended().await;
            assert_eq!(pool.free(), 1);
        }
        assert!(Session::spawn_with(&bench, Command::new("/nonexistent/program"), run(), pool.try_slot(), Extras::default()).is_err());
        assert_eq!(pool.free(), 1);
    }

    /// A read of a process's own input that is pending does not keep the process, and whoever shares the pipe sees no change of it.
    async fn pd30_a_pending_read_of_the_own_input_can_be_left(bench) {
        for runtime in ["tokio", "smol"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_child-peer"));
            command.args(["reads", runtime]);
            let session = Session::spawn(&bench, command, Config { stdin: true, ..run() }).unwrap();
            // Its input stays open all the while: its end is its own.
            let ended = session.ended().await;
            assert_eq!((ended.report().exit, ended.report().cause), (Exit::Code(0), Cause::ChildExited), "{runtime}: {ended:?}");
            assert!(ended.verdict().is_completed());
        }
    }

    async fn pa10_many_children_that_ignore_everything_take_one_budget_together(bench) {
        let mut control = Control::new();
        let budget = Budget::around(Phases {
            term: Duration::from_millis(300),
            ..*patient().phases()
        }).unwrap();
        let config = Config { budget, ..run() };
        let mut sessions = Vec::new();
        for _ in 0..10 {
            sessions.push(Session::spawn(&bench, control.command("ignoring", 0), config).unwrap());
        }
        control.know(&bench, 10).await;
        for session in &sessions {
            assert_eq!(session.read().await.unwrap().1, b"ready\n");
        }
        let all = close_all(&sessions, Cause::Shutdown).await;
        for ended in &all {
            assert!(ended.verdict().is_completed(), "{ended:?}");
            assert_eq!(ended.report().ended_by, EndedBy::OurKill);
            assert_eq!(ended.report().phases[0].0, Phase::Term, "nobody is asked by an input that is not there");
        }
        control.all_gone(&bench).await;
    }

    async fn a_thousand_short_runs_leave_nothing_behind(bench) {
        for round in 0..1_000 {
            let session = Session::spawn(&bench, Command::new("true"), run()).unwrap();
            let ended = session.ended().await;
            assert!(ended.verdict().is_completed(), "{round}: {ended:?}");
        }
    }
}

/// PA4: dropped at every await point of the end, and before the first.
#[test]
fn pa4_an_owner_that_is_dropped_at_any_point_has_killed_the_group_by_the_end_of_the_drop() {
    async fn at_every_point<R: Runtime>(bench: crate::audit::Bench<R>) {
        for polls in 0..6 {
            let mut control = Control::new();
            let session = Session::spawn(&bench, control.command("ignoring-family", 0), run()).unwrap();
            control.know(&bench, 2).await;
            {
                let owner = session.clone();
                let mut closing = pin!(async move {
                    owner.close(Cause::Closed);
                    owner.ended().await
                });
                for _ in 0..polls {
                    let polled = poll_fn(|cx| Poll::Ready(closing.as_mut().poll(cx))).await;
                    assert!(polled.is_pending(), "it ignores everything");
                    bench.pause().await;
                }
            }
            drop(session);
            // The kill is out: nothing else runs on this thread from here on, and they end by nothing else.
            control.all_gone_blocking();
        }
    }
    crate::audit::on_tokio(|tokio| crate::audit::audited(tokio, at_every_point));
    crate::audit::on_smol(|smol| crate::audit::audited(smol, at_every_point));
}

/// PA5: the runtime goes at each point, and no process stays.
#[test]
fn pa5_a_runtime_that_goes_takes_its_children_with_it() {
    let _alone = crate::audit::alone();
    for point in 0..3 {
        let mut control = Control::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tokio = hostwire_tokio::Tokio::new(runtime.handle().clone());
        let kept = runtime.block_on(async {
            let bench = crate::audit::bench(tokio);
            let session = Session::spawn(&bench, control.command("ignoring-family", 0), run()).unwrap();
            if point == 0 {
                return session; // its task was never polled
            }
            control.know(&bench, 2).await;
            if point == 2 {
                session.close(Cause::Closed);
                bench.pause().await; // in the middle of the grace
                assert!(matches!(session.state(), State::Closing(_)));
            }
            session
        });
        drop(runtime);
        assert_eq!(kept.try_ended().unwrap().verdict(), Verdict::Abandoned);
        control.all_gone_blocking();
        drop(kept);
    }
    for point in 0..3 {
        let mut control = Control::new();
        let executor = Arc::new(async_executor::Executor::new());
        let kept = async_io::block_on(executor.run(async {
            let bench = crate::audit::bench(hostwire_smol::Smol::new(&executor));
            let session = Session::spawn(&bench, control.command("ignoring-family", 0), run()).unwrap();
            if point > 0 {
                control.know(&bench, 2).await;
            }
            if point == 2 {
                session.close(Cause::Closed);
                bench.pause().await;
            }
            // The bench holds the executor; what is kept must not.
            session.pid()
        }));
        assert!(kept > 1);
        drop(executor);
        control.all_gone_blocking();
    }
    while hostwire::process::reap_orphans() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}
