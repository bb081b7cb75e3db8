//! The checks: on the fresh copy with only the patch applied, beside the baseline's, with a canary.

use std::io;
use std::path::Path;

use cto_checkout::{ScanCaps, ignored, upper_changes};
use cto_contract::artifact::TEST_LOG;
use cto_contract::event::{EventKind, Step};
use cto_contract::ids::to_hex;
use cto_contract::text::path_text;
use cto_contract::verification::CommandResult;
use cto_rules::verdicts::{self, CheckFacts, Commands, Fault, LimitFact, NotChecked};
use cto_sandbox::Attempt;

use crate::checks::{CanaryRun, Execution};
use crate::denials::DenialWords;
use crate::open_run::{OpenRun, StepError};
use crate::source::Source;
use crate::steps::backend::Ran;
use crate::steps::change::Changed;
use crate::steps::prepare::Prepared;
use crate::test_log::{AFTER, write_sections};
use crate::trees::{Applied, AppliedTree};
use crate::{clock, error_chain};

/// How many dirty paths a pack lists.
const DIRTY_MAX: usize = 100;

const BEFORE: &str = "before the change";
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
    ran: Ran,
    changed: &Changed,
    source: Option<&Source>,
) -> Result<(), StepError> {
    let nothing = verdicts::nothing_to_check(run.state(), &run.contract);
    let applied = match (nothing, &changed.applied) {
        (None, Some(applied)) => applied,
        (nothing, _) => {
            let why = nothing.unwrap_or(NotChecked::ChangeRefused);
            return skip(run, ran, &why, &[]);
        }
    };
    let Checked {
        after,
        canary,
        dirty_paths,
    } = check(run, prepared, applied, changed)?;
    if run.stop.is_asked() {
        // Checks that were told to stop failed for that reason alone.
        let parts = [(AFTER, after.as_slice()), (PLANTED, &canary.executions)];
        return skip(run, ran, &NotChecked::Stopped, &parts);
    }
    let before = baseline(run, ran)?;
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
    let facts = CheckFacts {
        baseline: results(before),
        after: results(after),
        names_beside_canary: canary.names,
        canary: canary.canary,
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
    ran: Ran,
    why: &NotChecked,
    parts: &[(&str, &[Execution])],
) -> Result<(), StepError> {
    let before = baseline(run, ran)?;
    let mut all = vec![(BEFORE, before.as_slice())];
    all.extend(parts);
    write_sections(run, TEST_LOG, &all, Some(&why.sentence()))?;
    let event = verdicts::not_checked(run.state(), why, results(before));
    run.record(EventKind::VerificationCompleted(event))?;
    Ok(())
}

/// Waits for what the checks showed on the untouched baseline.
fn baseline(run: &OpenRun<'_>, ran: Ran) -> Result<Vec<Execution>, StepError> {
    match ran.baseline_checks {
        None => Ok(Vec::new()),
        Some(checks) => checks
            .join(&run.stop)
            .map_err(|e| not_run(Commands::BaselineChecks, &e)),
    }
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
) -> Result<Checked, StepError> {
    let failed = |e: io::Error| not_run(Commands::Checks, &e);
    let (trees, below, checker) = (&prepared.trees, &prepared.below, &prepared.checker);
    let work = &run.work;
    let token = clock::random::<8>().map_err(|e| not_run(Commands::Checks, &e))?;
    let token = to_hex(&token);
    let room = trees.checked_room(below, applied, work).map_err(failed)?;
    let (after, canary) = std::thread::scope(|scope| {
        let canary = scope.spawn(|| {
            let pair = (applied, &changed.patch);
            let room = trees.canary_room(below, pair, work, checker.has_known_runner())?;
            checker.canary(&room, &token)
        });
        let after = checker.after(&room);
        let died = |_| Err(io::Error::other("the canary's thread died"));
        (after, canary.join().unwrap_or_else(died))
    });
    Ok(Checked {
        after: after.map_err(failed)?,
        canary: canary.map_err(failed)?,
        dirty_paths: dirty_paths(prepared, &applied.tree, room.upper())?,
    })
}

/// What the checks changed in the tree: tracked files, and new ones that the baseline does not ignore.
fn dirty_paths(
    prepared: &Prepared,
    applied: &AppliedTree,
    upper: Option<&Path>,
) -> Result<Vec<String>, StepError> {
    let since = match (applied, upper) {
        (AppliedTree::Copy(copy), _) => copy.changes_since(),
        (AppliedTree::Layer(layer), Some(upper)) => {
            upper_changes(upper, &layer.manifest, &ScanCaps::default())
        }
        (AppliedTree::Layer(_), None) => {
            let why = "the room has no upper directory".to_owned();
            let which = Commands::Checks;
            return Err(Fault::CommandsNotRun { which, why }.into());
        }
    };
    let since = match since {
        Ok(since) => since,
        // More than can be listed is more than checks may leave.
        Err(error) if error.is_limit() => return Ok(vec![error_chain(&error)]),
        Err(error) => return Err(not_run(Commands::Checks, &error)),
    };
    let new = since.changes.iter().filter(|c| c.is_new()).map(|c| &c.path);
    let trees = &prepared.trees;
    let ignored =
        ignored(&trees.git_dir, &trees.baseline, new).map_err(|e| not_run(Commands::Checks, &e))?;
    let changed = since
        .changes
        .iter()
        .filter(|c| !ignored.contains(&c.path))
        .map(|c| path_text(c.path.as_bytes()));
    let odd = since
        .oddities
        .iter()
        .filter(|o| o.kind.is_violation())
        .map(|o| path_text(o.path.as_bytes()));
    Ok(changed.chain(odd).take(DIRTY_MAX).collect())
}
