//! The conformance suite on smol, with the executor on the test's thread and on two of its own.

use async_executor::Executor;
use hostwire_smol::Smol;
use std::future::Future;
use std::sync::Arc;

mod one_thread {
    use super::{Arc, Executor, Future, Smol};

    fn run<F: Future<Output = ()>>(test: impl FnOnce(Smol) -> F) {
        let executor = Arc::new(Executor::new());
        async_io::block_on(executor.run(test(Smol::new(&executor))));
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
                async_io::block_on(test(Smol::new(&executor)));
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

/// What only a runtime that can be killed shows.
mod death {
    use async_executor::Executor;
    use hostwire_conformance::host::peer::Peer;
    use hostwire_conformance::host::{Log, Puppet, Site};
    use hostwire_conformance::stage::{config, some_route};
    use hostwire_smol::Smol;
    use hostwire_smol::hostwire::Runtime;
    use hostwire_smol::hostwire::client::{CallError, Client, ClientConfig};
    use hostwire_smol::hostwire::component::Handled;
    use hostwire_smol::hostwire::discovery::Place;
    use std::future::{Future, pending};
    use std::sync::Arc;

    /// Runs a future with an executor; then the executor is gone, whatever it still had to do.
    fn living<T, F: Future<Output = T>>(test: impl FnOnce(Smol) -> F) -> T {
        let executor = Arc::new(Executor::new());
        async_io::block_on(executor.run(test(Smol::new(&executor))))
    }

    #[test]
    fn p7_an_executor_that_is_dropped_takes_the_files_back_and_frees_the_lock_and_the_components() {
        let (site, log) = (Site::default(), Log::default());
        let mut puppet = Puppet::new("lab", &log);
        puppet.handle = Box::new(|cx| {
            Handled::Future(Box::pin(async move {
                cx.cancellation().await;
                pending().await
            }))
        });
        let puppet = Arc::new(puppet);
        let weak = Arc::downgrade(&puppet);
        let (host, peer) = living(async |smol: Smol| {
            let host = site.start(&smol, vec![puppet]).await;
            let mut peer = Peer::connect(&smol, &site.location).await;
            let route = peer.lab().await;
            peer.start(route, "x", false);
            while log.count("lab handle") == 0 {
                peer.during(smol.sleep_until(smol.now() + std::time::Duration::from_millis(1))).await;
            }
            assert_eq!(site.state().as_str(), "running");
            (host, peer)
        });
        assert_eq!(site.state().as_str(), "stopped");
        assert!(!site.location.connection_file().exists());
        assert!(weak.upgrade().is_none(), "the components are gone");
        assert_eq!(log.said(), ["lab initialize", "lab bind", "lab handle"]);
        let end = async_io::block_on(host.wait());
        assert!(end.cut_short && !end.graceful());
        drop((host, peer)); // B128: handles outlive their runtime
    }

    /// B128: every handle of a client outlives its runtime; what it had asked for is settled by the evidence, and nothing panics.
    #[test]
    fn b128_a_clients_handles_outlive_their_executor() {
        let (site, log) = (Site::default(), Log::default());
        let mut puppet = Puppet::new("lab", &log);
        puppet.handle = Box::new(|_| Handled::Future(Box::pin(pending())));
        let (host, client, route, call, stream) = living(async |smol: Smol| {
            let host = site.start(&smol, vec![Arc::new(puppet)]).await;
            let place = Place::File(site.location.connection_file().to_owned());
            let client = Client::connect(&smol, &ClientConfig { place, ..config() }).await.unwrap();
            let route = client.open(some_route()).await.unwrap();
            let (call, stream) = (route.request("call"), route.stream("stream"));
            while log.count("lab handle") < 2 {
                smol.sleep_until(smol.now() + std::time::Duration::from_millis(1)).await;
            }
            (host, client, route, call, stream)
        });
        let error = async_io::block_on(call).unwrap_err();
        assert!(matches!(error, CallError::Unknown { .. }), "{error}");
        let late = async_io::block_on(route.request("late")).unwrap_err();
        assert!(matches!(late, CallError::NotSent { .. }), "{late}");
        let opening = client.open(some_route());
        drop((stream, opening, route, host));
        async_io::block_on(client.close());
        drop(client);
    }
}
