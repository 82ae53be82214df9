//! The host's side on real files: run directory, lock, publication, record, and the order in which they come and go
//! (P1 to P7).

use super::{
    ODD_THINGS, Spot, chmod, document, example, file_location, first_line, give_away, launch, mode, port,
    put, put_odd_thing, which,
};
use hostwire::discovery::{
    Environment, HostFileError, Insecurity, InstanceLock, Launch, Location, LockError, Place, Publication,
    Removal, RunDir, Tenure, probe, read_snapshot, remove_record, unix_now_ms, write_record,
};
use hostwire_core::lifecycle::{HostState, LaunchId, Phase, Record};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn state(spot: &Spot) -> HostState {
    probe(&spot.location, unix_now_ms).unwrap().state
}

fn record(spot: &Spot) -> Record {
    Record::parse(&fs::read(spot.path("mc-host-lifecycle.json")).unwrap()).unwrap()
}

#[track_caller]
fn dir_refusal(location: &Location) -> Insecurity {
    match RunDir::open_or_create(location) {
        Err(HostFileError::Insecure(insecure)) => insecure.why,
        Ok(_) => panic!("was taken"),
        Err(other) => panic!("{other:?}"),
    }
}

#[track_caller]
fn lock_refusal(spot: &Spot) -> Insecurity {
    match spot.acquire() {
        Err(LockError::File(HostFileError::Insecure(insecure))) => {
            assert_eq!(insecure.path, spot.path("mc-host.lock"));
            insecure.why
        }
        Ok(_) => panic!("was taken"),
        Err(other) => panic!("{other:?}"),
    }
}

// P1
#[test]
fn what_is_missing_of_the_run_directory_is_created_owner_only() {
    let spot = Spot::bare();
    RunDir::open_or_create(&spot.location).unwrap();
    assert_eq!(mode(spot.run_dir()), 0o700);
    assert_eq!(mode(spot.run_dir().parent().unwrap()), 0o700);
}

// P1: somebody else may be faster with each of them.
#[test]
fn all_who_create_the_way_at_once_arrive() {
    for _ in 0..50 {
        let spot = Spot::bare();
        let deep = file_location(&spot.run_dir().join("b").join("c").join("d").join("c.json"));
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    RunDir::open_or_create(&deep).unwrap();
                });
            }
        });
    }
}

// P1
#[test]
fn an_own_run_directory_that_is_too_wide_is_tightened_and_none_is_loosened() {
    for (before, after) in [(0o777, 0o700), (0o755, 0o700), (0o710, 0o700), (0o701, 0o700), (0o700, 0o700)] {
        let spot = Spot::new();
        chmod(spot.run_dir(), before);
        RunDir::open_or_create(&spot.location).unwrap();
        assert_eq!(mode(spot.run_dir()), after, "{before:o}");
    }
    let spot = Spot::new();
    for (before, after) in [(0o500, 0o500), (0o570, 0o500)] {
        chmod(spot.run_dir(), before);
        RunDir::open_or_create(&spot.location).unwrap();
        assert_eq!(mode(spot.run_dir()), after, "{before:o}");
    }
}

// P1, B145
#[test]
fn a_run_directory_of_somebody_else_is_refused_and_left_as_it_is() {
    let spot = Spot::new();
    chmod(spot.run_dir(), 0o777);
    if give_away(spot.run_dir()) {
        assert_eq!(dir_refusal(&spot.location), Insecurity::ForeignOwner);
        assert_eq!(mode(spot.run_dir()), 0o777);
        assert!(spot.names().is_empty());
    }
}

// P1, B145
#[test]
fn a_link_or_anything_else_in_place_of_the_run_directory_is_refused() {
    for thing in ODD_THINGS {
        let spot = Spot::bare();
        fs::create_dir(spot.run_dir().parent().unwrap()).unwrap();
        if thing != "directory" && put_odd_thing(thing, spot.run_dir()) {
            let why = if thing == "link" { Insecurity::Symlink } else { Insecurity::NotADirectory };
            assert_eq!(dir_refusal(&spot.location), why, "{thing}");
        }
    }
    let spot = Spot::new();
    let target = spot.temp.path().join("target");
    fs::rename(spot.run_dir(), &target).unwrap();
    chmod(&target, 0o755);
    symlink(&target, spot.run_dir()).unwrap();
    assert_eq!(dir_refusal(&spot.location), Insecurity::Symlink);
    assert_eq!(mode(&target), 0o755);
}

