//! What a request and an idle connection cost, as counts that do not depend on how fast or busy the machine is: allocations, calls on
//! sockets, wake-ups, bytes. Host and client run on one thread, each with a runtime that counts.

use hostwire_conformance::account::{Accounted, AccountedIo};
use hostwire_conformance::host::Site;
use hostwire_conformance::stage::{config, some_route};
use hostwire_tokio::Tokio;
use hostwire_tokio::TokioIo;
use hostwire_tokio::hostwire::client::{Client, ClientConfig, Request, Route};
use hostwire_tokio::hostwire::component::{Component, Handled, Manifest, Reply, RequestContext, Role};
use hostwire_tokio::hostwire::core::time::Instant;
use hostwire_tokio::hostwire::discovery::Place;
use hostwire_tokio::hostwire::runtime::BlockingLost;
use hostwire_tokio::hostwire::testing::ManualClock;
use hostwire_tokio::hostwire::{Host, HostConfig, HostHandle, Runtime};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations are counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

const DEPTH: usize = 32;
const EACH: usize = 200;
const REQUESTS: usize = DEPTH * EACH;

/// Counts how often its tasks are polled: every wake-up of one, but for those that came while it was awake.
#[derive(Clone)]
struct Counted {
    inner: Accounted<ManualClock<Tokio>>,
    polls: Arc<AtomicUsize>,
}

impl Counted {
    fn new(clock: &ManualClock<Tokio>) -> Self {
        Self { inner: Accounted::new(clock.clone()), polls: Arc::default() }
    }

    /// Reads, writes, polls.
    fn counts(&self) -> [usize; 3] {
        let (reads, writes) = self.inner.calls();
        [reads, writes, self.polls.load(Ordering::SeqCst)]
    }
}

impl Runtime for Counted {
    type Io = AccountedIo<TokioIo>;
    type Sleep = <ManualClock<Tokio> as Runtime>::Sleep;

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn sleep_until(&self, at: Instant) -> Self::Sleep {
        self.inner.sleep_until(at)
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        let polls = Arc::clone(&self.polls);
        // Boxed, so that what counts does not carry the task's own bytes twice.
        let mut task = Box::pin(task);
        self.inner.spawn(std::future::poll_fn(move |cx| {
            polls.fetch_add(1, Ordering::SeqCst);
            task.as_mut().poll(cx)
        }));
    }

    fn blocking<T, F>(&self, work: F) -> impl Future<Output = Result<T, BlockingLost>> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.inner.blocking(work)
    }

    fn give_way(&self, cx: &mut Context<'_>) {
        self.inner.give_way(cx);
    }

    fn register(&self, fd: OwnedFd) -> io::Result<Self::Io> {
        self.inner.register(fd)
    }
}

struct Echo;

impl Component for Echo {
    fn manifest(&self) -> Manifest {
        Manifest::new("lab", "1", Role::ToolProvider)
    }

    fn handle(self: Arc<Self>, mut cx: RequestContext) -> Handled {
        Reply::binary(cx.take_body()).into()
    }
}

struct Both {
    clock: ManualClock<Tokio>,
    host: Counted,
    client: Counted,
    _handle: HostHandle,
    config: ClientConfig,
    _site: Site,
}

impl Both {
    async fn start() -> Self {
        let clock = ManualClock::new(Tokio::current().unwrap());
        let (host, client, site) = (Counted::new(&clock), Counted::new(&clock), Site::default());
        let mut settings = HostConfig::new(site.location.clone(), "costs/1");
        settings.limits.connections = 256;
        let handle = Host::start(host.clone(), settings, vec![Arc::new(Echo)]).await.unwrap();
        let place = Place::File(site.location.connection_file().to_owned());
        Self { clock, host, client, _handle: handle, config: ClientConfig { place, ..config() }, _site: site }
    }

    async fn connect(&self) -> Client {
        Client::connect(&self.client, &self.config).await.unwrap()
    }
}

fn alone<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test());
}

/// Closed loops, 32 calls under way.
async fn loops(route: &Route) {
    let loops: Vec<_> = (0..DEPTH)
        .map(|_| {
            let route = route.clone();
            tokio::spawn(async move {
                for _ in 0..EACH {
                    let body = vec![b'e'; 256];
                    let reply = route.request(Request::new(body).binary()).await.unwrap();
                    assert_eq!(reply.body.len(), 256);
                }
            })
        })
        .collect();
    for one in loops {
        one.await.unwrap();
    }
}

async fn warm(both: &Both) -> Route {
    let route = both.connect().await.open(some_route()).await.unwrap();
    loops(&route).await;
    route
}

#[test]
fn a_small_request_allocates_its_bodies_and_one_slot() {
    alone(|| async {
        let both = Both::start().await;
        let route = warm(&both).await;
        let region = Region::new(ALLOCATOR);
        loops(&route).await;
        let change = region.change();
        let each = (change.allocations + change.reallocations) as f64 / REQUESTS as f64;
        // The caller's body, the client's slot and answer, the host's body. What a loop or a turn costs is spread over many.
        println!("allocations per request, all in all: {each:.3}");
        assert!(each <= 4.1, "{each} allocations for each request");
    });
}

#[test]
fn at_depth_32_a_request_costs_a_fraction_of_a_call_and_of_a_wake_up() {
    alone(|| async {
        let both = Both::start().await;
        let route = warm(&both).await;
        for (side, runtime) in [("client", &both.client), ("host", &both.host)] {
            let before = runtime.counts();
            loops(&route).await;
            let after = runtime.counts();
            let [reads, writes, polls] =
                std::array::from_fn(|i| (after[i] - before[i]) as f64 / REQUESTS as f64);
            println!("{side}, per request: {reads:.4} reads, {writes:.4} writes, {polls:.4} polls of tasks");
            assert!(reads + writes <= 0.12, "{side}: {} calls for each request", reads + writes);
            assert!(polls <= 0.12, "{side}: {polls} polls for each request");
        }
    });
}

#[test]
fn an_idle_connection_holds_at_most_8_kib_a_side_and_wakes_nobody() {
    const CONNECTIONS: usize = 100;
    alone(|| async {
        let both = Both::start().await;
        let first = both.connect().await;
        let region = Region::new(ALLOCATOR);
        let mut clients = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            clients.push(both.connect().await);
        }
        let change = region.change();
        let held = (change.bytes_allocated - change.bytes_deallocated) / CONNECTIONS;
        println!("heap of an idle connection, both sides: {held} bytes");
        assert!(held <= 2 * 8 * 1_024, "{held} bytes for each connection, both sides");
        // What was armed for the setup runs out once; then there is nothing left to wait for.
        while both.clock.advance_to_next() {
            settle().await;
        }
        let before = (both.host.counts(), both.client.counts());
        for _ in 0..100 {
            both.clock.advance(std::time::Duration::from_secs(60));
            settle().await;
        }
        assert_eq!((both.host.counts(), both.client.counts()), before, "an idle connection did something");
        assert_eq!(both.clock.timers(), 0);
        drop((first, clients));
    });
}

/// Lets every task that is ready run.
async fn settle() {
    let mut left = 64;
    std::future::poll_fn(|cx| {
        left -= 1;
        if left == 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
