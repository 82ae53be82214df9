//! `route.open`: the request, for whoever builds one and whoever reads one, and its success.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::identity::{ConsumerIdentity, Identity, Target};
use super::{check, limit, op};
use crate::json::{self, MAX_LEVELS, Object, Problem, RawJson, ReadError, Value};
use crate::wire::RouteHandle;

/// How many capabilities a consumer may name (C2).
pub const MAX_CAPABILITIES: usize = 32;

/// A request to open a route. Every value is within the bounds of C2, whichever side made it.
///
/// ```
/// use hostwire_core::control::{Identity, RouteOpen, Target};
///
/// let target = Target::new("tool_provider", "magic-context")?;
/// let identity = Identity::new("/workspace/project", "opencode", "session-1")?;
/// let open = RouteOpen::new(target, identity).with_capabilities(["streams"])?;
/// assert!(open.encode().starts_with(br#"{"op":"route.open","target":{"#));
/// # Ok::<(), hostwire_core::json::ReadError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RouteOpen {
    target: Target,
    identity: Identity,
    consumer_identity: Option<ConsumerIdentity>,
    consumer_capabilities: Vec<Box<str>>,
    admission_facts: Option<RawJson>,
}

impl fmt::Debug for RouteOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Z1: identities, capabilities and facts stay out.
        f.debug_struct("RouteOpen").field("target", &self.target).finish_non_exhaustive()
    }
}

impl RouteOpen {
    /// A request without any of the optional members.
    #[must_use]
    pub const fn new(target: Target, identity: Identity) -> Self {
        Self {
            target,
            identity,
            consumer_identity: None,
            consumer_capabilities: Vec::new(),
            admission_facts: None,
        }
    }

    /// Says who the consumer is.
    #[must_use]
    pub fn with_consumer_identity(self, consumer: ConsumerIdentity) -> Self {
        Self { consumer_identity: Some(consumer), ..self }
    }

    /// Says what the consumer can do. None at all is the same as not saying it (C10).
    ///
    /// # Errors
    ///
    /// More than [`MAX_CAPABILITIES`], or one that is empty, has a NUL, or has more than 64 bytes (C2).
    pub fn with_capabilities<'s>(
        mut self,
        capabilities: impl IntoIterator<Item = &'s str>,
    ) -> Result<Self, ReadError> {
        let mut list = Vec::new();
        for capability in capabilities {
            if list.len() >= MAX_CAPABILITIES {
                return Err(ReadError { member: CAPABILITIES, problem: Problem::WrongLength });
            }
            list.push(check(CAPABILITIES, capability, limit::CAPABILITY)?);
        }
        self.consumer_capabilities = list;
        Ok(self)
    }

    /// Gives facts for the component's admission: any JSON, `null` included (C10). They are sent compact.
    ///
    /// # Errors
    ///
    /// Over 8,192 compact bytes, or nested so deep that the body would pass [`MAX_LEVELS`] (C2, C7).
    pub fn with_admission_facts(mut self, facts: &RawJson) -> Result<Self, ReadError> {
        let facts = facts.compacted();
        bound_facts(facts.value()).map_err(|problem| ReadError { member: FACTS, problem })?;
        self.admission_facts = Some(facts);
        Ok(self)
    }

    /// What the route is to.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// What its state is scoped to.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Who the consumer says it is.
    #[must_use]
    pub const fn consumer_identity(&self) -> Option<&ConsumerIdentity> {
        self.consumer_identity.as_ref()
    }

    /// What the consumer says it can do.
    pub fn consumer_capabilities(&self) -> impl ExactSizeIterator<Item = &str> {
        self.consumer_capabilities.iter().map(|capability| &**capability)
    }

    /// Facts for the component's admission, verbatim.
    #[must_use]
    pub const fn admission_facts(&self) -> Option<&RawJson> {
        self.admission_facts.as_ref()
    }

    /// The control body. It never passes the limit of C1.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(256);
        json::write_object(&mut body, |body| {
            body.string("op", op::ROUTE_OPEN);
            body.object("target", |target| self.target.encode(target));
            body.object("identity", |identity| self.identity.encode(identity));
            // C10: what is absent is left out.
            if let Some(consumer) = &self.consumer_identity {
                body.object("consumer_identity", |to| consumer.encode(to));
            }
            if !self.consumer_capabilities.is_empty() {
                body.strings(CAPABILITIES, self.consumer_capabilities());
            }
            if let Some(facts) = &self.admission_facts {
                body.raw(FACTS, facts);
            }
        });
        body
    }

    /// Reads the members beside `op`.
    pub(super) fn decode(body: Object<'_>) -> Result<Self, ReadError> {
        let [target, identity, consumer, capabilities, facts] =
            body.pick(["target", "identity", "consumer_identity", CAPABILITIES, FACTS]);
        let target = Target::decode(target.required()?)?;
        let identity = Identity::decode(identity.required()?)?;
        // C7: an optional `null` counts as absent …
        let consumer_identity = consumer.non_null().map(ConsumerIdentity::decode).transpose()?;
        let mut consumer_capabilities = Vec::new();
        if let Some(capabilities) = capabilities.non_null() {
            for capability in capabilities.elements()? {
                if consumer_capabilities.len() >= MAX_CAPABILITIES {
                    return Err(capabilities.problem(Problem::WrongLength));
                }
                consumer_capabilities.push(capability.name(limit::CAPABILITY)?.into());
            }
        }
        // … except here, where it is a value (C10).
        let admission_facts = facts.present();
        if let Some(facts) = admission_facts {
            bound_facts(facts).map_err(|problem| facts.problem(problem))?;
        }
        Ok(Self {
            target,
            identity,
            consumer_identity,
            consumer_capabilities,
            admission_facts: admission_facts.map(RawJson::from),
        })
    }
}

