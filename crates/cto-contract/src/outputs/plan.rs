//! `cto run --plan`.

use crate::blocker::Blocker;
use crate::eligibility::EligibilityDecision;
use crate::identity::Identity;
use crate::plan::LaunchPlan;
use crate::words::RunStatus;

outputs! {
    /// `cto run --plan`.
    PlanOutput, PlanTag = "cto.plan/v1" {
        /// `pass` when a run could start its backend now.
        pub status: RunStatus,
        pub decision: Option<EligibilityDecision>,
        /// What the run's `plan.updated` will hold; null when something stands in the way.
        pub plan: Option<LaunchPlan>,
        pub identity: Option<Identity>,
        pub blockers: Vec<Blocker>,
    }
}
