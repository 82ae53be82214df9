//! The lifecycle record's schema, and what a probe may conclude from lock, record and publication (P6 to P9). Locks and
//! files are the shell's.
//!
//! Invariant: the state of a host is a function of what was seen ([`HostState::of`]), with no memory and no side effect. A
//! process ID decides nothing (P6): only the lock says whether somebody lives.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::auth::{DaemonId, hex};
use crate::json::{self, Problem, ReadError};

/// Bytes of the largest lifecycle record that is read.
pub const MAX_RECORD_BYTES: usize = 4_096;
/// Milliseconds after which a record that claims `starting` or `stopping` is not believed any more (P9).
pub const EXPIRES_AFTER_MS: u64 = 60_000;
/// Milliseconds between two renewals of such a record (P9).
pub const RENEW_EVERY_MS: u64 = 20_000;
/// Milliseconds that a probe waits for a record that is missing while the lock is held (P8).
pub const GRACE_MS: u64 = 500;

const SCHEMA: u64 = 1;

/// What a host says it is doing (P6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Initializing, binding, about to publish.
    Starting,
    /// Published.
    Running,
    /// Unpublishing, draining, ending.
    Stopping,
}

impl Phase {
    /// The word in the record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
        }
    }
}

/// The ID of one start of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchId(pub [u8; 16]);

impl fmt::Display for LaunchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(&self.0, f)
    }
}

/// The digest of what a launcher started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PayloadDigest(pub [u8; 32]);

impl fmt::Display for PayloadDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(&self.0, f)
    }
}

/// The lifecycle record (P6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the host was doing when it wrote this.
    pub phase: Phase,
    /// Which start of the host.
    pub launch_id: LaunchId,
    /// Which incarnation.
    pub daemon_id: DaemonId,
    /// What was launched; `None` is the empty string (legacy).
    pub payload_manifest_digest: Option<PayloadDigest>,
    /// For display only: nobody signals it or infers life from it.
    pub pid: u32,
    /// When it was written, in milliseconds of Unix time.
    pub written_at_ms: u64,
}

impl Record {
    /// Reads a whole record, strictly: all members, no others, each once (P6).
    ///
    /// # Errors
    ///
    /// [`ReadError`] names the member that is refused. More than [`MAX_RECORD_BYTES`] are [`Problem::TooLong`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(ReadError { member: "body", problem: Problem::TooLong });
        }
        // P6: strict, so the set is closed.
        let [schema, phase, launch_id, daemon_id, digest, pid, written_at_ms] =
            json::parse(bytes)?.object()?.pick_closed([
                "schema",
                "phase",
                "launch_id",
                "daemon_id",
                "payload_manifest_digest",
                "pid",
                "written_at_ms",
            ])?;
        let schema = schema.required()?;
        if schema.u64()? != SCHEMA {
            return Err(schema.problem(Problem::NotAllowed));
        }
        let digest = digest.required()?;
        Ok(Self {
            phase: read_phase(phase.required()?)?,
            launch_id: LaunchId(read_hex(launch_id.required()?)?),
            daemon_id: DaemonId::new(read_hex(daemon_id.required()?)?),
            payload_manifest_digest: if digest.string(64)?.is_empty() {
                None
            } else {
                Some(PayloadDigest(read_hex(digest)?))
            },
            pid: pid.required()?.u32()?,
            written_at_ms: written_at_ms.required()?.u64()?,
        })
    }

    /// The file's content.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let mut out = Vec::new();
        json::write_object(&mut out, |object| self.write_members(object));
        out
    }

    /// Writes the record's members into an object of somebody else's, in the order of the contract.
    pub fn write_members(&self, object: &mut json::ObjectWriter<'_>) {
        let digest = self.payload_manifest_digest.map_or_else(String::new, |digest| digest.to_string());
        object.number("schema", SCHEMA);
        object.string("phase", self.phase.as_str());
        object.string("launch_id", &self.launch_id.to_string());
        object.string("daemon_id", &self.daemon_id.to_string());
        object.string("payload_manifest_digest", &digest);
        object.number("pid", self.pid.into());
        object.number("written_at_ms", self.written_at_ms);
    }

    /// Whether the record claims `starting` or `stopping` and is older than [`EXPIRES_AFTER_MS`], or from the future
    /// (P9). A `running` record is never renewed and does not expire.
    #[must_use]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        match self.phase {
            // P9: from the future counts as expired, so no subtraction that saturates.
            Phase::Starting | Phase::Stopping => {
                now_ms.checked_sub(self.written_at_ms).is_none_or(|age| age > EXPIRES_AFTER_MS)
            }
            Phase::Running => false,
        }
    }
}

