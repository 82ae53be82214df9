//! Discovery on real files, through the public API.

mod host;
mod probe;
mod snapshot;
mod traced;

use hostwire::discovery::{
    Environment, InstanceLock, Launch, Location, LockError, Place, RunDir, Tenure, unix_now_ms,
};
use hostwire_core::auth::{Credentials, DaemonId, Key};
use hostwire_core::discovery::Document;
use rustix::fs::{CWD, FileType, Mode};
use std::fs;
use std::num::NonZeroU16;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A run directory of its own for one test.
struct Spot {
    temp: tempfile::TempDir,
    location: Location,
}

impl Spot {
    /// The run directory does not exist yet.
    fn bare() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let location = file_location(&temp.path().join("a").join("run").join("c.json"));
        Self { temp, location }
    }

    /// The run directory exists, owner-only.
    fn new() -> Self {
        let spot = Self::bare();
        for dir in [spot.run_dir().parent().unwrap(), spot.run_dir()] {
            fs::create_dir(dir).unwrap();
            chmod(dir, 0o700);
        }
        spot
    }

    /// With a good discovery file in it: document 1.
    fn published() -> Self {
        let spot = Self::new();
        spot.put(&document(1).render());
        spot
    }

    fn run_dir(&self) -> &Path {
        self.location.run_dir()
    }

    fn file(&self) -> PathBuf {
        self.location.connection_file().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.run_dir().join(name)
    }

    /// Puts the discovery file there, owner-only.
    fn put(&self, content: &[u8]) {
        put(&self.file(), content);
    }

    fn acquire(&self) -> Result<InstanceLock, LockError> {
        InstanceLock::acquire(RunDir::open_or_create(&self.location)?, unix_now_ms)
    }

    fn begin(&self) -> Tenure {
        Tenure::begin(self.acquire().unwrap(), launch(), unix_now_ms()).unwrap()
    }

    /// A host that has published port 7.
    fn run(&self) -> Tenure {
        let mut tenure = self.begin();
        tenure.publish(port(7), unix_now_ms()).unwrap();
        tenure
    }

    /// The names in the run directory, sorted.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.run_dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// All that a look from outside can tell about the run directory: names, modes, times, sizes, contents.
    fn picture(&self) -> Vec<String> {
        let mut picture: Vec<_> = self
            .names()
            .iter()
            .map(|name| {
                let stat = fs::symlink_metadata(self.path(name)).unwrap();
                let content = if stat.is_file() { fs::read(self.path(name)).unwrap() } else { Vec::new() };
                format!("{name} {} {} {} {content:?}", stat.mode(), stat.mtime_nsec(), stat.ctime_nsec())
            })
            .collect();
        let dir = fs::symlink_metadata(self.run_dir()).unwrap();
        picture.push(format!("{} {} {}", dir.mode(), dir.mtime_nsec(), dir.ctime_nsec()));
        picture
    }
}

fn file_location(file: &Path) -> Location {
    Location::resolve(&Environment::default(), &Place::File(file.to_owned())).unwrap()
}

fn launch() -> Launch {
    Launch { daemon_ver: "example/0.1.0".into(), payload_manifest_digest: None }
}

fn port(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

/// Document `n` has `n` in its port, its key and its ID, so that a mixed one is recognized.
fn document(n: u8) -> Document {
    Document {
        port: port(u16::from(n)),
        credentials: Credentials {
            key: Key::new([n; 32]),
            daemon_id: DaemonId::new([n; 16]),
            daemon_ver: "v".into(),
        },
        pid: u32::from(n),
    }
}

/// The number of a document that is whole.
fn which(document: &Document) -> u8 {
    let n = u8::try_from(document.port.get()).unwrap();
    assert!(document.credentials.key == Key::new([n; 32]), "a mixed document");
    assert!(document.credentials.daemon_id == DaemonId::new([n; 16]), "a mixed document");
    assert_eq!(document.pid, u32::from(n));
    n
}

fn put(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    chmod(path, 0o600);
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The twelve permission bits of what stands there, unfollowed.
fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Gives the file, directory or link to somebody else; false, and a line that says so, if we may not.
#[must_use]
fn give_away(path: &Path) -> bool {
    match std::os::unix::fs::lchown(path, Some(12_345), None) {
        Ok(()) => true,
        Err(error) => {
            println!("skipped: a foreign owner needs root to be made: {error}");
            false
        }
    }
}

/// What can stand in a file's place and is none.
const ODD_THINGS: [&str; 5] = ["directory", "fifo", "socket", "device", "link"];

/// Puts one of [`ODD_THINGS`] there; false, and a line that says so, if we may not.
#[must_use]
fn put_odd_thing(thing: &str, path: &Path) -> bool {
    match thing {
        "directory" => fs::create_dir(path).unwrap(),
        "fifo" => rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap(),
        "socket" => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        "link" => std::os::unix::fs::symlink("/etc/passwd", path).unwrap(),
        _ => {
            let null = rustix::fs::makedev(1, 3);
            let made = rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::RWXU, null);
            if let Err(error) = made {
                println!("skipped: a device cannot be made here: {error}");
                return false;
            }
        }
    }
    true
}

/// The first line of a child's standard output, which stays open.
fn first_line(child: &mut std::process::Child) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    let out = child.stdout.as_mut().unwrap();
    while !line.ends_with(b"\n") && std::io::Read::read(out, &mut byte).unwrap() == 1 {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// The example program, which `cargo test` builds along with the tests, and `cargo test --test it` does not.
fn example() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples").join("discovery");
    let built =
        fs::metadata(&program).and_then(|stat| stat.modified()).expect("cargo build --examples first");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join("discovery");
    for source in fs::read_dir(sources).unwrap() {
        let written = source.unwrap().metadata().unwrap().modified().unwrap();
        assert!(written <= built, "{} is out of date: cargo build --examples first", program.display());
    }
    program
}
