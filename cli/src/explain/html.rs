//! A page that needs nothing but a browser: its data, its style and its script are in it, and nothing is fetched.
//!
//! Everything from a file reaches the page as JSON and is put there as text, never as markup.

use super::Told;

const PAGE: &str = include_str!("page.html");
const MARK: &str = "<!--DATA-->";

/// What comes before the data.
pub(crate) fn head() -> &'static str {
    PAGE.split_once(MARK).map_or("", |(head, _)| head)
}

/// What comes after it.
pub(crate) fn tail() -> &'static str {
    PAGE.split_once(MARK).map_or("", |(_, tail)| tail)
}

/// One line of the data.
pub(crate) fn line(told: &Told) -> Result<String, serde_json::Error> {
    // Nothing in a script element ends it but `</`, and nothing in JSON needs a bare `<`.
    Ok(serde_json::to_string(told)?.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_cannot_end_the_script_that_it_stands_in() {
        let told = Told::Note { at: None, text: "</script><!--".into(), rules: Vec::new() };
        assert!(!line(&told).unwrap().contains('<'));
        assert!(
            head().contains("<script") && tail().starts_with("</script>") || tail().contains("</script>")
        );
    }
}
