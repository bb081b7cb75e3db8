//! Everything that a landing rests on, read back from the sealed pack and the ledger.

use std::path::PathBuf;

use cto_checkout::{BranchName, CommitText, Oid, Person, Prepared, TreeId};
use cto_contract::approval::GrantConsumed;
use cto_contract::artifact::{EVENTS, PATCH};
use cto_contract::event::{EventKind, RunEvent};
use cto_contract::identity::Identity;
use cto_contract::ids::{CommitId, RunId};
use cto_contract::landing::{LandingAct, LandingIntended, LandingPlan};
use cto_contract::ledger::{Record, Seal};
use cto_contract::report::Report;
use cto_contract::text::{one_line, shorten};
use cto_contract::time::Utc;
use cto_contract::verify::VerifyReport;
use cto_evidence::chain::read_log;
use cto_evidence::verify::{VerifyOptions, verify};
use cto_ledger::RequestState;
use cto_store::Found;

use super::LandError;
use crate::harness::Harness;
use crate::{pack_file, requests};

/// Longest first line of a commit.
const TITLE_CHARS_MAX: usize = 72;

/// A run that may land.
pub(super) struct Subject {
    pub(super) run_id: RunId,
    pub(super) report: Report,
    pub(super) seal: Seal,
    pub(super) verified: VerifyReport,
    pub(super) events: Vec<RunEvent>,
    pub(super) identity: Identity,
    pub(super) plan: LandingPlan,
    /// When the plan was recorded.
    pub(super) planned_at: Utc,
    pub(super) request: Option<RequestState>,
    pub(super) consumed: Option<GrantConsumed>,
    pub(super) patch: PathBuf,
    pub(super) tree: TreeId,
    pub(super) checked_tree: Option<cto_contract::ids::TreeId>,
    pub(super) base: Oid,
    pub(super) expected: Option<Oid>,
    pub(super) branch: BranchName,
    pub(super) repository: PathBuf,
    pub(super) contract_file: Option<PathBuf>,
}

impl Subject {
    pub(super) fn of(harness: &Harness, run_id: &RunId) -> Result<Self, LandError> {
        let unknown = || LandError::Unknown(run_id.clone());
        let broken = || LandError::Log(run_id.clone());
        let pack = harness.home.pack(run_id);
        let seal: Option<Found<Record>> = harness.store().find(&Seal::key(run_id))?;
        let Some(Record::RunSealed(seal)) = seal.map(|found| found.record) else {
            return Err(unknown());
        };
        let verified = verify(
            &pack,
            &VerifyOptions {
                trusted: harness.config.trusted.clone(),
                expect_run: Some(run_id.clone()),
                ..VerifyOptions::default()
            },
        );
        let bytes = pack_file::sealed_report_bytes(&pack)?;
        let report: Report = serde_json::from_slice(&bytes).map_err(|_| broken())?;
        let log = std::fs::read(pack.join(EVENTS)).map_err(|_| broken())?;
        let events = read_log(&log).map_err(|_| broken())?.events;
        let planned = events.iter().find_map(|event| {
            let EventKind::PlanUpdated(plan) = &event.kind else {
                return None;
            };
            Some((event.ts, plan))
        });
        let (planned_at, planned) = planned.ok_or_else(broken)?;
        let plan = planned.plan.landing.clone().ok_or_else(unknown)?;
        let identity = planned.identity.clone();
        let oid = |id: &CommitId| id.as_str().parse::<Oid>().map_err(|_| broken());
        let change = &report.change;
        let checked_tree = (change.verified_tree_id.clone()).or(change.patch_tree_id.clone());
        let tree = checked_tree
            .as_ref()
            .and_then(|id| id.as_str().parse().ok());
        let (repository, contract_file) =
            requests::repository_paths(&harness.home, run_id).ok_or_else(unknown)?;
        let request = harness.request_of(run_id)?;
        let consumed = request.as_ref().and_then(|state| state.consumed.clone());
        Ok(Self {
            patch: pack.join(PATCH),
            tree: tree.ok_or_else(broken)?,
            checked_tree,
            base: oid(&plan.base)?,
            expected: plan.expected.as_ref().map(oid).transpose()?,
            branch: BranchName::parse(&plan.branch).map_err(|_| broken())?,
            run_id: run_id.clone(),
            report,
            seal,
            verified,
            identity,
            planned_at,
            consumed: consumed.map(|(_, consumed)| consumed),
            request,
            plan,
            repository,
            contract_file,
            events,
        })
    }

    /// The name of what is landed in.
    pub(super) fn target_id(&self) -> String {
        let bound = self.request.as_ref().map(|state| &state.opened.bindings);
        bound.map_or_else(String::new, |bindings| bindings.target_id.clone())
    }

    /// The operator who let the run happen.
    pub(super) fn operator(&self) -> String {
        let grant = self.request.as_ref().and_then(RequestState::grant);
        grant.map_or_else(
            || "nobody".to_owned(),
            |(_, grant)| grant.statement.signer.to_string(),
        )
    }

    fn lane_and_model(&self) -> (&'static str, &str) {
        let lane = self.identity.lane.as_str();
        (lane, self.identity.model.as_deref().unwrap_or("none"))
    }

    /// Author is the lane, committer the operator; the time is that of the seal, so that the same run gives the same commit.
    pub(super) fn commit_text(&self) -> Result<CommitText, LandError> {
        let (lane, model) = self.lane_and_model();
        let title = shorten(&one_line(&self.report.run.title), TITLE_CHARS_MAX);
        self.text(format!(
            "{title}\n\nCTO-Run: {}\nCTO-Evidence: sha256:{}\nAssisted-by: {lane}:{}\n",
            self.run_id,
            self.seal.pack_digest,
            one_line(model)
        ))
    }

    pub(super) fn text(&self, message: String) -> Result<CommitText, LandError> {
        let (lane, _) = self.lane_and_model();
        let operator = self.operator();
        Ok(CommitText {
            author: Person::new(lane, &format!("{lane}@lane.invalid"))?,
            committer: Person::new(&operator, &format!("{operator}@operator.invalid"))?,
            at: self.seal.at.millis().div_euclid(1000),
            message,
        })
    }

    pub(super) fn intent(
        &self,
        act: LandingAct,
        prepared: &Prepared,
    ) -> Result<LandingIntended, LandError> {
        let parent = self.commit_word(prepared.parent())?;
        Ok(LandingIntended {
            act,
            run_id: self.run_id.clone(),
            pack_digest: self.seal.pack_digest.clone(),
            target_id: self.target_id(),
            branch: self.plan.branch.clone(),
            update: self.plan.update,
            expected: match act {
                LandingAct::Land => self.plan.expected.clone(),
                LandingAct::Rollback => Some(parent.clone()),
            },
            base: parent,
            commit: self.commit_word(prepared.commit())?,
            tree_id: self.tree_word(prepared.tree())?,
            at: crate::clock::now(),
        })
    }

    /// An id in the words of the contract.
    fn commit_word(&self, id: Oid) -> Result<CommitId, LandError> {
        let word = id.to_string().parse();
        word.map_err(|_| LandError::Log(self.run_id.clone()))
    }

    pub(super) fn tree_word(&self, id: TreeId) -> Result<cto_contract::ids::TreeId, LandError> {
        let word = id.to_string().parse();
        word.map_err(|_| LandError::Log(self.run_id.clone()))
    }
}
