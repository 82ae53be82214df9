//! Peers that stop reading, stop writing, reset, or go; and what that leaves of calls.

use crate::Bench;
use crate::raw_host::RawHost;
use crate::stage::{connected, rest_of};
use hostwire::Runtime;
use hostwire::client::{CallError, Client, Request};
use hostwire::core::fault::CloseReason;
use hostwire::core::outcome::{NotSentCode, UnknownCode};
use hostwire::core::wire::FrameType;
use std::time::Duration;

/// More than any socket takes at once.
const BIG: usize = 16 << 20;
/// More than what leaves before a large frame does.
const BEGUN: u64 = 4_096;

/// Waits until so many bytes have left at least, and the connection's writes are stuck.
async fn stuck<R: Runtime>(bench: &Bench<R>, client: &Client, least: u64) {
    bench.inner().until("its bytes", || client.counters().sent.bytes >= least).await;
    let (mut last, mut quiet) = (bench.inner().calls(), 0);
    while quiet < 20 {
        bench.inner().pause().await;
        let now = bench.inner().calls();
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
}

/// B115: a call that is dropped with half its frame written: the frame is finished, its `Cancel` follows, and the next frame is whole.
pub async fn b115_a_call_dropped_in_the_middle_of_its_frame_does_not_tear_it<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let dropped = route.request(vec![7; BIG]);
    stuck(&bench, &client, BEGUN).await;
    drop(dropped);
    let next = route.request("next");
    let serving = bench.blocking(move || {
        let torn = host.frame();
        assert_eq!((torn.body.len(), torn.body.iter().all(|byte| *byte == 7)), (BIG, true));
        assert_eq!(host.frame().header.kind, FrameType::Cancel);
        let next = host.frame();
        host.respond(&next, b"whole");
        host
    });
    assert_eq!(next.await.expect("an answer").body.as_slice(), b"whole");
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// B116, B123, B124: with a peer that has stopped reading, deadlines are kept: of the call whose frame is stuck half way, and of the one
/// behind it; and when the peer reads again, the frame is whole.
pub async fn b124_deadlines_hold_while_the_peer_does_not_read<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let second = Duration::from_secs(1);
    let patient = route.request("before");
    let (_, host_back) = bench.blocking(move || (host.frame(), host)).await.expect("served");
    host = host_back;
    let half = route.request(Request::new(vec![7; BIG]).within(second));
    let queued = route.request(Request::from("queued").within(second));
    stuck(&bench, &client, BEGUN).await;
    bench.advance(second);
    let error = half.await.expect_err("no answer");
    assert!(matches!(error, CallError::Unknown { code: UnknownCode::DeadlineExpired, .. }), "{error}");
    assert!((22..(BIG as u64)).contains(&error.evidence().bytes_handed));
    let error = queued.await.expect_err("no answer");
    let CallError::NotSent { code: NotSentCode::DeadlineExpired, body, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(body.as_slice(), b"queued");
    let serving = bench.blocking(move || {
        assert_eq!(host.frame().body.len(), BIG);
        assert_eq!(host.frame().header.kind, FrameType::Cancel);
        host
    });
    let host = serving.await.expect("served");
    // E3: the connection lives, and so does whoever has patience.
    assert_eq!(client.close_reason(), None);
    drop(patient);
    rest_of(&bench, host, client, route).await;
}

/// B123, B136: two closes at once, with a frame that is stuck: both end with the close deadline.
pub async fn b136_closing_behind_a_stuck_frame_ends_with_its_deadline<R: Runtime>(bench: Bench<R>) {
    let (client, route, host) = connected(&bench).await;
    let stuck_call = route.request(vec![7; BIG]);
    let queued = route.request("queued");
    stuck(&bench, &client, BEGUN).await;
    let (first, second) = (client.close(), client.clone().close());
    let error = queued.await.expect_err("not sent");
    assert!(matches!(error, CallError::NotSent { code: NotSentCode::ClientClosed, .. }), "{error}");
    let error = stuck_call.await.expect_err("lost");
    assert!(matches!(error, CallError::Unknown { code: UnknownCode::ConnectionLost, .. }), "{error}");
    bench.inner().until("the close deadline's timer", || bench.timers() > 0).await;
    stuck(&bench, &client, BEGUN).await;
    bench.advance(Duration::from_secs(5));
    assert_eq!(first.await, CloseReason::Local);
    assert_eq!(second.await, CloseReason::Local);
    // G5, and a third close of what is closed.
    assert_eq!(client.close().await, CloseReason::Local);
    let error = route.request("after").await.expect_err("not sent");
    assert!(matches!(error, CallError::NotSent { code: NotSentCode::ClientClosed, .. }), "{error}");
    drop((client, route, host));
}

/// B135: both sides write all the time through small buffers, and both keep reading.
pub async fn b135_both_ends_write_at_once_and_nobody_stops_reading<R: Runtime>(bench: Bench<R>) {
    const EACH: usize = 10;
    let (client, route, host) = connected(&bench).await;
    let calls: Vec<_> =
        (0..EACH).map(|i| route.request(vec![u8::try_from(i).expect("small"); 1 << 20])).collect();
    let serving = bench.blocking(move || {
        let mut host = host;
        rustix::net::sockopt::set_socket_send_buffer_size(host.stream(), 4_096).expect("a small buffer");
        for _ in 0..EACH {
            let request = host.frame();
            let body = request.body.clone();
            host.respond(&request, &body);
        }
        host
    });
    for (i, call) in calls.into_iter().enumerate() {
        let reply = call.await.expect("an answer");
        assert_eq!(reply.body.len(), 1 << 20);
        assert!(reply.body.as_slice().iter().all(|byte| usize::from(*byte) == i));
    }
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}

/// B122, B023: a peer that goes with input unread is a reset, and ends everything as an end of input does.
pub async fn b122_a_reset_ends_a_connection_like_the_end_of_its_input<R: Runtime>(bench: Bench<R>) {
    for reset in [true, false] {
        let (client, route, mut host) = connected(&bench).await;
        let call = route.request("first");
        let serving = bench.blocking(move || (host.frame(), host));
        let (_, mut host) = serving.await.expect("served");
        let unread = route.request("second");
        stuck(&bench, &client, 0).await;
        if !reset {
            let serving = bench.blocking(move || (host.frame(), host));
            host = serving.await.expect("served").1;
        }
        drop(host);
        for call in [call, unread] {
            let error = call.await.expect_err("lost");
            assert!(matches!(error, CallError::Unknown { code: UnknownCode::ConnectionLost, .. }), "{error}");
        }
        let reason = client.closed().await;
        assert_eq!(reason, if reset { CloseReason::Io } else { CloseReason::Eof });
        assert_eq!(client.close_reason(), Some(reason)); // G5
        let error = route.request("after").await.expect_err("not sent");
        assert!(matches!(error, CallError::NotSent { code: NotSentCode::ConnectionRetired, .. }), "{error}");
        assert!(!route.is_live());
        let error = client.open(crate::stage::some_route()).await.expect_err("not sent");
        assert_eq!(error.code(), "connection_retired");
    }
}

/// B137, G4: the host answers a request that is still being written, and goes. The write fails, and the answer still counts.
pub async fn b137_an_answer_before_a_failed_write_is_still_read<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let early = route.request("early");
    let serving = bench.blocking(move || (host.frame(), host));
    let (request, mut host) = serving.await.expect("served");
    let stuck_call = route.request(vec![7; BIG]);
    stuck(&bench, &client, BEGUN).await;
    let serving = bench.blocking(move || {
        host.respond(&request, b"all the same");
        drop(host); // with input unread: our next write fails, and so may a read behind the answer
    });
    serving.await.expect("gone");
    assert_eq!(early.await.expect("an answer").body.as_slice(), b"all the same");
    let error = stuck_call.await.expect_err("lost");
    assert!(matches!(error, CallError::Unknown { code: UnknownCode::ConnectionLost, .. }), "{error}");
    drop((client, route));
}