// B145: `/tmp` itself as a run directory, when we are root and it is ours.
#[test]
fn a_shared_directory_is_no_run_directory_and_is_not_tightened() {
    let spot = Spot::new();
    chmod(spot.run_dir(), 0o1777);
    assert_eq!(dir_refusal(&spot.location), Insecurity::SharedDirectory);
    assert_eq!(mode(spot.run_dir()), 0o1777);
    let root = mode(Path::new("/"));
    assert_eq!(dir_refusal(&file_location(Path::new("/c.json"))), Insecurity::SharedDirectory);
    assert_eq!(mode(Path::new("/")), root);
}

#[test]
fn an_unsafe_way_to_the_run_directory_is_refused_before_anything_is_made() {
    for up in [0, 1] {
        let spot = Spot::bare();
        let data = spot.temp.path().join("a");
        fs::create_dir(&data).unwrap();
        let open = [&data, spot.temp.path()][up];
        chmod(open, 0o777);
        assert_eq!(dir_refusal(&spot.location), Insecurity::TooOpen);
        assert!(!spot.run_dir().exists());
    }
}

// B145: the directory under which all of it lies was made by somebody else.
#[test]
fn a_data_directory_that_others_own_is_refused() {
    let spot = Spot::bare();
    let data = spot.temp.path().join("shared");
    fs::create_dir(&data).unwrap();
    let environment = Environment { xdg_data_home: Some(data.clone().into()), ..Environment::default() };
    let location = Location::resolve(&environment, &Place::Default).unwrap();
    if give_away(&data) {
        assert_eq!(dir_refusal(&location), Insecurity::ForeignOwner);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }
}

// P1, B146
#[test]
fn a_lock_file_that_is_a_link_is_refused_and_its_target_left_alone() {
    let spot = Spot::new();
    let target = spot.path("target");
    fs::write(&target, "").unwrap();
    chmod(&target, 0o644);
    // B146: somebody has locked the target; following would mean to wait for them.
    let held = fs::File::open(&target).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    symlink(&target, spot.path("mc-host.lock")).unwrap();
    assert_eq!(lock_refusal(&spot), Insecurity::Symlink);
    assert_eq!(mode(&target), 0o644);
    fs::remove_file(&target).unwrap();
    assert_eq!(lock_refusal(&spot), Insecurity::Symlink);
    assert!(!target.exists());
}

// P1
#[test]
fn a_lock_file_with_a_second_name_or_of_somebody_else_or_of_another_kind_is_refused() {
    let spot = Spot::new();
    put(&spot.path("other"), b"");
    fs::hard_link(spot.path("other"), spot.path("mc-host.lock")).unwrap();
    assert_eq!(lock_refusal(&spot), Insecurity::HardLinked);
    // Linked and too wide: it is not ours to tighten.
    chmod(&spot.path("other"), 0o644);
    assert_eq!(lock_refusal(&spot), Insecurity::HardLinked);
    assert_eq!(mode(&spot.path("other")), 0o644);
    fs::remove_file(spot.path("other")).unwrap();
    if give_away(&spot.path("mc-host.lock")) {
        assert_eq!(lock_refusal(&spot), Insecurity::ForeignOwner);
    }
    for thing in ODD_THINGS {
        let spot = Spot::new();
        if put_odd_thing(thing, &spot.path("mc-host.lock")) {
            let why = if thing == "link" { Insecurity::Symlink } else { Insecurity::NotAFile };
            assert_eq!(lock_refusal(&spot), why, "{thing}");
        }
    }
}

// P1
#[test]
fn the_lock_file_is_owner_only_and_an_own_one_that_is_wide_is_tightened() {
    let spot = Spot::new();
    drop(spot.acquire().unwrap());
    assert_eq!(mode(&spot.path("mc-host.lock")), 0o600);
    chmod(&spot.path("mc-host.lock"), 0o666);
    drop(spot.acquire().unwrap());
    assert_eq!(mode(&spot.path("mc-host.lock")), 0o600);
}

