//! The probe on real files: each row of P8's table, and that it touches nothing (P9).

use super::{ODD_THINGS, Spot, chmod, document, give_away, launch, port, put, put_odd_thing};
use hostwire::discovery::{Probe, Tenure, probe, unix_now_ms};
use hostwire_core::lifecycle::{
    HostState, LaunchId, Lock, Phase, PublicationEvidence, Record, RecordEvidence,
};
use std::fs;
use std::os::unix::fs::symlink;

const NOW: u64 = 1_000_000;

/// Looks, and makes sure that nothing has changed by it.
#[track_caller]
fn look(spot: &Spot) -> Probe {
    let before = spot.picture();
    let seen = probe(&spot.location, || NOW).unwrap();
    assert_eq!(spot.picture(), before);
    seen
}

fn record(phase: Phase, id: u8, written_at_ms: u64) -> Record {
    Record {
        phase,
        launch_id: LaunchId([0xab; 16]),
        daemon_id: document(id).credentials.daemon_id,
        payload_manifest_digest: None,
        pid: 1,
        written_at_ms,
    }
}

fn put_record(spot: &Spot, record: &Record) {
    put(&spot.path("mc-host-lifecycle.json"), &record.render());
}

// P8
#[test]
fn a_free_lock_is_stopped_whatever_lies_about() {
    let spot = Spot::new();
    assert_eq!(look(&spot).state, HostState::Stopped);
    drop(spot.acquire().unwrap());
    spot.put(&document(1).render());
    for phase in [Phase::Starting, Phase::Running, Phase::Stopping] {
        put_record(&spot, &record(phase, 1, NOW));
        let seen = look(&spot);
        assert_eq!((seen.state, seen.lock), (HostState::Stopped, Lock::Free));
        assert!(matches!(seen.record, RecordEvidence::Fresh(_)));
    }
    put(&spot.path("mc-host-lifecycle.json"), b"{");
    assert_eq!(look(&spot).state, HostState::Stopped);
}

// P8
#[test]
fn no_directory_is_stopped_and_none_is_created() {
    let spot = Spot::bare();
    let seen = probe(&spot.location, || NOW).unwrap();
    assert_eq!((seen.state, seen.lock), (HostState::Stopped, Lock::Free));
    assert_eq!((seen.record, seen.publication), (RecordEvidence::Missing, PublicationEvidence::Missing));
    assert!(!spot.run_dir().parent().unwrap().exists());
}

// P8, P9
#[test]
fn under_a_held_lock_the_record_and_the_publication_decide() {
    use HostState::{Running, Starting, Stopping, Wedged};
    let spot = Spot::new();
    let _lock = spot.acquire().unwrap();
    let rows = [
        (Phase::Starting, NOW, Some(1), Starting),
        (Phase::Starting, NOW, Some(2), Starting),
        (Phase::Starting, NOW, None, Starting),
        (Phase::Starting, NOW - 60_000, None, Starting),
        (Phase::Starting, NOW - 60_001, None, Wedged),
        (Phase::Starting, NOW + 1, None, Wedged),
        (Phase::Running, NOW, Some(1), Running),
        (Phase::Running, 0, Some(1), Running),
        (Phase::Running, NOW, Some(2), Wedged),
        (Phase::Running, NOW, None, Wedged),
        (Phase::Stopping, NOW, Some(1), Stopping),
        (Phase::Stopping, NOW, None, Stopping),
        (Phase::Stopping, NOW - 60_001, None, Wedged),
        (Phase::Stopping, NOW + 1, None, Wedged),
    ];
    for (phase, written, published, state) in rows {
        put_record(&spot, &record(phase, 1, written));
        match published {
            Some(n) => spot.put(&document(n).render()),
            None => drop(fs::remove_file(spot.file())),
        }
        let seen = look(&spot);
        assert_eq!((seen.state, seen.lock), (state, Lock::Held), "{phase:?} {written} {published:?}");
    }
}

// P8
#[test]
fn corrupt_or_insecure_evidence_under_a_held_lock_is_wedged() {
    let spot = Spot::new();
    let _lock = spot.acquire().unwrap();
    let good = record(Phase::Running, 1, NOW);
    let restore = || {
        spot.put(&document(1).render());
        put_record(&spot, &good);
        assert_eq!(look(&spot).state, HostState::Running);
    };
    for content in [&b"{"[..], b"", &[b' '; 65_537]] {
        restore();
        spot.put(content);
        let seen = look(&spot);
        assert_eq!((seen.state, seen.publication), (HostState::Wedged, PublicationEvidence::Corrupt));
        restore();
        put(&spot.path("mc-host-lifecycle.json"), content);
        let seen = look(&spot);
        assert_eq!((seen.state, seen.record), (HostState::Wedged, RecordEvidence::Corrupt));
    }
    for name in ["c.json", "mc-host-lifecycle.json"] {
        let insecure = |how: &str| {
            let seen = look(&spot);
            assert_eq!(seen.state, HostState::Wedged, "{name} {how}");
            let found =
                (seen.record == RecordEvidence::Insecure, seen.publication == PublicationEvidence::Insecure);
            assert_eq!(found, (name != "c.json", name == "c.json"), "{name} {how}");
        };
        restore();
        chmod(&spot.path(name), 0o644);
        insecure("mode");
        restore();
        fs::hard_link(spot.path(name), spot.path("second")).unwrap();
        insecure("link count");
        fs::remove_file(spot.path("second")).unwrap();
        if give_away(&spot.path(name)) {
            insecure("owner");
        }
        for thing in ODD_THINGS {
            fs::remove_file(spot.path(name)).unwrap();
            if put_odd_thing(thing, &spot.path(name)) {
                insecure(thing);
            }
            drop(fs::remove_file(spot.path(name)).or_else(|_| fs::remove_dir(spot.path(name))));
            put(&spot.path(name), b"");
        }
    }
}

