//! Waiting for a condition that others bring about.
//!
//! Owns wakers, never the condition. Invariant: whoever waits registers before looking, so a [`Bell::ring`] after the change is never
//! missed. The lock is held for a few instructions, and never while a waker runs or the condition is looked at.

use slab::Slab;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Wakes whoever waits. Cheap when nobody does.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    waiting: Mutex<Slab<Waker>>,
}

impl Bell {
    fn waiting(&self) -> MutexGuard<'_, Slab<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has changed: everyone looks again.
    pub(crate) fn ring(&self) {
        let wakers: Vec<Waker> = self.waiting().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until `condition` gives a value. Cancel-safe: it takes nothing unless it is ready.
    pub(crate) fn until<T, F: FnMut() -> Option<T>>(&self, condition: F) -> Until<'_, F> {
        Until { bell: self, key: None, condition }
    }
}

/// The future of [`Bell::until`].
pub(crate) struct Until<'a, F> {
    bell: &'a Bell,
    key: Option<usize>,
    condition: F,
}

impl<T, F: FnMut() -> Option<T> + Unpin> Future for Until<'_, F> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        {
            let mut waiting = this.bell.waiting();
            match this.key.and_then(|key| waiting.get_mut(key)) {
                Some(waker) => waker.clone_from(cx.waker()),
                None => this.key = Some(waiting.insert(cx.waker().clone())),
            }
        }
        match (this.condition)() {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Until<'_, F> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.bell.waiting().try_remove(key);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn everyone_who_waits_is_woken_and_nobody_stays_behind() {
        let (bell, count, value) = (Bell::default(), Arc::new(Count::default()), AtomicUsize::new(0));
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let look = || Some(value.load(Ordering::SeqCst)).filter(|value| *value > 0);
        let mut waits = [bell.until(look), bell.until(look)];
        assert!(waits.iter_mut().all(|wait| Pin::new(wait).poll(&mut cx).is_pending()));
        bell.ring();
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        value.store(7, Ordering::SeqCst);
        assert!(waits.iter_mut().all(|wait| Pin::new(wait).poll(&mut cx) == Poll::Ready(7)));
        drop(waits);
        assert!(bell.waiting().is_empty());
        bell.ring();
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
    }
}
