//! Calls over a socket, against a raw host.

use crate::Bench;
use crate::raw_host::credentials;
use crate::stage::{config, connected, connected_with, rest_of};
use hostwire::Runtime;
use hostwire::client::{CallError, Failure, Patience, Request};
use hostwire::core::client::CatalogFilter;
use hostwire::core::outcome::{NotSentCode, UnknownCode};
use hostwire::core::wire::{Flags, FrameType};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

/// AE1: authenticate, negotiate, open, call.
pub async fn ae1_a_fresh_call_gets_its_answer<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    assert_eq!(route.handle().channel.value(), 7);
    let answering = bench.blocking(move || {
        let request = host.frame();
        host.respond(&request, b"pong");
        (request, host)
    });
    let reply = route.request("ping").await.expect("an answer");
    assert_eq!(reply.body.as_slice(), b"pong");
    assert_eq!(reply.evidence.bytes_handed, 25);
    assert_eq!(reply.evidence.attempts, 1);
    assert_eq!(reply.evidence.daemon_id, credentials().daemon_id);
    let (request, mut host) = answering.await.expect("answered");
    assert_eq!(request.body, b"ping");
    let closing = bench.blocking(move || host.rest());
    client.close().await;
    drop((client, route));
    // The connection's `Goodbye`, and nothing else.
    let rest = closing.await.expect("closed");
    assert_eq!(rest.iter().map(|frame| frame.header.kind).collect::<Vec<_>>(), [FrameType::Goodbye]);
}

