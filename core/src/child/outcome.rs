//! How a child ended, as a value that nothing still running can change.
//!
//! Owns the verdict and the report. Invariants: [`Verdict::Completed`] exists only with a [`Proof`], and a proof only where every stream
//! reached its end, every reader is gone, the leader is reaped and the group is empty; an [`Ended`] is made in one place
//! (`Session::freeze`), owns all that it holds, and shares nothing with a reader that may still run (PD11).

use super::budget::Phase;
use super::cause::Cause;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// One of a child's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
}

impl Stream {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// `stdout` or `stderr`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What the system said of the leader's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It was reaped by somebody else, or never (PD16: unknown is a class of its own, never a guess).
    #[default]
    Unknown,
}

/// Who ended the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EndedBy {
    /// Itself, or somebody who is not us.
    #[default]
    Itself,
    /// Our TERM.
    OurTerm,
    /// Our KILL.
    OurKill,
    /// It has not ended as far as we know.
    Nobody,
}

/// PD16: what kind of end it was. None of them says anything about who the child was: there is no class for authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitClass {
    /// It returned a code.
    Code(i32),
    /// A signal of ours.
    KilledByUs(i32),
    /// A signal of somebody else.
    KilledByOthers(i32),
    /// It closed its input before it took what it was sent, and its exit is not known.
    ClosedInput,
    /// There never was a process.
    SpawnFailed,
    /// Nothing is known.
    Unknown,
}

/// A process that outlived the teardown, or stood in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Survivor {
    /// Its number.
    pub pid: u32,
    /// Its group's.
    pub group: u32,
    /// Its state as the system shows it: `R`, `S`, `D`, `T`, `Z`.
    pub state: char,
    /// When it started, in clock ticks since boot: with the number, its identity.
    pub start: u64,
}

/// What is left of the child's process group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Group {
    /// Nobody.
    Empty,
    /// Only what has ended and awaits its reaper: it holds nothing (LX14).
    OnlyZombies,
    /// Somebody lives.
    Alive,
    /// Not known: it could not be looked at, or the number belongs to others now.
    #[default]
    Unknown,
}

/// What was seen of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamReport {
    /// Bytes that arrived.
    pub bytes: u64,
    /// Line feeds among them.
    pub lines: u64,
    /// Bytes that arrived and were not kept: of a tail the first ones, of an output that nobody took the last ones.
    pub truncated: u64,
    /// Its end was reached: nobody holds the other end any more.
    pub eof: bool,
}

/// Everything that is known of a child's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Why the teardown began: the first reason, whatever else went wrong later (PA9).
    pub cause: Cause,
    /// What went wrong while it went on: the first of it (PD13). It never replaces the cause.
    pub failure: Option<Failure>,
    /// The leader's number, if there was one.
    pub pid: Option<u32>,
    /// The leader's end.
    pub exit: Exit,
    /// Who ended it.
    pub ended_by: EndedBy,
    /// Whether a result had been seen before we killed: then the kill is housekeeping, not failure (PD16).
    pub killed_in_teardown: bool,
    /// Descriptor 1.
    pub stdout: StreamReport,
    /// Descriptor 2.
    pub stderr: StreamReport,
    /// Who is left, group members and provable escapees alike (PD4).
    pub survivors: Vec<Survivor>,
    /// What is left of the group.
    pub group: Group,
    /// Escapees that were killed (§4.7, 7); one that had to be killed twice counts twice.
    pub swept: usize,
    /// Phases that were entered, in order, with the time spent in each.
    pub phases: Vec<(Phase, Duration)>,
    /// From the beginning of the teardown to its end.
    pub elapsed: Duration,
    /// The leader is reaped.
    pub reaped: bool,
    /// Bytes of its input that the child took.
    pub input_bytes: u64,
    /// The child closed its input before its end.
    pub input_closed_early: bool,
}

