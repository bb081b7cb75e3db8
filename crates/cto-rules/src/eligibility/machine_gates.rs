//! Gates of the machine: whether evidence can be kept, a process be held, and a model be asked within its caps.

use cto_contract::blocker::BlockerCode;
use cto_contract::eligibility::Gate;
use cto_contract::words::{SandboxClass, Stage};

use crate::standing::{REPAIR, judge_ledger, judge_trust};

use super::facts::{AccessState, EndpointState, Probe};
use super::judgement::{
    ENVIRONMENT, Finding, Judgement, LaneFacts, TASK_CONTRACT, quote, quoted, refused, refused_by,
};

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
            Err(why) => {
                let code = BlockerCode::ArtifactWriteFailure;
                (why.clone(), refused(gate, code, quoted(gate, why)))
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

/// Whether the model is named, and a process here could be given its address and no other.
pub(super) fn model_endpoint(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::ModelEndpoint;
    let Some(name) = facts.model_name() else {
        return facts.given(TASK_CONTRACT, "not needed", Judgement::NotRequired);
    };
    let missing =
        |message: String| refused_by(&name, BlockerCode::LocalProviderConfigMissing, message);
    let seen = facts.looked_up.model_endpoint.as_ref();
    let finding = Finding::looked(
        Probe::ModelEndpoint,
        ENVIRONMENT,
        seen,
        |state| match state {
            EndpointState::Named => ("named".to_owned(), Judgement::Passed),
            EndpointState::Absent => {
                let message = format!("`{name}` is not set, and the run needs a model");
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
    let seen = facts.looked_up.model_access.as_ref();
    let source = "environment and harness.yaml";
    Finding::looked(Probe::ModelAccess, source, seen, |state| {
        let (why, code) = match state {
            AccessState::Open => return ("open".to_owned(), Judgement::Passed),
            AccessState::KeyUnavailable(why) => (why, BlockerCode::ProviderAuthUnavailable),
            AccessState::Unusable(why) => (why, BlockerCode::ProviderUnavailable),
        };
        (why.clone(), refused(gate, code, quoted(gate, why)))
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
