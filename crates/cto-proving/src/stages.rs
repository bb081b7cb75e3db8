//! The validators of the proof stages: the real command line in a throw-away home, judged from its packs.
//!
//! A stage is a table of runs (`rows`) and a table of checks over what they left (`checks`). The shell in between calls the
//! program and reads packs; nothing here can make a verdict. Each stage needs the one below, so all of them share a home.

mod checks;
mod facts;
mod rows;
mod scripts;
mod site;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use cto_contract::artifact::REPORT_JSON;
use cto_contract::outputs::{RequiredStage, StageCheck, ValidateStageOutput, ValidateStageTag};
use cto_contract::stage_proof::{COPIED_REPO_PROOF, NO_TARGET_PROOF};
use cto_contract::words::{Lane, Stage};
use cto_runner::{Config, Environment, NamedProgram, VERSION};
use cto_sandbox::{Launcher, StopToken};
use serde_json::Value;

pub use checks::{Check, PASS, checks};
pub use facts::{Gathered, Known, RunFacts};

use crate::failures::site::SiteError;
use crate::failures::{ValidateError, make_directory};
use crate::pool::{Ended, work_off};
use rows::{Row, rows};
use site::Site;

/// The last stage that has a validator.
pub const LAST: Stage = Stage::COPIED_REPOSITORY;
/// The lanes that have one.
pub const LANES: &[Lane] = &[
    Lane::Case,
    Lane::Codex,
    Lane::Pi,
    Lane::Claude,
    Lane::Command,
];

/// Which program does the lane's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    Double,
    /// The installed one, here.
    Real(NamedProgram),
}

/// What to validate, and where.
pub struct Options {
    /// An own directory for this validation is made in here.
    pub directory: PathBuf,
    /// The caller's environment: only its `PATH` is used.
    pub env: Environment,
    pub launcher: Launcher,
    /// The command line itself, which is the double too.
    pub cto: PathBuf,
    pub lane: Lane,
    pub program: Program,
    pub jobs: usize,
}

/// Validates the stages from the first up to this one, each in turn, and stops at the first that does not hold. `told` hears
/// of each stage as it ends.
pub fn validate(
    options: &Options,
    upto: Stage,
    stop: &StopToken,
    told: &mut dyn FnMut(&ValidateStageOutput),
) -> Result<Vec<ValidateStageOutput>, ValidateError> {
    let name = format!("stages-{}", options.lane);
    let directory = make_directory(&options.directory, &name)?;
    let made = Site::make(&directory, options);
    let mut done: Vec<ValidateStageOutput> = Vec::new();
    for stage in Stage::all().take_while(|stage| *stage <= upto) {
        let begun = Instant::now();
        let below_ok = done.last().is_none_or(|below| below.ok);
        let seen = made
            .as_ref()
            .map_err(|e| cto_runner::error_chain(e))
            .map(|site| gather(site, options, (stage, below_ok), stop));
        let mut output = conclude(options, stage, &directory, done.last(), seen);
        output.seconds = crate::seconds(begun);
        write_output(&directory, &output)?;
        told(&output);
        let is_ok = output.ok;
        done.push(output);
        if !is_ok {
            break;
        }
    }
    Ok(done)
}

/// Runs everything of one stage in a home of its own that stages below have passed in; for tests that break what it finds.
pub fn gather_all(
    options: &Options,
    stop: &StopToken,
) -> Result<Vec<Gathered>, Box<dyn std::error::Error + Send + Sync>> {
    let directory = make_directory(&options.directory, "gathered")?;
    let site = Site::make(&directory, options)?;
    let stages = Stage::all().take_while(|stage| *stage <= LAST);
    Ok(stages
        .map(|stage| gather(&site, options, (stage, true), stop))
        .collect())
}

/// Where a stage's output is kept.
pub fn output_file(stage: Stage) -> String {
    format!("stage{stage}.json")
}

fn write_output(directory: &Path, output: &ValidateStageOutput) -> Result<(), ValidateError> {
    let path = directory.join(output_file(output.stage));
    let text = serde_json::to_string_pretty(output).unwrap_or_default();
    let written = crate::failures::site::put(&path, &format!("{text}\n"), 0o600);
    written.map_err(|error| ValidateError::Directory {
        path,
        source: std::io::Error::other(cto_runner::error_chain(&error)),
    })
}

/// What the runs of a stage left.
fn gather(
    site: &Site,
    options: &Options,
    (stage, below_ok): (Stage, bool),
    stop: &StopToken,
) -> Gathered {
    let before = site.surroundings();
    let mut seen = Gathered {
        lane: options.lane,
        stage,
        runs: BTreeMap::new(),
        broken: BTreeMap::new(),
        known: known(site, options),
        outside: Vec::new(),
        below_ok,
    };
    let trusted = Config::load(&site.config(None)).map(|config| config.trusted);
    let trusted = trusted.unwrap_or_default();
    let perform = |row: &Row| -> Result<RunFacts, String> {
        let ran =
            call(site, options, Some(row), &site.arguments(row)).map_err(|e| e.to_string())?;
        let said: Value = serde_json::from_slice(&ran.stdout)
            .map_err(|_| String::from_utf8_lossy(&ran.stderr).into_owned())?;
        let run_id = said["run_id"].as_str().ok_or_else(|| said.to_string())?;
        let pack = site.home().join("harness-runs").join(run_id);
        RunFacts::read(&pack, ran.status.code(), &trusted)
    };
    // The honest run comes first and alone: what it passes, the others may rest on.
    let (first, rest): (Vec<Row>, Vec<Row>) = rows(stage).iter().partition(|row| row.name == PASS);
    for batch in [first, rest] {
        let done = work_off(&batch, options.jobs, stop, perform, |_, _| {});
        for (row, ended) in batch.iter().zip(done) {
            let left = match ended {
                Ended::Done(left) => left,
                Ended::Panicked(why) => Err(format!("panicked: {why}")),
                Ended::NotStarted => Err("not run".to_owned()),
            };
            match left {
                Ok(run) => drop(seen.runs.insert(row.name, run)),
                Err(why) => {
                    let why = cto_contract::text::shorten(&why, 300);
                    seen.broken.insert(row.name, why);
                }
            }
        }
    }
    seen.outside = match (before, site.surroundings()) {
        (Ok(before), Ok(after)) => before.differences(&after),
        (Err(error), _) | (_, Err(error)) => vec![error.to_string()],
    };
    seen
}

