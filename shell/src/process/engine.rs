//! One child under a runtime: its pipes, its exit notice and one timer, polled together; what the core asks for, done.
//!
//! Owns every descriptor and the process of one child. It is polled by one task, and everything of it is gone when that task has ended or
//! [`Engine::abandon`] has returned, whichever comes first: there is no second task that could stay (PA2, PD9). No future of its own lives
//! between polls but the timer, so it can be left at any point.

use super::pool::Slot;
use super::port::{Port, Spawned};
use crate::component::contain;
use crate::drive::Alarm;
use crate::runtime::{Direction, Io, Runtime, Tried};
use hostwire_core::child::{Action, Config, Ended, Failure, Phase, Report, Resource, Session, State, Stream};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Bytes of one read: what a pipe holds (LX7).
const CHUNK: usize = 1 << 16;
/// A chunk below this is copied, so that a trickle does not hold buffers.
const COPY_BELOW: usize = 1 << 14;
/// Rounds of one poll; each reads each stream at most once and writes at most once.
const ROUNDS: usize = 16;

/// Told of each teardown that had more to do than to watch (PD29). It gets no command line.
pub type Observer = Arc<dyn Fn(&Report) + Send + Sync>;

pub(super) struct Engine<R: Runtime> {
    runtime: R,
    pub(super) core: Session,
    port: Box<dyn Port>,
    exit: Option<R::Io>,
    stdin: Option<R::Io>,
    stdout: Option<R::Io>,
    stderr: Option<R::Io>,
    spare: Vec<u8>,
    alarm: Alarm<R>,
    observer: Option<Observer>,
    slot: Option<Slot>,
    /// Chunks of the frozen output that were read since.
    reread: usize,
    /// Input and output are in a connection's hands.
    lent: bool,
}

impl<R: Runtime> Engine<R> {
    pub(super) fn new(
        runtime: &R,
        spawned: Spawned,
        config: Config,
        observer: Option<Observer>,
        slot: Option<Slot>,
    ) -> io::Result<Self> {
        let Spawned { pid, stdin, stdout, stderr, exit, port } = spawned;
        let config = Config { stdin: stdin.is_some(), ..config };
        // If one of these fails, dropping the port kills the child.
        let stdin = stdin.map(|fd| runtime.register(fd)).transpose()?;
        Ok(Self {
            stdin,
            stdout: Some(runtime.register(stdout)?),
            stderr: Some(runtime.register(stderr)?),
            exit: Some(runtime.register(exit)?),
            core: Session::new(runtime.now(), pid, config),
            alarm: Alarm::new(runtime.clone()),
            runtime: runtime.clone(),
            port,
            spare: Vec::new(),
            observer,
            slot,
            reread: 0,
            lent: false,
        })
    }

