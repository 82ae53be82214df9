//! Real processes: spawning, looking, signalling, reaping. The only place that signals or reaps anything (PA15).
//!
//! Invariants: no group is signalled whose number may be another's: while our leader is not reaped the kernel keeps it for us (LX15), and
//! afterwards only a look can allow it; no single process is signalled by its number at all, only by descriptor (§4.4); the leader is reaped
//! once, last.

use super::port::{Looking, Port, Spawned};
use super::table::{Entry, entry, rows};
use crate::sync::lock;
use hostwire_core::child::{Exit, Leader, Look, Owner, Signal, Survivor};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, WaitOptions, child_subreaper, getpid, kill_process_group,
    pidfd_open, pidfd_send_signal, set_child_subreaper, waitid, waitpid,
};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The variable that marks a child and all that it starts, so that escapees can be told from strangers.
pub(super) const MARK: &str = "HOSTWIRE_CHILD";

static NEXT: AtomicU64 = AtomicU64::new(1);
/// Leaders of ours that are not reaped.
static LEADERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
/// Killed, and left to be reaped by whoever comes next.
static ORPHANS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Makes orphaned descendants come to this process instead of to init (LX21), so that escapees can be killed and reaped.
///
/// It is a setting of the whole process, for programs whose main purpose is to run children: from then on whatever ended as a child of this
/// process, was started after a child of this module and is not one itself is reaped when that child is torn down. A program that
/// starts children by other means must not use it.
///
/// # Errors
/// As the system reports.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

pub(super) fn is_subreaper() -> bool {
    child_subreaper().is_ok_and(|set| set.is_some())
}

/// Reaps what earlier ends have left behind. Returns how many are still there.
pub fn reap_orphans() -> usize {
    let mut orphans = lock(&ORPHANS);
    orphans.retain_mut(|child| {
        let stays = matches!(child.try_wait(), Ok(None));
        if !stays {
            lock(&LEADERS).remove(&child.id());
        }
        stays
    });
    orphans.len()
}

/// Starts a process in a group of its own, with pipes of ours; its input is empty unless `stdin`.
///
/// # Errors
/// As the system reports; no process is left.
pub fn spawn(mut command: Command, stdin: bool) -> io::Result<Spawned> {
    reap_orphans();
    let own = entry(std::process::id()).ok_or(io::ErrorKind::NotFound)?;
    // Nested ones say whose they are all the way up.
    let outer = std::env::var(MARK).map(|outer| format!("{outer}/")).unwrap_or_default();
    let mark = format!("{outer}{}.{}.{}", own.pid, own.start, NEXT.fetch_add(1, Ordering::Relaxed));
    command
        .env(MARK, &mark)
        .stdin(if stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // PD27: one call, no half-made child. From here on, an early return kills it.
    let mut leaders = lock(&LEADERS);
    let mut unfinished = Unfinished(Some(command.spawn()?));
    let child = unfinished.0.as_mut().ok_or(io::ErrorKind::NotFound)?;
    let id = child.id();
    leaders.insert(id);
    drop(leaders);
    let pid = pid_of(id)?;
    // §4.4: right after the spawn, before anything can reap it.
    let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
    let exit = pidfd.try_clone()?;
    let pipe = |fd: Option<OwnedFd>| -> io::Result<OwnedFd> {
        let fd = fd.ok_or(io::ErrorKind::BrokenPipe)?;
        rustix::io::ioctl_fionbio(&fd, true)?; // LX10
        Ok(fd)
    };
    let stdin = if stdin { Some(pipe(child.stdin.take().map(Into::into))?) } else { None };
    let stdout = pipe(child.stdout.take().map(Into::into))?;
    let stderr = pipe(child.stderr.take().map(Into::into))?;
    let (start, session) = entry(id).map_or((own.start, own.session), |entry| (entry.start, entry.session));
    let child = unfinished.0.take().ok_or(io::ErrorKind::NotFound)?;
    let who = Who { id, start, session, mark, sweep: is_subreaper() };
    let port = Linux { child: Some(child), pid, id, pidfd, who: Arc::new(who) };
    Ok(Spawned { pid: id, stdin, stdout, stderr, exit, port: Box::new(port) })
}

/// A child that is not handed over yet.
struct Unfinished(Option<Child>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It is ours and not reaped, so the number is too.
            let _ = child.kill();
            let _ = child.wait();
            lock(&LEADERS).remove(&child.id());
        }
    }
}

fn pid_of(id: u32) -> io::Result<Pid> {
    // Never 0, never 1: those numbers mean everybody.
    let raw = i32::try_from(id).ok().filter(|raw| *raw > 1);
    raw.and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

const fn signal_of(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Cont => rustix::process::Signal::CONT,
        Signal::Kill => rustix::process::Signal::KILL,
    }
}

