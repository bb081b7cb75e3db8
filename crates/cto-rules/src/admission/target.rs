//! Whether a repository may be changed: one blocker for each gate of its admission.

use cto_contract::admission::{AdmissionStatus, TargetAdmission};
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::path::PathPattern;
use cto_contract::words::{Action, AdmissionSeal, Stage, TargetAdmissionStatus};

use super::{Moment, NamedRecord, Standing};

/// What an admission is compared with.
#[derive(Debug, Clone, Copy)]
pub struct TargetFacts<'a> {
    pub found: &'a NamedRecord<TargetAdmission>,
    /// Where the repository of the run really lies; none when nobody looked yet.
    pub path: Option<&'a str>,
    /// What the contract wants to change.
    pub allowed_paths: &'a [PathPattern],
    pub moment: Moment,
}

/// How a target stands. It holds no path of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetVerdict {
    pub status: TargetAdmissionStatus,
    pub blockers: Vec<Blocker>,
}

/// Judges every gate of the admission, each no matter how the others stand.
pub fn judge(facts: TargetFacts<'_>) -> TargetVerdict {
    let alone = |status, code, message: &str| TargetVerdict {
        status,
        blockers: vec![Blocker::new(code, "target_admission", message)],
    };
    let stored = match facts.found {
        NamedRecord::Missing => {
            return alone(
                TargetAdmissionStatus::Missing,
                BlockerCode::TargetAdmissionMissing,
                "there is no admission of the target",
            );
        }
        NamedRecord::Invalid(why) => {
            return alone(
                TargetAdmissionStatus::Invalid,
                BlockerCode::TargetAdmissionInvalid,
                why,
            );
        }
        NamedRecord::Record(stored) => stored,
    };
    let record = &stored.record;
    let mut status = TargetAdmissionStatus::Admitted;
    let mut blockers = Vec::new();
    let mut refuse = |code, subject: &str, message: String| {
        blockers.push(Blocker::new(code, subject, message));
    };
    if record.admission_status == AdmissionStatus::NotAdmitted {
        status = TargetAdmissionStatus::NotAdmitted;
        let message = "`admission_status` is not `admitted`".to_owned();
        refuse(BlockerCode::TargetNotAdmitted, "admission_status", message);
    } else if let Some((worse, why)) = standing(record, stored.seal, facts) {
        status = worse;
        refuse(BlockerCode::TargetNotAdmitted, "review_trigger", why);
    }
    let gates = [
        (
            record.ownership_evidence.is_empty(),
            BlockerCode::UnownedRepository,
            "ownership_evidence",
            "is empty: nobody shows that the repository is his",
        ),
        (
            !record.is_low_risk(),
            BlockerCode::CriticalRepository,
            "risk_classification",
            "is not `low_risk_noncritical`, the only class that may change",
        ),
        (
            record.allowed_paths.is_empty(),
            BlockerCode::AllowedPathsMissing,
            "allowed_paths",
            "is empty: the admission allows no path to change",
        ),
        (
            record.forbidden_actions.len() < Action::ALL.len(),
            BlockerCode::ForbiddenActionsMissing,
            "forbidden_actions",
            "does not list all ten actions",
        ),
        (
            record.approval_source.is_empty() || record.approval_timestamp.is_empty(),
            BlockerCode::ApprovalSourceMissing,
            "approval_source",
            "or `approval_timestamp` is empty: nobody says who approved it, and when",
        ),
        (
            !record.operator_outcome_required,
            BlockerCode::OperatorOutcomeRequirementMissing,
            "operator_outcome_required",
            "is not true: an operator's word must end every run",
        ),
    ];
    for (is_closed, code, subject, why) in gates {
        if is_closed {
            refuse(code, subject, format!("`{subject}` {why}"));
        }
    }
    if let Some(beyond) = first_beyond(facts.allowed_paths, &record.allowed_paths) {
        let message = format!("`{beyond}` of the contract lies outside the admission's paths");
        refuse(BlockerCode::TargetScopeExceeded, "allowed_paths", message);
    }
    TargetVerdict { status, blockers }
}

/// Why a record that says `admitted` does not count. A target's must be signed at every stage.
fn standing(
    record: &TargetAdmission,
    seal: AdmissionSeal,
    facts: TargetFacts<'_>,
) -> Option<(TargetAdmissionStatus, String)> {
    let admitted_path = record.target_repository_path.as_str().trim_end_matches('/');
    if facts.path.is_some_and(|path| path != admitted_path) {
        let why = "the record is stale: it is about a repository at another path";
        return Some((TargetAdmissionStatus::Stale, why.to_owned()));
    }
    let moment = Moment {
        stage: facts.moment.stage.max(Stage::DISPOSABLE),
        ..facts.moment
    };
    match Standing::of(record.review_trigger.as_str(), seal, moment) {
        Standing::Good => None,
        Standing::Stale(why) => Some((
            TargetAdmissionStatus::Stale,
            format!("the record is stale: {why}"),
        )),
        Standing::Unsigned(_) => Some((
            TargetAdmissionStatus::NotAdmitted,
            "the record is unsigned; a target's needs an operator's signature".to_owned(),
        )),
    }
}

/// The first pattern of the contract that no pattern of the admission covers.
fn first_beyond<'a>(
    wanted: &'a [PathPattern],
    admitted: &[PathPattern],
) -> Option<&'a PathPattern> {
    let covers = |wide: &PathPattern, narrow: &PathPattern| {
        let (wide, narrow) = (wide.as_str(), narrow.as_str());
        // A directory covers what is spelled out below it; of two globs only the same is known to fit.
        let is_plain = !wide.contains(['*', '?', '[', '\\']);
        wide == narrow
            || wide == "**"
            || (wide.ends_with('/') && is_plain && narrow.starts_with(wide))
    };
    wanted
        .iter()
        .find(|narrow| !admitted.iter().any(|wide| covers(wide, narrow)))
}