impl Report {
    /// PD16.
    #[must_use]
    pub fn class(&self) -> ExitClass {
        match (self.exit, self.ended_by) {
            (Exit::Code(code), _) => ExitClass::Code(code),
            (Exit::Signal(signal), EndedBy::OurTerm | EndedBy::OurKill) => ExitClass::KilledByUs(signal),
            (Exit::Signal(signal), EndedBy::Itself | EndedBy::Nobody) => ExitClass::KilledByOthers(signal),
            (Exit::Unknown, _) if self.pid.is_none() => ExitClass::SpawnFailed,
            (Exit::Unknown, _) if self.input_closed_early => ExitClass::ClosedInput,
            (Exit::Unknown, _) => ExitClass::Unknown,
        }
    }

    /// The report of one stream.
    #[must_use]
    pub const fn stream(&self, stream: Stream) -> &StreamReport {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }

    pub(super) const fn stream_mut(&mut self, stream: Stream) -> &mut StreamReport {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// PD29: whether the teardown had to do more than to watch: only then it is worth a record.
    #[must_use]
    pub fn is_slow_path(&self) -> bool {
        self.phases.iter().any(|(phase, _)| matches!(phase, Phase::Term | Phase::Kill))
            || self.failure.is_some()
            || self.swept > 0
            || !self.survivors.is_empty()
            || !(self.stdout.eof && self.stderr.eof && self.reaped)
    }
}

/// What went wrong while a child was read or torn down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// Reading a stream failed.
    Read(Stream),
    /// The processes could not be looked at.
    Look,
    /// A signal could not be sent.
    Signal,
    /// The leader could not be reaped.
    Reap,
    /// A step panicked.
    Panicked,
}

impl Failure {
    /// The stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read(Stream::Stdout) => "read_stdout",
            Self::Read(Stream::Stderr) => "read_stderr",
            Self::Look => "look",
            Self::Signal => "signal",
            Self::Reap => "reap",
            Self::Panicked => "panicked",
        }
    }
}

/// That a teardown is whole. Only the core makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

impl Proof {
    /// PD1, PD9: every stream at its end and every reader gone, the leader reaped, the group empty, nobody escaped; or no proof.
    pub(super) fn of(report: &Report, readers_gone: bool) -> Option<Self> {
        let ended = report.stdout.eof && report.stderr.eof;
        let empty = matches!(report.group, Group::Empty | Group::OnlyZombies) && report.survivors.is_empty();
        (ended && readers_gone && report.reaped && empty).then_some(Self(()))
    }
}

/// What became of a child. Exhaustive: whoever asks has to look at all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It and everything of it is gone, and all that it said was read.
    Completed(Proof),
    /// The budget was spent before it was gone.
    BudgetExceeded,
    /// The teardown went through, and something is left: a process, or a reader without an end.
    Leaked,
    /// The teardown itself failed.
    Errored(Failure),
    /// Whoever owned it was dropped: killed at once, nothing awaited.
    Abandoned,
}

impl Verdict {
    /// The stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Leaked => "leaked",
            Self::Errored(_) => "errored",
            Self::Abandoned => "abandoned",
        }
    }

    /// Whether the whole of it is gone.
    #[must_use]
    pub const fn is_completed(self) -> bool {
        matches!(self, Self::Completed(_))
    }
}

/// A child's end: verdict, report, and what of its output nobody had taken. A value of its own: nothing that still runs can change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub(super) verdict: Verdict,
    pub(super) report: Report,
    pub(super) output: Vec<(Stream, Vec<u8>)>,
    pub(super) stdout_tail: Vec<u8>,
    pub(super) stderr_tail: Vec<u8>,
    pub(super) result: Option<Vec<u8>>,
    pub(super) generation: u64,
}

impl Ended {
    /// What became of it.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Everything else that is known.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// Output of delivered streams that nobody had taken, in the order in which it arrived.
    #[must_use]
    pub fn output(&self) -> &[(Stream, Vec<u8>)] {
        &self.output
    }

