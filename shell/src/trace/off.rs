//! Nothing.

use crate::client::ConnectError;
use crate::host::{Callback, Cause};
use hostwire_core::fault::CloseReason;
use hostwire_core::host::{Owner, RequestId};
use hostwire_core::outcome::Outcome;
use hostwire_core::time::Instant;
use hostwire_core::wire::RouteHandle;

#[derive(Debug, Default)]
pub(crate) struct Span(());

impl Span {
    pub(crate) const fn of_client(_: u64) -> Self {
        Self(())
    }

    pub(crate) const fn of_host(_: Owner) -> Self {
        Self(())
    }

    pub(crate) const fn call(_: &'static str) -> Self {
        Self(())
    }

    pub(crate) const fn request(&self, _: &str, _: RouteHandle, _: RequestId) -> Self {
        Self(())
    }

    pub(crate) fn run<T>(&self, step: impl FnOnce() -> T) -> T {
        step()
    }

    pub(crate) const fn transport(&self, _: &'static str) {}

    pub(crate) fn on(&self, _: impl FnOnce() -> RouteHandle) {}

    pub(crate) const fn settled(&self, _: &Outcome, _: u64, _: u32) {}

    pub(crate) const fn end(&self, _: &'static str) {}
}

#[derive(Debug, Default)]
pub(crate) struct Notes(());

impl Notes {
    pub(crate) const fn connection_ended(&self, _: Instant, _: &Span, _: CloseReason) {}

    pub(crate) const fn attempt_failed(&self, _: Instant, _: &ConnectError) {}

    pub(crate) const fn accept_failed(&self, _: Instant, _: std::io::ErrorKind) {}

    pub(crate) const fn handshakes_full(&self, _: Instant) {}

    pub(crate) const fn callback_failed(&self, _: Instant, _: &str, _: Callback, _: Cause) {}

    pub(crate) const fn host_runs(&self, _: Instant, _: u16) {}

    pub(crate) const fn host_ends(&self, _: Instant) {}
}
