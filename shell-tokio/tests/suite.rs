//! The conformance suite on tokio, in both flavors.

use hostwire_tokio::Tokio;
use std::future::Future;

mod current_thread {
    use super::{Future, Tokio};

    fn run<F: Future<Output = ()>>(test: impl FnOnce(Tokio) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { test(Tokio::current().unwrap()).await });
    }

    hostwire_conformance::suite!(super::run);
}

mod multi_thread {
    use super::{Future, Tokio};

    fn run<F: Future<Output = ()>>(test: impl FnOnce(Tokio) -> F) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async { test(Tokio::current().unwrap()).await });
    }

    hostwire_conformance::suite!(super::run);
}

/// What only a runtime that can be killed shows.
mod death {
    use hostwire_conformance::host::peer::Peer;
    use hostwire_conformance::host::{Log, Puppet, Site};
    use hostwire_conformance::stage::{config, some_route};
    use hostwire_tokio::Tokio;
    use hostwire_tokio::hostwire::Runtime;
    use hostwire_tokio::hostwire::client::{CallError, Client, ClientConfig};
    use hostwire_tokio::hostwire::component::Handled;
    use hostwire_tokio::hostwire::discovery::Place;
    use std::future::pending;
    use std::sync::Arc;

    #[test]
    fn p7_a_runtime_that_dies_takes_the_files_back_and_frees_the_lock_and_the_components() {
        for threads in [0, 2] {
            let builder = if threads == 0 {
                tokio::runtime::Builder::new_current_thread()
            } else {
                tokio::runtime::Builder::new_multi_thread()
            };
            let runtime = { builder }.enable_all().build().unwrap();
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
            let (host, peer) = runtime.block_on(async {
                let tokio = Tokio::current().unwrap();
                let host = site.start(&tokio, vec![puppet]).await;
                let mut peer = Peer::connect(&tokio, &site.location).await;
                let route = peer.lab().await;
                peer.start(route, "x", false);
                while log.count("lab handle") == 0 {
                    peer.during(tokio.sleep_until(tokio.now() + std::time::Duration::from_millis(1))).await;
                }
                (host, peer)
            });
            assert_eq!(site.state().as_str(), "running");
            drop(runtime);
            assert_eq!(site.state().as_str(), "stopped");
            assert!(!site.location.connection_file().exists());
            assert!(weak.upgrade().is_none(), "the components are gone");
            // No callback is called any more, and whoever waits is told.
            assert_eq!(log.said(), ["lab initialize", "lab bind", "lab handle"]);
            let end = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(host.wait());
            assert!(end.cut_short && !end.graceful());
            drop((host, peer)); // B128: handles outlive their runtime
        }
    }

    /// B128: every handle of a client outlives its runtime; what it had asked for is settled by the evidence, and nothing panics.
    #[test]
    fn b128_a_clients_handles_outlive_their_runtime() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (site, log) = (Site::default(), Log::default());
        let mut puppet = Puppet::new("lab", &log);
        puppet.handle = Box::new(|_| Handled::Future(Box::pin(pending())));
        let (host, client, route, call, stream) = runtime.block_on(async {
            let tokio = Tokio::current().unwrap();
            let host = site.start(&tokio, vec![Arc::new(puppet)]).await;
            let place = Place::File(site.location.connection_file().to_owned());
            let client = Client::connect(&tokio, &ClientConfig { place, ..config() }).await.unwrap();
            let route = client.open(some_route()).await.unwrap();
            let (call, stream) = (route.request("call"), route.stream("stream"));
            while log.count("lab handle") < 2 {
                tokio.sleep_until(tokio.now() + std::time::Duration::from_millis(1)).await;
            }
            (host, client, route, call, stream)
        });
        drop(runtime);
        let after = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = after.block_on(call).unwrap_err();
        assert!(matches!(error, CallError::Unknown { .. }), "{error}");
        let late = after.block_on(route.request("late")).unwrap_err();
        assert!(matches!(late, CallError::NotSent { .. }), "{late}");
        let opening = client.open(some_route());
        drop((stream, opening, route, host));
        after.block_on(client.close());
        drop(client);
    }
}
