//! A host over sockets: its start, its calls, its routes, its end.

pub mod calls;
pub mod candidate;
pub mod drought;
pub mod lifecycle;
pub mod peer;
pub mod routes;

use crate::Bench;
use hostwire::component::{
    BindContext, BoxError, BoxFuture, Component, ErrorReply, Handled, Health, Manifest, RequestContext, Role,
    RouteInfo, Timer,
};
use hostwire::core::lifecycle::HostState;
use hostwire::discovery::{Environment, Location, Place, probe, unix_now_ms};
use hostwire::host::{Ended, StartError};
use hostwire::{Host, HostConfig, HostHandle, Runtime};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Tests of the host, for [`suite!`](crate::suite).
#[macro_export]
macro_rules! host_suite {
    ($run:path) => {
        mod host {
            #[allow(unused_imports)]
            use super::*;
            $crate::suite!(@inner $run, host::calls:
                [ae1_every_kind_of_answer_arrives]
                [a_ready_answer_costs_no_task_and_a_later_one_costs_one]
                [b132_a_panic_anywhere_is_one_internal_error_and_the_next_request_works]
                [q5_a_response_after_an_item_is_an_internal_error]
                [x1_a_cancelled_handler_is_dropped_at_once]
                [x1_a_handler_that_asked_to_be_told_has_its_grace_and_no_more]
                [b083_a_handler_that_waits_for_room_fails_at_once_when_it_is_cancelled]
                [b7_over_the_declared_number_a_parked_handler_is_server_busy]
                [b134_a_handler_may_call_its_own_host]
                [b110_a_half_close_is_a_disconnect_and_stops_the_work]
            );
            $crate::suite!(@inner $run, host::candidate:
                [n10_a_call_a_stream_and_a_big_body_go_over_a_unix_socket]
                [n5_n7_what_cannot_be_granted_falls_back_with_its_reason]
                [n10_after_the_commit_the_bootstraps_end_touches_nothing]
                [n10_the_pair_counts_as_one_connection]
                [n11_a_wrong_token_or_another_first_frame_ends_both]
                [n14_the_door_is_owner_only_and_lets_in_one]
                [n11_before_the_commit_the_end_of_one_is_the_end_of_both]
                [n14_a_door_that_nobody_comes_to_closes_with_the_setups_deadline]
                [s17_a_shutdown_closes_doors_and_candidates]
                [p4_n14_a_killed_predecessors_door_is_swept]
            );
            $crate::suite!(@inner $run, host::routes:
                [r2_a_rejected_bind_is_answered_after_route_gone]
                [r2_a_bind_that_panics_is_an_internal_error]
                [r2_a_bind_that_overruns_is_a_module_timeout_and_its_channel_stays_claimed]
                [h4_a_bind_that_hangs_does_not_hold_the_end]
                [r6_route_gone_comes_once_and_after_the_work_has_ended]
                [k2_a_lost_connection_ends_its_routes_side_by_side]
                [k2_a_connection_lost_during_a_bind_ends_the_route_once]
                [h5_a_failing_route_gone_costs_its_route_and_nothing_else]
            );
            $crate::suite!(@inner $run, host::lifecycle:
                [p7_a_host_is_found_while_it_runs_and_gone_when_it_has_ended]
                [v49_declarations_beyond_the_limits_are_refused_by_name_and_nothing_is_touched]
                [b150_a_second_host_is_refused_and_the_first_goes_on]
                [p7_a_failed_initialize_takes_everything_back]
                [p7_a_dropped_start_is_abandoned_in_order]
                [a_dropped_handle_shuts_the_host_down]
                [s17_components_shut_down_last_and_in_reverse_order_whatever_one_of_them_does]
                [s17_the_goodbye_leaves_before_route_gone_is_called]
                [h1_a_clients_shutdown_is_answered_first]
                [b091_running_work_gets_its_terminal_before_the_goodbye]
                [p9_a_slow_start_renews_its_record]
                [z2_counters_outlive_their_connections]
                [b120_a_failing_accept_pauses_and_goes_on]
                [b085_a_peer_that_takes_nothing_is_cut_off_and_that_is_graceful]
                [b086_a_socket_without_a_handshake_does_not_delay_the_end]
                [a8_over_the_handshake_slots_a_socket_is_closed_without_a_read]
                [b122_a_thousand_resets_leave_nothing]
                [health_stays_inside_and_a_failing_probe_is_counted]
                [h4_the_lock_stays_while_a_handler_blocks_its_thread]
                [ae12_a_connection_serves_while_a_component_still_opens_its_storage]
                [t3_a_host_listens_on_the_ipv4_loopback_address_alone]
                [ae3_invented_identity_scopes_state_and_grants_nothing]
            );
        }
    };
}

/// What has happened, in order.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// One more thing.
    ///
    /// # Panics
    /// Never.
    pub fn say(&self, what: impl Into<String>) {
        self.0.lock().expect("unpoisoned").push(what.into());
    }

    /// All so far.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        self.0.lock().expect("unpoisoned").clone()
    }

    /// How often this has happened.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        self.said().iter().filter(|said| *said == what).count()
    }
}

type Handle = dyn Fn(RequestContext) -> Handled + Send + Sync;
type Bind = dyn Fn(BindContext) -> BoxFuture<'static, Result<(), ErrorReply>> + Send + Sync;
type Step = dyn Fn(Timer) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync;
type Gone = dyn Fn() -> BoxFuture<'static, ()> + Send + Sync;
type Ask = dyn Fn() -> BoxFuture<'static, Health> + Send + Sync;

