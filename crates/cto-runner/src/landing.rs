//! Landing: a sealed pass becomes one commit on one branch, or nothing does.
//!
//! The ledger leads: what is intended is entered before anything is touched, what came of it afterwards. Every part can be
//! done again after a kill at any moment; whoever comes next finishes it.

mod proofs;
mod rollback;
mod subject;
mod target;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cto_checkout::{
    LandingError, LandingRequest, PersonError, Prepared, Repository, RepositoryError, prepare,
};
use cto_contract::addendum::{AddendumKind, Body};
use cto_contract::blocker::Blocker;
use cto_contract::ids::{CommitId, RunId};
use cto_contract::landing::{Disposal, LandingAct, LandingEnd, LandingEnded, LandingIntended};
use cto_contract::ledger::{Record, RecordKind};
use cto_contract::words::{RunStatus, SandboxClass, Stage};
use cto_ledger::LedgerError;
use cto_rules::landing::{LandingFacts, decide, refusals, target_fault};
use cto_store::{Found, StoreError};

use crate::addenda::{Addenda, AddendaError};
use crate::clock;
use crate::harness::{Harness, RunError, scratch_name};
use crate::pack_file::PackFileError;
use subject::Subject;
use target::{Target, fault_of};

pub use rollback::RollbackPreview;

