//! How fast a chatty child's output passes, next to `cat` over the same pipes. Prints figures; asserts nothing.
//!
//!     cargo run --release -p hostwire-processes --example throughput

use hostwire::core::child::{Capture, Config};
use hostwire::process::Session;
use hostwire_tokio::Tokio;
use std::process::{Command, Stdio};
use std::time::Instant;

const BYTES: usize = 1 << 30;
const ROUNDS: usize = 5;

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

fn main() {
    let rate = |seconds: f64| BYTES as f64 / seconds / f64::from(1 << 20);
    let (mut cat, mut session) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        cat = cat.min(by_cat());
        session = session.min(by_session());
    }
    println!("cat      {:7.0} MiB/s", rate(cat));
    println!("session  {:7.0} MiB/s", rate(session));
    println!("ratio    {:7.2}", cat / session);
}
