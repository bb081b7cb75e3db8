//! The failure matrix: every blocker that can be reached is triggered for real, and its pack checked in eight ways.
//!
//! A fixture has a home, a config and a repository of its own, made for it and kept so that its pack can be read.

pub(crate) mod check;
mod document;
mod fixture;
pub(crate) mod outside;
pub(crate) mod site;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cto_contract::artifact::REPORT_JSON;
use cto_contract::blocker::BlockerCode;
use cto_contract::ids::{BadId, CaseId, RunId};
use cto_contract::outputs::{
    CheckedRow, Checks, NotCovered, ValidateFailuresOutput, ValidateFailuresTag,
};
use cto_runner::Environment;
use cto_sandbox::{Launcher, StopToken};

pub use check::{Judged, Seen, judge};
pub use document::document;
pub use fixture::Fixture;
pub use table::{NOT_COVERED, control, fixtures};

use crate::pool::{Ended, work_off};
use site::{FixtureSite, SiteError};

/// What to validate, and where.
pub struct Options {
    /// An own directory for this validation is made in here.
    pub directory: PathBuf,
    /// The caller's environment: only its `PATH` is used.
    pub env: Environment,
    pub launcher: Launcher,
    pub jobs: usize,
    /// Names of fixtures, or of rows with all their fixtures; empty means all.
    pub only: Vec<String>,
}

