//! Making sockets: connecting, listening, accepting.

use crate::runtime::{Direction, Io, Runtime, Tried};
use crate::turn::WRITE_MAX;
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_reuseaddr, set_socket_send_buffer_size, set_tcp_nodelay, socket_error, socket_peercred,
    socket_send_buffer_size,
};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    getpeername, getsockname, ipproto, listen, socket_with, socketpair,
};
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1_024;

/// B119: a child never inherits a socket.
fn flags() -> SocketFlags {
    SocketFlags::CLOEXEC | SocketFlags::NONBLOCK
}

/// Connects to a port on numeric IPv4 loopback (T3), with TCP_NODELAY.
///
/// Dropping the future closes the socket.
///
/// # Errors
/// As the system reports; a socket that was connected to itself counts as refused.
pub async fn connect_tcp<R: Runtime>(runtime: &R, port: u16) -> io::Result<R::Io> {
    let fd = socket_with(AddressFamily::INET, SocketType::STREAM, flags(), Some(ipproto::TCP))?;
    set_tcp_nodelay(&fd, true)?;
    match connect(&fd, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let io = runtime.register(fd)?;
    let peer = loop {
        match io.try_io(Direction::Write, connected).result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|cx| io.poll_write_ready(cx)).await?;
            }
            Err(error) => return Err(error),
            Ok(peer) => break peer,
        }
    };
    // With nobody listening, a port of the ephemeral range can be connected to itself, and would then stay taken.
    if getsockname(&io)? == peer {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(io)
}

/// To whom, once it is connected.
fn connected(fd: BorrowedFd<'_>) -> Tried<SocketAddrAny> {
    let state = socket_error(fd)
        .and_then(|pending| pending)
        .and_then(|()| getpeername(fd))
        .and_then(|peer| peer.ok_or(Errno::NOTCONN));
    Tried::whole(match state {
        Ok(peer) => Ok(peer),
        Err(Errno::NOTCONN) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error.into()),
    })
}

/// Connects to a Unix domain socket. Never waits: a full backlog is an error.
///
/// # Errors
/// As the system reports.
pub fn connect_unix<R: Runtime>(runtime: &R, path: &Path) -> io::Result<R::Io> {
    runtime.register(connected_unix(path)?)
}

fn connected_unix(path: &Path) -> io::Result<OwnedFd> {
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags(), None)?;
    widen(&fd);
    connect(&fd, &SocketAddrUnix::new(path)?)?;
    Ok(fd)
}

/// Gives a Unix domain socket room for one write of [`WRITE_MAX`], as far as the system lets it.
///
/// Its buffer does not grow with its traffic as a TCP socket's does, and what it has by default is less: both sides would be asleep
/// and woken several times for each MiB.
fn widen(fd: &OwnedFd) {
    // Twice what is set counts, since half of it is for what the system adds. A refusal costs speed only.
    if socket_send_buffer_size(fd).is_ok_and(|size| size < 2 * WRITE_MAX) {
        let _ = set_socket_send_buffer_size(fd, WRITE_MAX);
    }
}

/// A listening socket, not yet under a runtime.
#[derive(Debug)]
pub struct Listener {
    /// The descriptor, to be registered with a runtime.
    pub fd: OwnedFd,
    /// The port it listens on.
    pub port: u16,
}

/// Listens on numeric IPv4 loopback (T3); port 0 takes any free one.
///
/// # Errors
/// As the system reports.
pub fn listen_tcp(port: u16) -> io::Result<Listener> {
    let fd = socket_with(AddressFamily::INET, SocketType::STREAM, flags(), Some(ipproto::TCP))?;
    set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    listen(&fd, BACKLOG)?;
    let port = SocketAddrV4::try_from(getsockname(&fd)?)?.port();
    Ok(Listener { fd, port })
}

/// Binds a Unix domain socket to a path where nothing stands yet. Nobody can connect to it before [`listen_unix`], so that is the
/// moment to set its mode, which until then is what the umask has made it.
///
/// # Errors
/// As the system reports, and for a path that is too long for an address.
pub fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags(), None)?;
    bind(&fd, &address)?;
    Ok(fd)
}

/// Listens on a bound Unix domain socket for one connection.
///
/// # Errors
/// As the system reports.
pub fn listen_unix(fd: &OwnedFd) -> io::Result<()> {
    Ok(listen(fd, 1)?)
}

/// Accepts one connection, close-on-exec and non-blocking, with TCP_NODELAY where that exists.
pub fn accept(fd: BorrowedFd<'_>) -> Tried<OwnedFd> {
    let accepted = rustix::io::retry_on_intr(|| accept_with(fd, flags()));
    if let Ok(fd) = &accepted {
        // A Unix domain socket refuses that and needs none.
        if set_tcp_nodelay(fd, true).is_err() {
            widen(fd);
        }
    }
    Tried::whole(accepted.map_err(Into::into))
}

/// Two connected sockets without an address.
///
/// # Errors
/// As the system reports.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, flags(), None)?)
}

/// Whether the process at the other end of a Unix domain socket runs under this process's effective user ID (N14).
///
/// # Errors
/// As the system reports.
pub fn peer_is_same_user(fd: impl AsFd) -> io::Result<bool> {
    Ok(socket_peercred(fd)?.uid == rustix::process::geteuid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, fcntl_getfd};

    #[test]
    fn b119_every_socket_is_closed_on_exec() {
        let listener = listen_tcp(0).unwrap();
        assert_ne!(listener.port, 0);
        let client = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, listener.port)).unwrap();
        let accepted = accept(listener.fd.as_fd()).result.unwrap();
        let (a, b) = pair().unwrap();
        for fd in [&listener.fd, &accepted, &a, &b] {
            assert!(fcntl_getfd(fd).unwrap().contains(FdFlags::CLOEXEC));
            assert!(rustix::fs::fcntl_getfl(fd).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
        }
        assert!(rustix::net::sockopt::tcp_nodelay(&accepted).unwrap());
        drop(client);
    }

    #[test]
    fn an_empty_backlog_would_block() {
        let listener = listen_tcp(0).unwrap();
        let none = accept(listener.fd.as_fd());
        assert_eq!(none.result.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(none.exhausted);
    }

    #[test]
    fn both_ends_of_a_unix_domain_socket_have_room_for_more_than_by_default() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = bind_unix(&path).unwrap();
        listen_unix(&listener).unwrap();
        let client = connected_unix(&path).unwrap();
        let accepted = accept(listener.as_fd()).result.unwrap();
        let (plain, _other) = pair().unwrap();
        let size = |fd: &OwnedFd| socket_send_buffer_size(fd).unwrap();
        let least = (2 * WRITE_MAX).min(size(&plain) + 1);
        assert!(size(&client) >= least && size(&accepted) >= least);
    }

    #[test]
    fn n14_a_peer_of_this_process_is_the_same_user() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = bind_unix(&path).unwrap();
        assert!(std::os::unix::net::UnixStream::connect(&path).is_err(), "not before it listens");
        listen_unix(&listener).unwrap();
        let client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let accepted = accept(listener.as_fd()).result.unwrap();
        assert!(peer_is_same_user(&accepted).unwrap());
        assert!(peer_is_same_user(&client).unwrap());
    }
}
