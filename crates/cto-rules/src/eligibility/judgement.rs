//! One gate, one judgement.
//!
//! A refusal's subject is the gate's name, or that of the environment variable which would open it.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::eligibility::Gate;
use cto_contract::text;
use cto_contract::words::{Lane, NetworkClass, RiskClass, SandboxClass, SourceAdmissionStatus};

use super::facts::{ApprovalState, EligibilityFacts, GateState, ModelState, RepositoryState};

/// First stage at which the lane's source must be admitted.
const SOURCE_ADMISSION_FROM_STAGE: u8 = 3;
const COMMAND_ADMISSION_FROM_STAGE: u8 = 4;
/// Most characters of somebody else's sentence in a message.
const QUOTED_CHARS: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    NotRequired,
    Passed,
    Missing(Blocker),
}

impl Judgement {
    pub(super) fn refusal(&self) -> Option<&Blocker> {
        match self {
            Self::Missing(blocker) => Some(blocker),
            Self::NotRequired | Self::Passed => None,
        }
    }

    fn missing(code: BlockerCode, message: String) -> Self {
        Self::Missing(Blocker::new(code, "", message))
    }

    fn unless(refusal: Option<(BlockerCode, String)>) -> Self {
        refusal.map_or(Self::Passed, |(code, message)| Self::missing(code, message))
    }
}

/// Judges one gate, no matter how the others stand.
pub(super) fn judge(gate: Gate, facts: &EligibilityFacts) -> Judgement {
    match judge_alone(gate, facts) {
        Judgement::Missing(blocker) if blocker.subject.is_empty() => Judgement::Missing(Blocker {
            subject: gate.as_str().to_owned(),
            ..blocker
        }),
        judged => judged,
    }
}

fn judge_alone(gate: Gate, facts: &EligibilityFacts) -> Judgement {
    match gate {
        Gate::LaneGate => lane_gate(facts),
        Gate::StageGate => stage_gate(facts),
        Gate::LaneAvailable => available(
            gate,
            &facts.lane_available.value,
            BlockerCode::ProviderUnavailable,
        ),
        Gate::SourceAdmission => source_admission(facts),
        Gate::AllowedPaths => Judgement::unless((facts.allowed_paths.value == 0).then(|| {
            (
                BlockerCode::AllowedPathsMissing,
                format!("`{gate}` is empty: the contract allows no path to change"),
            )
        })),
        Gate::ForbiddenActions => forbidden_actions(facts),
        Gate::RiskClass => risk_class(facts),
        Gate::MutationMode => mutation_mode(facts),
        Gate::Approval => approval(facts),
        Gate::Repository => repository(facts),
        Gate::StartTreeClean => match facts.start_tree_clean.value {
            None => Judgement::NotRequired,
            Some(true) => Judgement::Passed,
            Some(false) => Judgement::missing(
                BlockerCode::DirtyStartingTree,
                format!("`{gate}`: the source has uncommitted changes in paths that may change"),
            ),
        },
        Gate::EvidenceInterface => available(
            gate,
            &facts.evidence_interface.value,
            BlockerCode::ArtifactWriteFailure,
        ),
        Gate::Confinement => confinement(facts),
        Gate::ModelEndpoint => model_endpoint(facts),
        Gate::Budget => budget(facts),
    }
}

fn available(gate: Gate, value: &Result<(), String>, code: BlockerCode) -> Judgement {
    let refusal = value.as_ref().err().map(|why| {
        (
            code,
            format!("`{gate}`: {}", text::shorten(why, QUOTED_CHARS)),
        )
    });
    Judgement::unless(refusal)
}

fn lane_gate(facts: &EligibilityFacts) -> Judgement {
    let Some(name) = facts.lane.gate() else {
        return Judgement::NotRequired;
    };
    environment_gate(&facts.lane_gate.value, &name, BlockerCode::GateMissing, "1")
}

