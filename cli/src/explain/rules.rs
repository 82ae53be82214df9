//! Which rules of protocol.md bite at a frame, as far as it and what came before it show.

use super::{Frame, Side};
use hostwire::core::wire::FrameType;
use std::collections::BTreeSet;

/// What is known of a connection.
#[derive(Default)]
pub(crate) struct Rules {
    settled: BTreeSet<(u16, u32, u64)>,
    routes: BTreeSet<(u16, u32)>,
    watermark: u64,
}

/// As protocol.md spells it.
pub(crate) const fn frame_name(kind: FrameType) -> &'static str {
    match kind {
        FrameType::Request => "Request",
        FrameType::Response => "Response",
        FrameType::Push => "Push",
        FrameType::StreamData => "StreamData",
        FrameType::StreamEnd => "StreamEnd",
        FrameType::Error => "Error",
        FrameType::Cancel => "Cancel",
        FrameType::Ping => "Ping",
        FrameType::Pong => "Pong",
        FrameType::Hello => "Hello",
        FrameType::HelloAck => "HelloAck",
        FrameType::Goodbye => "Goodbye",
    }
}

/// The rules behind the end of a connection.
pub(crate) fn of_cause(cause: &str) -> &'static [&'static str] {
    match cause {
        "eof" | "goodbye" => &["G1", "G2"],
        "corruption" => &["W2", "G2"],
        "wrong_frame" => &["F1", "G2"],
        "watermark" => &["Q2", "G2"],
        "auth" => &["A6"],
        "auth_deadline" => &["A5"],
        "setup" => &["N1", "N9"],
        "negotiation" => &["N8"],
        "candidate" => &["N11"],
        "superseded" => &["N10"],
        "frame_deadline" => &["W6", "B10"],
        "drained" => &["G3"],
        _ => &[],
    }
}

impl Rules {
    /// Says what the frame is about, and the rules that bite.
    pub(crate) fn judge(&mut self, frame: &mut Frame) {
        let identity = (frame.channel, frame.epoch, frame.corr);
        let json: Option<serde_json::Value> =
            if frame.hex { None } else { serde_json::from_str(&frame.body).ok() };
        let member = |name: &str| {
            json.as_ref().and_then(|json| json.get(name)).and_then(|value| value.as_str()).map(str::to_owned)
        };
        let control = frame.channel == 0;
        match frame.kind {
            "Request" => {
                if frame.corr <= self.watermark {
                    frame.rules.push("Q2");
                }
                self.watermark = self.watermark.max(frame.corr);
                if control {
                    frame.what = member("op");
                    frame.rules.extend(match frame.what.as_deref() {
                        Some("transport.negotiate") => &["N1"][..],
                        Some("route.open") => &["R1"],
                        Some("catalog.list" | "host.shutdown") => &["C5"],
                        Some(_) => &["C4"],
                        None => &["C3"],
                    });
                } else if !self.routes.contains(&(frame.channel, frame.epoch)) {
                    frame.rules.push("R5");
                }
            }
            "Response" => {
                self.terminal(frame, identity);
                if control {
                    frame.what = member("op");
                    match frame.what.as_deref() {
                        Some("transport.negotiate") => frame.rules.push("N5"),
                        Some("host.shutdown") => frame.rules.push("H1"),
                        Some("route.open") => {
                            let number = |name: &str| {
                                json.as_ref()
                                    .and_then(|json| json.get(name))
                                    .and_then(serde_json::Value::as_u64)
                            };
                            if let (Some(channel), Some(epoch)) =
                                (number("route_channel"), number("route_epoch"))
                                && let (Ok(channel), Ok(epoch)) =
                                    (u16::try_from(channel), u32::try_from(epoch))
                            {
                                self.routes.insert((channel, epoch));
                            }
                        }
                        Some(_) | None => {}
                    }
                }
            }
            "Error" => {
                self.terminal(frame, identity);
                frame.what = member("code");
                frame.rules.extend(match frame.what.as_deref() {
                    Some("cancelled") => &["X1"][..],
                    // These prove that nothing ran.
                    Some("server_busy") => &["B6", "O4"],
                    Some("unknown_channel") => &["R5", "O4"],
                    Some("unknown_module" | "module_reloading" | "target_unavailable" | "module_timeout") => {
                        &["O4"]
                    }
                    Some("invalid_control_request") => &["C3"],
                    Some("unsupported_operation") => &["C4"],
                    Some("bind_rejected") => &["R2"],
                    Some("internal_error") => &["B11"],
                    Some(_) | None => &[],
                });
            }
            "StreamEnd" => self.terminal(frame, identity),
            "StreamData" if self.settled.contains(&identity) => frame.rules.push("F5"),
            "StreamData" => frame.rules.push("Q5"),
            "Cancel" if self.settled.contains(&identity) => frame.rules.push("F2"),
            "Cancel" => frame.rules.push("X1"),
            "Ping" | "Pong" => frame.rules.push("L1"),
            "Goodbye" if control => frame.rules.push("G1"),
            "Goodbye" => {
                self.routes.remove(&(frame.channel, frame.epoch));
                frame.rules.push(if frame.from == Side::Client { "R6" } else { "R9" });
            }
            _ => frame.rules.push("F1"),
        }
    }

    /// F5: the first terminal wins.
    fn terminal(&mut self, frame: &mut Frame, identity: (u16, u32, u64)) {
        frame.rules.push(if self.settled.insert(identity) { "Q5" } else { "F5" });
    }
}