/// 320 calls at once over one connection: one task, and many frames for each system call in both directions.
pub async fn many_small_frames_share_a_system_call<R: Runtime>(bench: Bench<R>) {
    const DEPTH: usize = 32;
    const ROUNDS: usize = 10;
    let (client, route, mut host) = connected(&bench).await;
    let serving = bench.blocking(move || {
        for _ in 0..ROUNDS {
            let requests: Vec<_> = (0..DEPTH).map(|_| host.frame()).collect();
            for request in &requests {
                let body = request.body.clone();
                host.respond(request, &body);
            }
        }
        host
    });
    let before = bench.inner().calls();
    for round in 0..ROUNDS {
        let calls: Vec<_> = (0..DEPTH).map(|i| (i, route.request(format!("{round}/{i}")))).collect();
        for (i, call) in calls {
            let reply = call.await.expect("an answer");
            assert_eq!(reply.body.as_slice(), format!("{round}/{i}").as_bytes());
        }
    }
    let after = bench.inner().calls();
    let total = DEPTH * ROUNDS;
    // The host writes frame by frame, so reads depend on who is faster; writes are ours alone.
    assert!((after.1 - before.1) * 4 < total, "{} writes for {total} requests", after.1 - before.1);
    assert_eq!(bench.inner().spawned(), 1, "one task per generation, none per request");
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// B112, B114: a frame that trickles in byte by byte, read by a caller who gives up and comes back all the time.
pub async fn b114_a_trickling_answer_survives_impatient_polling<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let (next, wait) = mpsc::channel::<()>();
    let serving = bench.blocking(move || {
        let request = host.frame();
        let identity = request.header.identity;
        let header = hostwire::core::wire::Header {
            len: 12,
            kind: FrameType::Response,
            flags: Flags::terminal(false),
            identity,
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(b"twelve bytes");
        for byte in bytes {
            wait.recv().expect("told to go on");
            host.send_raw(&[byte]);
        }
        host
    });
    let mut call = pin!(route.request("slowly"));
    for _ in 0..33 {
        // A `select!` that loses: the future is polled, and another branch is taken.
        assert!(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
        next.send(()).expect("serving");
        bench.inner().pause().await;
    }
    assert_eq!(call.await.expect("an answer").body.as_slice(), b"twelve bytes");
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// B019: the answer to a dropped call is nobody's, and the next call gets its own.
pub async fn b019_a_dropped_call_is_cancelled_and_its_answer_discarded<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let dropped = route.request("first");
    let serving = bench.blocking(move || (host.frame(), host));
    let (first, mut host) = serving.await.expect("served");
    drop(dropped);
    let second = route.request("second");
    let serving = bench.blocking(move || {
        let cancel = host.frame();
        assert_eq!(cancel.header.kind, FrameType::Cancel);
        assert_eq!(cancel.header.identity, first.header.identity);
        let second = host.frame();
        host.respond(&first, b"late");
        host.respond(&second, b"own");
        host
    });
    assert_eq!(second.await.expect("an answer").body.as_slice(), b"own");
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// B2, B3: the place of a dropped call is free for the next at once, whether the connection's task has come round or not.
pub async fn b2_a_dropped_calls_place_is_free_for_the_next<R: Runtime>(bench: Bench<R>) {
    let mut one = config();
    one.limits.pending_requests = 1;
    let (client, route, mut host) = connected_with(&bench, &one).await;
    for _ in 0..20 {
        drop(route.request("dropped"));
    }
    let call = route.request("kept");
    let serving = bench.blocking(move || {
        loop {
            let frame = host.frame(); // of the dropped ones: their `Cancel`, where their request had left
            if frame.body == b"kept" {
                host.respond(&frame, b"here");
                return host;
            }
        }
    });
    assert_eq!(call.await.expect("an answer").body.as_slice(), b"here");
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// X2, X3, B062: cancelling from elsewhere, and cancelling what has ended.
pub async fn a_canceller_stops_a_call_and_then_does_nothing<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let call = route.request("stop me");
    let canceller = call.canceller();
    let serving = bench.blocking(move || (host.frame(), host));
    let (request, mut host) = serving.await.expect("served");
    canceller.cancel();
    let error = call.await.expect_err("stopped");
    assert!(matches!(error, CallError::Unknown { code: UnknownCode::Cancelled, .. }), "{error}");
    assert_eq!(error.evidence().bytes_handed, 28);
    canceller.cancel();
    canceller.cancel_confirmed(Duration::from_secs(1));
    // X4: proof of the stop, on request.
    let confirmed = route.request("prove it");
    let serving = bench.blocking(move || {
        assert_eq!(host.frame().header.identity, request.header.identity);
        (host.frame(), host)
    });
    let (request, mut host) = serving.await.expect("served");
    confirmed.cancel_confirmed(Duration::from_secs(1));
    let serving = bench.blocking(move || {
        assert_eq!(host.frame().header.kind, FrameType::Cancel);
        host.refuse(&request, "cancelled");
        host
    });
    let error = confirmed.await.expect_err("stopped");
    assert!(
        matches!(&error, CallError::Failed { failure: Failure::Host(body), .. } if body.code() == "cancelled"),
        "{error}"
    );
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// E4: no time is no request.
pub async fn e4_no_patience_settles_at_once_without_a_byte<R: Runtime>(bench: Bench<R>) {
    let (client, route, host) = connected(&bench).await;
    let error =
        route.request(Request::new(vec![1, 2, 3]).within(Duration::ZERO)).await.expect_err("not sent");
    let CallError::NotSent { code: NotSentCode::DeadlineExpired, body, evidence } = error else {
        panic!("{error}")
    };
    assert_eq!((body.as_slice(), evidence.bytes_handed, evidence.attempts), (&[1, 2, 3][..], 0, 0));
    let error = client
        .catalog(CatalogFilter::new(None).expect("a filter"), Patience::For(Duration::ZERO))
        .await
        .expect_err("not sent");
    assert_eq!((error.outcome(), error.code()), ("not_sent", "deadline_expired"));
    rest_of(&bench, host, client, route).await;
}

/// E2 over a socket: the deadline of a request that has left, and a timer that is gone with it.
pub async fn a_deadline_after_the_send_is_unknown_and_leaves_no_timer<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let call = route.request(Request::from("slow").within(Duration::from_secs(1)));
    let serving = bench.blocking(move || (host.frame(), host));
    let (_, host) = serving.await.expect("served");
    // The task has armed its timer when it waits again.
    bench.inner().until("the task's timer", || bench.timers() > 0).await;
    bench.advance(Duration::from_secs(1));
    let error = call.await.expect_err("no answer");
    assert!(matches!(error, CallError::Unknown { code: UnknownCode::DeadlineExpired, .. }), "{error}");
    // The longest patience so far was a route's, 30 s: one wake-up for nothing at most, then an idle connection has no timer.
    bench.advance(Duration::from_secs(30));
    bench.inner().until("no timer on an idle connection", || bench.timers() == 0).await;
    let before = bench.inner().calls();
    bench.advance(Duration::from_secs(3_600));
    bench.inner().pause().await;
    assert_eq!(bench.inner().calls(), before, "an idle connection is left alone");
    rest_of(&bench, host, client, route).await;
}

/// B057: an answer that has arrived beats a clock that jumps.
pub async fn b057_a_clock_that_jumps_does_not_outrun_an_answer_that_is_there<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let call = route.request("ping");
    let serving = bench.blocking(move || (host.frame(), host));
    let (request, mut host) = serving.await.expect("served");
    let (told, answered) = mpsc::channel();
    let serving = bench.blocking(move || {
        host.respond(&request, b"pong");
        told.send(()).expect("waited for");
        host
    });
    // This thread's tasks stand still until the answer lies in the socket.
    answered.recv().expect("answered");
    bench.advance(Duration::from_secs(12 * 3_600));
    assert_eq!(call.await.expect("an answer").body.as_slice(), b"pong");
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// B029: an application's error is terminal, and the connection goes on.
pub async fn b029_an_error_answer_is_terminal_and_nothing_else_happens<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let serving = bench.blocking(move || {
        let request = host.frame();
        host.refuse(&request, "bad_params");
        let request = host.frame();
        host.respond(&request, b"fine");
        host
    });
    let error = route.request("bad").await.expect_err("an error");
    assert_eq!((error.outcome(), error.code()), ("terminal", "bad_params"));
    assert_eq!(error.to_string(), "terminal: bad_params");
    assert_eq!(route.request("good").await.expect("an answer").body.as_slice(), b"fine");
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// B134: whoever is woken may call straight back into the client, from inside the wake-up.
pub async fn b134_a_waker_may_call_back_into_the_client<R: Runtime>(bench: Bench<R>) {
    struct CallBack {
        route: hostwire::client::Route,
        done: mpsc::Sender<hostwire::client::Call>,
    }
    impl std::task::Wake for CallBack {
        fn wake(self: std::sync::Arc<Self>) {
            let call = self.route.request("from the waker");
            assert!(self.route.is_live() && self.route.client().close_reason().is_none());
            drop(self.route.request("dropped in the waker"));
            let _ = self.done.send(call);
        }
    }
    let (client, route, mut host) = connected(&bench).await;
    let (done, called) = mpsc::channel();
    let waker = std::sync::Arc::new(CallBack { route: route.clone(), done }).into();
    let mut call = Box::pin(route.request("first"));
    assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    let serving = bench.blocking(move || {
        let request = host.frame();
        host.respond(&request, b"first");
        let second = host.frame();
        host.respond(&second, b"second");
        host
    });
    let mut second = None;
    let called_back = || {
        second = called.try_recv().ok();
        second.is_some()
    };
    bench.inner().until("the call back", called_back).await;
    assert_eq!(second.expect("called back").await.expect("an answer").body.as_slice(), b"second");
    drop(call);
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}
