use super::*;
use hostwire::component::rehearsal::{Cue, Rehearsal, Step};
use hostwire::component::{RouteClass, Sleeper, Timer};
use hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire::core::time::Instant;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

/// A clock that the test turns.
#[derive(Clone, Default)]
struct Hands(Arc<Mutex<Instant>>);

impl Hands {
    fn pass(&self, ms: u64) {
        let mut now = self.0.lock().unwrap();
        *now = *now + Duration::from_millis(ms);
    }
}

impl Sleeper for Hands {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let hands = self.clone();
        Box::pin(poll_fn(move |_| if hands.now() >= at { Poll::Ready(()) } else { Poll::Pending }))
    }
}

struct Bench {
    lab: Arc<Lab>,
    hands: Hands,
    rehearsal: Rehearsal,
}

fn bench(session: &str) -> Bench {
    let hands = Hands::default();
    let open = RouteOpen::new(
        Target::new("tool_provider", LAB).unwrap(),
        Identity::new("/", "test", session).unwrap(),
    );
    let rehearsal = Rehearsal::new(open, Timer::new(hands.clone()), 2, 1 << 20, 0);
    Bench { lab: Arc::new(Lab::new()), hands, rehearsal }
}

impl Bench {
    fn start(&self, body: &str) -> (Handled, Cue) {
        let (cx, cue) = self.rehearsal.request(false, body.as_bytes().to_vec());
        (Arc::clone(&self.lab).handle(cx), cue)
    }

    /// The answer of a request that is ready at once: its binary bit and body.
    fn ready(&self, body: &str) -> (bool, Vec<u8>) {
        let (mut handled, cue) = self.start(body);
        assert!(matches!(handled, Handled::Ready(_)), "{body}");
        match cue.step(&mut handled) {
            Step::Replied(Reply::Response { binary, body }) => (binary, body.into_vec()),
            other => panic!("{body}: {other:?}"),
        }
    }

    fn error(&self, body: &str) -> ErrorReply {
        let (mut handled, cue) = self.start(body);
        match cue.step(&mut handled) {
            Step::Replied(Reply::Error(error)) => error,
            other => panic!("{body}: {other:?}"),
        }
    }

