//! The book: every page is in it, and every link inside it leads somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn docs() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> BTreeSet<String> {
    let entries = docs().read_dir().expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect()
}

/// The targets of a page's links, without code blocks.
fn links(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(docs().join(page)).expect("a page");
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        let mut rest = if code { "" } else { line };
        while let Some((_, after)) = rest.split_once("](") {
            let (target, more) = after.split_once(')').unwrap_or((after, ""));
            found.push(target.to_owned());
            rest = more;
        }
    }
    found
}

#[test]
fn every_page_is_in_the_book_once() {
    let listed = links("SUMMARY.md");
    let set: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(set.len(), listed.len(), "one is listed twice");
    assert_eq!(set, pages());
}

#[test]
fn every_link_inside_the_book_leads_somewhere() {
    for page in pages() {
        for link in links(&page) {
            if link.starts_with("https://") {
                continue;
            }
            assert!(!link.contains("::"), "{page}: {link} is a link for rustdoc only");
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target: PathBuf = if file.is_empty() { docs().join(&page) } else { docs().join(file) };
            assert!(target.exists(), "{page}: {link}");
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&target).expect("a page");
                let slug = |line: &str| {
                    let title = line.trim_start_matches('#').trim().to_lowercase();
                    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
                    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
                };
                let mut titles = text.lines().filter(|line| line.starts_with('#'));
                assert!(titles.any(|line| slug(line) == anchor), "{page}: {link}");
            }
        }
    }
}
