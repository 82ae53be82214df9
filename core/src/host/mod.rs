//! The host's side: connections, and what they share.
//!
//! ```text
//!            Shared (Arc): permits, pools, latch, catalog          Registry: channels, epochs
//!               ▲                ▲                                    ▲ claim, bind, close, gone
//!          Connection       Connection  ── events ──▶  embedder ──────┘
//!               ▲                ▲      ◀─ answers ──
//!             bytes            bytes
//! ```
//!
//! A [`Connection`] emits [`Event`]s; the embedder asks the [`Registry`] for channels, runs the components' callbacks, and answers.
//! Where a request passes, what connections share are counters: no lock is taken and nothing is allocated beyond its body.
//!
//! A host with one component that echoes, and both ends of a connection in one process:
//!
//! ```
//! # use hostwire_core::auth::{Credentials, DaemonId, Key, Nonce};
//! # use hostwire_core::client;
//! # use hostwire_core::control::{Identity, Manifest, Role, RouteOpen, Target};
//! # use hostwire_core::endpoint::Endpoint;
//! # use hostwire_core::limits::{ClientLimits, ClientTimeouts};
//! # use hostwire_core::negotiate::{OfferList, Served};
//! # use hostwire_core::outcome::{Outcome, Terminal};
//! # use hostwire_core::time::Instant;
//! # use hostwire_core::transmit::MAX_SEGMENTS;
//! # use std::sync::Arc;
//! use hostwire_core::host::*;
//!
//! # let (now, late) = (Instant::ZERO, Instant::FAR_FUTURE);
//! # let (key, daemon_id) = (Key::new([7; 32]), DaemonId::new([1; 16]));
//! let shared = Shared::new(HostConfig {
//!     limits: HostLimits::default(),
//!     timeouts: HostTimeouts::default(),
//!     key: key.clone(),
//!     daemon_id,
//!     daemon_ver: "example/0.1.0".into(),
//!     components: vec![ComponentSpec {
//!         manifest: Manifest::new("echo", "1.0", Role::ToolProvider)?,
//!         declaration: Declaration::default(),
//!     }],
//!     served: Served::tcp_only(),
//!     catalog_generation: 1,
//! })?;
//! let mut registry = Registry::new(shared.limits().routes);
//! let slot = shared.admit_handshake().expect("a free slot"); // else: close the socket at once
//! let mut host = Connection::new(now, slot, Nonce::new([2; 32]), Arc::clone(&shared));
//! # let credentials = Credentials { key, daemon_id, daemon_ver: "example/0.1.0".into() };
//! # let mut client = client::Connection::new(now, client::Config {
//! #     credentials, nonce: Nonce::new([3; 32]), role: "client".into(), offers: OfferList::tcp_only(),
//! #     limits: ClientLimits::default(), timeouts: ClientTimeouts::default(), setup_deadline: late,
//! # })?;
//! # let target = Target::new("tool_provider", "echo")?;
//! # let open = RouteOpen::new(target, Identity::new("/", "example", "session")?);
//! # fn pass(from: &mut dyn Endpoint, to: &mut dyn Endpoint) {
//! #     while let Some(offer) = from.poll_transmit(Instant::ZERO) {
//! #         let mut segments = [&[][..]; MAX_SEGMENTS];
//! #         let filled = offer.segments(&mut segments);
//! #         let bytes = segments[..filled].concat();
//! #         offer.written(bytes.len()).unwrap();
//! #         assert_eq!(to.handle_input(Instant::ZERO, &bytes), Ok(bytes.len()));
//! #     }
//! # }
//! # let mut echoed = None;
//! # for _ in 0..10 {
//! #     pass(&mut client, &mut host);
//!
//! // After each input: what happened?
//! while let Some(event) = host.poll_event() {
//!     match event {
//!         Event::RouteOpen { id, .. } => {
//!             let route = registry.claim(Owner(1))?;
//!             // … the component's `bind` comes here …
//!             if let Step::Publish(grant) = registry.bind_accepted(route) {
//!                 host.accept_route(now, id, grant)?;
//!             }
//!         }
//!         Event::Request { id, binary, body, permit, .. } => {
//!             host.respond(now, id, binary, body)?;
//!             drop(permit); // the handler has ended
//!         }
//!         _ => {}
//!     }
//! }
//! #     pass(&mut host, &mut client);
//! #     while let Some(event) = client.poll_event() {
//! #         match event {
//! #             client::Event::Ready { .. } => drop(client.open_route(now, &open, late).unwrap()),
//! #             client::Event::Settled { outcome: Outcome::Terminal(Terminal::RouteOpened(route)), .. } => {
//! #                 client.request(now, route, client::Request::unary(b"hello".to_vec(), late)).unwrap();
//! #             }
//! #             client::Event::Settled { outcome: Outcome::Terminal(Terminal::Response { body, .. }), .. } => {
//! #                 echoed = Some(body.as_slice().to_vec());
//! #             }
//! #             other => panic!("{other:?}"),
//! #         }
//! #     }
//! # }
//! # assert_eq!(echoed.as_deref(), Some(&b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[doc = include_str!("states.md")]
pub mod states {}

mod admission;
mod bound;
mod commands;
mod connection;
mod control;
mod counters;
mod declare;
mod end;
mod event;
mod input;
mod latch;
mod liveness;
mod output;
mod registry;
mod requests;
mod resident;
mod routes;
mod setup;
mod shared;

pub use crate::control::RouteClass;
pub use crate::limits::{HostLimits, HostTimeouts, LINGER_BYTES, LivenessTimes};
pub use admission::{Admission, Parked, Parking, Slot, TaskPermit};
pub use connection::Connection;
pub use counters::{Counters, Dropped, Refused, Retired, Settled};
pub use declare::{BoundViolation, Declaration};
pub use event::{Event, ItemRefusal, ItemRefused, StopReason, TooLate};
pub use latch::ShutdownLatch;
pub use registry::{NoChannel, Owner, Registry, RouteGrant, Step};
pub use requests::RequestId;
pub use resident::{Resident, SMALL_BODY, Split};
pub use setup::CandidateTicket;
pub use shared::{ComponentSpec, HostConfig, Shared, StartError};
