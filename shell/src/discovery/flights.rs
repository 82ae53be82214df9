//! One read of a file at a time, shared by all who asked before it began.
//!
//! Owns the bound on what a hung file system can hold: one thread per discovery file and process, however many clients reconnect. And
//! the other way round: a thousand that reconnect at once are served by two reads, not by a queue for a small pool. Invariant (D7): a
//! caller's answer comes from a read that began after it had asked; one that is under way is no longer joined.

use super::{Location, SnapshotError, read_snapshot};
use crate::runtime::{BlockingLost, Runtime};
use crate::sync::lock;
use hostwire_core::discovery::Document;
use slab::Slab;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Reads that one closure makes for others before it hands over, so that no runtime waits long for its end.
const READS: usize = 16;

type Snapshot = Result<Document, SnapshotError>;

static SNAPSHOTS: Flights<Snapshot> = Flights::new();

/// [`read_snapshot`] where the runtime puts blocking work, together with whoever else in this process asks for the same file.
///
/// Cancel safe: dropping it leaves a read that has begun to the others.
pub(crate) async fn read_shared<R: Runtime>(
    runtime: &R,
    location: &Location,
) -> Result<Snapshot, BlockingLost> {
    let own = location.clone();
    let work = move || read_snapshot(&own);
    SNAPSHOTS.read(location.connection_file(), work, |flight| runtime.blocking(flight)).await
}

/// Reads under way, by file. What stands there is who waits for the next one.
struct Flights<T>(Mutex<BTreeMap<PathBuf, Option<Arc<Batch<T>>>>>);

/// All who share one read.
struct Batch<T>(Mutex<State<T>>);

struct State<T> {
    progress: Progress<T>,
    wakers: Slab<Waker>,
}

#[derive(Clone)]
enum Progress<T> {
    Waiting,
    Done(T),
    /// Nobody reads for them any more: ask again.
    Again,
}

impl<T> Batch<T> {
    fn finish(&self, progress: Progress<T>) {
        let wakers = {
            let mut state = lock(&self.0);
            state.progress = progress;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// A place in a batch, given up when dropped.
struct Seat<T> {
    batch: Arc<Batch<T>>,
    key: Option<usize>,
}

impl<T: Clone> Seat<T> {
    /// The answer; `None` to ask again.
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.batch.0);
        match &state.progress {
            Progress::Done(value) => return Poll::Ready(Some(value.clone())),
            Progress::Again => return Poll::Ready(None),
            Progress::Waiting => {}
        }
        match self.key.and_then(|key| state.wakers.get_mut(key)) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.key = Some(state.wakers.insert(cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl<T> Drop for Seat<T> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = lock(&self.batch.0).wakers.try_remove(key);
            drop(waker);
        }
    }
}

impl<T: Clone + Send + 'static> Flights<T> {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// `begin` runs a flight where blocking is allowed, or drops it.
    async fn read<F>(
        &'static self,
        file: &Path,
        work: impl Fn() -> T + Clone + Send + 'static,
        begin: impl Fn(Box<dyn FnOnce() + Send>) -> F,
    ) -> Result<T, BlockingLost>
    where
        F: Future<Output = Result<(), BlockingLost>>,
    {
        loop {
            let (mut seat, flight) = self.join(file);
            let leads = flight.is_some();
            let flight = flight.map(|flight| {
                let work = work.clone();
                Box::pin(begin(Box::new(move || flight.run(work))))
            });
            let answer = poll_fn(|cx| seat.poll(cx)).await;
            // Kept until here: without it a flight that has not begun never does.
            drop(flight);
            match answer {
                Some(value) => return Ok(value),
                None if leads => return Err(BlockingLost),
                None => {}
            }
        }
    }

    /// A seat in the next read of this file, and the flight that makes it, if none is under way.
    fn join(&'static self, file: &Path) -> (Seat<T>, Option<Flight<T>>) {
        let fresh =
            || Arc::new(Batch(Mutex::new(State { progress: Progress::Waiting, wakers: Slab::new() })));
        let mut flights = lock(&self.0);
        let (batch, flight) = match flights.get_mut(file) {
            // D7: a read that has begun may be older than the question.
            Some(next) => (Arc::clone(next.get_or_insert_with(fresh)), None),
            None => {
                let batch = fresh();
                flights.insert(file.to_owned(), Some(Arc::clone(&batch)));
                let flight = Flight { flights: self, file: file.to_owned(), current: None, landed: false };
                (batch, Some(flight))
            }
        };
        (Seat { batch, key: None }, flight)
    }
}

/// The one who reads. Whatever ends it, nobody waits for it in vain.
struct Flight<T: 'static> {
    flights: &'static Flights<T>,
    file: PathBuf,
    current: Option<Arc<Batch<T>>>,
    landed: bool,
}

