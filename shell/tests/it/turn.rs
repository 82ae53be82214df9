//! `turn` against a transport that misbehaves.

use hostwire::core::auth::{Credentials, DaemonId, Key, Nonce};
use hostwire::core::body::BodyLease;
use hostwire::core::client::{Config, Connection};
use hostwire::core::endpoint::WriteFailure;
use hostwire::core::fault::CloseReason;
use hostwire::core::limits::{ClientLimits, ClientTimeouts};
use hostwire::core::negotiate::OfferList;
use hostwire::core::time::Instant;
use hostwire::runtime::Tried;
use hostwire::turn::{Freshness, Link, Seat, Transport, Turn, turn};
use std::cell::Cell;
use std::time::Duration;

/// Takes nothing and reports no error.
#[derive(Default)]
struct Numb {
    writes: Cell<usize>,
}

impl Transport for Numb {
    const WRITE_FAILURE: WriteFailure = WriteFailure::NothingAccepted;

    fn read(&self, _: &mut [u8], _: Freshness) -> Tried<usize> {
        Tried::would_block()
    }

    fn read_lease(&self, _: &mut BodyLease, _: usize, _: Freshness) -> Tried<usize> {
        Tried::would_block()
    }

    fn write(&self, segments: &[&[u8]], _: usize) -> Tried<usize> {
        assert!(segments.iter().any(|segment| !segment.is_empty()));
        self.writes.set(self.writes.get() + 1);
        Tried { result: Ok(0), exhausted: false }
    }

    fn half_close(&self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Alone(Connection);

impl Seat for Alone {
    type Core = Connection;

    fn with<T>(&mut self, step: impl FnOnce(&mut Connection) -> T) -> T {
        step(&mut self.0)
    }

    fn settle(&mut self, _: Instant) -> bool {
        self.0.poll_event().is_some()
    }
}

#[test]
fn b117_a_write_of_nothing_is_a_lost_connection_and_not_a_spin() {
    let now = Instant::ZERO + Duration::from_secs(1);
    let config = Config {
        credentials: Credentials {
            key: Key::new([7; 32]),
            daemon_id: DaemonId::new([9; 16]),
            daemon_ver: "numb/1".into(),
        },
        nonce: Nonce::new([1; 32]),
        role: "client".into(),
        offers: OfferList::tcp_only(),
        limits: ClientLimits::default(),
        timeouts: ClientTimeouts::default(),
        setup_deadline: now + Duration::from_secs(2),
    };
    let mut seat = Alone(Connection::new(now, config).expect("a configuration"));
    let (transport, mut link) = (Numb::default(), Link::new());
    assert_eq!(turn(&mut link, &transport, &mut seat, now), Turn::Closed);
    assert_eq!(transport.writes.get(), 1);
    assert_eq!(seat.0.close_reason(), Some(CloseReason::Io));
}
