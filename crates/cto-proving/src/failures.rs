//! The failure matrix: every blocker that can be reached is triggered for real, and its pack checked in eight ways.
//!
//! A fixture has a home, a config and a repository of its own, made for it and kept so that its pack can be read.

pub(crate) mod check;
mod document;
mod fixture;
pub(crate) mod ground;
pub(crate) mod outside;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
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

use ground::{Ground, GroundError};

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

/// What became of one fixture.
enum Done {
    Checked {
        row: CheckedRow,
        report: Option<PathBuf>,
    },
    /// This machine cannot trigger it.
    LeftOut(NotCovered),
}

/// Triggers the fixtures side by side and checks their packs. `told` hears of each as it ends.
pub fn validate(
    options: &Options,
    stop: &StopToken,
    told: &(dyn Fn(&CheckedRow) + Sync),
) -> Result<ValidateFailuresOutput, ValidateError> {
    let chosen = choose(&options.only)?;
    let directory = make_directory(&options.directory, "failures")?;
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Done)>> = Mutex::new(Vec::new());
    let control_errors = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some((index, fixture)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|i| Some((i, chosen.get(i)?)))
                {
                    if stop.is_asked() {
                        return;
                    }
                    let one = trigger(fixture, &directory, options, stop);
                    if let Done::Checked { row, .. } = &one {
                        told(row);
                    }
                    locked(&done).push((index, one));
                }
            });
        }
        if let Err(why) = run_control(&directory, options, stop) {
            locked(&control_errors).push(format!("control: {why}"));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    let mut matrix = ValidateFailuresOutput {
        schema_version: ValidateFailuresTag,
        ok: false,
        directory: directory.display().to_string(),
        checked: Vec::new(),
        errors: control_errors
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner),
        not_covered: not_covered(),
        failure_reports: BTreeMap::new(),
    };
    if done.len() < chosen.len() {
        matrix.errors.push(format!(
            "stopped after {} of {} fixtures",
            done.len(),
            chosen.len()
        ));
    }
    for (_, one) in done {
        match one {
            Done::LeftOut(entry) => matrix.not_covered.push(entry),
            Done::Checked { row, report } => {
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
        }
    }
    matrix.errors.extend(
        uncovered()
            .into_iter()
            .map(|code| format!("{code} has neither a fixture nor a reason to have none")),
    );
    matrix.ok = matrix.errors.is_empty() && matrix.checked.iter().all(CheckedRow::passed);
    Ok(matrix)
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
    match Ground::make(fixture, &row.fixture, directory, options).and_then(|g| g.run(fixture, stop))
    {
        Ok(seen) => {
            let judged = judge(fixture, &seen);
            row.status = judged.status;
            row.checks = judged.checks;
            row.errors = judged.errors;
            report = Some(seen.pack.join(REPORT_JSON));
        }
        Err(GroundError::LeftOut(reason)) => {
            return Done::LeftOut(NotCovered {
                blocker: fixture.blocker,
                reason,
            });
        }
        Err(error) => row.errors.push(cto_runner::error_chain(&error)),
    }
    row.seconds = (begun.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
    Done::Checked { row, report }
}

/// The same ground and an honest agent: it must pass, else no refusal on it says anything.
fn run_control(directory: &Path, options: &Options, stop: &StopToken) -> Result<(), String> {
    let fixture = control();
    let seen = Ground::make(fixture, "control", directory, options)
        .and_then(|g| g.run(fixture, stop))
        .map_err(|e| cto_runner::error_chain(&e))?;
    check::judge_control(&seen)
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
