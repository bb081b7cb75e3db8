//! Sealing: trace, report for people, report, digests, attestation; then verified before anybody is told.

use std::path::Path;

use cto_contract::artifact::{EVENTS, FreshnessSource, REPORT_JSON, REPORT_MD, TRACE};
use cto_contract::event::RunEvent;
use cto_contract::ids::Digest;
use cto_contract::report::Report;
use cto_contract::stage_proof::{COPIED_REPO_PROOF, NO_TARGET_PROOF};
use cto_contract::task::TaskContract;
use cto_contract::verify::VerifyReport;
use cto_contract::words::RunStatus;
use cto_evidence::again::{page, proof_files, trace_lines};
use cto_evidence::canonical::{CanonicalError, digest_of};
use cto_evidence::seal::{SealInput, Sealed, seal};
use cto_evidence::verify::{VerifyOptions, verify};
use cto_evidence::writer::PackWriter;
use cto_rules::lifecycle::{RunState, conclude};
use cto_rules::views::report::{ReportInput, report};
use cto_store::RunSealed;

use crate::artifact_times::ArtifactTimes;
use crate::clock;
use crate::harness::{Harness, RunError, RunResult};
use crate::lock::LOCK;
use crate::open_run::OpenRun;
use crate::overlay_note::OverlayNote;
use crate::room_names::RoomNames;

type SealFailure = Box<dyn std::error::Error + Send + Sync>;

/// Everything that a seal needs; the same for a run that ended and for one that is recovered.
pub(crate) struct Closing<'a> {
    pub(crate) harness: &'a Harness,
    pub(crate) pack: &'a Path,
    pub(crate) events: &'a [RunEvent],
    pub(crate) state: &'a RunState,
    pub(crate) contract: &'a TaskContract,
    pub(crate) contract_digest: Digest,
    /// None where there was no plan.
    pub(crate) identity_digest: Option<Digest>,
    pub(crate) times: ArtifactTimes,
}

impl Closing<'_> {
    /// Writes the views, seals, verifies, and enters the result into ledger and index.
    pub(crate) fn close(mut self) -> Result<(Report, VerifyReport), SealFailure> {
        let writer = PackWriter::open(self.pack)?;
        writer.remove_empty_directories()?;
        for leftover in [TRACE, REPORT_MD, NO_TARGET_PROOF, COPIED_REPO_PROOF] {
            writer.remove(leftover)?;
        }
        writer.write_new(TRACE, &trace_lines(self.events)?)?;
        self.times.note(TRACE, FreshnessSource::Written);
        self.times.note(EVENTS, FreshnessSource::Written);
        self.note_the_rest()?;

        let completed = self
            .state
            .completed
            .clone()
            .unwrap_or_else(|| conclude(self.state));
        let wall = clock::boot_ns().saturating_sub(self.times.started_boot_ns);
        let input = ReportInput {
            contract_digest: self.contract_digest.clone(),
            identity_digest: self.identity_digest.clone(),
            finished_at: self.state.last_at,
            wall_seconds: crate::round_seconds(std::time::Duration::from_nanos(wall)),
        };
        let mut draft = report(self.state, &completed, &input);
        for (name, bytes) in proof_files(self.state, &draft)? {
            writer.write_new(name, &bytes)?;
            self.times.note(name, FreshnessSource::Written);
        }
        writer.write_new(REPORT_MD, &page(&draft, Some(self.contract)))?;
        self.times.note(REPORT_MD, FreshnessSource::Written);
        self.times.note(REPORT_JSON, FreshnessSource::Written);
        draft.artifacts.freshness = self.times.entries().clone();
        let sealed: Sealed = seal(
            self.pack,
            SealInput {
                report: draft,
                key: &self.harness.key,
            },
        )?;
        let options = VerifyOptions {
            trusted: self.harness.config.trusted.clone(),
            expect_run: Some(self.state.run_id.clone()),
            integrity_only: true,
            ..VerifyOptions::default()
        };
        let verified = verify(self.pack, &options);
        if sealed.report.verdict.status != RunStatus::Pass {
            OverlayNote::forget(&self.harness.home);
        }
        self.harness.store().run_sealed(&sealed_row(
            &sealed.report,
            &sealed.pack_digest,
            &verified,
        ))?;
        self.harness
            .enter_pass(self.state, &sealed.report, &sealed.pack_digest)?;
        self.harness.mark_ledger();
        Ok((sealed.report, verified))
    }

    /// Files that a crash left without a note: they are there and were looked at, nothing more.
    fn note_the_rest(&mut self) -> std::io::Result<()> {
        let mut dirs = vec![self.pack.to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(&dir)? {
                let entry = entry?;
                let path = entry.path();
                if entry.file_type()?.is_dir() {
                    dirs.push(path);
                    continue;
                }
                if let Ok(relative) = path.strip_prefix(self.pack)
                    && let Some(name) = relative.to_str()
                    && !self.times.has(name)
                {
                    self.times.note(name, FreshnessSource::Checked);
                }
            }
        }
        Ok(())
    }
}

