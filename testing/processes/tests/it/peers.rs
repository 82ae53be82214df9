//! Section 1 of child-processes.md with real processes: the making of a peer, and every way in which it fails.

use crate::audit::Bench;
use crate::chaos::{Control, patient, run};
use crate::on_both_runtimes;
use hostwire::Runtime;
use hostwire::core::child::{
    Cause, Config, ControlKey, Phase, Restart, Sent, Stage, State, Status, Stream, Verdict,
};
use hostwire::core::time::Instant;
use hostwire::process::{ConnectError, Extras, Keeper, Session, connect};
use std::future::{Future as _, pending, poll_fn};
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

fn peer() -> Config {
    Config { stdin: true, setup: Some(Duration::from_secs(60)), ..run() }
}

/// One line of the peer's.
async fn line<R: Runtime>(session: &Session<R>, heard: &mut Vec<u8>) -> Result<String, Cause> {
    loop {
        if let Some(end) = heard.iter().position(|byte| *byte == b'\n') {
            let rest = heard.split_off(end + 1);
            let line = std::mem::replace(heard, rest);
            return String::from_utf8(line).map_err(|_| Cause::Malformed);
        }
        match session.read().await {
            Some((Stream::Stdout, bytes)) => heard.extend(bytes),
            Some((Stream::Stderr, _)) => {}
            None => return Err(Cause::Eof),
        }
    }
}

/// The small protocol of `chaos-child`'s peers: a hello with a version, a proof, an index.
async fn greet<R: Runtime>(session: Session<R>) -> Result<(), Cause> {
    let mut heard = Vec::new();
    let steps = [
        (Stage::Hello, Stage::Reply, "hello"),
        (Stage::Reply, Stage::Verify, "proof"),
        (Stage::Verify, Stage::Index, "index"),
    ];
    for (writing, waiting, word) in steps {
        session.advance_to(writing);
        let call = session.try_call(format!("{word}\n").into_bytes(), None, Instant::FAR_FUTURE);
        let call = call.map_err(|_| Cause::WriteFailed)?;
        session.advance_to(waiting);
        let answer = line(&session, &mut heard).await?;
        let _ = session.answered(call);
        match answer.trim_end().split_once(' ') {
            Some(("error", _)) => return Err(Cause::PeerError),
            Some(("hello", version)) if version != "1" => return Err(Cause::WrongVersion),
            Some(("proof", proof)) if proof != "right" => return Err(Cause::BadProof),
            Some((said, _)) if said == word => {}
            Some(_) | None => return Err(Cause::Malformed),
        }
    }
    Ok(())
}

fn failed<R: Runtime>(result: Result<Session<R>, ConnectError>) -> Box<hostwire::core::child::Ended> {
    match result {
        Err(ConnectError::Handshake(ended)) => ended,
        other => panic!("{other:?}"),
    }
}

