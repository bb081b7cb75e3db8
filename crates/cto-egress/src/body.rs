//! The body of a call: one JSON object whose keys stand once. What is forwarded is written anew from what was looked at.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use cto_contract::words::Wire;

use crate::reach::{self, is_same_key};
use crate::refusal::{Objection, Refusal};
use crate::wires;

/// Most keys of the object.
const KEYS_MAX: usize = 256;
/// Most characters of a model's name that a record keeps.
const MODEL_CHARS_MAX: usize = 120;
/// Keys that are read here.
const DECIDING: [&str; 4] = ["model", "stream", "stream_options", "background"];

/// A body that may go on.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) bytes: Vec<u8>,
    pub(crate) model: Option<String>,
    pub(crate) is_streamed: bool,
}

/// Looks at a body and writes it anew. Values keep their own bytes: not even the order of a schema's keys changes. `pinned` is
/// the only model that may be asked for.
pub(crate) fn inspect(
    wire: Wire,
    pinned: Option<&str>,
    bytes: &[u8],
) -> Result<Inspected, Objection> {
    let Fields(fields) = serde_json::from_slice(bytes).map_err(|error| {
        let repeated = error.to_string().starts_with(REPEATED);
        if repeated {
            Refusal::RepeatedKey
        } else {
            Refusal::BadJson
        }
    })?;
    // Some readers take another spelling for the same key; what is looked at here must be what they see.
    let misspelt = |key: &String| DECIDING.iter().any(|d| key != d && is_same_key(key, d));
    if fields.iter().any(|(key, _)| misspelt(key)) {
        return Err(Refusal::BadField.into());
    }
    let row = wires::row(wire);
    reach::check(row.reach, bytes)?;
    let value = |name: &str| {
        let found = fields.iter().find(|(key, _)| key == name);
        found.map(|(_, raw)| raw.get()).filter(|raw| *raw != "null")
    };
    let flag = |name| match value(name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Refusal::BadField),
    };
    if flag("background")? {
        return Err(Refusal::BackgroundWork.into());
    }
    let is_streamed = flag("stream")?;
    let model = value("model")
        .map(serde_json::from_str::<String>)
        .transpose()
        .map_err(|_| Refusal::BadField)?;
    if let Some(pinned) = pinned.filter(|pinned| model.as_deref() != Some(*pinned)) {
        return Err(Objection {
            refusal: Refusal::ModelMismatch,
            subject: Some(model.map_or_else(|| "no model".to_owned(), |name| shown(&name))),
            remedy: Some(format!("ask for `{}`", shown(pinned))),
        });
    }
    let options = if is_streamed && row.asks_for_usage {
        Some(with_usage(value("stream_options"))?)
    } else {
        None
    };
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let mut put = |key: &str, raw: &str| {
        out.push(if out.is_empty() { b'{' } else { b',' });
        // A string can always be written.
        out.extend_from_slice(serde_json::Value::from(key).to_string().as_bytes());
        out.push(b':');
        out.extend_from_slice(raw.as_bytes());
    };
    for (key, raw) in &fields {
        if options.is_none() || key != "stream_options" {
            put(key, raw.get());
        }
    }
    if let Some(options) = &options {
        put("stream_options", options);
    }
    if out.is_empty() {
        out.push(b'{');
    }
    out.push(b'}');
    Ok(Inspected {
        bytes: out,
        model: model.map(|name| shown(&name)),
        is_streamed,
    })
}

/// Asks for the count at the end of a stream, whatever else is asked for.
fn with_usage(options: Option<&str>) -> Result<String, Refusal> {
    let mut kept = Vec::new();
    if let Some(options) = options {
        let Fields(fields) = serde_json::from_str(options).map_err(|_| Refusal::BadField)?;
        for (key, raw) in fields {
            if key != "include_usage" {
                kept.push(format!("{}:{}", serde_json::Value::from(key), raw.get()));
            }
        }
    }
    kept.push("\"include_usage\":true".to_owned());
    Ok(format!("{{{}}}", kept.join(",")))
}

pub(crate) fn shown(name: &str) -> String {
    let short: String = name.chars().take(MODEL_CHARS_MAX).collect();
    short.escape_debug().to_string()
}

const REPEATED: &str = "a key stands twice";

