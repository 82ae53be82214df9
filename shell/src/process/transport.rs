//! The hostwire protocol over a child's input and output: either role on either side, everything of protocol.md as over a socket.
//!
//! The parent lends its ends of the pipes to a connection and keeps the child: one of them ends with the other. Whoever is the client needs the
//! host's key, which a child gets through a private discovery file: in an owner-only folder, its path in the child's environment, removed as
//! soon as each has proved itself.

use super::session::{Extras, Session};
use super::stdio::{own_stdin, own_stdout};
use crate::client::{Client, ClientConfig, ConnectError, Ends};
use crate::discovery::{Environment, Location, Place, SnapshotError, read_snapshot};
use crate::host::HostHandle;
use crate::host::bell::Bell;
use crate::runtime::Runtime;
use crate::socket::Farewell;
use hostwire_core::auth::{Credentials, DaemonId, Key};
use hostwire_core::child::{Cause, Config, Ended};
use hostwire_core::discovery::Document;
use hostwire_core::fault::CloseReason;
use std::fs::{DirBuilder, OpenOptions, remove_dir, remove_file};
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::num::NonZeroU16;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// The variable that names a child's private discovery file.
pub const CHILD_FILE: &str = "HOSTWIRE_CHILD_FILE";

/// Why there is no connection with a child.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// There is no process, or no private file for it.
    #[error("cannot start the child: {0}")]
    Spawn(#[source] io::Error),
    /// The handshake failed; the child is torn down. The first reason is the error, the child's end is beside it (PA9).
    #[error("no connection with the child: {source}")]
    Connect {
        /// Why.
        source: ConnectError,
        /// What became of the child.
        ended: Box<Ended>,
    },
}

/// Makes connections with children.
#[derive(Debug)]
pub struct Transport;

/// A host in a child process, and this side's client of it.
pub struct ChildHost<R: Runtime> {
    client: Client,
    session: Session<R>,
}

impl<R: Runtime> std::fmt::Debug for ChildHost<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildHost").field("session", &self.session).finish_non_exhaustive()
    }
}

impl<R: Runtime> ChildHost<R> {
    /// The client. When its last handle is gone, or it is closed, the child is torn down in order.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The child.
    #[must_use]
    pub const fn session(&self) -> &Session<R> {
        &self.session
    }

    /// Closes the client, then the child; its end.
    pub async fn close(self) -> Ended {
        self.client.close().await;
        self.session.close(Cause::Closed);
        self.session.ended().await
    }
}

impl Transport {
    /// Starts a command that serves the protocol on its input and output, and connects to it.
    ///
    /// **Cancel safety.** Dropped, the child's group is killed and its private file removed before the drop returns.
    ///
    /// # Errors
    /// [`TransportError`]; the child is torn down, its private file removed.
    pub async fn child<R: Runtime>(
        runtime: &R,
        mut command: Command,
        client: &ClientConfig,
        config: Config,
        extras: Extras,
    ) -> Result<ChildHost<R>, TransportError> {
        let credentials = mint().map_err(TransportError::Spawn)?;
        let file = PrivateFile::new(&credentials).map_err(TransportError::Spawn)?;
        command.env(CHILD_FILE, &file.path);
        let config = Config { stdin: true, peer: true, ..config };
        let session =
            Session::spawn_with(runtime, command, config, None, extras).map_err(TransportError::Spawn)?;
        let lent = session.lend().map_err(TransportError::Spawn)?;
        let connecting = Client::from_ends(runtime, lent, credentials, client);
        let connected = {
            let (mut connecting, mut ended) = (pin!(connecting), pin!(session.ended()));
            poll_fn(|cx| {
                if let Poll::Ready(connected) = connecting.as_mut().poll(cx) {
                    return Poll::Ready(connected);
                }
                // A child that is gone, with somebody else holding its pipes, says nothing more.
                ended.as_mut().poll(cx).map(|_| Err(ConnectError::Dial(io::ErrorKind::BrokenPipe.into())))
            })
            .await
        };
        match connected {
            Ok(client) => {
                drop(file); // each has proved itself
                runtime.spawn(bind(session.clone(), client.closed(), client.severer()));
                Ok(ChildHost { client, session })
            }
            Err(source) => {
                session.close(cause_of(&source));
                let ended = Box::new(session.ended().await);
                Err(TransportError::Connect { source, ended })
            }
        }
    }

    /// Starts a command that is a client of `host` over its input and output; the host's own discovery file tells it the key. When its
    /// connection has ended the child is not ended by that: close the session.
    ///
    /// # Errors
    /// There is no process, or the host takes no connection; nothing is left.
    pub fn serve_child<R: Runtime>(
        runtime: &R,
        host: &HostHandle,
        mut command: Command,
        config: Config,
        extras: Extras,
    ) -> io::Result<Session<R>> {
        command.env(CHILD_FILE, host.connection_file());
        let session = Session::spawn_with(runtime, command, Config { stdin: true, ..config }, None, extras)?;
        host.attach_ends(session.lend()?)?;
        Ok(session)
    }
}

