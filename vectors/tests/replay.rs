//! Replays every vector that comes with the crate against the core, and prints how many passed. A program of its own, so that
//! the count is always printed and every divergence is shown.

use std::path::Path;
use std::process::ExitCode;

use hostwire_vectors::{files, load_all, replay_core};

fn main() -> ExitCode {
    // What `cargo test NAME` passes on: a part of a file's name or of a case's.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let vectors = match load_all(&files()) {
        Ok(vectors) => vectors,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failed) = (0, 0);
    for vector in &vectors {
        let path = vector.path.strip_prefix(files()).unwrap_or(Path::new("")).display().to_string();
        for case in &vector.cases {
            let name = format!("{path}: {}", case.name);
            if !wanted.iter().all(|word| name.contains(word)) {
                continue;
            }
            match replay_core(vector, case) {
                Ok(()) => passed += 1,
                Err(divergence) => {
                    failed += 1;
                    println!("FAILED {name}\n{divergence}\n");
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