/// What the registry, the help and the arguments say of the lane.
fn known(site: &Site, options: &Options) -> Known {
    let words = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        call(site, options, None, &args).ok()
    };
    let engines = words(&["engines", "--json"]);
    let engines: Value = engines
        .and_then(|ran| serde_json::from_slice(&ran.stdout).ok())
        .unwrap_or_default();
    let row = engines["engines"].as_array().into_iter().flatten();
    let mut row = row.filter(|row| row["lane"] == options.lane.as_str());
    let row = row.next();
    let help = words(&["run", "--help"])
        .map(|ran| ran.stdout)
        .unwrap_or_default();
    let wrong = words(&["run", rows::CASE, "--engine", "no-such-lane", "--json"]);
    Known {
        gate: row.and_then(|row| row["gate"].as_str().map(str::to_owned)),
        default: engines["default"].as_str().map(str::to_owned),
        in_usage: String::from_utf8_lossy(&help).contains(options.lane.as_str()),
        unknown_refused: wrong.is_some_and(|ran| ran.status.code() == Some(2)),
    }
}

/// Calls the command line as a person would, in the home of the validation.
#[expect(
    clippy::disallowed_methods,
    reason = "the harness as its operator starts it: in a sandbox of ours it could make none of its own"
)]
fn call(
    site: &Site,
    options: &Options,
    row: Option<&Row>,
    args: &[String],
) -> std::io::Result<Output> {
    Command::new(&options.cto)
        .arg("--config")
        .arg(site.config(row))
        .args(args)
        .env_clear()
        .envs(site.environment(row))
        .current_dir(&site.place)
        .stdin(Stdio::null())
        .output()
}

/// Judges a stage and says where everything is.
fn conclude(
    options: &Options,
    stage: Stage,
    directory: &Path,
    below: Option<&ValidateStageOutput>,
    seen: Result<Gathered, String>,
) -> ValidateStageOutput {
    let mut output = ValidateStageOutput {
        schema_version: ValidateStageTag,
        ok: false,
        stage,
        lane: options.lane,
        real: options.program != Program::Double,
        harness_version: VERSION.to_owned(),
        adapter_revision: cto_runner::adapter_revision(options.lane),
        checked: Vec::new(),
        errors: Vec::new(),
        pass_report: None,
        failure_reports: BTreeMap::new(),
        fake_baseline_report: None,
        no_target_inspection_proof: None,
        source_non_mutation_proof: None,
        required_stage: below.map(|below| RequiredStage {
            stage: below.stage,
            ok: below.ok,
            path: directory
                .join(output_file(below.stage))
                .display()
                .to_string(),
        }),
        packs: BTreeMap::new(),
        directory: directory.display().to_string(),
        seconds: 0.0,
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            output.errors.push(why);
            return output;
        }
    };
    for check in checks(stage) {
        let errors = check.errors(&seen);
        let named = errors
            .iter()
            .map(|error| format!("{}: {error}", check.name));
        output.errors.extend(named);
        output.checked.push(StageCheck {
            check: check.name.to_owned(),
            passed: errors.is_empty(),
            errors,
        });
    }
    output.ok = output.errors.is_empty();
    name_paths(&mut output, &seen, directory);
    output
}

fn name_paths(output: &mut ValidateStageOutput, seen: &Gathered, directory: &Path) {
    let report = |run: &RunFacts| run.pack.join(REPORT_JSON).display().to_string();
    for (name, run) in &seen.runs {
        let all = std::iter::once(run).chain(run.fake.as_deref());
        for run in all {
            let below = run.pack.strip_prefix(directory).unwrap_or(&run.pack);
            let digest = run.pack_digest.clone();
            let entry = digest.map(|digest| (below.display().to_string(), digest));
            output.packs.extend(entry);
        }
        if *name != PASS {
            output
                .failure_reports
                .insert((*name).to_owned(), report(run));
        }
    }
    let Some(pass) = seen.runs.get(PASS) else {
        return;
    };
    let file =
        |is_there: bool, name: &str| is_there.then(|| pass.pack.join(name).display().to_string());
    output.pass_report = Some(report(pass));
    output.fake_baseline_report = pass.fake.as_deref().map(report);
    output.no_target_inspection_proof = file(pass.no_target.is_some(), NO_TARGET_PROOF);
    output.source_non_mutation_proof = file(pass.copied_repo.is_some(), COPIED_REPO_PROOF);
}

impl From<SiteError> for ValidateError {
    fn from(error: SiteError) -> Self {
        Self::Directory {
            path: PathBuf::new(),
            source: std::io::Error::other(cto_runner::error_chain(&error)),
        }
    }
}
