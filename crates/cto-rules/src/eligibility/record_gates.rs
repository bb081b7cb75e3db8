//! Gates of the records: whether people let in the lane's source, its program, its model, and its kind of provider.

use cto_contract::admission::{AdmissionKind, ModelAdmission};
use cto_contract::blocker::BlockerCode;
use cto_contract::eligibility::{AdmissionsSeen, Gate, ModelSeen, UsedRecord};
use cto_contract::words::{AdmissionSeal, ModelAdmissionStatus, SourceAdmissionStatus, Stage};

use crate::admission::{
    ModelVerdict, SourceVerdict, Stored, binary_is_refused, judge_binary, judge_decision,
    judge_model, judge_source,
};

use super::facts::Probe;
use super::judgement::{Finding, Judgement, LaneFacts, quote, refused};
use super::target_gates::TargetSeen;

const RECORDS: &str = "admission records";
const OWN: &str = "part of this binary";

/// The lane's source may be executed at this stage, in this mode.
pub(super) fn source_admission(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::SourceAdmission;
    let (lane, stage) = (facts.lane, facts.stage().stage);
    let Some(from) = lane.traits().source_admission_from else {
        let value = SourceAdmissionStatus::Admitted.as_str();
        return facts.given(OWN, value, Judgement::NotRequired);
    };
    let verdict = source(facts);
    let status = verdict.status;
    let value = match verdict.used {
        Some(stored) => admitted_by(stored),
        None => format!("{status}: {}", quote(&verdict.why)),
    };
    let judgement = match verdict.used {
        _ if stage < from => Judgement::NotRequired,
        Some(_) => Judgement::Passed,
        None => refused(
            gate,
            BlockerCode::SourceNotAdmitted,
            format!(
                "`{gate}` of lane {lane} is {status}, and stage {stage} needs it admitted: {}",
                quote(&verdict.why)
            ),
        ),
    };
    facts.given(RECORDS, value, judgement)
}

/// The lane's program is the one that was let in.
pub(super) fn binary_admission(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::BinaryAdmission;
    let (lane, stage) = (facts.lane, facts.stage().stage);
    let Some(from) = lane.traits().source_admission_from else {
        return facts.given(OWN, "admitted", Judgement::NotRequired);
    };
    if stage < from {
        let value = format!("not needed before stage {from}");
        return facts.given(RECORDS, value, Judgement::NotRequired);
    }
    let missing = |why: &str| {
        let message = format!(
            "`{gate}` of lane {lane} is missing, and stage {stage} needs it: {}",
            quote(why)
        );
        refused(gate, BlockerCode::BinaryNotAdmitted, message)
    };
    // Where no record could fit, nobody needs to hash the program.
    if let Some(why) = binary_is_refused(&facts.asked.records, lane) {
        let judgement = missing(&why);
        return facts.given(RECORDS, format!("not admitted: {}", quote(&why)), judgement);
    }
    let seen = facts.looked_up.program.as_ref();
    let source = "admission records and the program's digest";
    Finding::looked(Probe::Program, source, seen, |program| {
        let records = &facts.asked.records;
        match judge_binary(records, lane, program.as_ref(), facts.moment()) {
            Ok(stored) => (admitted_by(stored), Judgement::Passed),
            Err(why) => (format!("not admitted: {}", quote(&why)), missing(&why)),
        }
    })
}

/// The pair of provider and model that is asked for is let in.
pub(super) fn model_admission(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::ModelAdmission;
    if facts.model_name().is_none() {
        return facts.given(RECORDS, "not needed", Judgement::NotRequired);
    }
    let verdict = model(facts);
    let (value, judgement) = match (verdict.used, verdict.refusal) {
        (Some(stored), None) => {
            let record = &stored.record;
            let value = format!(
                "{}/{} {}",
                record.provider,
                record.model,
                admitted_by(stored)
            );
            (value, Judgement::Passed)
        }
        (_, refusal) => {
            let (code, why) =
                refusal.unwrap_or((BlockerCode::ModelNotAdmitted, "no record".to_owned()));
            let why = quote(&why);
            let message = format!("`{gate}` of lane {}: {why}", facts.lane);
            let value = format!("{}: {why}", verdict.status);
            (value, refused(gate, code, message))
        }
    };
    facts.given(RECORDS, value, judgement)
}

