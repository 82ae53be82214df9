//! `probe`: the state of a run directory's host, with the evidence. Touches nothing.

use crate::args::Common;
use crate::exit::{Exit, Stop};
use hostwire::core::lifecycle::{Lock, PublicationEvidence, RecordEvidence};
use hostwire::discovery::{Environment, Location, Probe, probe, unix_now_ms};

/// Where the files are, for commands that look at them.
pub(crate) fn locate(common: &Common) -> Result<Location, Stop> {
    Location::resolve(&Environment::from_process(), &common.place()).map_err(Stop::usage)
}

pub(crate) fn run(common: &Common) -> Result<Exit, Stop> {
    let found = probe(&locate(common)?, unix_now_ms).map_err(|error| Stop::Failed(error.to_string()))?;
    let output = common.output();
    if common.json {
        output.line(&found.to_json())?;
    } else {
        for line in for_people(&found) {
            output.line(&line)?;
        }
    }
    Ok(Exit::SUCCESS)
}

fn for_people(probe: &Probe) -> [String; 4] {
    let lock = match probe.lock {
        Lock::Held => "held",
        Lock::Free => "free",
        Lock::Insecure => "insecure",
    };
    let record = match &probe.record {
        RecordEvidence::Missing => "missing".to_owned(),
        RecordEvidence::Corrupt => "corrupt".to_owned(),
        RecordEvidence::Insecure => "insecure".to_owned(),
        RecordEvidence::Expired => "expired".to_owned(),
        RecordEvidence::Fresh(record) => {
            format!("{}, host {}, pid {}", record.phase.as_str(), record.daemon_id, record.pid)
        }
    };
    let publication = match &probe.publication {
        PublicationEvidence::Missing => "missing".to_owned(),
        PublicationEvidence::Corrupt => "corrupt".to_owned(),
        PublicationEvidence::Insecure => "insecure".to_owned(),
        PublicationEvidence::Present { daemon_id, pid, port } => {
            format!("host {daemon_id}, pid {pid}, port {port}")
        }
    };
    [
        probe.state.as_str().to_owned(),
        format!("  lock         {lock}"),
        format!("  record       {record}"),
        format!("  publication  {publication}"),
    ]
}
