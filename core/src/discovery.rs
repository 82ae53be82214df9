//! The discovery file's schema: reading it strictly and writing it (protocol.md §3). Opening and judging the file is the
//! shell's work.
//!
//! Invariant: a [`Document`] holds one endpoint that may be dialled, one key and one daemon ID, all from the same bytes
//! (D6). Members that this version does not know are ignored; everything else that is not as the contract says is
//! refused, with the member's name and never with its content.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::num::NonZeroU16;

use crate::auth::{Credentials, DaemonId, Key};
use crate::json::{self, Problem, ReadError};

/// Bytes of the largest discovery file that is read (D1). One more is refused before anything is parsed.
pub const MAX_BYTES: usize = 65_536;

/// The one host name that an endpoint may have (D3).
const HOST: &str = "127.0.0.1";
const SCHEMA: u64 = 1;
const WIRE_VERSION: u64 = 2;

/// What a client learns from the discovery file, and what a host publishes.
#[derive(Clone, Debug)]
pub struct Document {
    /// The port on 127.0.0.1 (D3).
    pub port: NonZeroU16,
    /// Key, daemon ID and version text (never empty): what the handshake needs (A3).
    pub credentials: Credentials,
    /// The host's process ID, for display only (P6).
    pub pid: u32,
}

impl Document {
    /// Reads the whole content of a discovery file (D2, D3).
    ///
    /// # Errors
    ///
    /// [`ReadError`] names the first member that is refused, in the order `schema`, `wire_version`, `endpoints`, `host`,
    /// `port`, `key`, `daemon_id`, `pid`, `daemon_ver`; `body` stands for the text as a whole. More than [`MAX_BYTES`]
    /// are [`Problem::TooLong`] without a look at them (D1).
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        // D1: the size first.
        if bytes.len() > MAX_BYTES {
            return Err(ReadError { member: "body", problem: Problem::TooLong });
        }
        // D2: a byte-order mark, trailing bytes and repeated members, at any depth, are faults of the text.
        let [schema, wire_version, endpoints, key, daemon_id, pid, daemon_ver] = json::parse(bytes)?
            .object()?
            .pick(["schema", "wire_version", "endpoints", "key", "daemon_id", "pid", "daemon_ver"]);
        exactly(schema.required()?, SCHEMA)?;
        // D2: version before endpoints: another version may mean something else by them.
        exactly(wire_version.required()?, WIRE_VERSION)?;
        let port = endpoint(endpoints.required()?)?;
        let key = Key::new(key.required()?.bytes()?);
        let daemon_id = DaemonId::new(daemon_id.required()?.bytes()?);
        let pid = pid.required()?.u32()?;
        let daemon_ver = daemon_ver.required()?;
        let text = daemon_ver.string(MAX_BYTES)?;
        if text.is_empty() {
            return Err(daemon_ver.problem(Problem::Empty));
        }
        let credentials = Credentials { key, daemon_id, daemon_ver: text.into() };
        Ok(Self { port, credentials, pid })
    }

    /// The file's content. The caller wipes it: it holds the key.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let Credentials { key, daemon_id, daemon_ver } = &self.credentials;
        // Room for all of it (a byte of a string may become six): growing would leave copies of the key behind.
        let mut out = Vec::with_capacity(512 + 6 * daemon_ver.len());
        json::write_object(&mut out, |object| {
            object.number("schema", SCHEMA);
            object.number("wire_version", WIRE_VERSION);
            object.array("endpoints", |endpoints| {
                endpoints.object(|endpoint| {
                    endpoint.string("host", HOST);
                    endpoint.number("port", self.port.get().into());
                });
            });
            object.bytes("key", key.expose());
            object.bytes("daemon_id", daemon_id.bytes());
            object.number("pid", self.pid.into());
            object.string("daemon_ver", daemon_ver);
        });
        out
    }

    /// Where to dial.
    #[must_use]
    pub fn endpoint(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port.get())
    }
}

