//! Which adapter serves a lane, and which program of the operator's it brings.

use std::path::Path;

use cto_agent::{
    Adapter, CaseLane, ClaudeLane, CodexLane, CommandLane, FAKE_DIRECTORY, FakeChange, FakeLane,
    PiLane,
};
use std::path::PathBuf;

use cto_contract::ids::to_hex;
use cto_contract::lanes::ProgramSource;
use cto_contract::words::Lane;
use cto_rules::admission::ProgramSeen;
use cto_rules::programs::{ProgramProblem, packages_of};
use cto_rules::verdicts::Fault;

use crate::CaseError;
use crate::checks::ORACLE_VARIABLE;
use crate::environment::Environment;
use crate::error_chain;
use crate::inside::Inside;
use crate::installed::{self, InstalledProgram};
use crate::open_run::OpenRun;
use crate::program::{ProgramFile, ProgramsBeside};
use crate::sandbox::find_program;
use crate::task::Task;

/// Makes the adapter of the run's lane. `scratch` is the backend's, as it lies outside.
pub(crate) fn adapter(run: &OpenRun<'_>, scratch: &Path) -> Result<Box<dyn Adapter>, Fault> {
    #[cfg(test)]
    if run.request.lane == tests::LANE {
        return Ok(Box::new(tests::DummyLane));
    }
    match run.request.lane {
        Lane::Fake => Ok(Box::new(FakeLane {
            change: fake_change(run, scratch)?,
        })),
        Lane::Command => Ok(Box::new(CommandLane {
            argv: run.request.argv.clone(),
        })),
        Lane::Case => Ok(Box::new(case_lane(run)?)),
        Lane::Codex | Lane::Pi | Lane::Claude => stream_lane(run),
        lane @ Lane::Acp => Err(Fault::NothingToStart {
            why: format!("the {lane} lane is not part of this version"),
        }),
    }
}

/// An attempt by one of the programs that tell what they do in JSON lines.
fn stream_lane(run: &OpenRun<'_>) -> Result<Box<dyn Adapter>, Fault> {
    let lane = run.request.lane;
    let program = installed::find(&run.harness.env, lane)?.command();
    let model = run.pair.as_ref().map(|pair| pair.model.clone());
    let model = model.ok_or_else(|| Fault::NothingToStart {
        why: format!("no model is named, and {lane} would take one of its own"),
    })?;
    let task = cto_agent::brief(&run.contract);
    Ok(match lane {
        Lane::Codex => Box::new(CodexLane {
            program,
            model,
            task,
        }),
        Lane::Pi => Box::new(PiLane {
            program,
            model,
            task,
        }),
        Lane::Claude => Box::new(ClaudeLane {
            program,
            model,
            task,
        }),
        Lane::Fake | Lane::Command | Lane::Case | Lane::Acp => {
            let why = format!("the {lane} lane tells nothing in JSON lines");
            return Err(Fault::NothingToStart { why });
        }
    })
}

/// The lane's own program, followed to what it really is; none for a lane whose program is named otherwise.
pub(crate) fn installed_program(run: &OpenRun<'_>) -> Option<Result<InstalledProgram, Fault>> {
    let lane = run.request.lane;
    let is_published = !packages_of(lane).is_empty();
    is_published.then(|| installed::find(&run.harness.env, lane))
}

/// Refuses a program that would not be seen inside: the agent would only say that it is missing.
pub(crate) fn check_shown(
    lane: Lane,
    program: &InstalledProgram,
    inside: &Inside,
) -> Result<(), Fault> {
    let files = program.places.files.iter().map(|(_, real)| real);
    let mut hidden = files.filter(|real| !inside.shows(real));
    match hidden.next() {
        None => Ok(()),
        Some(file) => Err(Fault::ProgramUnusable {
            lane,
            program: program.program.display().to_string(),
            problem: ProgramProblem::Refused(format!(
                "`{}` may not be shown inside",
                file.display()
            )),
        }),
    }
}

/// Whether [`adapter`] has one for a lane.
pub(crate) fn is_built_in(lane: Lane) -> bool {
    #[cfg(test)]
    if lane == tests::LANE || lane == Lane::Case {
        return true;
    }
    cto_agent::is_built_in(lane)
}

