//! A child without processes: what was asked of it is written down, and its pipes are the test's.

use hostwire::core::child::{Exit, Leader, Look, Signal, Survivor};
use hostwire::process::{Looking, Port, Spawned};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A port without processes.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) foreign: bool,
    pub(crate) panics: bool,
    /// A look does not end before this has somebody or nobody to hear of.
    pub(crate) hangs: Option<Arc<Mutex<Receiver<()>>>>,
    pub(crate) done: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Its pipes and exit notice, and the child's ends of them: dropping those is its death.
    pub(crate) fn spawned(&self) -> (Spawned, Vec<OwnedFd>) {
        let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (0..3).map(|_| rustix::pipe::pipe_with(flags).unwrap()).unzip();
        let [stdout, stderr, exit] = <[OwnedFd; 3]>::try_from(ours).unwrap();
        (Spawned { pid: 4_000_000, stdin: None, stdout, stderr, exit, port: Box::new(self.clone()) }, theirs)
    }

    fn note(&self, what: String) {
        self.done.lock().unwrap().push(what);
    }

    pub(crate) fn did(&self, what: &str) -> bool {
        self.done.lock().unwrap().iter().any(|done| done == what)
    }

    pub(crate) fn looks(&self) -> usize {
        self.done.lock().unwrap().iter().filter(|done| *done == "look").count()
    }
}

impl Port for Fake {
    fn look(&mut self) -> Looking {
        self.note("look".to_owned());
        let fake = self.clone();
        Box::new(move || {
            fake.note(format!("look on {:?}", std::thread::current().id()));
            if let Some(hangs) = &fake.hangs {
                // Not for ever, so that a runtime that is held up by it can say so.
                let _ = hangs.lock().unwrap().recv_timeout(Duration::from_secs(20));
            }
            if fake.panics {
                std::panic::resume_unwind(Box::new("as the test says"));
            }
            Ok(Look {
                leader: if fake.foreign { Leader::Reaped } else { Leader::Unreaped },
                number_reused: fake.foreign,
                members: if fake.foreign {
                    vec![Survivor { pid: 7, group: 4_000_000, state: 'S', start: 1 }]
                } else {
                    Vec::new()
                },
                zombies: 0,
                same_session: !fake.foreign,
                escaped: Vec::new(),
            })
        })
    }

    fn signal_group(&mut self, signal: Signal) -> io::Result<()> {
        self.note(format!("group {signal:?}"));
        Ok(())
    }

    fn signal_leader(&mut self, signal: Signal) -> io::Result<()> {
        self.note(format!("leader {signal:?}"));
        Ok(())
    }

    fn kill_escaped(&mut self, _: &[Survivor]) -> io::Result<()> {
        Ok(())
    }

    fn reap(&mut self) -> io::Result<Option<Exit>> {
        self.note("reap".to_owned());
        Ok(if self.foreign { None } else { Some(Exit::Code(0)) })
    }

    fn abandon(&mut self) {
        self.note("abandon".to_owned());
    }
}