/// Somebody decided which provider the lane may use.
pub(super) fn provider_decision(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::ProviderDecision;
    let (lane, stage) = (facts.lane, facts.stage().stage);
    let Some(from) = decision_from(facts) else {
        return facts.given(RECORDS, "not needed", Judgement::NotRequired);
    };
    if stage < from {
        let value = format!("not needed before stage {from}");
        return facts.given(RECORDS, value, Judgement::NotRequired);
    }
    let admitted = model(facts).used;
    let (value, judgement) =
        match judge_decision(&facts.asked.records, lane, admitted, facts.moment()) {
            Ok(stored) => {
                let status = stored.record.decision_status;
                (format!("{status} {}", by(stored)), Judgement::Passed)
            }
            Err(why) => {
                let why = quote(&why);
                let message = format!("`{gate}` of lane {lane}: {why}");
                let missing = refused(gate, BlockerCode::ProviderDecisionMissing, message);
                (format!("missing: {why}"), missing)
            }
        };
    facts.given(RECORDS, value, judgement)
}

/// How the records stand for a lane, and which of them let it in.
pub(super) fn seen(facts: &LaneFacts<'_>) -> AdmissionsSeen {
    let has_source = facts.lane.traits().source_admission_from.is_some();
    let source = has_source.then(|| source(facts));
    let binary = facts.looked_up.program.as_ref().and_then(|program| {
        let records = &facts.asked.records;
        judge_binary(records, facts.lane, program.value.as_ref(), facts.moment()).ok()
    });
    let model = facts.model_name().map(|_| model(facts));
    let admitted = model.as_ref().and_then(|verdict| verdict.used);
    let stage = facts.stage().stage;
    let decision = decision_from(facts).filter(|from| stage >= *from);
    let decision = decision.and_then(|_| {
        judge_decision(&facts.asked.records, facts.lane, admitted, facts.moment()).ok()
    });
    let target = TargetSeen::of(facts);
    let records = [
        used(
            AdmissionKind::Source,
            source.as_ref().and_then(|verdict| verdict.used),
        ),
        used(AdmissionKind::Binary, binary),
        used(AdmissionKind::Model, admitted),
        used(AdmissionKind::Decision, decision),
        used(
            AdmissionKind::Target,
            target.as_ref().and_then(TargetSeen::used),
        ),
    ];
    AdmissionsSeen {
        source_admission_status: source
            .map_or(SourceAdmissionStatus::Admitted, |verdict| verdict.status),
        model: model.map(|verdict| model_seen(facts, &verdict)),
        target_repository_admission_status: target.as_ref().map(TargetSeen::status),
        records: records.into_iter().flatten().collect(),
    }
}

fn source<'a>(facts: &LaneFacts<'a>) -> SourceVerdict<'a> {
    let mode = facts.asked.contract.mutation_mode;
    judge_source(&facts.asked.records, facts.lane, mode, facts.moment())
}

fn model<'a>(facts: &LaneFacts<'a>) -> ModelVerdict<'a> {
    let request = &facts.settings().model;
    judge_model(&facts.asked.records, request, facts.lane, facts.moment())
}

/// First stage at which a lane with a model needs somebody's decision.
fn decision_from(facts: &LaneFacts<'_>) -> Option<Stage> {
    let from = facts.lane.traits().decision_from;
    from.filter(|_| facts.model_name().is_some())
}

/// The pair that a record admits, else the one that was asked for.
fn model_seen(facts: &LaneFacts<'_>, verdict: &ModelVerdict<'_>) -> ModelSeen {
    let asked = &facts.settings().model;
    let of = |record: &ModelAdmission| (record.provider.to_string(), record.model.to_string());
    let admitted = verdict.used.map(|stored| of(&stored.record)).unzip();
    let shown = |name: &Option<String>| name.as_deref().map(quote);
    ModelSeen {
        provider: admitted.0.or_else(|| shown(&asked.provider)),
        model: admitted.1.or_else(|| shown(&asked.model)),
        model_admission_status: match (verdict.status, verdict.used) {
            // Nothing is admitted without the record that says so.
            (ModelAdmissionStatus::Admitted, None) => ModelAdmissionStatus::NotAdmitted,
            (status, _) => status,
        },
    }
}

fn used<T>(kind: AdmissionKind, stored: Option<&Stored<T>>) -> Option<UsedRecord> {
    stored.map(|stored| UsedRecord {
        kind,
        digest: stored.digest.clone(),
        seal: stored.seal,
    })
}

/// Which record admits, in few words.
fn admitted_by<T>(stored: &Stored<T>) -> String {
    format!("admitted {}", by(stored))
}

fn by<T>(stored: &Stored<T>) -> String {
    let seal: AdmissionSeal = stored.seal;
    let digest = stored.digest.as_str().get(..12).unwrap_or_default();
    format!("({seal} record {digest})")
}
