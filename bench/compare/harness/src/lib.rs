//! What all contenders share: arguments, runtimes, the load, and how it is measured.
//!
//! Every contender is one program with two roles, `server` and `client`, in separate processes. The server says `READY` and the port
//! that it listens on, and ends with its standard input; the client prints one line of JSON.

mod args;
mod histogram;
mod load;
mod peer;
mod processor;
mod runtime;

pub use args::Args;
pub use histogram::Histogram;
pub use load::{Client, Control, Measured, Shape, body, closed_loop, connects, run, streams};
pub use peer::{Peer, peer};
pub use processor::Processor;
pub use runtime::{Rt, block_on};

use std::io::{Read, Write};

/// Items of one streamed answer.
pub const ITEMS: u64 = 100_000;
/// Bytes of one item.
pub const ITEM: usize = 1_024;

/// The server listens: says so, and ends the process when its standard input ends.
///
/// # Panics
/// If nobody reads.
pub fn ready(port: u16) {
    let mut out = std::io::stdout();
    writeln!(out, "READY {port}").and_then(|()| out.flush()).expect("somebody reads");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}