const CAPABILITIES: &str = "consumer_capabilities";
const FACTS: &str = "admission_facts";

fn bound_facts(facts: Value<'_>) -> Result<(), Problem> {
    let measure = facts.measure();
    if measure.compact_bytes > limit::ADMISSION_FACTS {
        return Err(Problem::TooLong);
    }
    // C7: the facts begin at level 2. C2's 32 levels of containers cannot be passed without passing this.
    if measure.levels >= MAX_LEVELS {
        return Err(Problem::TooDeep);
    }
    Ok(())
}

/// The success of `route.open`.
#[must_use]
pub fn encode_route_opened(route: RouteHandle) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    json::write_object(&mut body, |body| {
        body.string("op", op::ROUTE_OPEN);
        body.number("route_channel", u64::from(route.channel.value()));
        body.number("route_epoch", u64::from(route.epoch.value()));
    });
    body
}

/// Reads the success of `route.open`. A failure retires the generation (F8).
///
/// # Errors
///
/// The body is not that of section 8, or one of the numbers is 0.
pub fn decode_route_opened(body: &[u8]) -> Result<RouteHandle, ReadError> {
    let [op, channel, epoch] = json::parse(body)?.object()?.pick(["op", "route_channel", "route_epoch"]);
    super::request::expect_op(op, op::ROUTE_OPEN)?;
    let channel = channel.required()?;
    let epoch = epoch.required()?;
    RouteHandle::new(channel.u16()?, epoch.u32()?).ok_or_else(|| channel.problem(Problem::OutOfRange))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::super::{ControlRequest, decode_request};
    use super::*;

    fn plain() -> RouteOpen {
        RouteOpen::new(
            Target::new("tool_provider", "magic-context").unwrap(),
            Identity::new("/workspace/project", "opencode", "session-1").unwrap(),
        )
    }

    fn full() -> RouteOpen {
        plain()
            .with_consumer_identity(ConsumerIdentity::new("me", "nonce").unwrap())
            .with_capabilities(["a", "b"])
            .unwrap()
            .with_admission_facts(&RawJson::new("{ \"k\" : 1.0 }").unwrap())
            .unwrap()
    }

    fn read(body: &[u8]) -> Result<RouteOpen, Option<ReadError>> {
        match decode_request(body, false) {
            Ok(ControlRequest::RouteOpen(open)) => Ok(*open),
            Ok(_) => Err(None),
            Err(error) => Err(error.read_error()),
        }
    }

    const PLAIN: &str = r#"{"op":"route.open","target":{"kind":"tool_provider","module_id":"magic-context"},"identity":{"project_root":"/workspace/project","harness":"opencode","session":"session-1"}}"#;

    #[test]
    fn section_8_the_compact_request_is_the_contracts_173_bytes() {
        assert_eq!(PLAIN.len(), 173);
        assert_eq!(plain().encode(), PLAIN.as_bytes());
        assert_eq!(read(PLAIN.as_bytes()), Ok(plain()));
    }

    #[test]
    fn c10_optional_members_are_written_where_given_and_read_back() {
        let text = String::from_utf8(full().encode()).unwrap();
        let tail = r#","consumer_identity":{"module_id":"me","launch_nonce":"nonce"},"consumer_capabilities":["a","b"],"admission_facts":{"k":1.0}}"#;
        assert_eq!(text, PLAIN.strip_suffix('}').unwrap().to_string() + tail);
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read, full());
        assert_eq!(read.consumer_identity().unwrap().module_id(), "me");
        assert_eq!(read.consumer_identity().unwrap().launch_nonce(), "nonce");
        assert_eq!(read.consumer_capabilities().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(read.admission_facts().unwrap().text(), r#"{"k":1.0}"#);
        assert_eq!(read.target().kind(), "tool_provider");
        assert_eq!(read.target().module_id(), "magic-context");
        assert_eq!(read.identity().project_root(), "/workspace/project");
        assert_eq!(read.identity().harness(), "opencode");
        assert_eq!(read.identity().session(), "session-1");
    }

    #[test]
    fn c7_an_optional_null_is_absent_but_null_facts_are_facts() {
        let with = |member: &str| format!("{},{member}}}", PLAIN.strip_suffix('}').unwrap());
        for member in [
            r#""consumer_identity":null"#,
            r#""consumer_capabilities":null"#,
            r#""consumer_capabilities":[]"#,
        ] {
            assert_eq!(read(with(member).as_bytes()), Ok(plain()), "{member}");
        }
        let facts = read(with(r#""admission_facts":null"#).as_bytes()).unwrap();
        assert_eq!(facts.admission_facts().unwrap().text(), "null");
        assert_eq!(facts.encode(), with(r#""admission_facts":null"#).as_bytes());
        // Opaque values are cut out as they were sent.
        let facts = read(with(r#""admission_facts": [ 1e0, "\u0061" ] "#).as_bytes()).unwrap();
        assert_eq!(facts.admission_facts().unwrap().text(), r#"[ 1e0, "\u0061" ]"#);
    }

    /// A body whose one member, named by its JSON pointer, is replaced by JSON text (or removed).
    fn altered(pointer: &str, text: Option<&str>) -> String {
        let body: serde_json::Value = serde_json::from_slice(&full().encode()).unwrap();
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        let mut body = body;
        let object = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        object.remove(member);
        if text.is_some() {
            object.insert(member.into(), "@@".into());
        }
        body.to_string().replace("\"@@\"", text.unwrap_or_default())
    }

    #[test]
    fn c2_every_name_has_its_bound_is_not_empty_and_has_no_nul_in_both_directions() {
        let plain = "x";
        type Build<'b> = &'b dyn Fn(&str) -> Result<(), ReadError>;
        let cases: [(&str, &str, usize, Build<'_>); 8] = [
            ("/target/kind", "kind", 64, &|s| Target::new(s, plain).map(|_| ())),
            ("/target/module_id", "module_id", 128, &|s| Target::new(plain, s).map(|_| ())),
            ("/identity/project_root", "project_root", 4096, &|s| Identity::new(s, plain, plain).map(|_| ())),
            ("/identity/harness", "harness", 128, &|s| Identity::new("/", s, plain).map(|_| ())),
            ("/identity/session", "session", 256, &|s| Identity::new("/", plain, s).map(|_| ())),
            ("/consumer_identity/module_id", "module_id", 128, &|s| {
                ConsumerIdentity::new(s, plain).map(|_| ())
            }),
            ("/consumer_identity/launch_nonce", "launch_nonce", 256, &|s| {
                ConsumerIdentity::new(plain, s).map(|_| ())
            }),
            ("/consumer_capabilities", "consumer_capabilities", 64, &|s| {
                self::plain().with_capabilities([s]).map(|_| ())
            }),
        ];
        for (pointer, member, max, build) in cases {
            let judge = |value: &str| {
                let json = serde_json::to_string(value).unwrap();
                let json = if member == CAPABILITIES { format!("[{json}]") } else { json };
                let decoded = read(altered(pointer, Some(&json)).as_bytes()).map(|_| ());
                let built = build(value);
                assert_eq!(decoded.err().map(Option::unwrap), built.err(), "{pointer}");
                built
            };
            let error = |problem| Err(ReadError { member, problem });
            let longest = "/".repeat(max);
            assert_eq!(judge(&longest), Ok(()), "{pointer}");
            assert_eq!(judge(&(longest.clone() + "/")), error(Problem::TooLong), "{pointer}");
            assert_eq!(judge("/"), Ok(()));
            assert_eq!(judge(""), error(Problem::Empty), "{pointer}");
            assert_eq!(judge("/\0"), error(Problem::Nul), "{pointer}");
            // Bytes, not characters.
            let wide = format!("/{}", "é".repeat(max / 2));
            assert_eq!(judge(&wide), error(Problem::TooLong), "{pointer}");
            for text in ["1", "{\"a\":1}", "true"] {
                let error = read(altered(pointer, Some(text)).as_bytes()).unwrap_err().unwrap();
                assert_eq!((error.member, error.problem), (member, Problem::WrongType), "{pointer} {text}");
            }
        }
        for pointer in [
            "/target",
            "/identity",
            "/target/kind",
            "/target/module_id",
            "/identity/project_root",
            "/identity/harness",
            "/identity/session",
            "/consumer_identity/module_id",
            "/consumer_identity/launch_nonce",
        ] {
            let error = read(altered(pointer, None).as_bytes()).unwrap_err().unwrap();
            assert_eq!(error.problem, Problem::Missing, "{pointer}");
            let error = read(altered(pointer, Some("null")).as_bytes()).unwrap_err().unwrap();
            assert_eq!(error.problem, Problem::WrongType, "{pointer}");
        }
    }

    #[test]
    fn c3_a_relative_root_is_refused_in_both_directions() {
        let wanted = ReadError { member: "project_root", problem: Problem::NotAllowed };
        for root in ["project", "./project", "../x", "~", " /x", "C:\\x"] {
            assert_eq!(Identity::new(root, "h", "s"), Err(wanted), "{root}");
            let text = serde_json::to_string(root).unwrap();
            assert_eq!(read(altered("/identity/project_root", Some(&text)).as_bytes()), Err(Some(wanted)));
        }
    }

    #[test]
    fn c2_32_capabilities_are_taken_and_33_refused_in_both_directions() {
        for (n, ok) in [(32, true), (33, false)] {
            let list = alloc::vec!["c"; n];
            assert_eq!(plain().with_capabilities(list.iter().copied()).is_ok(), ok);
            let text = serde_json::to_string(&list).unwrap();
            let read = read(altered("/consumer_capabilities", Some(&text)).as_bytes());
            let wanted = ReadError { member: CAPABILITIES, problem: Problem::WrongLength };
            assert_eq!(read.err(), (!ok).then_some(Some(wanted)));
        }
        for text in ["{}", "\"a\"", "[null]", "[[\"a\"]]"] {
            let error = read(altered("/consumer_capabilities", Some(text)).as_bytes()).unwrap_err().unwrap();
            assert_eq!(error.problem, Problem::WrongType);
        }
    }

    #[test]
    fn c2_admission_facts_are_bounded_in_compact_bytes_and_in_levels_in_both_directions() {
        let judge = |text: &str| {
            let decoded = read(altered("/admission_facts", Some(text)).as_bytes()).map(|_| ());
            let built = RawJson::new(text)
                .map_err(ReadError::from)
                .and_then(|facts| plain().with_admission_facts(&facts).map(|_| ()));
            (decoded.map_err(|error| error.unwrap().problem), built.map_err(|error| error.problem))
        };
        let string = |n: usize| format!("\"{}\"", "x".repeat(n - 2));
        assert_eq!(judge(&string(8192)), (Ok(()), Ok(())));
        assert_eq!(judge(&string(8193)), (Err(Problem::TooLong), Err(Problem::TooLong)));
        let spaced = format!("[ {} ,\n\t{} ]", string(4000), string(8192 - 4000 - 3));
        assert_eq!(judge(&spaced), (Ok(()), Ok(())));
        let nest = |n: usize, leaf: &str| format!("{}{leaf}{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(judge(&nest(32, "")), (Ok(()), Ok(())));
        assert_eq!(judge(&nest(31, "0")), (Ok(()), Ok(())));
        for text in [nest(33, ""), nest(32, "0")] {
            let (decoded, built) = judge(&text);
            assert_eq!(decoded, Err(Problem::Syntax(json::SyntaxError::TooDeep)));
            assert_eq!(built, Err(Problem::TooDeep));
        }
    }

    #[test]
    fn c1_the_largest_request_that_can_be_built_fits_a_control_body() {
        let worst = |n: usize| "\u{1}".repeat(n);
        let capabilities = alloc::vec![worst(64); 32];
        let facts = format!("[{}{}]", "\t".repeat(60_000), format_args!("\"{}\"", "x".repeat(8188)));
        let open = RouteOpen::new(
            Target::new(&worst(64), &worst(128)).unwrap(),
            Identity::new(&format!("/{}", worst(4095)), &worst(128), &worst(256)).unwrap(),
        )
        .with_consumer_identity(ConsumerIdentity::new(&worst(128), &worst(256)).unwrap())
        .with_capabilities(capabilities.iter().map(String::as_str))
        .unwrap()
        .with_admission_facts(&RawJson::new(&facts).unwrap())
        .unwrap();
        let body = open.encode();
        assert!(body.len() > 50_000 && body.len() <= super::super::MAX_BODY_BYTES, "{}", body.len());
        assert_eq!(read(&body), Ok(open));
    }

    /// B170: members.
    #[test]
    fn t2_v16_unknown_members_are_ignored_wherever_they_stand() {
        let text = PLAIN
            .replace(r#""kind":"#, r#""x":[{"y":null}],"kind":"#)
            .replace(r#""harness":"#, r#""uid":0,"harness":"#);
        assert_eq!(read(text.as_bytes()), Ok(plain()));
    }

    #[test]
    fn f8_a_route_open_success_is_read_exactly_or_malformed() {
        let route = RouteHandle::new(7, 77).unwrap();
        let text = br#"{"op":"route.open","route_channel":7,"route_epoch":77}"#;
        assert_eq!(encode_route_opened(route), text);
        assert_eq!(decode_route_opened(text), Ok(route));
        let max = RouteHandle::new(u16::MAX, u32::MAX).unwrap();
        assert_eq!(decode_route_opened(&encode_route_opened(max)), Ok(max));
        let extra = br#" {"route_epoch":77,"x":{},"route_channel":7,"op":"route.open"} "#;
        assert_eq!(decode_route_opened(extra), Ok(route));
        for text in [
            r#"{"op":"route.open","route_channel":0,"route_epoch":77}"#,
            r#"{"op":"route.open","route_channel":7,"route_epoch":0}"#,
            r#"{"op":"route.open","route_channel":65536,"route_epoch":77}"#,
            r#"{"op":"route.open","route_channel":7,"route_epoch":4294967296}"#,
            r#"{"op":"route.open","route_channel":7.0,"route_epoch":77}"#,
            r#"{"op":"route.open","route_channel":"7","route_epoch":77}"#,
            r#"{"op":"route.open","route_channel":7,"route_epoch":null}"#,
            r#"{"op":"route.open","route_channel":7}"#,
            r#"{"op":"route.open","route_epoch":77}"#,
            r#"{"op":"route.opened","route_channel":7,"route_epoch":77}"#,
            r#"{"route_channel":7,"route_epoch":77}"#,
            r#"{"op":"route.open","route_channel":7,"route_epoch":77,"route_epoch":77}"#,
            r#"[7,77]"#,
            "",
        ] {
            assert!(decode_route_opened(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn z1_no_identity_value_is_printed() {
        let open = RouteOpen::new(
            Target::new("tool_provider", "m").unwrap(),
            Identity::new("/s3cr3t", "s3cr3t", "s3cr3t").unwrap(),
        )
        .with_consumer_identity(ConsumerIdentity::new("s3cr3t", "s3cr3t").unwrap())
        .with_capabilities(["s3cr3t"])
        .unwrap()
        .with_admission_facts(&RawJson::new("\"s3cr3t\"").unwrap())
        .unwrap();
        let printed = format!(
            "{open:?}{:?}{:?}{:?}",
            open.identity(),
            open.consumer_identity(),
            open.admission_facts()
        );
        assert_eq!(
            printed,
            r#"RouteOpen { target: Target { kind: "tool_provider", module_id: "m" }, .. }Identity(..)Some(ConsumerIdentity(..))Some(RawJson(..))"#
        );
        let error = Identity::new("s3cr3t", "h", "s").unwrap_err();
        assert!(!format!("{error:?}{error}").contains("s3cr3t"));
    }
}
