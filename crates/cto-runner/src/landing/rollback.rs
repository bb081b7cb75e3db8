//! Taking a landed change back: prepared and shown on request, done only where an operator said so, and only exactly.

use std::path::Path;

use cto_checkout::{LandingError, Prepared, RollbackRequest, prepare_rollback};
use cto_contract::addendum::{AddendumKind, Body};
use cto_contract::approval::OutcomeStatement;
use cto_contract::blocker::Blocker;
use cto_contract::ids::{CommitId, RunId};
use cto_contract::landing::{LandingAct, LandingEnd, LandingEnded};
use cto_contract::ledger::Record;
use cto_rules::landing::{RollbackFacts, TargetFault, decide_rollback, target_fault};

use super::subject::Subject;
use super::target::{Target, fault_of};
use super::{LandError, proofs};
use crate::addenda::Addenda;
use crate::clock;
use crate::harness::{Harness, scratch_name};

/// What a rollback would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackPreview {
    pub landed_commit: CommitId,
    pub branch: String,
    /// The commit that would take it back.
    pub rollback_commit: String,
    pub paths: Vec<String>,
}

/// What was landed, by the record beside the pack.
struct Landed {
    commit: CommitId,
    is_clean: bool,
}

fn landed(addenda: &Addenda<'_>) -> Result<Option<Landed>, LandError> {
    Ok(match addenda.body(AddendumKind::Landing)? {
        Some(Body::Landing {
            landed_commit,
            target_repository_ending_clean,
            ..
        }) => Some(Landed {
            commit: landed_commit,
            is_clean: target_repository_ending_clean,
        }),
        _ => None,
    })
}

impl Harness {
    /// The commit that a run has landed; none where nothing did.
    pub fn landed_commit(&self, run_id: &RunId) -> Result<Option<CommitId>, LandError> {
        let ended = self.ended(LandingAct::Land, run_id)?;
        Ok(ended.and_then(|ended| ended.commit))
    }

    /// Prepares the rollback of a landed run and says what it would do. Nothing is touched.
    pub fn preview_rollback(
        &self,
        run_id: &RunId,
    ) -> Result<Result<RollbackPreview, Blocker>, LandError> {
        self.in_scratch(|scratch| {
            let subject = Subject::of(self, run_id)?;
            let addenda = Addenda::of(self, run_id, &subject.seal.pack_digest)?;
            let landed = landed(&addenda)?.ok_or_else(|| LandError::Unknown(run_id.clone()))?;
            let prepared = match self.prepared_rollback(&subject, &landed, scratch)? {
                Ok((_, prepared)) => prepared,
                Err(blocker) => return Ok(Err(blocker)),
            };
            let paths = prepared.changes().iter();
            Ok(Ok(RollbackPreview {
                landed_commit: landed.commit,
                branch: subject.plan.branch.clone(),
                rollback_commit: prepared.commit().to_string(),
                paths: paths.map(|change| change.path.to_string()).collect(),
            }))
        })
    }

    fn in_scratch<T>(
        &self,
        act: impl FnOnce(&Path) -> Result<T, LandError>,
    ) -> Result<T, LandError> {
        let scratch = self.home.work().join(scratch_name("land")?);
        std::fs::create_dir(&scratch).map_err(|source| LandError::Write {
            path: scratch.clone(),
            source,
        })?;
        let done = act(&scratch);
        crate::sealing::clear(&scratch);
        done
    }

    fn prepared_rollback(
        &self,
        subject: &Subject,
        landed: &Landed,
        scratch: &Path,
    ) -> Result<Result<(Target, Prepared), Blocker>, LandError> {
        let is_gone =
            subject.plan.disposable.is_some() && !self.home.disposable(&subject.run_id).exists();
        if is_gone {
            let why = "the disposable repository was removed after the landing".to_owned();
            return Ok(Err(target_fault(&TargetFault::Gone { why })));
        }
        let target = match Target::open(self, subject, scratch)? {
            Ok(target) => target,
            Err(fault) => return Ok(Err(target_fault(&fault))),
        };
        let intended = self.intended(LandingAct::Rollback, &subject.run_id)?;
        let broken = || LandError::Log(subject.run_id.clone());
        let tip = intended.map(|intent| intent.base.as_str().parse().map_err(|_| broken()));
        let text = subject.text(format!(
            "Revert {}\n\nThis takes back commit {}.\n\nCTO-Run: {}\n",
            subject.report.run.title.lines().next().unwrap_or_default(),
            landed.commit,
            subject.run_id
        ))?;
        let request = RollbackRequest {
            base: subject.base,
            landed: landed.commit.as_str().parse().map_err(|_| broken())?,
            branch: &subject.branch,
            tip: tip.transpose()?,
            update: subject.plan.update,
            left_alone: target.left_alone.as_ref(),
            text: &text,
        };
        match prepare_rollback(&target.repository, &request, &scratch.join("rollback.git")) {
            Ok(prepared) => Ok(Ok((target, prepared))),
            Err(error) => Ok(Err(target_fault(&fault_of(&error)?))),
        }
    }

