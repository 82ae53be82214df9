//! A stream, and the two kinds of backpressure that it needs.
//!
//! The component's `send` waits while the connection's output is full, so that a fast producer holds no more than the host's
//! limits. The client's reader never stops for one stream, so a slow consumer is saturated (B4): it asks for as much as it can
//! hold, and then for more.
//!
//! `cargo run -p hostwire-tokio --example streaming`

use hostwire_tokio::hostwire::client::{CallError, Client, ClientConfig};
use hostwire_tokio::hostwire::component::{Component, ErrorReply, Handled, Manifest, RequestContext, Role};
use hostwire_tokio::hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire_tokio::hostwire::core::outcome::UnknownCode;
use hostwire_tokio::hostwire::discovery::{Environment, Location, Place};
use hostwire_tokio::{Tokio, hostwire::Host, hostwire::HostConfig};
use std::error::Error;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::Notify;

/// How many items the client holds unread: what a stream may be ahead of its consumer.
const WINDOW: u64 = 16;

/// Sends the numbers of a range, one an item.
#[derive(Default)]
struct Numbers {
    /// A client had enough.
    stopped: Notify,
}

impl Component for Numbers {
    fn manifest(&self) -> Manifest {
        Manifest::new("numbers", "1.0.0", Role::ToolProvider)
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        let Some(range) = range(cx.body().as_slice()) else {
            return ErrorReply::new("not_a_range", "FROM..TO").into();
        };
        // Told of a cancel, not dropped by it.
        let told = cx.cancellation();
        Handled::stream(async move {
            for number in range {
                // Waits for room; ends at once when the client has gone.
                if let Err(why) = cx.send(number.to_string()).await {
                    self.stopped.notify_one();
                    return Err(ErrorReply::new("stopped", why.to_string()));
                }
            }
            drop(told);
            Ok::<(), ErrorReply>(())
        })
    }
}

fn range(body: &[u8]) -> Option<Range<u64>> {
    let (from, to) = std::str::from_utf8(body).ok()?.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Tokio::current()?;
    let dir = tempfile::tempdir()?;
    let place = Place::DataDir(dir.path().to_owned());
    let location = Location::resolve(&Environment::from_process(), &place)?;
    let numbers = Arc::new(Numbers::default());
    let config = HostConfig::new(location, "example/1.0.0");
    let host = Host::start(runtime.clone(), config, vec![Arc::clone(&numbers) as _]).await?;
    let client = Client::connect(&runtime, &ClientConfig { place, ..ClientConfig::default() }).await?;
    let target = Target::new("tool_provider", "numbers")?;
    let route =
        client.open(RouteOpen::new(target, Identity::new("/project", "example", "session-1")?)).await?;

    // A slow consumer: a window at a time, each fetched when the one before has been worked on.
    let mut next = 0;
    while next < 100 {
        let end = (next + WINDOW).min(100);
        let mut stream = route.stream(format!("{next}..{end}").into_bytes());
        while let Some(item) = stream.next().await {
            assert_eq!(item?.body.as_slice(), next.to_string().as_bytes());
            tokio::task::yield_now().await; // the work
            next += 1;
        }
        assert!(matches!(stream.outcome(), Some(Some(_))), "the end came, not only the last item");
    }
    println!("100 numbers, in order, never more than {WINDOW} of them waiting");

    // One that asks for everything and does not read: what it has is a prefix without gaps, then the reason.
    let mut stream = route.stream("0..1000000");
    let mut got = 0_u64;
    numbers.stopped.notified().await;
    let error = loop {
        match stream.next().await {
            Some(Ok(item)) => {
                assert_eq!(item.body.as_slice(), got.to_string().as_bytes());
                got += 1;
            }
            Some(Err(error)) => break error,
            None => return Err("a million numbers fit nowhere".into()),
        }
    };
    assert!(matches!(error, CallError::Unknown { code: UnknownCode::StreamSaturated, .. }), "{error}");
    println!("saturated after {got} numbers, which are all there");

    host.shutdown();
    host.wait().await;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