    fn stats(&self) -> String {
        String::from_utf8(self.ready(r#"{"do":"stats"}"#).1).unwrap()
    }
}

#[test]
fn echo_gives_the_value_back_compact_and_otherwise_as_it_was() {
    let bench = bench("s");
    let (binary, body) =
        bench.ready("{ \"do\" : \"echo\", \"value\" : { \"b\" : [ 1.0, \"a \\\" b\" ] , \"a\" : null } }");
    assert!(!binary);
    assert_eq!(body, br#"{"echo":{"b":[1.0,"a \" b"],"a":null}}"#);
}

#[test]
fn a_body_that_is_no_command_comes_back_unchanged() {
    let bench = bench("s");
    for body in ["", "no json", "[1]", "{}", "{\"x\":1}", "{\"do\":\"echo\"} behind", " 7 "] {
        assert_eq!(bench.ready(body), (false, body.as_bytes().to_vec()));
    }
    let command = br#"{"do":"panic"}"#;
    let (cx, cue) = bench.rehearsal.request(true, command.to_vec());
    let mut handled = Arc::clone(&bench.lab).handle(cx);
    match cue.step(&mut handled) {
        Step::Replied(Reply::Response { binary, body }) => {
            assert_eq!((binary, body.as_slice()), (true, command.as_slice()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unknown_command_and_one_without_its_members_are_invalid() {
    let bench = bench("s");
    let commands = [
        r#"{"do":"dance"}"#,
        r#"{"do":7}"#,
        r#"{"do":"echo"}"#,
        r#"{"do":"sleep"}"#,
        r#"{"do":"sleep","ms":-1}"#,
        r#"{"do":"big","size":67108865}"#,
        r#"{"do":"stream","items":1}"#,
        r#"{"do":"stream_fail","items":1}"#,
        r#"{"do":"fail"}"#,
        r#"{"do":"slow_stop"}"#,
    ];
    for body in commands {
        assert_eq!(bench.error(body).code(), "invalid_request", "{body}");
    }
}

#[test]
fn sleep_answers_when_its_time_has_come() {
    let bench = bench("s");
    let (mut handled, cue) = bench.start(r#"{"do":"sleep","ms":30}"#);
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    bench.hands.pass(29);
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    bench.hands.pass(1);
    let Step::Replied(Reply::Response { body, .. }) = cue.step(&mut handled) else { panic!() };
    assert_eq!(body.as_slice(), br#"{"slept":30}"#);
}

#[test]
fn a_stream_sends_its_items_in_order_as_they_are_taken_and_ends() {
    let bench = bench("s");
    let (mut handled, cue) = bench.start(r#"{"do":"stream","items":3,"size":10}"#);
    assert!(matches!(cue.step(&mut handled), Step::Waiting), "two items fill the output");
    assert_eq!(cue.take_item(), Some((false, vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0])));
    assert!(matches!(cue.step(&mut handled), Step::StreamEnded(Ok(()))));
    assert_eq!(cue.take_item(), Some((false, vec![1, 0, 0, 0, 0, 0, 0, 0, 1, 1])));
    assert_eq!(cue.take_item(), Some((false, vec![2, 0, 0, 0, 0, 0, 0, 0, 2, 2])));
    assert_eq!(cue.take_item(), None);
    assert_eq!(item(0x0102, 1), [2]);
    assert_eq!(item(0x0102, 0), []);
}

#[test]
fn a_stream_takes_its_time_and_its_binary_bit_from_the_request() {
    let bench = bench("s");
    let (mut handled, cue) = bench.start(r#"{"do":"stream","items":2,"size":1,"every_ms":5,"binary":true}"#);
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    assert_eq!(cue.take_item(), Some((true, vec![0])));
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    assert_eq!(cue.take_item(), None);
    bench.hands.pass(5);
    assert!(matches!(cue.step(&mut handled), Step::StreamEnded(Ok(()))));
    assert_eq!(cue.take_item(), Some((true, vec![1])));
}

#[test]
fn a_failing_stream_ends_with_its_code() {
    let bench = bench("s");
    let (mut handled, cue) = bench.start(r#"{"do":"stream_fail","items":1,"code":"disk_full"}"#);
    let Step::StreamEnded(Err(error)) = cue.step(&mut handled) else { panic!() };
    assert_eq!(error.code(), "disk_full");
    assert_eq!(cue.take_item().unwrap().1.len(), 8);
}

#[test]
fn b083_a_stream_that_waits_for_room_ends_at_once_when_its_connection_is_lost() {
    let bench = bench("s");
    let (mut handled, cue) = bench.start(r#"{"do":"stream","items":9,"size":1}"#);
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    cue.lose();
    assert!(matches!(cue.step(&mut handled), Step::Dropped));
    assert!(bench.stats().ends_with(r#""dispatched":1,"cancelled":1,"running":0}"#), "{}", bench.stats());
}

#[test]
fn fail_says_what_it_is_told() {
    let bench = bench("s");
    let error = bench.error(r#"{"do":"fail","code":"c","message":"m","retry_after_ms":50}"#);
    assert_eq!((error.code(), error.message(), error.retry_after()), ("c", "m", Some(50)));
    let error = bench.error(r#"{"do":"fail","code":"c"}"#);
    assert_eq!((error.message(), error.retry_after()), ("", None));
}

#[test]
fn big_is_binary_zeros() {
    assert_eq!(bench("s").ready(r#"{"do":"big","size":3}"#), (true, vec![0; 3]));
}

#[test]
fn hang_ends_when_it_is_cancelled_and_not_before() {
    let bench = bench("s");
    let (mut handled, cue) = bench.start(r#"{"do":"hang"}"#);
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    assert!(bench.stats().ends_with(r#""dispatched":1,"cancelled":0,"running":1}"#));
    cue.cancel();
    assert!(matches!(cue.step(&mut handled), Step::Dropped));
    assert!(bench.stats().ends_with(r#""dispatched":1,"cancelled":1,"running":0}"#));
}

#[test]
fn slow_stop_takes_its_time_to_stop_but_not_beyond_its_grace() {
    let bench = bench("s");
    let (mut handled, cue) = bench.start(r#"{"do":"slow_stop","ms":10}"#);
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    cue.cancel();
    assert!(matches!(cue.step(&mut handled), Step::Waiting), "it is told, and goes on");
    bench.hands.pass(10);
    assert!(matches!(cue.step(&mut handled), Step::Replied(Reply::Error(_))));
    assert!(bench.stats().ends_with(r#""cancelled":1,"running":0}"#));

    let (mut handled, cue) = bench.start(r#"{"do":"slow_stop","ms":10}"#);
    assert!(matches!(cue.step(&mut handled), Step::Waiting));
    cue.cancel();
    cue.stop();
    assert!(matches!(cue.step(&mut handled), Step::Dropped));
}

#[test]
fn a_panic_is_contained_and_is_no_cancel() {
    let bench = bench("s");
    let (cx, _cue) = bench.rehearsal.request(false, br#"{"do":"panic"}"#.to_vec());
    let lab = Arc::clone(&bench.lab);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || lab.handle(cx))).is_err());
    assert!(bench.stats().ends_with(r#""dispatched":1,"cancelled":0,"running":0}"#));
}

#[test]
fn item_then_response_sends_both() {
    let bench = bench("s");
    let (mut handled, cue) = bench.start(r#"{"do":"item_then_response"}"#);
    assert!(matches!(cue.step(&mut handled), Step::Replied(Reply::Response { .. })));
    assert!(cue.take_item().is_some());
}

fn bind(bench: &Bench, lab: &Lab) -> Poll<Result<(), ErrorReply>> {
    let mut bound = lab.bind(bench.rehearsal.bind());
    loop {
        match Pin::new(&mut bound).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending if bench.hands.now() < Instant::from_micros(100_000) => bench.hands.pass(1),
            other => return other,
        }
    }
}

#[test]
fn a_bind_obeys_the_session() {
    let code = |session: &str| match bind(&bench(session), &Lab::new()) {
        Poll::Ready(Err(error)) => error.code().to_owned(),
        other => panic!("{session}: {other:?}"),
    };
    assert_eq!(code("reject:store_unavailable"), "store_unavailable");
    assert_eq!(code("reject:"), "");
    assert_eq!(code("reject"), "");
    for session in ["s", "rejected", "slow", "slow:x", "hanging", "session-1"] {
        assert_eq!(bind(&bench(session), &Lab::new()), Poll::Ready(Ok(())), "{session}");
    }
    let slow = bench("slow:50");
    assert_eq!(bind(&slow, &Lab::new()), Poll::Ready(Ok(())));
    assert_eq!(slow.hands.now(), Instant::from_micros(50_000));
    assert_eq!(bind(&bench("hang"), &Lab::new()), Poll::Pending);
}

#[test]
fn the_counters_tell_accepted_from_rejected_and_count_every_route_gone() {
    let lab = Lab::new();
    let (good, bad) = (bench("s"), bench("reject:x"));
    let _ = bind(&good, &lab);
    let _ = bind(&bad, &lab);
    for bench in [&good, &bad] {
        let mut gone = lab.route_gone(bench.rehearsal.route());
        assert!(gone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
    let bench = Bench { lab: Arc::new(lab), ..good };
    assert_eq!(
        bench.stats(),
        r#"{"binds":1,"rejected":1,"route_gone":2,"dispatched":0,"cancelled":0,"running":0}"#
    );
}

#[test]
fn the_reserved_lab_reserves_what_it_is_told() {
    let manifest = LabReserved::default().manifest();
    assert_eq!((manifest.module_id.as_str(), manifest.role), (LAB_RESERVED, Role::ManagementSurface));
    let declaration = manifest.declaration;
    assert_eq!(
        (declaration.reserved_pending, declaration.reserved_tasks, manifest.class),
        (4, 2, RouteClass::Reserved)
    );
    assert_eq!(LabReserved::new(1, 3).manifest().declaration.reserved_tasks, 3);
    assert_eq!(Lab::new().manifest().declaration, Declaration::default());
}
