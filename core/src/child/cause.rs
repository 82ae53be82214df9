//! Where a session stands and why it ends, as words. Decides nothing but which ends still flush.

use super::budget::Phase;

/// How far the making of a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The process is being made.
    Spawn,
    /// The first frame is being written.
    Hello,
    /// Its answer is awaited.
    Reply,
    /// The peer is being verified.
    Verify,
    /// It says what it has, or that it is ready.
    Index,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It is being made.
    Setup(Stage),
    /// It can be used.
    Online,
    /// It is being torn down.
    Closing(Phase),
    /// It has ended; its [`super::Ended`] says how.
    Closed,
}

/// Why a session ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Its owner closed it.
    #[default]
    Closed,
    /// Whoever owns all sessions shuts down.
    Shutdown,
    /// It was cancelled.
    Cancelled,
    /// The child exited by itself.
    ChildExited,
    /// The child closed its output.
    Eof,
    /// Reading its output failed.
    ReadFailed,
    /// Writing its input failed.
    WriteFailed,
    /// It took no input for too long (PB4).
    StalledSink,
    /// It was not ready in time.
    Timeout,
    /// It answered the hello with an error.
    PeerError,
    /// It answered with something that is no answer.
    Malformed,
    /// It speaks another version.
    WrongVersion,
    /// It did not prove who it is.
    BadProof,
    /// Its result is there, nothing more is owed, and it has been silent (PD14).
    Idle,
    /// It could not be made.
    SpawnFailed,
    /// Its owner was dropped.
    Dropped,
}

impl Cause {
    /// Every one of them.
    pub const ALL: [Self; 16] = [
        Self::Closed,
        Self::Shutdown,
        Self::Cancelled,
        Self::ChildExited,
        Self::Eof,
        Self::ReadFailed,
        Self::WriteFailed,
        Self::StalledSink,
        Self::Timeout,
        Self::PeerError,
        Self::Malformed,
        Self::WrongVersion,
        Self::BadProof,
        Self::Idle,
        Self::SpawnFailed,
        Self::Dropped,
    ];

    /// The stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Shutdown => "shutdown",
            Self::Cancelled => "cancelled",
            Self::ChildExited => "child_exited",
            Self::Eof => "eof",
            Self::ReadFailed => "read_failed",
            Self::WriteFailed => "write_failed",
            Self::StalledSink => "stalled_sink",
            Self::Timeout => "timeout",
            Self::PeerError => "peer_error",
            Self::Malformed => "malformed",
            Self::WrongVersion => "wrong_version",
            Self::BadProof => "bad_proof",
            Self::Idle => "idle",
            Self::SpawnFailed => "spawn_failed",
            Self::Dropped => "dropped",
        }
    }

    /// Whether what is queued may still leave: only where the peer is in order and somebody wants it.
    pub(super) const fn flushes(self) -> bool {
        matches!(self, Self::Closed | Self::Shutdown)
    }
}
