//! Code that a host serves: the callback interface and what goes with it.
//!
//! A [`Component`] is linked into the host and fixed at startup. The host promises: no callback ever runs under one of its locks; a
//! ready answer leaves in the same turn; a component's panic costs the request, the route or the report it happened in, and nothing
//! else; `route_gone` comes exactly once for each `bind`, after the route's work has ended; `shutdown` comes once, last.

mod contain;
mod context;
pub mod rehearsal;
mod reply;
mod slot;
mod timer;

pub use context::{
    BindContext, OutputSpace, ParkRefused, Parked, RequestContext, RouteInfo, Scratch, SendError, Sending,
};
pub use hostwire_core::control::{Role, RouteClass};
pub use hostwire_core::host::Declaration;
pub use reply::{ErrorReply, Handled, Reply};
pub use slot::Cancellation;
pub use timer::{Sleeper, Timer};

pub(crate) use contain::{Contained, Panicked, contain};
pub(crate) use context::{Link, TrySend};
pub(crate) use slot::{Slot, Standing};

use std::error::Error;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a callback fails with. It is kept for the embedder; no client and no log sees it (H4, Z1).
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What a component is, told once at startup and never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its name for clients: 1 to 128 bytes, no NUL, unique in the host.
    pub module_id: String,
    /// Its version, for people.
    pub version: String,
    /// The one target kind under which it is bound.
    pub role: Role,
    /// What the catalog shows as its roles (§8); normally the one of [`Manifest::role`].
    pub provides: Vec<String>,
    /// The class that its routes draw from (B7).
    pub class: RouteClass,
    /// What it needs of the host's budgets (B7).
    pub declaration: Declaration,
}

impl Manifest {
    /// A component of one role in the general class that reserves nothing.
    pub fn new(module_id: impl Into<String>, version: impl Into<String>, role: Role) -> Self {
        Self {
            module_id: module_id.into(),
            version: version.into(),
            role,
            provides: vec![role.as_str().into()],
            class: RouteClass::General,
            declaration: Declaration::default(),
        }
    }

    /// The same with routes of the reserved class.
    #[must_use]
    pub const fn reserved(mut self) -> Self {
        self.class = RouteClass::Reserved;
        self
    }

    /// The same with `declaration`.
    #[must_use]
    pub const fn declare(mut self, declaration: Declaration) -> Self {
        self.declaration = declaration;
        self
    }
}

/// What a component says of itself when asked. It stays inside the host: no client ever sees it (C5, AE9).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// All is well.
    #[default]
    Serving,
    /// It serves, but not as it should; the text is for the embedder.
    Degraded(String),
}

/// Code that a host serves.
///
/// All methods but [`Component::manifest`] and [`Component::handle`] have a default that does nothing and succeeds. A component is
/// shared between all connections: it keeps its own state in its own locks, and may call back into the host's handle or into a
/// client of its own from any callback, since none runs under a lock of ours.
///
/// # Panics
/// A panic in any callback, while it is called, polled or dropped, is contained where the process unwinds: its request is answered
/// `internal_error`, its bind is refused with `internal_error`, its `route_gone`, `health` or `shutdown` counts as failed and makes
/// the host's end non-graceful (H4, H5). The text goes to the process's panic hook and nowhere else. With `panic = "abort"` the process ends.
pub trait Component: Send + Sync + 'static {
    /// What it is. Asked once, before anything else.
    fn manifest(&self) -> Manifest;

    /// Called once, before the host listens (P7).
    ///
    /// # Errors
    /// Any error, panic or overrun of the callback deadline ends the start: components initialized before are shut down, and nothing
    /// is published. The future is dropped at its deadline.
    fn initialize(&self, timer: Timer) -> BoxFuture<'_, Result<(), BoxError>> {
        let _ = timer;
        Box::pin(ready(Ok(())))
    }

    /// A client asks for a route (R1). Until it answers, no request reaches the route.
    ///
    /// # Errors
    /// The rejection that the client gets. In any case `route_gone` follows exactly once. Past the callback deadline the client gets
    /// `module_timeout`; the future runs on until it ends, or until a host that shuts down has ended its drain, and the channel stays
    /// claimed until then (R2).
    fn bind(&self, cx: BindContext) -> BoxFuture<'_, Result<(), ErrorReply>> {
        let _ = cx;
        Box::pin(ready(Ok(())))
    }

    /// A request on a live route. Called on the connection's task: it must not block.
    ///
    /// If the request is cancelled, the future is dropped at its next await, unless it has taken [`RequestContext::cancellation`].
    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled;

    /// The route is over: bound or rejected, closed or lost, exactly once per `bind`, after its last request has ended (R3).
    fn route_gone(&self, route: Arc<RouteInfo>) -> BoxFuture<'_, ()> {
        let _ = route;
        Box::pin(ready(()))
    }

    /// How it is. Asked by the embedder only.
    fn health(&self) -> BoxFuture<'_, Health> {
        Box::pin(ready(Health::Serving))
    }

    /// Called once, after the last `route_gone`, in reverse order of composition (§17).
    ///
    /// # Errors
    /// Any error makes the host's end non-graceful; the next component is shut down all the same.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(ready(Ok(())))
    }
}