fn stage_gate(facts: &EligibilityFacts) -> Judgement {
    let Some(name) = facts.lane.stage_gate() else {
        return Judgement::NotRequired;
    };
    if facts.stage.number() == 1 && facts.stage_gate.value == GateState::NotNeeded {
        return Judgement::NotRequired;
    }
    environment_gate(
        &facts.stage_gate.value,
        &name,
        BlockerCode::StageGateMissing,
        &facts.stage.to_string(),
    )
}

/// A gate that this lane needs: a caller's `NotNeeded` is no key.
fn environment_gate(state: &GateState, name: &str, code: BlockerCode, key: &str) -> Judgement {
    match state {
        GateState::Open => Judgement::Passed,
        GateState::NotNeeded | GateState::Absent { .. } => {
            let message = format!("`{name}` is not set to exactly `{key}`");
            Judgement::Missing(Blocker::new(code, name, message))
        }
        GateState::Wrong { shown, .. } => {
            let shown = text::shorten(shown, QUOTED_CHARS);
            let message = format!(
                "`{name}` is set to \"{shown}\", which counts as absent: only `{key}` opens it"
            );
            Judgement::Missing(Blocker::new(code, name, message))
        }
    }
}

fn source_admission(facts: &EligibilityFacts) -> Judgement {
    // A command has no source: up to the stage where nothing can land, the digest of its program is its identity.
    let from_stage = match facts.lane {
        Lane::Fake => return Judgement::NotRequired,
        Lane::Command => COMMAND_ADMISSION_FROM_STAGE,
        Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp => {
            SOURCE_ADMISSION_FROM_STAGE
        }
    };
    if facts.stage.number() < from_stage {
        return Judgement::NotRequired;
    }
    let status = facts.source_admission.value;
    match status {
        SourceAdmissionStatus::Admitted => Judgement::Passed,
        SourceAdmissionStatus::NotAdmitted | SourceAdmissionStatus::Stale => Judgement::missing(
            BlockerCode::SourceNotAdmitted,
            format!(
                "`{}` of lane {} is {status}; stage {} needs it admitted",
                Gate::SourceAdmission,
                facts.lane,
                facts.stage
            ),
        ),
    }
}

fn repository(facts: &EligibilityFacts) -> Judgement {
    let gate = Gate::Repository;
    let quoted = |why: &str| format!("`{gate}`: {}", text::shorten(why, QUOTED_CHARS));
    match &facts.repository.value {
        None => Judgement::NotRequired,
        Some(RepositoryState::Usable) => Judgement::Passed,
        Some(RepositoryState::NotOwned(why)) => {
            Judgement::missing(BlockerCode::SourceNotOwned, quoted(why))
        }
        Some(RepositoryState::Unsupported(why)) => {
            Judgement::missing(BlockerCode::RepositoryUnsupported, quoted(why))
        }
    }
}

fn forbidden_actions(facts: &EligibilityFacts) -> Judgement {
    let names: Vec<&str> = facts
        .unlisted_actions
        .value
        .iter()
        .map(|a| a.as_str())
        .collect();
    Judgement::unless((!names.is_empty()).then(|| {
        let message = format!(
            "`{}` does not list {}, and nothing permits it",
            Gate::ForbiddenActions,
            names.join(", ")
        );
        (BlockerCode::ForbiddenActionsMissing, message)
    }))
}

fn risk_class(facts: &EligibilityFacts) -> Judgement {
    let class = facts.risk_class;
    let code = if class == RiskClass::Unowned {
        BlockerCode::UnownedRepository
    } else {
        BlockerCode::CriticalRepository
    };
    Judgement::unless(class.is_protected().then(|| {
        (
            code,
            format!(
                "`{}` {class} is refused wherever it is named",
                Gate::RiskClass
            ),
        )
    }))
}

