//! The control channel: its operations, their bounds, the error body, and the table of targets (C1–C12, §8).
//!
//! Owns what a control body may say and how it is spelled, in both directions. It decides nothing about connections:
//! who may ask when, what a permit costs and who answers is the roles' business. Whatever is refused here is refused
//! with a fixed code, and identity values are never printed (Z1).

mod catalog;
mod error;
mod identity;
mod open;
mod request;
mod target;

pub use catalog::{
    Catalog, CatalogEntry, CatalogError, CatalogReply, SUBC_OPS, decode_catalog, encode_catalog_list,
};
pub use error::{ErrorBody, HostCode, MAX_CODE_BYTES, MAX_ERROR_MESSAGE_BYTES, MalformedError, is_code};
pub use identity::{ConsumerIdentity, Identity, Target};
pub use open::{MAX_CAPABILITIES, RouteOpen, decode_route_opened, encode_route_opened};
pub use request::{ControlError, ControlRequest, SHUTDOWN_BODY, decode_request, decode_shutdown_committed};
pub use target::{Manifest, ManifestError, Resolution, Role, RouteClass, Targets};

pub(crate) use request::expect_op;

/// The longest control body (C1).
pub const MAX_BODY_BYTES: usize = crate::wire::MAX_CONTROL_BODY as usize;

/// The operations' names (C5), frozen.
pub(crate) mod op {
    pub(crate) const ROUTE_OPEN: &str = "route.open";
    pub(crate) const CATALOG_LIST: &str = "catalog.list";
    pub(crate) const HOST_SHUTDOWN: &str = "host.shutdown";
    pub(crate) const NEGOTIATE: &str = "transport.negotiate";
    pub(crate) const ACTIVATE: &str = "transport.activate";
    pub(crate) const COMMIT: &str = "transport.commit";
}

/// C2's limits, in bytes of UTF-8.
mod limit {
    pub(super) const OP: usize = 64;
    pub(super) const KIND: usize = 64;
    pub(super) const MODULE_ID: usize = 128;
    pub(super) const PROJECT_ROOT: usize = 4096;
    pub(super) const HARNESS: usize = 128;
    pub(super) const SESSION: usize = 256;
    pub(super) const LAUNCH_NONCE: usize = 256;
    pub(super) const CAPABILITY: usize = 64;
    pub(super) const ADMISSION_FACTS: usize = 8192;
    /// No contract bounds a version; ours keeps the catalog small.
    pub(super) const MODULE_VERSION: usize = 128;
}

/// C2 for a value that this side's caller gave.
fn check(
    member: &'static str,
    text: &str,
    max_bytes: usize,
) -> Result<alloc::boxed::Box<str>, crate::json::ReadError> {
    match crate::json::check_name(text, max_bytes) {
        Ok(()) => Ok(text.into()),
        Err(problem) => Err(crate::json::ReadError { member, problem }),
    }
}
