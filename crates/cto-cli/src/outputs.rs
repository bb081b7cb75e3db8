//! What each command prints under `--json`, typed; every document names its schema.

mod explained;
mod swept;

use std::collections::BTreeMap;

use cto_contract::blocker::Blocker;
use cto_contract::eligibility::EligibilityDecision;
use cto_contract::event::{ChangedPath, RunEvent, ScopedPath};
use cto_contract::identity::Identity;
use cto_contract::ids::{CaseId, Digest, RunId};
use cto_contract::plan::LaunchPlan;
use cto_contract::schemars::{self, JsonSchema};
use cto_contract::task::TaskContract;
use cto_contract::time::Utc;
use cto_contract::trust::{Origin, TrustedKey};
use cto_contract::words::{Lane, NeverActive, RunStatus, Stage};
use cto_contract::{wire_const, wire_enum};
use cto_proving::failures::{CheckedRow, NotCovered};
use cto_proving::redteam::{CheckedBehaviour, NotTried};
use cto_rules::advice::Warning;
use cto_rules::propose::Language;
use cto_store::{Cursor, Rebuilt, RunRow};
use serde::Serialize;

pub(crate) use explained::{
    ExplainedBlocker, ExplainedCheck, ExplainedClaim, ExplainedGate, GateVerdict,
};
pub(crate) use swept::{GcItem, GcKept, GcProblem};