/// Why nothing could be validated at all.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    #[error("there is no fixture `{0}`")]
    UnknownFixture(String),
    #[error("could not make the directory `{path}`")]
    Directory { path: PathBuf, source: io::Error },
    #[error("no random bytes from the kernel")]
    Random(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the validation has no name")]
    Name(#[from] BadId),
}

/// One job of a validation.
enum Job {
    Fixture(&'static Fixture),
    /// The same site and an honest agent: it must pass, else no refusal on it says anything.
    Control,
}

/// What became of one job.
enum Done {
    Checked {
        row: CheckedRow,
        report: Option<PathBuf>,
    },
    /// This machine cannot trigger it.
    LeftOut(NotCovered),
    Control(Result<(), String>),
}

/// Triggers the fixtures side by side and checks their packs. `told` hears of each as it ends.
pub fn validate(
    options: &Options,
    stop: &StopToken,
    told: &mut dyn FnMut(&CheckedRow),
) -> Result<ValidateFailuresOutput, ValidateError> {
    let chosen = choose(&options.only)?;
    let directory = make_directory(&options.directory, "failures")?;
    let jobs: Vec<Job> = std::iter::once(Job::Control)
        .chain(chosen.into_iter().map(Job::Fixture))
        .collect();
    let perform = |job: &Job| match job {
        Job::Fixture(fixture) => trigger(fixture, &directory, options, stop),
        Job::Control => Done::Control(run_control(&directory, options, stop)),
    };
    let done = work_off(&jobs, options.jobs, stop, perform, |_, ended| {
        if let Ended::Done(Done::Checked { row, .. }) = ended {
            told(row);
        }
    });
    let mut matrix = collect(&jobs, done, &directory);
    matrix.errors.extend(
        uncovered()
            .into_iter()
            .map(|code| format!("{code} has neither a fixture nor a reason to have none")),
    );
    matrix.ok = matrix.errors.is_empty() && matrix.checked.iter().all(CheckedRow::passed);
    Ok(matrix)
}

/// Puts what became of the jobs together.
fn collect(jobs: &[Job], done: Vec<Ended<Done>>, directory: &Path) -> ValidateFailuresOutput {
    let mut matrix = ValidateFailuresOutput {
        schema_version: ValidateFailuresTag,
        ok: false,
        directory: directory.display().to_string(),
        checked: Vec::new(),
        errors: Vec::new(),
        not_covered: not_covered(),
        failure_reports: BTreeMap::new(),
    };
    let mut not_started = 0;
    for (job, ended) in jobs.iter().zip(done) {
        match ended {
            Ended::Done(Done::LeftOut(entry)) => matrix.not_covered.push(entry),
            Ended::Done(Done::Control(held)) => {
                let wrong = held.err();
                matrix
                    .errors
                    .extend(wrong.map(|why| format!("control: {why}")));
            }
            Ended::Done(Done::Checked { row, report }) => {
                let sentences = row.errors.iter();
                matrix
                    .errors
                    .extend(sentences.map(|e| format!("{}: {e}", row.fixture)));
                if let Some(report) = report {
                    matrix
                        .failure_reports
                        .insert(row.fixture.clone(), report.display().to_string());
                }
                matrix.checked.push(row);
            }
            Ended::Panicked(why) => {
                let name = match job {
                    Job::Fixture(fixture) => fixture.name(),
                    Job::Control => "control".to_owned(),
                };
                matrix.errors.push(format!("{name}: panicked: {why}"));
            }
            Ended::NotStarted => not_started += 1,
        }
    }
    if not_started > 0 {
        let all = jobs.len();
        matrix
            .errors
            .push(format!("stopped after {} of {all} runs", all - not_started));
    }
    matrix
}

/// Blockers that are neither triggered nor excused: there must be none.
pub fn uncovered() -> Vec<BlockerCode> {
    let triggered = |code: &BlockerCode| fixtures().any(|f| f.blocker == *code);
    let excused = |code: &BlockerCode| NOT_COVERED.iter().any(|(c, _)| c == code);
    BlockerCode::ALL
        .iter()
        .copied()
        .filter(|code| !triggered(code) && !excused(code))
        .collect()
}

fn not_covered() -> Vec<NotCovered> {
    let entry = |(blocker, reason): &(BlockerCode, &str)| NotCovered {
        blocker: *blocker,
        reason: (*reason).to_owned(),
    };
    NOT_COVERED.iter().map(entry).collect()
}

fn choose(only: &[String]) -> Result<Vec<&'static Fixture>, ValidateError> {
    let named = |f: &Fixture, name: &str| f.name() == name || f.row().fixture == name;
    if let Some(unknown) = only.iter().find(|n| !fixtures().any(|f| named(f, n))) {
        let shown = cto_contract::text::shorten(unknown, 60);
        return Err(ValidateError::UnknownFixture(shown));
    }
    Ok(fixtures()
        .filter(|f| only.is_empty() || only.iter().any(|n| named(f, n)))
        .collect())
}

pub(crate) fn make_directory(parent: &Path, name: &str) -> Result<PathBuf, ValidateError> {
    let name: CaseId = name.parse()?;
    let random = cto_runner::random().map_err(|e| ValidateError::Random(e.into()))?;
    let path = parent.join(RunId::compose(cto_runner::now(), &name, random).as_str());
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .map_err(|source| ValidateError::Directory {
            path: path.clone(),
            source,
        })?;
    Ok(path)
}

fn trigger(fixture: &Fixture, directory: &Path, options: &Options, stop: &StopToken) -> Done {
    let begun = Instant::now();
    let mut row = CheckedRow {
        fixture: fixture.name(),
        blocker: fixture.blocker,
        status: None,
        checks: Checks::default(),
        errors: Vec::new(),
        seconds: 0.0,
    };
    let mut report = None;
    match FixtureSite::make(fixture, &row.fixture, directory, options)
        .and_then(|g| g.run(fixture, stop))
    {
        Ok(seen) => {
            let judged = judge(fixture, &seen);
            row.status = judged.status;
            row.checks = judged.checks;
            row.errors = judged.errors;
            report = Some(seen.pack.join(REPORT_JSON));
        }
        Err(SiteError::LeftOut(reason)) => {
            return Done::LeftOut(NotCovered {
                blocker: fixture.blocker,
                reason,
            });
        }
        Err(error) => row.errors.push(cto_runner::error_chain(&error)),
    }
    row.seconds = crate::seconds(begun);
    Done::Checked { row, report }
}

fn run_control(directory: &Path, options: &Options, stop: &StopToken) -> Result<(), String> {
    let fixture = control();
    let seen = FixtureSite::make(fixture, "control", directory, options)
        .and_then(|g| g.run(fixture, stop))
        .map_err(|e| cto_runner::error_chain(&e))?;
    check::judge_control(&seen)
}

#[cfg(test)]
mod tests;
