//! Whether a lane may run: what is known from the beginning, and one loop that looks up what the rules still need.

mod probes;
mod route;

use std::path::Path;

use cto_contract::admission::TargetAdmission;
use cto_contract::ids::Digest;
use cto_contract::task::{Limits, TaskContract};
use cto_contract::time::Utc;
use cto_contract::words::{Lane, Stage};
use cto_evidence::canonical::decision_id;
use cto_rules::admission::{ModelRequest, NamedRecord, find_target};
use cto_rules::eligibility::{
    ApprovalState, Asked, Decision, Facts, LaneSettings, StageAsked, Verdict, Work, decide,
};
use cto_sandbox::StopToken;

use crate::adapters::is_built_in;
use crate::admissions::Authority;
use crate::harness::Harness;
use crate::open_run::StepError;
use crate::sandbox::SandboxAsk;
use crate::task::RepositoryTask;
use crate::{clock, model};

pub(crate) use probes::Held;
use probes::Lookup;
pub use route::RouteRequest;

/// What is to be decided.
pub(crate) struct Question<'a> {
    pub(crate) harness: &'a Harness,
    pub(crate) contract: &'a TaskContract,
    pub(crate) contract_digest: &'a Digest,
    pub(crate) lane: Lane,
    /// The stage that was asked for by name.
    pub(crate) stage: Option<Stage>,
    pub(crate) limits: &'a Limits,
    pub(crate) sandbox: SandboxAsk,
    pub(crate) target: Target<'a>,
    /// Program and arguments of a lane that takes its command line from the operator.
    pub(crate) argv: &'a [String],
    /// A directory to work in, on the file system of the run.
    pub(crate) scratch: &'a Path,
    pub(crate) stop: &'a StopToken,
    pub(crate) reach: Reach,
    pub(crate) approval: ApprovalState,
}

/// What the work is done on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    Case,
    Repository {
        path: &'a Path,
        contract_file: Option<&'a Path>,
        rev: Option<&'a str>,
    },
    /// A repository that nobody named yet.
    UnnamedRepository,
}

/// How far somebody who asks may go to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Whatever the rules need.
    Run,
    /// The same, but the model is asked nothing.
    Plan,
    /// Nothing that starts a program.
    Look,
}

/// A decision, and what was opened on the way to it.
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) held: Held,
    /// What it was decided by.
    pub(crate) facts: Facts,
}

/// Decides. Every fact is looked up at most once, and only when the rules ask for it.
pub(crate) fn find_out(question: &Question<'_>) -> Result<Decided, StepError> {
    let repository = match question.target {
        Target::Repository { path, .. } => Some(path),
        Target::Case | Target::UnnamedRepository => None,
    };
    let authority = authority(question.harness, repository);
    let mut facts = Facts::new(asked(question, authority, clock::now()));
    about_the_pair(question, &mut facts);
    let mut lookup = Lookup::new(question);
    loop {
        match decide(&facts, decision_id) {
            Verdict::Decided(decision) => {
                return Ok(Decided {
                    decision: *decision,
                    held: lookup.into_held(),
                    facts,
                });
            }
            Verdict::Needs(probe) => match lookup.look_up(probe, &facts)? {
                Some(answer) => facts.learn(answer, clock::now()),
                None => facts.leave_out(probe),
            },
        }
    }
}

/// The stage of a run, by what was typed and what the environment says.
pub(crate) fn stage_asked(
    harness: &Harness,
    lane: Lane,
    flag: Option<Stage>,
    work: Work,
) -> StageAsked {
    let value = lane.stage_gate().and_then(|name| harness.env.get(&name));
    let config = harness.config.harness.gate(lane);
    StageAsked::with_config(lane, flag, value, (config, work))
}

/// The record about the repository that a task is done on.
pub(crate) fn target_record(
    harness: &Harness,
    lane: Lane,
    task: &RepositoryTask,
) -> NamedRecord<TargetAdmission> {
    let authority = authority(harness, Some(&task.path));
    let path = top_of(&task.path);
    let about = (path.as_deref(), task.contract.target_id.as_deref());
    find_target(&authority.records, authority.targets.get(&lane), about)
}

/// Reads the records once.
fn authority(harness: &Harness, repository: Option<&Path>) -> Authority {
    // A ledger that can't be believed seals nothing, and has a gate of its own.
    let decided = harness.ledger().authority().unwrap_or_default();
    let book = &decided.admissions;
    Authority::read(&harness.config.dir, &harness.env, repository, book)
}

fn asked(question: &Question<'_>, authority: Authority, at: Utc) -> Asked {
    let Authority {
        records,
        mut requests,
        mut targets,
    } = authority;
    let harness = question.harness;
    let chosen = harness.sandbox(question.sandbox);
    Asked {
        contract: question.contract.clone(),
        contract_digest: question.contract_digest.clone(),
        lane: question.lane,
        stage: question.stage,
        work: match question.target {
            Target::Case => Work::Case,
            Target::Repository { .. } | Target::UnnamedRepository => Work::Repository,
        },
        lanes: Lane::ALL
            .iter()
            .map(|lane| {
                let model = requests.remove(lane).unwrap_or_default();
                let named = (model, targets.remove(lane));
                (*lane, settings(harness, *lane, named))
            })
            .collect(),
        records,
        target_path: match question.target {
            Target::Repository { path, .. } => top_of(path),
            Target::Case | Target::UnnamedRepository => None,
        },
        approval: question.approval.clone(),
        unmeterable: Vec::new(),
        auth_bridge: None,
        asks_model: question.reach != Reach::Plan,
        confinement_by_trial: chosen.is_ok_and(|chosen| chosen.is_known_by_trial()),
        at,
    }
}

/// Adds what depends on the pair of provider and model that a record admits.
fn about_the_pair(question: &Question<'_>, facts: &mut Facts) {
    let admissions = facts.admissions();
    let pair = admissions.admitted_pair();
    let harness = question.harness;
    facts.asked.unmeterable = model::unmeterable(harness, question.limits, pair);
    facts.asked.auth_bridge =
        pair.and_then(|(provider, _)| model::auth_bridge(harness, question.lane, provider));
}

/// Where the repository of a directory begins, with no link left in it. Nothing of the repository is read.
pub(crate) fn top_of(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let begins = real.ancestors().find(|place| place.join(".git").exists());
    begins.unwrap_or(&real).to_str().map(str::to_owned)
}

fn settings(
    harness: &Harness,
    lane: Lane,
    (model, target): (ModelRequest, Option<NamedRecord<TargetAdmission>>),
) -> LaneSettings {
    let value = |name: Option<String>| name.and_then(|n| harness.env.get(&n).map(str::to_owned));
    let engine = harness.config.harness.engines.get(lane.as_str());
    LaneSettings {
        gate: value(lane.gate()),
        stage: value(lane.stage_gate()),
        config: harness.config.harness.gate(lane),
        is_built_in: is_built_in(lane),
        is_disabled: engine.is_some_and(|engine| engine.disabled),
        model,
        target,
    }
}
