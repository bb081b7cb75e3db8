//! A run beside the run of `fake` on the same case.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// Whether two runs agree in one respect.
    pub enum Agreement { Match = "match", Differs = "differs" }
}

/// How two runs compare in one respect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    pub result: Agreement,
    pub sentence: String,
}

/// A run beside the run of `fake` on the same case, limits and sandbox. Times, resources and patches are not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineComparison {
    pub fake_report: String,
    pub lane_report: String,
    pub report_shape: Compared,
    pub event_order: Compared,
    pub allowed_writes: Compared,
    pub verification: Compared,
    pub blockers: Compared,
    pub artifact_digests: Compared,
    pub freshness: Compared,
}

impl BaselineComparison {
    /// The seven respects, by name.
    pub fn named(&self) -> [(&'static str, &Compared); 7] {
        [
            ("report_shape", &self.report_shape),
            ("event_order", &self.event_order),
            ("allowed_writes", &self.allowed_writes),
            ("verification", &self.verification),
            ("blockers", &self.blockers),
            ("artifact_digests", &self.artifact_digests),
            ("freshness", &self.freshness),
        ]
    }

    /// The respects in which the two differ.
    pub fn differences(&self) -> Vec<&'static str> {
        let differing = self.named().into_iter();
        differing
            .filter(|(_, compared)| compared.result == Agreement::Differs)
            .map(|(name, _)| name)
            .collect()
    }
}
