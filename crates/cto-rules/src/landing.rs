//! Whether a checked change may be put into a repository: one decision from facts, with every reason against it.
//!
//! The only way to a [`LandingGrant`] leads through here, and whoever changes a target takes one by value.

use cto_contract::approval::GrantConsumed;
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::ids::{Digest, RunId, TreeId};
use cto_contract::wire_enum;
use cto_contract::words::{Action, DirtySource, MutationMode, RunStatus, SandboxClass};

/// Everything that the decision looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingFacts {
    pub run_id: RunId,
    /// None while the run has no sealed pack.
    pub pack_digest: Option<Digest>,
    /// The sealed pack was read back, and it verifies by a key of this home.
    pub pack_verifies: bool,
    /// The ledger holds this digest for this run.
    pub ledger_agrees: bool,
    pub status: RunStatus,
    pub mode: MutationMode,
    pub sandbox: SandboxClass,
    /// The record of the ledger by which this run used an approval up.
    pub consumed_approval: Option<GrantConsumed>,
    /// The tree that was checked, by the pack.
    pub checked_tree: Option<TreeId>,
    /// The tree that the patch gives on the target's base commit.
    pub landing_tree: TreeId,
}

wire_enum! {
    /// Why a change may not land.
    pub enum LandingRefusal {
        NotSealed = "not_sealed",
        PackDoesNotVerify = "pack_does_not_verify",
        LedgerDisagrees = "ledger_disagrees",
        DidNotPass = "did_not_pass",
        ModeDoesNotLand = "mode_does_not_land",
        ConfinementTooWeak = "confinement_too_weak",
        ApprovalNotConsumed = "approval_not_consumed",
        OtherTreeThanChecked = "other_tree_than_checked",
    }
}

/// The right to put one change of one run into its target, once.
#[derive(Debug, PartialEq, Eq)]
pub struct LandingGrant {
    run_id: RunId,
    tree: TreeId,
}

impl LandingGrant {
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// The only tree that may be put there.
    pub fn tree(&self) -> &TreeId {
        &self.tree
    }
}

/// Decides; collects every reason against it rather than the first.
pub fn decide(facts: &LandingFacts) -> Result<LandingGrant, Vec<LandingRefusal>> {
    let against: Vec<LandingRefusal> = LandingRefusal::ALL
        .iter()
        .copied()
        .filter(|refusal| stands(*refusal, facts))
        .collect();
    if against.is_empty() {
        Ok(LandingGrant {
            run_id: facts.run_id.clone(),
            tree: facts.landing_tree.clone(),
        })
    } else {
        Err(against)
    }
}

impl LandingRefusal {
    const fn code(self) -> BlockerCode {
        match self {
            Self::NotSealed | Self::DidNotPass => BlockerCode::Interrupted,
            Self::PackDoesNotVerify | Self::LedgerDisagrees => BlockerCode::LedgerRolledBack,
            Self::ModeDoesNotLand => BlockerCode::StageNotProven,
            Self::ConfinementTooWeak => BlockerCode::SandboxUnavailable,
            Self::ApprovalNotConsumed => BlockerCode::ApprovalMissing,
            Self::OtherTreeThanChecked => BlockerCode::VerifiedTreeMismatch,
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::NotSealed => "the run has no sealed pack",
            Self::PackDoesNotVerify => "the pack does not verify by a key of this home",
            Self::LedgerDisagrees => "the ledger knows another pack of this run",
            Self::DidNotPass => "the run did not pass",
            Self::ModeDoesNotLand => "its mutation mode lands nothing",
            Self::ConfinementTooWeak => "what held its backend is too weak for a landing",
            Self::ApprovalNotConsumed => "no approval was used up by this run",
            Self::OtherTreeThanChecked => {
                "on the target's base the patch gives another tree than the one that was checked"
            }
        }
    }
}

/// What stands against a landing, each by its name.
pub fn refusals(against: &[LandingRefusal]) -> Vec<Blocker> {
    let named = |refusal: &LandingRefusal| {
        let message = format!("nothing lands: {}", refusal.sentence());
        Blocker::new(refusal.code(), refusal.as_str(), message)
    };
    against.iter().map(named).collect()
}

