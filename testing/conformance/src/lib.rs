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
pub mod alone;
pub mod awaits;
pub mod base;
pub mod calls;
pub mod candidate;
pub mod capture;
pub mod clogged;
pub mod connect;
pub mod drops;
pub mod faults;
pub mod host;
pub mod managed;
pub mod process;
pub mod raw_host;
pub mod replay;
pub mod stage;
pub mod storms;
pub mod streams;
pub mod traced;
pub mod watch;

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
    let _watch = watch::Watch::begin();
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
            [b165_what_the_library_awaits_of_a_runtime_may_be_dropped]
        );
        $crate::suite!(@module $run, awaits:
            [b163_a_connect_may_be_dropped_at_every_await]
            [b163_what_is_asked_may_be_dropped_at_every_await]
            [b163_a_close_may_be_dropped_at_every_await]
            [b163_a_hosts_futures_may_be_dropped_at_every_await]
            [b163_a_shutdown_request_may_be_dropped_at_every_await]
        );
        $crate::suite!(@module $run, calls:
            [ae1_a_fresh_call_gets_its_answer]
            [many_small_frames_share_a_system_call]
            [b114_a_trickling_answer_survives_impatient_polling]
            [b019_a_dropped_call_is_cancelled_and_its_answer_discarded]
            [b2_a_dropped_calls_place_is_free_for_the_next]
            [a_canceller_stops_a_call_and_then_does_nothing]
            [e4_no_patience_settles_at_once_without_a_byte]
            [a_deadline_after_the_send_is_unknown_and_leaves_no_timer]
            [b057_a_clock_that_jumps_does_not_outrun_an_answer_that_is_there]
            [b029_an_error_answer_is_terminal_and_nothing_else_happens]
            [b134_a_waker_may_call_back_into_the_client]
        );
        $crate::suite!(@module $run, candidate:
            [n10_the_client_goes_on_over_the_granted_socket]
            [n14_no_other_path_is_connected_to]
            [n14_a_directory_below_is_inside]
            [n11_before_the_commit_the_end_of_one_is_the_end_of_both]
            [n10_a_bootstrap_that_is_closed_behind_the_commit_touches_nothing]
            [e1_a_silent_candidate_is_left_at_the_one_deadline]
            [a_connect_that_is_dropped_on_the_way_over_leaves_nothing]
        );
        $crate::suite!(@module $run, connect:
            [ae1_the_discovery_file_leads_to_the_host]
            [every_failure_to_connect_has_its_code]
            [b156_a_host_without_the_key_hears_nothing_after_the_hello]
            [e1_a_silent_host_is_left_at_the_one_deadline]
            [c11_the_environment_says_who_the_client_is]
        );
        $crate::suite!(@module $run, drops:
            [b128_handles_may_be_dropped_on_a_foreign_thread]
            [a_route_lives_as_long_as_its_calls]
            [r9_closing_a_route_settles_its_calls]
            [r8_a_route_that_nobody_waits_for_is_closed]
            [a_connect_that_is_dropped_at_any_point_leaves_nothing]
            [waiting_for_the_end_does_not_delay_it]
        );
        $crate::suite!(@module $run, faults:
            [b115_a_call_dropped_in_the_middle_of_its_frame_does_not_tear_it]
            [b124_deadlines_hold_while_the_peer_does_not_read]
            [b136_closing_behind_a_stuck_frame_ends_with_its_deadline]
            [b135_both_ends_write_at_once_and_nobody_stops_reading]
            [b122_a_reset_ends_a_connection_like_the_end_of_its_input]
            [b137_an_answer_before_a_failed_write_is_still_read]
            [v42_a_host_that_breaks_the_protocol_is_left]
        );
        $crate::suite!(@module $run, managed:
            [ae7_the_next_open_finds_the_hosts_next_incarnation]
            [k4_an_open_waits_for_a_host_no_longer_than_its_deadline]
            [ae5_a_forgotten_route_is_opened_again_once]
            [o5_a_busy_host_is_asked_again_within_the_deadline]
            [o5_the_last_answer_stands_when_time_runs_out_before_the_next_attempt]
            [a_call_stopped_between_two_attempts_sends_nothing_more]
        );
        $crate::suite!(@module $run, process:
            [b119_a_child_inherits_no_socket]
            [b125_a_closed_socket_raises_no_signal]
            [b126_a_thousand_connects_calls_and_closes_leave_nothing]
        );
        $crate::suite!(@module $run, replay:
            [vectors_hold_for_a_client_over_a_socket]
            [vectors_hold_for_a_host_over_a_socket]
            [a_vector_that_is_wrong_is_found_out]
        );
        $crate::suite!(@module $run, storms:
            [a_hung_file_system_holds_one_thread_and_no_runtime]
            [clients_that_come_at_once_share_a_read]
        );
        $crate::suite!(@module $run, streams:
            [v38_a_stream_has_its_items_in_order_and_one_end]
            [b061_a_cut_stream_ends_with_an_error_behind_its_items]
            [b040_an_unread_stream_saturates_alone]
            [b5_cancelling_keeps_items_and_dropping_frees_them]
            [b044_dropped_streams_give_their_room_back]
        );
        $crate::suite!(@module $run, traced:
            [every_connection_and_every_call_has_its_span]
            [z1_v24_failures_that_tempt_a_logger_show_no_secret]
            [z3_repeated_events_are_limited_in_logs_and_never_in_counters]
        );
        $crate::host_suite!($run);
    };
    (@inner $run:path, $outer:ident::$module:ident: $([$name:ident])+) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    #[allow(unused_imports)]
                    use super::super::*;
                    $run(|runtime| $crate::scenario(runtime, $crate::$outer::$module::$name));
                }
            )+
        }
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
