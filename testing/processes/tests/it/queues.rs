//! Section 2 of child-processes.md with real pipes: what is written, what is not, and that nobody waits for a sink that takes nothing.

use crate::chaos::{Control, run};
use crate::on_both_runtimes;
use hostwire::Runtime;
use hostwire::core::child::{Cause, Config, ControlKey, QueueLimits, Refused, Sent, Unanswered};
use hostwire::core::time::Instant;
use hostwire::process::Session;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

fn with_input() -> Config {
    Config { stdin: true, ..run() }
}

async fn echoed<R: Runtime>(session: &Session<R>) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some((_, bytes)) = session.read().await {
        all.extend(bytes);
    }
    all
}

on_both_runtimes! {
    async fn pb2_four_hundred_pings_and_a_sink_that_takes_nothing_leave_one_writer_and_a_small_queue(bench) {
        let mut control = Control::new();
        let config = Config { peer: true, ..with_input() };
        let session = Session::spawn(&bench, control.command("pings", 400), config).unwrap();
        control.know(&bench, 1).await;
        session.try_call(vec![b'x'; 1 << 19], None, Instant::FAR_FUTURE).unwrap(); // more than the pipe takes
        let mut heard = 0;
        while heard < 400 {
            let (_, bytes) = session.read().await.unwrap();
            for _ in bytes.iter().filter(|byte| **byte == b'\n') {
                heard += 1;
                session.control(ControlKey::Pong, b"pong\n".to_vec()).unwrap();
            }
        }
        assert_eq!(bench.tasks(), 1, "one task reads and writes");
        let counters = session.counters();
        assert!(counters.frames_high <= QueueLimits::default().frames && counters.bytes_high <= QueueLimits::default().bytes);
        session.close(Cause::Cancelled); // and it answers to a close
        assert!(session.ended().await.verdict().is_completed());
    }

    async fn pb3_a_call_waits_for_room_under_its_own_deadline_or_is_refused_at_once(bench) {
        let mut control = Control::new();
        let config = Config { queue: QueueLimits { frames: 1, ..QueueLimits::default() }, ..with_input() };
        let session = Session::spawn(&bench, control.command("never-read", 0), config).unwrap();
        control.know(&bench, 1).await;
        let stuck = session.try_call(vec![b'x'; 1 << 18], None, Instant::FAR_FUTURE).unwrap();
        assert_eq!(session.try_call(vec![b'y'], None, Instant::FAR_FUTURE), Err(Refused::QueueFull));
        let soon = bench.now() + Duration::from_millis(20);
        assert_eq!(session.call(vec![b'y'], None, soon).await, Err(Refused::QueueFull));
        {
            // Waiting is no sending: given up before there was room, nothing of it exists.
            let mut waiting = pin!(session.call(vec![b'y'], None, Instant::FAR_FUTURE));
            assert!(poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
        }
        session.cancel(stuck);
        session.close(Cause::Cancelled);
        session.ended().await;
        let end = session.try_settled().unwrap();
        assert_eq!((end.call, end.why), (stuck, Unanswered::Cancelled));
        assert!(session.try_settled().is_none());
    }

    async fn pb4_a_sink_that_takes_nothing_ends_the_session(bench) {
        let mut control = Control::new();
        let queue = QueueLimits { stall: Duration::from_millis(100), ..QueueLimits::default() };
        let session = Session::spawn(&bench, control.command("never-read", 0), Config { queue, ..with_input() }).unwrap();
        control.know(&bench, 1).await;
        let call = session.try_call(vec![b'x'; 1 << 18], None, Instant::FAR_FUTURE).unwrap();
        let ended = session.ended().await;
        assert_eq!(ended.report().cause, Cause::StalledSink);
        assert!(ended.verdict().is_completed());
        let end = session.try_settled().unwrap();
        let taken = usize::try_from(ended.report().input_bytes).unwrap();
        assert_eq!((end.call, end.sent), (call, Sent::Partial(taken)), "exactly what the pipe took");
    }

    async fn pb5_pb6_a_close_flushes_whole_frames_for_a_bounded_time(bench) {
        let mut control = Control::new();
        let session = Session::spawn(&bench, control.command("echo", 0), with_input()).unwrap();
        control.know(&bench, 1).await;
        let mut expected = Vec::new();
        for frame in 0..50_u8 {
            let bytes = vec![b'a' + frame % 26; 1_000 + usize::from(frame)];
            expected.extend_from_slice(&bytes);
            session.try_call(bytes, None, Instant::FAR_FUTURE).unwrap();
        }
        session.close(Cause::Closed);
        assert_eq!(session.try_call(vec![b'z'], None, Instant::FAR_FUTURE), Err(Refused::Closed));
        assert_eq!(echoed(&session).await, expected);
        assert!(session.ended().await.verdict().is_completed());
        // A sink that takes nothing is not waited for beyond the flush's time.
        let session = Session::spawn(&bench, control.command("never-read", 0), with_input()).unwrap();
        control.know(&bench, 2).await;
        session.try_call(vec![b'x'; 1 << 18], None, Instant::FAR_FUTURE).unwrap();
        let later = session.try_call(vec![b'y'; 10], None, Instant::FAR_FUTURE).unwrap();
        session.close(Cause::Closed);
        session.ended().await;
        assert!(matches!(session.try_settled().unwrap().sent, Sent::Partial(_)));
        let end = session.try_settled().unwrap();
        assert_eq!((end.call, end.sent), (later, Sent::Nothing));
    }

    async fn pb7_pb8_a_cancel_of_what_is_out_sends_one_notice(bench) {
        let mut control = Control::new();
        let session = Session::spawn(&bench, control.command("echo", 0), with_input()).unwrap();
        control.know(&bench, 1).await;
        let call = session.try_call(b"call\n".to_vec(), Some(b"cancel\n".to_vec()), Instant::FAR_FUTURE).unwrap();
        assert_eq!(session.read().await.unwrap().1, b"call\n", "it is out");
        session.cancel(call);
        session.cancel(call);
        let queued = session.try_call(b"never\n".to_vec(), Some(b"nor this\n".to_vec()), Instant::FAR_FUTURE).unwrap();
        session.cancel(queued); // before the task has had a chance to write: on this thread nobody else runs
        session.finish_input();
        let rest = echoed(&session).await;
        assert_eq!(rest.windows(7).filter(|window| *window == b"cancel\n").count(), 1, "{rest:?}");
        assert!(!session.answered(call), "PB11");
        assert_eq!(session.counters().late_replies, 1);
    }

    async fn pb10_a_write_error_is_told_once_to_whom_it_concerns(bench) {
        let mut control = Control::new();
        let config = Config { peer: true, ..with_input() };
        let session = Session::spawn(&bench, control.command("die-at", 70_000), config).unwrap();
        control.know(&bench, 1).await;
        let head = session.try_call(vec![b'x'; 1 << 19], None, Instant::FAR_FUTURE).unwrap();
        let later = session.try_call(vec![b'y'; 10], None, Instant::FAR_FUTURE).unwrap();
        let ended = session.ended().await;
        assert!(matches!(ended.report().cause, Cause::WriteFailed | Cause::Eof | Cause::ChildExited));
        let (first, second) = (session.try_settled().unwrap(), session.try_settled().unwrap());
        let taken = usize::try_from(ended.report().input_bytes).unwrap();
        assert!(taken >= 70_000);
        assert_eq!((first.call, first.sent), (head, Sent::Partial(taken)));
        assert_eq!((second.call, second.sent), (later, Sent::Nothing));
        assert!(session.try_settled().is_none());
        assert!(ended.verdict().is_completed());
    }

    async fn pb15_each_end_of_a_call_says_what_was_sent(bench) {
        for cause in [Cause::Cancelled, Cause::Shutdown, Cause::BadProof] {
            let mut control = Control::new();
            let session = Session::spawn(&bench, control.command("echo", 0), with_input()).unwrap();
            control.know(&bench, 1).await;
            let whole = session.try_call(b"whole\n".to_vec(), None, Instant::FAR_FUTURE).unwrap();
            assert_eq!(session.read().await.unwrap().1, b"whole\n");
            session.close(cause);
            session.ended().await;
            let end = session.try_settled().unwrap();
            assert_eq!((end.call, end.sent, end.why), (whole, Sent::Whole, Unanswered::Ended));
        }
    }
}
