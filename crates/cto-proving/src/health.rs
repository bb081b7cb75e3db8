//! One verdict over everything that can be checked here: validators of the stages, adapter, failure matrix, matrix, red team.
//! The parts run side by side; each is what its own command does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use cto_contract::outputs::{
    HealthOutput, HealthPart, HealthStatus, HealthTag, ValidateStageOutput,
};
use cto_contract::words::{Lane, NeverActive};
use cto_runner::{Catalog, Environment, Harness, SandboxAsk};
use cto_sandbox::{Launcher, StopToken};

use crate::pool::{Ended, work_off};
use crate::stages::{self, LANES, LAST, Program, output_file};
use crate::{case_lane, failures, matrix, redteam};

/// What to check, and with what.
pub struct Options<'a> {
    pub harness: &'a Harness,
    /// The caller's environment.
    pub env: Environment,
    pub launcher: Launcher,
    /// The command line itself, which is the doubles too.
    pub cto: PathBuf,
    pub jobs: usize,
    /// The other lanes and the red team, besides.
    pub all: bool,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Stages(Lane),
    ProviderAdapter,
    Failures,
    Matrix,
    Redteam,
}

/// What came of it: parts by name, and what validators of stages said.
#[derive(Default)]
struct Done {
    parts: Vec<(String, HealthPart)>,
    stages: Vec<ValidateStageOutput>,
}

/// What was found, and the stage validations that the caller enters in the ledger.
pub struct Health {
    pub output: HealthOutput,
    pub stages: Vec<ValidateStageOutput>,
}

/// Checks everything side by side. `told` hears of each part as it ends.
pub fn check(
    options: &Options<'_>,
    stop: &StopToken,
    told: &mut dyn FnMut(&str, &HealthPart),
) -> Health {
    let begun = Instant::now();
    let others = LANES.iter().copied().filter(|lane| *lane != Lane::Case);
    let more = others.map(Job::Stages).chain([Job::Redteam]);
    // The longest first, so that none is left alone at the end.
    let jobs: Vec<Job> = [
        Job::Stages(Lane::Case),
        Job::ProviderAdapter,
        Job::Failures,
        Job::Matrix,
    ]
    .into_iter()
    .chain(more.filter(|_| options.all))
    .collect();
    let perform = |job: &Job| perform(*job, options, stop);
    let ended = work_off(&jobs, jobs.len(), stop, perform, |_, ended| {
        if let Ended::Done(done) = ended {
            for (name, part) in &done.parts {
                told(name, part);
            }
        }
    });
    let mut health = Health {
        output: HealthOutput {
            schema_version: HealthTag,
            status: HealthStatus::Fail,
            parts: BTreeMap::new(),
            seconds: 0.0,
            runtime_default_activation: NeverActive,
        },
        stages: Vec::new(),
    };
    for (job, ended) in jobs.iter().zip(ended) {
        let done = match ended {
            Ended::Done(done) => done,
            Ended::Panicked(why) => lost(*job, format!("panicked: {why}")),
            Ended::NotStarted => lost(*job, "not run".to_owned()),
        };
        health.output.parts.extend(done.parts);
        health.stages.extend(done.stages);
    }
    let is_well = health.output.parts.values().all(|part| part.passed);
    if is_well && !health.output.parts.is_empty() {
        health.output.status = HealthStatus::Pass;
    }
    health.output.seconds = crate::seconds(begun);
    health
}

fn name_of(job: Job) -> String {
    match job {
        Job::Stages(lane) => format!("{lane}_stage1"),
        Job::ProviderAdapter => "case_provider_adapter".to_owned(),
        Job::Failures => "failures".to_owned(),
        Job::Matrix => "matrix".to_owned(),
        Job::Redteam => "redteam".to_owned(),
    }
}

/// A part that came to nothing.
fn lost(job: Job, why: String) -> Done {
    let part = part(false, (0, None), vec![why], 0.0);
    Done {
        parts: vec![(name_of(job), part)],
        stages: Vec::new(),
    }
}

