//! Gates of the model: whether it is named, can be reached, answers, and can be held to its caps.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::eligibility::Gate;
use cto_contract::words::SandboxClass;

use super::facts::{AccessState, AnswerState, EndpointState, Probe};
use super::judgement::{
    ENVIRONMENT, Finding, Judgement, LaneFacts, TASK_CONTRACT, quote, quoted, refused, refused_by,
};
use crate::verdicts::{is_same_model, preflight_fault};

/// What to do where the setting `name` gives no endpoint.
pub fn endpoint_hint(name: &str) -> String {
    format!(
        "set `{name}` to the model's base URL, or give its provider a `base_url_command` in harness.yaml"
    )
}

/// Whether the model is named, and a process here could be given its address and no other.
pub(super) fn model_endpoint(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::ModelEndpoint;
    let Some(name) = facts.model_name() else {
        return facts.given(TASK_CONTRACT, "not needed", Judgement::NotRequired);
    };
    let missing = |message: String| {
        let code = BlockerCode::LocalProviderConfigMissing;
        Judgement::Missing(
            Blocker::new(code, name.as_str(), message).with_hint(endpoint_hint(&name)),
        )
    };
    let seen = facts.looked_up.model_endpoint.as_ref();
    let finding = Finding::looked(
        Probe::ModelEndpoint,
        ENVIRONMENT,
        seen,
        |state| match state {
            EndpointState::Named => ("named".to_owned(), Judgement::Passed),
            EndpointState::ByCommand => ("told by a command".to_owned(), Judgement::Passed),
            EndpointState::Absent => {
                let message = format!(
                    "`{name}` is not set, the provider has no `base_url_command`, and the run needs a model"
                );
                (format!("{name} is absent"), missing(message))
            }
            EndpointState::Invalid(why) => {
                let why = quote(why);
                let message = format!("`{name}` can't be used: {why}");
                (format!("{name} can't be used: {why}"), missing(message))
            }
        },
    );
    if finding.judgement() != &Judgement::Passed {
        return finding;
    }
    let Some(confinement) = &facts.looked_up.confinement else {
        return finding.until(Probe::Confinement);
    };
    let class = match &confinement.value {
        Ok(found) if found.class >= SandboxClass::Process && found.has_endpoint => return finding,
        Ok(found) => found.class,
        Err(_) => SandboxClass::None,
    };
    let message = format!(
        "`{gate}` needs an endpoint in a network of the agent's own, which native, bwrap and podman make; confinement is {class}"
    );
    let unheld = refused(gate, BlockerCode::SandboxUnavailable, message);
    finding.but(format!("named, but confinement is {class}"), unheld)
}

/// Whether the key is to be had and the address leads somewhere.
pub(super) fn model_access(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::ModelAccess;
    if facts.model_name().is_none() {
        return facts.given(TASK_CONTRACT, "not needed", Judgement::NotRequired);
    }
    let source = "environment and harness.yaml";
    if let Some(missing) = closed_bridge(facts) {
        let value = "the bridge for keys of a login is closed";
        return facts.given(source, value, missing);
    }
    let seen = facts.looked_up.model_access.as_ref();
    Finding::looked(Probe::ModelAccess, source, seen, |state| {
        let (why, code) = match state {
            AccessState::Open => return ("open".to_owned(), Judgement::Passed),
            AccessState::KeyUnavailable(why) => (why, BlockerCode::ProviderAuthUnavailable),
            AccessState::NoEndpoint(why) => (why, BlockerCode::LocalProviderConfigMissing),
            AccessState::Unusable(why) => (why, BlockerCode::ProviderUnavailable),
        };
        (why.clone(), refused(gate, code, quoted(gate, why)))
    })
}

/// What keeps short-lived keys of a login from being used, where the provider has no others.
fn closed_bridge(facts: &LaneFacts<'_>) -> Option<Judgement> {
    let bridge = facts.asked.auth_bridge.as_ref()?;
    let code = BlockerCode::ProviderAuthUnavailable;
    let name = &bridge.name;
    let message = match (bridge.value.as_deref(), bridge.has_command) {
        (Some("1"), true) => return None,
        (Some("1"), false) => format!(
            "`{name}` is open, but the provider has no `credential_command` in harness.yaml that gives a short-lived key"
        ),
        (value, _) => {
            let value = value.map_or_else(|| "absent".to_owned(), |v| format!("\"{}\"", quote(v)));
            format!("`{name}` is {value} and not `1`: the provider's keys come by this bridge only")
        }
    };
    Some(refused_by(name, code, message))
}

/// Whether the model answers, and whether it is the one that was asked for.
pub(super) fn model_answer(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::ModelAnswer;
    if facts.model_name().is_none() {
        return facts.given(TASK_CONTRACT, "not needed", Judgement::NotRequired);
    }
    let source = "one question to the model";
    if !facts.asked.asks_model {
        return facts.given(
            source,
            "not asked: only a plan is wanted",
            Judgement::NotRequired,
        );
    }
    let seen = facts.looked_up.model_answer.as_ref();
    Finding::looked(Probe::ModelAnswer, source, seen, |state| match state {
        AnswerState::Answered { model, by } => match by {
            Some(by) if !is_same_model(model, by) => {
                let (by, model) = (quote(by), quote(model));
                let message = format!("`{gate}`: `{by}` answers, not `{model}`");
                let code = BlockerCode::ModelAdmissionMismatch;
                (format!("{by} answers"), refused(gate, code, message))
            }
            Some(by) => (format!("{} answers", quote(by)), Judgement::Passed),
            None => ("answers".to_owned(), Judgement::Passed),
        },
        AnswerState::Fault(fault) => {
            let (code, words) = preflight_fault(*fault);
            let message = format!("`{gate}`: {words}");
            (fault.as_str().to_owned(), refused(gate, code, message))
        }
        AnswerState::NotAsked(why) => {
            let code = BlockerCode::ProviderUnavailable;
            (why.clone(), refused(gate, code, quoted(gate, why)))
        }
    })
}

/// Every cap must be one that somebody can hold; without a model nothing is spent.
pub(super) fn budget(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::Budget;
    let source = "task contract and harness.yaml";
    let caps = match facts.model_name() {
        None => String::new(),
        Some(_) => facts.asked.unmeterable.join(", "),
    };
    if caps.is_empty() {
        return facts.given(source, "every cap can be held", Judgement::Passed);
    }
    let message = format!("`{gate}`: lane {} can't measure {caps}", facts.lane);
    let missing = refused(gate, BlockerCode::BudgetUnmeterable, message);
    facts.given(source, format!("can't be held: {caps}"), missing)
}