    /// What is left of one stream: its tail if it was kept as one, and what of it nobody had taken.
    #[must_use]
    pub fn rest(&self, stream: Stream) -> Vec<u8> {
        let tail = match stream {
            Stream::Stdout => &self.stdout_tail,
            Stream::Stderr => &self.stderr_tail,
        };
        let mut rest = tail.clone();
        for (_, bytes) in self.output.iter().filter(|(of, _)| *of == stream) {
            rest.extend_from_slice(bytes);
        }
        rest
    }

    /// [`Ended::rest`] as text, ill-formed bytes replaced.
    #[must_use]
    pub fn rest_text(&self, stream: Stream) -> String {
        String::from_utf8_lossy(&self.rest(stream)).into_owned()
    }

    /// The last result that was noted, if one was (PD15).
    #[must_use]
    pub fn result(&self) -> Option<&[u8]> {
        self.result.as_deref()
    }

    /// Which generation it was.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Report {
        Report {
            stdout: StreamReport { eof: true, ..StreamReport::default() },
            stderr: StreamReport { eof: true, ..StreamReport::default() },
            group: Group::Empty,
            reaped: true,
            pid: Some(7),
            exit: Exit::Code(0),
            ..Report::default()
        }
    }

    #[test]
    fn pd9_each_missing_piece_is_no_proof() {
        assert!(Proof::of(&whole(), true).is_some());
        assert!(Proof::of(&Report { group: Group::OnlyZombies, ..whole() }, true).is_some());
        assert!(Proof::of(&whole(), false).is_none(), "a reader lives");
        let survivor = Survivor { pid: 1, group: 1, state: 'S', start: 0 };
        let open = StreamReport::default();
        for broken in [
            Report { stdout: open, ..whole() },
            Report { stderr: open, ..whole() },
            Report { reaped: false, ..whole() },
            Report { group: Group::Alive, ..whole() },
            Report { group: Group::Unknown, ..whole() },
            Report { survivors: std::vec![survivor], ..whole() },
        ] {
            assert!(Proof::of(&broken, true).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn pd16_every_end_has_its_class_and_none_is_authentication() {
        let class = |exit, ended_by| Report { exit, ended_by, ..whole() }.class();
        assert_eq!(class(Exit::Code(3), EndedBy::Itself), ExitClass::Code(3));
        assert_eq!(class(Exit::Code(3), EndedBy::OurTerm), ExitClass::Code(3));
        assert_eq!(class(Exit::Signal(15), EndedBy::OurTerm), ExitClass::KilledByUs(15));
        assert_eq!(class(Exit::Signal(9), EndedBy::OurKill), ExitClass::KilledByUs(9));
        assert_eq!(class(Exit::Signal(9), EndedBy::Itself), ExitClass::KilledByOthers(9));
        assert_eq!(class(Exit::Unknown, EndedBy::Itself), ExitClass::Unknown);
        assert_eq!(Report { pid: None, exit: Exit::Unknown, ..whole() }.class(), ExitClass::SpawnFailed);
        let early = Report { exit: Exit::Unknown, input_closed_early: true, ..whole() };
        assert_eq!(early.class(), ExitClass::ClosedInput);
    }

    /// PD11: the frozen value owns what it holds. A type cannot say that it contains no shared state; its source can.
    #[test]
    fn pd11_the_snapshot_shares_nothing() {
        fn is_plain<T: Clone + PartialEq + Send + Sync + 'static>() {}
        is_plain::<Ended>();
        let source = include_str!("outcome.rs");
        let code = source.split("#[cfg(test)]").next().unwrap();
        for shared in ["Arc", "Rc<", "Mutex", "Cell<", "&'static mut", "Atomic", "*const", "Weak"] {
            assert!(!code.contains(shared), "{shared}");
        }
    }
}
