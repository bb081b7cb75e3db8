//! The ladder of this home: facts from the ledger and from packs that verify now; the rules say what holds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path};

use cto_contract::addendum::Outcome;
use cto_contract::admission::Admission;
use cto_contract::approval::OutcomeStatement;
use cto_contract::artifact::SHA256SUMS;
use cto_contract::identity::Identity;
use cto_contract::ids::{Digest, RunId};
use cto_contract::ladder::ProofState;
use cto_contract::lanes::LadderRule;
use cto_contract::ledger::{ConformanceRecorded, Record, RecordKind, StagePassed};
use cto_contract::operator::Signed;
use cto_contract::outputs::{LadderOutput, LadderRow, LadderStage, LadderTag};
use cto_contract::trust::Origin;
use cto_contract::verify::Integrity;
use cto_contract::words::{DirtySource, Lane, SandboxClass, Stage};
use cto_evidence::canonical::{digest_of, sha256};
use cto_evidence::verify::{VerifyOptions, verify};
use cto_rules::ladder::{
    Conformance, Decided, Evidence, LadderFacts, Pass, REAL_PASS_STAGES, ladder, next_command,
};
use cto_store::StoreError;
use serde_json::Value;

use crate::VERSION;
use crate::admissions;
use crate::eligibility::stage_asked;
use crate::harness::{Harness, RunRequest};

impl Harness {
    /// Everything that the ladder of an identity rests on. `admission` is the record that admits its model now.
    fn facts_from(
        &self,
        identity: Identity,
        admission: Option<Digest>,
        conformance: &[ConformanceRecorded],
        passes: &[StagePassed],
    ) -> Result<LadderFacts, StoreError> {
        let lane = identity.lane;
        let conformance = conformance.iter().filter(|record| record.lane == lane);
        // Only the newest of each stage decides.
        let newest: Vec<&ConformanceRecorded> = Stage::all()
            .filter_map(|stage| conformance.clone().rev().find(|c| c.stage == stage))
            .collect();
        let conformance = newest.into_iter().map(|record| Conformance {
            stage: record.stage,
            adapter_revision: record.adapter_revision,
            harness_version: record.harness_version.clone(),
            is_ok: record.ok,
            evidence: self.evidence_of_conformance(record),
        });
        let mut found = Vec::new();
        for pass in passes.iter().filter(|pass| pass.identity.lane == lane) {
            // What belongs to another program or model counts for nothing, whatever its pack says.
            let is_its = pass.identity.binary_digest == identity.binary_digest;
            let decided = match pass.stage >= Stage::DISPOSABLE {
                true => self.decided_about(&pass.run_id)?,
                false => Decided::Nothing,
            };
            found.push(Pass {
                run_id: pass.run_id.clone(),
                stage: pass.stage,
                identity: pass.identity.clone(),
                is_conformance: pass.conformance,
                dirty_source: match pass.dirty_source {
                    true => DirtySource::Allowed,
                    false => DirtySource::Refused,
                },
                admission_is_unchanged: pass.model_admission == admission,
                decided,
                evidence: match is_its {
                    true => self.evidence_of_pass(pass),
                    false => Evidence::Good,
                },
            });
        }
        let more = self.config.harness.ladder.as_ref();
        let more = more.map(|ladder| ladder.require_real.0.clone());
        let is_more = |stage: &Stage| !REAL_PASS_STAGES.contains(&stage.number());
        Ok(LadderFacts {
            identity,
            harness_version: VERSION.to_owned(),
            home: self.home_kind()?,
            more_real_stages: more
                .unwrap_or_default()
                .into_iter()
                .filter(is_more)
                .collect(),
            conformance: conformance.collect(),
            passes: found,
        })
    }

    /// The output of a validator must be the one that the ledger names, and every pack that it names must be as it was.
    fn evidence_of_conformance(&self, record: &ConformanceRecorded) -> Evidence {
        let file = Path::new(&record.report);
        let is_below = file.components().all(|c| matches!(c, Component::Normal(_)));
        let file = self.home.root().join(file);
        let Some(bytes) = is_below.then(|| fs::read(&file).ok()).flatten() else {
            return Evidence::Removed;
        };
        if sha256(&bytes) != record.report_digest {
            return Evidence::DoesNotVerify;
        }
        let output: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let directory = file.parent().unwrap_or(&file);
        for (pack, digest) in output["packs"].as_object().into_iter().flatten() {
            let Ok(sums) = fs::read(directory.join(pack).join(SHA256SUMS)) else {
                return Evidence::Removed;
            };
            if digest.as_str() != Some(sha256(&sums).as_str()) {
                return Evidence::DoesNotVerify;
            }
        }
        Evidence::Good
    }

