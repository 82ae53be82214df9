//! Counting everything that a test could leave behind (PA14).

use hostwire::Runtime;
use hostwire::core::time::Instant;
use hostwire::runtime::BlockingLost;
use hostwire_conformance::account::Accounted;
use hostwire_smol::Smol;
use hostwire_tokio::Tokio;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::read_dir;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// One test at a time: descriptors and children are the whole process's.
static ALONE: Mutex<()> = Mutex::new(());

/// The runtime of a test, with its timers counted as well.
#[derive(Clone)]
pub(crate) struct Bench<R: Runtime> {
    pub(crate) inner: Accounted<R>,
    timers: Arc<AtomicUsize>,
}

impl<R: Runtime> Bench<R> {
    pub(crate) fn tasks(&self) -> usize {
        self.inner.tasks()
    }

    pub(crate) async fn pause(&self) {
        self.inner.sleep_until(self.inner.now() + Duration::from_millis(1)).await;
    }

    /// Waits for what has to come; a minute later it is a failure.
    pub(crate) async fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        for _ in 0..60_000 {
            if condition() {
                return;
            }
            self.pause().await;
        }
        panic!("never came: {what}");
    }
}

/// A timer that is counted while it lives.
pub(crate) struct Counted<S> {
    sleep: Pin<Box<S>>,
    timers: Arc<AtomicUsize>,
}

impl<S: Future<Output = ()>> Future for Counted<S> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.timers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<R: Runtime> Runtime for Bench<R> {
    type Io = <Accounted<R> as Runtime>::Io;
    type Sleep = Counted<R::Sleep>;

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn sleep_until(&self, at: Instant) -> Self::Sleep {
        self.timers.fetch_add(1, Ordering::SeqCst);
        Counted { sleep: Box::pin(self.inner.sleep_until(at)), timers: Arc::clone(&self.timers) }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        self.inner.spawn(task);
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

/// For tests that make and drop runtimes themselves.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn bench<R: Runtime>(runtime: R) -> Bench<R> {
    Bench { inner: Accounted::new(runtime), timers: Arc::default() }
}

pub(crate) fn on_tokio<F: Future<Output = ()>>(test: impl FnOnce(Tokio) -> F) {
    let _alone = alone();
    let before = Holdings::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tokio = Tokio::new(runtime.handle().clone());
    runtime.block_on(test(tokio));
    assert_eq!(runtime.metrics().num_alive_tasks(), 0);
    drop(runtime);
    before.assert_nothing_new();
}

pub(crate) fn on_smol<F: Future<Output = ()>>(test: impl FnOnce(Smol) -> F) {
    let _alone = alone();
    // Its reactor's thread and descriptors stay for good, once they are there.
    async_io::block_on(async_io::Timer::after(Duration::from_millis(1)));
    let before = Holdings::now();
    let executor = Arc::new(async_executor::Executor::new());
    async_io::block_on(executor.run(test(Smol::new(&executor))));
    assert!(executor.is_empty(), "tasks left on the executor");
    drop(executor);
    before.assert_nothing_new();
}

/// Runs a scenario, and checks that the runtime holds nothing of it.
pub(crate) async fn audited<R: Runtime, F: Future<Output = ()>>(
    runtime: R,
    scenario: impl FnOnce(Bench<R>) -> F,
) {
    let _watch = hostwire_conformance::watch::Watch::begin();
    let bench = bench(runtime);
    scenario(bench.clone()).await;
    bench.inner.assert_nothing_left().await;
    assert_eq!(bench.timers.load(Ordering::SeqCst), 0, "timers left");
}

/// What a process holds, as the system sees it.
#[derive(Debug)]
pub(crate) struct Holdings {
    /// Each with what it leads to.
    descriptors: BTreeSet<(OsString, PathBuf)>,
    threads: usize,
    children: BTreeSet<u32>,
}

impl Holdings {
    pub(crate) fn now() -> Self {
        let own = PathBuf::from(format!("/proc/{}/fd", std::process::id()));
        let descriptors = read_dir(&own)
            .unwrap()
            .flatten()
            .filter_map(|entry| Some((entry.file_name(), std::fs::read_link(entry.path()).ok()?)))
            .filter(|(_, to)| *to != own) // that of this listing
            .collect();
        // The harness starts and ends threads of its own, named after its tests, at any time; smol's pool for blocking work is the
        // process's, and its idle threads may stay.
        let threads = read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.starts_with("tokio") || name.starts_with("smol"))
            .count();
        Self { descriptors, threads, children: children() }
    }

    /// Nothing that was not there before. What was, may be gone: it was on its way out, or that of a test which runs beside.
    fn has_nothing_new(&self, before: &Self) -> bool {
        self.descriptors.is_subset(&before.descriptors)
            && self.threads <= before.threads
            && self.children.is_subset(&before.children)
    }

    /// Waits for what ends by itself behind a test: threads on their way out, orphans that are to be reaped.
    fn assert_nothing_new(&self) {
        let mut now = Self::now();
        for _ in 0..20_000 {
            hostwire::process::reap_orphans();
            now = Self::now();
            if now.has_nothing_new(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("something was left behind: {now:?}, and before {self:?}");
    }
}

/// This process's children, ended and not reaped ones included.
fn children() -> BTreeSet<u32> {
    let own = std::process::id().to_string();
    let mut all = BTreeSet::new();
    for entry in read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        if fields.split_ascii_whitespace().nth(1) == Some(own.as_str()) {
            all.insert(pid);
        }
    }
    all
}

#[test]
fn what_is_left_open_is_seen() {
    let _alone = alone();
    let before = Holdings::now();
    let kept = std::fs::File::open("/dev/null").unwrap();
    assert!(!Holdings::now().has_nothing_new(&before));
    drop(kept);
    before.assert_nothing_new();
}
