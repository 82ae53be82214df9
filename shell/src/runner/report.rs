//! A child's end as JSON. Neither the command nor its output is in it.

use hostwire_core::child::{Ended, EndedBy, Exit, Group, StreamReport};
use hostwire_core::json::ObjectWriter;
use std::time::Duration;

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

const fn who(ended_by: EndedBy) -> &'static str {
    match ended_by {
        EndedBy::Itself => "itself",
        EndedBy::OurTerm => "term",
        EndedBy::OurKill => "kill",
        EndedBy::Nobody => "nobody",
    }
}

const fn group(group: Group) -> &'static str {
    match group {
        Group::Empty => "empty",
        Group::OnlyZombies => "only_zombies",
        Group::Alive => "alive",
        Group::Unknown => "unknown",
    }
}

fn stream(object: &mut ObjectWriter<'_>, name: &str, report: &StreamReport) {
    object.object(name, |object| {
        object.number("bytes", report.bytes);
        object.number("lines", report.lines);
        object.number("truncated", report.truncated);
        object.boolean("eof", report.eof);
    });
}

/// Appends the members of a report.
pub(super) fn write(object: &mut ObjectWriter<'_>, ended: &Ended) {
    let report = ended.report();
    object.string("outcome", ended.verdict().as_str());
    object.string("cause", report.cause.as_str());
    if let Some(failure) = report.failure {
        object.string("failure", failure.as_str());
    }
    match report.exit {
        Exit::Code(code) => object.number("exit_code", u64::try_from(code).unwrap_or_default()),
        Exit::Signal(signal) => object.number("signal", u64::try_from(signal).unwrap_or_default()),
        Exit::Unknown => {}
    }
    object.string("ended_by", who(report.ended_by));
    object.string("group", group(report.group));
    object.number("swept", u64::try_from(report.swept).unwrap_or(u64::MAX));
    object.array("survivors", |array| {
        for survivor in &report.survivors {
            array.object(|object| {
                object.number("pid", survivor.pid.into());
                object.number("group", survivor.group.into());
                object.string("state", survivor.state.encode_utf8(&mut [0; 4]));
            });
        }
    });
    stream(object, "stdout", &report.stdout);
    stream(object, "stderr", &report.stderr);
    object.object("phases", |object| {
        for (phase, time) in &report.phases {
            object.number(phase.as_str(), ms(*time));
        }
    });
    object.number("elapsed_ms", ms(report.elapsed));
}
