//! hostwire on smol.
