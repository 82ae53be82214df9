//! Every committed seed, through the body of its target.

use std::path::Path;

#[test]
fn every_committed_seed_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds");
    for (target, body) in hostwire_fuzz_bodies::TARGETS {
        let folder = root.join(target);
        let mut seeds: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("a readable folder").path())
            .collect();
        seeds.sort();
        assert!(seeds.len() >= 4, "{target}: a handful of seeds");
        for seed in seeds {
            println!("{}", seed.display()); // shown when it fails
            body(&std::fs::read(&seed).expect("a readable seed"));
        }
    }
}

#[test]
fn every_folder_of_seeds_has_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds");
    for entry in std::fs::read_dir(root).expect("a readable folder") {
        let name = entry.expect("a readable folder").file_name();
        let known = hostwire_fuzz_bodies::TARGETS.iter().any(|(target, _)| *name == **target);
        assert!(known, "{}", name.display());
    }
}

/// The stateful targets' seeds are choices without a meaning: more of the kind cost little.
#[test]
fn a_thousand_sequences_of_choices_pass() {
    let mut rng = hostwire_sim::Rng::new(7);
    for (target, body) in hostwire_fuzz_bodies::TARGETS {
        if !["client_session", "host_session", "pair"].contains(&target) {
            continue;
        }
        for run in 0..334 {
            println!("{target} {run}"); // shown when it fails
            let choices: Vec<u8> = (0..rng.below(3_000)).map(|_| rng.next().to_le_bytes()[0]).collect();
            body(&choices);
        }
    }
}
