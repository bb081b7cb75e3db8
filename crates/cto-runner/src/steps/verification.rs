//! The checks: on the fresh copy with only the patch applied, beside the baseline's, with a canary.

use std::io;

use cto_checkout::{Changes, Manifest, ScanError};
use cto_contract::artifact::TEST_LOG;
use cto_contract::event::{EventKind, Step};
use cto_contract::ids::to_hex;
use cto_contract::text::path_text;
use cto_contract::verification::CommandResult;
use cto_rules::residue::LeftBy;
use cto_rules::verdicts::{self, CheckFacts, Commands, Fault, LimitFact, NotChecked};
use cto_sandbox::Attempt;

use crate::baseline_checks::Baseline;
use crate::checks::{CanaryRun, Execution, RoundRooms};
use crate::denials::DenialWords;
use crate::open_run::{OpenRun, StepError};
use crate::residue;
use crate::source::Source;
use crate::steps::change::Changed;
use crate::steps::prepare::Prepared;
use crate::test_log::{AFTER, BEFORE, write_sections};
use crate::trees::Applied;
use crate::{clock, error_chain};

/// How many dirty paths a pack lists.
const DIRTY_MAX: usize = 100;

const PLANTED: &str = "after the change, with a planted test that must fail";

/// What the checks showed.
struct Checked {
    after: Vec<Execution>,
    canary: CanaryRun,
    dirty_paths: Vec<String>,
}

fn not_run(which: Commands, error: &dyn std::error::Error) -> StepError {
    let why = error_chain(error);
    Fault::CommandsNotRun { which, why }.into()
}

pub(crate) fn verification(
    run: &mut OpenRun<'_>,
    prepared: &Prepared,
    mut baseline: Baseline,
    changed: &Changed,
    source: Option<&Source>,
) -> Result<(), StepError> {
    let nothing = verdicts::nothing_to_check(run.state(), &run.contract);
    let applied = match (nothing, &changed.applied) {
        (None, Some(applied)) => applied,
        (nothing, _) => {
            let why = nothing.unwrap_or(NotChecked::ChangeRefused);
            return skip(run, baseline, &why, &[]);
        }
    };
    let Checked {
        after,
        canary,
        dirty_paths,
    } = check(run, prepared, applied, changed, &mut baseline)?;
    if run.stop.is_asked() {
        // Checks that were told to stop failed for that reason alone.
        let parts = [(AFTER, after.as_slice()), (PLANTED, &canary.executions)];
        return skip(run, baseline, &NotChecked::Stopped, &parts);
    }
    let before = waited_for(run, baseline)?;
    let parts = [
        (BEFORE, before.as_slice()),
        (AFTER, &after),
        (PLANTED, &canary.executions),
    ];
    write_sections(run, TEST_LOG, &parts, None)?;
    record_limits(run, after.iter().chain(&canary.executions))?;
    let words = DenialWords::of(run, source);
    let with_canary = [tried(&after), tried(&canary.executions)].concat();
    for denial in words.of_checks(&tried(&before), &with_canary) {
        run.record(EventKind::SandboxDenied(denial))?;
    }
    let mut after = results(after);
    for result in &mut after {
        result.canary = canary.of(result);
    }
    let facts = CheckFacts {
        baseline: results(before),
        after,
        tree_id: applied.tree_id.clone(),
        dirty_paths,
    };
    let event = verdicts::checked(run.state(), &run.contract, facts);
    run.record(EventKind::VerificationCompleted(event))?;
    Ok(())
}

/// Records that nothing was checked, or nothing that counts. What the baseline showed still belongs into the log.
fn skip(
    run: &mut OpenRun<'_>,
    baseline: Baseline,
    why: &NotChecked,
    parts: &[(&str, &[Execution])],
) -> Result<(), StepError> {
    let before = waited_for(run, baseline)?;
    let mut all = vec![(BEFORE, before.as_slice())];
    all.extend(parts);
    write_sections(run, TEST_LOG, &all, Some(&why.sentence()))?;
    let event = verdicts::not_checked(run.state(), why, results(before));
    run.record(EventKind::VerificationCompleted(event))?;
    Ok(())
}

