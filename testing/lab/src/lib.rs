//! Components to test hostwire hosts and clients against.
