//! `cto validate stage1` to `stage3`, `cto ladder`, `cto health`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::ids::Digest;
use crate::ladder::{ProofState, StageProofs};
use crate::words::{Lane, Stage};

outputs! {
    /// `cto validate stageN`.
    ValidateStageOutput, ValidateStageTag = "cto.validate-stage/v1" {
        /// Every check holds, and so does the stage below.
        pub ok: bool,
        pub stage: Stage,
        pub lane: Lane,
        /// With the installed program; without it with the lane's double.
        pub real: bool,
        pub harness_version: String,
        pub adapter_revision: u32,
        pub checked: Vec<StageCheck>,
        pub errors: Vec<String>,
        /// `report.json` of the run that passed; null at stage 1, where nothing starts.
        pub pass_report: Option<String>,
        /// Fixture to the path of its `report.json`.
        pub failure_reports: BTreeMap<String, String>,
        /// Stage 2.
        pub fake_baseline_report: Option<String>,
        /// Stages 2 to 4.
        pub no_target_inspection_proof: Option<String>,
        /// Stage 3.
        pub source_non_mutation_proof: Option<String>,
        /// The stage below; null at stage 1.
        pub required_stage: Option<RequiredStage>,
        /// Every pack that it rests on, by its path below this validation's directory.
        pub packs: BTreeMap<String, Digest>,
        /// Where the home of the validation is.
        pub directory: String,
        pub seconds: f64,
    }
    /// `cto ladder`.
    LadderOutput, LadderTag = "cto.ladder/v1" {
        pub harness_version: String,
        pub lanes: Vec<LadderRow>,
    }
}

/// The validation of the stage below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequiredStage {
    pub stage: Stage,
    pub ok: bool,
    pub path: String,
}

/// One check of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageCheck {
    pub check: String,
    pub passed: bool,
    /// What does not hold, a sentence each.
    pub errors: Vec<String>,
}

/// One identity of a lane; without one, what holds for the lane before it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LadderRow {
    pub lane: Lane,
    /// Null for a lane that never passed here.
    pub identity: Option<Identity>,
    pub identity_digest: Option<Digest>,
    /// The highest stage that holds with all below it; null for none.
    pub proven: Option<Stage>,
    pub stages: Vec<LadderStage>,
    /// What gets the next proof.
    pub next: Option<String>,
}

/// One stage of one identity, with its reasons as sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LadderStage {
    #[serde(flatten)]
    pub proofs: StageProofs,
    pub sentences: Vec<String>,
}

impl LadderRow {
    /// The state of a stage.
    pub fn state(&self, stage: Stage) -> Option<ProofState> {
        let mut of = self.stages.iter().filter(|s| s.proofs.stage == stage);
        of.next().map(|s| s.proofs.state)
    }
}