/// The keys of an object with their values as they were written.
struct Fields<'b>(Vec<(String, &'b RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                use serde::de::Error;
                let mut fields: Vec<(String, &'de RawValue)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if fields.iter().any(|(known, _)| is_same_key(known, &key)) {
                        return Err(A::Error::custom(REPEATED));
                    }
                    if fields.len() == KEYS_MAX {
                        return Err(A::Error::custom("too many keys"));
                    }
                    fields.push((key, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chat(body: &str) -> String {
        seen(inspect(Wire::ChatCompletions, None, body.as_bytes()))
    }

    fn seen(inspected: Result<Inspected, Objection>) -> String {
        match inspected {
            Ok(found) => format!(
                "{} model={} streamed={}",
                String::from_utf8_lossy(&found.bytes),
                found.model.unwrap_or_else(|| "-".to_owned()),
                found.is_streamed
            ),
            Err(objection) => objection.refusal.as_str().to_owned(),
        }
    }

    #[test]
    fn values_keep_their_bytes_and_a_stream_asks_for_its_count() {
        let cases = [
            (
                r#"{"model":"m", "messages":[ {"b":1.50,"a":1E+2} ]}"#,
                r#"{"model":"m","messages":[ {"b":1.50,"a":1E+2} ]} model=m streamed=false"#,
            ),
            (
                r#"{"stream":true}"#,
                r#"{"stream":true,"stream_options":{"include_usage":true}} model=- streamed=true"#,
            ),
            (
                r#"{"stream_options":{"include_usage":false,"x":[1]},"stream":true}"#,
                r#"{"stream":true,"stream_options":{"x":[1],"include_usage":true}} model=- streamed=true"#,
            ),
            (
                r#"{"stream_options":null,"stream":true}"#,
                r#"{"stream":true,"stream_options":{"include_usage":true}} model=- streamed=true"#,
            ),
            ("{}", "{} model=- streamed=false"),
            (r#"{"a\n\"b":1}"#, r#"{"a\n\"b":1} model=- streamed=false"#),
            ("[]", "bad_json"),
            ("", "bad_json"),
            ("{} {}", "bad_json"),
            (r#"{"model":"a","model":"b"}"#, "repeated_key"),
            (r#"{"model":"a","mod\u0065l":"b"}"#, "repeated_key"),
            // Go and others overlook case, and two letters beyond ASCII.
            (r#"{"model":"a","Model":"b"}"#, "repeated_key"),
            (r#"{"mode\u006c":"a","MODEL":"b"}"#, "repeated_key"),
            (r#"{"stream":false,"\u017ftream":true}"#, "repeated_key"),
            (r#"{"Background":true}"#, "bad_field"),
            (r#"{"streamOptions":{}}"#, "bad_field"),
            (r#"{"model":7}"#, "bad_field"),
            (r#"{"stream":"yes"}"#, "bad_field"),
            (r#"{"stream":true,"stream_options":3}"#, "bad_field"),
            (r#"{"background":true}"#, "background_work"),
        ];
        for (body, expected) in cases {
            assert_eq!(chat(body), expected, "{body}");
        }
        let responses = inspect(Wire::Responses, None, br#"{"stream":true}"#);
        assert_eq!(seen(responses), r#"{"stream":true} model=- streamed=true"#);
    }

    #[test]
    fn a_model_that_is_not_the_pinned_one_is_refused_by_name_and_with_the_remedy() {
        let told = |body: &str| match inspect(Wire::Messages, Some("m-1"), body.as_bytes()) {
            Ok(found) => found.model.unwrap_or_default(),
            Err(objection) => format!(
                "{} {} {}",
                objection.refusal.as_str(),
                objection.subject.unwrap_or_default(),
                objection.remedy.unwrap_or_default()
            ),
        };
        assert_eq!(told(r#"{"model":"m-1"}"#), "m-1");
        assert_eq!(
            told(r#"{"model":"M-1"}"#),
            "model_mismatch M-1 ask for `m-1`"
        );
        for none in ["{}", r#"{"model":null}"#] {
            assert_eq!(told(none), "model_mismatch no model ask for `m-1`");
        }
    }

    proptest! {
        #[test]
        fn what_goes_on_is_one_object_with_the_same_values(
            keys in proptest::collection::btree_set("[a-z]{1,6}", 0..5),
            number in any::<i64>(),
        ) {
            let object: serde_json::Map<String, serde_json::Value> = keys
                .iter()
                .filter(|key| !["model", "stream", "tools", "prompt"].contains(&key.as_str()))
                .map(|key| (key.clone(), number.into()))
                .collect();
            let body = serde_json::Value::Object(object);
            let found = inspect(Wire::Responses, None, body.to_string().as_bytes()).unwrap();
            let again: serde_json::Value = serde_json::from_slice(&found.bytes).unwrap();
            prop_assert_eq!(again, body);
        }

        #[test]
        fn any_bytes_are_looked_at_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            inspect(Wire::ChatCompletions, Some("m"), &bytes).ok();
        }
    }
}