/// One attempt of Case, with an id that no earlier one had.
fn case_lane(run: &OpenRun<'_>) -> Result<CaseLane, Fault> {
    let no_lane = |why: &str| Fault::NothingToStart {
        why: why.to_owned(),
    };
    let pair = run.pair.clone();
    let pair = pair
        .ok_or_else(|| no_lane("no provider and model are named, and Case would take its own"))?;
    let program = shown_words(run).into_iter().next();
    let program = program.ok_or_else(|| Fault::ProgramMissing {
        program: "ca".to_owned(),
    })?;
    let random = crate::random::<8>().map_err(|_| no_lane("no random bytes from the kernel"))?;
    let commands = run.contract.verification_commands.iter();
    // What only the harness can run is no test for the agent.
    let commands = commands.filter(|c| !c.run.contains(ORACLE_VARIABLE));
    let tests: Vec<&str> = commands.map(|c| c.run.as_str()).collect();
    Ok(CaseLane {
        program,
        task_id: format!("cto-{}", to_hex(&random)),
        created: run.state().started_at.to_string(),
        allowed_paths: run
            .contract
            .allowed_paths
            .iter()
            .map(ToString::to_string)
            .collect(),
        test_command: (!tests.is_empty()).then(|| tests.join(" && ")),
        pair,
    })
}

/// What the fake lane does for its case; files that it lays over the tree go into scratch.
fn fake_change(run: &OpenRun<'_>, scratch: &Path) -> Result<FakeChange, Fault> {
    let refused = |e: CaseError| Fault::NothingToStart {
        why: error_chain(&e),
    };
    let Task::Case(case) = &run.request.task else {
        return Err(Fault::NothingToStart {
            why: "the fake lane does cases only".to_owned(),
        });
    };
    let cheat = run.request.cheat.as_deref();
    if let Some(patch) = case.patch(cheat).map_err(refused)? {
        return Ok(FakeChange::Patch(patch));
    }
    if case
        .lay_out("fake", &scratch.join(FAKE_DIRECTORY))
        .map_err(refused)?
    {
        return Ok(FakeChange::Overlay);
    }
    Err(refused(CaseError::NoFakeChange {
        id: case.file.id.clone(),
    }))
}

/// The words of a command line whose files must be seen inside: the lane's own program, and what it is given.
pub(crate) fn shown_words(run: &OpenRun<'_>) -> Vec<String> {
    lane_words(&run.harness.env, run.request.lane, &run.request.argv)
}

/// The file that a lane's program really is, for a lane that nothing runs yet.
pub(crate) fn program_file(
    env: &Environment,
    lane: Lane,
    argv: &[String],
    path: &str,
) -> Option<ProgramFile> {
    if !packages_of(lane).is_empty() {
        let found = installed::find(env, lane).ok()?;
        return ProgramFile::at(&found.program);
    }
    ProgramFile::find(lane_words(env, lane, argv).first()?, path)
}

/// Where an installed lane's program is: as a person names it, and the file whose digest counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedProgram {
    pub named: PathBuf,
    pub file: PathBuf,
}

/// Finds the program of an installed lane as a run would; none where it is not there or can't be used.
pub fn named_program(env: &Environment, lane: Lane) -> Option<NamedProgram> {
    let ProgramSource::Installed(name) = lane.traits().program else {
        return None;
    };
    let variable = format!("CTO_HARNESS_{}_BIN", lane.as_str().to_ascii_uppercase());
    let named = env.get(&variable).map(PathBuf::from);
    let named = named.or_else(|| find_program(env, name))?;
    let path = env.get("PATH").unwrap_or_default();
    let file = program_file(env, lane, &[], path)?;
    Some(NamedProgram {
        named,
        file: file.path().to_owned(),
    })
}

/// The program of a lane as a record sees it: its file, what runs it, and all that it loads.
pub(crate) fn program_seen(
    env: &Environment,
    lane: Lane,
    argv: &[String],
    path: &str,
) -> Option<ProgramSeen> {
    let seen = program_file(env, lane, argv, path)?.seen()?;
    if packages_of(lane).is_empty() {
        return Some(seen);
    }
    let beside = ProgramsBeside::of(&installed::find(env, lane).ok()?).ok()?;
    Some(ProgramSeen {
        package: beside.tree.map(|(_, digest)| digest),
        interpreter: beside.interpreter.map(|file| file.digest),
        ..seen
    })
}

/// The words of a lane that nothing runs yet.
fn lane_words(env: &Environment, lane: Lane, argv: &[String]) -> Vec<String> {
    match lane.traits().program {
        ProgramSource::System => Vec::new(),
        ProgramSource::CommandLine => argv.to_vec(),
        ProgramSource::Installed(_) if !packages_of(lane).is_empty() => {
            let found = installed::find(env, lane);
            found.map_or_else(|_| Vec::new(), |found| found.command())
        }
        ProgramSource::Installed(name) => {
            let variable = format!("CTO_HARNESS_{}_BIN", lane.as_str().to_ascii_uppercase());
            let named = env.get(&variable).map(str::to_owned);
            let found = || find_program(env, name).map(|path| path.display().to_string());
            named.or_else(found).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod case_tests;
#[cfg(test)]
mod tests;