macro_rules! outputs {
    ($($(#[$meta:meta])* $name:ident, $tag:ident = $schema:literal { $($body:tt)* })+) => { $(
        wire_const! {
            #[doc = concat!("Schema tag `", $schema, "`.")]
            pub(crate) struct $tag: &'static str = $schema
        }
        $(#[$meta])*
        #[derive(Debug, Serialize, JsonSchema)]
        pub(crate) struct $name { pub(crate) schema_version: $tag, $($body)* }
    )+ };
}

outputs! {
    /// `cto cases`.
    CasesOutput, CasesTag = "cto.cases/v1" {
        pub(crate) cases: Vec<CaseRow>,
    }
    /// `cto cases <id>`.
    CaseOutput, CaseTag = "cto.case-show/v1" {
        pub(crate) id: CaseId,
        pub(crate) embedded: bool,
        pub(crate) cheats: Vec<String>,
        pub(crate) contract: TaskContract,
    }
    /// `cto engines`.
    EnginesOutput, EnginesTag = "cto.engines/v1" {
        /// Always `fake`; nothing can change it.
        pub(crate) default: Lane,
        pub(crate) engines: Vec<EngineRow>,
    }
    /// `cto runs`.
    RunsOutput, RunsTag = "cto.runs/v1" {
        pub(crate) rows: Vec<RunRow>,
        /// Runs that a living process works on now.
        pub(crate) live: Vec<LiveRun>,
        /// Of the rows, those whose packs `cto gc` removed.
        pub(crate) removed: Vec<RunId>,
        /// Give it to `--after` for the next page; null at the end.
        pub(crate) next: Option<Cursor>,
    }
    /// `cto run --plan`.
    PlanOutput, PlanTag = "cto.plan/v1" {
        /// `pass` when a run could start its backend now.
        pub(crate) status: RunStatus,
        pub(crate) decision: Option<EligibilityDecision>,
        /// What the run's `plan.updated` will hold; null when something stands in the way.
        pub(crate) plan: Option<LaunchPlan>,
        pub(crate) identity: Option<Identity>,
        pub(crate) blockers: Vec<Blocker>,
    }
    /// `cto explain`.
    ExplainOutput, ExplainTag = "cto.explain/v1" {
        pub(crate) run_id: RunId,
        pub(crate) case_id: CaseId,
        pub(crate) backend: Lane,
        pub(crate) stage: Stage,
        pub(crate) status: RunStatus,
        /// The answer in one sentence.
        pub(crate) sentence: String,
        pub(crate) gates: Vec<ExplainedGate>,
        pub(crate) blockers: Vec<ExplainedBlocker>,
        pub(crate) checks: Vec<ExplainedCheck>,
        /// Set when no check ran.
        pub(crate) checks_not_run: Option<String>,
        pub(crate) paths: Vec<ScopedPath>,
        pub(crate) claims: Vec<ExplainedClaim>,
    }
    /// `cto gc`.
    GcOutput, GcTag = "cto.gc/v1" {
        /// Nothing was removed: this is what would be.
        pub(crate) dry_run: bool,
        pub(crate) items: Vec<GcItem>,
        /// Bytes of all items.
        pub(crate) bytes: u64,
        /// Packs that are old enough and stay.
        pub(crate) kept: Vec<GcKept>,
        /// Items that could not be removed.
        pub(crate) problems: Vec<GcProblem>,
    }
    /// `cto diff`.
    DiffOutput, DiffTag = "cto.diff/v1" {
        pub(crate) run_id: RunId,
        pub(crate) files: Vec<ChangedPath>,
        pub(crate) bytes: u64,
        pub(crate) sha256: Digest,
        /// Null when the patch is not UTF-8.
        pub(crate) patch: Option<String>,
    }
    /// `cto logs`.
    LogsOutput, LogsTag = "cto.logs/v1" {
        pub(crate) run_id: Option<RunId>,
        pub(crate) files: Vec<LogFile>,
        /// With `--events` only.
        pub(crate) events: Vec<RunEvent>,
    }
    /// `cto replay`.
    ReplayOutput, ReplayTag = "cto.replay/v1" {
        pub(crate) run_id: RunId,
        pub(crate) events: u64,
        /// The lines that a person saw while the run went on.
        pub(crate) progress: Vec<String>,
        pub(crate) status: Option<RunStatus>,
        /// The report made from the log again equals the sealed one; null when there is no sealed one.
        pub(crate) same: Option<bool>,
        /// Fields of the report that differ.
        pub(crate) differences: Vec<String>,
    }
    /// `cto export`.
    ExportOutput, ExportTag = "cto.export/v1" {
        pub(crate) run_id: RunId,
        pub(crate) kind: ExportKind,
        /// Null when the patch stands in this document.
        pub(crate) path: Option<String>,
        pub(crate) bytes: u64,
        pub(crate) pack_digest: Digest,
        /// The patch, when no file was named and it is UTF-8.
        pub(crate) patch: Option<String>,
        /// Files of the pack that this copy leaves out.
        pub(crate) withheld: Vec<String>,
    }
    /// `cto import`.
    ImportOutput, ImportTag = "cto.import/v1" {
        pub(crate) run_id: RunId,
        pub(crate) path: String,
        pub(crate) status: Option<RunStatus>,
        pub(crate) origin: Origin,
        pub(crate) pack_digest: Option<Digest>,
        pub(crate) already_here: bool,
        /// Files of the pack that are not here because its sender withheld them.
        pub(crate) withheld: Vec<String>,
    }
    /// `cto matrix`, and its `report.json`.
    MatrixOutput, MatrixTag = "cto.matrix/v1" {
        pub(crate) matrix_id: RunId,
        pub(crate) engine: Lane,
        pub(crate) jobs: u64,
        pub(crate) started_at: Utc,
        pub(crate) finished_at: Utc,
        pub(crate) seconds: f64,
        pub(crate) ok: bool,
        pub(crate) counts: MatrixCounts,
        pub(crate) runs: Vec<MatrixRun>,
        pub(crate) report_path: String,
        pub(crate) runtime_default_activation: NeverActive,
    }
    /// `cto schema`.
    SchemasOutput, SchemasTag = "cto.schemas/v1" {
        pub(crate) schemas: Vec<SchemaRow>,
    }
    /// `cto schema --all`, `cto man DIR`.
    WrittenOutput, WrittenTag = "cto.written/v1" {
        pub(crate) directory: String,
        pub(crate) files: Vec<String>,
    }
    /// `cto key`.
    KeyOutput, KeyTag = "cto.key/v1" {
        pub(crate) keyid: Digest,
        /// Base64 of the raw public key: what `cto trust add` and `cto verify --key` take.
        pub(crate) public_key: String,
        pub(crate) public_key_pem: String,
        pub(crate) path: String,
        /// Made by this command.
        pub(crate) created: bool,
        /// Where the retired key was put aside.
        pub(crate) retired: Option<String>,
    }
    /// `cto trust add` and `cto trust revoke`.
    TrustOutput, TrustTag = "cto.trust-change/v1" {
        pub(crate) key: TrustedKey,
        pub(crate) path: String,
    }
    /// `cto trust list`.
    TrustListOutput, TrustListTag = "cto.trust-list/v1" {
        pub(crate) directory: String,
        pub(crate) keys: Vec<TrustedKey>,
    }
    /// `cto config show`.
    ConfigOutput, ConfigTag = "cto.config/v1" {
        pub(crate) values: Vec<ConfigValue>,
    }
    /// `cto doctor`.
    DoctorOutput, DoctorTag = "cto.doctor/v1" {
        pub(crate) ok: bool,
        pub(crate) checks: Vec<DoctorCheck>,
    }
    /// `cto recover`.
    RecoverOutput, RecoverTag = "cto.recover/v1" {
        pub(crate) runs: Vec<RecoveredRun>,
    }
    /// `cto index rebuild`.
    IndexOutput, IndexTag = "cto.index/v1" {
        pub(crate) rebuilt: Rebuilt,
        /// Packs that do not verify and are not in the index.
        pub(crate) refused: Vec<RefusedPack>,
    }
    /// `cto stop`.
    StopOutput, StopTag = "cto.stop/v1" {
        pub(crate) run_id: RunId,
        pub(crate) pid: u32,
        /// Whether its pack was sealed within the wait.
        pub(crate) sealed: bool,
        pub(crate) status: Option<RunStatus>,
    }
    /// `cto init`.
    InitOutput, InitTag = "cto.init/v1" {
        pub(crate) directory: String,
        pub(crate) languages: Vec<Language>,
        pub(crate) files: Vec<InitFile>,
        /// The contract that was written.
        pub(crate) contract: TaskContract,
        /// What a person should know before he trusts it.
        pub(crate) notes: Vec<String>,
        /// What to type next, in order.
        pub(crate) next: Vec<String>,
    }
    /// `cto contract check`.
    ContractCheckOutput, ContractCheckTag = "cto.contract-check/v1" {
        pub(crate) file: String,
        pub(crate) task_id: CaseId,
        /// Digest of the contract's canonical form.
        pub(crate) contract_digest: Digest,
        /// The directory that its paths were compared with; null when there was none.
        pub(crate) repository: Option<String>,
        /// Without the whole tree there is no warning about paths that are not in it.
        pub(crate) tree_complete: bool,
        pub(crate) warnings: Vec<Warning>,
    }
    /// `cto why`.
    WhyOutput, WhyTag = "cto.why/v1" {
        pub(crate) subject: String,
        pub(crate) kind: SubjectKind,
        pub(crate) task_id: CaseId,
        /// What the policy says: `allowed`, `forbidden`, `frozen`, … for a path, `forbidden`, `permitted` or `unlisted` for an action.
        pub(crate) verdict: String,
        pub(crate) allowed: bool,
        /// The pattern, field or rule that decided.
        pub(crate) decided_by: String,
        pub(crate) sentence: String,
        pub(crate) hint: Option<String>,
    }
    /// `cto validate failures`.
    ValidateFailuresOutput, ValidateFailuresTag = "cto.validate-failures/v1" {
        /// Every check of every fixture holds, and no blocker is left out without a reason.
        pub(crate) ok: bool,
        pub(crate) checked: Vec<CheckedRow>,
        pub(crate) errors: Vec<String>,
        pub(crate) not_covered: Vec<NotCovered>,
        /// Fixture to the path of its `report.json`.
        pub(crate) failure_reports: BTreeMap<String, String>,
        /// Where the fixtures and their packs are.
        pub(crate) directory: String,
    }
    /// `cto validate redteam`.
    ValidateRedteamOutput, ValidateRedteamTag = "cto.validate-redteam/v1" {
        /// Every behaviour that could be tried came out as it must, and so did the controls.
        pub(crate) ok: bool,
        pub(crate) checked: Vec<CheckedBehaviour>,
        pub(crate) errors: Vec<String>,
        pub(crate) not_covered: Vec<NotTried>,
        /// Where the runs and their packs are.
        pub(crate) directory: String,
    }
    /// `cto completions` and `cto man`: text that is no JSON of its own.
    TextOutput, TextTag = "cto.text/v1" {
        pub(crate) name: String,
        pub(crate) text: String,
    }
}

/// Any failure under `--json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorOutput {
    pub(crate) error: ErrorBody,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorBody {
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]*$"))]
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) cause: Option<String>,
    pub(crate) hint: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CaseRow {
    pub(crate) id: String,
    pub(crate) title: Option<String>,
    /// Ships with the binary.
    pub(crate) embedded: bool,
    pub(crate) allowed_paths: Vec<String>,
    pub(crate) checks: u64,
    pub(crate) cheats: u64,
    /// Why the case can't be used.
    pub(crate) problem: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EngineRow {
    pub(crate) lane: Lane,
    pub(crate) default: bool,
    /// This build can run it.
    pub(crate) available: bool,
    /// Switched off in harness.yaml.
    pub(crate) disabled: bool,
    /// The environment name that opens the lane; null for `fake`.
    pub(crate) gate: Option<String>,
    /// Only the exact value 1 opens it.
    pub(crate) gate_open: bool,
    pub(crate) stage_gate: Option<String>,
    /// The stage that the environment permits.
    pub(crate) stage: Option<u8>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LiveRun {
    pub(crate) run_id: RunId,
    pub(crate) pid: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LogFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Bytes that are not UTF-8 are replaced.
    pub(crate) text: String,
}

wire_enum! {
    /// What was handed over.
    pub(crate) enum ExportKind { Tar = "tar", Patch = "patch" }
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct MatrixCounts {
    pub(crate) pass: u64,
    pub(crate) fail: u64,
    pub(crate) blocked: u64,
    /// Cases that could not be run at all.
    pub(crate) error: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MatrixRun {
    pub(crate) case_id: String,
    pub(crate) run_id: Option<RunId>,
    pub(crate) status: Option<RunStatus>,
    pub(crate) seconds: f64,
    pub(crate) failure_reason: Option<String>,
    /// Code of the error that kept the case from running.
    pub(crate) error: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SchemaRow {
    pub(crate) name: String,
    pub(crate) about: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConfigValue {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    /// A flag, an environment name, a file, `default` or `constant`.
    pub(crate) source: String,
}

wire_enum! {
    /// How a check of `cto doctor` ended.
    pub(crate) enum Health { Ok = "ok", Warn = "warn", Fail = "fail" }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DoctorCheck {
    pub(crate) name: String,
    pub(crate) state: Health,
    pub(crate) detail: String,
    pub(crate) remedy: Option<String>,
}

wire_enum! {
    /// What became of a work directory.
    pub(crate) enum RecoveredAs { Live = "live", Sealed = "sealed", Cleared = "cleared", Discarded = "discarded", Failed = "failed" }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RecoveredRun {
    /// The run id, or the name of the directory.
    pub(crate) name: String,
    pub(crate) outcome: RecoveredAs,
    pub(crate) detail: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RefusedPack {
    pub(crate) name: String,
    pub(crate) reason: String,
}

wire_enum! {
    /// What became of a file that `cto init` cares about.
    pub(crate) enum FileState { Written = "written", Replaced = "replaced", Extended = "extended", Kept = "kept" }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InitFile {
    pub(crate) path: String,
    pub(crate) state: FileState,
}

wire_enum! {
    /// What `cto why` was asked about.
    pub(crate) enum SubjectKind { Path = "path", Action = "action" }
}
