//! What the ladder rests on: what validators came to, and passes of known origin. All of it stands in the ledger; a file or a
//! pack alone is no proof.

use std::fs;
use std::path::Path;

use cto_contract::admission::AdmissionKind;
use cto_contract::ids::Digest;
use cto_contract::lanes::LadderRule;
use cto_contract::ledger::{ConformanceRecorded, Record, RecordKind, StagePassed, ValidationHome};
use cto_contract::outputs::ValidateStageOutput;
use cto_contract::report::Report;
use cto_contract::words::{DirtySource, RunStatus, Stage};
use cto_evidence::canonical::sha256;
use cto_rules::ladder::HomeKind;
use cto_rules::lifecycle::RunState;
use cto_store::{Store, StoreError};

use crate::clock;
use crate::harness::Harness;

/// A result that can't be entered.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error("the output of the validation can't be read")]
    Read(#[source] std::io::Error),
    #[error("the output of the validation lies outside of home")]
    Elsewhere,
    #[error("the home is in use already, and no longer a validator's to take")]
    InUse,
    #[error("the database can't be used")]
    Store(#[from] StoreError),
}

impl Harness {
    /// The database that decides, also where a plan has one of its own.
    pub(crate) fn deciding_store(&self) -> &Store {
        self.decisions.as_ref().unwrap_or(&self.store)
    }

    /// Whose home it is.
    pub fn home_kind(&self) -> Result<HomeKind, StoreError> {
        let found = self
            .deciding_store()
            .find::<Record>(&ValidationHome::key())?;
        // Only right after the genesis: no home in use can be turned into one.
        Ok(match found {
            Some(found) if found.place.seq == ValidationHome::SEQ => HomeKind::Validators,
            Some(_) | None => HomeKind::Operators,
        })
    }

    /// Makes a home that was never used a validator's. No command does this: a double's passes count in such a home, and
    /// nothing of it counts anywhere else.
    pub fn become_validation_home(&self) -> Result<(), ProofError> {
        let record = Record::ValidationHome(ValidationHome { at: clock::now() });
        if self.store.ledger_head()?.seq + 1 != ValidationHome::SEQ {
            return Err(ProofError::InUse);
        }
        self.store.append(&record)?;
        self.mark_ledger();
        match self.home_kind()? {
            HomeKind::Validators => Ok(()),
            HomeKind::Operators => Err(ProofError::InUse),
        }
    }

    /// Enters what a validator came to; its output must lie in this home.
    pub fn enter_conformance(
        &self,
        output: &ValidateStageOutput,
        file: &Path,
    ) -> Result<(), ProofError> {
        let bytes = fs::read(file).map_err(ProofError::Read)?;
        let below = file.strip_prefix(self.home.root());
        let below = below.map_err(|_| ProofError::Elsewhere)?;
        let record = ConformanceRecorded {
            lane: output.lane,
            stage: output.stage,
            adapter_revision: output.adapter_revision,
            harness_version: output.harness_version.clone(),
            ok: output.ok,
            real: output.real,
            report: below.display().to_string(),
            report_digest: sha256(&bytes),
            at: clock::now(),
        };
        self.store.append(&Record::ConformanceRecorded(record))?;
        self.mark_ledger();
        Ok(())
    }

    /// Enters a pass that the ladder may rest on, where the ledger holds none like it whose pack is still there.
    pub(crate) fn enter_pass(
        &self,
        state: &RunState,
        report: &Report,
        pack_digest: &Digest,
    ) -> Result<(), StoreError> {
        let Some(pass) = self.pass_of(state, report, pack_digest)? else {
            return Ok(());
        };
        let known = self.passes()?;
        let is_known = known.iter().any(|known| {
            known.stage == pass.stage
                && known.identity == pass.identity
                && known.model_admission == pass.model_admission
                && known.dirty_source == pass.dirty_source
                && self.home.pack(&known.run_id).is_dir()
        });
        // From where people decide, each run stands for itself.
        if is_known && pass.stage < Stage::DISPOSABLE {
            return Ok(());
        }
        self.store.append(&Record::StagePassed(pass)).map(drop)
    }

    fn pass_of(
        &self,
        state: &RunState,
        report: &Report,
        pack_digest: &Digest,
    ) -> Result<Option<StagePassed>, StoreError> {
        let is_proof = report.verdict.status == RunStatus::Pass
            && report.backend.backend.traits().ladder == LadderRule::Climbs
            && report.authority.stage >= Stage::FIXTURE;
        let Some(plan) = state.plan.as_ref().filter(|_| is_proof) else {
            return Ok(None);
        };
        // A validation in a home of its own kind stands for itself, and elsewhere for nothing.
        if report.run.conformance && self.home_kind()? == HomeKind::Operators {
            return Ok(None);
        }
        let found_a_target = plan.plan.inspection.as_ref().is_some_and(|i| i.is_found());
        if found_a_target {
            return Ok(None);
        }
        let admissions = state.eligibility.as_ref();
        let admissions = admissions.and_then(|e| e.decision.admissions.as_ref());
        let used = admissions.into_iter().flat_map(|seen| &seen.records);
        let mut models = used.filter(|record| record.kind == AdmissionKind::Model);
        let source = plan.plan.source.as_ref();
        Ok(Some(StagePassed {
            run_id: state.run_id.clone(),
            stage: report.authority.stage,
            identity: plan.identity.clone(),
            model_admission: models.next().map(|record| record.digest.clone()),
            conformance: report.run.conformance,
            dirty_source: source.is_some_and(|s| s.dirty_source == DirtySource::Allowed),
            pack_digest: pack_digest.clone(),
            at: clock::now(),
        }))
    }

    /// The passes that the ledger knows, in its order.
    pub(crate) fn passes(&self) -> Result<Vec<StagePassed>, StoreError> {
        let found = self
            .deciding_store()
            .ledger_of_kinds::<Record>(&[RecordKind::StagePassed])?;
        let records = found.into_iter().filter_map(|found| {
            let Record::StagePassed(pass) = found.record else {
                return None;
            };
            Some(pass)
        });
        Ok(records.collect())
    }

    /// What validators came to, in the order of the ledger.
    pub(crate) fn conformances(&self) -> Result<Vec<ConformanceRecorded>, StoreError> {
        let found = self
            .deciding_store()
            .ledger_of_kinds::<Record>(&[RecordKind::ConformanceRecorded])?;
        let records = found.into_iter().filter_map(|found| {
            let Record::ConformanceRecorded(record) = found.record else {
                return None;
            };
            Some(record)
        });
        Ok(records.collect())
    }
}
