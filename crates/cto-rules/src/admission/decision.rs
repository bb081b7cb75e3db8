//! Whether a person decided that a lane may use the provider that it asks for.

use cto_contract::admission::{
    AdmissionKind, DecisionStatus, ModelAdmission, ProviderClass, ProviderDecision,
};
use cto_contract::words::Lane;

use super::{Moment, Records, Standing, Stored};

/// The decision that fits the admitted pair, or why none does. A pair without an admission never gets this far.
pub fn judge<'a>(
    records: &'a Records,
    lane: Lane,
    admitted: Option<&Stored<ModelAdmission>>,
    moment: Moment,
) -> Result<&'a Stored<ProviderDecision>, String> {
    let own: Vec<_> = records
        .decisions
        .iter()
        .filter(|d| d.record.lane == lane)
        .collect();
    let stored = match own.as_slice() {
        [] => {
            return Err(match records.bad_of(AdmissionKind::Decision, lane) {
                Some(why) => format!("its record can't be used: {why}"),
                None => format!("nobody decided the provider of {lane}"),
            });
        }
        [only] => *only,
        more => {
            let count = more.len();
            return Err(format!(
                "{lane} has {count} decisions, and there is one for each lane"
            ));
        }
    };
    let record = &stored.record;
    if record.decision_status == DecisionStatus::NotDecided {
        return Err("the decision says not_decided".to_owned());
    }
    let Some(class) = record.provider_class else {
        return Err("the decision names no `provider_class`".to_owned());
    };
    check_class(record.decision_status, class, lane)?;
    check_fields(record)?;
    let Some(admitted) = admitted else {
        return Err("the decided provider has no admission that fits".to_owned());
    };
    let is_first = admitted
        .record
        .is_of(record.provider.as_str(), record.model.as_str());
    let is_fallback = !record.fallback_provider.is_empty()
        && admitted.record.is_of(
            record.fallback_provider.as_str(),
            record.fallback_model.as_str(),
        );
    match record.decision_status {
        _ if is_first => {}
        DecisionStatus::ExternalProviderApproved if is_fallback => {}
        DecisionStatus::LocalProviderRequired if is_fallback => {
            return Err(
                "the decision requires the local provider, which the fallback is not".to_owned(),
            );
        }
        DecisionStatus::NotDecided
        | DecisionStatus::ExternalProviderApproved
        | DecisionStatus::LocalProviderRequired => {
            return Err(format!(
                "the decision is for {}/{}, and {}/{} is asked for",
                record.provider, record.model, admitted.record.provider, admitted.record.model
            ));
        }
    }
    let standing = Standing::of(record.review_trigger.as_str(), stored.seal, moment);
    standing.into_refusal().map_or(Ok(stored), Err)
}

fn check_class(status: DecisionStatus, class: ProviderClass, lane: Lane) -> Result<(), String> {
    let fits = match status {
        DecisionStatus::NotDecided => false,
        DecisionStatus::ExternalProviderApproved => !class.is_local(),
        // Case speaks to a local provider only in its own way.
        DecisionStatus::LocalProviderRequired if lane == Lane::Case => {
            class == ProviderClass::LocalCaseCompatible
        }
        DecisionStatus::LocalProviderRequired => class.is_local(),
    };
    if fits {
        return Ok(());
    }
    Err(format!(
        "the decision says {status} and names class {class}, which does not fit"
    ))
}

fn check_fields(record: &ProviderDecision) -> Result<(), String> {
    let is_external = record.decision_status == DecisionStatus::ExternalProviderApproved;
    let needed = [
        ("provider", record.provider.is_empty()),
        ("model", record.model.is_empty()),
        ("approval_source", record.approval_source.is_empty()),
        (
            "credential_source_class",
            is_external && record.credential_source_class.is_empty(),
        ),
        (
            "allowed_network_class",
            is_external && record.allowed_network_class.is_empty(),
        ),
        (
            "review_trigger",
            is_external && record.review_trigger.is_empty(),
        ),
    ];
    match needed.iter().find(|(_, is_empty)| *is_empty) {
        None => Ok(()),
        Some((field, _)) => Err(format!("the decision's `{field}` is empty")),
    }
}
