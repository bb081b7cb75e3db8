//! Whether a checked change may be put into a repository: one decision from facts, with every reason against it.
//!
//! The only way to a [`LandingGrant`] leads through here, and whoever changes a target takes one by value.

use cto_contract::ids::{Digest, RunId, TreeId};
use cto_contract::wire_enum;
use cto_contract::words::{MutationMode, RunStatus, SandboxClass};

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
    /// The id of the approval that the ledger says was consumed by this run.
    pub consumed_approval: Option<String>,
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
        LandingRefusal::ApprovalNotConsumed => facts.consumed_approval.is_none(),
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
            consumed_approval: Some("a-1".to_owned()),
            checked_tree: Some(TREE.parse().unwrap()),
            landing_tree: TREE.parse().unwrap(),
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
