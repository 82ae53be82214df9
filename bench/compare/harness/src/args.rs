//! `role key=value key=value …`

use std::collections::HashMap;
use std::str::FromStr;

/// The arguments of a contender.
#[derive(Clone, Debug)]
pub struct Args {
    /// `server`, `client`, or a role of the contender's own.
    pub role: String,
    values: HashMap<String, String>,
}

impl Args {
    /// Those of the process.
    ///
    /// # Panics
    /// If one is no pair.
    #[must_use]
    pub fn of_process() -> Self {
        let mut all = std::env::args().skip(1);
        let role = all.next().unwrap_or_default();
        let pair = |arg: String| {
            let (key, value) = arg.split_once('=').expect("key=value");
            (key.to_owned(), value.to_owned())
        };
        Self { role, values: all.map(pair).collect() }
    }

    /// A value, or what stands in its place.
    #[must_use]
    pub fn text<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.values.get(key).map_or(default, String::as_str)
    }

    /// A number, or what stands in its place.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn number<T: FromStr>(&self, key: &str, default: T) -> T {
        self.values.get(key).map_or(default, |text| text.parse().ok().expect("a number"))
    }
}
