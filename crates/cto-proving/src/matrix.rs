//! The matrix: every case of a catalog, side by side, each with a run and a sealed pack of its own.

use std::path::PathBuf;
use std::time::Instant;

use cto_contract::artifact::REPORT_JSON;
use cto_contract::event::RunEvent;
use cto_contract::ids::{BadId, CaseId, RunId};
use cto_contract::outputs::{MatrixCounts, MatrixNote, MatrixOutput, MatrixRun, MatrixTag};
use cto_contract::words::{Lane, NeverActive, RunStatus};
use cto_evidence::writer::PackWriter;
use cto_runner::{CaseError, Catalog, Harness, RunRequest, RunResult, SandboxAsk, Task};
use cto_sandbox::StopToken;

use crate::pool::{Ended, work_off};

/// What is the same for all runs.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub lane: Lane,
    pub sandbox: SandboxAsk,
    /// Runs at once.
    pub jobs: usize,
}

/// Why there is no report of a matrix.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    #[error("the cases can't be listed")]
    Cases(#[from] CaseError),
    #[error("no random bytes from the kernel")]
    Random(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the matrix has no name")]
    Name(#[from] BadId),
    #[error("could not write the report of the matrix into `{directory}`")]
    Write {
        directory: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Runs all cases and writes the report. `told` hears of each run as it ends.
pub fn run_all(
    harness: &Harness,
    catalog: &Catalog,
    options: &Options,
    stop: &StopToken,
    told: &mut dyn FnMut(&MatrixRun),
) -> Result<MatrixOutput, MatrixError> {
    let ids = catalog.ids()?;
    let started_at = cto_runner::now();
    let begun = Instant::now();
    let jobs = options.jobs.clamp(1, ids.len().max(1));
    let perform = |id: &String| one(harness, catalog, id, options, stop);
    let ends = work_off(&ids, jobs, stop, perform, |_, ended| {
        if let Ended::Done(run) = ended {
            told(run);
        }
    });
    let runs: Vec<MatrixRun> = ids
        .iter()
        .zip(ends)
        .filter_map(|(id, ended)| match ended {
            Ended::Done(run) => Some(run),
            Ended::Panicked(why) => Some(not_run(id, "run_panicked", why)),
            Ended::NotStarted => None,
        })
        .collect();
    let counts = count(&runs);
    let name: CaseId = format!("run-all-{}", options.lane).parse()?;
    let random = cto_runner::random().map_err(|e| MatrixError::Random(e.into()))?;
    let matrix_id = RunId::compose(started_at, &name, random);
    let directory = harness.home.pack(&matrix_id);
    let output = MatrixOutput {
        schema_version: MatrixTag,
        engine: options.lane,
        jobs: jobs as u64,
        started_at,
        finished_at: cto_runner::now(),
        seconds: crate::seconds(begun),
        ok: counts.pass == runs.len() as u64 && !runs.is_empty(),
        counts,
        runs,
        report_path: directory.join(REPORT_JSON).display().to_string(),
        runtime_default_activation: NeverActive,
        matrix_id,
    };
    let noted = |()| harness.note_matrix(&note(&output)).map_err(Into::into);
    match write(harness, &output).and_then(noted) {
        Ok(()) => Ok(output),
        Err(source) => Err(MatrixError::Write { directory, source }),
    }
}

fn note(output: &MatrixOutput) -> MatrixNote {
    MatrixNote {
        matrix_id: output.matrix_id.clone(),
        engine: output.engine,
        ok: output.ok,
        finished_at: output.finished_at,
        pass: output.counts.pass,
        fail: output.counts.fail,
        blocked: output.counts.blocked,
        error: output.counts.error,
        report_path: output.report_path.clone(),
    }
}

fn count(runs: &[MatrixRun]) -> MatrixCounts {
    let mut counts = MatrixCounts::default();
    for run in runs {
        match run.status {
            Some(RunStatus::Pass) => counts.pass += 1,
            Some(RunStatus::Fail) => counts.fail += 1,
            Some(RunStatus::Blocked) => counts.blocked += 1,
            None => counts.error += 1,
        }
    }
    counts
}

fn one(
    harness: &Harness,
    catalog: &Catalog,
    id: &str,
    options: &Options,
    stop: &StopToken,
) -> MatrixRun {
    let begun = Instant::now();
    let mut run = match catalog.find(id) {
        Err(error) => not_run(id, error.code(), cto_runner::error_chain(&error)),
        Ok(case) => {
            let request = RunRequest {
                task: Task::Case(case),
                lane: options.lane,
                argv: Vec::new(),
                stage: None,
                timeout_seconds: None,
                cheat: None,
                parent: None,
                conformance: false,
                sandbox: options.sandbox,
                approval: Default::default(),
            };
            match harness.run(&request, stop, &mut |_: &RunEvent| {}) {
                Ok(result) => sealed(id, result),
                Err(error) => not_run(id, error.code(), cto_runner::error_chain(&error)),
            }
        }
    };
    run.seconds = crate::seconds(begun);
    run
}

fn sealed(id: &str, result: RunResult) -> MatrixRun {
    MatrixRun {
        case_id: id.to_owned(),
        run_id: Some(result.run_id),
        status: Some(result.report.verdict.status),
        seconds: 0.0,
        failure_reason: result.report.verdict.failure_reason,
        error: None,
    }
}

fn not_run(id: &str, code: &str, why: String) -> MatrixRun {
    MatrixRun {
        case_id: id.to_owned(),
        run_id: None,
        status: None,
        seconds: 0.0,
        failure_reason: Some(why),
        error: Some(code.to_owned()),
    }
}

/// The directory appears with its report or not at all. It is no pack: it has no log and no attestation.
fn write(
    harness: &Harness,
    output: &MatrixOutput,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let fresh = harness
        .home
        .runs()
        .join(format!(".new-{}", output.matrix_id));
    let mut bytes = serde_json::to_vec_pretty(output)?;
    bytes.push(b'\n');
    PackWriter::create(&fresh)?.write_new(REPORT_JSON, &bytes)?;
    std::fs::rename(&fresh, harness.home.pack(&output.matrix_id))?;
    Ok(())
}