/// A component that does what its test says, and says what is done to it.
pub struct Puppet {
    /// Its manifest.
    pub manifest: Manifest,
    /// Where it says so.
    pub log: Log,
    /// Its handler.
    pub handle: Box<Handle>,
    /// Its bind.
    pub bind: Box<Bind>,
    /// Its `initialize`.
    pub initialize: Box<Step>,
    /// Its `route_gone`.
    pub gone: Box<Gone>,
    /// Its `health`.
    pub health: Box<Ask>,
    /// Its `shutdown`.
    pub shutdown: Box<Step>,
}

impl Puppet {
    /// A tool provider that accepts every route and echoes every body.
    #[must_use]
    pub fn new(module_id: &str, log: &Log) -> Self {
        Self {
            manifest: Manifest::new(module_id, "1", Role::ToolProvider),
            log: log.clone(),
            handle: Box::new(|mut cx| hostwire::component::Reply::text(cx.take_body()).into()),
            bind: Box::new(|_| Box::pin(std::future::ready(Ok(())))),
            initialize: Box::new(|_| Box::pin(std::future::ready(Ok(())))),
            gone: Box::new(|| Box::pin(std::future::ready(()))),
            health: Box::new(|| Box::pin(std::future::ready(Health::Serving))),
            shutdown: Box::new(|_| Box::pin(std::future::ready(Ok(())))),
        }
    }

    fn say(&self, what: &str) {
        self.log.say(format!("{} {what}", self.manifest.module_id));
    }
}

impl Component for Puppet {
    fn manifest(&self) -> Manifest {
        self.manifest.clone()
    }

    fn initialize(&self, timer: Timer) -> BoxFuture<'_, Result<(), BoxError>> {
        self.say("initialize");
        (self.initialize)(timer)
    }

    fn bind(&self, cx: BindContext) -> BoxFuture<'_, Result<(), ErrorReply>> {
        self.say("bind");
        (self.bind)(cx)
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        self.say("handle");
        (self.handle)(cx)
    }

    fn route_gone(&self, _: Arc<RouteInfo>) -> BoxFuture<'_, ()> {
        self.say("gone");
        (self.gone)()
    }

    fn health(&self) -> BoxFuture<'_, Health> {
        (self.health)()
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        self.say("shutdown");
        let hour = Timer::new(NoTime);
        (self.shutdown)(hour)
    }
}

/// A clock for those who need none.
struct NoTime;

impl hostwire::component::Sleeper for NoTime {
    fn now(&self) -> hostwire::core::time::Instant {
        hostwire::core::time::Instant::ZERO
    }

    fn sleep_until(&self, _: hostwire::core::time::Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// A temporary place for a host.
#[derive(Debug)]
pub struct Site {
    /// Where it is; removed at the end.
    pub dir: TempDir,
    /// What is there.
    pub location: Location,
}

impl Default for Site {
    fn default() -> Self {
        Self::at(Path::to_owned)
    }
}

impl Site {
    /// With its data directory somewhere in a temporary one.
    ///
    /// # Panics
    /// If there is no temporary directory.
    #[must_use]
    pub fn at(place: impl FnOnce(&Path) -> PathBuf) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = place(dir.path());
        let environment = Environment { xdg_data_home: Some(data.into()), ..Environment::default() };
        let location = Location::resolve(&environment, &Place::Default).expect("a location");
        Self { dir, location }
    }

    /// The configuration of a host here.
    #[must_use]
    pub fn config(&self) -> HostConfig {
        HostConfig::new(self.location.clone(), "test/1")
    }

    /// Starts a host here.
    ///
    /// # Errors
    /// As [`Host::start`].
    pub async fn try_start<R: Runtime>(
        &self,
        runtime: &R,
        config: HostConfig,
        components: Vec<Arc<dyn Component>>,
    ) -> Result<HostHandle, StartError> {
        Host::start(runtime.clone(), config, components).await
    }

    /// Starts a host here with the defaults.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start<R: Runtime>(&self, runtime: &R, components: Vec<Arc<dyn Component>>) -> HostHandle {
        self.try_start(runtime, self.config(), components).await.expect("a host")
    }

    /// What a probe says.
    ///
    /// # Panics
    /// If it cannot look.
    #[must_use]
    pub fn state(&self) -> HostState {
        probe(&self.location, unix_now_ms).expect("a probe").state
    }
}

/// Lets time pass in steps, while a peer goes on, until something has come about.
///
/// # Panics
/// If it does not.
pub async fn pass<R: Runtime>(
    bench: &Bench<R>,
    peer: &mut peer::Peer<Bench<R>>,
    step: std::time::Duration,
    mut done: impl FnMut(&peer::Peer<Bench<R>>) -> bool,
) {
    for _ in 0..5_000 {
        for _ in 0..3 {
            peer.during(bench.inner().pause()).await;
            if done(peer) {
                return;
            }
        }
        peer.during(bench.inner().settled()).await;
        bench.advance(step);
    }
    panic!("it does not come about");
}

/// Waits for a host's end while the clock moves from timer to timer.
///
/// # Panics
/// If it does not end.
pub async fn ended<R: Runtime>(bench: &Bench<R>, host: &HostHandle) -> Ended {
    let mut wait = std::pin::pin!(host.wait());
    for _ in 0..5_000 {
        let look = std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx)));
        if let std::task::Poll::Ready(ended) = look.await {
            return ended;
        }
        bench.inner().settled().await;
        bench.advance(std::time::Duration::from_millis(100));
    }
    panic!("the host does not end");
}