/// V14, V42: what is no frame, or not the host's to send, ends the generation; the reason says what it was.
pub async fn v42_a_host_that_breaks_the_protocol_is_left<R: Runtime>(bench: Bench<R>) {
    let breaks: [fn(&mut RawHost); 3] = [
        |host| host.send_raw(&[0, 0, 0, 0, 9]),
        |host| host.send_raw(&[1, 0, 0, 0, 2, 1, 0x0A]),
        |host| {
            let request = hostwire::core::wire::Identity::Control(hostwire::core::wire::Correlation::FIRST);
            host.send(
                FrameType::Request,
                hostwire::core::wire::Flags::data(false, Default::default()),
                request,
                b"{}",
            );
        },
    ];
    for (index, breach) in breaks.into_iter().enumerate() {
        let (client, route, mut host) = connected(&bench).await;
        let call = route.request("pending");
        let serving = bench.blocking(move || {
            host.frame();
            breach(&mut host);
            host.half_close();
            host.rest()
        });
        let error = call.await.expect_err("lost");
        assert!(matches!(error, CallError::Unknown { code: UnknownCode::ConnectionLost, .. }), "{error}");
        assert!(matches!(client.closed().await, CloseReason::Peer(_)), "{index}");
        assert!(serving.await.expect("closed").is_empty(), "nothing is said to it");
        drop((client, route));
    }
}
