//! Exit codes, and the one line on stderr that goes with each failure.

use std::io;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};

/// An exit code of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    /// A terminal success; what was asked for holds.
    pub(crate) const SUCCESS: Self = Self(0);
    /// A terminal error; what was asked for does not hold.
    pub(crate) const FAILED: Self = Self(1);
    /// Proof that nothing was sent.
    pub(crate) const NOT_SENT: Self = Self(2);
    /// A host that refused to start.
    pub(crate) const REFUSED: Self = Self(2);
    /// It may have been carried out, and nobody knows.
    pub(crate) const OUTCOME_UNKNOWN: Self = Self(3);
    /// Another host holds the lock.
    pub(crate) const ALREADY_RUNNING: Self = Self(3);
    /// Bad usage: arguments, and files named by them.
    pub(crate) const USAGE: Self = Self(64);
    /// A bug of this program.
    pub(crate) const BUG: Self = Self(70);

    /// The code of a command that was run.
    pub(crate) const fn of_command(code: u8) -> Self {
        Self(code)
    }

    pub(crate) const fn code(self) -> u8 {
        self.0
    }
}

/// Why a command stops without a result of its own.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Arguments, or what they name, cannot be used.
    Usage(String),
    /// What was asked for could not be done.
    Failed(String),
    /// Nothing was sent, and this is why.
    Unsent(String),
    /// Stdout cannot be written.
    Output(io::Error),
    /// Something that cannot be.
    Bug(String),
}

impl Stop {
    pub(crate) fn usage(what: impl ToString) -> Self {
        Self::Usage(what.to_string())
    }
}

/// Says what is to be said, and gives the code.
pub(crate) fn finish(result: Result<Exit, Stop>) -> Exit {
    let (line, exit) = match result {
        Ok(exit) => return exit,
        // Whoever read the output has seen enough.
        Err(Stop::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Exit::SUCCESS,
        Err(Stop::Output(error)) => (format!("cannot write to stdout: {error}"), Exit::USAGE),
        Err(Stop::Usage(line)) => (line, Exit::USAGE),
        Err(Stop::Unsent(line)) => (line, Exit::NOT_SENT),
        Err(Stop::Failed(line)) => (line, Exit::FAILED),
        Err(Stop::Bug(line)) => (format!("internal error: {line}"), Exit::BUG),
    };
    crate::output::complain(&line);
    exit
}

static PANICKED: AtomicBool = AtomicBool::new(false);

/// Makes every panic of the process one line: where, and never what (Z1). A component's is contained by the host; any other is a bug.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        PANICKED.store(true, Ordering::Relaxed);
        let place = info.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        crate::output::complain(&format!("panic{place}"));
    }));
}

/// A panic anywhere, in a task of the runtime as well, is our bug. (A host contains those of its components.)
pub(crate) fn unless_panicked(exit: Exit) -> Exit {
    if PANICKED.load(Ordering::Relaxed) { Exit::BUG } else { exit }
}