/// What a failed connection says of the child.
const fn cause_of(error: &ConnectError) -> Cause {
    match error {
        ConnectError::TimedOut => Cause::Timeout,
        ConnectError::Setup { reason, .. } => match reason {
            CloseReason::HandshakeTimeout | CloseReason::FrameInTimeout => Cause::Timeout,
            CloseReason::Authentication(_) => Cause::BadProof,
            CloseReason::Eof | CloseReason::PeerGoodbye => Cause::Eof,
            CloseReason::Io => Cause::ReadFailed,
            CloseReason::FrameOutTimeout => Cause::StalledSink,
            CloseReason::Local | CloseReason::Abandoned => Cause::Cancelled,
            CloseReason::NegotiationRefused | CloseReason::NothingServed => Cause::PeerError,
            CloseReason::Peer(_)
            | CloseReason::Negotiation(_)
            | CloseReason::Candidate(_)
            | CloseReason::Superseded
            | CloseReason::ControlBacklog
            | CloseReason::Liveness
            | CloseReason::Drained
            | CloseReason::OverCapacity
            | CloseReason::Misuse(_)
            | _ => Cause::Malformed,
        },
        ConnectError::Dial(_) => Cause::Eof,
        ConnectError::Candidate { .. }
        | ConnectError::Config(_)
        | ConnectError::Location(_)
        | ConnectError::Discovery(_)
        | ConnectError::Runtime(_)
        | ConnectError::NoRandomness => Cause::PeerError,
    }
}

/// Ends the child with the connection, and the connection with the child.
async fn bind<R: Runtime>(
    session: Session<R>,
    closed: impl Future<Output = CloseReason>,
    sever: impl FnOnce(),
) {
    let mut closed = pin!(closed);
    let by_client = first(closed.as_mut(), pin!(session.closing())).await;
    if by_client {
        session.close(Cause::Closed);
        session.ended().await;
        return;
    }
    // A child that went by itself may have said something that is still to be read.
    if session.cause() == Some(Cause::ChildExited) {
        first(closed.as_mut(), pin!(session.ended())).await;
    }
    sever();
}

/// Whether `one` comes before `other`.
async fn first<A, B>(
    mut one: std::pin::Pin<&mut impl Future<Output = A>>,
    mut other: std::pin::Pin<&mut impl Future<Output = B>>,
) -> bool {
    poll_fn(|cx| {
        if one.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        other.as_mut().poll(cx).map(|_| false)
    })
    .await
}

/// Fresh for one child (P2).
fn mint() -> io::Result<Credentials> {
    let (mut key, mut id) = ([0; 32], [0; 16]);
    getrandom::fill(&mut key).map_err(|_| io::ErrorKind::Unsupported)?;
    getrandom::fill(&mut id).map_err(|_| io::ErrorKind::Unsupported)?;
    let daemon_ver = concat!("hostwire-child/", env!("CARGO_PKG_VERSION")).into();
    Ok(Credentials { key: Key::new(key), daemon_id: DaemonId::new(id), daemon_ver })
}

/// A discovery file for one child; gone when it is dropped, and its folder with it.
struct PrivateFile {
    dir: PathBuf,
    path: PathBuf,
}

impl PrivateFile {
    fn new(credentials: &Credentials) -> io::Result<Self> {
        let mut name = [0_u8; 8];
        getrandom::fill(&mut name).map_err(|_| io::ErrorKind::Unsupported)?;
        let dir = std::env::temp_dir().join(format!("hostwire-child-{:016x}", u64::from_le_bytes(name)));
        DirBuilder::new().mode(0o700).create(&dir)?;
        let file = Self { path: dir.join("connection.json"), dir };
        // Nobody listens there, and nobody dials it: the connection is there already.
        let document =
            Document { port: NonZeroU16::MIN, credentials: credentials.clone(), pid: std::process::id() };
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file.path)?;
        out.write_all(&document.render())?;
        Ok(file)
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        let _ = remove_file(&self.path);
        let _ = remove_dir(&self.dir);
    }
}

/// Why a child does not know who its parent is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnError {
    /// This process was not started as a child of hostwire.
    #[error("{CHILD_FILE} is not set")]
    NoParent,
    /// Its private file is not to be trusted.
    #[error(transparent)]
    File(#[from] SnapshotError),
    /// Its path cannot be used.
    #[error(transparent)]
    Path(#[from] crate::discovery::LocationError),
    /// Its input or output is no pipe.
    #[error("no pipes: {0}")]
    Pipes(#[from] io::Error),
    /// The connection could not be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// In a child: what its parent minted for it, for [`HostConfig::credentials`](crate::host::HostConfig::credentials). Blocks on the file system.
///
/// # Errors
/// [`OwnError`].
pub fn own_credentials() -> Result<Credentials, OwnError> {
    let path = std::env::var_os(CHILD_FILE).ok_or(OwnError::NoParent)?;
    let location = Location::resolve(&Environment::default(), &Place::File(path.into()))?;
    Ok(read_snapshot(&location)?.credentials)
}

/// In a child that is a host: serves its parent over its own input and output. Resolves when that connection has ended: the time to end.
///
/// # Errors
/// They are no pipes, or the host takes no connection.
pub fn serve_parent(host: &HostHandle) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (over, bell) = (Arc::new(AtomicBool::new(false)), Arc::new(Bell::default()));
    let (told, ring) = (Arc::clone(&over), Arc::clone(&bell));
    let tell = move || {
        told.store(true, Ordering::Release);
        ring.ring();
    };
    let farewell = Farewell(Some(Box::new(tell)));
    host.attach_ends(Ends::Pipes { input: own_stdin()?, output: own_stdout()?, farewell })?;
    Ok(async move { bell.until(|| over.load(Ordering::Acquire).then_some(())).await })
}

/// In a child that is a client: connects to its parent over its own input and output.
///
/// # Errors
/// [`OwnError`].
pub async fn connect_parent<R: Runtime>(runtime: &R, config: &ClientConfig) -> Result<Client, OwnError> {
    let credentials = own_credentials()?;
    Ok(Client::from_pipes(runtime, own_stdin()?, own_stdout()?, credentials, config).await?)
}