fn mutation_mode(facts: &EligibilityFacts) -> Judgement {
    let gate = Gate::MutationMode;
    let ceiling = facts.stage.mode();
    Judgement::unless(match facts.requested_mode {
        None => Some((
            BlockerCode::StageGateMissing,
            format!("`{gate}` was not chosen explicitly"),
        )),
        Some(asked) if asked > ceiling => Some((
            BlockerCode::StageNotProven,
            format!(
                "`{gate}` {asked} is beyond stage {}, which goes no further than {ceiling}",
                facts.stage
            ),
        )),
        Some(_) => None,
    })
}

fn approval(facts: &EligibilityFacts) -> Judgement {
    if !facts.approval_required() {
        return Judgement::NotRequired;
    }
    let gate = Gate::Approval;
    match facts.approval.value {
        ApprovalState::Granted => Judgement::Passed,
        ApprovalState::NotRequired | ApprovalState::Missing => Judgement::missing(
            BlockerCode::ApprovalMissing,
            format!("`{gate}` is needed for this run and there is none"),
        ),
        ApprovalState::Denied => {
            Judgement::missing(BlockerCode::ApprovalDenied, format!("`{gate}` was denied"))
        }
    }
}

fn confinement(facts: &EligibilityFacts) -> Judgement {
    let gate = Gate::Confinement;
    Judgement::unless(match &facts.confinement.value {
        Err(why) => Some((
            BlockerCode::SandboxUnavailable,
            format!("`{gate}`: {}", text::shorten(why, QUOTED_CHARS)),
        )),
        Ok(class) => {
            let last = last_stage(*class);
            (facts.stage.number() > last).then(|| {
                (
                    BlockerCode::SandboxUnavailable,
                    format!("`{gate}` is {class}, which is capped at stage {last}"),
                )
            })
        }
    })
}

/// A model that the contract asks for: a caller's `NotNeeded` is no key.
fn model_endpoint(facts: &EligibilityFacts) -> Judgement {
    let Some(name) = facts.lane.base_url() else {
        return Judgement::NotRequired;
    };
    if facts.network == NetworkClass::None {
        return Judgement::NotRequired;
    }
    let gate = Gate::ModelEndpoint;
    let quoted = |why: &str| text::shorten(why, QUOTED_CHARS);
    Judgement::unless(match &facts.model.value {
        ModelState::Ready => None,
        ModelState::NotNeeded | ModelState::EndpointMissing { .. } => Some((
            BlockerCode::LocalProviderConfigMissing,
            format!("`{name}` is not set, and the contract asks for a model"),
        )),
        ModelState::EndpointInvalid { why, .. } => Some((
            BlockerCode::LocalProviderConfigMissing,
            format!("`{name}` can't be used: {}", quoted(why)),
        )),
        ModelState::KeyUnavailable(why) => Some((
            BlockerCode::ProviderAuthUnavailable,
            format!("`{gate}`: {}", quoted(why)),
        )),
        ModelState::Unusable(why) => Some((
            BlockerCode::ProviderUnavailable,
            format!("`{gate}`: {}", quoted(why)),
        )),
        ModelState::Unconfined(class) => Some((
            BlockerCode::SandboxUnavailable,
            format!(
                "`{gate}` needs an endpoint in a network of the agent's own, which native, bwrap and podman make; confinement is {class}"
            ),
        )),
    })
}

fn budget(facts: &EligibilityFacts) -> Judgement {
    let gate = Gate::Budget;
    let caps = &facts.unmeterable.value;
    Judgement::unless((!caps.is_empty()).then(|| {
        (
            BlockerCode::BudgetUnmeterable,
            format!(
                "`{gate}`: lane {} can't measure {}",
                facts.lane,
                caps.join(", ")
            ),
        )
    }))
}

/// The last stage that a class of confinement is good for.
const fn last_stage(class: SandboxClass) -> u8 {
    match class {
        SandboxClass::None | SandboxClass::Group | SandboxClass::Weak => 2,
        // A copy of a repository, from which nothing can land.
        SandboxClass::Process => 3,
        SandboxClass::Full => 6,
    }
}
