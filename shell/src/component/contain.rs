//! Where a component's panic ends.
//!
//! Owns the catching. Invariant: whatever a component's code does while it is called, polled or dropped, the caller gets a value
//! back, and neither the panic's text nor its payload goes any further (Z1). The process's own panic hook has spoken by then; with
//! `panic = "abort"` there is nothing to catch and the process ends (B132).

use super::BoxFuture;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A component's code panicked. Says nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs `f`; a panic in it becomes a value.
pub(crate) fn contain<T>(f: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        // The payload is the component's value too, and dropping it may panic again.
        if let Err(again) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
            std::mem::forget(again);
        }
        Panicked
    })
}

/// A component's future, whose panics are values: while it is polled, when it has ended, and when it is dropped early.
pub(crate) struct Contained<T> {
    future: Option<BoxFuture<'static, T>>,
}

impl<T> Contained<T> {
    pub(crate) fn new(future: BoxFuture<'static, T>) -> Self {
        Self { future: Some(future) }
    }

    /// Drops the future now; says whether its destructor panicked.
    pub(crate) fn stop(&mut self) -> Result<(), Panicked> {
        let future = self.future.take();
        contain(move || drop(future))
    }
}

impl<T> Future for Contained<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else { return Poll::Ready(Err(Panicked)) };
        match contain(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => match self.stop() {
                Ok(()) => Poll::Ready(Ok(value)),
                Err(Panicked) => {
                    let _ = contain(move || drop(value));
                    Poll::Ready(Err(Panicked))
                }
            },
            Err(Panicked) => {
                let _ = self.stop();
                Poll::Ready(Err(Panicked))
            }
        }
    }
}

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }

    fn poll_once<T>(future: &mut Contained<T>) -> Poll<Result<T, Panicked>> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_panic_in_a_call_a_poll_or_a_destructor_is_a_value() {
        assert_eq!(contain(|| panic!("now")), Err::<(), _>(Panicked));
        assert_eq!(
            contain(|| std::panic::panic_any(Bomb)),
            Err::<(), _>(Panicked),
            "its payload panics when dropped"
        );
        let mut at_once = Contained::<()>::new(Box::pin(async { panic!("before the first await") }));
        assert_eq!(poll_once(&mut at_once), Poll::Ready(Err(Panicked)));
        let mut held = Contained::new(Box::pin(async {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        }));
        assert_eq!(poll_once(&mut held), Poll::Pending);
        assert_eq!(held.stop(), Err(Panicked));
        assert_eq!(poll_once(&mut held), Poll::Ready(Err(Panicked)), "it is over");
        let ready = std::future::ready(7);
        struct WithBomb {
            ready: std::future::Ready<u8>,
            _bomb: Bomb,
        }
        impl Future for WithBomb {
            type Output = u8;
            fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u8> {
                Pin::new(&mut self.ready).poll(cx)
            }
        }
        let mut after = Contained::new(Box::pin(WithBomb { ready, _bomb: Bomb }));
        assert_eq!(
            poll_once(&mut after),
            Poll::Ready(Err(Panicked)),
            "it had a value, and its destructor panicked"
        );
    }
}
