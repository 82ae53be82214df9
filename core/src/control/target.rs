//! The table of components that the embedder gives at startup, and what it says of a target (§8).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::identity::Target;
use super::{check, limit};
use crate::json::ReadError;

/// What a component is to its clients; the recognized kinds of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// `tool_provider`
    ToolProvider,
    /// `management_surface`
    ManagementSurface,
}

impl Role {
    /// The kind that asks for this role.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ToolProvider => "tool_provider",
            Self::ManagementSurface => "management_surface",
        }
    }

    /// The role that a kind asks for, if it is a recognized one.
    #[must_use]
    pub fn parse(kind: &str) -> Option<Self> {
        [Self::ToolProvider, Self::ManagementSurface].into_iter().find(|role| role.as_str() == kind)
    }
}

/// Which permits and tasks a route draws from (B7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum RouteClass {
    /// Shared by all.
    #[default]
    General,
    /// Set aside for the component that declared it.
    Reserved,
}

/// What one component says of itself at startup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    module_id: Box<str>,
    module_version: Box<str>,
    role: Role,
    provides: Vec<Box<str>>,
    class: RouteClass,
}

impl Manifest {
    /// A component of this ID, version and role, of the general class, that provides nothing by name.
    ///
    /// # Errors
    ///
    /// An ID or version that is empty, has a NUL, or has more than 128 bytes.
    pub fn new(module_id: &str, module_version: &str, role: Role) -> Result<Self, ReadError> {
        Ok(Self {
            module_id: check("module_id", module_id, limit::MODULE_ID)?,
            module_version: check("module_version", module_version, limit::MODULE_VERSION)?,
            role,
            provides: Vec::new(),
            class: RouteClass::General,
        })
    }

    /// What the catalog lists as the component's `roles`, complete and in this order.
    ///
    /// # Errors
    ///
    /// One that is empty, has a NUL, or has more than 64 bytes.
    pub fn with_provides<'s>(
        mut self,
        provides: impl IntoIterator<Item = &'s str>,
    ) -> Result<Self, ReadError> {
        self.provides = provides
            .into_iter()
            .map(|provided| check("provides", provided, limit::CAPABILITY))
            .collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// The class that routes to it draw from (B7).
    #[must_use]
    pub fn with_class(self, class: RouteClass) -> Self {
        Self { class, ..self }
    }

    /// The component's ID.
    #[must_use]
    pub const fn module_id(&self) -> &str {
        &self.module_id
    }

    /// Its version, for people.
    #[must_use]
    pub const fn module_version(&self) -> &str {
        &self.module_version
    }

    /// Its one role.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// What it provides by name.
    pub fn provides(&self) -> impl ExactSizeIterator<Item = &str> {
        self.provides.iter().map(|provided| &**provided)
    }

    /// The class that routes to it draw from.
    #[must_use]
    pub const fn class(&self) -> RouteClass {
        self.class
    }
}

/// Why a set of manifests is no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Two components have the same module ID.
    #[error("two components have the same module ID")]
    DuplicateModuleId,
}

/// What becomes of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// The component at this place of the composition is bound.
    Bind(usize),
    /// `target_unavailable`, no bind.
    TargetUnavailable,
    /// `unknown_module`, no bind.
    UnknownModule,
}

/// The static table of targets, in the composition's order.
#[derive(Clone, Debug)]
pub struct Targets {
    manifests: Vec<Manifest>,
    places: BTreeMap<Box<str>, usize>,
}

impl Targets {
    /// The table of these components.
    ///
    /// # Errors
    ///
    /// [`ManifestError::DuplicateModuleId`].
    pub fn new(manifests: Vec<Manifest>) -> Result<Self, ManifestError> {
        let mut places = BTreeMap::new();
        for (place, manifest) in manifests.iter().enumerate() {
            if places.insert(manifest.module_id.clone(), place).is_some() {
                return Err(ManifestError::DuplicateModuleId);
            }
        }
        Ok(Self { manifests, places })
    }

    /// The components, in the composition's order.
    #[must_use]
    pub fn manifests(&self) -> &[Manifest] {
        &self.manifests
    }

    fn find(&self, module_id: &str) -> Option<(usize, &Manifest)> {
        let place = *self.places.get(module_id)?;
        Some((place, self.manifests.get(place)?))
    }

