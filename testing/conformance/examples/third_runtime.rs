//! A third runtime for hostwire in one file, without an async library: a thread for each task, which waits in `poll` for what its task
//! waits for.
//!
//!     cargo run -p hostwire-conformance --example third_runtime
//!
//! It passes the conformance suite (`tests/third_runtime.rs`), which is how a runtime of your own is checked, too. What it shows is
//! [`Runtime`] and [`Io`]; the rest of the file is the runtime itself: [`block_on`], and a thread that keeps the timers.

use hostwire::client::{CallError, Client, ClientConfig, Request};
use hostwire::component::Component;
use hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire::core::time::Instant;
use hostwire::discovery::{Environment, Location, Place};
use hostwire::runtime::{BlockingLost, Direction, Io, Runtime, Tried, process_clock, to_std};
use hostwire::{Host, HostConfig};
use hostwire_lab::Lab;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

/// The runtime. It has no state: threads come and go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Threads;

impl Runtime for Threads {
    type Io = Registered;
    type Sleep = Sleep;

    fn now(&self) -> Instant {
        process_clock()
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep { at, key: None }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        // Without a thread the task is dropped, as the contract allows.
        let _ = thread::Builder::new().spawn(move || block_on(task));
    }

    fn blocking<T, F>(&self, work: F) -> impl Future<Output = Result<T, BlockingLost>> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let answer = Arc::new(Mutex::new(Answer { value: None, waker: None }));
        let theirs = Arc::clone(&answer);
        let begun = thread::Builder::new().spawn(move || {
            let value = catch_unwind(AssertUnwindSafe(work)).map_err(|_| BlockingLost);
            give(&theirs, value);
        });
        if begun.is_err() {
            give(&answer, Err(BlockingLost));
        }
        poll_fn(move |cx| {
            let mut answer = lock(&answer);
            if let Some(value) = answer.value.take() {
                return Poll::Ready(value);
            }
            answer.waker = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    fn register(&self, fd: OwnedFd) -> io::Result<Registered> {
        Ok(Registered(Arc::new(fd)))
    }
}

struct Answer<T> {
    value: Option<Result<T, BlockingLost>>,
    waker: Option<Waker>,
}

fn give<T>(answer: &Mutex<Answer<T>>, value: Result<T, BlockingLost>) {
    let waker = {
        let mut answer = lock(answer);
        answer.value = Some(value);
        answer.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor. The kernel is asked for its state, never for a change of it, so there is no readiness to keep and none to lose.
#[derive(Debug)]
pub(crate) struct Registered(Arc<OwnedFd>);

impl AsFd for Registered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Registered {
    fn ready(&self, direction: Direction, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut state = [PollFd::new(&*self.0, flags(direction))];
        if poll(&mut state, Some(&now))? > 0 {
            return Poll::Ready(Ok(()));
        }
        let (fd, waker) = (Arc::downgrade(&self.0), cx.waker().clone());
        WAITS.with_borrow_mut(|waits| {
            // One waiting task per direction: the last one counts.
            waits.retain(|wait| !(wait.direction == direction && wait.fd.ptr_eq(&fd)));
            waits.push(Wait { fd, direction, waker });
        });
        Poll::Pending
    }
}

impl Io for Registered {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ready(Direction::Read, cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ready(Direction::Write, cx)
    }

    fn try_io<T>(&self, _: Direction, call: impl FnOnce(BorrowedFd<'_>) -> Tried<T>) -> Tried<T> {
        call(self.0.as_fd())
    }
}

const fn flags(direction: Direction) -> PollFlags {
    match direction {
        Direction::Read => PollFlags::IN,
        Direction::Write => PollFlags::OUT,
    }
}

/// A task of this thread waits for a descriptor. It does not keep it open.
struct Wait {
    fd: Weak<OwnedFd>,
    direction: Direction,
    waker: Waker,
}

thread_local! {
    static WAITS: RefCell<Vec<Wait>> = const { RefCell::new(Vec::new()) };
}

/// Wakes a thread out of its `poll`.
struct Bell(UnixStream);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // A full pipe has rung already.
        let _ = (&self.0).write(&[1]);
    }
}

/// Runs a future on this thread; whatever it waits for, the thread waits for in `poll`.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (bell, rung) = UnixStream::pair().expect("two descriptors");
    for end in [&bell, &rung] {
        end.set_nonblocking(true).expect("a socket");
    }
    let waker = Waker::from(Arc::new(Bell(bell)));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        wait(&rung);
    }
}

/// Waits until the bell rings or a descriptor is ready, and wakes who waits for it.
fn wait(mut rung: &UnixStream) {
    let waits = WAITS.take();
    let fds: Vec<Option<Arc<OwnedFd>>> = waits.iter().map(|wait| wait.fd.upgrade()).collect();
    let (waits, fds): (Vec<_>, Vec<_>) =
        waits.into_iter().zip(fds).filter_map(|(w, fd)| Some((w, fd?))).unzip();
    let all = fds.iter().zip(&waits).map(|(fd, wait)| PollFd::new(fd, flags(wait.direction)));
    let mut all: Vec<PollFd<'_>> = std::iter::once(PollFd::new(rung, PollFlags::IN)).chain(all).collect();
    // A signal that interrupts it is like a bell that rings.
    let _ = poll(&mut all, None);
    while matches!(rung.read(&mut [0; 64]), Ok(1..)) {}
    let ready: Vec<bool> = all.iter().skip(1).map(|fd| !fd.revents().is_empty()).collect();
    let mut wakers = Vec::new();
    let left = waits.into_iter().zip(ready).filter_map(|(wait, ready)| {
        if ready {
            wakers.push(wait.waker);
            return None;
        }
        Some(wait)
    });
    WAITS.with_borrow_mut(|waits| waits.extend(left));
    wakers.into_iter().for_each(Waker::wake);
}

/// A timer. One thread keeps all of them.
#[derive(Debug)]
pub(crate) struct Sleep {
    at: Instant,
    key: Option<Key>,
}

/// When, and which of several.
type Key = (std::time::Instant, u64);

#[derive(Default)]
struct Timers {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Default)]
struct Pending {
    last: u64,
    by_time: BTreeMap<Key, Waker>,
}

