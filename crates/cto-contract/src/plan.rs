//! The launch plan: everything that will be in force, as plain data, before anything starts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::{LaunchRecord, ProgramDigest, SteeringDigest};
use crate::ids::{CommitId, Digest, TreeId};
use crate::input::{InputMode, InputPath};
use crate::landing::LandingPlan;
use crate::stage_proof::TargetInspection;
use crate::task::Limits;
use crate::words::{DirtySource, HistoryClass, NetworkClass, SandboxClass};

/// One layer of confinement and whether it holds here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    pub name: String,
    pub in_force: bool,
    pub detail: String,
}

/// What confines a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxPlan {
    pub provider: String,
    /// Which setting decided the provider.
    #[serde(default = "by_default")]
    pub provider_from: SettingSource,
    pub class: SandboxClass,
    pub layers: Vec<Layer>,
    pub writable_roots: Vec<String>,
    /// What of the operator's own can be read besides the system's programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_paths: Vec<String>,
    /// What lies in or beside them and can't be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_paths: Vec<HiddenPath>,
}

/// A place of the operator's own that is not shown, although a program on `PATH` may look for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HiddenPath {
    pub path: String,
    pub reason: HiddenReason,
}

wire_enum! {
    /// Why a place is not shown.
    pub enum HiddenReason {
        /// A single place that others may not read lies in a directory that is shown: something empty is seen there.
        Masked = "masked",
        /// Others may not read it.
        ClosedToOthers = "closed_to_others",
        /// It holds more that others may not read than can be masked.
        HoldsClosed = "holds_closed",
        /// It is a link that leads out of its installation.
        LeavesInstallation = "leaves_installation",
        /// It holds too many files to look at.
        TooLarge = "too_large",
    }
}

impl HiddenReason {
    /// Whether a whole directory is missing inside, which a program may need.
    pub fn is_left_out(self) -> bool {
        match self {
            Self::Masked => false,
            Self::ClosedToOthers
            | Self::HoldsClosed
            | Self::LeavesInstallation
            | Self::TooLarge => true,
        }
    }
}

wire_enum! {
    /// Where a setting came from.
    pub enum SettingSource { Default = "default", Config = "config", Environment = "environment", Flag = "flag" }
}

fn by_default() -> SettingSource {
    SettingSource::Default
}

wire_enum! {
    /// Which setting decided the wall clock; the smallest wins.
    pub enum LimitSource { Default = "default", Contract = "contract", Flag = "flag", Environment = "environment", Config = "config" }
}

wire_enum! {
    /// How a tree of its own is made: a real copy, or an overlay over one that nobody writes.
    pub enum TreeKind { Copy = "copy", Overlay = "overlay" }
}

wire_enum! {
    /// Whether the proof ladder stands between a lane and this stage.
    pub enum Ladder {
        /// `fake` is the ruler, and the first stage starts nothing.
        NotNeeded = "not needed",
        /// This version lets the lane run on its gates alone.
        NotEnforced = "not enforced",
    }
}

/// The repository that the baseline was taken from, without its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourcePlan {
    pub commit: CommitId,
    /// Tree of the commit; the baseline's differs from it when paths are withheld.
    pub commit_tree_id: TreeId,
    pub history: HistoryClass,
    /// Forbidden paths that are absent from the workspace, bounded.
    pub withheld: Vec<String>,
    pub withheld_count: u64,
    /// Files that only point to their content: they stay pointers.
    pub lfs_pointers: u64,
    /// What the contract says about uncommitted changes.
    pub dirty_source: DirtySource,
    /// Uncommitted changes of the source but for the contract, bounded; none of them is in the workspace.
    pub dirty_paths: Vec<String>,
    pub dirty_count: u64,
    pub fingerprint: Digest,
}

/// An input as it will be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputPlan {
    pub from: InputPath,
    pub at: String,
    pub mode: InputMode,
    pub files: u64,
    pub bytes: u64,
    /// Of names, sizes, modes, times and link targets; of the content too when it is copied.
    pub fingerprint: Digest,
}

/// The plan that `plan.updated` records and `cto run --plan` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchPlan {
    /// Arguments with run-specific places replaced (`$WORKSPACE`, `$SCRATCH`).
    pub argv: Vec<String>,
    /// Names, never values.
    pub environment_names: Vec<String>,
    pub working_directory: String,
    pub limits: Limits,
    pub wall_seconds_from: LimitSource,
    pub network: NetworkClass,
    pub sandbox: SandboxPlan,
    /// What the backend works in.
    pub workspace_kind: TreeKind,
    /// What the checks run in.
    pub checks_kind: TreeKind,
    pub baseline_tree_id: TreeId,
    pub baseline_files: u64,
    pub verification: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputPlan>,
    /// The name under which the program knows its model's provider, which admits nothing; none without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_model_provider: Option<String>,
    #[serde(default = "no_ladder")]
    pub ladder: Ladder,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourcePlan>,
    /// Where the change may land; null below the stages at which one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing: Option<LandingPlan>,
    /// Files of an installed program, and the tree that it loads from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramDigest>,
    /// What of the baseline steers agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steering: Vec<SteeringDigest>,
    /// The backend's inputs, searched for targets. Only where no target may be known: stages 2 to 4 of lanes that climb.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Box<TargetInspection>>,
}

fn no_ladder() -> Ladder {
    Ladder::NotNeeded
}

impl LaunchPlan {
    /// How the backend is started, as a report shows it beside the identity.
    pub fn launched(&self, version_output: Option<&String>) -> LaunchRecord {
        LaunchRecord {
            argv: self.argv.clone(),
            environment_names: self.environment_names.clone(),
            version_output: version_output.cloned(),
            programs: self.programs.clone(),
            steering: self.steering.clone(),
        }
    }
}