    /// Goes on as far as it can without waiting. Returns whether anything happened, and whether it is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> (bool, Poll<()>) {
        let mut any = false;
        for _ in 0..ROUNDS {
            let mut progress = self.act();
            if self.core.state() == State::Closed {
                self.release();
                return (true, Poll::Ready(()));
            }
            progress |= self.read(cx, Stream::Stdout);
            progress |= self.read(cx, Stream::Stderr);
            progress |= self.write(cx);
            progress |= self.notice_exit(cx);
            if !progress && self.alarm.poll(cx, self.core.deadline()).is_ready() {
                self.core.handle_timeout(self.runtime.now());
                progress = true;
            }
            if !progress {
                return (any, Poll::Pending);
            }
            any = true;
        }
        cx.waker().wake_by_ref();
        (any, Poll::Pending)
    }

    /// The synchronous end (PA4): the core's state, the kill, the descriptors, the slot. Waits for nothing, spawns nothing.
    pub(super) fn abandon(&mut self) {
        self.core.abandon(self.runtime.now());
        // §4.7: kill first, close after.
        let _ = contain(|| self.port.abandon());
        self.release();
    }

    /// Our ends of its input, moved out, and of its output, for a connection. Until that has closed them no output is read here.
    pub(super) fn lend(&mut self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (Some(input), Some(output)) = (&self.stdin, &self.stdout) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let lent = (input.as_fd().try_clone_to_owned()?, output.as_fd().try_clone_to_owned()?);
        self.lent = true;
        self.stdin = None;
        self.core.handle_gone(self.runtime.now(), Resource::Stdin);
        Ok(lent)
    }

    pub(super) const fn take_back(&mut self) {
        self.lent = false;
    }

    /// Whether the output is read here: what a connection has not read yet is not taken from it. Once everything that could write
    /// is dead, what is left is read to its end.
    fn reads(&self, stream: Stream) -> bool {
        let drains = matches!(self.core.state(), State::Closing(Phase::Drain | Phase::Close));
        !self.lent || stream == Stream::Stderr || drains
    }

    /// The next output. What is frozen stays as it is: a reader that comes late reads a copy.
    pub(super) fn take_output(&mut self) -> Option<(Stream, Vec<u8>)> {
        let Some(ended) = self.core.ended() else { return self.core.take_output() };
        let output = ended.output().get(self.reread).cloned();
        self.reread += usize::from(output.is_some());
        output
    }

    pub(super) fn ended(&self) -> Option<&Ended> {
        self.core.ended()
    }

    pub(super) const fn runtime(&self) -> &R {
        &self.runtime
    }

    pub(super) fn now(&self) -> hostwire_core::time::Instant {
        self.runtime.now()
    }

    /// Does what the core asks for.
    fn act(&mut self) -> bool {
        let mut any = false;
        while let Some(action) = self.core.poll_action() {
            any = true;
            self.step(action);
        }
        any
    }

    fn step(&mut self, action: Action) {
        let now = self.runtime.now();
        let done = match action {
            Action::CloseStdin => {
                self.stdin = None; // LX8: the only handle there is
                self.core.handle_gone(now, Resource::Stdin);
                return;
            }
            Action::CloseOutput => {
                (self.stdout, self.stderr) = (None, None);
                for stream in Stream::ALL {
                    self.core.handle_gone(now, Resource::Output(stream));
                }
                return;
            }
            Action::Look => {
                match contain(|| self.port.look()) {
                    Ok(Ok(look)) => self.core.handle_look(now, look),
                    Ok(Err(_)) => self.core.handle_failure(now, Failure::Look),
                    Err(_) => self.core.handle_failure(now, Failure::Panicked),
                }
                return;
            }
            Action::Reap => {
                match contain(|| self.port.reap()) {
                    Ok(Ok(exit)) => self.core.handle_reaped(now, exit),
                    Ok(Err(_)) | Err(_) => self.core.handle_failure(now, Failure::Reap),
                }
                return;
            }
            Action::SignalGroup(signal) => contain(|| self.port.signal_group(signal)),
            Action::SignalLeader(signal) => contain(|| self.port.signal_leader(signal)),
            Action::KillEscaped(escaped) => contain(|| self.port.kill_escaped(&escaped)),
        };
        match done {
            Ok(Ok(())) => {}
            Ok(Err(_)) => self.core.handle_failure(now, Failure::Signal), // PD8
            Err(_) => self.core.handle_failure(now, Failure::Panicked),
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, stream: Stream) -> bool {
        if !self.core.wants(stream) || !self.reads(stream) {
            return false;
        }
        let io = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        let Some(io) = io else { return false };
        let spare = &mut self.spare;
        spare.reserve_exact(CHUNK);
        let tried = io.try_io(Direction::Read, |fd| read_into(fd, spare));
        let now = self.runtime.now();
        match tried.result {
            Ok(0) => {
                self.drop_reader(stream);
                self.core.handle_eof(now, stream);
                true
            }
            Ok(count) => {
                let bytes = if count < COPY_BELOW {
                    let bytes = self.spare.as_slice().to_vec();
                    self.spare.clear();
                    bytes
                } else {
                    std::mem::take(&mut self.spare)
                };
                self.core.handle_output(now, stream, bytes);
                true
            }
            // Ready for nothing is asked again; a runtime that has ended fails here, and the drop of the task follows.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => again(&io.poll_read_ready(cx)),
            Err(_) => {
                self.drop_reader(stream);
                self.core.handle_read_failed(now, stream);
                true
            }
        }
    }

    fn drop_reader(&mut self, stream: Stream) {
        match stream {
            Stream::Stdout => self.stdout = None,
            Stream::Stderr => self.stderr = None,
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(io) = &self.stdin else { return false };
        let Some(offer) = self.core.outbox_mut().poll_transmit() else {
            return false;
        };
        let tried = io.try_io(Direction::Write, |fd| write_some(fd, offer));
        let now = self.runtime.now();
        match tried.result {
            Ok(count) => {
                self.core.handle_written(now, count);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => again(&io.poll_write_ready(cx)),
            Err(_) => {
                // PD17: an error and never a signal (std ignores SIGPIPE).
                self.core.handle_write_failed(now);
                true
            }
        }
    }

    fn notice_exit(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(io) = &self.exit else { return false };
        if io.try_io(Direction::Read, has_exited).result.is_ok() {
            self.exit = None;
            self.core.handle_exited(self.runtime.now());
            return true;
        }
        again(&io.poll_read_ready(cx))
    }

    /// Lets go of everything (TD), and says what is worth saying (PD29), once.
    fn release(&mut self) {
        let now = self.runtime.now();
        (self.stdin, self.stdout, self.stderr, self.exit) = (None, None, None, None);
        self.spare = Vec::new();
        self.alarm = Alarm::new(self.runtime.clone());
        // What was not reaped is killed by now, and goes to the orphans.
        let _ = contain(|| self.port.abandon());
        for resource in [
            Resource::Stdin,
            Resource::Output(Stream::Stdout),
            Resource::Output(Stream::Stderr),
            Resource::Child,
        ] {
            self.core.handle_gone(now, resource);
        }
        self.slot = None; // PD28
        if let (Some(observer), Some(ended)) = (self.observer.take(), self.core.ended())
            && ended.report().is_slow_path()
        {
            let _ = contain(|| observer(ended.report()));
        }
    }
}

/// Ready for another try. A failure is a runtime that has ended: nothing to try.
const fn again(ready: &Poll<io::Result<()>>) -> bool {
    matches!(ready, Poll::Ready(Ok(())))
}

fn tried(result: Result<usize, Errno>, could: usize) -> Tried<usize> {
    match result {
        Ok(count) => Tried { result: Ok(count), exhausted: count < could },
        Err(error) => Tried { exhausted: error == Errno::AGAIN, result: Err(error.into()) },
    }
}

fn read_into(fd: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Tried<usize> {
    let could = buffer.capacity() - buffer.len();
    tried(retry_on_intr(|| rustix::io::read(fd, spare_capacity(&mut *buffer))), could)
}

fn write_some(fd: BorrowedFd<'_>, bytes: &[u8]) -> Tried<usize> {
    tried(retry_on_intr(|| rustix::io::write(fd, bytes)), bytes.len())
}

/// Whether the exit notice is there; would block otherwise.
fn has_exited(fd: BorrowedFd<'_>) -> Tried<()> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    match retry_on_intr(|| poll(&mut fds, Some(&Timespec::default()))) {
        Ok(0) | Err(_) => Tried::would_block(),
        Ok(_) => Tried::whole(Ok(())),
    }
}
