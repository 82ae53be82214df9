//! The fixed secrets of protocol.md §5, and configurations made from them.

use hostwire_core::auth::{Credentials, DaemonId, Key, Nonce};
use hostwire_core::client;
use hostwire_core::control::{Identity, Manifest, Role, RouteOpen, Target};
use hostwire_core::host::{ComponentSpec, Declaration, HostConfig, HostLimits, HostTimeouts, Shared};
use hostwire_core::limits::{ClientLimits, ClientTimeouts};
use hostwire_core::negotiate::{OfferList, Served};
use hostwire_core::time::Instant;
use std::sync::Arc;
use std::time::Duration;

fn counted<const N: usize>(first: u8) -> [u8; N] {
    let mut next = first;
    [(); N].map(|()| {
        let now = next;
        next += 1;
        now
    })
}

pub(crate) fn server_nonce() -> Nonce {
    Nonce::new(counted(0x40))
}

/// A client's configuration; its setup may take two seconds.
#[must_use]
pub fn client_config(limits: ClientLimits) -> client::Config {
    client::Config {
        credentials: Credentials {
            key: Key::new(counted(0)),
            daemon_id: DaemonId::new(counted(0x60)),
            daemon_ver: "example/0.1.0".into(),
        },
        nonce: Nonce::new(counted(0x20)),
        role: "client".into(),
        offers: OfferList::tcp_only(),
        limits,
        timeouts: ClientTimeouts::default(),
        setup_deadline: Instant::ZERO + Duration::from_secs(2),
    }
}

/// A host with one component, `sim`, of the general class.
///
/// # Panics
/// If the limits cannot hold.
#[must_use]
pub fn host_shared(limits: HostLimits, timeouts: HostTimeouts) -> Arc<Shared> {
    let manifest = Manifest::new("sim", "1", Role::ToolProvider).expect("a valid manifest");
    let config = HostConfig {
        limits,
        timeouts,
        key: Key::new(counted(0)),
        daemon_id: DaemonId::new(counted(0x60)),
        daemon_ver: "example/0.1.0".into(),
        components: vec![ComponentSpec { manifest, declaration: Declaration::default() }],
        served: Served::default(),
        catalog_generation: 1,
    };
    Shared::new(config).expect("limits that hold")
}

/// A request for a route to `sim`.
///
/// # Panics
/// Never: its parts are constant and valid.
#[must_use]
pub fn route_open() -> RouteOpen {
    let target = Target::new("tool_provider", "sim").expect("a valid target");
    RouteOpen::new(target, Identity::new("/", "sim", "session").expect("a valid identity"))
}
