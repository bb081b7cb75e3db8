//! Whether a repository may be changed: one blocker for each gate of its admission.

use cto_contract::admission::{AdmissionKind, AdmissionStatus, ForbiddenPath, TargetAdmission};
use cto_contract::blocker::BlockerCode;
use cto_contract::path::PathPattern;
use cto_contract::task::TaskContract;
use cto_contract::wire_enum;
use cto_contract::words::{Action, AdmissionSeal, Stage, TargetAdmissionStatus};

use super::{Moment, NamedRecord, Records, Standing, Stored};

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

wire_enum! {
    /// One thing that the admission of a target has to say.
    pub enum TargetGate {
        /// There is a record, it admits, and it counts.
        Admission = "target_admission",
        Ownership = "ownership_evidence",
        Risk = "risk_classification",
        Paths = "allowed_paths",
        Actions = "forbidden_actions",
        Approval = "approval_source",
        Outcome = "operator_outcome_required",
        /// The contract wants no more than the record allows.
        Scope = "target_scope",
    }
}

/// How a target stands. It holds no path of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetVerdict {
    pub status: TargetAdmissionStatus,
    pub refusals: Vec<(TargetGate, BlockerCode, String)>,
}

impl TargetVerdict {
    /// Why one gate is closed.
    pub fn refusal(&self, gate: TargetGate) -> Option<(BlockerCode, &str)> {
        let mut refusals = self.refusals.iter().filter(|(of, _, _)| *of == gate);
        refusals.next().map(|(_, code, why)| (*code, why.as_str()))
    }
}

/// The record that speaks about a target: the one that the environment names, else the one about its path, else one about
/// its name. Of several about the same path one that refuses wins, then one that is signed.
pub fn find(
    records: &Records,
    named: Option<&NamedRecord<TargetAdmission>>,
    (path, id): (Option<&str>, Option<&str>),
) -> NamedRecord<TargetAdmission> {
    if let Some(named) = named {
        return named.clone();
    }
    let is_at = |t: &&Stored<TargetAdmission>| path == Some(placed_at(&t.record));
    let is_called = |t: &&Stored<TargetAdmission>| id.is_some() && t.record.id().as_deref() == id;
    let rank = |t: &&Stored<TargetAdmission>| {
        let admits = t.record.admission_status == AdmissionStatus::Admitted;
        (admits, t.seal == AdmissionSeal::Unsigned)
    };
    let targets = || records.targets.iter();
    let found = targets().filter(is_at).min_by_key(rank);
    let found = found.or_else(|| targets().filter(is_called).min_by_key(rank));
    if let Some(stored) = found {
        return NamedRecord::Record(Box::new(stored.clone()));
    }
    let mut bad = records.bad.iter();
    match bad.find(|bad| bad.kind == AdmissionKind::Target) {
        Some(bad) => NamedRecord::Invalid(unreadable(&bad.place)),
        None => NamedRecord::Missing,
    }
}

/// What may be said in a report of a record that can't be used: what is wrong with it may hold the target's path.
pub fn unreadable(place: &str) -> String {
    format!("{place}: the record can't be used; `cto admissions` says what is wrong there")
}

fn placed_at(record: &TargetAdmission) -> &str {
    record.target_repository_path.as_str().trim_end_matches('/')
}

/// Judges every gate of the admission, each no matter how the others stand. Where there is no record, only that is said.
pub fn judge(facts: TargetFacts<'_>) -> TargetVerdict {
    let alone = |status, code, message: &str| TargetVerdict {
        status,
        refusals: vec![(TargetGate::Admission, code, message.to_owned())],
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
    let mut refusals = Vec::new();
    if record.admission_status == AdmissionStatus::NotAdmitted {
        status = TargetAdmissionStatus::NotAdmitted;
        let why = "`admission_status` is not `admitted`".to_owned();
        refusals.push((TargetGate::Admission, BlockerCode::TargetNotAdmitted, why));
    } else if let Some((worse, why)) = standing(record, stored.seal, facts) {
        status = worse;
        refusals.push((TargetGate::Admission, BlockerCode::TargetNotAdmitted, why));
    }
    let gates = [
        (
            record.ownership_evidence.is_empty(),
            BlockerCode::UnownedRepository,
            TargetGate::Ownership,
            "is empty: nobody shows that the repository is his",
        ),
        (
            !record.is_low_risk(),
            BlockerCode::CriticalRepository,
            TargetGate::Risk,
            "is not `low_risk_noncritical`, the only class that may change",
        ),
        (
            record.allowed_paths.is_empty(),
            BlockerCode::AllowedPathsMissing,
            TargetGate::Paths,
            "is empty: the admission allows no path to change",
        ),
        (
            record.forbidden_actions.len() < Action::ALL.len(),
            BlockerCode::ForbiddenActionsMissing,
            TargetGate::Actions,
            "does not list all ten actions",
        ),
        (
            record.approval_source.is_empty() || record.approval_timestamp.is_empty(),
            BlockerCode::ApprovalSourceMissing,
            TargetGate::Approval,
            "or `approval_timestamp` is empty: nobody says who approved it, and when",
        ),
        (
            !record.operator_outcome_required,
            BlockerCode::OperatorOutcomeRequirementMissing,
            TargetGate::Outcome,
            "is not true: an operator's word must end every run",
        ),
    ];
    for (is_closed, code, gate, why) in gates {
        if is_closed {
            refusals.push((gate, code, format!("`{gate}` {why}")));
        }
    }
    // Where nothing is allowed, that is said already.
    let beyond = first_beyond(facts.allowed_paths, &record.allowed_paths);
    if let Some(beyond) = beyond.filter(|_| !record.allowed_paths.is_empty()) {
        let why = format!("`{beyond}` of the contract lies outside the admission's paths");
        refusals.push((TargetGate::Scope, BlockerCode::TargetScopeExceeded, why));
    }
    TargetVerdict { status, refusals }
}

/// The contract within what the owner of the target forbids: forbidden paths and actions are the union of both.
pub fn bound(contract: &mut TaskContract, record: &TargetAdmission) {
    let forbidden = record.forbidden_paths.iter();
    for pattern in forbidden.filter_map(ForbiddenPath::pattern) {
        if !contract.forbidden_paths.contains(&pattern) {
            contract.forbidden_paths.push(pattern);
        }
    }
    contract.forbidden_actions.extend(&record.forbidden_actions);
}

/// Why a record that says `admitted` does not count. A target's must be signed at every stage.
fn standing(
    record: &TargetAdmission,
    seal: AdmissionSeal,
    facts: TargetFacts<'_>,
) -> Option<(TargetAdmissionStatus, String)> {
    if facts.path.is_some_and(|path| path != placed_at(record)) {
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