// P1, P8
#[test]
fn a_second_host_learns_what_a_probe_sees_of_the_first() {
    let spot = Spot::new();
    let first = spot.run();
    let Err(LockError::AlreadyRunning(seen)) = spot.acquire() else { panic!() };
    assert_eq!(seen.state, HostState::Running);
    assert_eq!(seen.pid(), Some(std::process::id()));
    let retired = first.retire(unix_now_ms());
    let Err(LockError::AlreadyRunning(seen)) = spot.acquire() else { panic!() };
    assert_eq!((seen.state, seen.pid()), (HostState::Stopping, None));
    retired.release();
    assert!(spot.acquire().is_ok());
}

// P1, B162
#[test]
fn a_child_does_not_inherit_the_lock() {
    let spot = Spot::new();
    let tenure = spot.run();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let open: Vec<_> = fs::read_dir(format!("/proc/{}/fd", child.id()))
        .map(|fds| fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok()).collect())
        .unwrap_or_default();
    drop(tenure);
    let (state, next) = (state(&spot), spot.acquire());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!open.iter().any(|path| path.starts_with(spot.run_dir())), "{open:?}");
    assert_eq!(state, HostState::Stopped);
    assert!(next.is_ok());
}

// P1 to P7: the whole stay, as a client and a probe see it. AE13's part on disk.
#[test]
fn a_stay_goes_from_starting_to_running_to_stopping_to_nothing() {
    let spot = Spot::bare();
    let lock = spot.acquire().unwrap();
    assert_eq!(spot.names(), ["mc-host.lock"]);
    let mut tenure = Tenure::begin(lock, launch(), unix_now_ms()).unwrap();
    assert_eq!(spot.names(), ["mc-host-lifecycle.json", "mc-host.lock"]);
    assert_eq!(record(&spot).phase, Phase::Starting);
    assert_eq!(state(&spot), HostState::Starting);
    tenure.publish(port(7), unix_now_ms()).unwrap();
    assert_eq!(record(&spot).phase, Phase::Running);
    assert_eq!(&record(&spot), tenure.record());
    assert_eq!(state(&spot), HostState::Running);
    let read = read_snapshot(&spot.location).unwrap();
    assert_eq!(read.port, port(7));
    assert_eq!(read.pid, std::process::id());
    assert!(read.credentials.key == tenure.credentials().key);
    assert_eq!(read.credentials.daemon_id, record(&spot).daemon_id);
    assert_eq!(&*read.credentials.daemon_ver, "example/0.1.0");
    for name in spot.names() {
        assert_eq!(mode(&spot.path(&name)), 0o600, "{name}");
    }
    let retired = tenure.retire(unix_now_ms());
    assert_eq!(retired.outcome().unwrap(), Removal::Removed);
    assert_eq!(spot.names(), ["mc-host-lifecycle.json", "mc-host.lock"]);
    assert_eq!(record(&spot).phase, Phase::Stopping);
    assert_eq!(state(&spot), HostState::Stopping);
    retired.release();
    assert_eq!(spot.names(), ["mc-host.lock"]);
    assert_eq!(state(&spot), HostState::Stopped);
}

// P2, AE7
#[test]
fn every_incarnation_has_a_key_and_ids_of_its_own() {
    let spot = Spot::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let tenure = spot.run();
        let document = read_snapshot(&spot.location).unwrap();
        let launch = tenure.record().launch_id;
        assert!(seen.iter().all(|(key, id, other)| *key != document.credentials.key
            && *id != document.credentials.daemon_id
            && *other != launch));
        assert_ne!(launch.0, *document.credentials.daemon_id.bytes());
        seen.push((document.credentials.key, document.credentials.daemon_id, launch));
    }
}

// P7: what no call did, dropping does.
#[test]
fn an_abandoned_stay_takes_everything_back() {
    let spot = Spot::new();
    drop(spot.begin());
    assert_eq!(spot.names(), ["mc-host.lock"]);
    drop(spot.run());
    assert_eq!(spot.names(), ["mc-host.lock"]);
    let panicked = std::panic::catch_unwind(|| {
        let _tenure = spot.run();
        std::panic::resume_unwind(Box::new("initialize"));
    });
    assert!(panicked.is_err());
    assert_eq!(spot.names(), ["mc-host.lock"]);
    assert_eq!(state(&spot), HostState::Stopped);
    let retired = spot.begin().retire(unix_now_ms());
    assert_eq!(retired.outcome().unwrap(), Removal::Missing);
    drop(retired);
    assert_eq!(spot.names(), ["mc-host.lock"]);
}

