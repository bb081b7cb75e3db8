//! `docs/evidence-fields.md`, from the types of the log and of the report: nothing that stands in a pack is left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cto_contract::event::RunEvent;
use cto_contract::report::Report;
use cto_contract::schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value};

const HEAD: &str = "\
# Every field of a pack

The data of every event of the log, the report, and all that stands in them. Made from the code; what a verifier must check
is said in [evidence-format.md](evidence-format.md). A field that is marked `?` may be absent.
";

fn schema<T: JsonSchema>() -> Map<String, Value> {
    match serde_json::to_value(schema_for!(T)) {
        Ok(Value::Object(schema)) => schema,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// The whole page.
pub(crate) fn page() -> String {
    let (event, report) = (schema::<RunEvent>(), schema::<Report>());
    let mut out = HEAD.to_owned();
    out.push_str("\n## Events\n\n| type | `data` |\n| --- | --- |\n");
    for kind in list(event.get("oneOf")) {
        let properties = &kind["properties"];
        let name = properties["type"]["const"].as_str().unwrap_or_default();
        writeln!(out, "| `{name}` | {} |", kind_of(&properties["data"])).ok();
    }
    out.push_str("\n## Line of the log\n\n");
    fields(&mut out, &Value::Object(event.clone()));
    out.push_str("\n## Report\n\n");
    fields(&mut out, &Value::Object(report.clone()));
    let mut types = BTreeMap::new();
    for schema in [event, report] {
        if let Some(Value::Object(found)) = schema.get("$defs") {
            types.extend(found.clone());
        }
    }
    out.push_str("\n## Types\n");
    for (name, kind) in &types {
        write!(out, "\n### {name}\n\n").ok();
        let about = sentence(kind);
        if !about.is_empty() {
            write!(out, "{about}\n\n").ok();
        }
        if kind.get("properties").is_some() {
            fields(&mut out, kind);
        } else {
            writeln!(out, "{}", kind_of(&without_about(kind))).ok();
        }
    }
    out
}

/// The table of the fields of an object.
fn fields(out: &mut String, kind: &Value) {
    let required = list(kind.get("required"));
    out.push_str("| field | is | meaning |\n| --- | --- | --- |\n");
    for (name, field) in kind["properties"].as_object().into_iter().flatten() {
        let mark = match required.iter().any(|r| r == name) {
            true => "",
            false => "?",
        };
        let about = sentence(field);
        writeln!(out, "| `{name}`{mark} | {} | {about} |", kind_of(field)).ok();
    }
}

fn list(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).cloned().unwrap_or_default()
}

fn sentence(kind: &Value) -> String {
    let text = kind["description"].as_str().unwrap_or_default();
    text.replace('\n', " ").replace('|', "\\|")
}

fn without_about(kind: &Value) -> Value {
    let mut kind = kind.clone();
    if let Some(fields) = kind.as_object_mut() {
        fields.remove("description");
    }
    kind
}

/// What a value may be, in words.
fn kind_of(kind: &Value) -> String {
    let some = |value: Option<&Value>| list(value).iter().map(kind_of).collect::<Vec<_>>();
    if let Some(name) = kind["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(word) = kind.get("const") {
        return format!("`{}`", plain(word));
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        if kind.get(several).is_some() {
            return some(kind.get(several)).join(", ");
        }
    }
    if kind.get("enum").is_some() {
        let words = list(kind.get("enum"));
        let words: Vec<String> = words.iter().map(|w| format!("`{}`", plain(w))).collect();
        return words.join(", ");
    }
    if let Some(item) = kind.get("items") {
        return format!("list of {}", kind_of(item));
    }
    if let Some(entry) = kind.get("additionalProperties").filter(|e| e.is_object()) {
        return format!("map to {}", kind_of(entry));
    }
    match &kind["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().map(plain).collect::<Vec<_>>().join(" or "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => "any".to_owned(),
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
