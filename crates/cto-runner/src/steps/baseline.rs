//! The checks on the untouched baseline, before the agent starts: a check that can't tell anything stops the run here,
//! where it has cost nothing.

use std::io;

use cto_contract::artifact::TEST_LOG;
use cto_contract::verification::CommandResult;
use cto_rules::checks::judge_baseline;
use cto_rules::verdicts::{Commands, Fault};

use crate::baseline_checks::Baseline;
use crate::checks::RoundRooms;
use crate::open_run::{OpenRun, StepError};
use crate::steps::prepare::Prepared;
use crate::test_log::{BEFORE, write_sections};

pub(crate) fn baseline(run: &mut OpenRun<'_>, prepared: &Prepared) -> Result<Baseline, StepError> {
    let failed = |e: io::Error| Fault::CommandsNotRun {
        which: Commands::BaselineChecks,
        why: e.to_string(),
    };
    let trees = &prepared.trees;
    let fresh = |name: &str| trees.baseline_room(&prepared.below, name);
    let shared = &fresh("baseline").map_err(failed)?.room;
    let rooms = RoundRooms {
        shared,
        fresh: &fresh,
    };
    let executions = prepared.checker.baseline(&rooms).map_err(failed)?;
    if run.stop.is_asked() {
        // Checks that were told to stop failed for that reason alone.
        return Ok(Baseline::done(executions));
    }
    let results: Vec<CommandResult> = executions.iter().map(|e| e.result.clone()).collect();
    let broken = judge_baseline(&run.contract, &results);
    if !broken.is_empty() {
        let reasons = broken
            .iter()
            .map(|b| format!("{}: {}\nnext: {}\n", b.code, b.message, b.hint));
        let why = reasons.collect::<String>() + "So no agent was started.";
        write_sections(run, TEST_LOG, &[(BEFORE, &executions)], Some(&why))?;
        run.record_gate(&broken, results)?;
    }
    Ok(Baseline::done(executions))
}
