//! What `record` passes on: bytes both ways, half-closes included, with a recorder that sees them first.
//!
//! Owns the sockets of the connections that are open, and the copy of the connection file. A recorder that fails stops recording
//! and nothing else.

use hostwire::core::discovery::Document;
use hostwire::core::wire::Sender;
use hostwire::discovery::{Location, read_snapshot};
use hostwire_vectors::{Recorded, Recorder};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::num::NonZeroU16;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What is read at once.
const BUFFER: usize = 64 << 10;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A copy of the connection file that leads here.
pub(crate) struct Copy {
    source: Location,
    port: NonZeroU16,
    file: PathBuf,
    /// The folder, until the end; and the daemon ID of the copy in it.
    folder: Mutex<Option<TempDir>>,
    daemon: Mutex<String>,
}

impl Copy {
    /// Publishes it in an owner-only folder of its own below `out_dir`.
    pub(crate) fn publish(source: Location, port: NonZeroU16, out_dir: &Path) -> io::Result<Self> {
        // Absolute: whoever reads the name may stand somewhere else.
        let folder = tempfile::Builder::new()
            .prefix("connection-file-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(fs::canonicalize(out_dir)?)?;
        let file = folder.path().join("subc-connection.json");
        let copy =
            Self { source, port, file, folder: Mutex::new(Some(folder)), daemon: Mutex::new(String::new()) };
        copy.refresh()?;
        Ok(copy)
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the original, and follows it where it has changed. Where its host is.
    pub(crate) fn refresh(&self) -> io::Result<SocketAddrV4> {
        let mut document = read_snapshot(&self.source).map_err(io::Error::other)?;
        let endpoint = document.endpoint();
        let daemon = document.credentials.daemon_id.to_string();
        let mut known = lock(&self.daemon);
        if *known != daemon {
            document.port = self.port;
            self.write(&document)?;
            *known = daemon;
        }
        Ok(endpoint)
    }

    fn write(&self, document: &Document) -> io::Result<()> {
        let folder = lock(&self.folder);
        let Some(folder) = folder.as_ref() else { return Ok(()) };
        // P3: complete, owner-only, and then under its name.
        let new = folder.path().join("new");
        let mut content = document.render();
        let written = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(&content));
        content.fill(0);
        written.and_then(|()| fs::rename(&new, &self.file))
    }

    /// Removes it, folder and all.
    pub(crate) fn remove(&self) {
        drop(lock(&self.folder).take());
    }
}

/// The sockets of what is open, so that it can be cut.
#[derive(Default)]
pub(crate) struct Sockets {
    open: Mutex<(u64, bool, BTreeMap<u64, [TcpStream; 2]>)>,
}

impl Sockets {
    fn add(&self, client: &TcpStream, host: &TcpStream) -> io::Result<u64> {
        let pair = [client.try_clone()?, host.try_clone()?];
        let mut open = lock(&self.open);
        let (next, cut, sockets) = &mut *open;
        if *cut {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        *next += 1;
        sockets.insert(*next, pair);
        Ok(*next)
    }

    fn remove(&self, number: u64) {
        lock(&self.open).2.remove(&number);
    }

    /// Cuts what is open, and what would still be opened.
    pub(crate) fn cut(&self) {
        let mut open = lock(&self.open);
        open.1 = true;
        for socket in open.2.values().flatten() {
            let _gone = socket.shutdown(Shutdown::Both);
        }
    }
}

/// One connection to pass on.
pub(crate) struct Relay<'a> {
    pub(crate) client: TcpStream,
    pub(crate) host: TcpStream,
    pub(crate) recorder: Option<Recorder<File>>,
    pub(crate) sockets: &'a Sockets,
}

/// The recorder, or why there is none any more.
struct Tape {
    began: Instant,
    recorder: Mutex<Option<Recorder<File>>>,
    failed: Mutex<Option<io::Error>>,
}

impl Tape {
    fn note(&self, note: impl FnOnce(&mut Recorder<File>, Duration) -> io::Result<()>) {
        let mut recorder = lock(&self.recorder);
        if let Some(there) = recorder.as_mut()
            && let Err(error) = note(there, self.began.elapsed())
        {
            *recorder = None;
            lock(&self.failed).get_or_insert(error);
        }
    }
}

/// Passes on until both sides have ended. What was recorded; an error if the recording broke off.
pub(crate) fn relay(relay: Relay<'_>) -> io::Result<Option<Recorded>> {
    let Relay { client, host, recorder, sockets } = relay;
    let tape = Tape { began: Instant::now(), recorder: Mutex::new(recorder), failed: Mutex::new(None) };
    // Without delay, as the two would talk without us.
    let _slower = (client.set_nodelay(true), host.set_nodelay(true));
    if let Ok(number) = sockets.add(&client, &host) {
        std::thread::scope(|scope| {
            let back = std::thread::Builder::new()
                .name("record".to_owned())
                .spawn_scoped(scope, || pump(&host, &client, Sender::Host, &tape));
            if back.is_ok() {
                pump(&client, &host, Sender::Client, &tape);
            }
        });
        sockets.remove(number);
    }
    if let Some(error) = lock(&tape.failed).take() {
        return Err(error);
    }
    let recorder = lock(&tape.recorder).take();
    recorder.map(Recorder::finish).transpose()
}

/// One direction, until it ends.
fn pump(from: &TcpStream, to: &TcpStream, side: Sender, tape: &Tape) {
    let mut buffer = vec![0; BUFFER];
    let (mut reader, mut writer) = (from, to);
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => {
                tape.note(|recorder, at| recorder.ended(at, side, true));
                return cut(from, to);
            }
        };
        if read == 0 {
            tape.note(|recorder, at| recorder.ended(at, side, false));
            let _gone = to.shutdown(Shutdown::Write);
            return;
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        // Recorded first: what the other side answers is then behind it.
        tape.note(|recorder, at| match side {
            Sender::Client => recorder.client_bytes(at, bytes),
            Sender::Host => recorder.host_bytes(at, bytes),
        });
        if writer.write_all(bytes).is_err() {
            let other = if side == Sender::Client { Sender::Host } else { Sender::Client };
            tape.note(|recorder, at| recorder.ended(at, other, true));
            return cut(from, to);
        }
    }
}

/// A connection that broke on one side ends on the other (G1: the effect is the same).
fn cut(from: &TcpStream, to: &TcpStream) {
    for socket in [from, to] {
        let _gone = socket.shutdown(Shutdown::Both);
    }
}
