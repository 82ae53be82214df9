//! A granted candidate on the host's side (N10, N11, N14): a door for one client, and the common fate of two connections.
//!
//! Owned by the tasks of the two connections, each of which knows the other; so there is no task, no timer and no lock of its own,
//! and whatever ends the bootstrap's task closes the door. What a candidate may say and until when is the core's business.

use super::conn::{Conn, Task};
use super::hub::Hold;
use crate::component::BoxFuture;
use crate::discovery::Door;
use crate::drive::Driver;
use crate::runtime::{Direction, Io, Runtime};
use crate::socket::{Socket, accept, peer_is_same_user};
use hostwire_core::host::{CandidateTicket, Connection, Event};
use hostwire_core::json::{RawJson, write_object};
use hostwire_core::negotiate::{ActivationToken, Grant, Offer};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a connection's task knows of a candidate.
pub(super) enum Candidate<R: Runtime> {
    /// None, or one that has become the connection for good.
    None,
    /// A bootstrap whose door is being made.
    Opening(Offer, BoxFuture<'static, Option<Opened<R>>>),
    /// A granted bootstrap that awaits its client at the door.
    Awaited { ticket: CandidateTicket, listener: R::Io, opened: Kept<R> },
    /// A granted bootstrap whose candidate this is.
    Granted(Arc<Conn<R>>),
    /// A candidate of this bootstrap, not active yet.
    Of(Arc<Conn<R>>),
    /// A candidate that is active; its client has yet to show that it knows.
    Committed(Arc<Conn<R>>),
}

/// A door that listens.
pub(super) struct Opened<R: Runtime> {
    fd: OwnedFd,
    kept: Kept<R>,
}

/// The path, and the run directory's lock for as long as it is there. In this order: the path goes first.
pub(super) struct Kept<R: Runtime> {
    door: Door,
    hold: Hold<R>,
}

impl<R: Runtime> Kept<R> {
    /// Removes the path, where blocking is allowed. Where that is lost, dropping it unrun does the same.
    fn remove(self) {
        let hub = Arc::clone(self.hold.hub());
        drop(hub.runtime.blocking(move || drop(self)));
    }
}

impl<R: Runtime> Candidate<R> {
    /// The offer was selected: makes the door.
    pub(super) fn wanted(conn: &Arc<Conn<R>>, offer: Offer) -> Self {
        let hold = conn.hub().hold();
        let work = move || {
            let (fd, door) = Door::open(hold.hub().run_dir()).ok()?;
            Some(Opened { fd, kept: Kept { door, hold } })
        };
        let opening = conn.hub().runtime.blocking(work);
        Self::Opening(offer, Box::pin(async move { opening.await.ok().flatten() }))
    }

    /// What an active connection goes over.
    pub(super) const fn transport(&self) -> &'static str {
        match self {
            Self::Of(_) | Self::Committed(_) => "candidate",
            Self::None | Self::Opening(..) | Self::Awaited { .. } | Self::Granted(_) => "tcp",
        }
    }

    /// Something has happened on this connection.
    #[inline]
    pub(super) fn observe(&mut self, event: &Event) {
        if !matches!(self, Self::Of(_) | Self::Committed(_)) {
            return; // most connections, at every event
        }
        *self = match (std::mem::replace(self, Self::None), event) {
            (Self::Of(bootstrap), Event::Active) => Self::Committed(bootstrap),
            // N10: the client has the commit's response, so the end of its bootstrap cannot overtake that.
            (Self::Committed(bootstrap), _) => {
                bootstrap.command(Connection::superseded);
                Self::None
            }
            (other, _) => other,
        };
    }

