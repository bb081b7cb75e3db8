//! The launch plan: everything that will be in force, as plain data, before anything starts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::TreeId;
use crate::task::Limits;
use crate::words::{NetworkClass, SandboxClass};

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
    pub class: SandboxClass,
    pub layers: Vec<Layer>,
    pub writable_roots: Vec<String>,
}

wire_enum! {
    /// Which setting decided the wall clock; the smallest wins.
    pub enum LimitSource { Default = "default", Contract = "contract", Flag = "flag", Environment = "environment", Config = "config" }
}

wire_enum! {
    /// How a tree of its own is made: a real copy, or an overlay over one that nobody writes.
    pub enum TreeKind { Copy = "copy", Overlay = "overlay" }
}

/// The plan that `plan.updated` records and `cto run --plan` would print.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchPlan {
    pub argv: Vec<String>,
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
}
