//! Mermaid: a sequence diagram that other tools draw.

use super::text::about;
use super::{Side, Told};
use crate::output::printable;

/// What comes before everything.
pub(crate) const HEAD: &str = "sequenceDiagram\n    participant C as client\n    participant H as host";

/// One line.
pub(crate) fn line(told: &Told) -> String {
    match told {
        Told::Case { name, .. } => format!("    Note over C,H: {}", escaped(name)),
        Told::Note { text, .. } => format!("    Note over C,H: {}", escaped(text)),
        Told::Frame(frame) => {
            let arrow = match frame.from {
                Side::Client => "C->>H",
                Side::Host => "H-->>C",
            };
            let at = frame.at.as_ref().map_or_else(String::new, |at| format!(" at {at} ms"));
            let size = frame.len.map_or_else(String::new, |len| format!(", {len} bytes"));
            let label = format!(
                "{} {}/{}/{}{}{size}{at}",
                frame.kind,
                frame.channel,
                frame.epoch,
                frame.corr,
                about(frame)
            );
            format!("    {arrow}: {}", escaped(&label))
        }
    }
}

/// Mermaid ends a statement at `;` and begins an entity at `#`.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in printable(text).chars() {
        match c {
            '#' => safe.push_str("#35;"),
            ';' => safe.push_str("#59;"),
            '<' => safe.push_str("#lt;"),
            '>' => safe.push_str("#gt;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn a_peers_text_cannot_end_a_statement() {
        assert_eq!(escaped("a;b#c\nd<e>"), "a#59;b#35;c\\nd#lt;e#gt;");
    }
}