    /// Goes on with the door.
    pub(super) fn poll(&mut self, conn: &Arc<Conn<R>>, cx: &mut Context<'_>) {
        if let Self::Opening(_, opening) = self {
            let Poll::Ready(opened) = opening.as_mut().poll(cx) else { return };
            if let Self::Opening(offer, _) = std::mem::replace(self, Self::None) {
                *self = Self::grant(conn, &offer, opened);
            }
        }
        if let Self::Awaited { listener, .. } = self {
            let Poll::Ready(accepted) = poll_accept(listener, cx) else { return };
            if let Self::Awaited { ticket, listener, opened } = std::mem::replace(self, Self::None) {
                // N14: it has connected, or its time is over. Whoever else waits in the backlog is reset.
                drop(listener);
                opened.remove();
                match accepted.and_then(|fd| enter(conn, ticket, fd)) {
                    Ok(candidate) => *self = Self::Granted(candidate),
                    Err(_) => conn.abandon(), // N11
                }
            }
        }
    }

    /// Grants what was made, or says that it cannot serve now (N5).
    fn grant(conn: &Arc<Conn<R>>, offer: &Offer, opened: Option<Opened<R>>) -> Self {
        let made = opened.and_then(|Opened { fd, kept }| {
            let grant = fresh_grant(offer, kept.door.path())?;
            Some((grant, conn.hub().runtime.register(fd).ok()?, kept))
        });
        let Some((grant, listener, opened)) = made else {
            conn.command(Connection::decline_candidate);
            return Self::None;
        };
        match conn.command(|core, now| core.grant_candidate(now, grant)) {
            Some(ticket) => Self::Awaited { ticket, listener, opened },
            // It has ended meanwhile.
            None => {
                opened.remove();
                Self::None
            }
        }
    }

    /// This connection has ended (N11).
    pub(super) fn end(&mut self) {
        match std::mem::replace(self, Self::None) {
            Self::None | Self::Opening(..) => {}
            Self::Awaited { opened, .. } => opened.remove(),
            Self::Granted(candidate) => candidate.command(Connection::bootstrap_ended),
            Self::Of(bootstrap) => bootstrap.abandon(),
            Self::Committed(bootstrap) => bootstrap.command(Connection::superseded),
        }
    }
}

/// N6, N11: a token that was never used before, and where to go with it.
fn fresh_grant(offer: &Offer, path: &Path) -> Option<Grant> {
    let mut token = [0; 16];
    getrandom::fill(&mut token).ok()?;
    let path = path.to_str()?;
    let mut descriptor = Vec::new();
    write_object(&mut descriptor, |object| object.string("path", path));
    let descriptor = RawJson::new(std::str::from_utf8(&descriptor).ok()?).ok()?;
    Grant::new(offer, ActivationToken::new(token), &descriptor).ok()
}

fn poll_accept<I: Io>(listener: &I, cx: &mut Context<'_>) -> Poll<io::Result<OwnedFd>> {
    loop {
        match listener.try_io(Direction::Read, accept).result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if let Err(error) = std::task::ready!(listener.poll_read_ready(cx)) {
                    return Poll::Ready(Err(error));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            accepted => return Poll::Ready(accepted),
        }
    }
}

/// The candidate as a connection of its own; its place among the connections is the bootstrap's (N10).
fn enter<R: Runtime>(
    bootstrap: &Arc<Conn<R>>,
    ticket: CandidateTicket,
    fd: OwnedFd,
) -> io::Result<Arc<Conn<R>>> {
    if !peer_is_same_user(&fd)? {
        return Err(io::ErrorKind::PermissionDenied.into()); // N14
    }
    let hub = bootstrap.hub();
    let io = hub.runtime.register(fd)?;
    let core = Connection::candidate(hub.now(), ticket, Arc::clone(&hub.core));
    let driver = Driver::new(hub.runtime.clone(), Socket::new(io));
    let candidate = Conn::new(Arc::clone(hub), hub.next_owner(), core, driver);
    hub.enter(&candidate);
    if hub.is_draining() {
        candidate.begin_drain(); // H5: it may have come too late to be told with the others
    }
    hub.runtime.spawn(Task::new(Arc::clone(&candidate), Candidate::Of(Arc::clone(bootstrap))));
    Ok(candidate)
}
