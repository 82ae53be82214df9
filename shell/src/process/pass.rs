//! One pass for everybody who asks while another is under way.
//!
//! Owns the last result for as long as somebody waits for one. Invariant: nobody is given what a pass has found that began before they
//! asked, so that sharing never shows anything older than a pass of one's own would.

use crate::sync::lock;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Passes over something that is slow to read. Blocks while another one is made.
#[derive(Debug)]
pub(super) struct Pass<T> {
    /// Counts askers and passes alike: who has the lower number was first.
    order: AtomicU64,
    asking: AtomicUsize,
    last: Mutex<Option<(u64, Arc<T>)>>,
}

impl<T> Pass<T> {
    pub(super) const fn new() -> Self {
        Self { order: AtomicU64::new(0), asking: AtomicUsize::new(0), last: Mutex::new(None) }
    }

    /// What a pass has found that began after this call: this one's, or one that somebody else has made meanwhile.
    ///
    /// # Errors
    /// This one's own.
    pub(super) fn fresh(&self, pass: impl FnOnce() -> io::Result<T>) -> io::Result<Arc<T>> {
        self.asking.fetch_add(1, Ordering::SeqCst);
        let asked = self.order.fetch_add(1, Ordering::SeqCst);
        let mut last = lock(&self.last);
        let found = match &*last {
            Some((began, found)) if *began > asked => Ok(Arc::clone(found)),
            Some(_) | None => {
                let began = self.order.fetch_add(1, Ordering::SeqCst);
                pass().map(Arc::new).inspect(|found| *last = Some((began, Arc::clone(found))))
            }
        };
        if self.asking.fetch_sub(1, Ordering::SeqCst) == 1 {
            *last = None;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn pa10_who_asks_during_a_pass_waits_for_the_next_and_all_of_them_share_it() {
        let (pass, made) = (Pass::new(), AtomicUsize::new(0));
        let next = || Ok(made.fetch_add(1, Ordering::SeqCst));
        let (begun, has_begun) = channel();
        let (end, may_end) = channel();
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                let held = move || {
                    begun.send(()).unwrap();
                    may_end.recv().unwrap();
                    next()
                };
                *pass.fresh(held).unwrap()
            });
            has_begun.recv().unwrap();
            let others: Vec<_> = (0..20).map(|_| scope.spawn(|| *pass.fresh(next).unwrap())).collect();
            while pass.asking.load(Ordering::SeqCst) < 21 || pass.order.load(Ordering::SeqCst) < 22 {
                thread::yield_now();
            }
            end.send(()).unwrap();
            assert_eq!(first.join().unwrap(), 0);
            for other in others {
                assert_eq!(other.join().unwrap(), 1, "not the one that had begun before");
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 2);
        assert!(lock(&pass.last).is_none(), "nobody waits, nothing is kept");
        assert_eq!(*pass.fresh(next).unwrap(), 2);
    }

    #[test]
    fn a_pass_that_fails_is_its_own_and_the_next_one_is_made() {
        let pass = Pass::new();
        assert!(pass.fresh(|| Err::<u8, _>(io::ErrorKind::NotFound.into())).is_err());
        assert_eq!(*pass.fresh(|| Ok(7)).unwrap(), 7);
    }
}