fn part(
    passed: bool,
    (checked, path): (usize, Option<String>),
    errors: Vec<String>,
    seconds: f64,
) -> HealthPart {
    HealthPart {
        status: match passed {
            true => HealthStatus::Pass,
            false => HealthStatus::Fail,
        },
        passed,
        checked: checked as u64,
        errors,
        path,
        seconds,
    }
}

fn perform(job: Job, options: &Options<'_>, stop: &StopToken) -> Done {
    let begun = Instant::now();
    let directory = options.harness.home.validation();
    let (env, launcher) = (options.env.clone(), options.launcher.clone());
    let (program, jobs, only) = (options.cto.clone(), options.jobs, Vec::new());
    let made = match job {
        Job::Stages(lane) => return of_stages(lane, options, stop),
        Job::ProviderAdapter => {
            let options = case_lane::Options {
                directory,
                env,
                launcher,
                program,
                jobs,
                only,
            };
            case_lane::validate(&options, stop, &mut |_| {})
                .map(|out| (out.ok, (out.checked.len(), Some(out.directory)), out.errors))
        }
        Job::Failures => {
            let options = failures::Options {
                directory,
                env,
                launcher,
                jobs,
                only,
            };
            failures::validate(&options, stop, &mut |_| {})
                .map(|out| (out.ok, (out.checked.len(), Some(out.directory)), out.errors))
        }
        Job::Redteam => {
            let options = redteam::Options {
                directory,
                env,
                launcher,
                program,
                jobs,
                only: Vec::new(),
            };
            redteam::validate(&options, stop, &mut |_, _| {})
                .map(|out| (out.ok, (out.checked.len(), Some(out.directory)), out.errors))
        }
        Job::Matrix => {
            let asked = matrix::Options {
                lane: Lane::Fake,
                sandbox: SandboxAsk::default(),
                jobs,
            };
            let catalog = Catalog { extra: None };
            let done = matrix::run_all(options.harness, &catalog, &asked, stop, &mut |_| {});
            let done = match done {
                Ok(out) => {
                    let failed = out.runs.iter().filter_map(|run| run.failure_reason.clone());
                    (
                        out.ok,
                        (out.runs.len(), Some(out.report_path.clone())),
                        failed.collect(),
                    )
                }
                Err(error) => return lost(job, cto_runner::error_chain(&error)),
            };
            Ok(done)
        }
    };
    match made {
        Ok((passed, found, errors)) => Done {
            parts: vec![(
                name_of(job),
                part(passed, found, errors, crate::seconds(begun)),
            )],
            stages: Vec::new(),
        },
        Err(error) => lost(job, cto_runner::error_chain(&error)),
    }
}

/// A part for each stage of a lane; one that was not reached is one that does not hold.
fn of_stages(lane: Lane, options: &Options<'_>, stop: &StopToken) -> Done {
    let asked = stages::Options {
        directory: options.harness.home.validation(),
        env: options.env.clone(),
        launcher: options.launcher.clone(),
        cto: options.cto.clone(),
        lane,
        program: Program::Double,
        jobs: options.jobs,
    };
    let found = match stages::validate(&asked, LAST, stop, &mut |_| {}) {
        Ok(found) => found,
        Err(error) => return lost(Job::Stages(lane), cto_runner::error_chain(&error)),
    };
    let parts = cto_contract::words::Stage::all().take_while(|stage| *stage <= LAST);
    let parts = parts.map(|stage| {
        let name = format!("{lane}_stage{stage}");
        let made = match found.iter().find(|out| out.stage == stage) {
            None => part(
                false,
                (0, None),
                vec!["a stage below does not hold".to_owned()],
                0.0,
            ),
            Some(out) => {
                let path = format!("{}/{}", out.directory, output_file(stage));
                let checked = (out.checked.len(), Some(path));
                part(out.ok, checked, out.errors.clone(), out.seconds)
            }
        };
        (name, made)
    });
    Done {
        parts: parts.collect(),
        stages: found,
    }
}
