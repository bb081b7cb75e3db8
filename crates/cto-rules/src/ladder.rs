//! Which proof stages hold for an identity, from the proofs that were found; and what is missing for the next.
//!
//! State is derived, never set: a proof that is gone, does not verify, belongs to another identity or was made by an
//! earlier harness counts for nothing. A stage holds only if every stage below it holds.

use std::collections::BTreeSet;

use cto_contract::config::RequireReal;
use cto_contract::identity::Identity;
use cto_contract::ids::RunId;
use cto_contract::ladder::{ProofState, StageProofs, StageReason};
use cto_contract::lanes::LadderRule;
use cto_contract::words::{DirtySource, Lane, SandboxClass, Stage};

use crate::admission::SCRIPTED;

#[cfg(test)]
mod tests;

/// Stages at which a real pass is required, whatever a config adds.
pub const REAL_PASS_STAGES: [u8; 2] = RequireReal::ALWAYS;

/// Whose home the proofs lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeKind {
    /// An operator's: a double proves nothing real.
    Operators,
    /// A validator's throw-away home: inside it a double's own passes stand for real ones, and conformance is what is being
    /// made.
    Validators,
}

/// What stands behind a proof now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// There, known to the ledger, of a known origin, and it verifies.
    Good,
    Removed,
    DoesNotVerify,
    UnknownOrigin,
    NotInLedger,
}

/// A validator that ran with the lane's double.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conformance {
    pub stage: Stage,
    pub adapter_revision: u32,
    pub harness_version: String,
    pub is_ok: bool,
    pub evidence: Evidence,
}

/// What a person decided about a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    Nothing,
    /// The run consumed a grant by a registered operator.
    Granted,
    /// And an operator accepted what it came to.
    Accepted,
}

/// A run that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    pub run_id: RunId,
    pub stage: Stage,
    pub identity: Identity,
    /// Made by a validator.
    pub is_conformance: bool,
    pub dirty_source: DirtySource,
    /// The records that admitted it are the ones that count now.
    pub admission_is_unchanged: bool,
    pub decided: Decided,
    pub evidence: Evidence,
}

/// Everything that the ladder of one identity rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LadderFacts {
    pub identity: Identity,
    pub harness_version: String,
    pub home: HomeKind,
    /// Stages besides [`REAL_PASS_STAGES`] at which the config asks for a real pass.
    pub more_real_stages: BTreeSet<Stage>,
    /// Of the lane, in the order of the ledger.
    pub conformance: Vec<Conformance>,
    /// Of the lane, in the order of the ledger.
    pub passes: Vec<Pass>,
}

/// The ladder of one identity, stage by stage from the first.
pub fn ladder(facts: &LadderFacts) -> Vec<StageProofs> {
    let mut below = ProofState::Proven;
    Stage::all()
        .map(|stage| {
            let mut proofs = one_stage(facts, stage);
            if below != ProofState::Proven && proofs.state == ProofState::Proven {
                proofs.state = below;
                proofs.reasons.push(StageReason::StageBelow);
            }
            below = proofs.state;
            proofs
        })
        .collect()
}

/// The first stage that must still be proven before a run at `asked`; none when it may run, or needs no ladder.
pub fn missing_for(facts: &LadderFacts, asked: Stage) -> Option<StageProofs> {
    if facts.identity.lane.traits().ladder == LadderRule::Ruler {
        return None;
    }
    let needed = ladder(facts).into_iter();
    needed
        .take_while(|proofs| proofs.stage < asked)
        .find(|proofs| proofs.state != ProofState::Proven)
}

/// The command that gets the proof of a stage, by what it lacks.
pub fn next_command(lane: Lane, missing: &StageProofs) -> String {
    let stage = missing.stage;
    let lacks_a_pass = |reason: &StageReason| match reason {
        StageReason::NoRealPass
        | StageReason::IdentityChanged
        | StageReason::AdmissionChanged
        | StageReason::DecisionMissing
        | StageReason::ScriptedModel
        | StageReason::ConfinementTooWeak
        | StageReason::DirtySource => true,
        StageReason::NotValidated
        | StageReason::ValidationFailed
        | StageReason::HarnessChanged
        | StageReason::AdapterChanged
        | StageReason::EvidenceRemoved
        | StageReason::EvidenceDoesNotVerify
        | StageReason::OriginUnknown
        | StageReason::NotInLedger
        | StageReason::StageBelow => false,
    };
    let is_validated = missing.reasons.first().is_some_and(lacks_a_pass);
    match (is_validated, stage.number()) {
        (false, _) => format!("cto validate stage{stage} --lane {lane}"),
        (true, 2) => format!("cto run r1-string-slugify --engine {lane} --stage 2"),
        (true, 3) => format!("cto run --repo DIR --contract FILE --engine {lane} --stage 3"),
        (true, _) => format!("cto request --engine {lane} --stage {stage}"),
    }
}

/// What is found at one stage.
struct Found {
    state: ProofState,
    reasons: Vec<StageReason>,
}

