//! The system calls on stream sockets, all non-blocking and close-on-exec, none able to raise SIGPIPE.
//!
//! Owns the calls and the two per-thread buffers they share (one to read into, one to gather small frames in). Waiting belongs
//! to the runtime; meaning belongs to the core.

mod buffers;
mod open;
mod transfer;

pub use buffers::with_read_buffer;
pub use open::{
    Listener, accept, bind_unix, connect_tcp, connect_unix, listen_tcp, listen_unix, pair, peer_is_same_user,
};
pub(crate) use transfer::Farewell;
pub use transfer::{FdTransport, Socket, receive, receive_lease, send_segments};

/// Bytes of the per-thread read buffer.
pub const READ_BUFFER: usize = 64 * 1_024;
/// Segments shorter than this are copied together before a write; longer ones are pointed at.
pub const GATHER_BELOW: usize = 4 * 1_024;
