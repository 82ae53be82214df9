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
