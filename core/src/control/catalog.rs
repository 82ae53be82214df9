//! `catalog.list`: what is linked into the host, and how a client reads it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::target::Manifest;
use super::{MAX_BODY_BYTES, check, limit, op};
use crate::json::{self, ArrayWriter, ObjectWriter, ReadError, Value};

/// The operations that a catalog names, frozen.
///
/// The list as it is written:
/// `"subc_ops":["route.open","catalog.list","host.shutdown","transport.negotiate"]`.
pub const SUBC_OPS: [&str; 4] = [op::ROUTE_OPEN, op::CATALOG_LIST, op::HOST_SHUTDOWN, op::NEGOTIATE];

/// Why a composition has no catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The whole catalog would not fit a control body (C1).
    #[error("the catalog does not fit a control body")]
    TooLarge,
}

/// The host's catalog: fixed at startup, so every answer is made of the same entries.
#[derive(Clone, Debug)]
pub struct Catalog {
    generation: u64,
    manifests: Vec<Manifest>,
}

impl Catalog {
    /// The catalog of these components, in the composition's order. `generation` changes only when the catalog does.
    ///
    /// # Errors
    ///
    /// [`CatalogError::TooLarge`]: then the host must not start, for it could never answer.
    pub fn new(generation: u64, manifests: Vec<Manifest>) -> Result<Self, CatalogError> {
        let catalog = Self { generation, manifests };
        if catalog.render(None).len() > MAX_BODY_BYTES { Err(CatalogError::TooLarge) } else { Ok(catalog) }
    }

    /// The body that answers `catalog.list`: all components, or those that the filter names, which may be none.
    #[must_use]
    pub fn render(&self, filter: Option<&str>) -> Vec<u8> {
        let mut body = Vec::with_capacity(512);
        json::write_object(&mut body, |body| {
            body.string("op", op::CATALOG_LIST);
            body.number("generation", self.generation);
            body.array("modules", |modules| {
                for manifest in &self.manifests {
                    if filter.is_none_or(|module_id| module_id == manifest.module_id()) {
                        entry(modules, manifest);
                    }
                }
            });
            body.strings("subc_ops", SUBC_OPS);
        });
        body
    }
}

fn entry(modules: &mut ArrayWriter<'_>, manifest: &Manifest) {
    modules.object(|module: &mut ObjectWriter<'_>| {
        module.string("module_id", manifest.module_id());
        module.string("module_version", manifest.module_version());
        module.strings("roles", manifest.provides());
        module.strings("control_ops", []);
    });
}

/// The request `catalog.list`.
///
/// # Errors
///
/// A filter that is empty, has a NUL, or has more than 128 bytes (C2).
pub fn encode_catalog_list(filter: Option<&str>) -> Result<Vec<u8>, ReadError> {
    let filter = filter.map(|module_id| check("module_id", module_id, limit::MODULE_ID)).transpose()?;
    let mut body = Vec::with_capacity(64);
    json::write_object(&mut body, |body| {
        body.string("op", op::CATALOG_LIST);
        if let Some(module_id) = &filter {
            body.string("module_id", module_id);
        }
    });
    Ok(body)
}

/// A catalog as a client reads it: who is linked, not who is ready.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CatalogReply {
    /// Changes only when the catalog does.
    pub generation: u64,
    /// The components, in the composition's order.
    pub modules: Vec<CatalogEntry>,
    /// The control operations that the host names.
    pub subc_ops: Vec<Box<str>>,
}

/// One component of a [`CatalogReply`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CatalogEntry {
    /// Its ID.
    pub module_id: Box<str>,
    /// Its version.
    pub module_version: Box<str>,
    /// All that it provides.
    pub roles: Vec<Box<str>>,
    /// Its own control operations.
    pub control_ops: Vec<Box<str>>,
}

/// Reads the success of `catalog.list`.
///
/// # Errors
///
/// The body is not that of section 8 (F8).
pub fn decode_catalog(body: &[u8]) -> Result<CatalogReply, ReadError> {
    let [op, generation, modules, subc_ops] =
        json::parse(body)?.object()?.pick(["op", "generation", "modules", "subc_ops"]);
    super::request::expect_op(op, op::CATALOG_LIST)?;
    Ok(CatalogReply {
        generation: generation.required()?.u64()?,
        modules: modules.required()?.elements()?.map(decode_entry).collect::<Result<_, _>>()?,
        subc_ops: strings(subc_ops.required()?)?,
    })
}

fn decode_entry(value: Value<'_>) -> Result<CatalogEntry, ReadError> {
    let [module_id, module_version, roles, control_ops] =
        value.object()?.pick(["module_id", "module_version", "roles", "control_ops"]);
    Ok(CatalogEntry {
        module_id: module_id.required()?.name(limit::MODULE_ID)?.into(),
        module_version: module_version.required()?.string(MAX_BODY_BYTES)?.into(),
        roles: strings(roles.required()?)?,
        control_ops: strings(control_ops.required()?)?,
    })
}

