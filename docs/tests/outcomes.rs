//! docs/outcomes.md holds every code that a settlement can have, in the row of its outcome.

use hostwire_core::outcome::{LocalCode, NotSentCode, UnknownCode};

/// The codes in the table, each with its outcome.
fn table() -> Vec<(String, String)> {
    let (mut found, mut outcome) = (Vec::new(), String::new());
    for line in include_str!("../outcomes.md").lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, first, codes, _, _, _] = cells[..] else { continue };
        if first.starts_with('`') {
            outcome = first.trim_matches('`').to_owned();
        }
        found.extend(codes.split('`').skip(1).step_by(2).map(|code| (outcome.clone(), code.to_owned())));
    }
    found
}

#[test]
fn b171_every_code_stands_in_the_table_under_its_outcome() {
    let table = table();
    let all = NotSentCode::ALL
        .iter()
        .map(|code| ("not_sent", code.as_str()))
        .chain(UnknownCode::ALL.iter().map(|code| ("outcome_unknown", code.as_str())))
        .chain(LocalCode::ALL.iter().map(|code| ("terminal", code.as_str())));
    for (outcome, code) in all {
        assert!(table.contains(&(outcome.into(), code.into())), "{outcome} {code}");
    }
    let said = table.iter().filter(|(_, code)| !code.starts_with("Error")).count();
    let known = NotSentCode::ALL.len() + UnknownCode::ALL.len() + LocalCode::ALL.len();
    assert_eq!(said, known, "and none that does not exist");
}
