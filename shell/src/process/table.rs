//! Reading the process table: `/proc/PID/stat`, and whose environment carries a mark.
//!
//! Nothing here follows a link or opens what a stuck process could block (LX33), but for `environ` of the few that came after the child and
//! are not of its group: that is read once for all children that share a pass, and outside every lock but the row's own.

use super::pass::Pass;
use std::fs::{File, read_dir};
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

/// A pass over two thousand processes takes tens of milliseconds: many children that end at once share it (PA10).
static TABLE: Pass<Vec<Row>> = Pass::new();

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

/// A process in a pass, and the mark that it carries, once somebody has asked.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) entry: Entry,
    mark: OnceLock<Option<Vec<u8>>>,
}

impl Row {
    /// Whether it was started with `name` set to `value`, or to something that `value` begins, up to a `/`. Asked for one `name` only.
    pub(super) fn is_marked(&self, name: &str, value: &str) -> bool {
        let mark = self.mark.get_or_init(|| variable(self.entry.pid, name));
        let rest = mark.as_ref().and_then(|mark| mark.strip_prefix(value.as_bytes()));
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
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

/// Every process that can be seen, as a pass has found it that began after this call.
pub(super) fn rows() -> io::Result<Arc<Vec<Row>>> {
    TABLE.fresh(entries)
}

fn entries() -> io::Result<Vec<Row>> {
    let mut all = Vec::new();
    for directory in read_dir("/proc")? {
        // One that goes while we look is not there.
        let Ok(directory) = directory else { continue };
        let name = directory.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
            all.extend(entry(pid).map(|entry| Row { entry, mark: OnceLock::new() }));
        }
    }
    Ok(all)
}

/// What `pid` was started with as `name`.
fn variable(pid: u32, name: &str) -> Option<Vec<u8>> {
    let mut environment = Vec::new();
    File::open(format!("/proc/{pid}/environ")).ok()?.take(1 << 20).read_to_end(&mut environment).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| Some(variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec()))
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
        let rows = rows().unwrap();
        let found = rows.iter().find(|row| row.entry.pid == own).unwrap();
        assert_eq!(Some(found.entry.start), entry(own).map(|entry| entry.start));
        assert!(!found.entry.is_dead());
        assert_eq!(entry(0), None);
    }

    #[test]
    fn a_mark_is_the_whole_value_or_its_beginning_up_to_a_slash() {
        let mark = |value: &str| {
            let mut child =
                std::process::Command::new("sleep").arg("60").env("MARKED", value).spawn().unwrap();
            let found = (0..1_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                let Some(entry) = entry(child.id()) else { return false };
                Row { entry, mark: OnceLock::new() }.is_marked("MARKED", "1.2.3")
            });
            child.kill().unwrap();
            child.wait().unwrap();
            found
        };
        assert!(mark("1.2.3") && mark("1.2.3/9.9.9"));
        assert!(!mark("1.2.34"));
    }
}
