//! Streamed answers over a socket, against a raw host.

use crate::Bench;
use crate::stage::{connected, rest_of};
use hostwire::Runtime;
use hostwire::client::{CallError, ResponseStream};
use hostwire::core::outcome::UnknownCode;
use hostwire::core::wire::FrameType;

/// What is left of a stream: its items as text, and its end.
async fn read_on(stream: &mut ResponseStream) -> (Vec<String>, Option<CallError>) {
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(item) => items.push(String::from_utf8_lossy(item.body.as_slice()).into_owned()),
            Err(error) => return (items, Some(error)),
        }
    }
    (items, None)
}

fn texts(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("item {i}")).collect()
}

/// V38, Q5: items in order, then one end.
pub async fn v38_a_stream_has_its_items_in_order_and_one_end<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let mut stream = route.stream("ten");
    assert_eq!(stream.outcome(), None);
    let serving = bench.blocking(move || {
        let request = host.frame();
        for text in texts(0..10) {
            host.item(&request, text.as_bytes());
        }
        host.end_stream(&request);
        host
    });
    let host = serving.await.expect("served");
    let (items, error) = read_on(&mut stream).await;
    assert_eq!(items, texts(0..10));
    assert!(error.is_none());
    let end = stream.outcome().flatten().expect("a clean end");
    assert_eq!((end.items, end.evidence.attempts), (10, 1));
    // B062: an ended stream stays ended.
    assert!(stream.next().await.is_none());
    drop(stream);
    rest_of(&bench, host, client, route).await;
}

/// B061, V26: a stream that is cut never looks whole.
pub async fn b061_a_cut_stream_ends_with_an_error_behind_its_items<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let mut stream = route.stream("cut");
    let serving = bench.blocking(move || {
        let request = host.frame();
        for text in texts(0..3) {
            host.item(&request, text.as_bytes());
        }
    });
    serving.await.expect("served and gone");
    let (items, error) = read_on(&mut stream).await;
    assert_eq!(items, texts(0..3));
    assert!(matches!(error, Some(CallError::Unknown { code: UnknownCode::ConnectionLost, .. })));
    assert_eq!(stream.outcome(), Some(None));
    assert!(stream.next().await.is_none());
    drop((stream, client, route));
}

/// B038, B040, B041: a stream that nobody reads fails alone, and keeps its prefix.
pub async fn b040_an_unread_stream_saturates_alone<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let mut stream = route.stream("many");
    let call = route.request("meanwhile");
    let serving = bench.blocking(move || {
        let request = host.frame();
        let meanwhile = host.frame();
        for text in texts(0..17) {
            host.item(&request, text.as_bytes());
        }
        host.respond(&meanwhile, b"here");
        let cancel = host.frame();
        assert_eq!(
            (cancel.header.kind, cancel.header.identity),
            (FrameType::Cancel, request.header.identity)
        );
        host.item(&request, b"too late");
        host.end_stream(&request);
        host
    });
    assert_eq!(call.await.expect("an answer").body.as_slice(), b"here");
    let host = serving.await.expect("served");
    let (items, error) = read_on(&mut stream).await;
    assert_eq!(items, texts(0..16));
    assert!(matches!(error, Some(CallError::Unknown { code: UnknownCode::StreamSaturated, .. })));
    drop(stream);
    rest_of(&bench, host, client, route).await;
}

/// B005: a stream that is cancelled keeps what had arrived; one that is dropped keeps nothing and sends a `Cancel`.
pub async fn b5_cancelling_keeps_items_and_dropping_frees_them<R: Runtime>(bench: Bench<R>) {
    let (client, route, mut host) = connected(&bench).await;
    let mut cancelled = route.stream("cancelled");
    let dropped = route.stream("dropped");
    let serving = bench.blocking(move || {
        let requests = [host.frame(), host.frame()];
        for request in &requests {
            for text in texts(0..4) {
                host.item(request, text.as_bytes());
            }
        }
        (requests, host)
    });
    let (requests, mut host) = serving.await.expect("served");
    // Before any is taken: the mark is that of all eight at once.
    bench.inner().until("all items", || client.counters().retained_high_water >= 48).await;
    let (first, rest) = (cancelled.next().await, 1..4);
    assert!(matches!(first, Some(Ok(item)) if item.body.as_slice() == b"item 0"));
    cancelled.cancel();
    drop(dropped);
    let serving = bench.blocking(move || {
        let cancels = [host.frame(), host.frame()];
        assert!(cancels.iter().all(|frame| frame.header.kind == FrameType::Cancel));
        assert_eq!(cancels.map(|frame| frame.header.identity), requests.map(|frame| frame.header.identity));
        host
    });
    let host = serving.await.expect("served");
    let (items, error) = read_on(&mut cancelled).await;
    assert_eq!(items, texts(rest));
    assert!(matches!(error, Some(CallError::Unknown { code: UnknownCode::Cancelled, .. })));
    drop(cancelled);
    rest_of(&bench, host, client, route).await;
}

/// B044: streams that were dropped unread leave their room to others.
pub async fn b044_dropped_streams_give_their_room_back<R: Runtime>(bench: Bench<R>) {
    const ROUNDS: usize = 70; // more than may live at once
    let (client, route, mut host) = connected(&bench).await;
    let serving = bench.blocking(move || {
        let mut streams = 0;
        while streams < ROUNDS {
            let request = host.frame();
            if request.header.kind == FrameType::Request {
                streams += 1;
                for text in texts(0..16) {
                    host.item(&request, text.as_bytes());
                }
            }
        }
        host
    });
    for round in 0..ROUNDS {
        let mut stream = route.stream("unread");
        let first = stream.next().await;
        assert!(matches!(first, Some(Ok(_))), "round {round}: {first:?}");
        // The next may be refused until the task has looked at the flag of the last.
        drop(stream);
        bench
            .inner()
            .until("the stream's end", || client.counters().settlements.unknown > round as u64)
            .await;
    }
    rest_of(&bench, serving.await.expect("served"), client, route).await;
}