/// The row of a sealed pack in ledger and index.
pub(crate) fn sealed_row(
    report: &Report,
    pack_digest: &Digest,
    verified: &VerifyReport,
) -> RunSealed {
    RunSealed {
        run_id: report.run.run_id.clone(),
        case_id: report.run.case_id.clone(),
        backend: report.backend.backend,
        stage: report.authority.stage,
        status: report.verdict.status,
        started_at: report.run.run_started_at,
        finished_at: report.run.run_finished_at,
        blocker: report.verdict.blockers.first().map(|b| b.code),
        failure_reason: report.verdict.failure_reason.clone(),
        changed_files: report.change.changed_files.len() as u64,
        wall_seconds: report.resources.wall_seconds,
        pack_digest: pack_digest.clone(),
        keyid: verified
            .keyid
            .clone()
            .unwrap_or_else(|| pack_digest.clone()),
        origin: verified.origin,
        title: report.run.title.clone(),
        conformance: report.run.conformance,
        fake_baseline: report.run.fake_baseline.unwrap_or(false),
        // Who entered the run knew it.
        repository: None,
    }
}

/// Seals a run that is completed, and clears its scratch away.
pub(crate) fn seal_run(run: OpenRun<'_>) -> Result<RunResult, RunError> {
    let run_id = run.run_id.clone();
    let failed = |source: SealFailure| RunError::Seal {
        run_id: run_id.clone(),
        source,
    };
    let closing = Closing {
        harness: run.harness,
        pack: &run.pack,
        events: run.journal().events(),
        state: run.state(),
        contract: &run.contract,
        contract_digest: run.contract_digest.clone(),
        identity_digest: identity_digest(run.state()).map_err(|e| failed(e.into()))?,
        times: run.times.clone(),
    };
    let (report, verified) = closing.close().map_err(failed)?;
    clear(&run.work);
    if verified.integrity != cto_contract::verify::Integrity::Ok {
        return Err(RunError::NotVerified {
            run_id,
            report: Box::new(verified),
        });
    }
    Ok(RunResult {
        run_id,
        pack: run.pack.clone(),
        report,
        verified,
        landing: None,
    })
}

/// The digest of the identity in the log's plan; none where there was no plan.
pub(crate) fn identity_digest(state: &RunState) -> Result<Option<Digest>, CanonicalError> {
    let plan = state.plan.as_ref();
    plan.map(|p| digest_of(&p.identity)).transpose()
}

/// Empties a work directory but for its lock.
pub(crate) fn clear_scratch(work: &Path) {
    if !clear_rooms(work) {
        return;
    }
    for entry in std::fs::read_dir(work).into_iter().flatten().flatten() {
        if entry.file_name() != LOCK {
            clear(&entry.path());
        }
    }
}

/// Removes the rooms of a work directory; what is left of them stays noted for the next recovery.
fn clear_rooms(work: &Path) -> bool {
    RoomNames::noted(work).is_none_or(|rooms| cto_checkout::remove_tree(&rooms).is_ok())
}

/// Removes a work directory. What can't be removed now is removed by the next recovery: the pack is sealed.
pub(crate) fn clear(work: &Path) {
    if !clear_rooms(work) {
        return;
    }
    if let Err(error) = cto_checkout::remove_tree(work) {
        drop(error);
    }
}