/// One that has gone needs no signal.
fn unless_gone(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What tells a child's processes from others'. Holds nothing of it.
struct Who {
    id: u32,
    start: u64,
    session: u32,
    mark: String,
    sweep: bool,
}

impl Who {
    fn survivor(entry: &Entry) -> Survivor {
        Survivor { pid: entry.pid, group: entry.group, state: entry.state, start: entry.start }
    }

    /// An orphan that came to us and has ended: by its number, which is its own until this very call.
    fn reap_stray(&self, entry: &Entry) -> bool {
        self.sweep
            && entry.parent == std::process::id()
            && !lock(&LEADERS).contains(&entry.pid)
            && pid_of(entry.pid).is_ok_and(|pid| waitpid(Some(pid), WaitOptions::NOHANG).is_ok())
    }

    /// `leader`: what it was before the table was read. `escapees`: whether they are looked for, which a stuck process may block.
    fn look(&self, leader: Leader, escapees: bool) -> io::Result<Look> {
        let mut look = Look {
            leader,
            number_reused: false,
            members: Vec::new(),
            zombies: 0,
            same_session: true,
            escaped: Vec::new(),
        };
        for row in rows()?.iter() {
            let entry = &row.entry;
            if entry.pid == self.id {
                look.number_reused = entry.start != self.start;
            } else if entry.group == self.id {
                look.same_session &= entry.session == self.session && entry.start >= self.start;
                if !entry.is_dead() {
                    look.members.push(Self::survivor(entry));
                } else if !self.reap_stray(entry) {
                    look.zombies += 1;
                }
            } else if escapees && entry.start >= self.start {
                if entry.is_dead() {
                    self.reap_stray(entry);
                } else if row.is_marked(MARK, &self.mark) {
                    look.escaped.push(Self::survivor(entry));
                }
            }
        }
        Ok(look)
    }
}

struct Linux {
    child: Option<Child>,
    pid: Pid,
    id: u32,
    pidfd: OwnedFd,
    who: Arc<Who>,
}

impl Linux {
    fn leader(&self) -> Leader {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
            Err(Errno::CHILD) => Leader::Reaped,
            Ok(_) | Err(_) => Leader::Unreaped,
        }
    }

    /// PD21, PD22: whether the number is the child's now. It is its own while it is not reaped; otherwise only a look can say.
    fn owns_group(&self) -> bool {
        match self.leader() {
            Leader::Unreaped => true,
            Leader::Reaped => {
                self.who.look(Leader::Reaped, false).is_ok_and(|look| look.owner() == Owner::Ours)
            }
        }
    }
}

impl Port for Linux {
    fn look(&mut self) -> Looking {
        let (who, leader) = (Arc::clone(&self.who), self.leader());
        Box::new(move || who.look(leader, true))
    }

    fn signal_group(&mut self, signal: Signal) -> io::Result<()> {
        if !self.owns_group() {
            return Ok(());
        }
        // LX14: a group of zombies takes signals and does nothing.
        unless_gone(kill_process_group(self.pid, signal_of(signal)))
    }

    fn signal_leader(&mut self, signal: Signal) -> io::Result<()> {
        unless_gone(pidfd_send_signal(&self.pidfd, signal_of(signal)))
    }

    fn kill_escaped(&mut self, escaped: &[Survivor]) -> io::Result<()> {
        for survivor in escaped {
            // §4.4: open, then check again who it is, then signal.
            let Ok(pidfd) = pidfd_open(pid_of(survivor.pid)?, PidfdFlags::empty()) else { continue };
            if entry(survivor.pid).is_some_and(|entry| entry.start == survivor.start) {
                unless_gone(pidfd_send_signal(&pidfd, rustix::process::Signal::KILL))?;
            }
        }
        Ok(())
    }

    fn reap(&mut self) -> io::Result<Option<Exit>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let exit = match child.try_wait() {
            Ok(Some(status)) => Some(match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, Some(signal)) => Exit::Signal(signal),
                (None, None) => Exit::Unknown,
            }),
            Ok(None) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => None,
            Err(error) => return Err(error),
        };
        lock(&LEADERS).remove(&self.id);
        self.child = None;
        Ok(exit)
    }

    fn abandon(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if self.owns_group() {
            let _ = kill_process_group(self.pid, rustix::process::Signal::KILL);
        }
        let _ = pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        if matches!(child.try_wait(), Ok(None)) {
            lock(&ORPHANS).push(child);
        } else {
            lock(&LEADERS).remove(&self.id);
        }
    }
}

/// Whatever became of it, no process is forgotten.
impl Drop for Linux {
    fn drop(&mut self) {
        self.abandon();
    }
}