static TIMERS: LazyLock<Arc<Timers>> = LazyLock::new(|| {
    let timers = Arc::<Timers>::default();
    let own = Arc::clone(&timers);
    thread::spawn(move || own.run());
    timers
});

impl Timers {
    fn run(&self) {
        let mut state = lock(&self.pending);
        loop {
            let now = std::time::Instant::now();
            let wait = match state.by_time.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let waker = first.remove();
                    drop(state);
                    waker.wake();
                    state = lock(&self.pending);
                    continue;
                }
                Some(first) => first.key().0 - now,
                None => std::time::Duration::from_secs(3_600),
            };
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if process_clock() >= self.at {
            return Poll::Ready(());
        }
        let mut state = lock(&TIMERS.pending);
        let at = to_std(self.at);
        let key = *self.key.get_or_insert_with(|| {
            state.last += 1;
            (at, state.last)
        });
        state.by_time.insert(key, cx.waker().clone());
        TIMERS.changed.notify_one();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let removed = lock(&TIMERS.pending).by_time.remove(&key);
            drop(removed);
        }
    }
}

/// A host and a client on it: a call, a stream, a cancel, a shutdown.
///
/// # Errors
/// If one of them is not what it should be.
pub(crate) async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let environment = Environment { xdg_data_home: Some(dir.path().into()), ..Environment::default() };
    let location = Location::resolve(&environment, &Place::Default)?;
    let lab: Arc<dyn Component> = Arc::new(Lab::new());
    let host = Host::start(Threads, HostConfig::new(location.clone(), "third/1"), vec![lab]).await?;

    let config = ClientConfig { environment, ..ClientConfig::default() };
    let client = Client::connect(&Threads, &config).await?;
    let target = Target::new("tool_provider", "lab")?;
    let route = client.open(RouteOpen::new(target, Identity::new("/", "example", "third")?)).await?;

    let reply = route.request(r#"{"do":"echo","value":3}"#).await?;
    println!("a call: {}", String::from_utf8_lossy(reply.body.as_slice()));

    let mut stream = route.stream(r#"{"do":"stream","items":3,"size":8}"#);
    let mut items = 0;
    while let Some(item) = stream.next().await {
        item?;
        items += 1;
    }
    println!("a stream: {items} items");

    let hanging = route.request(Request::from(r#"{"do":"hang"}"#));
    hanging.cancel();
    match hanging.await {
        Err(error @ (CallError::NotSent { .. } | CallError::Unknown { .. })) => println!("a cancel: {error}"),
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("it answered".into()),
    }

    drop((stream, route));
    client.close().await;
    host.shutdown();
    let ended = host.wait().await;
    println!("the end: graceful {}", ended.graceful());
    if items == 3 && ended.graceful() { Ok(()) } else { Err("not as it should be".into()) }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    block_on(demo())
}
