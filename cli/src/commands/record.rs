//! `record`: a transparent proxy that writes each connection as a vector.
//!
//! Owns the listener, the copy of the connection file, and the names of the recordings. The copy holds the key, as the original
//! does: it lies in a folder of its own that is gone when recording ends, at the first signal already. Recordings hold none.

use super::probe::locate;
use crate::args::Common;
use crate::exit::{Exit, Stop};
use crate::output::{Output, complain};
use crate::proxy::{Copy, Relay, Sockets, relay};
use crate::signals::Caught;
use clap::Args;
use hostwire::discovery::read_snapshot;
use hostwire_vectors::{DEFAULT_MAX_BODY, Recorded, Recorder};
use serde::Serialize;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Connections at once. A host has fewer.
const MAX_CONNECTIONS: usize = 1024;

/// Arguments of `record`.
#[derive(Debug, Args)]
pub(crate) struct Record {
    /// The folder that recordings go to, made if it is missing
    #[arg(long, value_name = "DIR")]
    out_dir: PathBuf,
    /// How many bytes of an application body are kept
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MAX_BODY)]
    max_body: usize,
    /// Keep no application body and no error message
    #[arg(long, conflicts_with = "max_body")]
    no_bodies: bool,
}

#[derive(Serialize)]
struct Ready<'a> {
    event: &'static str,
    connection_file: &'a str,
    port: u16,
    pid: u32,
}

#[derive(Serialize)]
struct Done<'a> {
    event: &'static str,
    file: &'a str,
    frames: u64,
    cut_bodies: u64,
    ended: &'a str,
    left_for: Option<&'a str>,
}

#[derive(Serialize)]
struct End {
    event: &'static str,
    connections: u64,
    failed: bool,
}

impl Record {
    pub(crate) fn run(&self, common: &Common) -> Result<Exit, Stop> {
        let output = common.output();
        let source = locate(common)?;
        read_snapshot(&source).map_err(|error| {
            Stop::usage(format!("no host to record: {}: {error}", source.connection_file().display()))
        })?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.out_dir)
            .map_err(|error| self.unwritable(&error))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(|error| Stop::Failed(format!("cannot listen: {error}")))?;
        let port = listener.local_addr().ok().and_then(|address| NonZeroU16::new(address.port()));
        let port = port.ok_or_else(|| Stop::Failed("the listener has no port".to_owned()))?;
        let signals = Caught::install()?;
        let copy = Copy::publish(source, port, &self.out_dir).map_err(|error| self.unwritable(&error))?;
        let shared = Arc::new(Shared {
            output,
            max_body: if self.no_bodies { None } else { Some(self.max_body) },
            out_dir: self.out_dir.clone(),
            copy,
            sockets: Sockets::default(),
            stopped: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        });
        let stopping = Arc::clone(&shared);
        signals.stop_with(move || stopping.stop(port));
        ready(output, &shared.copy, port)?;
        let connections = shared.accept(&listener);
        let failed = shared.failed.load(Ordering::SeqCst);
        shared.copy.remove();
        if output.json {
            output.object(&End { event: "ended", connections, failed })?;
        } else {
            output.line(&format!("connections recorded in {}: {connections}", self.out_dir.display()))?;
        }
        Ok(if failed { Exit::FAILED } else { Exit::SUCCESS })
    }

    fn unwritable(&self, error: &io::Error) -> Stop {
        Stop::usage(format!("cannot write to {}: {error}", self.out_dir.display()))
    }
}

fn ready(output: Output, copy: &Copy, port: NonZeroU16) -> Result<(), Stop> {
    let connection_file = copy.file().to_string_lossy();
    if output.json {
        return output.object(&Ready {
            event: "ready",
            connection_file: &connection_file,
            port: port.get(),
            pid: std::process::id(),
        });
    }
    output.line(&format!("recording what goes through --connection-file {connection_file}"))?;
    output.info("Ctrl-C ends it");
    Ok(())
}

