//! The load: closed loops of calls, streams, connects; and one measured window over it.

use crate::{Args, Histogram, ITEM, ITEMS, Processor, Rt};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A connected contender, seen by its caller.
pub trait Client: Clone + Send + Sync + 'static {
    /// Sends a body and returns how long its echo was.
    fn call(&self, body: Vec<u8>) -> impl Future<Output = usize> + Send;
    /// Reads a streamed answer to its end; returns how many items it had.
    fn stream(&self, items: u64, size: usize) -> impl Future<Output = u64> + Send;
}

/// So many connections with so many calls under way on each.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a body, and of its echo.
    pub size: usize,
    /// Connections.
    pub connections: usize,
    /// Calls under way on each.
    pub depth: usize,
}

impl Shape {
    /// That of a workload, if it is one of closed loops.
    #[must_use]
    pub fn of(workload: &str) -> Option<Self> {
        let (size, connections, depth) = match workload {
            "ping" => (256, 1, 1),
            "pipeline" => (256, 1, 32),
            "fan" => (256, 8, 16),
            "block" => (64 << 10, 1, 4),
            "bulk" => (1 << 20, 1, 4),
            _ => return None,
        };
        Some(Self { size, connections, depth })
    }
}

/// Text, so that it costs peers that speak JSON nothing to carry it.
#[must_use]
pub fn body(size: usize) -> Vec<u8> {
    (0..=b'z' - b'a').cycle().take(size).map(|n| b'a' + n).collect()
}

/// On a line of its own in the processors' caches.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Cell(AtomicU64);

const WARM: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// What loops and the measuring tell each other.
#[derive(Debug)]
pub struct Control {
    phase: AtomicU8,
    cells: Vec<Cell>,
}

impl Control {
    /// For so many loops.
    #[must_use]
    pub fn new(loops: usize) -> Arc<Self> {
        let cells = (0..loops).map(|_| Cell::default()).collect();
        Arc::new(Self { phase: AtomicU8::new(WARM), cells })
    }

    /// Whether the loops are to end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == STOP
    }

    /// Whether what ends now belongs to the measured window.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == MEASURE
    }

    /// A loop has so many answers more.
    pub fn count(&self, one: usize, more: u64) {
        if let Some(cell) = self.cells.get(one) {
            cell.0.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn total(&self) -> u64 {
        self.cells.iter().map(|cell| cell.0.load(Ordering::Relaxed)).sum()
    }

    /// Lets the loops run warm, then measures, then ends them.
    pub async fn measure(&self, rt: Rt, args: &Args) -> Measured {
        rt.sleep(Duration::from_secs_f64(args.number("warm", 0.3))).await;
        let mut window = Window::begin(args);
        let before = self.total();
        self.phase.store(MEASURE, Ordering::Relaxed);
        let until = window.began + Duration::from_secs_f64(args.number("secs", 1.0));
        // How late a timer is says how long a task that is ready waits for its turn.
        while Instant::now() < until {
            let asked = Instant::now() + Duration::from_millis(5);
            rt.sleep(Duration::from_millis(5)).await;
            window.late.add(asked.elapsed().as_nanos() as u64);
        }
        let done = self.total() - before;
        let measured = window.end(done);
        self.phase.store(STOP, Ordering::Relaxed);
        measured
    }
}

struct Window {
    server: String,
    began: Instant,
    mine: Processor,
    theirs: Processor,
    late: Histogram,
}

impl Window {
    fn begin(args: &Args) -> Self {
        let server = args.text("server", "0").to_owned();
        let (mine, theirs) = (Processor::of_self(), Processor::of(&server));
        Self { server, mine, theirs, late: Histogram::default(), began: Instant::now() }
    }

    fn end(self, done: u64) -> Measured {
        Measured {
            done,
            seconds: self.began.elapsed().as_secs_f64(),
            client: Processor::of_self() - self.mine,
            server: Processor::of(&self.server) - self.theirs,
            latency: Histogram::default(),
            late: self.late,
        }
    }
}

/// What a window came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Operations.
    pub done: u64,
    /// Its length.
    pub seconds: f64,
    /// Processor time of the client's process.
    pub client: Processor,
    /// Processor time of the server's process.
    pub server: Processor,
    /// From call to answer.
    pub latency: Histogram,
    /// How late timers were.
    pub late: Histogram,
}

impl Measured {
    /// With the latencies that its loops saw.
    #[must_use]
    pub fn with(mut self, latency: Histogram) -> Self {
        self.latency = latency;
        self
    }

