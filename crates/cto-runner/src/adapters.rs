//! Which adapter serves a lane, and which program of the operator's it brings.

use std::path::Path;

use cto_agent::{Adapter, CommandLane, FAKE_DIRECTORY, FakeChange, FakeLane};
use cto_contract::lanes::ProgramSource;
use cto_contract::words::Lane;
use cto_rules::verdicts::Fault;

use crate::CaseError;
use crate::error_chain;
use crate::open_run::OpenRun;
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
        lane @ (Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp) => {
            Err(Fault::NothingToStart {
                why: format!("the {lane} lane is not part of this version"),
            })
        }
    }
}

/// Whether [`adapter`] has one for a lane.
pub(crate) fn is_built_in(lane: Lane) -> bool {
    #[cfg(test)]
    if lane == tests::LANE {
        return true;
    }
    cto_agent::is_built_in(lane)
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
    let lane = run.request.lane;
    match lane.traits().program {
        ProgramSource::System => Vec::new(),
        ProgramSource::CommandLine => run.request.argv.clone(),
        ProgramSource::Installed(name) => {
            let env = &run.harness.env;
            let variable = format!("CTO_HARNESS_{}_BIN", lane.as_str().to_ascii_uppercase());
            let named = env.get(&variable).map(str::to_owned);
            let found = || find_program(env, name).map(|path| path.display().to_string());
            named.or_else(found).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests;