/// How long another git may hold a lock of the target.
const LOCKED_MAX: Duration = Duration::from_secs(5);
/// How long runs that copy from the target are waited for.
const COPIED_MAX: Duration = Duration::from_secs(20);
/// How often a lock is tried.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Why it is not known whether a change landed, or not all of it is done. The next command goes on with it.
#[derive(Debug, thiserror::Error)]
pub enum LandError {
    #[error("run {0} can't land: how it was asked for is not known here")]
    Unknown(RunId),
    #[error("another process is landing run {0}")]
    Held(RunId),
    #[error("the pack can't be read")]
    Pack(#[from] PackFileError),
    #[error("the log of run {0} does not hold")]
    Log(RunId),
    #[error("the ledger can't be used")]
    Ledger(#[from] LedgerError),
    #[error("the ledger can't be used")]
    Store(#[from] StoreError),
    #[error("a record can't be put beside the pack")]
    Addenda(#[from] AddendaError),
    #[error("the landing is not finished")]
    Unfinished(#[source] Box<LandingError>),
    #[error("the disposable repository can't be made")]
    Disposable(#[source] Box<RepositoryError>),
    #[error("a place for the landing can't be made")]
    Scratch(#[from] RunError),
    #[error("could not write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("a proof has no canonical form")]
    Proof(#[from] serde_json::Error),
    #[error("somebody who stands in the commit can't be named there")]
    Person(#[from] PersonError),
    #[error("another run copies from the target")]
    TargetBusy,
    #[error("another landing of run {0} was intended than the one that follows from its pack")]
    OtherIntent(RunId),
}

impl LandError {
    /// Machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "request_unknown",
            Self::Held(_) => "landing_held",
            Self::Pack(error) => error.code(),
            Self::Log(_) => "log_broken",
            Self::Ledger(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Addenda(error) => error.code(),
            Self::Unfinished(_) => "landing_unfinished",
            Self::Disposable(_) => "disposable_not_made",
            Self::Scratch(_) | Self::Write { .. } => "landing_not_written",
            Self::Proof(_) => "proof_not_encoded",
            Self::Person(_) => "person_refused",
            Self::TargetBusy => "target_busy",
            Self::OtherIntent(_) => "landing_differs",
        }
    }
}

/// What came of a landing.
#[derive(Debug)]
pub struct LandingResult {
    pub run_id: RunId,
    /// The commit on its branch; none where nothing landed.
    pub commit: Option<CommitId>,
    pub branch: String,
    /// Why nothing landed.
    pub blockers: Vec<Blocker>,
    /// The records beside the pack.
    pub addenda: Vec<String>,
}

/// Held while a run may land, so that nobody takes it for abandoned.
#[derive(Debug)]
pub(crate) struct LandingHold {
    path: PathBuf,
    _file: File,
}

impl LandingHold {
    /// Lets go, and leaves nothing behind.
    pub(crate) fn release(self) {
        drop(std::fs::remove_file(&self.path));
    }
}

impl Harness {
    /// Takes the hold of a run; none where another process has it.
    pub(crate) fn hold_landing(&self, run_id: &RunId) -> Result<Option<LandingHold>, LandError> {
        let path = self.home.locks().join(format!("landing-{run_id}"));
        match self.home.try_lock(&format!("landing-{run_id}")) {
            Ok(file) => Ok(file.map(|file| LandingHold { path, _file: file })),
            Err(source) => Err(LandError::Write { path, source }),
        }
    }

    fn ended(&self, act: LandingAct, run_id: &RunId) -> Result<Option<LandingEnded>, StoreError> {
        let found: Option<Found<Record>> = self.store().find(&LandingEnded::key(act, run_id))?;
        Ok(found.and_then(|found| {
            let Record::LandingEnded(ended) = found.record else {
                return None;
            };
            Some(ended)
        }))
    }

    fn intended(
        &self,
        act: LandingAct,
        run_id: &RunId,
    ) -> Result<Option<LandingIntended>, StoreError> {
        let found: Option<Found<Record>> = self.store().find(&LandingIntended::key(act, run_id))?;
        Ok(found.and_then(|found| {
            let Record::LandingIntended(intended) = found.record else {
                return None;
            };
            Some(intended)
        }))
    }

    /// Lands a sealed run, or finishes what was begun of it. Done once, it only tells what came of it.
    pub(crate) fn land(
        &self,
        run_id: &RunId,
        hold: LandingHold,
    ) -> Result<LandingResult, LandError> {
        let subject = Subject::of(self, run_id)?;
        let mut addenda = Addenda::of(self, run_id, &subject.seal.pack_digest)?;
        let mut blockers = Vec::new();
        let ended = match self.ended(LandingAct::Land, run_id)? {
            Some(ended) => ended,
            None => {
                let scratch = self.home.work().join(scratch_name("land")?);
                std::fs::create_dir(&scratch).map_err(|source| LandError::Write {
                    path: scratch.clone(),
                    source,
                })?;
                let tried = self.try_landing(&subject, &mut addenda, &scratch);
                crate::sealing::clear(&scratch);
                blockers = tried?;
                self.end_landing(&subject, &addenda, &blockers)?
            }
        };
        let kept = ended.blocker.filter(|_| blockers.is_empty());
        blockers.extend(kept.map(cto_rules::landing::ended_before));
        hold.release();
        Ok(LandingResult {
            run_id: run_id.clone(),
            commit: ended.commit,
            branch: subject.plan.branch,
            blockers,
            addenda: addenda.names(),
        })
    }

    /// Does whatever is not done yet. What stands against it comes back; then nothing was put anywhere.
    fn try_landing(
        &self,
        subject: &Subject,
        addenda: &mut Addenda<'_>,
        scratch: &std::path::Path,
    ) -> Result<Vec<Blocker>, LandError> {
        if addenda.last(AddendumKind::Landing).is_none() {
            let target = match Target::open(self, subject, scratch)? {
                Ok(target) => target,
                Err(fault) => return Ok(vec![target_fault(&fault)]),
            };
            match self.put(subject, &target, scratch)? {
                Err(blockers) => return Ok(blockers),
                Ok((intent, is_clean)) => {
                    addenda.add(intent.at, landing_body(&intent, is_clean))?;
                }
            }
        }
        self.after_landing(subject, addenda)?;
        Ok(Vec::new())
    }

    /// Makes the commit, asks the rules, enters the intent, and moves the branch.
    fn put(
        &self,
        subject: &Subject,
        target: &Target,
        scratch: &std::path::Path,
    ) -> Result<Result<(LandingIntended, bool), Vec<Blocker>>, LandError> {
        let repository = &target.repository;
        let text = subject.commit_text()?;
        let request = LandingRequest {
            patch: &subject.patch,
            tree: subject.tree,
            base: subject.base,
            branch: &subject.branch,
            expected: subject.expected,
            update: subject.plan.update,
            left_alone: target.left_alone.as_ref(),
            text: &text,
        };
        let prepared = match prepare(repository, &request, &scratch.join("landing.git")) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(vec![target_fault(&fault_of(&error)?)])),
        };
        let facts = landing_facts(subject, &prepared)?;
        let grant = match decide(&facts) {
            Ok(grant) => grant,
            Err(against) => return Ok(Err(refusals(&against))),
        };
        let intent = self.intend(subject.intent(LandingAct::Land, &prepared)?)?;
        let waits_until = Instant::now() + LOCKED_MAX;
        let mut grant = Some(grant);
        loop {
            // The right is good for one landing: a try that found a lock touched nothing, and the rules are asked again.
            let right = match grant.take() {
                Some(grant) => grant,
                None => match decide(&facts) {
                    Ok(grant) => grant,
                    Err(against) => return Ok(Err(refusals(&against))),
                },
            };
            match prepared.land(repository, right) {
                Ok(_) => break,
                Err(LandingError::Locked { .. }) if Instant::now() < waits_until => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                Err(error @ LandingError::Unfinished { .. }) => {
                    return Err(LandError::Unfinished(Box::new(error)));
                }
                Err(error) => return Ok(Err(vec![target_fault(&fault_of(&error)?)])),
            }
        }
        Ok(Ok((intent, target.is_clean())))
    }

    /// Enters what is about to happen. The same again is no second entry; another one is refused.
    fn intend(&self, intent: LandingIntended) -> Result<LandingIntended, LandError> {
        if let Some(there) = self.intended(intent.act, &intent.run_id)? {
            let same = LandingIntended {
                at: there.at,
                ..intent.clone()
            };
            return match same == there {
                true => Ok(there),
                false => Err(LandError::OtherIntent(intent.run_id)),
            };
        }
        self.store()
            .append(&Record::LandingIntended(intent.clone()))?;
        self.mark_ledger();
        Ok(intent)
    }

    /// What follows a landing: the disposable repository goes or stays, and the proof of its stage is written.
    fn after_landing(&self, subject: &Subject, addenda: &mut Addenda<'_>) -> Result<(), LandError> {
        let Some(disposable) = &subject.plan.disposable else {
            return Ok(());
        };
        let Some(Body::Landing {
            landed_commit,
            target_repository_ending_clean,
            ..
        }) = addenda.body(AddendumKind::Landing)?
        else {
            return Ok(());
        };
        let place = self.home.disposable(&subject.run_id);
        if disposable.disposal_policy == Disposal::Delete {
            cto_checkout::remove_tree(&place).map_err(|e| LandError::Write {
                path: place.clone(),
                source: io::Error::other(e),
            })?;
        }
        // A target that is not clean after the landing has no proof.
        if target_repository_ending_clean {
            let body = proofs::disposable(subject, disposable, landed_commit)?;
            addenda.add(subject.seal.at, body)?;
        }
        Ok(())
    }

    fn end_landing(
        &self,
        subject: &Subject,
        addenda: &Addenda<'_>,
        blockers: &[Blocker],
    ) -> Result<LandingEnded, LandError> {
        let commit = match addenda.body(AddendumKind::Landing)? {
            Some(Body::Landing { landed_commit, .. }) => Some(landed_commit),
            _ => None,
        };
        let ended = LandingEnded {
            act: LandingAct::Land,
            run_id: subject.run_id.clone(),
            end: match commit {
                Some(_) => LandingEnd::Done,
                None => LandingEnd::NotDone,
            },
            commit,
            blocker: blockers.first().map(|blocker| blocker.code),
            at: clock::now(),
        };
        if ended.end == LandingEnd::NotDone && subject.plan.disposable.is_some() {
            // Nothing landed in it: it holds nothing that anybody needs.
            let place = self.home.disposable(&subject.run_id);
            cto_checkout::remove_tree(&place).map_err(|e| LandError::Write {
                path: place.clone(),
                source: io::Error::other(e),
            })?;
        }
        self.store().append(&Record::LandingEnded(ended.clone()))?;
        self.mark_ledger();
        Ok(ended)
    }

    /// Runs that passed under an approval, at a stage where a change lands, and of which nobody has said how that ended.
    fn open_landings(&self) -> Result<Vec<RunId>, StoreError> {
        let consumed: Vec<Found<Record>> =
            self.store().ledger_of_kinds(&[RecordKind::GrantConsumed])?;
        let mut open = Vec::new();
        for found in consumed {
            let Record::GrantConsumed(consumed) = found.record else {
                continue;
            };
            let row = self.store().get(&consumed.run_id)?;
            let lands = row.is_some_and(|row| {
                row.stage >= Stage::DISPOSABLE && row.status == Some(RunStatus::Pass)
            });
            if lands && self.ended(LandingAct::Land, &consumed.run_id)?.is_none() {
                open.push(consumed.run_id);
            }
        }
        Ok(open)
    }

    /// Finishes landings whose process died. Those that another process works on are left alone.
    pub(crate) fn finish_landings(&self) -> Vec<(RunId, Result<LandingResult, LandError>)> {
        // Whoever needs the ledger is told by it.
        let Ok(open) = self.open_landings() else {
            return Vec::new();
        };
        let mut done = Vec::new();
        for run_id in open {
            match self.hold_landing(&run_id) {
                Ok(None) => {}
                Ok(Some(hold)) => {
                    let landed = self.land(&run_id, hold);
                    done.push((run_id, landed));
                }
                Err(error) => done.push((run_id, Err(error))),
            }
        }
        done
    }
}

fn landing_facts(subject: &Subject, prepared: &Prepared) -> Result<LandingFacts, LandError> {
    let report = &subject.report;
    let found = &subject.verified;
    Ok(LandingFacts {
        run_id: subject.run_id.clone(),
        pack_digest: found.pack_digest.clone(),
        pack_verifies: found.ok,
        ledger_agrees: found.pack_digest.as_ref() == Some(&subject.seal.pack_digest),
        status: report.verdict.status,
        mode: report.authority.mutation_mode,
        sandbox: report.sandbox.class.unwrap_or(SandboxClass::None),
        consumed_approval: subject.consumed.clone(),
        checked_tree: subject.checked_tree.clone(),
        landing_tree: subject.tree_word(prepared.tree())?,
    })
}

fn landing_body(intent: &LandingIntended, is_clean: bool) -> Body {
    Body::Landing {
        target_id: intent.target_id.clone(),
        branch: intent.branch.clone(),
        base_commit: intent.base.clone(),
        landed_commit: intent.commit.clone(),
        tree_id: intent.tree_id.clone(),
        target_repository_ending_clean: is_clean,
    }
}

/// Opens a repository in a scratch directory of its own.
fn open_repository(
    path: &std::path::Path,
    scratch: &std::path::Path,
) -> Result<Repository, RepositoryError> {
    Repository::open(path, scratch)
}
