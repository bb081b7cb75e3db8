//! Any failure under `--json`.

use schemars::JsonSchema;
use serde::Serialize;

/// Any failure under `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorOutput {
    pub error: ErrorBody,
}

/// What failed, why, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorBody {
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]*$"))]
    pub code: String,
    pub message: String,
    pub cause: Option<String>,
    pub hint: Option<String>,
}