#[test]
fn a_version_text_that_cannot_be_authenticated_with_is_refused_at_the_start() {
    for daemon_ver in [String::new(), "v".repeat(513)] {
        let spot = Spot::new();
        let launch = Launch { daemon_ver, ..launch() };
        let begun = Tenure::begin(spot.acquire().unwrap(), launch, 0);
        assert!(matches!(begun, Err(HostFileError::BadDaemonVersion)));
        assert_eq!(spot.names(), ["mc-host.lock"]);
    }
    let launch = Launch { daemon_ver: "v".repeat(512), ..launch() };
    assert!(Tenure::begin(Spot::new().acquire().unwrap(), launch, 0).is_ok());
}

// P9
#[test]
fn starting_and_stopping_are_renewed_and_running_is_not() {
    let spot = Spot::new();
    let mut tenure = Tenure::begin(spot.acquire().unwrap(), launch(), 1_000).unwrap();
    let written = |spot: &Spot| (record(spot).phase, record(spot).written_at_ms);
    assert_eq!(written(&spot), (Phase::Starting, 1_000));
    tenure.renew(2_000).unwrap();
    assert_eq!(written(&spot), (Phase::Starting, 2_000));
    tenure.publish(port(1), 3_000).unwrap();
    tenure.renew(4_000).unwrap();
    assert_eq!(written(&spot), (Phase::Running, 3_000));
    let mut retired = tenure.retire(5_000);
    assert_eq!(written(&spot), (Phase::Stopping, 5_000));
    retired.renew(6_000).unwrap();
    assert_eq!(written(&spot), (Phase::Stopping, 6_000));
}