fn read_phase(value: json::Value<'_>) -> Result<Phase, ReadError> {
    let word = value.string_cut(16)?;
    [Phase::Starting, Phase::Running, Phase::Stopping]
        .into_iter()
        .find(|phase| phase.as_str() == word)
        .ok_or_else(|| value.problem(Problem::NotAllowed))
}

fn read_hex<const N: usize>(value: json::Value<'_>) -> Result<[u8; N], ReadError> {
    // P6: exactly `2 N` lowercase hexadecimal digits.
    let text = value.string(2 * N)?;
    hex::parse(&text).ok_or_else(|| value.problem(Problem::NotAllowed))
}

/// Who has the single-instance lock, as a probe sees it (P8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// Nobody, or there is no lock file.
    Free,
    /// A host.
    Held,
    /// A link or something else that is not a file stands in its place, or on the way to it: it cannot be tested without
    /// following.
    Insecure,
}

/// What a probe found where the record should be (P8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordEvidence {
    /// Nothing.
    Missing,
    /// Something that does not parse.
    Corrupt,
    /// Something that is not to be trusted.
    Insecure,
    /// A record that is not believed any more (P9).
    Expired,
    /// A record to believe.
    Fresh(Record),
}

impl RecordEvidence {
    /// The evidence that a whole, secure file gives at `now_ms`.
    #[must_use]
    pub fn of(content: &[u8], now_ms: u64) -> Self {
        match Record::parse(content) {
            Ok(record) if record.is_expired(now_ms) => Self::Expired,
            Ok(record) => Self::Fresh(record),
            Err(_) => Self::Corrupt,
        }
    }
}

/// What a probe found where the publication should be (P8). It never holds the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicationEvidence {
    /// Nothing.
    Missing,
    /// Something that does not parse, or is too large.
    Corrupt,
    /// Something that is not to be trusted.
    Insecure,
    /// A publication.
    Present {
        /// Its incarnation.
        daemon_id: DaemonId,
        /// Its process ID, for display.
        pid: u32,
        /// Its port.
        port: u16,
    },
}

/// The state of the host of a run directory, as a probe concludes it (P8). An observation, never a reason to repair
/// anything (P9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostState {
    /// No host.
    Stopped,
    /// A host that has not published yet.
    Starting,
    /// A host that has.
    Running,
    /// A host on its way out.
    Stopping,
    /// The lock is held, or cannot be judged, and the evidence fits nothing.
    Wedged,
}

impl HostState {
    /// Concludes the state from what was seen (P8). A missing record means one that stayed missing for [`GRACE_MS`].
    #[must_use]
    pub fn of(lock: Lock, record: &RecordEvidence, publication: &PublicationEvidence) -> Self {
        use PublicationEvidence as P;
        match lock {
            // P8: a free lock outweighs everything that lies about.
            Lock::Free => return Self::Stopped,
            Lock::Insecure => return Self::Wedged,
            Lock::Held => {}
        }
        // P8: a publication that nobody should read is wrong in every phase.
        let published = match publication {
            P::Corrupt | P::Insecure => return Self::Wedged,
            P::Missing => None,
            P::Present { daemon_id, .. } => Some(daemon_id),
        };
        match record {
            RecordEvidence::Missing
            | RecordEvidence::Corrupt
            | RecordEvidence::Insecure
            | RecordEvidence::Expired => Self::Wedged,
            RecordEvidence::Fresh(record) => match record.phase {
                // P8: a predecessor's leftover publication is fine.
                Phase::Starting => Self::Starting,
                Phase::Running if published == Some(&record.daemon_id) => Self::Running,
                Phase::Running => Self::Wedged,
                Phase::Stopping => Self::Stopping,
            },
        }
    }