    /// What becomes of a target: the table of section 8, row by row.
    #[must_use]
    pub fn resolve(&self, target: &Target) -> Resolution {
        match (Role::parse(target.kind()), self.find(target.module_id())) {
            (Some(role), Some((place, manifest))) if manifest.role == role => Resolution::Bind(place),
            (Some(_), Some(_)) | (None, Some(_) | None) => Resolution::TargetUnavailable,
            (Some(_), None) => Resolution::UnknownModule,
        }
    }

    /// The class whose permit a `route.open` to this target draws (C8, C12): the component's where it resolves, and the
    /// general one where it does not, so that a wrong target never eats what is set aside.
    #[must_use]
    pub fn class_of(&self, target: &Target) -> RouteClass {
        match self.resolve(target) {
            Resolution::Bind(place) => self.manifests.get(place).map_or(RouteClass::General, Manifest::class),
            Resolution::TargetUnavailable | Resolution::UnknownModule => RouteClass::General,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::json::Problem;

    fn table() -> Targets {
        Targets::new(vec![
            Manifest::new("tools", "1", Role::ToolProvider).unwrap(),
            Manifest::new("admin", "1", Role::ManagementSurface).unwrap().with_class(RouteClass::Reserved),
        ])
        .unwrap()
    }

    #[test]
    fn section_8_the_table_of_targets_has_four_rows() {
        let table = table();
        let resolve = |kind, id| table.resolve(&Target::new(kind, id).unwrap());
        assert_eq!(resolve("tool_provider", "tools"), Resolution::Bind(0));
        assert_eq!(resolve("management_surface", "admin"), Resolution::Bind(1));
        assert_eq!(resolve("management_surface", "tools"), Resolution::TargetUnavailable);
        assert_eq!(resolve("tool_provider", "admin"), Resolution::TargetUnavailable);
        assert_eq!(resolve("tool_provider", "nobody"), Resolution::UnknownModule);
        assert_eq!(resolve("management_surface", "Tools"), Resolution::UnknownModule);
        assert_eq!(resolve("other", "tools"), Resolution::TargetUnavailable);
        assert_eq!(resolve("Tool_provider", "nobody"), Resolution::TargetUnavailable);
    }

    #[test]
    fn c8_b7_the_class_is_the_components_and_general_where_the_target_is_none() {
        let table = table();
        let class = |kind, id| table.class_of(&Target::new(kind, id).unwrap());
        assert_eq!(class("tool_provider", "tools"), RouteClass::General);
        assert_eq!(class("management_surface", "admin"), RouteClass::Reserved);
        assert_eq!(class("tool_provider", "admin"), RouteClass::General);
        assert_eq!(class("other", "admin"), RouteClass::General);
        assert_eq!(class("tool_provider", "nobody"), RouteClass::General);
    }

    #[test]
    fn two_components_of_one_module_id_are_no_table() {
        let twice = vec![
            Manifest::new("a", "1", Role::ToolProvider).unwrap(),
            Manifest::new("b", "1", Role::ToolProvider).unwrap(),
            Manifest::new("a", "2", Role::ManagementSurface).unwrap(),
        ];
        assert_eq!(Targets::new(twice).err(), Some(ManifestError::DuplicateModuleId));
    }

    #[test]
    fn a_manifest_keeps_what_it_was_given_within_bounds() {
        let manifest =
            Manifest::new("m", "2.0", Role::ToolProvider).unwrap().with_provides(["p", "q"]).unwrap();
        assert_eq!((manifest.module_id(), manifest.module_version()), ("m", "2.0"));
        assert_eq!((manifest.role(), manifest.class()), (Role::ToolProvider, RouteClass::General));
        assert_eq!(manifest.provides().collect::<Vec<_>>(), ["p", "q"]);
        let x = |n: usize| "x".repeat(n);
        assert!(Manifest::new(&x(128), &x(128), Role::ToolProvider).is_ok());
        assert_eq!(Manifest::new(&x(129), "1", Role::ToolProvider).unwrap_err().problem, Problem::TooLong);
        assert_eq!(Manifest::new("m", &x(129), Role::ToolProvider).unwrap_err().problem, Problem::TooLong);
        assert_eq!(Manifest::new("", "1", Role::ToolProvider).unwrap_err().problem, Problem::Empty);
        assert_eq!(Manifest::new("m", "", Role::ToolProvider).unwrap_err().problem, Problem::Empty);
        assert!(manifest.clone().with_provides([&*x(64)]).is_ok());
        assert_eq!(manifest.clone().with_provides(["p", &x(65)]).unwrap_err().problem, Problem::TooLong);
        assert_eq!(manifest.with_provides([""]).unwrap_err().problem, Problem::Empty);
        assert_eq!(table().manifests().len(), 2);
    }
}
