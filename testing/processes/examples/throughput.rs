//! How fast a chatty child's output passes, next to `cat` over the same pipes. Prints figures; asserts nothing.
//!
//!     cargo run --release -p hostwire-processes --example throughput
//!
//! The same bytes, from the same program, through the same kind of pipe (the system's default size): once `head | cat > /dev/null`, once a
//! session that hands every byte to its reader. `cat` writes to a device that takes everything, so that each of the two copies a byte once.
//! They take turns, so that whatever else the machine does meets both; the ratio is that of each pair. What the reader alone has cost in
//! processor time is the figure that a busy machine distorts least.

use hostwire::core::child::{Capture, Config};
use hostwire::process::Session;
use hostwire_tokio::Tokio;
use std::process::{Command, Stdio};
use std::time::Instant;

const BYTES: usize = 1 << 30;
const ROUNDS: usize = 11;

fn source() -> Command {
    let mut command = Command::new("head");
    command.args(["-c", &BYTES.to_string(), "/dev/zero"]);
    command
}

/// Processor time in seconds: of this process, and of the children that it has waited for.
fn cpu() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a process table");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = |at: usize| fields.split_ascii_whitespace().nth(at).and_then(|field| field.parse().ok());
    let ticks = |at| ticks(at).unwrap_or(0.0) / 100.0;
    [ticks(11) + ticks(12), ticks(13) + ticks(14)]
}

/// How long it took, and what the reader has cost.
fn by_cat() -> [f64; 2] {
    let begun = Instant::now();
    let mut head = source().stdout(Stdio::piped()).spawn().expect("head");
    let input = head.stdout.take().expect("a pipe");
    let mut cat = Command::new("cat").stdin(input).stdout(Stdio::null()).spawn().expect("cat");
    head.wait().expect("ended");
    let [_, before] = cpu();
    cat.wait().expect("ended");
    let [_, after] = cpu();
    [begun.elapsed().as_secs_f64(), after - before]
}

fn by_session() -> [f64; 2] {
    let [before, _] = cpu();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    let begun = Instant::now();
    runtime.block_on(async {
        let tokio = Tokio::new(runtime.handle().clone());
        let config = Config { stdin: false, stdout: Capture::Deliver(1 << 20), ..Config::default() };
        let session = Session::spawn(&tokio, source(), config).expect("head");
        let mut read = 0;
        while let Some((_, bytes)) = session.read().await {
            read += bytes.len();
        }
        assert_eq!(read, BYTES);
        assert!(session.ended().await.verdict().is_completed());
    });
    let [after, _] = cpu();
    [begun.elapsed().as_secs_f64(), after - before]
}

/// Smallest, median and largest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

fn main() {
    let rate = |seconds: f64| BYTES as f64 / seconds / f64::from(1 << 20);
    let (mut cats, mut sessions, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut cat_costs, mut session_costs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let ([cat, cat_cost], [session, session_cost]) = (by_cat(), by_session());
        cats.push(rate(cat));
        sessions.push(rate(session));
        ratios.push(cat / session);
        cat_costs.push(cat_cost * 1e3);
        session_costs.push(session_cost * 1e3);
    }
    for (what, rates, costs) in [("cat", cats, cat_costs), ("session", sessions, session_costs)] {
        let ([least, median, most], [_, cost, _]) = (spread(rates), spread(costs));
        println!(
            "{what:8} {median:7.0} MiB/s ({least:.0} to {most:.0}), reader {cost:.0} ms of processor time for each GiB"
        );
    }
    let [least, median, most] = spread(ratios);
    println!("ratio    {median:7.2} ({least:.2} to {most:.2})");
}
