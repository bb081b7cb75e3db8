//! What each command prints under `--json`, and what a page shows: typed, and each document names its schema.
//!
//! Outputs with a row of the index are in `cto-store`, those with the proposal of a contract in `cto-rules`.

macro_rules! outputs {
    ($($(#[$meta:meta])* $name:ident, $tag:ident = $schema:literal { $($body:tt)* })+) => { $(
        wire_const! {
            #[doc = concat!("Schema tag `", $schema, "`.")]
            pub struct $tag: &'static str = $schema
        }
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::schemars::JsonSchema)]
        pub struct $name { pub schema_version: $tag, $($body)* }
    )+ };
}

mod admissions;
mod approval;
mod authority;
mod cases;
mod change;
mod doctor;
mod engines;
mod error;
mod explain;
mod gate;
mod gc;
mod health;
mod keys;
mod logs;
mod matrix;
mod model;
mod plan;
mod recover;
mod reference;
mod settings;
mod show;
mod stages;
mod status;
mod transfer;
mod validate;
mod why;

pub use admissions::{
    AdmissionRow, AdmissionsOutput, AdmissionsTag, AdmitOutput, AdmitTag, RecordSignature,
    RecordState,
};
pub use approval::{
    ApprovalPhase, ApprovalStanding, DecisionOutput, DecisionTag, InboxOutput, InboxTag,
    OutcomeOutput, OutcomeTag, PacketStatus, PendingOutcome, RequestOutput, RequestRow, RequestTag,
};
pub use authority::{
    CheckpointOutput, CheckpointTag, LedgerCheckOutput, LedgerCheckTag, LedgerFinding, OperatorRow,
    OperatorsOutput, OperatorsTag, ReleaseOutput, ReleaseTag, SignedDecisionOutput,
    SignedDecisionTag, SigningOutput, SigningTag, TrustRepairOutput, TrustRepairTag, WaitingSlot,
};
pub use cases::{CaseOutput, CaseRow, CaseTag, CasesOutput, CasesTag};
pub use change::{DiffOutput, DiffTag};
pub use doctor::{DoctorCheck, DoctorOutput, DoctorTag, Health};
pub use engines::{
    EngineChangeOutput, EngineChangeTag, EngineProgram, EngineRecord, EngineRow, EnginesOutput,
    EnginesTag,
};
pub use error::{ErrorBody, ErrorOutput};
pub use explain::{ExplainOutput, ExplainTag, ExplainedBlocker, ExplainedCheck, ExplainedClaim};
pub use gate::{
    CommitAnswer, CommitEvidence, GateError, GateOutput, GateTag, VerifyCommitOutput,
    VerifyCommitTag,
};
pub use gc::{GcItem, GcKept, GcOutput, GcProblem, GcTag, ItemKind};
pub use health::{HealthOutput, HealthPart, HealthStatus, HealthTag};
pub use keys::{KeyOutput, KeyTag, TrustListOutput, TrustListTag, TrustOutput, TrustTag};
pub use logs::{LogFile, LogsOutput, LogsTag, ReplayOutput, ReplayTag};
pub use matrix::{MatrixCounts, MatrixOutput, MatrixRun, MatrixTag};
pub use model::{ScriptedModelOutput, ScriptedModelTag};
pub use plan::{PlanOutput, PlanTag};
pub use recover::{RecoverOutput, RecoverTag, RecoveredAs, RecoveredRun, StopOutput, StopTag};
pub use reference::{
    SchemaRow, SchemasOutput, SchemasTag, TextOutput, TextTag, WrittenOutput, WrittenTag,
};
pub use settings::{ConfigOutput, ConfigTag, ConfigValue};
pub use show::ShownReport;
pub use stages::{
    LadderOutput, LadderRow, LadderStage, LadderTag, RequiredStage, StageCheck,
    ValidateStageOutput, ValidateStageTag,
};
pub use status::{LedgerStatus, LiveRun, MatrixNote, StatusOutput, StatusTag};
pub use transfer::{
    ApplyOutput, ApplyTag, ExportKind, ExportOutput, ExportTag, ImportOutput, ImportTag,
};
pub use validate::{
    AdapterCheck, BehaviourStatus, CheckedBehaviour, CheckedRow, Checks, NotCovered, NotTried,
    ValidateFailuresOutput, ValidateFailuresTag, ValidateProviderAdapterOutput,
    ValidateProviderAdapterTag, ValidateRedteamOutput, ValidateRedteamTag,
};
pub use why::{SubjectKind, WhyOutput, WhyTag};