fn exactly(value: json::Value<'_>, wanted: u64) -> Result<(), ReadError> {
    // D2: a JSON integer of exactly this value.
    if value.u64()? == wanted { Ok(()) } else { Err(value.problem(Problem::NotAllowed)) }
}

fn endpoint(endpoints: json::Value<'_>) -> Result<NonZeroU16, ReadError> {
    // D3: only the first endpoint counts, and only the loopback address, as a number.
    let first = endpoints.elements()?.next().ok_or_else(|| endpoints.problem(Problem::Empty))?;
    let [host, port] = first.object()?.pick(["host", "port"]);
    let host = host.required()?;
    if host.string_cut(HOST.len() + 1)? != HOST {
        return Err(host.problem(Problem::NotAllowed));
    }
    let port = port.required()?;
    NonZeroU16::new(port.u16()?).ok_or_else(|| port.problem(Problem::OutOfRange))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec;

    fn document() -> Document {
        Document {
            port: NonZeroU16::new(43_123).unwrap(),
            credentials: Credentials {
                key: Key::new(core::array::from_fn(|i| u8::try_from(i).unwrap())),
                daemon_id: DaemonId::new(core::array::from_fn(|i| 96 + u8::try_from(i).unwrap())),
                daemon_ver: "example/0.1.0".into(),
            },
            pid: 4_242,
        }
    }

    fn text() -> String {
        String::from_utf8(document().render()).unwrap()
    }

    fn refusal(text: &str) -> (&'static str, Problem) {
        let error = Document::parse(text.as_bytes()).unwrap_err();
        (error.member, error.problem)
    }

    /// The refusal after `from` in the valid text has become `to`.
    fn edited(from: &str, to: &str) -> (&'static str, Problem) {
        let valid = text();
        assert!(valid.contains(from), "{from}");
        refusal(&valid.replacen(from, to, 1))
    }

    fn array(n: usize) -> String {
        format!("[{}]", vec!["7"; n].join(","))
    }

    #[test]
    fn the_rendered_file_is_the_one_of_the_contract() {
        let numbers = |from: u8, n: u8| (from..from + n).map(|b| b.to_string()).collect::<Vec<_>>().join(",");
        let wanted = format!(
            "{{\"schema\":1,\"wire_version\":2,\"endpoints\":[{{\"host\":\"127.0.0.1\",\"port\":43123}}],\
             \"key\":[{}],\"daemon_id\":[{}],\"pid\":4242,\"daemon_ver\":\"example/0.1.0\"}}",
            numbers(0, 32),
            numbers(96, 16)
        );
        assert_eq!(text(), wanted);
    }

    #[test]
    fn what_is_rendered_is_read_back() {
        let mut document = document();
        document.credentials.daemon_ver = "a\"\u{0}\u{e4}\\".into();
        let read = Document::parse(&document.render()).unwrap();
        assert_eq!(read.port, document.port);
        assert_eq!(read.credentials.key, document.credentials.key);
        assert_eq!(read.credentials.daemon_id, document.credentials.daemon_id);
        assert_eq!(read.pid, document.pid);
        assert_eq!(read.credentials.daemon_ver, document.credentials.daemon_ver);
        assert_eq!(read.endpoint().to_string(), "127.0.0.1:43123");
    }

    #[test]
    fn rendering_never_outgrows_its_first_buffer() {
        let mut document = document();
        document.credentials.key = Key::new([255; 32]);
        document.credentials.daemon_id = DaemonId::new([255; 16]);
        document.pid = u32::MAX;
        document.port = NonZeroU16::MAX;
        for ver in ["v".to_string(), "\u{1}".repeat(1_000)] {
            document.credentials.daemon_ver = ver.into();
            let room = 512 + 6 * document.credentials.daemon_ver.len();
            assert!(document.render().len() <= room);
        }
    }

    // V1, V2
    #[test]
    fn sixty_four_kib_are_read_and_one_byte_more_is_refused_before_parsing() {
        let mut padded = text().into_bytes();
        padded.resize(MAX_BYTES, b' ');
        assert!(Document::parse(&padded).is_ok());
        padded.push(b' ');
        let error = Document::parse(&padded).unwrap_err();
        assert_eq!((error.member, error.problem), ("body", Problem::TooLong));
        // Not even JSON, and still the size is what is wrong.
        let error = Document::parse(&vec![b'x'; MAX_BYTES + 1]).unwrap_err();
        assert_eq!(error.problem, Problem::TooLong);
    }

    // V51
    #[test]
    fn a_wire_version_that_is_not_the_integer_two_is_refused_before_the_endpoint() {
        let wrong = [
            ("null", Problem::WrongType),
            ("\"2\"", Problem::WrongType),
            ("true", Problem::WrongType),
            ("[2]", Problem::WrongType),
            ("2.0", Problem::NotInteger),
            ("2e0", Problem::NotInteger),
            ("2.5", Problem::NotInteger),
            ("-2", Problem::OutOfRange),
            ("1", Problem::NotAllowed),
            ("3", Problem::NotAllowed),
            ("0", Problem::NotAllowed),
            ("18446744073709551618", Problem::OutOfRange),
        ];
        // The endpoint is bad as well, and is not what is reported.
        let bad_endpoint = text().replace("127.0.0.1", "0.0.0.0");
        for (version, problem) in wrong {
            let edited = bad_endpoint.replace("\"wire_version\":2", &format!("\"wire_version\":{version}"));
            assert_eq!(refusal(&edited), ("wire_version", problem), "{version}");
        }
        let absent = bad_endpoint.replace("\"wire_version\":2,", "");
        assert_eq!(refusal(&absent), ("wire_version", Problem::Missing));
    }

    #[test]
    fn a_schema_other_than_one_is_refused_first() {
        assert_eq!(edited("\"schema\":1,", ""), ("schema", Problem::Missing));
        assert_eq!(edited("\"schema\":1", "\"schema\":2"), ("schema", Problem::NotAllowed));
        assert_eq!(edited("\"schema\":1", "\"schema\":1.0"), ("schema", Problem::NotInteger));
        assert_eq!(
            edited("\"schema\":1,\"wire_version\":2", "\"schema\":2,\"wire_version\":3"),
            ("schema", Problem::NotAllowed)
        );
    }

    // V4
    #[test]
    fn names_wildcards_ipv6_and_port_zero_are_refused() {
        for host in [
            "localhost",
            "0.0.0.0",
            "::1",
            "[::1]",
            "127.0.0.2",
            "127.1",
            "127.0.0.1 ",
            "",
            "127.0.0.10",
            "*",
        ] {
            assert_eq!(edited("127.0.0.1", host), ("host", Problem::NotAllowed), "{host}");
        }
        assert_eq!(edited("\"127.0.0.1\"", "2130706433"), ("host", Problem::WrongType));
        assert_eq!(edited("43123", "0"), ("port", Problem::OutOfRange));
        assert_eq!(edited("43123", "65536"), ("port", Problem::OutOfRange));
        assert_eq!(edited("43123", "-1"), ("port", Problem::OutOfRange));
        assert_eq!(edited("43123", "1.5"), ("port", Problem::NotInteger));
        assert_eq!(edited("43123", "\"1\""), ("port", Problem::WrongType));
        assert_eq!(edited("\"host\":\"127.0.0.1\",", ""), ("host", Problem::Missing));
        assert_eq!(edited(",\"port\":43123", ""), ("port", Problem::Missing));
        for port in ["1", "65535"] {
            assert!(Document::parse(text().replace("43123", port).as_bytes()).is_ok());
        }
    }

    #[test]
    fn only_the_first_endpoint_counts() {
        let second = text().replace("}],", "},{\"host\":\"example.org\",\"port\":0},null],");
        assert_eq!(Document::parse(second.as_bytes()).unwrap().port.get(), 43_123);
        let first = text().replace("[{", "[{\"host\":\"example.org\",\"port\":1},{");
        assert_eq!(refusal(&first), ("host", Problem::NotAllowed));
        let whole = "[{\"host\":\"127.0.0.1\",\"port\":43123}]";
        assert_eq!(edited(whole, "[]"), ("endpoints", Problem::Empty));
        assert_eq!(edited(whole, "{}"), ("endpoints", Problem::WrongType));
        assert_eq!(edited(whole, "[7]"), ("endpoints", Problem::WrongType));
        assert_eq!(edited(&format!("\"endpoints\":{whole},"), ""), ("endpoints", Problem::Missing));
    }

    #[test]
    fn key_and_daemon_id_have_exactly_their_lengths() {
        let valid = text();
        let member = |name: &str| {
            let start = valid.find(&format!("\"{name}\":[")).unwrap() + name.len() + 3;
            let end = start + valid[start..].find(']').unwrap() + 1;
            valid[start..end].to_string()
        };
        for (name, len) in [("key", 32), ("daemon_id", 16)] {
            let name: &'static str = name;
            for n in [0, len - 1, len + 1] {
                assert_eq!(edited(&member(name), &array(n)), (name, Problem::WrongLength), "{name} {n}");
            }
            let bad = array(len).replacen('7', "256", 1);
            assert_eq!(edited(&member(name), &bad), (name, Problem::OutOfRange));
            assert_eq!(edited(&member(name), "\"00\""), (name, Problem::WrongType));
            assert_eq!(edited(&format!("\"{name}\":{},", member(name)), ""), (name, Problem::Missing));
        }
    }

    #[test]
    fn pid_is_an_integer_and_daemon_ver_says_something() {
        assert_eq!(edited("\"pid\":4242,", ""), ("pid", Problem::Missing));
        assert_eq!(edited("4242", "\"4242\""), ("pid", Problem::WrongType));
        assert_eq!(edited("4242", "1.0"), ("pid", Problem::NotInteger));
        assert_eq!(edited("example/0.1.0", ""), ("daemon_ver", Problem::Empty));
        assert_eq!(edited("\"example/0.1.0\"", "null"), ("daemon_ver", Problem::WrongType));
        assert_eq!(edited(",\"daemon_ver\":\"example/0.1.0\"", ""), ("daemon_ver", Problem::Missing));
    }

    #[test]
    fn unknown_members_are_ignored_and_repeated_ones_refused() {
        let with = |extra: &str| text().replacen('{', &format!("{{{extra},"), 1);
        assert!(Document::parse(with("\"new\":{\"a\":[1]}").as_bytes()).is_ok());
        for extra in ["\"pid\":1", "\"new\":1,\"new\":2", "\"new\":{\"a\":1,\"a\":1}", "\"\\u0070id\":1"] {
            let (member, problem) = refusal(&with(extra));
            assert_eq!(member, "body", "{extra}");
            assert!(matches!(problem, Problem::Syntax(_)), "{extra}");
        }
    }

    #[test]
    fn a_byte_order_mark_trailing_bytes_and_anything_but_an_object_are_refused() {
        for bad in [
            format!("\u{feff}{}", text()),
            format!("{}{}", text(), text()),
            format!("{}\0", text()),
            String::new(),
            text()[..100].to_string(),
        ] {
            assert!(matches!(refusal(&bad), ("body", Problem::Syntax(_))), "{}", bad.len());
        }
        assert_eq!(refusal("[]"), ("body", Problem::WrongType));
    }

    #[test]
    fn no_error_and_no_debug_text_holds_the_key() {
        let mut document = document();
        document.credentials.key = Key::new([213; 32]);
        assert!(!format!("{document:?}").contains("213"));
        let bad = String::from_utf8(document.render()).unwrap().replace("4242", "null");
        assert_eq!(format!("{}", Document::parse(bad.as_bytes()).unwrap_err()), "pid: wrong type");
    }
}
