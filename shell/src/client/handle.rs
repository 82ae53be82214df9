//! The client's handle, and how one comes to be.

use super::config::{ClientConfig, ConnectError, Consumer};
use super::control::{ControlCall, Opening};
use super::managed::{Ends, Managed, Source};
use super::request::Patience;
use super::result::Evidence;
use super::shared::Root;
use crate::discovery::Location;
use crate::runtime::Runtime;
use crate::socket::Farewell;
use hostwire_core::auth::{Credentials, DaemonId};
use hostwire_core::client::{CatalogFilter, Counters, Transport};
use hostwire_core::control::{CatalogReply, ConsumerIdentity, RouteOpen};
use hostwire_core::fault::CloseReason;
use hostwire_core::limits::ClientTimeouts;
use std::fmt;
use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A client of one host: cheap to clone, usable from any thread.
///
/// It holds at most one connection, a *generation*. When that ends, everything of it ends: routes, and requests by the evidence of
/// what had left (K1). The next operation that needs a connection, [`Client::open`] first of all, makes another, as often as its
/// deadline allows: after a pause, from the discovery file anew (K4). A [route](super::Route) never crosses over.
///
/// **Drop.** When the last handle is gone (clones, [routes](super::Route), calls and streams count), the generation ends as by
/// [`Client::close`], but nobody waits for it. Dropping takes no lock, spawns nothing, and works outside a runtime.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

struct Handle {
    managed: Arc<Managed>,
    /// The managed client's own: reached without a lock.
    root: Arc<Root>,
    timeouts: ClientTimeouts,
    consumer: Option<ConsumerIdentity>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.root.orphan();
    }
}

impl Client {
    /// Finds the host by its discovery file, dials, authenticates and negotiates, all under one deadline (2 s by default).
    ///
    /// **Cancel safety.** Dropping the future closes what was opened; reading the discovery file may go on for a moment on a
    /// thread of the runtime.
    ///
    /// # Errors
    /// [`ConnectError`], after one attempt; trying again is the caller's decision. Later connections are made as
    /// they are needed.
    pub async fn connect<R: Runtime>(runtime: &R, config: &ClientConfig) -> Result<Self, ConnectError> {
        let location = Location::resolve(&config.environment, &config.place)?;
        Self::begin(runtime, config, Source::Discovery(location)).await
    }