/// What was found of a target in which something should be put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetFault {
    /// The branch is elsewhere than it was, or became something else.
    Moved { why: String },
    /// The work tree holds what nobody committed.
    Dirty { path: String },
    /// Another process works in it.
    Locked { what: String },
    /// The branch is checked out where it must not be, or not where it has to be.
    InUse { why: String },
    /// It is not there any more, or nobody can read it.
    Gone { why: String },
    /// Nothing can land in a repository of this kind, or with this policy.
    Unsupported { why: String },
    /// The patch gives another tree than the one that was checked.
    OtherTree { why: String },
    /// A landed path is no longer what was landed.
    NotExact { path: String },
}

/// Names what a target is found to be. Nothing was put into it.
pub fn target_fault(fault: &TargetFault) -> Blocker {
    let changed = |why: &str| {
        let message = format!("the target changed, and nothing landed: {why}");
        Blocker::new(BlockerCode::SourceChangedDuringRun, "target", message)
    };
    match fault {
        TargetFault::Moved { why } | TargetFault::InUse { why } | TargetFault::Gone { why } => {
            changed(why)
        }
        TargetFault::Dirty { path } => changed(&format!("`{path}` is not committed")),
        TargetFault::Locked { what } => changed(&format!("another process holds `{what}`")),
        TargetFault::Unsupported { why } => Blocker::new(
            BlockerCode::RepositoryUnsupported,
            "branch_policy",
            format!("nothing can land there: {why}"),
        ),
        TargetFault::OtherTree { why } => Blocker::new(
            BlockerCode::VerifiedTreeMismatch,
            "patch.diff",
            format!("nothing landed: {why}"),
        ),
        TargetFault::NotExact { path } => Blocker::new(
            BlockerCode::RollbackNotExact,
            path.as_str(),
            format!("`{path}` is no longer what was landed, so nothing is taken back"),
        ),
    }
}

/// What the proof of a landing rests on besides the landing itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofFacts {
    pub status: RunStatus,
    pub approval_before_mutation: bool,
    pub has_grant: bool,
    pub forbidden_actions: Vec<Action>,
    pub allowed_writes_passed: Option<bool>,
    pub forbidden_paths_passed: Option<bool>,
    pub dirty_source: Option<DirtySource>,
}

/// Everything that keeps a landing from being a proof.
pub fn proof_errors(facts: &ProofFacts) -> Vec<String> {
    let checks = [
        (facts.status == RunStatus::Pass, "status is not pass"),
        (facts.has_grant, "approval is missing"),
        (
            facts.approval_before_mutation,
            "approval_before_mutation is false",
        ),
        (
            facts.forbidden_actions.is_empty(),
            "forbidden_actions_attempted is not empty",
        ),
        (
            facts.allowed_writes_passed == Some(true),
            "allowed_writes_passed is not true",
        ),
        (
            facts.forbidden_paths_passed == Some(true),
            "forbidden_paths_passed is not true",
        ),
        (
            facts.dirty_source == Some(DirtySource::Refused),
            "dirty_source is not refused",
        ),
    ];
    let failed = checks.into_iter().filter(|(holds, _)| !holds);
    failed.map(|(_, error)| error.to_owned()).collect()
}

/// What is said of a landing that was tried before and came to nothing.
pub fn ended_before(code: BlockerCode) -> Blocker {
    Blocker::new(code, "target", "nothing landed when it was tried")
}

/// The name of the branch that a change lands on where the contract names none.
pub fn default_branch(task_id: &str) -> String {
    format!("cto/{task_id}")
}

/// Everything that the decision about taking a landed change back looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackFacts {
    pub run_id: RunId,
    /// The ledger knows the commit as one that this run landed.
    pub is_landed: bool,
    /// An operator rejected the run, and asked for the rollback.
    pub is_asked_for: bool,
    /// Nothing but the landed paths would change, each back to what it was.
    pub is_exact: bool,
    pub tree: TreeId,
}

wire_enum! {
    /// Why a landed change may not be taken back.
    pub enum RollbackRefusal {
        NotLanded = "not_landed",
        NotAskedFor = "not_asked_for",
        NotExact = "not_exact",
    }
}

