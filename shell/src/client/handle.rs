//! The client's handle, and how one comes to be.

use super::config::{ClientConfig, ConnectError, Consumer};
use super::control::{ControlCall, Opening};
use super::request::Patience;
use super::result::Evidence;
use super::shared::{Shared, drive};
use crate::discovery::{Location, read_snapshot};
use crate::drive::Driver;
use crate::runtime::Runtime;
use crate::socket::{Socket, connect_tcp};
use hostwire_core::auth::{Credentials, DaemonId, Nonce};
use hostwire_core::client::{self as core, CatalogFilter, Connection, Counters};
use hostwire_core::control::{CatalogReply, ConsumerIdentity, RouteOpen};
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::ClientTimeouts;
use hostwire_core::negotiate::OfferList;
use hostwire_core::time::Instant;
use std::fmt;
use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// A client with one authenticated connection to the host: cheap to clone, usable from any thread.
///
/// **Drop.** When the last handle is gone (clones, [routes](super::Route), calls and streams count), the generation ends as by
/// [`Client::close`], but nobody waits for it. Dropping takes no lock, spawns nothing, and works outside a runtime.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    timeouts: ClientTimeouts,
    consumer: Option<ConsumerIdentity>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.orphan();
    }
}

impl Client {
    /// Finds the host by its discovery file, dials, authenticates and negotiates, all under one deadline (2 s by default).
    ///
    /// **Cancel safety.** Dropping the future closes what was opened; reading the discovery file may go on for a moment on a
    /// thread of the runtime.
    ///
    /// # Errors
    /// [`ConnectError`]. Each attempt reads the file again (D7); trying again is the caller's decision.
    pub async fn connect<R: Runtime>(runtime: &R, config: &ClientConfig) -> Result<Self, ConnectError> {
        config.validate()?;
        let deadline = runtime.now() + config.timeouts.setup;
        let location = Location::resolve(&config.environment, &config.place)?;
        let reading = runtime.blocking(move || read_snapshot(&location));
        let document = by(runtime, deadline, reading).await??.map_err(ConnectError::Discovery)?;
        let dialling = connect_tcp(runtime, document.port.get());
        let io = by(runtime, deadline, dialling).await?.map_err(ConnectError::Dial)?;
        Self::begin(runtime, io, document.credentials, config, deadline).await
    }

