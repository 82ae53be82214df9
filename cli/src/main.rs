//! The `hostwire` program.
fn main() {}
