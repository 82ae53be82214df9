//! Reading requests. Nothing of a command is kept in an error (Z1).

use hostwire_core::json::{self, Problem, ReadError};

/// The longest argument, path or variable.
const TEXT: usize = 1 << 17;
/// The most arguments, and the most variables.
const MANY: usize = 4_096;

/// A command to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) command: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) lossless: bool,
}

/// One request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Start(Start),
    Subscribe { run: String, from: u64, items: Option<u64> },
    Status { run: String },
    Cancel { run: String },
}

impl Ask {
    pub(super) fn read(body: &[u8]) -> Result<Self, ReadError> {
        let object = json::parse(body)?.object()?;
        let [op, run, command, cwd, env, lossless, from, items] =
            object.pick(["op", "run", "command", "cwd", "env", "lossless", "from", "items"]);
        let op = op.required()?;
        let run = || Ok::<_, ReadError>(run.required()?.string(128)?.into_owned());
        Ok(match op.string(64)?.as_ref() {
            "run.start" => {
                let given = command.required()?;
                let mut words = Vec::new();
                for word in given.elements()? {
                    if words.len() == MANY {
                        return Err(given.problem(Problem::TooLong));
                    }
                    words.push(word.string(TEXT)?.into_owned());
                }
                // What the system could not take as one.
                if words.first().is_none_or(String::is_empty) || words.iter().any(|word| word.contains('\0'))
                {
                    return Err(given.problem(Problem::NotAllowed));
                }
                let mut variables = Vec::new();
                if let Some(env) = env.non_null() {
                    for (name, value) in env.object()?.members() {
                        let (name, value) = (name.to_owned(), value.string(TEXT)?.into_owned());
                        let broken = name.is_empty() || name.contains(['=', '\0']) || value.contains('\0');
                        if broken || variables.len() == MANY {
                            return Err(env.problem(Problem::NotAllowed));
                        }
                        variables.push((name, value));
                    }
                }
                let cwd = cwd
                    .non_null()
                    .map(|cwd| cwd.string(TEXT).map(std::borrow::Cow::into_owned))
                    .transpose()?;
                let lossless = lossless.non_null().map_or(Ok(false), |value| value.bool())?;
                Self::Start(Start { command: words, cwd, env: variables, lossless })
            }
            "run.subscribe" => Self::Subscribe {
                run: run()?,
                from: from.non_null().map_or(Ok(0), |value| value.u64())?,
                items: items.non_null().map(|value| value.u64()).transpose()?,
            },
            "run.status" => Self::Status { run: run()? },
            "run.cancel" => Self::Cancel { run: run()? },
            _ => return Err(op.problem(Problem::NotAllowed)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_strictly_and_unknown_members_are_ignored() {
        let start = |text: &str| Ask::read(text.as_bytes());
        assert_eq!(
            start(
                r#"{"op":"run.start","command":["sh","-c","x"],"cwd":"/","env":{"A":"b"},"lossless":true,"more":1}"#
            ),
            Ok(Ask::Start(Start {
                command: vec!["sh".into(), "-c".into(), "x".into()],
                cwd: Some("/".into()),
                env: vec![("A".into(), "b".into())],
                lossless: true,
            }))
        );
        assert_eq!(
            start(r#"{"op":"run.subscribe","run":"r"}"#),
            Ok(Ask::Subscribe { run: "r".into(), from: 0, items: None })
        );
        for broken in [
            "",
            "[]",
            "{}",
            r#"{"op":"run.dance"}"#,
            r#"{"op":"run.start"}"#,
            r#"{"op":"run.start","command":[]}"#,
            r#"{"op":"run.start","command":[""]}"#,
            r#"{"op":"run.start","command":["a\u0000b"]}"#,
            r#"{"op":"run.start","command":"ls"}"#,
            r#"{"op":"run.start","command":["ls"],"env":{"a=b":"c"}}"#,
            r#"{"op":"run.start","command":["ls"],"env":{"a":1}}"#,
            r#"{"op":"run.status"}"#,
            r#"{"op":"run.subscribe","run":"r","from":-1}"#,
        ] {
            assert!(start(broken).is_err(), "{broken}");
        }
    }
}