/// Decides whether a landed change may be taken back.
pub fn decide_rollback(facts: &RollbackFacts) -> Result<LandingGrant, Vec<RollbackRefusal>> {
    let against: Vec<RollbackRefusal> = [
        (facts.is_landed, RollbackRefusal::NotLanded),
        (facts.is_asked_for, RollbackRefusal::NotAskedFor),
        (facts.is_exact, RollbackRefusal::NotExact),
    ]
    .into_iter()
    .filter_map(|(holds, refusal)| (!holds).then_some(refusal))
    .collect();
    match against.is_empty() {
        true => Ok(LandingGrant {
            run_id: facts.run_id.clone(),
            tree: facts.tree.clone(),
        }),
        false => Err(against),
    }
}

fn stands(refusal: LandingRefusal, facts: &LandingFacts) -> bool {
    match refusal {
        LandingRefusal::NotSealed => facts.pack_digest.is_none(),
        LandingRefusal::PackDoesNotVerify => !facts.pack_verifies,
        LandingRefusal::LedgerDisagrees => !facts.ledger_agrees,
        LandingRefusal::DidNotPass => facts.status != RunStatus::Pass,
        LandingRefusal::ModeDoesNotLand => facts.mode < MutationMode::SandboxRepo,
        LandingRefusal::ConfinementTooWeak => facts.sandbox <= SandboxClass::Process,
        LandingRefusal::ApprovalNotConsumed => {
            let consumed = facts.consumed_approval.as_ref();
            consumed.is_none_or(|consumed| consumed.run_id != facts.run_id)
        }
        LandingRefusal::OtherTreeThanChecked => {
            facts.checked_tree.as_ref() != Some(&facts.landing_tree)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn good() -> LandingFacts {
        LandingFacts {
            run_id: "20260601T105222Z-r1-src-string-slugify-k3v9qd"
                .parse()
                .unwrap(),
            pack_digest: Some("0".repeat(64).parse().unwrap()),
            pack_verifies: true,
            ledger_agrees: true,
            status: RunStatus::Pass,
            mode: MutationMode::OwnedNoncriticalRepo,
            sandbox: SandboxClass::Full,
            consumed_approval: Some(consumed("20260601T105222Z-r1-src-string-slugify-k3v9qd")),
            checked_tree: Some(TREE.parse().unwrap()),
            landing_tree: TREE.parse().unwrap(),
        }
    }

    fn consumed(run: &str) -> GrantConsumed {
        GrantConsumed {
            request_id: "rq-aaaaaaaaaaaaaaaa".parse().unwrap(),
            grant_seq: 3,
            grant_digest: "0".repeat(64).parse().unwrap(),
            run_id: run.parse().unwrap(),
            epoch: 4,
            at: "2026-06-01T10:52:22Z".parse().unwrap(),
        }
    }

    #[test]
    fn an_approval_that_another_run_used_up_is_none() {
        let facts = LandingFacts {
            consumed_approval: Some(consumed("20260601T105222Z-r1-src-string-slugify-aaaaaa")),
            ..good()
        };
        assert_eq!(
            decide(&facts),
            Err(vec![LandingRefusal::ApprovalNotConsumed])
        );
    }

    #[test]
    fn every_refusal_and_every_fault_of_a_target_has_a_name() {
        let all = refusals(LandingRefusal::ALL);
        assert_eq!(all.len(), LandingRefusal::ALL.len());
        let why = || "why".to_owned();
        let codes: Vec<&str> = [
            TargetFault::Moved { why: why() },
            TargetFault::Dirty { path: why() },
            TargetFault::Locked { what: why() },
            TargetFault::InUse { why: why() },
            TargetFault::Gone { why: why() },
            TargetFault::Unsupported { why: why() },
            TargetFault::OtherTree { why: why() },
            TargetFault::NotExact { path: why() },
        ]
        .iter()
        .map(|fault| target_fault(fault).code.as_str())
        .collect();
        let moved = "source_changed_during_run";
        assert_eq!(
            codes,
            [
                moved,
                moved,
                moved,
                moved,
                moved,
                "repository_unsupported",
                "verified_tree_mismatch",
                "rollback_not_exact"
            ]
        );
    }

    #[test]
    fn a_proof_has_no_error_only_when_everything_holds() {
        let all = ProofFacts {
            status: RunStatus::Pass,
            approval_before_mutation: true,
            has_grant: true,
            forbidden_actions: Vec::new(),
            allowed_writes_passed: Some(true),
            forbidden_paths_passed: Some(true),
            dirty_source: Some(DirtySource::Refused),
        };
        for set in 0..1_u32 << 7 {
            let is_bad = |bit: u32| set & (1 << bit) != 0;
            let mut facts = all.clone();
            if is_bad(0) {
                facts.status = RunStatus::Fail;
            }
            facts.has_grant = !is_bad(1);
            facts.approval_before_mutation = !is_bad(2);
            if is_bad(3) {
                facts.forbidden_actions.push(Action::Push);
            }
            if is_bad(4) {
                facts.allowed_writes_passed = None;
            }
            if is_bad(5) {
                facts.forbidden_paths_passed = Some(false);
            }
            if is_bad(6) {
                facts.dirty_source = Some(DirtySource::Allowed);
            }
            assert_eq!(proof_errors(&facts).len(), set.count_ones() as usize);
        }
    }

    fn spoil(facts: &mut LandingFacts, by: LandingRefusal) {
        match by {
            LandingRefusal::NotSealed => facts.pack_digest = None,
            LandingRefusal::PackDoesNotVerify => facts.pack_verifies = false,
            LandingRefusal::LedgerDisagrees => facts.ledger_agrees = false,
            LandingRefusal::DidNotPass => facts.status = RunStatus::Blocked,
            LandingRefusal::ModeDoesNotLand => facts.mode = MutationMode::CopiedFixture,
            LandingRefusal::ConfinementTooWeak => facts.sandbox = SandboxClass::Weak,
            LandingRefusal::ApprovalNotConsumed => facts.consumed_approval = None,
            LandingRefusal::OtherTreeThanChecked => facts.checked_tree = None,
        }
    }

    #[test]
    fn every_set_of_faults_is_refused_with_exactly_its_names() {
        let all = LandingRefusal::ALL;
        for set in 0..1_u32 << all.len() {
            let mut facts = good();
            let chosen: Vec<_> = all
                .iter()
                .enumerate()
                .filter(|(n, _)| set & (1 << n) != 0)
                .map(|(_, refusal)| *refusal)
                .collect();
            for refusal in &chosen {
                spoil(&mut facts, *refusal);
            }
            let decided = decide(&facts);
            match chosen.is_empty() {
                true => assert_eq!(decided.unwrap().tree(), &facts.landing_tree),
                false => assert_eq!(decided.unwrap_err(), chosen),
            }
        }
    }

    #[test]
    fn a_rollback_needs_a_landing_a_rejection_and_exactness() {
        for set in 0..8_u8 {
            let holds = |bit: u8| set & (1 << bit) != 0;
            let facts = RollbackFacts {
                run_id: good().run_id,
                is_landed: holds(0),
                is_asked_for: holds(1),
                is_exact: holds(2),
                tree: TREE.parse().unwrap(),
            };
            let refused = decide_rollback(&facts).err().unwrap_or_default();
            let expected: Vec<_> = RollbackRefusal::ALL
                .iter()
                .zip(0..)
                .filter(|(_, bit)| !holds(*bit))
                .map(|(refusal, _)| *refusal)
                .collect();
            assert_eq!(refused, expected);
        }
    }

    #[test]
    fn only_a_pass_in_a_mode_that_lands_under_full_confinement_lands() {
        for status in RunStatus::ALL {
            for mode in MutationMode::ALL {
                for sandbox in SandboxClass::ALL {
                    let facts = LandingFacts {
                        status: *status,
                        mode: *mode,
                        sandbox: *sandbox,
                        ..good()
                    };
                    let may = *status == RunStatus::Pass
                        && *mode >= MutationMode::SandboxRepo
                        && *sandbox > SandboxClass::Process;
                    assert_eq!(decide(&facts).is_ok(), may, "{facts:?}");
                }
            }
        }
    }
}
