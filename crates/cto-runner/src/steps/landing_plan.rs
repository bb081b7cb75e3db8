//! Where a change may land, decided and recorded before anything starts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cto_checkout::{BranchName, LandingError, foresee};
use cto_contract::admission::AdmissionKind;
use cto_contract::identity::{CommandLine, Identity};
use cto_contract::ids::CommitId;
use cto_contract::landing::{DisposablePlan, DisposableTerms, LandingPlan};
use cto_contract::task::BranchUpdate;
use cto_contract::words::{AdmissionSeal, Lane, Stage};
use cto_evidence::canonical::hash_reader;
use cto_rules::ladder::{HomeKind, LadderFacts, missing_for};
use cto_rules::landing::default_branch;
use cto_rules::verdicts::Fault;

use crate::harness::ApprovalAsk;
use crate::open_run::{OpenRun, StepError};
use crate::source::Source;
use crate::steps::prepare::Prepared;
use crate::{VERSION, error_chain};

fn cannot(why: impl Into<String>) -> StepError {
    Fault::CannotLand { why: why.into() }.into()
}

/// The plan of a landing; none below the stages at which a change lands.
pub(super) fn landing_plan(
    run: &OpenRun<'_>,
    prepared: &Prepared,
    source: Option<&Source>,
    identity: &Identity,
) -> Result<Option<LandingPlan>, StepError> {
    let stage = run.state().started.stage;
    if stage < Stage::DISPOSABLE {
        return Ok(None);
    }
    check_proofs(identity, stage)?;
    let source = source.ok_or_else(|| cannot("there is no repository to land in"))?;
    let withheld = prepared.source_plan.as_ref();
    if let Some(path) = withheld.and_then(|plan| plan.withheld.first()) {
        return Err(cannot(format!(
            "`{path}` is forbidden and so kept from the checks, but what lands must be what was checked; name it under `readable_paths`"
        )));
    }
    let policy = run.contract.branch_policy.as_ref();
    let name = policy.map_or_else(
        || default_branch(run.contract.task_id.as_str()),
        |policy| policy.branch.clone(),
    );
    let branch = BranchName::parse(&name).map_err(|e| cannot(error_chain(&e)))?;
    if let Some(policy) = policy {
        let base = source.repository.resolve(Some(&policy.base));
        let base = base.map_err(|e| cannot(error_chain(&e)))?;
        if base.id != source.commit.id {
            return Err(cannot(format!(
                "the base `{}` of the branch policy is {}, and the run starts from {}",
                policy.base, base.id, source.commit.id
            )));
        }
    }
    let update = policy.map_or(BranchUpdate::RefOnly, |policy| policy.update);
    let base = commit_id(&source.commit.id)?;
    let (expected, disposable) = if stage == Stage::DISPOSABLE {
        let terms = terms(run)?.ok_or(Fault::DisposableNotNamed)?;
        let expected = match update {
            BranchUpdate::RefOnly => None,
            BranchUpdate::CheckedOut => Some(base.clone()),
        };
        (expected, Some(disposable(run, source, terms)))
    } else {
        check_admitted(run)?;
        let found = foresee(&source.repository, &branch, source.commit.id, update);
        let found = found.map_err(|e: LandingError| cannot(error_chain(&e)))?;
        (found.as_ref().map(commit_id).transpose()?, None)
    };
    Ok(Some(LandingPlan {
        branch: branch.as_str().to_owned(),
        base,
        expected,
        update,
        disposable,
    }))
}

fn commit_id(id: &cto_checkout::Oid) -> Result<CommitId, StepError> {
    let word = id.to_string().parse();
    word.map_err(|_| cannot(format!("`{id}` is not a commit id")))
}

/// No stage is reached without the proofs of those below it. What is not found counts for nothing.
fn check_proofs(identity: &Identity, stage: Stage) -> Result<(), StepError> {
    let missing = missing_for(
        &LadderFacts {
            identity: identity.clone(),
            harness_version: VERSION.to_owned(),
            home: HomeKind::Operators,
            more_real_stages: BTreeSet::new(),
            conformance: Vec::new(),
            passes: Vec::new(),
        },
        stage,
    );
    match missing {
        None => Ok(()),
        Some(proofs) => Err(Fault::StageNotProven {
            stage,
            needed: proofs.stage,
        }
        .into()),
    }
}

/// A change lands in somebody's own repository only on a signed record about it.
fn check_admitted(run: &OpenRun<'_>) -> Result<(), StepError> {
    let decided = run.state().eligibility.as_ref();
    let seen = decided.and_then(|decided| decided.decision.admissions.as_ref());
    let is_admitted = seen.is_some_and(|seen| {
        let mut records = seen.records.iter();
        records.any(|used| used.kind == AdmissionKind::Target && used.seal == AdmissionSeal::Signed)
    });
    match is_admitted {
        true => Ok(()),
        false => Err(Fault::TargetNotAdmitted.into()),
    }
}

/// What the request says of the disposable repository.
fn terms(run: &OpenRun<'_>) -> Result<Option<DisposableTerms>, StepError> {
    match &run.request.approval {
        ApprovalAsk::None => Ok(None),
        ApprovalAsk::Planned(terms) => Ok(terms.clone()),
        ApprovalAsk::Request(id) => {
            let found = run.harness.approval_request(id);
            let (_, document) = found.map_err(|e| Fault::ApprovalUnreadable {
                why: error_chain(&e),
            })?;
            Ok(document.disposable)
        }
    }
}

fn disposable(run: &OpenRun<'_>, source: &Source, terms: DisposableTerms) -> DisposablePlan {
    let target = crate::approvals::target_id(&run.request.task, &run.contract);
    DisposablePlan {
        owner: terms.owner,
        creation_source: format!("{target}@{}", source.commit.id),
        disposal_policy: terms.disposal_policy,
        directory: format!("$CTO_HOME/disposable/{}", run.run_id),
    }
}

/// What a `command` is besides its program, from where its change lands.
pub(super) fn command_line(
    run: &OpenRun<'_>,
    argv: &[String],
    shown: &[String],
    environment_names: Vec<String>,
) -> Result<Option<CommandLine>, StepError> {
    let lands = run.state().started.stage >= Stage::DISPOSABLE;
    if run.request.lane != Lane::Command || !lands {
        return Ok(None);
    }
    let mut files = BTreeMap::new();
    for (word, shown) in argv.iter().zip(shown).skip(1) {
        let path = Path::new(word);
        if path.is_absolute() && path.is_file() {
            let digest = std::fs::File::open(path)
                .and_then(|file| hash_reader(file).map_err(std::io::Error::other));
            let (digest, _) = digest.map_err(|e| StepError::not_written("identity", &e))?;
            files.insert(shown.clone(), digest);
        }
    }
    Ok(Some(CommandLine {
        argv: shown.to_vec(),
        files,
        environment_names,
    }))
}
