//! The walk of one run, in one direction: each step takes what the one before made.
//!
//! The rules decide from the log alone whether the next step is taken; where they stop, the run is completed.

use cto_contract::event::Step;

use crate::baseline_checks::Baseline;
use crate::harness::RunError;
use crate::open_run::{Halt, OpenRun};
use crate::source::Source;
use crate::steps::{self, Eligible, FakeBaseline, Permission};

/// Takes a run from its contract to its verdict.
pub(crate) fn walk(run: &mut OpenRun<'_>) -> Result<(), RunError> {
    let eligible = match enter(run) {
        Ok(eligible) => eligible,
        Err(Halt::Stopped) => return steps::complete(run, None, None),
        Err(Halt::Failed(error)) => return Err(error),
    };
    let Eligible {
        permission,
        mut source,
    } = eligible;
    let mut ruler = None;
    match work(run, permission, source.as_deref_mut(), &mut ruler) {
        Ok(()) | Err(Halt::Stopped) => steps::complete(run, source.as_deref(), ruler.as_ref()),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// Takes a run as far as its plan: nothing is started but what it takes to look.
pub(crate) fn walk_to_plan(run: &mut OpenRun<'_>) -> Result<(), RunError> {
    let planned = enter(run).and_then(|eligible| {
        let source = eligible.source.as_deref();
        let (prepared, _) = run.step(Step::Prepare, |run| {
            steps::prepare(run, &eligible.permission.sandbox, source)
        })?;
        run.step(Step::Plan, |run| {
            steps::plan(run, &eligible.permission, &prepared, source)
        })
    });
    match planned {
        Ok(_) | Err(Halt::Stopped) => Ok(()),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// What was asked for, and whether it may run at all.
fn enter(run: &mut OpenRun<'_>) -> Result<Eligible, Halt> {
    run.step(Step::Contract, steps::contract)?;
    run.step(Step::Eligibility, steps::eligibility)?
        .ok_or(Halt::Stopped)
}

/// Everything between the decision and the verdict.
fn work(
    run: &mut OpenRun<'_>,
    permission: Permission,
    mut source: Option<&mut Source>,
    ruler: &mut Option<FakeBaseline>,
) -> Result<(), Halt> {
    let looked_at = source.as_deref();
    let (mut prepared, patch_base) = run.step(Step::Prepare, |run| {
        steps::prepare(run, &permission.sandbox, looked_at)
    })?;
    let mut planned = run.step(Step::Plan, |run| {
        steps::plan(run, &permission, &prepared, looked_at)
    })?;
    if run.is_next(Step::FakeBaseline) {
        *ruler = Some(run.step(Step::FakeBaseline, steps::fake_baseline)?);
    }
    if run.is_next(Step::Setup) {
        run.step(Step::Setup, |run| {
            steps::setup(run, &mut prepared, &mut planned, looked_at)
        })?;
    }
    let mut baseline = Baseline::default();
    if run.is_next(Step::Baseline) {
        baseline = run.step(Step::Baseline, |run| steps::baseline(run, &prepared))?;
    }
    let baseline = run.step(Step::Backend, |run| {
        let source = source.as_deref_mut();
        steps::backend(run, permission, planned, &prepared, source, baseline)
    })?;
    let changed = run
        .step(Step::Change, |run| {
            steps::change(run, &prepared, patch_base)
        })?
        .ok_or(Halt::Stopped)?;
    run.step(Step::Policy, |run| steps::policy(run, &changed))?;
    let looked_at = source.as_deref();
    run.step(Step::Verification, |run| {
        steps::verification(run, &prepared, baseline, &changed, looked_at)
    })
}
