//! The hostwire protocol as a pure state machine: bytes in; frames, events, deadlines and bytes out.
//!
//! This crate has no clock, no socket, no thread and no randomness (`no_std`, and the compiler checks it). Time and nonces are arguments;
//! the same inputs give the same outputs. Whoever owns a transport drives one value per connection, [`client::Connection`] or
//! [`host::Connection`]; both are [`endpoint::Endpoint`]s. The crate `hostwire` does that for async runtimes.
//!
//! # The loop
//!
//! A client over a plain `std::net::TcpStream`: write what is offered and say how much was taken, give what was read, take the events,
//! and keep the deadline. Nothing else is asked of a driver.
//!
//! ```no_run
//! use hostwire_core::client::{Connection, Event};
//! use hostwire_core::endpoint::{Disconnect, WriteFailure};
//! use hostwire_core::time::Instant;
//! use std::io::{Read, Write};
//!
//! fn drive(conn: &mut Connection, socket: &mut std::net::TcpStream) -> std::io::Result<()> {
//!     let epoch = std::time::Instant::now();
//!     let now = || Instant::from_micros(epoch.elapsed().as_micros() as u64);
//!     let mut buffer = vec![0; 65_536];
//!     loop {
//!         while let Some(event) = conn.poll_event() {
//!             match event {
//!                 Event::Settled { op, outcome, .. } => println!("{op:?}: {outcome:?}"),
//!                 Event::Closed { reason, .. } => return Ok(println!("{reason}")),
//!                 other => println!("{other:?}"),
//!             }
//!         }
//!         while let Some(offer) = conn.poll_transmit(now()) {
//!             let mut segments = [&[][..]; 1];
//!             offer.segments(&mut segments);
//!             match socket.write(segments[0]) {
//!                 // The count is the proof behind `not_sent`: say exactly what was taken.
//!                 Ok(n) if n > 0 => drop(offer.written(n)),
//!                 _ => offer.failed(WriteFailure::NothingAccepted),
//!             }
//!         }
//!         let wait = conn.deadline().map(|deadline| deadline.at.saturating_since(now()));
//!         socket.set_read_timeout(wait.map(|wait| wait.max(std::time::Duration::from_micros(1))))?;
//!         match socket.read(&mut buffer) {
//!             Ok(0) => conn.handle_eof(now()),
//!             Ok(n) => drop(conn.handle_input(now(), &buffer[..n])),
//!             Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
//!             Err(_) => conn.handle_disconnect(now(), Disconnect::ReadFailed),
//!         }
//!         conn.handle_timeout(now());
//!     }
//! }
//! ```
//!
//! # Outcomes
//!
//! Every request that was admitted settles exactly once, as one of three things ([`outcome::Outcome`]): `not_sent`, proof that no byte of it
//! reached the transport; `outcome_unknown`, when that proof is missing and no terminal was seen; `terminal`, when one was.
//!
//! # Limits
//!
//! Every capacity and duration is a number in [`limits`], finite, with the contract's default. What a connection can hold in memory follows
//! from them: [`client::Connection::memory_bound`], [`host::Shared::connection_bound`], [`host::Shared::memory_bound`].
//!
//! # Where things are
//!
//! | module | owns | protocol.md |
//! | --- | --- | --- |
//! | [`wire`] | headers, flags, the legality table | §6, §7 |
//! | [`json`] | strict reading of every JSON text | C2, C3, C7, N3, N4 |
//! | [`auth`] | the handshake before any envelope | §5 |
//! | [`control`] | operations, identity, error bodies, targets | §8 |
//! | [`negotiate`] | offers, selection, candidates | §9 |
//! | [`discovery`], [`lifecycle`] | the two files' schemas, the probe's table | §3, §4 |
//! | [`transmit`], [`receive`] | the linear offer; frames put together | W6–W12, B2, B10 |
//! | [`body`], [`budget`] | bodies that carry their charge | §14 |
//! | [`outcome`], [`fault`] | the three-way truth; why things end | §12, §13 |
//! | [`client`], [`host`] | the two roles | §10–§17 |
//! | [`child`] | a child process: its queue, the order of its teardown, the truth about its end | – |

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, reason = "test data is made from counters"))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod auth;
pub mod body;
pub mod budget;
pub mod child;
pub mod client;
pub mod control;
pub mod counters;
pub mod discovery;
pub mod endpoint;
pub mod fault;
mod hash;
pub mod host;
pub mod json;
pub mod lifecycle;
pub mod limits;
pub mod negotiate;
pub mod outcome;
pub mod receive;
pub mod time;
mod timers;
pub mod transmit;
pub mod wire;
