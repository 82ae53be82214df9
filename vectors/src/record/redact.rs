//! What a control body says that nobody may read in a file: tokens, descriptors, parameters, nonces (Z1, N15).

use serde_json::Value;

/// Members whose value is left out, wherever they stand.
const SECRET: [&str; 12] = [
    "activation_token",
    "token",
    "descriptor",
    "parameters",
    "launch_nonce",
    "client_nonce",
    "server_nonce",
    "nonce",
    "client_auth",
    "server_proof",
    "proof",
    "key",
];

/// The body without its secrets, where it has any; and whether it is JSON at all: what is not cannot be searched.
pub(super) fn redacted(body: &[u8]) -> Result<Option<Vec<u8>>, NotJson> {
    let mut value: Value = serde_json::from_slice(body).map_err(|_| NotJson)?;
    if !clean(&mut value) {
        return Ok(None);
    }
    serde_json::to_vec(&value).map(Some).map_err(|_| NotJson)
}

/// A control body without its tokens, descriptors, parameters and nonces; `None` where it has none, or is no JSON.
#[must_use]
pub fn without_secrets(body: &[u8]) -> Option<Vec<u8>> {
    redacted(body).ok().flatten()
}

/// A body that cannot be searched for secrets.
pub(super) struct NotJson;

fn clean(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => {
            let mut found = false;
            for (name, value) in members {
                // Empty ones say nothing, and some rules depend on their being empty (N14).
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                if SECRET.contains(&name.as_str()) && !empty {
                    *value = match value.as_str() {
                        // As long as it was: lengths have limits (C2).
                        Some(text) => Value::from(".".repeat(text.len())),
                        None if value.is_object() => serde_json::json!({"left_out": true}),
                        None => Value::from("left out"),
                    };
                    found = true;
                } else {
                    found |= clean(value);
                }
            }
            found
        }
        Value::Array(values) => values.iter_mut().fold(false, |found, value| clean(value) | found),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::redacted;

    #[test]
    fn z1_n15_no_secret_of_a_control_body_is_kept() {
        let body = br#"{"op":"x","offers":[{"parameters":{"a":"SECRET"}},{"parameters":{}}],"consumer_identity":{"launch_nonce":"SECRET"},"activation_token":"SECRET"}"#;
        let text = String::from_utf8(redacted(body).ok().flatten().expect("it has some")).expect("text");
        assert!(!text.contains("SECRET") && text.contains(r#""parameters":{}"#), "{text}");
        assert!(matches!(redacted(br#"{"op":"catalog.list"}"#), Ok(None)));
        assert!(redacted(b"activation_token").is_err());
    }
}
