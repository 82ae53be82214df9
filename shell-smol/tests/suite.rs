//! The conformance suite on smol, with the executor on the test's thread and on two of its own.

use async_executor::Executor;
use hostwire_smol::Smol;
use std::future::Future;
use std::sync::Arc;

mod one_thread {
    use super::{Arc, Executor, Future, Smol};

    fn run<F: Future<Output = ()>>(test: impl FnOnce(Smol) -> F) {
        let executor = Arc::new(Executor::new());
        async_io::block_on(executor.run(test(Smol::new(Arc::clone(&executor)))));
        assert!(executor.is_empty(), "tasks left on the executor");
    }

    hostwire_conformance::suite!(super::run);
}

mod two_threads {
    use super::{Arc, Executor, Future, Smol};

    fn run<F: Future<Output = ()>>(test: impl FnOnce(Smol) -> F) {
        let executor = Arc::new(Executor::new());
        let stop = Arc::new(event::Event::default());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (executor, stop) = (Arc::clone(&executor), Arc::clone(&stop));
                scope.spawn(move || async_io::block_on(executor.run(stop.wait())));
            }
            let test = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                async_io::block_on(test(Smol::new(Arc::clone(&executor))));
            }));
            stop.set();
            if let Err(panic) = test {
                std::panic::resume_unwind(panic);
            }
        });
        assert!(executor.is_empty(), "tasks left on the executor");
    }

    /// Tells threads to stop.
    mod event {
        use std::future::poll_fn;
        use std::sync::Mutex;
        use std::task::{Poll, Waker};

        #[derive(Default)]
        pub(super) struct Event(Mutex<(bool, Vec<Waker>)>);

        impl Event {
            pub(super) fn set(&self) {
                let mut state = self.0.lock().unwrap();
                state.0 = true;
                state.1.drain(..).for_each(Waker::wake);
            }

            pub(super) async fn wait(&self) {
                poll_fn(|cx| {
                    let mut state = self.0.lock().unwrap();
                    if state.0 {
                        return Poll::Ready(());
                    }
                    state.1.push(cx.waker().clone());
                    Poll::Pending
                })
                .await;
            }
        }
    }

    hostwire_conformance::suite!(super::run);
}
