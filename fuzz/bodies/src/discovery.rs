//! The discovery document and the lifecycle record.

use hostwire_core::discovery::{Document, MAX_BYTES};
use hostwire_core::lifecycle::{
    HostState, Lock, MAX_RECORD_BYTES, Phase, PublicationEvidence, Record, RecordEvidence,
};

/// Reads one file as both; what is accepted is written and read again.
///
/// # Panics
/// If it does not survive being written, or a probe believes what it must not.
pub fn discovery(data: &[u8]) {
    crate::json::json(data);
    let document = Document::parse(data);
    if let Ok(document) = &document {
        assert!(data.len() <= MAX_BYTES, "D1");
        assert!(document.endpoint().ip().is_loopback() && document.endpoint().port() != 0, "D3");
        assert!(!document.credentials.daemon_ver.is_empty(), "D2");
        let written = document.render();
        if written.len() <= MAX_BYTES {
            let again = Document::parse(&written).expect("what is written can be read");
            assert_eq!((again.port, again.pid), (document.port, document.pid));
            assert!(again.credentials.key == document.credentials.key);
            assert_eq!(again.credentials.daemon_id, document.credentials.daemon_id);
            assert_eq!(again.credentials.daemon_ver, document.credentials.daemon_ver);
        }
    }
    if let Ok(record) = Record::parse(data) {
        assert!(data.len() <= MAX_RECORD_BYTES);
        assert_eq!(Record::parse(&record.render()).as_ref(), Ok(&record), "P6");
    }
    let publication = match document {
        Ok(document) => PublicationEvidence::Present {
            daemon_id: document.credentials.daemon_id,
            pid: document.pid,
            port: document.port.get(),
        },
        Err(_) => PublicationEvidence::Corrupt,
    };
    for now in [0, 1_000, 61_001, u64::MAX] {
        let record = RecordEvidence::of(data, now);
        for publication in [&publication, &PublicationEvidence::Missing, &PublicationEvidence::Insecure] {
            probe(&record, publication, now);
        }
    }
}

/// P8, read backwards: what has to be true of the evidence for each state.
fn probe(record: &RecordEvidence, publication: &PublicationEvidence, now: u64) {
    assert_eq!(HostState::of(Lock::Free, record, publication), HostState::Stopped);
    assert_eq!(HostState::of(Lock::Insecure, record, publication), HostState::Wedged);
    let fresh = match record {
        RecordEvidence::Fresh(record) => {
            let young = record.written_at_ms <= now && now - record.written_at_ms <= 60_000;
            assert!(young || record.phase == Phase::Running, "P9");
            Some(record)
        }
        RecordEvidence::Missing
        | RecordEvidence::Corrupt
        | RecordEvidence::Insecure
        | RecordEvidence::Expired => None,
    };
    let phase = fresh.map(|record| record.phase);
    match HostState::of(Lock::Held, record, publication) {
        HostState::Stopped => panic!("P8: a held lock is no stopped host"),
        HostState::Starting => assert_eq!(phase, Some(Phase::Starting)),
        HostState::Stopping => assert_eq!(phase, Some(Phase::Stopping)),
        HostState::Running => {
            assert_eq!(phase, Some(Phase::Running));
            let PublicationEvidence::Present { daemon_id, .. } = publication else {
                panic!("P8: nothing published")
            };
            assert_eq!(fresh.map(|record| record.daemon_id), Some(*daemon_id), "P8");
        }
        HostState::Wedged => {}
    }
}