impl<T> Flight<T> {
    fn run(mut self, work: impl Fn() -> T) {
        for _ in 0..READS {
            {
                let mut flights = lock(&self.flights.0);
                self.current = flights.get_mut(&self.file).and_then(Option::take);
                if self.current.is_none() {
                    flights.remove(&self.file);
                    self.landed = true;
                    return;
                }
            }
            let value = work();
            if let Some(batch) = self.current.take() {
                batch.finish(Progress::Done(value));
            }
        }
    }
}

impl<T> Drop for Flight<T> {
    fn drop(&mut self) {
        // Handed over, dropped before it began, or panicked: who waits asks again, and one of them reads.
        let next = if self.landed { None } else { lock(&self.flights.0).remove(&self.file).flatten() };
        for batch in self.current.take().into_iter().chain(next) {
            batch.finish(Progress::Again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    type Reading = Pin<Box<dyn Future<Output = Result<usize, BlockingLost>>>>;

    /// A file of its own for each test.
    struct Disk {
        flights: &'static Flights<usize>,
        began: Arc<AtomicUsize>,
        threads: Arc<AtomicUsize>,
        /// Each read takes one.
        turns: Arc<Mutex<std::sync::mpsc::Receiver<()>>>,
        turn: Sender<()>,
    }

    impl Disk {
        fn new() -> Self {
            let (turn, turns) = channel();
            Self {
                flights: Box::leak(Box::new(Flights::new())),
                began: Arc::default(),
                threads: Arc::default(),
                turns: Arc::new(Mutex::new(turns)),
                turn,
            }
        }

        /// A read on a thread: its number, counted when it began.
        fn read(&self) -> Reading {
            let (began, turns, threads) =
                (Arc::clone(&self.began), Arc::clone(&self.turns), Arc::clone(&self.threads));
            let work = move || {
                let number = began.fetch_add(1, Ordering::SeqCst) + 1;
                lock(&turns).recv().expect("a turn");
                number
            };
            let begin = move |flight: Box<dyn FnOnce() + Send>| {
                threads.fetch_add(1, Ordering::SeqCst);
                thread::spawn(flight);
                std::future::pending()
            };
            let flights = self.flights;
            Box::pin(async move { flights.read(Path::new("/file"), work, begin).await })
        }

        fn began(&self, number: usize) {
            while self.began.load(Ordering::SeqCst) < number {
                thread::yield_now();
            }
        }

        fn is_empty(&self) -> bool {
            lock(&self.flights.0).is_empty()
        }
    }

    fn look(reading: &mut Reading) -> Option<Result<usize, BlockingLost>> {
        match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn wait(mut reading: Reading) -> Result<usize, BlockingLost> {
        loop {
            match look(&mut reading) {
                Some(value) => return value,
                None => thread::yield_now(),
            }
        }
    }

    #[test]
    fn a_thousand_who_ask_at_once_share_two_reads_and_one_thread() {
        let disk = Disk::new();
        let mut readings: Vec<_> = (0..1_000).map(|_| disk.read()).collect();
        assert!(readings.iter_mut().all(|reading| look(reading).is_none()));
        disk.turn.send(()).unwrap();
        disk.turn.send(()).unwrap();
        let numbers: Vec<_> = readings.into_iter().map(|reading| wait(reading).unwrap()).collect();
        assert!(numbers.iter().all(|number| (1..=2).contains(number)));
        assert_eq!(disk.threads.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn d7_who_asks_during_a_read_gets_the_next_one() {
        let disk = Disk::new();
        let mut first = disk.read();
        assert!(look(&mut first).is_none());
        disk.began(1);
        let mut second = disk.read();
        assert!(look(&mut second).is_none());
        disk.turn.send(()).unwrap();
        assert_eq!(wait(first), Ok(1));
        disk.began(2);
        assert!(look(&mut second).is_none(), "its own read is under way");
        disk.turn.send(()).unwrap();
        assert_eq!(wait(second), Ok(2));
        assert_eq!(disk.threads.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_hung_read_holds_one_thread_and_those_who_give_up_leave_nothing() {
        let disk = Disk::new();
        for _ in 0..100 {
            let mut reading = disk.read();
            assert!(look(&mut reading).is_none());
        }
        disk.began(1);
        for _ in 0..100 {
            let mut reading = disk.read();
            assert!(look(&mut reading).is_none());
        }
        assert_eq!(disk.threads.load(Ordering::SeqCst), 1);
        let kept =
            lock(&disk.flights.0).values().flatten().map(|next| lock(&next.0).wakers.len()).sum::<usize>();
        assert_eq!(kept, 0);
        // When it comes back, the next who asks is served.
        disk.turn.send(()).unwrap();
        disk.turn.send(()).unwrap();
        disk.turn.send(()).unwrap();
        assert!(wait(disk.read()).is_ok());
        while !disk.is_empty() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_flight_that_never_begins_is_its_leaders_loss_alone() {
        let disk = Disk::new();
        let kept = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&kept);
        let (flights, own) = (disk.flights, Arc::clone(&disk.began));
        let mut leader: Reading = Box::pin(async move {
            let begin = move |flight| {
                *lock(&keep) = Some(flight);
                std::future::pending()
            };
            flights.read(Path::new("/file"), move || own.load(Ordering::SeqCst), begin).await
        });
        assert!(look(&mut leader).is_none());
        let mut follower = disk.read();
        assert!(look(&mut follower).is_none());
        drop(lock(&kept).take()); // its runtime has ended
        assert_eq!(look(&mut leader), Some(Err(BlockingLost)));
        disk.turn.send(()).unwrap();
        assert_eq!(wait(follower), Ok(1));
    }

    #[test]
    fn a_read_that_panics_is_lost_and_the_next_one_reads() {
        let disk = Disk::new();
        let flights = disk.flights;
        let begin = |flight: Box<dyn FnOnce() + Send>| {
            drop(thread::spawn(flight).join());
            std::future::pending()
        };
        let lost: Reading =
            Box::pin(async move { flights.read(Path::new("/file"), || panic!("gone"), begin).await });
        assert_eq!(wait(lost), Err(BlockingLost));
        disk.turn.send(()).unwrap();
        assert_eq!(wait(disk.read()), Ok(1));
    }

    #[test]
    fn a_flight_hands_over_after_a_while() {
        let disk = Disk::new();
        let mut last = disk.read();
        assert!(look(&mut last).is_none());
        for number in 1..=READS {
            disk.began(number);
            let mut next = disk.read();
            assert!(look(&mut next).is_none());
            disk.turn.send(()).unwrap();
            assert_eq!(wait(std::mem::replace(&mut last, next)), Ok(number));
        }
        disk.turn.send(()).unwrap();
        assert_eq!(wait(last), Ok(READS + 1));
        assert_eq!(disk.threads.load(Ordering::SeqCst), 2);
    }
}