on_both_runtimes! {
    async fn a_peer_in_order_is_online_and_closes_in_order(bench) {
        let mut control = Control::new();
        let session = {
            let mut connecting = pin!(connect(&bench, control.command("peer-good", 0), peer(), Extras::default(), greet));
            assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
            control.know(&bench, 1).await;
            connecting.await.unwrap()
        };
        assert!(session.is_online());
        session.close(Cause::Closed);
        let ended = session.ended().await;
        assert!(ended.verdict().is_completed(), "{ended:?}");
        assert!(ended.report().phases.iter().all(|(phase, _)| *phase != Phase::Term), "the end of its input is enough");
    }

    /// The cells that a peer brings about: what it says, and when it goes.
    async fn pa1_every_failing_peer_ends_in_one_teardown_with_its_cause(bench) {
        let cells: [(&str, &[Cause]); 6] = [
            ("peer-error", &[Cause::PeerError]),
            ("peer-malformed", &[Cause::Malformed]),
            ("peer-version", &[Cause::WrongVersion]),
            ("peer-proof", &[Cause::BadProof]),
            ("peer-exit", &[Cause::Eof, Cause::ChildExited, Cause::WriteFailed]),
            ("exit", &[Cause::Eof, Cause::ChildExited, Cause::WriteFailed]),
        ];
        for (mode, causes) in cells {
            let mut command = Command::new(env!("CARGO_BIN_EXE_chaos-child"));
            command.args(["-", mode, "3"]);
            let ended = failed(connect(&bench, command, peer(), Extras::default(), greet).await);
            assert!(causes.contains(&ended.report().cause), "{mode}: {ended:?}");
            assert!(ended.verdict().is_completed(), "{mode}: {ended:?}");
        }
        // What this side brings about, at every stage that a silent peer leaves it in.
        for mode in ["peer-silent", "peer-half", "peer-unproven"] {
            for cause in [Cause::Cancelled, Cause::Shutdown, Cause::StalledSink, Cause::ReadFailed, Cause::WriteFailed] {
                let mut command = Command::new(env!("CARGO_BIN_EXE_chaos-child"));
                command.args(["-", mode]);
                let kept = Arc::new(Mutex::new(None));
                let keep = Arc::clone(&kept);
                let ended = {
                    let mut connecting = pin!(connect(&bench, command, peer(), Extras::default(), |session: Session<Bench<R>>| {
                        *keep.lock().unwrap() = Some(session.clone());
                        greet(session)
                    }));
                    assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
                    let session = kept.lock().unwrap().take().unwrap();
                    session.close(cause);
                    failed(connecting.await)
                };
                assert_eq!(ended.report().cause, cause, "{mode}");
                assert!(ended.verdict().is_completed(), "{mode}: {ended:?}");
            }
            // The setup's own deadline.
            let mut command = Command::new(env!("CARGO_BIN_EXE_chaos-child"));
            command.args(["-", mode]);
            let config = Config { setup: Some(Duration::from_millis(50)), ..peer() };
            let ended = failed(connect(&bench, command, config, Extras::default(), greet).await);
            assert_eq!(ended.report().cause, Cause::Timeout, "{mode}");
        }
        // The spawn.
        let error = connect(&bench, Command::new("/nonexistent"), peer(), Extras::default(), greet).await.unwrap_err();
        assert_eq!(error.cause(), Cause::SpawnFailed);
    }

    /// The second field story: the peer probes during the handshake, its sink takes nothing, the handshake fails; no writer stays.
    async fn pa2_a_failed_handshake_with_a_stalled_sink_leaves_no_writer(bench) {
        let mut control = Control::new();
        let writer_was_stuck = Arc::new(AtomicUsize::new(0));
        let stuck = Arc::clone(&writer_was_stuck);
        let ended = {
            let mut connecting = pin!(connect(&bench, control.command("pings", 400), peer(), Extras::default(), |session: Session<Bench<R>>| async move {
                let mut heard = Vec::new();
                for ping in 0..400 {
                    assert_eq!(line(&session, &mut heard).await?, format!("ping {ping}\n"));
                    let _ = session.control(ControlKey::Pong, format!("pong {ping}\n").into_bytes());
                }
                // A pipe's worth and more: the writer is in the middle of it, and nobody reads.
                let _ = session.try_call(vec![b'x'; 1 << 18], None, Instant::FAR_FUTURE);
                while session.counters().bytes < 1 << 15 {
                    session.closing_or_a_moment().await;
                }
                stuck.fetch_add(1, Ordering::SeqCst);
                Err(Cause::BadProof)
            }));
            assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
            control.know(&bench, 1).await;
            failed(connecting.await)
        };
        assert_eq!(writer_was_stuck.load(Ordering::SeqCst), 1);
        assert_eq!(ended.report().cause, Cause::BadProof, "PA9");
        assert!(ended.verdict().is_completed(), "{ended:?}");
        assert!(ended.report().input_bytes >= 1 << 15 && ended.report().input_bytes < 1 << 18);
        bench.until("the end of its one task", || bench.tasks() == 0).await;
        control.all_gone(&bench).await;
    }

    async fn pa3_two_teardowns_at_once_give_both_the_same_report(bench) {
        let mut control = Control::new();
        let session = Session::spawn(&bench, control.command("never-read", 0), run()).unwrap();
        control.know(&bench, 1).await;
        let (first, second) = (session.clone(), session.clone());
        let results = Arc::new(Mutex::new(Vec::new()));
        for owner in [first, second] {
            let results = Arc::clone(&results);
            bench.spawn(async move {
                owner.close(Cause::Cancelled);
                let ended = owner.ended().await;
                drop(owner);
                results.lock().unwrap().push(ended);
            });
        }
        bench.until("both", || results.lock().unwrap().len() == 2).await;
        let ended = session.ended().await;
        assert!(results.lock().unwrap().iter().all(|result| *result == ended));
    }

    async fn pa4_a_connect_that_is_dropped_at_any_point_leaves_no_process(bench) {
        for polls in 0..12 {
            let mut control = Control::new();
            {
                let mut connecting = pin!(connect(&bench, control.command("peer-half", 0), peer(), Extras::default(), greet));
                for poll in 0..polls {
                    let polled = poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await;
                    assert!(polled, "it waits for a proof that never comes");
                    if poll == 1 {
                        control.know(&bench, 1).await;
                    }
                    bench.pause().await;
                }
            }
            control.all_gone(&bench).await;
        }
    }

    async fn pa6_a_close_of_ours_schedules_no_reconnect_and_a_loss_does(bench) {
        let keeper = keeper(&bench, "peer-good", Restart::default());
        let session = keeper.connect().await.unwrap();
        assert_eq!(keeper.status(), Status::Online(1));
        session.close(Cause::Closed);
        assert!(!session.is_online(), "at once, while its reader still reads");
        assert!(keeper.next().await.is_err());
        assert_eq!((keeper.scheduled(), keeper.status()), (0, Status::Idle));
        // Lost: another generation follows, and the old one's end is not seen twice.
        let session = keeper.connect().await.unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(session.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let next = keeper.next().await.unwrap();
        assert_eq!((keeper.scheduled(), next.generation()), (1, 3));
        assert!(next.is_online());
        keeper.shutdown().await.unwrap();
    }

    async fn pa7_after_the_shutdown_nothing_is_made(bench) {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let keeper = Keeper::new(bench.clone(), peer(), Extras::default(), Restart::default(), move || {
            count.fetch_add(1, Ordering::SeqCst);
            let mut command = Command::new(env!("CARGO_BIN_EXE_chaos-child"));
            command.args(["-", "peer-good"]);
            command
        }, greet);
        assert!(keeper.shutdown().await.is_none());
        assert!(matches!(keeper.connect().await, Err(ConnectError::Refused(_))));
        assert!(matches!(keeper.next().await, Err(ConnectError::Refused(_))));
        assert_eq!((made.load(Ordering::SeqCst), keeper.status()), (0, Status::Shut));
    }

    async fn pa8_a_cancel_in_the_first_attempt_is_the_only_attempt(bench) {
        let keeper = keeper(&bench, "peer-silent", Restart { attempts: 3, ..Restart::default() });
        {
            let mut connecting = pin!(keeper.connect());
            for _ in 0..3 {
                assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
                bench.pause().await;
            }
        }
        assert_eq!((keeper.attempts(), keeper.status()), (1, Status::Idle));
        // One that fails by itself is tried as often as it may be, and the last error is given.
        let keeper = self::keeper(&bench, "peer-proof", Restart { attempts: 3, first: Duration::from_millis(1), ..Restart::default() });
        let error = keeper.connect().await.unwrap_err();
        assert_eq!((keeper.attempts(), error.cause()), (3, Cause::BadProof));
    }

    async fn pa9_the_first_reason_is_the_error_and_what_went_wrong_later_is_attached(bench) {
        let mut control = Control::new();
        let ended = {
            let mut connecting = pin!(connect(&bench, control.command("session-grandchild", 0), peer(), Extras::default(), |_| async { Err(Cause::WrongVersion) }));
            let polled = poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await;
            assert!(polled);
            control.know(&bench, 2).await;
            failed(connecting.await)
        };
        assert_eq!(ended.report().cause, Cause::WrongVersion);
        assert_eq!(ended.verdict(), Verdict::Leaked, "{ended:?}");
        control.kill();
        control.all_gone(&bench).await;
    }

    async fn pa11_what_was_queued_for_one_generation_is_not_seen_by_the_next(bench) {
        let keeper = Keeper::new(bench.clone(), peer(), Extras::default(), Restart::default(), || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_chaos-child"));
            command.args(["-", "echo"]);
            command
        }, |_| async { Ok(()) });
        let first = keeper.connect().await.unwrap();
        for frame in 900..=902 {
            first.try_call(format!("frame {frame}\n").into_bytes(), None, Instant::FAR_FUTURE).unwrap();
        }
        first.close(Cause::BadProof); // nothing is flushed
        let ended = first.ended().await;
        let mut settled = Vec::new();
        while let Some(end) = first.try_settled() {
            settled.push(end.sent);
        }
        assert_eq!(settled.len(), 3, "each exactly once");
        assert!(settled.iter().all(|sent| matches!(sent, Sent::Nothing | Sent::Whole)));
        assert!(keeper.next().await.is_err());
        let second = keeper.connect().await.unwrap();
        assert!(second.generation() > ended.generation());
        second.try_call(b"fresh\n".to_vec(), None, Instant::FAR_FUTURE).unwrap();
        second.finish_input();
        let mut echoed = Vec::new();
        while let Some((_, bytes)) = second.read().await {
            echoed.extend(bytes);
        }
        assert_eq!(echoed, b"fresh\n");
        keeper.shutdown().await;
    }

    async fn pa12_a_peer_whose_output_has_ended_is_not_online(bench) {
        let mut control = Control::new();
        let ended = {
            let mut connecting = pin!(connect(&bench, control.command("close-stdout", 0), peer(), Extras::default(), |_| pending()));
            assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
            control.know(&bench, 1).await;
            failed(connecting.await)
        };
        assert_eq!(ended.report().cause, Cause::Eof);
        assert!(ended.verdict().is_completed());
        control.all_gone(&bench).await;
    }

    async fn pa13_a_shutdown_while_another_connects_is_bounded_and_takes_its_child(bench) {
        let keeper = keeper(&bench, "peer-silent", Restart::default());
        let mut connecting = Box::pin(keeper.connect());
        assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
        assert!(matches!(keeper.connect().await, Err(ConnectError::Refused(_))), "nobody waits behind another");
        let ended = keeper.shutdown().await.unwrap();
        assert_eq!(ended.report().cause, Cause::Shutdown);
        assert!(ended.verdict().is_completed());
        assert_eq!(connecting.await.unwrap_err().cause(), Cause::Shutdown);
    }

    async fn pa13_an_attempt_that_is_given_up_takes_its_child_with_it(bench) {
        let keeper = keeper(&bench, "peer-silent", Restart::default());
        let mut connecting = Box::pin(keeper.connect());
        assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
        drop(connecting);
        assert!(keeper.shutdown().await.is_none(), "there is nothing left to be ended");
    }
}

fn keeper<R: Runtime>(bench: &Bench<R>, mode: &'static str, restart: Restart) -> Keeper<Bench<R>> {
    let config = Config { budget: patient(), ..peer() };
    Keeper::new(
        bench.clone(),
        config,
        Extras::default(),
        restart,
        move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_chaos-child"));
            command.args(["-", mode]);
            command
        },
        greet,
    )
}

trait AMoment {
    async fn closing_or_a_moment(&self);
}

impl<R: Runtime> AMoment for Session<R> {
    /// Lets others run.
    async fn closing_or_a_moment(&self) {
        let mut yielded = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) || matches!(self.state(), State::Closed) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
