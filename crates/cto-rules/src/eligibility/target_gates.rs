//! Gates of the target: what its owner said about the repository that is to change, one gate for each thing.
//!
//! They are asked for from stage 5 on, of every lane. No value and no message of theirs holds the target's path.

use cto_contract::admission::TargetAdmission;
use cto_contract::words::{Stage, TargetAdmissionStatus};

use crate::admission::{
    NamedRecord, Stored, TargetFacts, TargetGate, TargetVerdict, find_target, judge_target,
};

use super::judgement::{Finding, Judgement, LaneFacts, quote, refused_by};

const RECORD: &str = "target admission";

/// The record about the target and how it stands; none below the stage that needs one.
pub(super) struct TargetSeen {
    pub(super) found: NamedRecord<TargetAdmission>,
    pub(super) verdict: TargetVerdict,
}

impl TargetSeen {
    pub(super) fn of(facts: &LaneFacts<'_>) -> Option<Self> {
        if facts.stage().stage < Stage::OWNED {
            return None;
        }
        let asked = facts.asked;
        let path = asked.target_path.as_deref();
        let about = (path, asked.contract.target_id.as_deref());
        let found = find_target(&asked.records, facts.settings().target.as_ref(), about);
        let verdict = judge_target(TargetFacts {
            found: &found,
            path,
            allowed_paths: &asked.contract.allowed_paths,
            moment: facts.moment(),
        });
        Some(Self { found, verdict })
    }

    pub(super) fn status(&self) -> TargetAdmissionStatus {
        self.verdict.status
    }

    /// The record that lets the target in.
    pub(super) fn used(&self) -> Option<&Stored<TargetAdmission>> {
        match &self.found {
            NamedRecord::Record(stored) if self.verdict.refusals.is_empty() => Some(stored),
            NamedRecord::Record(_) | NamedRecord::Missing | NamedRecord::Invalid(_) => None,
        }
    }
}

/// One gate of the target.
pub(super) fn target(facts: &LaneFacts<'_>, gate: TargetGate) -> Finding {
    let Some(seen) = TargetSeen::of(facts) else {
        let value = format!("not needed before stage {}", Stage::OWNED);
        return facts.given(RECORD, value, Judgement::NotRequired);
    };
    if let Some((code, why)) = seen.verdict.refusal(gate) {
        let message = format!("`{gate}` of the target: {}", quote(why));
        return facts.given(RECORD, quote(why), refused_by(gate.as_str(), code, message));
    }
    match &seen.found {
        NamedRecord::Record(_) => facts.given(RECORD, "ok", Judgement::Passed),
        // The gate of the record itself says so.
        NamedRecord::Missing | NamedRecord::Invalid(_) => facts.given(
            RECORD,
            "there is no record to look at",
            Judgement::NotRequired,
        ),
    }
}