    /// Authenticates and negotiates on a connected, non-blocking stream socket, with credentials from elsewhere: for tests, and for
    /// programs with a discovery of their own. Such a client has this one generation. The configuration's place
    /// counts for one thing only: a granted candidate has to be in that directory (N14).
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
        Self::begin(runtime, config, Source::Stream(Some((Ends::Socket(socket), credentials)))).await
    }

    /// The same on two non-blocking pipes, which are this side's ends of a child's, or a parent's, input and output.
    ///
    /// **Cancel safety.** Dropping the future closes the pipes.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn from_pipes<R: Runtime>(
        runtime: &R,
        input: OwnedFd,
        output: OwnedFd,
        credentials: Credentials,
        config: &ClientConfig,
    ) -> Result<Self, ConnectError> {
        let ends = Ends::Pipes { input, output, farewell: Farewell(None) };
        Self::from_ends(runtime, ends, credentials, config).await
    }

    pub(crate) async fn from_ends<R: Runtime>(
        runtime: &R,
        ends: Ends,
        credentials: Credentials,
        config: &ClientConfig,
    ) -> Result<Self, ConnectError> {
        Self::begin(runtime, config, Source::Stream(Some((ends, credentials)))).await
    }

    /// What ends the present generation here and now, and keeps nothing alive but what has ended.
    pub(crate) fn severer(&self) -> impl FnOnce() + Send + 'static {
        let shared = self.managed().current();
        move || shared.into_iter().for_each(|shared| shared.end())
    }

    async fn begin<R: Runtime>(
        runtime: &R,
        config: &ClientConfig,
        source: Source,
    ) -> Result<Self, ConnectError> {
        config.validate()?;
        let consumer = match config.consumer {
            // C11: a value that the contract does not allow is no identity.
            Consumer::FromEnvironment => config
                .environment
                .identity()
                .and_then(|(module, nonce)| ConsumerIdentity::new(module, nonce).ok()),
            Consumer::Anonymous => None,
        };
        let managed = Managed::new(runtime, config, source);
        // From here on, dropping this future drops the last handle.
        let client = Self {
            handle: Arc::new(Handle {
                root: Arc::clone(managed.root()),
                managed,
                timeouts: config.timeouts,
                consumer,
            }),
        };
        client.managed().first().await?;
        Ok(client)
    }

    pub(super) fn managed(&self) -> &Arc<Managed> {
        &self.handle.managed
    }

    pub(super) fn timeouts(&self) -> &ClientTimeouts {
        &self.handle.timeouts
    }

    /// The incarnation of the host that the last generation belongs to (O7).
    #[must_use]
    pub fn daemon_id(&self) -> DaemonId {
        self.managed().daemon_id()
    }

    /// How many generations there have been, and how many incarnations of the host they belonged to: another number than before tells
    /// that routes have to be opened anew, or that the host was restarted and has forgotten everything (K4, K5).
    #[must_use]
    pub fn generations(&self) -> Generations {
        let (generations, incarnations) = self.managed().counts();
        Generations { generations, incarnations }
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
        let deadline = patience.deadline(self.managed().now(), self.timeouts().route_open);
        Opening::new(self, open, deadline)
    }

    /// Asks which components the host has, or for one of them (protocol.md §8).
    pub fn catalog(&self, filter: CatalogFilter, patience: Patience) -> ControlCall<CatalogReply> {
        ControlCall::catalog(self, filter, patience.deadline(self.managed().now(), self.timeouts().request))
    }

    /// Asks the host to shut down (protocol.md §17); resolves when it has committed to it.
    ///
    /// It is meant for the host of the last generation: if that has ended, this is `not_sent` (`connection_retired`) and connects to no
    /// other, which could be the host's next incarnation (K4).
    pub fn shutdown_host(&self, patience: Patience) -> ControlCall<Evidence> {
        ControlCall::shutdown(self, patience.deadline(self.managed().now(), self.timeouts().request))
    }

    /// Ends the client in order: what has not begun to leave settles `not_sent`, what may have left `outcome_unknown`, the frame
    /// that has begun is finished, `Goodbye` follows, the socket is closed; all within the close deadline (5 s by default).
    /// No other generation follows.
    ///
    /// The close begins at once, for all handles; the future waits for its end. **Cancel safety.** Dropping the future leaves the close
    /// going on. Any number of handles may close at the same time.
    pub fn close(&self) -> impl Future<Output = CloseReason> + Send + 'static {
        let shared = self.managed().close();
        async move {
            match shared {
                Some(shared) => poll_fn(|cx| shared.poll_closed(cx)).await,
                None => CloseReason::Local,
            }
        }
    }

    /// Resolves when the present generation has ended, with its reason (G5). Cancel safe; keeps nothing alive.
    pub fn closed(&self) -> impl Future<Output = CloseReason> + Send + 'static {
        let shared = self.managed().current();
        async move {
            match shared {
                Some(shared) => poll_fn(|cx| shared.poll_closed(cx)).await,
                None => CloseReason::Abandoned,
            }
        }
    }

    /// Why the last generation ended, or is about to (G5); `None` while it lives.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.managed().reason()
    }

    /// The transport of the last generation, with the reason if it is not the one that was wanted most (N5). Only
    /// [`Unavailable`](hostwire_core::negotiate::FallbackReason::Unavailable) permits another try later, on a client of its own (N12).
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.managed().current().map_or(Transport::Tcp { reason: None }, |shared| shared.transport())
    }

    /// What has been counted on the last generation (Z2).
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.managed().current().map(|shared| shared.counters()).unwrap_or_default()
    }
}

/// How often a client has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generations {
    /// Connections that became ready.
    pub generations: u64,
    /// Different incarnations of the host among them, counted from one to the next.
    pub incarnations: u64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("daemon_id", &self.daemon_id()).finish_non_exhaustive()
    }
}