// P3
#[test]
fn a_link_in_the_files_place_is_replaced_and_not_followed() {
    let spot = Spot::new();
    let target = spot.path("target");
    fs::write(&target, "precious").unwrap();
    symlink(&target, spot.file()).unwrap();
    symlink(&target, spot.path("mc-host-lifecycle.json")).unwrap();
    let tenure = spot.run();
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    assert_eq!(mode(&spot.file()), 0o600);
    assert_eq!(state(&spot), HostState::Running);
    drop(tenure);
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

// P3
#[test]
fn a_fifo_socket_or_device_in_the_files_place_is_replaced_and_a_directory_refused() {
    for thing in ODD_THINGS {
        let spot = Spot::new();
        if !put_odd_thing(thing, &spot.file()) {
            continue;
        }
        let mut tenure = spot.begin();
        let published = tenure.publish(port(1), unix_now_ms());
        if thing == "directory" {
            let Err(HostFileError::Insecure(insecure)) = published else { panic!("{published:?}") };
            assert_eq!((insecure.path, insecure.why), (spot.file(), Insecurity::NotAFile));
            // P7: a failed publish is an abandoned start, and leaves no temporary.
            assert_eq!(spot.names(), ["c.json", "mc-host-lifecycle.json", "mc-host.lock"]);
            assert_eq!(tenure.retire(unix_now_ms()).outcome().unwrap(), Removal::Missing);
            assert_eq!(spot.names(), ["c.json", "mc-host.lock"]);
        } else {
            published.unwrap();
            assert_eq!(read_snapshot(&spot.location).unwrap().port, port(1));
        }
    }
}

// P7: a record that cannot be written keeps nobody from unpublishing, and is reported.
#[test]
fn retiring_goes_on_after_its_first_failure_and_reports_it() {
    let spot = Spot::new();
    let tenure = spot.run();
    fs::remove_file(spot.path("mc-host-lifecycle.json")).unwrap();
    fs::create_dir(spot.path("mc-host-lifecycle.json")).unwrap();
    let retired = tenure.retire(unix_now_ms());
    assert!(matches!(retired.outcome(), Err(HostFileError::Insecure(_))));
    assert!(!spot.file().exists());
    retired.release();
    assert_eq!(spot.names(), ["mc-host-lifecycle.json", "mc-host.lock"]);
    assert!(spot.acquire().is_ok());
}

// P5, V7, B148
#[test]
fn an_old_host_leaves_its_successors_files_alone() {
    let spot = Spot::new();
    let old = spot.run();
    // Somebody takes the lock file away by hand, and a second host starts beside the first.
    fs::remove_file(spot.path("mc-host.lock")).unwrap();
    let new = spot.run();
    let published = fs::read(spot.file()).unwrap();
    let retired = old.retire(unix_now_ms());
    assert_eq!(retired.outcome().unwrap(), Removal::NotOurs);
    assert_eq!(fs::read(spot.file()).unwrap(), published);
    // The new one writes its record again, as it would on its way out; then the old one ends.
    let retired_new = new.retire(unix_now_ms());
    retired.release();
    assert_eq!(spot.names(), ["mc-host-lifecycle.json", "mc-host.lock"]);
    retired_new.release();
    assert_eq!(spot.names(), ["mc-host.lock"]);
}

// P5: inode, link count and daemon ID, each by itself.
#[test]
fn a_publication_is_removed_only_if_it_is_the_one_that_was_published() {
    let lock_and_publish = |spot: &Spot| {
        let lock = spot.acquire().unwrap();
        let publication = Publication::publish(&lock, &document(1)).unwrap();
        (lock, publication)
    };
    // The very one.
    let spot = Spot::new();
    let (lock, publication) = lock_and_publish(&spot);
    assert_eq!(publication.unpublish(&lock).unwrap(), Removal::Removed);
    assert_eq!(spot.names(), ["mc-host.lock"]);
    // The same content, another inode.
    let publication = Publication::publish(&lock, &document(1)).unwrap();
    put(&spot.path("copy"), &document(1).render());
    fs::rename(spot.path("copy"), spot.file()).unwrap();
    assert_eq!(publication.unpublish(&lock).unwrap(), Removal::NotOurs);
    assert!(spot.file().exists());
    drop(lock);
    // Our inode, a second link.
    let (lock, publication) = lock_and_publish(&spot);
    fs::hard_link(spot.file(), spot.path("second")).unwrap();
    assert_eq!(publication.unpublish(&lock).unwrap(), Removal::NotOurs);
    assert!(spot.file().exists());
    drop(lock);
    // Our inode, another daemon ID, or no document.
    for content in [document(2).render(), b"{}".to_vec(), vec![b' '; 65_537]] {
        let (lock, publication) = lock_and_publish(&spot);
        fs::write(spot.file(), content).unwrap();
        assert_eq!(publication.unpublish(&lock).unwrap(), Removal::NotOurs);
        assert!(spot.file().exists());
    }
    // Nothing there.
    let (lock, publication) = lock_and_publish(&spot);
    fs::remove_file(spot.file()).unwrap();
    assert_eq!(publication.unpublish(&lock).unwrap(), Removal::Missing);
    // A link to it.
    drop(lock);
    let (lock, publication) = lock_and_publish(&spot);
    fs::rename(spot.file(), spot.path("moved")).unwrap();
    symlink(spot.path("moved"), spot.file()).unwrap();
    assert_eq!(publication.unpublish(&lock).unwrap(), Removal::NotOurs);
    assert!(spot.path("moved").exists() && fs::symlink_metadata(spot.file()).is_ok());
}

// P6
#[test]
fn a_record_is_removed_only_by_the_launch_that_wrote_it() {
    let spot = Spot::new();
    let lock = spot.acquire().unwrap();
    let record = Record {
        phase: Phase::Running,
        launch_id: LaunchId([1; 16]),
        daemon_id: document(1).credentials.daemon_id,
        payload_manifest_digest: None,
        pid: 1,
        written_at_ms: 1,
    };
    assert_eq!(remove_record(&lock, LaunchId([1; 16])).unwrap(), Removal::Missing);
    write_record(&lock, &record).unwrap();
    assert_eq!(fs::read(spot.path("mc-host-lifecycle.json")).unwrap(), record.render());
    assert_eq!(remove_record(&lock, LaunchId([2; 16])).unwrap(), Removal::NotOurs);
    assert!(spot.path("mc-host-lifecycle.json").exists());
    assert_eq!(remove_record(&lock, LaunchId([1; 16])).unwrap(), Removal::Removed);
}

// P4, B158
#[test]
fn own_temporaries_older_than_ten_minutes_are_swept_and_nothing_else() {
    let spot = Spot::new();
    let name = |n: u8| format!(".mc-host-{}.tmp", format!("{n:02x}").repeat(16));
    let now = unix_now_ms();
    let aged = |file: &str, age_s: u64| {
        put(&spot.path(file), b"old");
        let then = std::time::UNIX_EPOCH + std::time::Duration::from_millis(now - age_s * 1_000);
        fs::File::options().write(true).open(spot.path(file)).unwrap().set_modified(then).unwrap();
    };
    aged(&name(1), 700);
    aged(&name(2), 86_400);
    aged(&name(3), 500);
    // Not our pattern, however old.
    let others = ["keep.tmp", ".mc-host-1.tmp", &name(4).replace("04", "XY"), &format!("{}x", name(5))];
    for file in others {
        aged(file, 86_400);
    }
    symlink("/etc/passwd", spot.path(&name(6))).unwrap();
    aged(&name(7), 86_400);
    fs::hard_link(spot.path(&name(7)), spot.path("link")).unwrap();
    let _tenure = spot.run();
    let names = spot.names();
    assert!(!names.contains(&name(1)) && !names.contains(&name(2)), "{names:?}");
    for kept in [name(3), name(6), name(7)].iter().map(String::as_str).chain(others) {
        assert!(names.iter().any(|name| name == kept), "{kept} {names:?}");
    }
}

// B152, B158: what a killed predecessor leaves behind is in nobody's way.
#[test]
fn leftovers_of_a_killed_host_keep_nobody_from_starting() {
    let spot = Spot::published();
    let stranger = Record { pid: 1, ..dead_record() };
    put(&spot.path("mc-host-lifecycle.json"), &stranger.render());
    put(&spot.path(".mc-host-00000000000000000000000000000000.tmp"), b"{\"schema\":1,\"wi");
    // B152: the process ID in them is alive, and proves nothing.
    assert_eq!(state(&spot), HostState::Stopped);
    let tenure = spot.run();
    assert_eq!(state(&spot), HostState::Running);
    assert_eq!(mode(&spot.path(".mc-host-00000000000000000000000000000000.tmp")), 0o600);
    assert_ne!(tenure.record().daemon_id, stranger.daemon_id);
}

fn dead_record() -> Record {
    Record {
        phase: Phase::Running,
        launch_id: LaunchId([9; 16]),
        daemon_id: document(1).credentials.daemon_id,
        payload_manifest_digest: None,
        pid: 9,
        written_at_ms: 1,
    }
}

// P8: a predecessor's leftover publication is fine while its successor starts.
#[test]
fn a_leftover_publication_does_not_disturb_a_start() {
    let spot = Spot::published();
    let tenure = spot.begin();
    assert_eq!(state(&spot), HostState::Starting);
    // It is not this host's, so its abandoned start leaves it.
    assert_eq!(tenure.retire(unix_now_ms()).outcome().unwrap(), Removal::Missing);
    assert_eq!(which(&read_snapshot(&spot.location).unwrap()), 1);
}

// B161
#[test]
fn the_directory_resolved_at_the_start_serves_the_whole_run() {
    let spot = Spot::new();
    let mut environment =
        Environment { xdg_data_home: Some(spot.temp.path().into()), ..Environment::default() };
    let location = Location::resolve(&environment, &Place::Default).unwrap();
    let mut tenure = Tenure::begin(
        InstanceLock::acquire(RunDir::open_or_create(&location).unwrap(), unix_now_ms).unwrap(),
        launch(),
        unix_now_ms(),
    )
    .unwrap();
    environment.xdg_data_home = Some("/nowhere".into());
    tenure.publish(port(1), unix_now_ms()).unwrap();
    assert!(location.connection_file().exists());
    // Not even moving it away makes a difference: the directory is held by descriptor.
    let moved = spot.temp.path().join("moved");
    fs::rename(location.run_dir(), &moved).unwrap();
    let retired = tenure.retire(unix_now_ms());
    assert_eq!(retired.outcome().unwrap(), Removal::Removed);
    retired.release();
    let left: Vec<_> = fs::read_dir(&moved).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mc-host.lock"]);
    assert!(!location.run_dir().exists());
    // An explicit relative path is made absolute at the start, so the working directory does not matter either.
    let relative = Location::resolve(&environment, &Place::File("x/c.json".into())).unwrap();
    assert!(relative.run_dir().is_absolute());
}

/// A host in a process of its own, running, until its standard input ends.
fn spawn_host(spot: &Spot) -> Option<Child> {
    let mut child = Command::new(example())
        .arg("host")
        .arg(spot.file())
        .arg("hold")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let line = first_line(&mut child);
    if line == "running\n" {
        return Some(child);
    }
    assert_eq!(child.wait().unwrap().code(), Some(1));
    None
}

// B150
#[test]
fn of_hosts_that_start_at_once_one_owns_the_directory() {
    for _ in 0..3 {
        let spot = Spot::bare();
        let started: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..3).map(|_| scope.spawn(|| spawn_host(&spot))).collect();
            starts.into_iter().filter_map(|start| start.join().unwrap()).collect()
        });
        assert_eq!(started.len(), 1);
        let owner = started.into_iter().next().unwrap();
        let seen = probe(&spot.location, unix_now_ms).unwrap();
        assert_eq!((seen.state, seen.pid()), (HostState::Running, Some(owner.id())));
        let mut owner = owner;
        drop(owner.stdin.take());
        assert!(owner.wait().unwrap().success());
        assert_eq!(spot.names(), ["mc-host.lock"]);
    }
}

