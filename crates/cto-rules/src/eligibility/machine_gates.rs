//! Gates of the machine: whether evidence can be kept, and a process be held.

use cto_contract::blocker::BlockerCode;
use cto_contract::eligibility::Gate;
use cto_contract::words::{SandboxClass, Stage};

use crate::standing::{REPAIR, judge_ledger, judge_trust};

use super::facts::{NoEvidence, Probe};
use super::judgement::{Finding, Judgement, LaneFacts, quoted, refused};

pub(super) fn evidence_interface(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::EvidenceInterface;
    let seen = facts.looked_up.evidence_interface.as_ref();
    let source = "home directory and signing key";
    Finding::looked(
        Probe::EvidenceInterface,
        source,
        seen,
        |state| match state {
            Ok(()) => ("ok".to_owned(), Judgement::Passed),
            Err(NoEvidence::Unwritable(why)) => {
                let code = BlockerCode::ArtifactWriteFailure;
                (why.clone(), refused(gate, code, quoted(gate, why)))
            }
            Err(NoEvidence::ClockBeforeKey { now, counts_from }) => {
                let code = BlockerCode::ClockUndecidable;
                let why = format!(
                    "the clock says {now}, and the key that seals counts from {counts_from} on"
                );
                (why.clone(), refused(gate, code, quoted(gate, &why)))
            }
        },
    )
}

/// Whether the ledger is the one it was: nothing runs on top of decisions that somebody took back.
pub(super) fn ledger(facts: &LaneFacts<'_>) -> Finding {
    let (gate, code) = (Gate::Ledger, BlockerCode::LedgerRolledBack);
    let seen = facts.looked_up.ledger.as_ref();
    let source = "ledger and its checkpoints";
    Finding::looked(Probe::Ledger, source, seen, |found| {
        let why = match found {
            Err(why) => Some(why.clone()),
            Ok(facts) => judge_ledger(facts)
                .first()
                .map(|fault| format!("{fault}; {}", fault.hint())),
        };
        match why {
            None => ("as its checkpoints saw it".to_owned(), Judgement::Passed),
            Some(why) => (why.clone(), refused(gate, code, quoted(gate, &why))),
        }
    })
}

/// Whether the files of trust are those that the ledger holds: an older one must not bring back whom it had left out.
pub(super) fn trust(facts: &LaneFacts<'_>) -> Finding {
    let (gate, code) = (Gate::Trust, BlockerCode::TrustRolledBack);
    let seen = facts.looked_up.trust.as_ref();
    let source = "files of trust and the ledger";
    Finding::looked(Probe::Trust, source, seen, |found| {
        let why = match found {
            Err(why) => Some(why.clone()),
            Ok(files) => judge_trust(files)
                .first()
                .map(|fault| format!("{fault}; {REPAIR}")),
        };
        match why {
            None => ("as the ledger holds them".to_owned(), Judgement::Passed),
            Some(why) => (why.clone(), refused(gate, code, quoted(gate, &why))),
        }
    })
}

pub(super) fn confinement(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::Confinement;
    let code = BlockerCode::SandboxUnavailable;
    let seen = facts.looked_up.confinement.as_ref();
    Finding::looked(Probe::Confinement, "tried on this machine", seen, |found| {
        let class = match found {
            Ok(found) => found.class,
            Err(why) => return (why.clone(), refused(gate, code, quoted(gate, why))),
        };
        let last = last_stage(class);
        let judgement = if facts.stage().stage.number() <= last {
            Judgement::Passed
        } else {
            let message = format!("`{gate}` is {class}, which is capped at stage {last}");
            refused(gate, code, message)
        };
        (class.to_string(), judgement)
    })
}

/// The last stage that a class of confinement is good for.
const fn last_stage(class: SandboxClass) -> u8 {
    match class {
        SandboxClass::None | SandboxClass::Group | SandboxClass::Weak => Stage::FIXTURE.number(),
        // A copy of a repository, from which nothing can land.
        SandboxClass::Process => Stage::COPIED_REPOSITORY.number(),
        SandboxClass::Full => 6,
    }
}
