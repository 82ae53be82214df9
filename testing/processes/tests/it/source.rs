//! What only the source can show.

use std::path::{Path, PathBuf};

fn folder(relative: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap().to_owned();
            files.push((path, code));
        }
    }
    assert!(!files.is_empty());
    files
}

/// Every source of a folder and of those in it, tests and all.
fn whole(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(whole(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(std::fs::read_to_string(&path).unwrap());
        }
    }
    files
}

/// PA15: kills and reaps stand in one module, and no destructor spawns or waits.
#[test]
fn pa15_kills_and_reaps_are_in_one_module_and_destructors_start_nothing() {
    // What it opens is counted elsewhere.
    let _alone = crate::audit::alone();
    for (path, code) in folder("shell/src/process").into_iter().chain(folder("shell/src/runner")) {
        let is_linux = path.ends_with("linux.rs");
        for call in
            ["kill_process_group(", "pidfd_send_signal(", "kill_process(", ".kill()", "waitpid(", "try_wait("]
        {
            assert!(is_linux || !code.contains(call), "{call} in {}", path.display());
        }
        for destructor in code.split("fn drop(&mut self)").skip(1) {
            let body: String = destructor
                .chars()
                .scan(0_i32, |depth, c| {
                    *depth += match c {
                        '{' => 1,
                        '}' => -1,
                        _ => 0,
                    };
                    (*depth > 0 || c != '}').then_some(c)
                })
                .collect();
            for forbidden in [".spawn(", ".await", "block_on", "sleep"] {
                assert!(
                    !body.contains(forbidden),
                    "{forbidden} in a destructor of {}: {body}",
                    path.display()
                );
            }
        }
    }
}

/// The whole of it is safe code: the compiler refuses anything else, in the crates that it lives in as in all others.
#[test]
fn the_compiler_sees_to_it_that_all_of_it_is_safe() {
    // What it opens is counted elsewhere.
    let _alone = crate::audit::alone();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lines = |path: &str| -> Vec<String> {
        std::fs::read_to_string(root.join(path)).unwrap().lines().map(str::to_owned).collect()
    };
    assert!(lines("Cargo.toml").contains(&r#"unsafe_code = "forbid""#.to_owned()));
    for path in ["core/Cargo.toml", "shell/Cargo.toml"] {
        let lines = lines(path);
        assert!(lines.windows(2).any(|two| two == ["[lints]", "workspace = true"]), "{path}");
    }
}

/// PA16: every line that a scripted mutant breaks is there, once, so that the script breaks what it names.
#[test]
fn pa16_the_scripted_mutants_break_lines_that_are_there() {
    // What it opens is counted elsewhere.
    let _alone = crate::audit::alone();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = std::fs::read_to_string(root.join("testing/processes/mutants.txt")).unwrap();
    let places = ["core/src/child", "shell/src/process", "testing/processes/tests/it"];
    let tests: String = places.iter().flat_map(|place| whole(&root.join(place))).collect();
    let mut count = 0;
    for block in script.split("\n\n") {
        let lines: Vec<&str> =
            block.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let Some((head, changes)) = lines.split_first() else { continue };
        let [rule, file, test] = head.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{head}") };
        let old: Vec<&str> = changes.iter().filter_map(|line| line.strip_prefix('-')).collect();
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(source.matches(&old.join("\n")).count(), 1, "{rule}");
        assert!(tests.contains(&format!("fn {test}")), "{rule}: {test}");
        count += 1;
    }
    assert!(count > 30, "{count}");
}
