//! Proof that `hostwire-core` needs no std: a static library with its own panic handler and allocator that links it.
//!
//! If the core or any crate below it used std, there would be two panic handlers in this library, and it would not
//! build. Nothing here is ever run.
#![no_std]

use hostwire_core::client::{Config, ConfigError, Connection};
use hostwire_core::time::Instant;
use hostwire_core::wire::Header;

#[global_allocator]
static ALLOCATOR: emballoc::Allocator<65_536> = emballoc::Allocator::new();

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Pulls the wire in.
#[must_use]
pub fn is_header(bytes: &[u8; 21]) -> bool {
    Header::decode(bytes).is_ok()
}

/// Pulls a whole connection in.
///
/// # Errors
/// As the connection says.
pub fn connect(config: Config) -> Result<Connection, ConfigError> {
    Connection::new(Instant::ZERO, config)
}