fn one_stage(facts: &LadderFacts, stage: Stage) -> StageProofs {
    let conformance = match facts.home {
        HomeKind::Operators => conformance(facts, stage),
        HomeKind::Validators => evidence(Evidence::Good),
    };
    let is_real_needed = needs_real_pass(facts, stage);
    let (pass, real) = real_pass(facts, stage);
    let parts = [Some(conformance), is_real_needed.then_some(real)];
    let parts: Vec<Found> = parts.into_iter().flatten().collect();
    let worst = parts.iter().map(|part| part.state).max();
    StageProofs {
        stage,
        state: worst.unwrap_or(ProofState::Unproven),
        reasons: parts.into_iter().flat_map(|part| part.reasons).collect(),
        real_pass: pass,
        real_pass_required: is_real_needed,
    }
}

fn needs_real_pass(facts: &LadderFacts, stage: Stage) -> bool {
    // Up to the last stage where nothing lands, a command is known by its program alone.
    if facts.identity.lane == Lane::Command && stage <= Stage::COPIED_REPOSITORY {
        return false;
    }
    REAL_PASS_STAGES.contains(&stage.number()) || facts.more_real_stages.contains(&stage)
}

/// The newest validation of the stage decides: one that went red takes an earlier proof away.
fn conformance(facts: &LadderFacts, stage: Stage) -> Found {
    let newest = facts.conformance.iter().rev().find(|c| c.stage == stage);
    let Some(newest) = newest else {
        return unproven(StageReason::NotValidated);
    };
    if !newest.is_ok {
        return unproven(StageReason::ValidationFailed);
    }
    if newest.harness_version != facts.harness_version {
        return stale(StageReason::HarnessChanged);
    }
    if newest.adapter_revision != facts.identity.adapter_revision {
        return stale(StageReason::AdapterChanged);
    }
    evidence(newest.evidence)
}

/// The newest pass that counts; without one, what the best of the others lacks.
fn real_pass(facts: &LadderFacts, stage: Stage) -> (Option<RunId>, Found) {
    let mut best: Option<Found> = None;
    for pass in facts.passes.iter().rev().filter(|p| p.stage == stage) {
        let found = judge_pass(facts, pass);
        if found.state == ProofState::Proven {
            return (Some(pass.run_id.clone()), found);
        }
        if best.as_ref().is_none_or(|best| found.state < best.state) {
            best = Some(found);
        }
    }
    let found = best.unwrap_or_else(|| unproven(StageReason::NoRealPass));
    (None, found)
}

fn judge_pass(facts: &LadderFacts, pass: &Pass) -> Found {
    if pass.is_conformance && facts.home == HomeKind::Operators {
        return unproven(StageReason::NoRealPass);
    }
    if pass.identity.sandbox_class != SandboxClass::Full {
        return unproven(StageReason::ConfinementTooWeak);
    }
    if pass.dirty_source == DirtySource::Allowed {
        return unproven(StageReason::DirtySource);
    }
    let is_scripted = pass.identity.model_provider.as_deref() == Some(SCRIPTED);
    if is_scripted && pass.stage > Stage::COPIED_REPOSITORY && facts.home == HomeKind::Operators {
        return unproven(StageReason::ScriptedModel);
    }
    if !decided_enough(pass) {
        return unproven(StageReason::DecisionMissing);
    }
    if proves(&pass.identity, pass.stage) != proves(&facts.identity, pass.stage) {
        return stale(StageReason::IdentityChanged);
    }
    if !pass.admission_is_unchanged {
        return stale(StageReason::AdmissionChanged);
    }
    evidence(pass.evidence)
}

/// What a person must have decided for a pass to count at its stage.
fn decided_enough(pass: &Pass) -> bool {
    match pass.stage.number() {
        1..=3 => true,
        4 => pass.decided != Decided::Nothing,
        _ => pass.decided == Decided::Accepted,
    }
}

/// The part of an identity that a proof of a stage belongs to: a command's words count from where a change lands.
fn proves(identity: &Identity, stage: Stage) -> Identity {
    let mut identity = identity.clone();
    if stage <= Stage::COPIED_REPOSITORY {
        identity.command_line = None;
    }
    identity
}

fn evidence(evidence: Evidence) -> Found {
    match evidence {
        Evidence::Good => Found {
            state: ProofState::Proven,
            reasons: Vec::new(),
        },
        Evidence::Removed => stale(StageReason::EvidenceRemoved),
        Evidence::DoesNotVerify => unproven(StageReason::EvidenceDoesNotVerify),
        Evidence::UnknownOrigin => unproven(StageReason::OriginUnknown),
        Evidence::NotInLedger => unproven(StageReason::NotInLedger),
    }
}

fn stale(reason: StageReason) -> Found {
    Found {
        state: ProofState::Stale,
        reasons: vec![reason],
    }
}

fn unproven(reason: StageReason) -> Found {
    Found {
        state: ProofState::Unproven,
        reasons: vec![reason],
    }
}