fn strings(value: Value<'_>) -> Result<Vec<Box<str>>, ReadError> {
    value.elements()?.map(|element| Ok(element.string(MAX_BODY_BYTES)?.into())).collect()
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;

    use super::super::{ControlRequest, Role, decode_request};
    use super::*;
    use crate::json::Problem;

    fn catalog() -> Catalog {
        let manifest = |id, version| Manifest::new(id, version, Role::ToolProvider).unwrap();
        Catalog::new(
            1,
            vec![
                manifest("zeta", "1.0").with_provides(["tool_provider", "search"]).unwrap(),
                manifest("alpha", "2.0"),
            ],
        )
        .unwrap()
    }

    const OPS: &str = r#""subc_ops":["route.open","catalog.list","host.shutdown","transport.negotiate"]"#;
    const ZETA: &str =
        r#"{"module_id":"zeta","module_version":"1.0","roles":["tool_provider","search"],"control_ops":[]}"#;
    const ALPHA: &str = r#"{"module_id":"alpha","module_version":"2.0","roles":[],"control_ops":[]}"#;

    #[test]
    fn v40_a_catalog_lists_all_in_order_or_one_or_none() {
        let render = |filter| String::from_utf8(catalog().render(filter)).unwrap();
        let wanted =
            |modules: &str| format!(r#"{{"op":"catalog.list","generation":1,"modules":[{modules}],{OPS}}}"#);
        assert_eq!(render(None), wanted(&format!("{ZETA},{ALPHA}")));
        assert_eq!(render(Some("alpha")), wanted(ALPHA));
        assert_eq!(render(Some("zeta")), wanted(ZETA));
        assert_eq!(render(Some("alph")), wanted(""));
    }

    #[test]
    fn a_client_reads_what_the_host_wrote() {
        let reply = decode_catalog(&catalog().render(None)).unwrap();
        assert_eq!(reply.generation, 1);
        assert_eq!(reply.modules.len(), 2);
        let CatalogEntry { module_id, module_version, roles, control_ops } = &reply.modules[0];
        assert_eq!((&**module_id, &**module_version), ("zeta", "1.0"));
        assert_eq!((roles.len(), &*roles[1], control_ops.len()), (2, "search", 0));
        assert_eq!(&*reply.modules[1].module_id, "alpha");
        assert_eq!(reply.subc_ops.iter().map(|op| &**op).collect::<Vec<_>>(), SUBC_OPS);
    }

    #[test]
    fn c2_a_filter_is_written_within_its_bounds_and_left_out_where_none_is_given() {
        assert_eq!(encode_catalog_list(None).unwrap(), br#"{"op":"catalog.list"}"#);
        let body = encode_catalog_list(Some("zeta")).unwrap();
        assert_eq!(body, br#"{"op":"catalog.list","module_id":"zeta"}"#);
        assert_eq!(
            decode_request(&body, false),
            Ok(ControlRequest::CatalogList { module_id: Some("zeta".into()) })
        );
        assert!(encode_catalog_list(Some(&"m".repeat(128))).is_ok());
        for filter in ["", "\0", &"m".repeat(129)] {
            assert!(encode_catalog_list(Some(filter)).is_err());
        }
    }

    #[test]
    fn c1_a_catalog_of_65536_bytes_is_one_and_of_65537_is_refused_at_startup() {
        let sized = |rest: usize| {
            let mut manifests: Vec<_> = (0..300)
                .map(|i| Manifest::new(&format!("{i:0128}"), "v", Role::ToolProvider).unwrap())
                .collect();
            let whole = Catalog { generation: 1, manifests: manifests.clone() }.render(None).len();
            // The rest in provided names: `"x"` and its comma make three bytes more than the name.
            let mut missing = 65_536 - whole + rest + 1;
            let mut names = Vec::new();
            while missing > 0 {
                let len = if missing > 134 {
                    64
                } else if missing > 67 {
                    missing - 67 - 3
                } else {
                    missing - 3
                };
                names.push("n".repeat(len.min(64)));
                missing -= len.min(64) + 3;
            }
            let last = manifests.pop().unwrap();
            manifests.push(last.with_provides(names.iter().map(String::as_str)).unwrap());
            (
                Catalog { generation: 1, manifests: manifests.clone() }.render(None).len(),
                Catalog::new(1, manifests),
            )
        };
        let (len, catalog) = sized(0);
        assert_eq!((len, catalog.err()), (65_536, None));
        let (len, catalog) = sized(1);
        assert_eq!((len, catalog.err()), (65_537, Some(CatalogError::TooLarge)));
    }

    #[test]
    fn f8_a_malformed_catalog_is_refused() {
        let good = String::from_utf8(catalog().render(None)).unwrap();
        for (find, replace) in [
            ("catalog.list", "catalog"),
            ("\"generation\":1", "\"generation\":-1"),
            ("\"generation\":1", "\"generation\":1.0"),
            ("\"generation\":1,", ""),
            ("\"modules\"", "\"module\""),
            ("\"modules\":[", "\"modules\":[null,"),
            ("subc_ops", "ops"),
            ("\"route.open\",", "1,"),
            ("module_version", "version"),
            ("\"module_id\":\"zeta\"", "\"module_id\":\"\""),
            ("\"zeta\"", "null"),
            ("\"1.0\"", "1.0"),
            ("roles", "role"),
            ("\"search\"", "[]"),
            ("control_ops", "controls"),
            ("\"control_ops\":[]", "\"control_ops\":{}"),
        ] {
            let text = good.replacen(find, replace, 1);
            assert_ne!(text, good);
            assert!(decode_catalog(text.as_bytes()).is_err(), "{find}");
        }
        let more = good.replacen("\"roles\"", "\"ready\":true,\"roles\"", 1).replacen('{', "{\"x\":0,", 1);
        assert!(decode_catalog(more.as_bytes()).is_ok());
        let one = |id: usize| {
            let text = good.replace("zeta", &"z".repeat(id));
            decode_catalog(text.as_bytes()).map_err(|error| error.problem)
        };
        assert!(one(128).is_ok());
        assert_eq!(one(129), Err(Problem::TooLong));
    }
}
