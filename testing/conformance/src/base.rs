//! What the library relies on in a runtime, without a protocol.

use crate::Bench;
use hostwire::Runtime;
use hostwire::runtime::{BlockingLost, Direction, Io};
use hostwire::socket::{accept, connect_tcp, listen_tcp, receive, send_segments};
use hostwire::testing::pair;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

async fn read_some<I: Io>(io: &I, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match io.try_io(Direction::Read, |fd| receive(fd, buffer)).result {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll_fn(|cx| io.poll_read_ready(cx)).await?;
            }
            other => return other,
        }
    }
}

async fn write_some<I: Io>(io: &I, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match io.try_io(Direction::Write, |fd| send_segments(fd, &[bytes], usize::MAX)).result {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll_fn(|cx| io.poll_write_ready(cx)).await?;
            }
            other => return other,
        }
    }
}

/// Both to their ends, on one task.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut left, mut right) = (None, None);
    poll_fn(|cx| {
        if left.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(cx)
        {
            left = Some(value);
        }
        if right.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(cx)
        {
            right = Some(value);
        }
        if left.is_some() && right.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (left.expect("done"), right.expect("done"))
}

/// Small messages back and forth: each is a chance to lose a wake-up (B138).
pub async fn a_socket_wakes_its_reader_and_its_writer<R: Runtime>(bench: Bench<R>) {
    let (a, b) = pair().expect("a pair");
    let (a, b) = (bench.register(a).expect("registered"), bench.register(b).expect("registered"));
    let ping = async {
        let mut buffer = [0; 64];
        for round in 0..20_000_u32 {
            assert_eq!(write_some(&a, &round.to_le_bytes()).await.expect("written"), 4);
            assert_eq!(read_some(&a, &mut buffer).await.expect("read"), 4);
            assert_eq!(buffer[..4], round.to_le_bytes());
        }
    };
    bench.spawn(async move {
        let mut buffer = [0; 64];
        while let Ok(n @ 1..) = read_some(&b, &mut buffer).await {
            if write_some(&b, &buffer[..n]).await.is_err() {
                break;
            }
        }
    });
    ping.await;
}

/// A dial that cannot succeed says so, and leaves no descriptor.
pub async fn a_connection_to_nobody_is_refused<R: Runtime>(bench: Bench<R>) {
    let listener = listen_tcp(0).expect("listening");
    let port = listener.port;
    let (dialled, accepted) = both(connect_tcp(&bench, port), async { accept(listener.fd.as_fd()) }).await;
    let dialled = dialled.expect("connected");
    drop((dialled, accepted, listener));
    let error = connect_tcp(&bench, port).await.map(drop).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

/// A closure's answer comes back, and its panic is not the caller's.
pub async fn blocking_work_comes_back_or_is_lost<R: Runtime>(bench: Bench<R>) {
    assert_eq!(bench.blocking(|| 6 * 7).await, Ok(42));
    let silent = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let lost = bench.blocking(|| -> u8 { panic!("as the test says") }).await;
    std::panic::set_hook(silent);
    assert_eq!(lost, Err(BlockingLost));
}

/// Both directions at once, through sockets that fill up (B135).
pub async fn a_million_bytes_cross_in_both_directions_at_once<R: Runtime>(bench: Bench<R>) {
    const TOTAL: usize = 1_000_000;
    let shrink = |fd: OwnedFd| {
        rustix::net::sockopt::set_socket_send_buffer_size(&fd, 4_096).expect("a small buffer");
        fd
    };
    let (a, b) = pair().expect("a pair");
    let a = bench.register(shrink(a)).expect("registered");
    let b = bench.register(shrink(b)).expect("registered");
    let push = async |io: &_| {
        let chunk = vec![1_u8; 10_000];
        let mut sent = 0;
        while sent < TOTAL {
            sent += write_some(io, &chunk[..chunk.len().min(TOTAL - sent)]).await.expect("written");
        }
    };
    let pull = async |io: &_| {
        let (mut buffer, mut got) = (vec![0; 3_000], 0);
        while got < TOTAL {
            got += read_some(io, &mut buffer).await.expect("read");
        }
    };
    both(both(push(&a), pull(&a)), both(push(&b), pull(&b))).await;
}

/// A timer ends at its moment, not before, and leaves nothing; nor does one that is dropped.
pub async fn an_ended_timer_and_a_dropped_one_leave_nothing<R: Runtime>(bench: Bench<R>) {
    let second = Duration::from_secs(1);
    let mut timer = pin!(bench.sleep_until(bench.now() + second));
    let polled =
        |timer: std::pin::Pin<&mut _>, cx: &mut std::task::Context<'_>| Future::poll(timer, cx).is_ready();
    assert!(!poll_fn(|cx| Poll::Ready(polled(timer.as_mut(), cx))).await);
    assert_eq!(bench.timers(), 1);
    bench.advance(second - Duration::from_micros(1));
    assert!(!poll_fn(|cx| Poll::Ready(polled(timer.as_mut(), cx))).await);
    bench.advance(Duration::from_micros(1));
    timer.await;
    let mut dropped = Box::pin(bench.sleep_until(bench.now() + second));
    assert!(!poll_fn(|cx| Poll::Ready(polled(dropped.as_mut(), cx))).await);
    drop(dropped);
    // The runtime's own timers as well.
    let own = bench.inner();
    own.sleep_until(own.now() + Duration::from_millis(1)).await;
    own.sleep_until(own.now()).await;
}

/// B165: the three things that the library awaits of a runtime may be dropped at any poll: a timer leaves nothing, a readiness that was
/// asked for and not waited for loses no byte, blocking work that has begun goes on.
pub async fn b165_what_the_library_awaits_of_a_runtime_may_be_dropped<R: Runtime>(bench: Bench<R>) {
    let own = bench.inner();
    let (a, b) = pair().expect("a pair");
    let (a, b) = (bench.register(a).expect("registered"), bench.register(b).expect("registered"));
    let mut buffer = [0; 8];
    for round in 0..100_u8 {
        let mut timer = Box::pin(own.sleep_until(own.now() + Duration::from_secs(3_600)));
        assert!(poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx).is_pending())).await);
        drop(timer);
        let asked = poll_fn(|cx| Poll::Ready(a.poll_read_ready(cx).is_ready())).await;
        let tried = a.try_io(Direction::Read, |fd| receive(fd, &mut buffer)).result;
        assert!(tried.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{asked}: nothing is there");
        assert_eq!(write_some(&b, &[round]).await.expect("written"), 1);
        assert_eq!(read_some(&a, &mut buffer).await.expect("read"), 1);
        assert_eq!(buffer[0], round);
    }
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel();
    let mut working = Box::pin(bench.blocking(move || {
        begun.send(()).expect("heard");
        done.send(7).expect("heard");
    }));
    let _ = poll_fn(|cx| Poll::Ready(working.as_mut().poll(cx).is_pending())).await;
    while has_begun.try_recv().is_err() {
        own.pause().await;
    }
    drop(working);
    let heard = bench.blocking(move || is_done.recv_timeout(Duration::from_secs(20)));
    assert_eq!(heard.await, Ok(Ok(7)));
}
