//! The client's snapshot: what is read, and what is refused, on real files (D1 to D7).

use super::{ODD_THINGS, Spot, chmod, document, file_location, give_away, put, put_odd_thing, which};
use hostwire::discovery::{Environment, Insecurity, Location, Place, SnapshotError, read_snapshot};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The refused path and why.
#[track_caller]
fn refusal(location: &Location) -> (PathBuf, Insecurity) {
    match read_snapshot(location) {
        Err(SnapshotError::Insecure(insecure)) => (insecure.path, insecure.why),
        Ok(_) => panic!("was read"),
        Err(other) => panic!("{other:?}"),
    }
}

fn read(spot: &Spot) -> u8 {
    which(&read_snapshot(&spot.location).unwrap())
}

// V1, V2
#[test]
fn sixty_four_kib_are_read_and_one_byte_more_is_refused_before_parsing() {
    let spot = Spot::new();
    let mut content = document(1).render();
    content.resize(65_536, b' ');
    spot.put(&content);
    assert_eq!(read(&spot), 1);
    // Not JSON at all: it is the size that is refused.
    spot.put(&[b'x'; 65_537]);
    let error = read_snapshot(&spot.location).unwrap_err();
    assert!(matches!(error, SnapshotError::TooLarge), "{error}");
    assert_eq!(error.code(), "discovery_invalid");
    // Nor does a file that claims a terabyte cost anything.
    fs::File::options().write(true).open(spot.file()).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(read_snapshot(&spot.location), Err(SnapshotError::TooLarge)));
}

// V3
#[test]
fn a_mode_with_bits_for_group_or_others_is_refused_and_any_other_is_not() {
    let spot = Spot::published();
    for mode in [0o644, 0o660, 0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o777] {
        chmod(&spot.file(), mode);
        assert_eq!(refusal(&spot.location), (spot.file(), Insecurity::TooOpen), "{mode:o}");
    }
    for mode in [0o600, 0o400, 0o700] {
        chmod(&spot.file(), mode);
        assert_eq!(read(&spot), 1, "{mode:o}");
    }
}

#[test]
fn a_file_or_directory_of_somebody_else_is_refused() {
    let spot = Spot::published();
    for path in [spot.file(), spot.run_dir().to_owned(), spot.run_dir().parent().unwrap().to_owned()] {
        if !give_away(&path) {
            return;
        }
        assert_eq!(refusal(&spot.location), (path.clone(), Insecurity::ForeignOwner));
        std::os::unix::fs::chown(&path, Some(rustix::process::geteuid().as_raw()), None).unwrap();
        assert_eq!(read(&spot), 1);
    }
}

// V5
#[test]
fn a_directory_that_others_may_write_to_is_refused_unless_sticky() {
    for up in [0, 1] {
        let spot = Spot::published();
        let dir = spot.run_dir().ancestors().nth(up).unwrap().to_owned();
        for mode in [0o770, 0o720, 0o707, 0o702, 0o777] {
            chmod(&dir, mode);
            assert_eq!(refusal(&spot.location), (dir.clone(), Insecurity::TooOpen), "{mode:o}");
        }
        for mode in [0o700, 0o755, 0o1777] {
            chmod(&dir, mode);
            assert_eq!(read(&spot), 1, "{mode:o}");
        }
    }
}

// V5, B144
#[test]
fn a_link_in_place_of_the_file_is_refused_whatever_it_points_to() {
    let spot = Spot::new();
    let target = spot.path("target.json");
    put(&target, &document(1).render());
    symlink(&target, spot.file()).unwrap();
    assert_eq!(refusal(&spot.location), (spot.file(), Insecurity::Symlink));
    // B144: somebody else's link to our own good file.
    if give_away(&spot.file()) {
        assert_eq!(refusal(&spot.location), (spot.file(), Insecurity::Symlink));
    }
    // D5: to nowhere is insecure, not missing.
    fs::remove_file(&target).unwrap();
    assert_eq!(refusal(&spot.location), (spot.file(), Insecurity::Symlink));
}

// V5
#[test]
fn a_link_in_place_of_any_directory_is_refused() {
    for up in [0, 1] {
        let spot = Spot::published();
        let dir = spot.run_dir().ancestors().nth(up).unwrap().to_owned();
        let elsewhere = spot.temp.path().join("elsewhere");
        fs::rename(&dir, &elsewhere).unwrap();
        symlink(&elsewhere, &dir).unwrap();
        assert_eq!(refusal(&spot.location), (dir.clone(), Insecurity::Symlink));
        fs::remove_dir_all(&elsewhere).unwrap();
        assert_eq!(refusal(&spot.location), (dir, Insecurity::Symlink));
    }
}

// B144
#[test]
fn a_file_with_a_second_name_is_refused() {
    let spot = Spot::published();
    fs::hard_link(spot.file(), spot.path("second")).unwrap();
    assert_eq!(refusal(&spot.location), (spot.file(), Insecurity::HardLinked));
    fs::remove_file(spot.path("second")).unwrap();
    assert_eq!(read(&spot), 1);
}

// D5, B144, B145
#[test]
fn a_directory_fifo_socket_or_device_in_place_of_the_file_is_insecure_and_does_not_block() {
    for thing in ODD_THINGS {
        let spot = Spot::new();
        if put_odd_thing(thing, &spot.file()) {
            let why = if thing == "link" { Insecurity::Symlink } else { Insecurity::NotAFile };
            assert_eq!(refusal(&spot.location), (spot.file(), why), "{thing}");
            assert_eq!(read_snapshot(&spot.location).unwrap_err().code(), "discovery_insecure");
        }
    }
}