    fn evidence_of_pass(&self, pass: &StagePassed) -> Evidence {
        // Not the room of a plan, which sees no run.
        let runs = self.home.root().join("harness-runs");
        let pack = runs.join(pass.run_id.as_str());
        if !pack.is_dir() {
            return Evidence::Removed;
        }
        let options = VerifyOptions {
            trusted: self.config.trusted.clone(),
            expect_run: Some(pass.run_id.clone()),
            ..VerifyOptions::default()
        };
        let verified = verify(&pack, &options);
        if verified.integrity != Integrity::Ok
            || verified.pack_digest.as_ref() != Some(&pass.pack_digest)
        {
            return Evidence::DoesNotVerify;
        }
        match verified.origin == Origin::Known {
            true => Evidence::Good,
            false => Evidence::UnknownOrigin,
        }
    }

    /// What people decided about a run, by the ledger.
    fn decided_about(&self, run_id: &RunId) -> Result<Decided, StoreError> {
        let store = self.deciding_store();
        let consumed = store.ledger_of_kinds::<Record>(&[RecordKind::GrantConsumed])?;
        let is_granted = consumed.iter().any(|found| {
            matches!(&found.record, Record::GrantConsumed(consumed) if consumed.run_id == *run_id)
        });
        if !is_granted {
            return Ok(Decided::Nothing);
        }
        let outcome = store.find::<Record>(&Signed::<OutcomeStatement>::key(run_id))?;
        let is_accepted = outcome.is_some_and(|found| {
            matches!(&found.record, Record::OutcomeRecorded(signed) if signed.statement.outcome == Outcome::Accepted)
        });
        Ok(match is_accepted {
            true => Decided::Accepted,
            false => Decided::Granted,
        })
    }

    /// The stage that a run is asked for.
    pub fn stage_of(&self, request: &RunRequest) -> Stage {
        stage_asked(self, request.lane, request.stage, request.task.work()).stage
    }

    /// The ladder of every identity that passed here, and of every lane that never did.
    pub fn ladder(&self, only: Option<Lane>) -> Result<LadderOutput, StoreError> {
        let conformance = self.conformances()?;
        let passes = self.passes()?;
        let lanes = Lane::ALL.iter().copied();
        let lanes = lanes.filter(|lane| only.is_none_or(|only| only == *lane));
        let climbs = lanes
            .filter(|lane| lane.traits().ladder == LadderRule::Climbs && lane.traits().is_built_in);
        let mut rows = Vec::new();
        for lane in climbs {
            let mut identities: Vec<Identity> = Vec::new();
            for pass in passes
                .iter()
                .rev()
                .filter(|pass| pass.identity.lane == lane)
            {
                if !identities.contains(&pass.identity) {
                    identities.push(pass.identity.clone());
                }
            }
            let mut known: Vec<Option<Identity>> = identities.into_iter().map(Some).collect();
            if known.is_empty() {
                known.push(None);
            }
            for identity in known {
                rows.push(self.row(lane, identity, &conformance, &passes)?);
            }
        }
        Ok(LadderOutput {
            schema_version: LadderTag,
            harness_version: VERSION.to_owned(),
            lanes: rows,
        })
    }

    fn row(
        &self,
        lane: Lane,
        identity: Option<Identity>,
        conformance: &[ConformanceRecorded],
        passes: &[StagePassed],
    ) -> Result<LadderRow, StoreError> {
        let asked = identity.clone().unwrap_or(Identity {
            lane,
            adapter_revision: cto_agent::revision(lane),
            binary_digest: None,
            model_provider: None,
            model: None,
            sandbox_class: SandboxClass::Full,
            command_line: None,
        });
        let admission = self.admission_of(&asked);
        let facts = self.facts_from(asked, admission, conformance, passes)?;
        let stages = ladder(&facts);
        let missing = stages
            .iter()
            .find(|stage| stage.state != ProofState::Proven);
        let holds = stages
            .iter()
            .take_while(|stage| stage.state == ProofState::Proven);
        Ok(LadderRow {
            lane,
            identity_digest: identity.as_ref().and_then(|id| digest_of(id).ok()),
            identity,
            proven: holds.last().map(|stage| stage.stage),
            next: missing.map(|missing| next_command(lane, missing)),
            stages: stages
                .into_iter()
                .map(|proofs| LadderStage {
                    sentences: proofs
                        .reasons
                        .iter()
                        .map(|r| r.sentence().to_owned())
                        .collect(),
                    proofs,
                })
                .collect(),
        })
    }

    /// The record that admits the model of an identity now.
    fn admission_of(&self, identity: &Identity) -> Option<Digest> {
        let pair = identity
            .model_provider
            .as_ref()
            .zip(identity.model.as_ref())?;
        let mut found = BTreeSet::new();
        for file in admissions::scan(&self.config.dir).unwrap_or_default() {
            if let Ok(record) = &file.found
                && let Admission::Model(model) = &record.admission
                && model.is_of(pair.0, pair.1)
            {
                found.insert(record.digest.clone());
            }
        }
        found.pop_first()
    }
}
