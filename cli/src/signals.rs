//! SIGINT and SIGTERM for what runs until it is stopped: the first asks for the ordered end, the second ends the process.
//!
//! Owns one thread, which waits for signals and nothing else, so that it works on every runtime and while one hangs.

use crate::exit::{Exit, Stop};
use crate::output::complain;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

#[derive(Default)]
struct State {
    asked: bool,
    stop: Option<Box<dyn Fn() + Send>>,
}

/// SIGINT, SIGTERM and SIGHUP for a command that waits: noted, and told to whoever asks.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<(bool, Option<Waker>)>>);

impl Interrupt {
    /// Catches them from now on.
    pub(crate) fn install() -> Result<Self, Stop> {
        let fail = |error: std::io::Error| Stop::Failed(format!("cannot catch signals: {error}"));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(fail)?;
        let interrupt = Self::default();
        let told = interrupt.clone();
        let wait = move || {
            for _ in signals.forever() {
                let waker = {
                    let mut state = told.0.lock().unwrap_or_else(PoisonError::into_inner);
                    state.0 = true;
                    state.1.take()
                };
                waker.into_iter().for_each(Waker::wake);
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(fail)?;
        Ok(interrupt)
    }

    /// Resolves when one has come.
    pub(crate) async fn raised(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.1 = Some(cx.waker().clone());
            if state.0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The signals of this process, caught.
pub(crate) struct Caught(Arc<Mutex<State>>);

impl Caught {
    /// Catches them from now on: before a host starts, so that none is lost.
    pub(crate) fn install() -> Result<Self, Stop> {
        let fail = |error: std::io::Error| Stop::Failed(format!("cannot catch signals: {error}"));
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(fail)?;
        let state = Arc::new(Mutex::new(State::default()));
        let caught = Self(Arc::clone(&state));
        let wait = move || {
            for _ in signals.forever() {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.asked {
                    complain("second signal: ending at once");
                    std::process::exit(Exit::FAILED.code().into());
                }
                state.asked = true;
                if let Some(stop) = &state.stop {
                    stop();
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(fail)?;
        Ok(caught)
    }

    /// It runs: this is what the first signal does, one that came before as well.
    pub(crate) fn stop_with(&self, stop: impl Fn() + Send + 'static) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.asked {
            stop();
        }
        state.stop = Some(Box::new(stop));
    }
}
