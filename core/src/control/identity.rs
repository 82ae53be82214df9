//! Whom a route is for and whom it is to: values that C2 bounds, and that hold within their bounds once they exist.

use alloc::boxed::Box;
use core::fmt;

use super::{check, limit};
use crate::json::{ObjectWriter, Problem, ReadError, Value};

/// What a route is opened to. Whether it exists is the table's to say ([`Targets`](super::Targets)).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    kind: Box<str>,
    module_id: Box<str>,
}

impl Target {
    /// A target of this kind and module.
    ///
    /// # Errors
    ///
    /// Either is empty, has a NUL, or is longer than 64 and 128 bytes (C2).
    pub fn new(kind: &str, module_id: &str) -> Result<Self, ReadError> {
        Ok(Self {
            kind: check("kind", kind, limit::KIND)?,
            module_id: check("module_id", module_id, limit::MODULE_ID)?,
        })
    }

    /// The kind: a role, if it is one that the host knows.
    #[must_use]
    pub const fn kind(&self) -> &str {
        &self.kind
    }

    /// The component's module ID.
    #[must_use]
    pub const fn module_id(&self) -> &str {
        &self.module_id
    }

    pub(super) fn decode(value: Value<'_>) -> Result<Self, ReadError> {
        let [kind, module_id] = value.object()?.pick(["kind", "module_id"]);
        Ok(Self {
            kind: kind.required()?.name(limit::KIND)?.into(),
            module_id: module_id.required()?.name(limit::MODULE_ID)?.into(),
        })
    }

    pub(super) fn encode(&self, to: &mut ObjectWriter<'_>) {
        to.string("kind", &self.kind);
        to.string("module_id", &self.module_id);
    }
}

/// What a route's state is scoped to. Claims, not rights (T2); never printed (Z1).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    project_root: Box<str>,
    harness: Box<str>,
    session: Box<str>,
}

impl Identity {
    /// An identity of these values.
    ///
    /// # Errors
    ///
    /// One of them is empty, has a NUL, or is longer than 4,096, 128 and 256 bytes; or the root is not absolute (C2).
    pub fn new(project_root: &str, harness: &str, session: &str) -> Result<Self, ReadError> {
        absolute(project_root)?;
        Ok(Self {
            project_root: check("project_root", project_root, limit::PROJECT_ROOT)?,
            harness: check("harness", harness, limit::HARNESS)?,
            session: check("session", session, limit::SESSION)?,
        })
    }

    /// The project's absolute path. Nobody has looked whether it exists.
    #[must_use]
    pub const fn project_root(&self) -> &str {
        &self.project_root
    }

    /// The program that the user works in.
    #[must_use]
    pub const fn harness(&self) -> &str {
        &self.harness
    }

    /// The session within it.
    #[must_use]
    pub const fn session(&self) -> &str {
        &self.session
    }

    pub(super) fn decode(value: Value<'_>) -> Result<Self, ReadError> {
        let [root, harness, session] = value.object()?.pick(["project_root", "harness", "session"]);
        let root = root.required()?.name(limit::PROJECT_ROOT)?;
        absolute(&root)?;
        Ok(Self {
            project_root: root.into(),
            harness: harness.required()?.name(limit::HARNESS)?.into(),
            session: session.required()?.name(limit::SESSION)?.into(),
        })
    }

    pub(super) fn encode(&self, to: &mut ObjectWriter<'_>) {
        to.string("project_root", &self.project_root);
        to.string("harness", &self.harness);
        to.string("session", &self.session);
    }
}

/// C3: a relative root is refused on its spelling, before any file access.
fn absolute(root: &str) -> Result<(), ReadError> {
    // An empty root is refused as empty.
    if root.is_empty() || root.starts_with('/') {
        Ok(())
    } else {
        Err(ReadError { member: "project_root", problem: Problem::NotAllowed })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// Which launched module the client says it is (C11). A claim (T2); never printed (Z1).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ConsumerIdentity {
    module_id: Box<str>,
    launch_nonce: Box<str>,
}

impl ConsumerIdentity {
    /// A consumer of this module ID and launch nonce.
    ///
    /// # Errors
    ///
    /// Either is empty, has a NUL, or is longer than 128 and 256 bytes (C2).
    pub fn new(module_id: &str, launch_nonce: &str) -> Result<Self, ReadError> {
        Ok(Self {
            module_id: check("module_id", module_id, limit::MODULE_ID)?,
            launch_nonce: check("launch_nonce", launch_nonce, limit::LAUNCH_NONCE)?,
        })
    }

    /// The consumer's module ID.
    #[must_use]
    pub const fn module_id(&self) -> &str {
        &self.module_id
    }

    /// The nonce that it was launched with.
    #[must_use]
    pub const fn launch_nonce(&self) -> &str {
        &self.launch_nonce
    }

    pub(super) fn decode(value: Value<'_>) -> Result<Self, ReadError> {
        // C2: both members or malformed.
        let [module_id, launch_nonce] = value.object()?.pick(["module_id", "launch_nonce"]);
        Ok(Self {
            module_id: module_id.required()?.name(limit::MODULE_ID)?.into(),
            launch_nonce: launch_nonce.required()?.name(limit::LAUNCH_NONCE)?.into(),
        })
    }

    pub(super) fn encode(&self, to: &mut ObjectWriter<'_>) {
        to.string("module_id", &self.module_id);
        to.string("launch_nonce", &self.launch_nonce);
    }
}

impl fmt::Debug for ConsumerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConsumerIdentity(..)")
    }
}
