//! The conformance suite on the third runtime, and the two examples as they run.

use hostwire::HostConfig;
use hostwire::discovery::{Environment, Location, Place};
use hostwire_lab::Lab;
use std::future::Future;
use std::sync::Arc;
use third_runtime::{Threads, block_on};

#[allow(dead_code, reason = "an example's `main`")]
#[path = "../examples/third_runtime.rs"]
mod third_runtime;

#[allow(dead_code, reason = "an example's `main`")]
#[path = "../../../core/examples/by_hand.rs"]
mod by_hand;

mod a_thread_per_task {
    use super::{Future, Threads, block_on};

    fn run<F: Future<Output = ()>>(test: impl FnOnce(Threads) -> F) {
        block_on(test(Threads));
    }

    hostwire_conformance::suite!(super::run);
}

#[test]
fn the_example_of_a_third_runtime_runs() {
    block_on(third_runtime::demo()).expect("as it should be");
}

#[test]
fn the_example_that_drives_the_core_by_hand_gets_its_answer_from_a_real_host() {
    let dir = tempfile::tempdir().expect("a directory");
    let environment = Environment { xdg_data_home: Some(dir.path().into()), ..Environment::default() };
    let location = Location::resolve(&environment, &Place::Default).expect("a location");
    let config = HostConfig::new(location.clone(), "by-hand/1");
    let host = block_on(hostwire::Host::start(Threads, config, vec![Arc::new(Lab::new())])).expect("a host");
    let file = location.connection_file();
    assert_eq!(by_hand::ask(file, "hello").expect("an answer"), "hello");
    assert_eq!(by_hand::ask(file, r#"{"do":"echo","value":1}"#).expect("an answer"), r#"{"echo":1}"#);
    let failed = by_hand::ask(file, r#"{"do":"fail","code":"no"}"#).expect_err("an error");
    assert!(failed.to_string().contains("no answer"), "{failed}");
    host.shutdown();
    assert!(block_on(host.wait()).graceful());
    assert!(by_hand::ask(file, "late").is_err(), "it is gone");
}
