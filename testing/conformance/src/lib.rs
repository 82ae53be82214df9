//! One suite of tests for every runtime under hostwire.
//!
//! Each scenario is an async function over a [`Runtime`]; [`suite!`] makes tests of all of them. Time is moved by hand, so no
//! scenario waits for a clock; after each, the runtime's tasks, timers and descriptors are counted, and must be what they were.
//!
//! ```ignore
//! fn run<F: Future<Output = ()>>(test: impl FnOnce(MyRuntime) -> F) { /* block on it, with the runtime's tasks running */ }
//! hostwire_conformance::suite!(run);
//! ```

pub mod account;
pub mod base;
pub mod client;
pub mod raw_host;

use account::Accounted;
use hostwire::Runtime;
use hostwire::testing::ManualClock;
use std::future::Future;

/// A runtime under test: its clock stands until it is moved, and what it holds is counted.
pub type Bench<R> = ManualClock<Accounted<R>>;

/// Runs one scenario and then checks that nothing of it is left.
///
/// # Panics
/// If the scenario fails, or leaves a task, a timer or a descriptor.
pub async fn scenario<R: Runtime, F: Future<Output = ()>>(runtime: R, test: impl FnOnce(Bench<R>) -> F) {
    let bench = ManualClock::new(Accounted::new(runtime));
    test(bench.clone()).await;
    bench.inner().assert_nothing_left().await;
    assert_eq!(bench.timers(), 0, "timers left");
}

/// One `#[test]` per scenario, each run by `$run`: a function that takes a closure from runtime to future and blocks on it.
#[macro_export]
macro_rules! suite {
    ($run:path) => {
        $crate::suite!(@module $run, base:
            [a_socket_wakes_its_reader_and_its_writer]
            [a_connection_to_nobody_is_refused]
            [blocking_work_comes_back_or_is_lost]
            [a_million_bytes_cross_in_both_directions_at_once]
            [an_ended_timer_and_a_dropped_one_leave_nothing]
        );
        $crate::suite!(@module $run, client:
            [ae1_a_fresh_call_gets_its_answer]
        );
    };
    (@module $run:path, $module:ident: $([$name:ident])+) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    #[allow(unused_imports)]
                    use super::*;
                    $run(|runtime| $crate::scenario(runtime, $crate::$module::$name));
                }
            )+
        }
    };
}
