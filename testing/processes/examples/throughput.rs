//! How fast a chatty child's output passes, next to `cat` over the same pipes. Prints figures; asserts nothing.
//!
//!     cargo run --release -p hostwire-processes --example throughput
//!
//! The same bytes, from the same program, through the same kind of pipe (the system's default size): once `head | cat > /dev/null`, once a
//! session that hands every byte to its reader. `cat` writes to a device that takes everything, so that each of the two copies a byte once.
//! They take turns, so that whatever else the machine does meets both; the ratio is that of each pair.

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

fn by_cat() -> f64 {
    let begun = Instant::now();
    let mut head = source().stdout(Stdio::piped()).spawn().expect("head");
    let input = head.stdout.take().expect("a pipe");
    let mut cat = Command::new("cat").stdin(input).stdout(Stdio::null()).spawn().expect("cat");
    cat.wait().and_then(|_| head.wait()).expect("ended");
    begun.elapsed().as_secs_f64()
}

fn by_session() -> f64 {
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
    begun.elapsed().as_secs_f64()
}

/// Smallest, median and largest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

fn main() {
    let rate = |seconds: f64| BYTES as f64 / seconds / f64::from(1 << 20);
    let (mut cats, mut sessions, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (cat, session) = (by_cat(), by_session());
        cats.push(rate(cat));
        sessions.push(rate(session));
        ratios.push(cat / session);
    }
    for (what, [least, median, most]) in [("cat", spread(cats)), ("session", spread(sessions))] {
        println!("{what:8} {median:7.0} MiB/s ({least:.0} to {most:.0})");
    }
    let [least, median, most] = spread(ratios);
    println!("ratio    {median:7.2} ({least:.2} to {most:.2})");
}
