//! What a probe found, and how it is printed. It never holds the key, and decides nothing itself: the state is
//! [`HostState::of`] the rest.

use hostwire_core::json::{ObjectWriter, write_object};
use hostwire_core::lifecycle::{HostState, Lock, PublicationEvidence, RecordEvidence};

/// The state of a run directory's host, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What follows from the rest (P8).
    pub state: HostState,
    /// The lock.
    pub lock: Lock,
    /// The lifecycle record.
    pub record: RecordEvidence,
    /// The discovery file; never its key.
    pub publication: PublicationEvidence,
}

impl Probe {
    pub(super) fn new(lock: Lock, record: RecordEvidence, publication: PublicationEvidence) -> Self {
        Self { state: HostState::of(lock, &record, &publication), lock, record, publication }
    }

    /// The process ID that is published, for display.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match self.publication {
            PublicationEvidence::Present { pid, .. } => Some(pid),
            PublicationEvidence::Missing | PublicationEvidence::Corrupt | PublicationEvidence::Insecure => {
                None
            }
        }
    }

    /// The line that `hostwire probe --json` prints.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        write_object(&mut out, |object| {
            object.string("state", self.state.as_str());
            object.string("lock", lock_word(self.lock));
            write_record(object, &self.record);
            write_publication(object, &self.publication);
        });
        // The writer only writes UTF-8.
        String::from_utf8(out).unwrap_or_default()
    }
}

fn lock_word(lock: Lock) -> &'static str {
    match lock {
        Lock::Free => "free",
        Lock::Held => "held",
        Lock::Insecure => "insecure",
    }
}

fn write_record(object: &mut ObjectWriter<'_>, record: &RecordEvidence) {
    let word = match record {
        RecordEvidence::Missing => "missing",
        RecordEvidence::Corrupt => "corrupt",
        RecordEvidence::Insecure => "insecure",
        RecordEvidence::Expired => "expired",
        RecordEvidence::Fresh(record) => {
            return object.object("record", |object| record.write_members(object));
        }
    };
    object.string("record", word);
}

fn write_publication(object: &mut ObjectWriter<'_>, publication: &PublicationEvidence) {
    let word = match publication {
        PublicationEvidence::Missing => "missing",
        PublicationEvidence::Corrupt => "corrupt",
        PublicationEvidence::Insecure => "insecure",
        PublicationEvidence::Present { daemon_id, pid, port } => {
            return object.object("publication", |object| {
                object.string("daemon_id", &daemon_id.to_string());
                object.number("pid", (*pid).into());
                object.number("port", (*port).into());
            });
        }
    };
    object.string("publication", word);
}
