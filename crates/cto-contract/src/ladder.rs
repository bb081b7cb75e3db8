//! What `cto ladder` and the gate of a stage say of an identity's proofs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::RunId;
use crate::words::Stage;

wire_enum! {
    /// Whether a stage holds. Ordered from good to bad.
    pub enum ProofState { Proven = "proven", Stale = "stale", Unproven = "unproven" }
}

wire_enum! {
    /// Why a stage does not hold, or no longer.
    pub enum StageReason {
        /// Its validator has not run.
        NotValidated = "not_validated",
        ValidationFailed = "validation_failed",
        /// It was validated by another version of the harness.
        HarnessChanged = "harness_changed",
        /// It was validated with another revision of the lane's adapter.
        AdapterChanged = "adapter_changed",
        NoRealPass = "no_real_pass",
        /// A real pass is there, of another program, model or sandbox.
        IdentityChanged = "identity_changed",
        /// A real pass is there, under other records.
        AdmissionChanged = "admission_changed",
        /// A real pass is there, and no person decided what its stage asks for.
        DecisionMissing = "decision_missing",
        /// The scripted model proves itself alone, and nothing where a change lands.
        ScriptedModel = "scripted_model",
        ConfinementTooWeak = "confinement_too_weak",
        DirtySource = "dirty_source",
        EvidenceRemoved = "evidence_removed",
        EvidenceDoesNotVerify = "evidence_does_not_verify",
        OriginUnknown = "origin_unknown",
        NotInLedger = "not_in_ledger",
        /// It would hold, but one below it does not.
        StageBelow = "stage_below",
    }
}

impl StageReason {
    /// The reason as a sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NotValidated => "its validator has not run here",
            Self::ValidationFailed => "its validator did not pass",
            Self::HarnessChanged => "the harness changed since it was validated",
            Self::AdapterChanged => "the lane's adapter changed since it was validated",
            Self::NoRealPass => "there is no real pass with this program, model and sandbox",
            Self::IdentityChanged => "program, model or sandbox changed since the real pass",
            Self::AdmissionChanged => "the records that admitted the real pass changed",
            Self::DecisionMissing => "no operator decided about the pass",
            Self::ScriptedModel => "the scripted model proves nothing above stage 3",
            Self::ConfinementTooWeak => "the pass was not fully confined",
            Self::DirtySource => "the pass started from uncommitted changes",
            Self::EvidenceRemoved => "the pack that it rests on is gone",
            Self::EvidenceDoesNotVerify => "the pack that it rests on does not verify",
            Self::OriginUnknown => "the pack that it rests on is of an unknown origin",
            Self::NotInLedger => "the ledger of this home does not know the pack that it rests on",
            Self::StageBelow => "a stage below it does not hold",
        }
    }
}

/// One stage of one identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageProofs {
    pub stage: Stage,
    pub state: ProofState,
    /// Empty exactly when it is proven.
    pub reasons: Vec<StageReason>,
    /// The real pass that counts, where there is one.
    pub real_pass: Option<RunId>,
    pub real_pass_required: bool,
}
