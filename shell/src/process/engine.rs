//! One child under a runtime: its pipes, its exit notice and one timer, polled together; what the core asks for, done.
//!
//! Owns every descriptor and the process of one child. It is polled by one task, and everything of it is gone when that task has ended or
//! [`Engine::abandon`] has returned, whichever comes first: there is no second task that could stay (PA2, PD9). Two futures live between
//! polls, and both may be dropped at any point: the timer, and the look at the process table, which is made where blocking is allowed, since
//! it takes milliseconds where there are many processes and may hang on a stuck one (LX33). A look that outlives its session holds nothing of
//! it.

use super::pool::Slot;
use super::port::{Port, Spawned};
use crate::component::{Panicked, contain};
use crate::drive::Alarm;
use crate::runtime::{BlockingLost, Direction, Io, Runtime, Tried};
use hostwire_core::child::{
    Action, Config, Ended, Failure, Look, Phase, Report, Resource, Session, State, Stream,
};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
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

/// A look on its way: what it has shown, its panic, or its loss with the runtime.
type Looked = Pin<Box<dyn Future<Output = Result<Result<io::Result<Look>, Panicked>, BlockingLost>> + Send>>;

pub(super) struct Engine<R: Runtime> {
    runtime: R,
    pub(super) core: Session,
    port: Box<dyn Port>,
    exit: Option<Source<R::Io>>,
    stdin: Option<R::Io>,
    stdout: Option<Source<R::Io>>,
    stderr: Option<Source<R::Io>>,
    spare: Vec<u8>,
    alarm: Alarm<R>,
    looking: Option<Looked>,
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
            stdout: Some(Source::new(runtime.register(stdout)?)),
            stderr: Some(Source::new(runtime.register(stderr)?)),
            exit: Some(Source::new(runtime.register(exit)?)),
            core: Session::new(runtime.now(), pid, config),
            alarm: Alarm::new(runtime.clone()),
            looking: None,
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
            progress |= self.notice_look(cx);
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
        let lent = (input.as_fd().try_clone_to_owned()?, output.io.as_fd().try_clone_to_owned()?);
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

    /// The next output, and whether there is room for a stream again that was not read for want of it. What is frozen stays as it is: a
    /// reader that comes late reads a copy.
    pub(super) fn take_output(&mut self) -> Option<((Stream, Vec<u8>), bool)> {
        let Some(ended) = self.core.ended() else {
            let wanted = Stream::ALL.map(|stream| self.core.wants(stream));
            let output = self.core.take_output()?;
            let has_room = wanted != Stream::ALL.map(|stream| self.core.wants(stream));
            return Some((output, has_room));
        };
        let output = ended.output().get(self.reread)?.clone();
        self.reread += 1;
        Some((output, false))
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
                    Ok(looking) => {
                        self.looking = Some(Box::pin(self.runtime.blocking(move || contain(looking))));
                    }
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
        let source = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let Some(source) = source else { return false };
        let spare = &mut self.spare;
        let Some(result) = source.try_read(cx, |fd| {
            spare.reserve_exact(CHUNK);
            read_into(fd, spare)
        }) else {
            return false;
        };
        let now = self.runtime.now();
        match result {
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
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
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
        let Some(source) = &mut self.exit else { return false };
        let Some(result) = source.try_read(cx, has_exited) else { return false };
        if result.is_ok() {
            self.exit = None;
            self.core.handle_exited(self.runtime.now());
        }
        true
    }

    /// PD19: its time is the phase's, whatever it hangs on.
    fn notice_look(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(looking) = &mut self.looking else { return false };
        let Poll::Ready(looked) = looking.as_mut().poll(cx) else { return false };
        self.looking = None;
        let now = self.runtime.now();
        match looked {
            Ok(Ok(Ok(look))) => self.core.handle_look(now, look),
            Ok(Ok(Err(_))) => self.core.handle_failure(now, Failure::Look),
            Ok(Err(Panicked)) | Err(BlockingLost) => self.core.handle_failure(now, Failure::Panicked),
        }
        true
    }

    /// Lets go of everything (TD), and says what is worth saying (PD29), once.
    fn release(&mut self) {
        let now = self.runtime.now();
        (self.stdin, self.stdout, self.stderr, self.exit) = (None, None, None, None);
        self.spare = Vec::new();
        self.alarm = Alarm::new(self.runtime.clone());
        self.looking = None;
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

/// Something that is read, and whether that is worth a try: what said it has nothing is left alone until it is ready again, also by a runtime
/// that would make the call.
struct Source<I> {
    io: I,
    may: bool,
}

impl<I: Io> Source<I> {
    const fn new(io: I) -> Self {
        Self { io, may: true }
    }

    /// One call, unless it is known to be for nothing: then the task is woken when that changes.
    fn try_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        call: impl FnOnce(BorrowedFd<'_>) -> Tried<T>,
    ) -> Option<io::Result<T>> {
        if !self.may {
            self.may = again(&self.io.poll_read_ready(cx));
        }
        if !self.may {
            return None;
        }
        let tried = self.io.try_io(Direction::Read, call);
        self.may = !tried.exhausted;
        Some(tried.result)
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