/// Waits for what the checks showed on the untouched baseline.
fn waited_for(run: &OpenRun<'_>, baseline: Baseline) -> Result<Vec<Execution>, StepError> {
    baseline
        .into_executions(&run.stop)
        .map_err(|e| not_run(Commands::BaselineChecks, &e))
}

fn results(executions: Vec<Execution>) -> Vec<CommandResult> {
    executions.into_iter().map(|e| e.result).collect()
}

fn tried(executions: &[Execution]) -> Vec<Attempt> {
    let all = executions.iter().flat_map(|e| &e.attempts);
    all.cloned().collect()
}

fn record_limits<'e>(
    run: &mut OpenRun<'_>,
    executions: impl Iterator<Item = &'e Execution>,
) -> Result<(), StepError> {
    for execution in executions {
        if let Some((limit, allowed)) = &execution.limit {
            let fact = LimitFact::Command {
                line: execution.line.clone(),
                limit: limit.clone(),
                allowed: *allowed,
            };
            run.limit_hit(Step::Verification, &fact)?;
        }
    }
    Ok(())
}

/// Runs the commands on the tree of the patch while the canary runs on another one.
fn check(
    run: &OpenRun<'_>,
    prepared: &Prepared,
    applied: &Applied,
    changed: &Changed,
    baseline: &mut Baseline,
) -> Result<Checked, StepError> {
    let failed = |e: io::Error| not_run(Commands::Checks, &e);
    let (trees, below, checker) = (&prepared.trees, &prepared.below, &prepared.checker);
    let token = clock::random::<8>().map_err(|e| not_run(Commands::Checks, &e))?;
    let token = to_hex(&token);
    let room = trees.checked_room(below, applied).map_err(failed)?;
    let fresh = |name: &str| trees.patched_room(below, (applied, &changed.patch), name);
    let (after, canary) = std::thread::scope(|scope| {
        let canary = scope.spawn(|| checker.canary(|| fresh("canary"), &token));
        let rooms = RoundRooms {
            shared: &room,
            fresh: &fresh,
        };
        let after = checker.after(&rooms, baseline);
        let died = |_| Err(io::Error::other("the canary's thread died"));
        (after, canary.join().unwrap_or_else(died))
    });
    let after = after.map_err(failed)?;
    let (tree, manifest) = (&applied.tree, &changed.patch.manifest);
    let mut dirty = dirty_paths(run, prepared, manifest, tree.changes_in(room.upper()))?;
    for own in after.iter().filter_map(|execution| execution.own.as_ref()) {
        dirty.extend(dirty_paths(run, prepared, manifest, own.changes(tree))?);
    }
    dirty.truncate(DIRTY_MAX);
    Ok(Checked {
        after,
        canary: canary.map_err(failed)?,
        dirty_paths: dirty,
    })
}

/// What the checks changed in a tree: tracked files, and new ones that are no residue.
fn dirty_paths(
    run: &OpenRun<'_>,
    prepared: &Prepared,
    tracked: &Manifest,
    since: Result<Changes, ScanError>,
) -> Result<Vec<String>, StepError> {
    let since = match since {
        Ok(since) => since,
        // More than can be listed is more than checks may leave.
        Err(error) if error.is_limit() => return Ok(vec![error_chain(&error)]),
        Err(error) => return Err(not_run(Commands::Checks, &error)),
    };
    let sorted = residue::sort(
        &run.contract,
        LeftBy::Checks,
        &prepared.trees,
        tracked,
        &since,
    )
    .map_err(|e| not_run(Commands::Checks, &e))?;
    let changed = sorted.changes.iter().map(|c| &c.path);
    let odd = sorted.oddities.iter().filter(|o| o.kind.is_violation());
    Ok(changed
        .chain(odd.map(|o| &o.path))
        .map(|path| path_text(path.as_bytes()))
        .take(DIRTY_MAX)
        .collect())
}
