//! Tests of a component of your own: by itself, without host, socket or clock; and behind a real host.
//!
//! `cargo test -p hostwire-tokio --example testing_a_component`

use hostwire_tokio::Tokio;
use hostwire_tokio::hostwire::Runtime as _;
use hostwire_tokio::hostwire::component::rehearsal::{Rehearsal, Step};
use hostwire_tokio::hostwire::component::{
    BindContext, BoxFuture, Component, ErrorReply, Handled, Manifest, Reply, RequestContext, Role, Timer,
};
use hostwire_tokio::hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire_tokio::hostwire::testing::ManualClock;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// The component under test: counts down, a second a number.
struct Countdown;

impl Component for Countdown {
    fn manifest(&self) -> Manifest {
        Manifest::new("countdown", "1.0.0", Role::ToolProvider)
    }

    fn bind(&self, cx: BindContext) -> BoxFuture<'_, Result<(), ErrorReply>> {
        let known = cx.open().identity().harness() == "example";
        Box::pin(std::future::ready(if known { Ok(()) } else { Err(ErrorReply::new("who_are_you", "")) }))
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        let Ok(Ok(from)) = std::str::from_utf8(cx.body().as_slice()).map(str::parse::<u32>) else {
            return ErrorReply::new("not_a_number", "say from where").into();
        };
        Handled::stream(async move {
            for number in (1..=from).rev() {
                let sent = cx.send(number.to_string()).await;
                sent.map_err(|why| ErrorReply::new("stopped", why.to_string()))?;
                cx.timer().sleep(Duration::from_secs(1)).await;
            }
            Ok::<(), ErrorReply>(())
        })
    }
}

fn open(harness: &str) -> Result<RouteOpen, Box<dyn Error>> {
    let target = Target::new("tool_provider", "countdown")?;
    Ok(RouteOpen::new(target, Identity::new("/project", harness, "session-1")?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Time that stands until it is told to move: no test waits for a clock.
    let clock = ManualClock::new(Tokio::current()?);
    let rehearsal = Rehearsal::new(open("example")?, Timer::of(clock.clone()), 1, 1024, 0);
    let countdown = Arc::new(Countdown);

    // A bind, accepted and refused.
    assert_eq!(countdown.bind(rehearsal.bind()).await, Ok(()));
    let stranger = Rehearsal::new(open("stranger")?, Timer::of(clock.clone()), 1, 1024, 0);
    assert_eq!(countdown.bind(stranger.bind()).await, Err(ErrorReply::new("who_are_you", "")));

    // A bad request is answered at once.
    let (cx, cue) = rehearsal.request(false, "soon");
    let mut handled = Arc::clone(&countdown).handle(cx);
    assert!(
        matches!(cue.step(&mut handled), Step::Replied(Reply::Error(error)) if error.code() == "not_a_number")
    );

    // A stream, step by step.
    let (cx, cue) = rehearsal.request(false, "2");
    let mut handled = Arc::clone(&countdown).handle(cx);
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    assert_eq!(cue.take_item(), Some((false, b"2".to_vec())));
    assert!(matches!(cue.step(&mut handled), Step::Waiting), "a second has not gone by");
    clock.advance(Duration::from_secs(1));
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    assert_eq!(cue.take_item(), Some((false, b"1".to_vec())));
    clock.advance(Duration::from_secs(1));
    assert!(matches!(cue.step(&mut handled), Step::StreamEnded(Ok(()))));

    // A client that goes away: the handler is dropped where it stands, as a host would.
    let (cx, cue) = rehearsal.request(false, "9");
    let mut handled = Arc::clone(&countdown).handle(cx);
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    cue.cancel();
    assert!(matches!(cue.step(&mut handled), Step::Dropped));
    drop(handled);
    assert_eq!(clock.timers(), 0, "and leaves no timer behind");
    println!("the component does what it should; {:?} by its own clock", clock.now());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
