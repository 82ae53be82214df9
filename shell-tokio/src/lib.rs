//! hostwire on tokio.