    /// Takes a landed change back, as the signed outcome asks for. What keeps it from being done comes back.
    pub(crate) fn roll_back(
        &self,
        outcome: &OutcomeStatement,
        addenda: &mut Addenda<'_>,
    ) -> Result<Option<Blocker>, LandError> {
        let run_id = &outcome.run_id;
        if !outcome.rollback || addenda.last(AddendumKind::Rollback).is_some() {
            return Ok(None);
        }
        if let Some(ended) = self.ended(LandingAct::Rollback, run_id)? {
            return Ok(ended.blocker.map(cto_rules::landing::ended_before));
        }
        let Some(landed) = landed(addenda)? else {
            return Ok(None);
        };
        let subject = Subject::of(self, run_id)?;
        let done = self.in_scratch(|scratch| {
            let (target, prepared) = match self.prepared_rollback(&subject, &landed, scratch)? {
                Ok(prepared) => prepared,
                Err(blocker) => return Ok(Err(blocker)),
            };
            let grant = decide_rollback(&RollbackFacts {
                run_id: run_id.clone(),
                is_landed: self.landed_commit(run_id)?.as_ref() == Some(&landed.commit),
                is_asked_for: outcome.rollback,
                is_exact: true,
                tree: subject.tree_word(prepared.tree())?,
            });
            let Ok(grant) = grant else {
                return Err(LandError::OtherIntent(run_id.clone()));
            };
            let intent = self.intend(subject.intent(LandingAct::Rollback, &prepared)?)?;
            match prepared.land(&target.repository, grant) {
                Ok(_) => Ok(Ok(intent)),
                Err(error @ LandingError::Unfinished { .. }) => {
                    Err(LandError::Unfinished(Box::new(error)))
                }
                Err(error) => Ok(Err(target_fault(&fault_of(&error)?))),
            }
        })?;
        let (commit, blocker) = match done {
            Ok(intent) => {
                let body = Body::Rollback {
                    landed_commit: landed.commit,
                    rollback_commit: intent.commit.clone(),
                    tree_id: intent.tree_id,
                };
                addenda.add(outcome.at, body)?;
                (Some(intent.commit), None)
            }
            Err(blocker) => (None, Some(blocker)),
        };
        self.store().append(&Record::LandingEnded(LandingEnded {
            act: LandingAct::Rollback,
            run_id: run_id.clone(),
            end: match commit {
                Some(_) => LandingEnd::Done,
                None => LandingEnd::NotDone,
            },
            commit,
            blocker: blocker.as_ref().map(|blocker| blocker.code),
            at: clock::now(),
        }))?;
        self.mark_ledger();
        Ok(blocker)
    }

    /// Writes the proof of stage 5, if an operator accepted what landed in the owner's repository and left it clean.
    pub(crate) fn prove_owned(
        &self,
        outcome: &OutcomeStatement,
        addenda: &mut Addenda<'_>,
    ) -> Result<(), LandError> {
        if outcome.outcome != cto_contract::addendum::Outcome::Accepted {
            return Ok(());
        }
        let Some(landed) = landed(addenda)?.filter(|landed| landed.is_clean) else {
            return Ok(());
        };
        let subject = Subject::of(self, &outcome.run_id)?;
        if subject.plan.disposable.is_some() {
            return Ok(());
        }
        let facts = (landed.commit, landed.is_clean);
        let body = proofs::owned(self, &subject, facts, outcome.outcome)?;
        addenda.add(outcome.at, body)?;
        Ok(())
    }
}
