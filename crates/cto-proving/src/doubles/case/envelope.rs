//! The result that a role gives, and the envelope that it stands in.

use serde_json::{Map, Value, json};

const START: &str = "<<<AGENT_RESULT";
const END: &str = "AGENT_RESULT>>>";
const STATUSES: [&str; 3] = ["completed", "failed", "blocked"];

/// What a role came to, as it stands at the end of its phase.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RoleResult(Map<String, Value>);

impl RoleResult {
    /// Reads all that a role said: the last envelope counts, and what is none becomes a failure.
    pub(super) fn read(said: &str) -> Self {
        Self::parse(said).unwrap_or_else(|error| Self::failed(&error))
    }

    fn parse(said: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("AGENT_RESULT {what}");
        let (_, rest) = said
            .rsplit_once(START)
            .ok_or_else(|| wrong("start delimiter not found"))?;
        let (inner, _) = rest
            .split_once(END)
            .ok_or_else(|| wrong("end delimiter not found"))?;
        let value: Value = serde_json::from_str(inner.trim())
            .map_err(|error| wrong(&format!("JSON parse error: {error}")))?;
        let Value::Object(told) = value else {
            return Err(wrong("is not a JSON object"));
        };
        let status = told.get("status").and_then(Value::as_str).unwrap_or("");
        if status.is_empty() {
            return Err(wrong("missing required field: status"));
        }
        if !STATUSES.contains(&status) {
            return Err(wrong(&format!("invalid status: {status}")));
        }
        let text = |name: &str| told.get(name).and_then(Value::as_str);
        let mut result = Self::of(status, text("summary").unwrap_or(""), text("error"));
        if let (Some(Value::Object(given)), Some(Value::Object(kept))) =
            (told.get("artifacts"), result.0.get_mut("artifacts"))
        {
            for (name, value) in kept.iter_mut() {
                if let Some(new) = given.get(name).filter(|new| fits(value, name, new)) {
                    *value = new.clone();
                }
            }
        }
        for name in ["findings", "rubric"] {
            if let Some(value) = told.get(name).filter(|value| value.is_object()) {
                result.0.insert(name.to_owned(), value.clone());
            }
        }
        Ok(result)
    }

    pub(super) fn failed(error: &str) -> Self {
        Self::of("failed", "", Some(error))
    }

    pub(super) fn of(status: &str, summary: &str, error: Option<&str>) -> Self {
        let artifacts = json!({
            "commit": null, "filesChanged": [], "testsPassed": null, "screenshotUrls": [],
            "evidenceMarkers": [], "prUrl": null, "prNumber": null,
        });
        let fields = [
            ("status", json!(status)),
            ("summary", json!(summary)),
            ("artifacts", artifacts),
            ("error", json!(error)),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        Self(fields.into_iter().collect())
    }

    pub(super) fn value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    pub(super) fn is_completed(&self) -> bool {
        self.0.get("status") == Some(&json!("completed"))
    }

    pub(super) fn error(&self) -> &str {
        self.0
            .get("error")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(super) fn is_without_envelope(&self) -> bool {
        self.error().starts_with("AGENT_RESULT ")
    }

    /// Critical findings of a reviewer.
    pub(super) fn critical(&self) -> f64 {
        let findings = self.0.get("findings");
        let critical = findings.and_then(|f| f.get("critical"));
        critical.and_then(Value::as_f64).unwrap_or_default()
    }

    /// Categories of a role's rubric that fail.
    pub(super) fn failed_categories(&self) -> Vec<Value> {
        let categories = self.0.get("rubric").and_then(|r| r.get("categories"));
        let categories = categories.and_then(Value::as_array);
        let is_failed = |c: &&Value| c.get("verdict") == Some(&json!("fail"));
        let failed = categories.into_iter().flatten().filter(is_failed);
        failed.cloned().collect()
    }
}

/// Whether a value is of the kind that its field takes.
fn fits(usual: &Value, name: &str, new: &Value) -> bool {
    match (usual, name) {
        (Value::Array(_), _) => new.is_array(),
        (_, "testsPassed") => new.is_boolean(),
        (_, "prNumber") => new.is_number(),
        _ => new.is_string(),
    }
}
