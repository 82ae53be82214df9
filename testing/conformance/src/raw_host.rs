//! A host that does what a test says, byte by byte, over a blocking socket on a thread of its own.

use hostwire::core::auth::{Credentials, DaemonId, HostHandshake, Key, MessageReader, Nonce};
use hostwire::core::control::encode_route_opened;
use hostwire::core::negotiate::Response;
use hostwire::core::wire::{Correlation, Flags, FrameType, HEADER_LEN, Header, Identity, RouteHandle};
use hostwire::testing::pair;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A frame as it came.
#[derive(Debug)]
pub struct Frame {
    /// Its header.
    pub header: Header,
    /// Its body.
    pub body: Vec<u8>,
}

impl Frame {
    /// The frame's correlation.
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    pub fn correlation(&self) -> Correlation {
        self.header.identity.correlation().expect("a correlation")
    }
}

/// One end of a socket, in a test's hands. Everything panics on what the test did not foresee.
#[derive(Debug)]
pub struct RawHost {
    stream: UnixStream,
    /// Read ahead by the handshake.
    ahead: Vec<u8>,
}

/// What the raw host and its clients agree on.
#[must_use]
pub fn credentials() -> Credentials {
    Credentials { key: Key::new([7; 32]), daemon_id: DaemonId::new([9; 16]), daemon_ver: "raw/1".into() }
}

impl RawHost {
    /// A raw host, and the non-blocking socket that a client gets.
    ///
    /// # Panics
    /// If the system has no sockets left.
    #[must_use]
    pub fn new() -> (Self, OwnedFd) {
        let (ours, theirs) = pair().expect("a pair of sockets");
        (Self::over(UnixStream::from(ours)), theirs)
    }

    /// A raw host over any stream socket.
    ///
    /// # Panics
    /// If the socket cannot be set up.
    #[must_use]
    pub fn over(stream: UnixStream) -> Self {
        stream.set_nonblocking(false).expect("a blocking socket");
        // A test that waits for what never comes fails instead of hanging.
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        Self { stream, ahead: Vec::new() }
    }

    /// The socket itself.
    #[must_use]
    pub const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Bytes as they are.
    ///
    /// # Panics
    /// If they cannot be written.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("written");
    }

    fn message(&mut self) -> Vec<u8> {
        let mut reader = MessageReader::new();
        loop {
            let (consumed, message) = reader.handle_input(&self.ahead).expect("a message");
            self.ahead.drain(..consumed);
            if let Some(message) = message {
                return message;
            }
            let mut buffer = [0; 4_096];
            let n = self.stream.read(&mut buffer).expect("read");
            assert_ne!(n, 0, "the client closed during the handshake");
            self.ahead.extend_from_slice(&buffer[..n]);
        }
    }

    /// Authenticates both ways.
    ///
    /// # Panics
    /// If the client does not do its part.
    pub fn authenticate(&mut self) {
        self.authenticate_as(credentials().daemon_id);
    }

    fn authenticate_as(&mut self, daemon_id: DaemonId) {
        let Credentials { key, daemon_ver, .. } = credentials();
        let handshake =
            HostHandshake::new(key, daemon_id, &daemon_ver, Nonce::new([3; 32])).expect("a handshake");
        let hello = self.message();
        let (answer, challenge) = handshake.handle_client_hello(&hello).expect("the client's hello");
        self.send_raw(&answer);
        let auth = self.message();
        challenge.handle_client_auth(&auth).expect("the client's proof");
    }

    /// Authenticates and selects TCP.
    ///
    /// # Panics
    /// If the client does not do its part.
    pub fn set_up(&mut self) {
        self.set_up_as(credentials().daemon_id);
    }

    /// As [`RawHost::set_up`], as another incarnation.
    ///
    /// # Panics
    /// If the client does not do its part.
    pub fn set_up_as(&mut self, daemon_id: DaemonId) {
        self.authenticate_as(daemon_id);
        let request = self.frame();
        assert_eq!(request.correlation(), Correlation::FIRST);
        self.respond(&request, &Response::Tcp { reason: None }.encode());
    }

    fn fill(&mut self, buffer: &mut [u8]) -> bool {
        let ahead = self.ahead.len().min(buffer.len());
        buffer[..ahead].copy_from_slice(&self.ahead[..ahead]);
        self.ahead.drain(..ahead);
        match self.stream.read_exact(&mut buffer[ahead..]) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                assert_eq!(ahead, 0, "the client closed inside a frame");
                false
            }
            Err(error) => panic!("the client sends nothing: {error}"),
        }
    }

    /// The next frame, or `None` at the client's end.
    ///
    /// # Panics
    /// If no whole frame comes.
    pub fn next_frame(&mut self) -> Option<Frame> {
        let mut head = [0; HEADER_LEN];
        if !self.fill(&mut head) {
            return None;
        }
        let header = Header::decode(&head).expect("a header");
        let mut body = vec![0; header.len as usize];
        assert!(body.is_empty() || self.fill(&mut body), "a whole frame");
        Some(Frame { header, body })
    }

    /// The next frame.
    ///
    /// # Panics
    /// If none comes.
    pub fn frame(&mut self) -> Frame {
        self.next_frame().expect("a frame")
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn send(&mut self, kind: FrameType, flags: Flags, identity: Identity, body: &[u8]) {
        let len = u32::try_from(body.len()).expect("a frame's length");
        let mut bytes = Header { len, kind, flags, identity }.encode().to_vec();
        bytes.extend_from_slice(body);
        self.send_raw(&bytes);
    }

    /// Answers a request.
    pub fn respond(&mut self, to: &Frame, body: &[u8]) {
        self.send(FrameType::Response, Flags::terminal(false), to.header.identity, body);
    }

    /// Answers a request with an error of this code.
    pub fn refuse(&mut self, to: &Frame, code: &str) {
        let body = format!(r#"{{"code":"{code}","message":"as the test says"}}"#);
        self.send(FrameType::Error, Flags::terminal(false), to.header.identity, body.as_bytes());
    }

    /// Sends an item of a stream.
    pub fn item(&mut self, to: &Frame, body: &[u8]) {
        let flags = Flags::data(false, to.header.flags.priority);
        self.send(FrameType::StreamData, flags, to.header.identity, body);
    }

    /// Ends a stream.
    pub fn end_stream(&mut self, to: &Frame) {
        self.send(FrameType::StreamEnd, Flags::terminal(false), to.header.identity, b"");
    }

    /// Takes a `route.open` and grants this route.
    ///
    /// # Panics
    /// If something else comes.
    pub fn grant(&mut self, channel: u16, epoch: u32) -> Frame {
        let request = self.frame();
        let text = String::from_utf8_lossy(&request.body);
        assert!(text.contains(r#""op":"route.open""#), "{text}");
        self.respond(&request, &encode_route_opened(RouteHandle::new(channel, epoch).expect("a route")));
        request
    }

    /// Closes the host's writing side.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("half closed");
    }

    /// Reads to the client's end; returns the frames on the way there.
    pub fn rest(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.next_frame()).collect()
    }
}