    /// The state's name, as `hostwire probe` prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Wedged => "wedged",
        }
    }
}

impl fmt::Display for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn record(phase: Phase) -> Record {
        Record {
            phase,
            launch_id: LaunchId([0x0a; 16]),
            daemon_id: DaemonId::new([0x60; 16]),
            payload_manifest_digest: Some(PayloadDigest([0xf0; 32])),
            pid: 4_242,
            written_at_ms: 1_000_000,
        }
    }

    fn text() -> String {
        String::from_utf8(record(Phase::Running).render()).unwrap()
    }

    fn refusal(text: &str) -> (&'static str, Problem) {
        let error = Record::parse(text.as_bytes()).unwrap_err();
        (error.member, error.problem)
    }

    fn edited(from: &str, to: &str) -> (&'static str, Problem) {
        assert!(text().contains(from), "{from}");
        refusal(&text().replacen(from, to, 1))
    }

    #[test]
    fn the_rendered_record_is_the_one_of_the_contract() {
        assert_eq!(
            text(),
            format!(
                "{{\"schema\":1,\"phase\":\"running\",\"launch_id\":\"{}\",\"daemon_id\":\"{}\",\
                 \"payload_manifest_digest\":\"{}\",\"pid\":4242,\"written_at_ms\":1000000}}",
                "0a".repeat(16),
                "60".repeat(16),
                "f0".repeat(32)
            )
        );
    }

    #[test]
    fn what_is_rendered_is_read_back() {
        for phase in [Phase::Starting, Phase::Running, Phase::Stopping] {
            let mut record = record(phase);
            assert_eq!(Record::parse(&record.render()), Ok(record.clone()));
            record.payload_manifest_digest = None;
            assert!(String::from_utf8(record.render()).unwrap().contains("\"payload_manifest_digest\":\"\""));
            assert_eq!(Record::parse(&record.render()), Ok(record));
        }
    }

    #[test]
    fn a_record_is_read_strictly() {
        assert_eq!(edited("{", "{\"more\":1,"), ("body", Problem::Unknown));
        assert!(matches!(edited("{", "{\"pid\":1,"), ("body", Problem::Syntax(_))));
        for member in
            ["schema", "phase", "launch_id", "daemon_id", "payload_manifest_digest", "pid", "written_at_ms"]
        {
            let valid = text();
            let start = valid.find(&format!("\"{member}\":")).unwrap();
            let end = valid[start..].find([',', '}']).unwrap() + start;
            let without = format!("{}{}", &valid[..start], valid[end..].trim_start_matches(','));
            let without = without.replace(",}", "}");
            assert_eq!(refusal(&without), (member, Problem::Missing));
            let null = format!("{}\"{member}\":null{}", &valid[..start], &valid[end..]);
            assert_eq!(refusal(&null), (member, Problem::WrongType));
        }
        assert_eq!(edited("\"schema\":1", "\"schema\":2"), ("schema", Problem::NotAllowed));
        for phase in ["Running", "stopped", "", "running-but-longer-than-any"] {
            assert_eq!(edited("running", phase), ("phase", Problem::NotAllowed));
        }
        assert_eq!(edited("4242", "-1"), ("pid", Problem::OutOfRange));
        assert_eq!(edited("1000000", "1e6"), ("written_at_ms", Problem::NotInteger));
    }

    #[test]
    fn identifiers_are_lowercase_hex_of_their_length() {
        let launch = "0a".repeat(16);
        let digest = "f0".repeat(32);
        assert_eq!(edited(&launch, &launch.to_uppercase()), ("launch_id", Problem::NotAllowed));
        assert_eq!(edited(&launch, &launch.replacen('0', "g", 1)), ("launch_id", Problem::NotAllowed));
        assert_eq!(edited(&launch, &launch.replacen('0', "/", 1)), ("launch_id", Problem::NotAllowed));
        assert_eq!(edited(&launch, &launch[1..]), ("launch_id", Problem::NotAllowed));
        assert_eq!(edited(&launch, &launch[2..]), ("launch_id", Problem::NotAllowed));
        assert_eq!(edited(&launch, &format!("{launch}0")), ("launch_id", Problem::TooLong));
        assert_eq!(edited(&launch, ""), ("launch_id", Problem::NotAllowed));
        assert_eq!(edited(&digest, &digest[2..]), ("payload_manifest_digest", Problem::NotAllowed));
        assert_eq!(edited(&digest, &digest.to_uppercase()), ("payload_manifest_digest", Problem::NotAllowed));
    }

    #[test]
    fn a_record_over_its_size_is_refused_unread() {
        let mut padded = text().into_bytes();
        padded.resize(MAX_RECORD_BYTES, b' ');
        assert!(Record::parse(&padded).is_ok());
        padded.push(b' ');
        assert_eq!(Record::parse(&padded).unwrap_err().problem, Problem::TooLong);
    }

    #[test]
    fn starting_and_stopping_expire_after_sixty_seconds_or_from_the_future_and_running_never() {
        for phase in [Phase::Starting, Phase::Stopping] {
            let record = record(phase);
            assert!(record.is_expired(999_999));
            assert!(!record.is_expired(1_000_000));
            assert!(!record.is_expired(1_060_000));
            assert!(record.is_expired(1_060_001));
        }
        for now in [0, 999_999, 1_060_001, u64::MAX] {
            assert!(!record(Phase::Running).is_expired(now));
        }
    }

    #[test]
    fn evidence_is_corrupt_expired_or_fresh() {
        let starting = record(Phase::Starting);
        assert_eq!(RecordEvidence::of(b"{", 1_000_000), RecordEvidence::Corrupt);
        assert_eq!(RecordEvidence::of(&starting.render(), 2_000_000), RecordEvidence::Expired);
        assert_eq!(RecordEvidence::of(&starting.render(), 1_000_000), RecordEvidence::Fresh(starting));
    }

    fn publication(id: u8) -> PublicationEvidence {
        PublicationEvidence::Present { daemon_id: DaemonId::new([id; 16]), pid: 1, port: 1 }
    }

    // P8: every row of the table, and every combination of it.
    #[test]
    fn the_state_table_is_that_of_the_contract() {
        use HostState::{Running, Starting, Stopped, Stopping, Wedged};
        let publications = [
            PublicationEvidence::Missing,
            publication(0x60),
            publication(0x61),
            PublicationEvidence::Corrupt,
            PublicationEvidence::Insecure,
        ];
        let fresh = |phase| RecordEvidence::Fresh(record(phase));
        let held = [
            //                            missing   same id   other id  corrupt insecure
            (fresh(Phase::Starting), [Starting, Starting, Starting, Wedged, Wedged]),
            (fresh(Phase::Running), [Wedged, Running, Wedged, Wedged, Wedged]),
            (fresh(Phase::Stopping), [Stopping, Stopping, Stopping, Wedged, Wedged]),
            (RecordEvidence::Missing, [Wedged; 5]),
            (RecordEvidence::Corrupt, [Wedged; 5]),
            (RecordEvidence::Insecure, [Wedged; 5]),
            (RecordEvidence::Expired, [Wedged; 5]),
        ];
        for (record, states) in &held {
            for (publication, state) in publications.iter().zip(states) {
                assert_eq!(
                    HostState::of(Lock::Held, record, publication),
                    *state,
                    "{record:?} {publication:?}"
                );
                assert_eq!(HostState::of(Lock::Free, record, publication), Stopped);
                assert_eq!(HostState::of(Lock::Insecure, record, publication), Wedged);
            }
        }
    }

    #[test]
    fn the_names_of_the_states_are_those_that_scripts_read() {
        let names = [
            HostState::Stopped,
            HostState::Starting,
            HostState::Running,
            HostState::Stopping,
            HostState::Wedged,
        ]
        .map(|state| state.to_string());
        assert_eq!(names, ["stopped", "starting", "running", "stopping", "wedged"]);
    }
}
