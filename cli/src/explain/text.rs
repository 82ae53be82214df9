//! Text: a frame a line, its fields named.

use super::{Frame, Told};
use crate::output::printable;

/// How much of a body stands in the line.
const PREVIEW: usize = 72;

/// One line.
pub(crate) fn line(told: &Told) -> String {
    match told {
        Told::Case { file, name, rules } => {
            let rules = rules.join(" ");
            format!("{file}: {name} [{rules}]")
        }
        Told::Note { at, text, rules } => {
            format!("{}  -- {}{}", moment(at.as_deref()), printable(text), cited(rules))
        }
        Told::Frame(frame) => {
            let size = frame.len.map_or_else(|| "*".to_owned(), |len| len.to_string());
            format!(
                "{}  {}  {:<10} channel={} epoch={} corr={} flags={:#04x} len={size}{}{}{}",
                moment(frame.at.as_deref()),
                frame.from.arrow(),
                frame.kind,
                frame.channel,
                frame.epoch,
                frame.corr,
                frame.flags,
                about(frame),
                preview(frame),
                cited(&frame.rules),
            )
        }
    }
}

fn moment(at: Option<&str>) -> String {
    at.map_or_else(|| " ".repeat(13), |at| format!("{at:>10} ms"))
}

pub(super) fn about(frame: &Frame) -> String {
    frame.what.as_ref().map_or_else(String::new, |what| format!(" {}", printable(what)))
}

fn preview(frame: &Frame) -> String {
    if frame.body.is_empty() {
        return String::new();
    }
    let mut text: String = frame.body.chars().take(PREVIEW).collect();
    if text.len() < frame.body.len() {
        text.push('…');
    }
    let cut = frame.kept.as_ref().map_or_else(String::new, |kept| format!(" (kept: {kept})"));
    let hex = if frame.hex { "hex " } else { "" };
    format!(" body={hex}{}{cut}", printable(&text))
}

fn cited(rules: &[&str]) -> String {
    if rules.is_empty() { String::new() } else { format!(" [{}]", rules.join(" ")) }
}
