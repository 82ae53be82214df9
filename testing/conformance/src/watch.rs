//! A scenario that hangs ends its process and says its name: a suite that stands still tells nobody anything.
//!
//! The time is far beyond what any scenario takes on any machine; nothing is measured with it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(600);

/// Watches one scenario until it is dropped.
#[derive(Debug)]
pub struct Watch(Option<(Sender<()>, JoinHandle<()>)>);

impl Watch {
    /// Begins to watch the calling test, which is known by the name of its thread.
    #[must_use]
    pub fn begin() -> Self {
        Self::within(PATIENCE, |name| {
            // Not through the harness, which would keep it for the end of a test that has none.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("hangs: {name}\n").as_bytes());
            std::process::abort();
        })
    }

    fn within(patience: Duration, hangs: impl FnOnce(&str) + Send + 'static) -> Self {
        let name = std::thread::current().name().unwrap_or("a scenario").to_owned();
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || {
            if receiver.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                hangs(&name);
            }
        });
        Self(Some((sender, thread)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Watch, channel};
    use std::time::Duration;

    #[test]
    fn who_hangs_is_named_and_who_ends_is_not() {
        let (sender, named) = channel();
        let says = || {
            let sender = sender.clone();
            move |name: &str| sender.send(name.to_owned()).expect("heard")
        };
        let watch = Watch::within(Duration::ZERO, says());
        assert!(named.recv().expect("a name").ends_with("who_hangs_is_named_and_who_ends_is_not"));
        drop(watch);
        drop(Watch::within(Duration::from_secs(3_600), says()));
        assert!(named.try_recv().is_err());
    }
}