#[test]
fn anything_but_a_directory_on_the_way_is_insecure() {
    for thing in ODD_THINGS {
        let spot = Spot::bare();
        fs::create_dir(spot.run_dir().parent().unwrap()).unwrap();
        if thing != "directory" && put_odd_thing(thing, spot.run_dir()) {
            let why = if thing == "link" { Insecurity::Symlink } else { Insecurity::NotADirectory };
            assert_eq!(refusal(&spot.location), (spot.run_dir().to_owned(), why), "{thing}");
        }
    }
}

#[test]
fn no_file_or_no_directory_is_missing() {
    for spot in [Spot::bare(), Spot::new()] {
        let error = read_snapshot(&spot.location).unwrap_err();
        assert!(matches!(&error, SnapshotError::Missing { path } if *path == spot.file()));
        assert_eq!(error.code(), "discovery_missing");
    }
}

// V4, V51, D2: the table of refusals is core's; here, that they arrive, and that nothing else does.
#[test]
fn refused_content_is_invalid_and_no_error_shows_it() {
    let spot = Spot::new();
    let good = String::from_utf8(document(42).render()).unwrap();
    for (from, to) in [
        ("127.0.0.1", "localhost"),
        ("127.0.0.1", "0.0.0.0"),
        ("127.0.0.1", "::1"),
        ("\"port\":42", "\"port\":0"),
        ("\"wire_version\":2,", ""),
        ("\"wire_version\":2", "\"wire_version\":null"),
        ("\"wire_version\":2", "\"wire_version\":\"2\""),
        ("\"wire_version\":2", "\"wire_version\":2.5"),
        ("\"wire_version\":2", "\"wire_version\":3"),
        ("{\"schema\"", "\u{feff}{\"schema\""),
        ("\"pid\":42", "\"pid\":42,\"pid\":42"),
        ("\"v\"}", "\"v\"}}"),
        ("42,42,", "42,"),
        (good.as_str(), ""),
    ] {
        assert!(good.contains(from));
        spot.put(good.replacen(from, to, 1).as_bytes());
        let error = read_snapshot(&spot.location).unwrap_err();
        assert!(matches!(error, SnapshotError::Invalid(_)), "{to}: {error:?}");
        assert_eq!(error.code(), "discovery_invalid");
        // Z1
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("42"), "{shown}");
    }
}

// AE7, D7: nothing of the last read is used in the next.
#[test]
fn every_read_is_a_new_one() {
    let spot = Spot::published();
    assert_eq!(read(&spot), 1);
    spot.put(&document(2).render());
    assert_eq!(read(&spot), 2);
    fs::remove_file(spot.file()).unwrap();
    assert_eq!(read_snapshot(&spot.location).unwrap_err().code(), "discovery_missing");
}

/// Reads until `write` has ended, and gives every error to `judge`.
fn read_while(spot: &Spot, write: impl FnOnce() + Send, judge: impl Fn(&SnapshotError) -> bool) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write();
            done.store(true, Ordering::Release);
        });
        let mut whole = 0;
        while !done.load(Ordering::Acquire) || whole == 0 {
            match read_snapshot(&spot.location) {
                Ok(document) => {
                    which(&document);
                    whole += 1;
                }
                Err(error) => assert!(judge(&error), "{error:?}"),
            }
        }
    });
}

// B157
#[test]
fn a_file_renamed_into_place_ten_thousand_times_is_read_whole_or_replaced() {
    let spot = Spot::published();
    let next = spot.path("next");
    let write = || {
        for n in 0..10_000_u32 {
            put(&next, &document(u8::try_from(n % 200 + 1).unwrap()).render());
            fs::rename(&next, spot.file()).unwrap();
        }
    };
    read_while(&spot, write, |error| matches!(error, SnapshotError::Replaced));
}

// B157: a writer that breaks P3. Its half-written files are refused, and never half believed.
#[test]
fn a_file_truncated_and_written_in_place_is_never_read_as_a_mixture() {
    let spot = Spot::published();
    let file = spot.file();
    let write = || {
        for n in 0..2_000_u32 {
            fs::write(&file, document(u8::try_from(n % 200 + 1).unwrap()).render()).unwrap();
        }
    };
    read_while(&spot, write, |error| {
        matches!(error, SnapshotError::Replaced | SnapshotError::Invalid(_) | SnapshotError::TooLarge)
    });
}

// B160
#[test]
fn a_path_that_cannot_be_opened_is_an_error_with_the_path_and_no_other_file_is_tried() {
    let spot = Spot::published();
    let long = spot.run_dir().join("x".repeat(300)).join("c.json");
    let error = read_snapshot(&file_location(&long)).unwrap_err();
    assert!(matches!(error, SnapshotError::Disk(_)), "{error:?}");
    assert!(error.to_string().contains(&"x".repeat(300)));
    let environment = Environment {
        xdg_data_home: Some("relative".into()),
        home: Some(spot.temp.path().into()),
        ..Environment::default()
    };
    assert!(Location::resolve(&environment, &Place::Default).is_err());
}

#[test]
fn dots_on_the_way_are_what_they_say() {
    let spot = Spot::published();
    let odd = spot.run_dir().join("..").join(".").join("run").join("c.json");
    assert_eq!(which(&read_snapshot(&file_location(&odd)).unwrap()), 1);
}

#[test]
fn a_thousand_clients_read_side_by_side() {
    let spot = Spot::published();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..125 {
                    assert_eq!(read(&spot), 1);
                }
            });
        }
    });
    assert!(Path::new(&spot.file()).exists());
}