    /// The line of JSON.
    pub fn print(&self) {
        let each = |n: u64| n as f64 / self.done.max(1) as f64;
        let waited = (self.client.waited + self.server.waited) as f64;
        println!(
            concat!(
                r#"{{"done":{},"seconds":{:.4},"rate":{:.1},"p50":{},"p99":{},"cpu_client":{:.0},"cpu_server":{:.0},"#,
                r#""user_client":{:.0},"user_server":{:.0},"#,
                r#""sleeps_client":{:.4},"sleeps_server":{:.4},"waited":{:.4},"late_p50":{},"late_p99":{}}}"#
            ),
            self.done,
            self.seconds,
            self.done as f64 / self.seconds,
            self.latency.quantile(0.5),
            self.latency.quantile(0.99),
            each(self.client.used),
            each(self.server.used),
            self.client.user() / self.done.max(1) as f64,
            self.server.user() / self.done.max(1) as f64,
            each(self.client.sleeps),
            each(self.server.sleeps),
            waited / 1e9 / self.seconds,
            self.late.quantile(0.5),
            self.late.quantile(0.99),
        );
    }
}

/// Closed loops: each call as soon as its predecessor is answered.
///
/// # Panics
/// If an echo has another length.
pub async fn closed_loop<C: Client>(rt: Rt, args: &Args, clients: Vec<C>, shape: Shape) -> Measured {
    let control = Control::new(shape.connections * shape.depth);
    let template = Arc::new(body(shape.size));
    let mut loops = Vec::new();
    for (index, client) in clients.iter().flat_map(|client| vec![client; shape.depth]).enumerate() {
        let (client, control, template) = (client.clone(), Arc::clone(&control), Arc::clone(&template));
        loops.push(rt.spawn(async move {
            let mut latency = Histogram::default();
            let mut before = Instant::now();
            while !control.is_over() {
                let length = client.call(template.to_vec()).await;
                assert_eq!(length, template.len());
                let now = Instant::now();
                if control.is_measured() {
                    latency.add((now - before).as_nanos() as u64);
                }
                before = now;
                control.count(index, 1);
            }
            latency
        }));
    }
    let measured = control.measure(rt, args).await;
    let mut latency = Histogram::default();
    for one in loops {
        latency.merge(&one.await);
    }
    measured.with(latency)
}

/// Streams of [`ITEMS`] items, one after another.
///
/// # Panics
/// If one has fewer.
pub async fn streams<F: Future<Output = u64>>(args: &Args, mut stream: impl FnMut(u64) -> F) -> Measured {
    assert_eq!(stream(2_000).await, 2_000);
    let window = Window::begin(args);
    let until = window.began + Duration::from_secs_f64(args.number("secs", 1.0));
    let mut done = 0;
    while Instant::now() < until {
        assert_eq!(stream(ITEMS).await, ITEMS);
        done += ITEMS;
    }
    window.end(done)
}

/// Connects, one after another, each with its first answer.
pub async fn connects<F: Future<Output = ()>>(args: &Args, mut connect: impl FnMut() -> F) -> Measured {
    for _ in 0..20 {
        connect().await;
    }
    let window = Window::begin(args);
    let until = window.began + Duration::from_secs_f64(args.number("secs", 1.0));
    let (mut done, mut latency) = (0, Histogram::default());
    while Instant::now() < until {
        let before = Instant::now();
        connect().await;
        latency.add(before.elapsed().as_nanos() as u64);
        done += 1;
    }
    window.end(done).with(latency)
}

/// All workloads for a contender that is nothing but a [`Client`].
///
/// # Panics
/// If there is no such workload.
pub async fn run<C, F>(rt: Rt, args: &Args, connect: impl Fn() -> F + Sync) -> Measured
where
    C: Client,
    F: Future<Output = C> + Send,
{
    let workload = args.text("workload", "ping");
    if let Some(shape) = Shape::of(workload) {
        let mut clients = Vec::new();
        for _ in 0..shape.connections {
            clients.push(connect().await);
        }
        return closed_loop(rt, args, clients, shape).await;
    }
    match workload {
        "stream" => {
            let client = connect().await;
            streams(args, |items| {
                let client = client.clone();
                async move { client.stream(items, ITEM).await }
            })
            .await
        }
        "connect" => {
            connects(args, || async {
                let client = connect().await;
                assert_eq!(client.call(body(256)).await, 256);
            })
            .await
        }
        other => panic!("no workload {other}"),
    }
}