#[test]
fn a_lock_that_is_a_link_cannot_be_judged_and_is_not_followed() {
    for thing in ODD_THINGS {
        let spot = Spot::new();
        if put_odd_thing(thing, &spot.path("mc-host.lock")) {
            let seen = look(&spot);
            assert_eq!((seen.state, seen.lock), (HostState::Wedged, Lock::Insecure), "{thing}");
        }
    }
}

#[test]
fn nothing_behind_a_link_on_the_way_is_looked_at() {
    let spot = Spot::new();
    let _lock = spot.acquire().unwrap();
    let elsewhere = spot.temp.path().join("elsewhere");
    fs::rename(spot.run_dir(), &elsewhere).unwrap();
    symlink(&elsewhere, spot.run_dir()).unwrap();
    let seen = probe(&spot.location, || NOW).unwrap();
    assert_eq!((seen.state, seen.lock), (HostState::Wedged, Lock::Insecure));
    assert_eq!((seen.record, seen.publication), (RecordEvidence::Insecure, PublicationEvidence::Insecure));
}

#[test]
fn a_run_directory_that_is_too_wide_holds_no_evidence_but_its_lock() {
    let spot = Spot::new();
    chmod(spot.run_dir(), 0o777);
    // Nobody runs here, and a host may start: it tightens the directory.
    assert_eq!(look(&spot).state, HostState::Stopped);
    let tenure = spot.run();
    assert_eq!(look(&spot).state, HostState::Running);
    chmod(spot.run_dir(), 0o777);
    let seen = look(&spot);
    assert_eq!((seen.state, seen.lock), (HostState::Wedged, Lock::Held));
    assert_eq!((seen.record, seen.publication), (RecordEvidence::Insecure, PublicationEvidence::Insecure));
    drop(tenure);
}

// P8: shared, so that probes do not see each other.
#[test]
fn a_probe_is_not_taken_for_a_host() {
    let spot = Spot::new();
    drop(spot.acquire().unwrap());
    let other = fs::File::open(spot.path("mc-host.lock")).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockShared).unwrap();
    assert_eq!(look(&spot).lock, Lock::Free);
    drop(other);
    // And it keeps nothing.
    assert!(spot.acquire().is_ok());
}

#[test]
fn the_printed_line_has_the_evidence_and_not_the_key() {
    let spot = Spot::new();
    let nothing = r#"{"state":"stopped","lock":"free","record":"missing","publication":"missing"}"#;
    assert_eq!(look(&spot).to_json(), nothing);
    let mut tenure = Tenure::begin(spot.acquire().unwrap(), launch(), NOW).unwrap();
    tenure.publish(port(7), NOW).unwrap();
    let (id, pid) = (tenure.record().daemon_id, std::process::id());
    assert_eq!(
        look(&spot).to_json(),
        format!(
            "{{\"state\":\"running\",\"lock\":\"held\",\"record\":{},\
             \"publication\":{{\"daemon_id\":\"{id}\",\"pid\":{pid},\"port\":7}}}}",
            String::from_utf8(tenure.record().render()).unwrap()
        )
    );
    let seen = format!("{:?}", look(&spot));
    let key = format!("{:?}", tenure.credentials().key.expose());
    assert!(!seen.contains(key.trim_matches(['[', ']'])), "{seen}");
    put(&spot.path("mc-host-lifecycle.json"), b"");
    chmod(&spot.file(), 0o644);
    let wedged = r#"{"state":"wedged","lock":"held","record":"corrupt","publication":"insecure"}"#;
    assert_eq!(look(&spot).to_json(), wedged);
    spot.put(b"");
    put_record(&spot, &record(Phase::Stopping, 1, 0));
    let expired = r#"{"state":"wedged","lock":"held","record":"expired","publication":"corrupt"}"#;
    assert_eq!(look(&spot).to_json(), expired);
    chmod(&spot.path("mc-host-lifecycle.json"), 0o666);
    assert!(look(&spot).to_json().contains(r#""record":"insecure""#));
    fs::remove_file(spot.path("mc-host.lock")).unwrap();
    symlink("/etc/passwd", spot.path("mc-host.lock")).unwrap();
    assert!(look(&spot).to_json().contains(r#""lock":"insecure""#));
}

#[test]
fn the_usual_clock_is_that_of_the_system() {
    // Between 2020 and 2200: milliseconds, not seconds or microseconds.
    assert!((1_577_836_800_000..7_258_118_400_000).contains(&unix_now_ms()));
}
