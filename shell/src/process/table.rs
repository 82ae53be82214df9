//! Reading the process table: `/proc/PID/stat`, and whose environment carries a mark.
//!
//! Nothing here follows a link or opens what a stuck process could block (LX33), but for `environ` of the few that came after the child and
//! are not of its group.

use std::fs::{File, read_dir};
use std::io::{self, Read};

/// One process as the table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: u32,
    pub(super) state: char,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    pub(super) start: u64,
}

impl Entry {
    /// It has ended, and awaits its reaper.
    pub(super) const fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// The fields behind the last `)`: the name before it may hold anything.
fn parse(pid: u32, stat: &str) -> Option<Entry> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(Entry { pid, state, parent, group, session, start })
}

/// One process; `None` if it is not there.
pub(super) fn entry(pid: u32) -> Option<Entry> {
    let mut stat = String::new();
    File::open(format!("/proc/{pid}/stat")).ok()?.read_to_string(&mut stat).ok()?;
    parse(pid, &stat)
}

/// Every process that can be seen.
pub(super) fn entries() -> io::Result<Vec<Entry>> {
    let mut all = Vec::new();
    for directory in read_dir("/proc")? {
        // One that goes while we look is not there.
        let Ok(directory) = directory else { continue };
        let name = directory.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
            all.extend(entry(pid));
        }
    }
    Ok(all)
}

/// Whether `pid` was started with `name` set to `value`, or to something that `value` begins, up to a `/`.
pub(super) fn is_marked(pid: u32, name: &str, value: &str) -> bool {
    let mut environment = Vec::new();
    let read = File::open(format!("/proc/{pid}/environ"))
        .and_then(|file| file.take(1 << 20).read_to_end(&mut environment));
    if read.is_err() {
        return false;
    }
    environment.split(|byte| *byte == 0).any(|variable| {
        let text = variable.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        let rest = text.and_then(|text| text.strip_prefix(value.as_bytes()));
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let line = "42 (a) b ( c) S 7 42 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2 3";
        let expected = Entry { pid: 42, state: 'S', parent: 7, group: 42, session: 5, start: 987_654 };
        assert_eq!(parse(42, line), Some(expected));
        for broken in ["", "42", "42 (x", "42 (x) ", "42 (x) S", "42 (x) S 1 2 3", "42 (x) S a 42 5 0"] {
            assert_eq!(parse(42, broken), None, "{broken}");
        }
    }

    #[test]
    fn this_process_is_in_the_table() {
        let own = std::process::id();
        let found = entries().unwrap().into_iter().find(|entry| entry.pid == own).unwrap();
        assert_eq!(Some(found.start), entry(own).map(|entry| entry.start));
        assert!(!found.is_dead());
        assert_eq!(entry(0), None);
    }

    #[test]
    fn a_mark_is_the_whole_value_or_its_beginning_up_to_a_slash() {
        let mark = |value: &str| {
            let mut child =
                std::process::Command::new("sleep").arg("60").env("MARKED", value).spawn().unwrap();
            let found = (0..1_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                is_marked(child.id(), "MARKED", "1.2.3")
            });
            child.kill().unwrap();
            child.wait().unwrap();
            found
        };
        assert!(mark("1.2.3") && mark("1.2.3/9.9.9"));
        assert!(!mark("1.2.34"));
    }
}
