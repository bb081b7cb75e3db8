//! `cto show`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::Report;
use crate::trust::Origin;

/// `cto show`: the report, and whose it is. A report has no say in that.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShownReport {
    #[serde(flatten)]
    pub report: Report,
    /// By the key that sealed the pack; null while it is not sealed.
    pub origin: Option<Origin>,
    /// The ledger of this home created the run and knows this very pack of it.
    pub of_this_home: bool,
}