// B154
#[test]
fn a_host_that_does_not_react_is_not_replaced() {
    let spot = Spot::new();
    let mut host = spawn_host(&spot).unwrap();
    let pid = rustix::process::Pid::from_child(&host);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let Err(LockError::AlreadyRunning(seen)) = spot.acquire() else { panic!() };
    assert_eq!((seen.state, seen.pid()), (HostState::Running, Some(host.id())));
    assert_eq!(read_snapshot(&spot.location).unwrap().pid, host.id());
    host.kill().unwrap();
    host.wait().unwrap();
    // B148's other half: the lock is free at once, and the dead one's files are in nobody's way.
    assert_eq!(state(&spot), HostState::Stopped);
    drop(spot.run());
}

// B142
#[test]
fn no_umask_makes_a_file_wider_or_narrower() {
    for umask in ["000", "022", "0277", "0377"] {
        let spot = Spot::bare();
        let script = format!("umask {umask}; exec \"$0\" host \"$1\" hold");
        // Only the umask of directories that it may enter itself can be tried.
        fs::create_dir(spot.run_dir().parent().unwrap()).unwrap();
        fs::create_dir(spot.run_dir()).unwrap();
        chmod(spot.run_dir(), 0o700);
        let mut host = Command::new("sh")
            .args(["-c", &script])
            .arg(example())
            .arg(spot.file())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(first_line(&mut host), "running\n", "{umask}");
        assert_eq!(mode(&spot.file()), 0o600, "{umask}");
        assert_eq!(mode(&spot.path("mc-host-lifecycle.json")), 0o600, "{umask}");
        assert_eq!(mode(&spot.path("mc-host.lock")), 0o600, "{umask}");
        drop(host.stdin.take());
        assert!(host.wait().unwrap().success());
    }
}

// P1, D4, B144, B145: what is closed to us cannot be opened, and still the owner is what is wrong. Root may open everything,
// so this needs to become somebody.
#[test]
fn somebody_elses_closed_directory_lock_or_file_is_insecure_and_not_just_an_error() {
    use std::os::unix::process::CommandExt;
    const ME: u32 = 54_321;
    let own = |path: &Path| std::os::unix::fs::chown(path, Some(ME), Some(ME));
    for (foreign, command) in [("", "host"), ("mc-host.lock", "host"), ("c.json", "client")] {
        let spot = Spot::published();
        put(&spot.path("mc-host.lock"), b"");
        let all = [
            spot.temp.path().to_owned(),
            spot.run_dir().parent().unwrap().to_owned(),
            spot.run_dir().to_owned(),
        ];
        if let Some(error) = all.iter().find_map(|path| own(path).err()) {
            println!("skipped: to become somebody else needs root: {error}");
            return;
        }
        let foreign = spot.run_dir().join(foreign);
        assert!(give_away(&foreign));
        let output = Command::new(example()).arg(command).arg(spot.file()).uid(ME).gid(ME).output();
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: the example is out of reach for other users: {error}");
                return;
            }
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("ForeignOwner"), "{said}");
    }
}
