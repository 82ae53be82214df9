//! Child processes against real ones, on both runtimes. Nothing here asserts how long something took; what has to come is waited for, and
//! what must not be there is counted after each test: tasks, timers, registered descriptors, open ones, threads, children.

mod audit;
mod chaos;
mod drains;
mod fake;
mod peers;
mod queues;
mod source;
mod speed;
mod transport;

/// Defines a test for each runtime, run alone in the process and audited.
macro_rules! on_both_runtimes {
    ($($(#[$meta:meta])* async fn $name:ident($bench:ident) $body:block)+) => {
        $(mod $name {
            #[allow(unused_imports, reason = "not every test needs all of them")]
            use super::*;

            $(#[$meta])*
            async fn scenario<R: hostwire::Runtime>($bench: crate::audit::Bench<R>) $body

            #[test]
            fn on_tokio() {
                crate::audit::on_tokio(|tokio| crate::audit::audited(tokio, scenario));
            }

            #[test]
            fn on_smol() {
                crate::audit::on_smol(|smol| crate::audit::audited(smol, scenario));
            }
        })+
    };
}
pub(crate) use on_both_runtimes;
