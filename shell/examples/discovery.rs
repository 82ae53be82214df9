//! Discovery by hand, without a socket: a host's whole stay in its run directory, a client's snapshot, a probe.
//!
//! ```text
//! discovery host FILE [hold]     lock, `starting`, publish, `running`, `stopping`, unpublish, unlock;
//!                                with `hold`, says `running` and stays until standard input ends
//! discovery client FILE          reads the connection file, prints where to dial
//! discovery probe FILE           prints the state of the host, with the evidence
//! ```

use hostwire::discovery::{
    Environment, InstanceLock, Launch, Location, Place, RunDir, Tenure, probe, read_snapshot, unix_now_ms,
};
use std::error::Error;
use std::io::Read;
use std::num::NonZeroU16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next().unwrap_or_default();
    let place = arguments.next().map_or(Place::Default, |file| Place::File(file.into()));
    let location = Location::resolve(&Environment::from_process(), &place)?;
    match command.to_str() {
        Some("host") => host(&location, arguments.next().is_some_and(|word| word == "hold")),
        Some("client") => {
            println!("{}", read_snapshot(&location)?.endpoint());
            Ok(())
        }
        Some("probe") => {
            println!("{}", probe(&location, unix_now_ms)?.to_json());
            Ok(())
        }
        Some(_) | None => Err("usage: discovery host|client|probe [FILE]".into()),
    }
}

fn host(location: &Location, hold: bool) -> Result<(), Box<dyn Error>> {
    let lock = InstanceLock::acquire(RunDir::open_or_create(location)?, unix_now_ms)?;
    let launch = Launch { daemon_ver: "example/0.1.0".into(), payload_manifest_digest: None };
    // From here on every way out, the `?` below included, takes back what was written.
    let mut tenure = Tenure::begin(lock, launch, unix_now_ms())?;
    tenure.publish(NonZeroU16::MIN, unix_now_ms())?;
    if hold {
        println!("running");
        std::io::stdin().read_to_end(&mut Vec::new())?;
    }
    let retired = tenure.retire(unix_now_ms());
    let removal = retired.outcome().map_err(ToString::to_string)?;
    retired.release();
    println!("{removal:?}");
    Ok(())
}
