//! The contract's setup, run once in a layer that lies below every tree of the run.

use std::io;

use cto_checkout::{ScanCaps, upper_changes};
use cto_contract::event::{EventKind, SandboxDenied, Step};
use cto_contract::text::path_text;
use cto_rules::verdicts::{self, Commands, Fault};

use crate::denials::DenialWords;
use crate::error_chain;
use crate::open_run::{OpenRun, StepError};
use crate::room::Tree;
use crate::source::Source;
use crate::steps::plan::Planned;
use crate::steps::prepare::Prepared;
use crate::test_log::write_sections;

const SETUP_LOG: &str = "backend/setup.log";

pub(crate) fn setup(
    run: &mut OpenRun<'_>,
    prepared: &mut Prepared,
    planned: &mut Planned,
    source: Option<&Source>,
) -> Result<(), StepError> {
    let not_run = |why: String| Fault::CommandsNotRun {
        which: Commands::Setup,
        why,
    };
    let layer = run.work.join("setup");
    let tree = Tree::Overlay {
        lowers: prepared.below.clone(),
        upper: layer.clone(),
    };
    let failed = |e: io::Error| not_run(e.to_string());
    let room = prepared.trees.rooms.room("setup", tree).map_err(failed)?;
    let executions = prepared.checker.setup(&room).map_err(failed)?;
    let manifest = &prepared.trees.baseline.manifest;
    let left = upper_changes(&layer, manifest, &ScanCaps::default())
        .map_err(|e| not_run(error_chain(&e)))?;
    let changed: Vec<String> = left
        .changes
        .iter()
        .filter(|c| !c.is_new())
        .map(|c| path_text(c.path.as_bytes()))
        .collect();
    let files = left.changes.iter().filter(|c| c.is_new()).count() as u64;
    write_sections(run, SETUP_LOG, &[("setup", &executions)], None)?;
    let words = DenialWords::of(run, source);
    let tried = executions.iter().flat_map(|e| &e.attempts);
    // The commands are the contract's own: what they try is told, and is no attempt of the agent.
    let tried: Vec<SandboxDenied> = tried
        .filter(|attempt| attempt.what != "exec")
        .filter_map(|attempt| words.denial(attempt, Step::Setup))
        .map(|denial| SandboxDenied {
            action: None,
            ..denial
        })
        .collect();
    for denial in tried {
        run.record(EventKind::SandboxDenied(denial))?;
    }
    let commands = executions.into_iter().map(|e| e.result).collect();
    let event = verdicts::setup(commands, files, &changed);
    if event.blockers.is_empty() {
        // Below the backend's tree and below those of the checks.
        prepared.below.insert(0, layer);
        planned.lay_over(&prepared.below);
    }
    run.record(EventKind::SetupCompleted(event))?;
    Ok(())
}