    /// Authenticates and negotiates on a connected, non-blocking stream socket, with credentials from elsewhere: for tests, and for
    /// programs with a discovery of their own.
    ///
    /// **Cancel safety.** Dropping the future closes the socket.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn from_socket<R: Runtime>(
        runtime: &R,
        socket: OwnedFd,
        credentials: Credentials,
        config: &ClientConfig,
    ) -> Result<Self, ConnectError> {
        config.validate()?;
        let deadline = runtime.now() + config.timeouts.setup;
        let io = runtime.register(socket).map_err(ConnectError::Dial)?;
        Self::begin(runtime, io, credentials, config, deadline).await
    }

    async fn begin<R: Runtime>(
        runtime: &R,
        io: R::Io,
        credentials: Credentials,
        config: &ClientConfig,
        setup_deadline: Instant,
    ) -> Result<Self, ConnectError> {
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|_| ConnectError::NoRandomness)?; // A2
        let daemon_id = credentials.daemon_id;
        let conn = Connection::new(
            runtime.now(),
            core::Config {
                credentials,
                nonce: Nonce::new(nonce),
                role: config.role.clone(),
                offers: OfferList::tcp_only(),
                limits: config.limits,
                timeouts: config.timeouts,
                setup_deadline,
            },
        )?;
        let consumer = match config.consumer {
            // C11: a value that the contract does not allow is no identity.
            Consumer::FromEnvironment => config
                .environment
                .identity()
                .and_then(|(module, nonce)| ConsumerIdentity::new(module, nonce).ok()),
            Consumer::Anonymous => None,
        };
        let shared = Shared::new(runtime, conn, daemon_id);
        // From here on, dropping this future drops the last handle.
        let handle = Handle { shared: Arc::clone(&shared), timeouts: config.timeouts, consumer };
        let client = Self { handle: Arc::new(handle) };
        runtime.spawn(drive(Driver::new(runtime.clone(), Socket::new(io)), shared));
        poll_fn(|cx| client.shared().poll_ready(cx))
            .await
            .map_err(|(reason, stage)| ConnectError::Setup { reason, stage, daemon_id })?;
        Ok(client)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    pub(super) fn timeouts(&self) -> &ClientTimeouts {
        &self.handle.timeouts
    }

    /// The incarnation of the host at the other end (O7).
    #[must_use]
    pub fn daemon_id(&self) -> DaemonId {
        self.shared().daemon_id()
    }

    /// Asks for a route with the default patience. See [`Opening`] for what dropping it means.
    pub fn open(&self, open: RouteOpen) -> Opening {
        self.open_within(open, Patience::Default)
    }

    /// Asks for a route.
    pub fn open_within(&self, open: RouteOpen, patience: Patience) -> Opening {
        let open = match &self.handle.consumer {
            // C11: what the caller says itself comes first.
            Some(consumer) if open.consumer_identity().is_none() => {
                open.with_consumer_identity(consumer.clone())
            }
            Some(_) | None => open,
        };
        let default = self.timeouts().route_open;
        let ticket = self
            .shared()
            .submit(false, |conn, now| conn.open_route(now, &open, patience.deadline(now, default)));
        Opening::new(self.clone(), ticket)
    }

    /// Asks which components the host has, or for one of them (protocol.md §8).
    pub fn catalog(&self, filter: CatalogFilter, patience: Patience) -> ControlCall<CatalogReply> {
        let default = self.timeouts().request;
        let ticket = self
            .shared()
            .submit(false, |conn, now| conn.catalog(now, filter, patience.deadline(now, default)));
        ControlCall::catalog(self.clone(), ticket)
    }

    /// Asks the host to shut down (protocol.md §17); resolves when it has committed to it.
    pub fn shutdown_host(&self, patience: Patience) -> ControlCall<Evidence> {
        let default = self.timeouts().request;
        let ticket =
            self.shared().submit(false, |conn, now| conn.host_shutdown(now, patience.deadline(now, default)));
        ControlCall::shutdown(self.clone(), ticket)
    }

    /// Ends the generation in order: what has not begun to leave settles `not_sent`, what may have left `outcome_unknown`, the frame
    /// that has begun is finished, `Goodbye` follows, the socket is closed; all within the close deadline (5 s by default).
    ///
    /// The close begins at once, for all handles; the future waits for its end. **Cancel safety.** Dropping the future leaves the close
    /// going on. Any number of handles may close at the same time.
    pub fn close(&self) -> impl Future<Output = CloseReason> + Send + 'static {
        let shared = Arc::clone(self.shared());
        shared.command(Connection::shutdown);
        async move { poll_fn(|cx| shared.poll_closed(cx)).await }
    }

    /// Resolves when the generation has ended, with its reason (G5). Cancel safe; keeps the client's generation alive no longer than
    /// other handles do.
    pub fn closed(&self) -> impl Future<Output = CloseReason> + Send + 'static {
        let shared = Arc::clone(self.shared());
        async move { poll_fn(|cx| shared.poll_closed(cx)).await }
    }

    /// Why the generation ended, or is about to (G5); `None` while it lives.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.shared().close_reason()
    }

    /// What has been counted on this generation (Z2).
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared().counters()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("daemon_id", &self.daemon_id()).finish_non_exhaustive()
    }
}

/// E1: a stage shares the one deadline.
async fn by<R: Runtime, T>(
    runtime: &R,
    deadline: Instant,
    stage: impl Future<Output = T>,
) -> Result<T, ConnectError> {
    let mut stage = pin!(stage);
    let mut timer = pin!(runtime.sleep_until(deadline));
    poll_fn(|cx| {
        if let Poll::Ready(done) = stage.as_mut().poll(cx) {
            return Poll::Ready(Ok(done));
        }
        timer.as_mut().poll(cx).map(|()| Err(ConnectError::TimedOut))
    })
    .await
}
