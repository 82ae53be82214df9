//! Integration tests of the shell.

#[cfg(unix)]
mod discovery;
mod turn;