/// What the connections share.
struct Shared {
    output: Output,
    max_body: Option<usize>,
    out_dir: PathBuf,
    copy: Copy,
    sockets: Sockets,
    stopped: AtomicBool,
    /// A recording could not be written.
    failed: AtomicBool,
}

impl Shared {
    /// The key is gone first; then nobody is accepted any more, and what is open is cut.
    fn stop(&self, port: NonZeroU16) {
        self.copy.remove();
        self.stopped.store(true, Ordering::SeqCst);
        self.sockets.cut();
        // Whoever waits in `accept` looks again.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, port.get())));
    }

    /// Serves until it is stopped, and waits for all recordings to end. How many there were.
    fn accept(self: &Arc<Self>, listener: &TcpListener) -> u64 {
        let mut connections = 0;
        let mut threads = Vec::new();
        while !self.stopped.load(Ordering::SeqCst) {
            let Ok((client, _)) = listener.accept() else {
                // Out of descriptors, most likely: they come back.
                std::thread::sleep(std::time::Duration::from_millis(100));
                continue;
            };
            threads.retain(|thread: &std::thread::JoinHandle<()>| !thread.is_finished());
            if self.stopped.load(Ordering::SeqCst) || threads.len() >= MAX_CONNECTIONS {
                continue;
            }
            let shared = Arc::clone(self);
            let thread = std::thread::Builder::new()
                .name("record".to_owned())
                .spawn(move || shared.connection(client));
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => complain(&format!("a connection is refused: {error}")),
            }
            connections += 1;
        }
        self.sockets.cut();
        for thread in threads {
            // A panic in it has been reported where it happened.
            let _ended = thread.join();
        }
        connections
    }

    fn connection(&self, client: TcpStream) {
        // D7: a host that was restarted has another port and another key.
        let host = match self.copy.refresh().and_then(TcpStream::connect) {
            Ok(host) => host,
            Err(error) => return complain(&format!("the host cannot be reached: {error}")),
        };
        let (path, recorder) = match self.recording() {
            Ok((path, file)) => {
                let about = format!("Recorded by hostwire {}", env!("CARGO_PKG_VERSION"));
                let recorder = Recorder::new(file, &about, self.max_body);
                if let Err(error) = &recorder {
                    self.unwritten(&path, error);
                }
                (path, recorder.ok())
            }
            Err(error) => {
                self.unwritten(&self.out_dir, &error);
                (PathBuf::new(), None)
            }
        };
        // Whatever becomes of the recording, the connection goes on.
        let relayed = relay(Relay { client, host, recorder, sockets: &self.sockets });
        match relayed {
            Ok(Some(recorded)) => self.told(&path, &recorded),
            Ok(None) => {}
            Err(error) => self.unwritten(&path, &error),
        }
    }

    fn unwritten(&self, path: &Path, error: &io::Error) {
        self.failed.store(true, Ordering::SeqCst);
        complain(&format!("cannot write {}: {error}; the connection goes on unrecorded", path.display()));
    }

    /// A new file, with the first number that is free.
    fn recording(&self) -> io::Result<(PathBuf, File)> {
        for number in 1_u32.. {
            let path = self.out_dir.join(format!("connection-{number:04}.vec"));
            match File::options().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Nobody has to listen: a closed stdout ends no recording.
    fn told(&self, path: &Path, recorded: &Recorded) {
        let file = path.to_string_lossy();
        let left_for = recorded.left_for.as_deref();
        let _told = if self.output.json {
            let Recorded { frames, cut_bodies, ended, .. } = recorded;
            self.output.object(&Done {
                event: "recorded",
                file: &file,
                frames: *frames,
                cut_bodies: *cut_bodies,
                ended,
                left_for,
            })
        } else {
            let left = left_for.map_or_else(String::new, |other| format!(", left for {other}"));
            self.output.line(&format!("{file}: {} frames, ended: {}{left}", recorded.frames, recorded.ended))
        };
    }
}
