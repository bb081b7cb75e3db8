//! The checks: on the fresh copy with only the patch applied, beside the baseline's, with a canary.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cto_checkout::{
    Patch, PatchedLayer, ScanCaps, WorkingCopy, apply_patch, ignored, upper_changes,
};
use cto_contract::artifact::{FreshnessSource, TEST_LOG};
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{EventKind, ReviewVerdict, Step, VerificationCompleted};
use cto_contract::ids::{TreeId, to_hex};
use cto_contract::text::{path_text, shorten};
use cto_contract::verification::{Canary, CanaryStatus, Verification};
use cto_contract::words::ClaimLevel;
use cto_evidence::writer::PackWriter;
use cto_rules::checks::judge;
use cto_sandbox::Attempt;

use crate::bench::{Bench, Tree};
use crate::checks::{CanaryRun, Execution};
use crate::live::{Applied, AppliedTree, Live, Prepared, StepError, StepResult};
use crate::steps::prepare::missing;
use crate::{clock, error_chain};

/// How many dirty paths a pack lists.
const DIRTY_MAX: usize = 100;

/// What the checks showed.
struct Checked {
    after: Vec<Execution>,
    canary: CanaryRun,
    tree_id: TreeId,
    dirty_paths: Vec<String>,
}

fn environment(what: String) -> StepError {
    StepError::Environment {
        what,
        code: BlockerCode::VerificationFailed,
    }
}

impl Live<'_> {
    pub(crate) fn step_verification(&mut self) -> StepResult {
        if let Some((why, acceptable, blockers)) = self.reason_not_to_check() {
            // What the baseline showed still belongs into the log.
            let before = self.join_baseline_checks()?;
            self.write_test_log(&before, &[], &[], Some(&why))?;
            let blockers = blockers.into_iter().chain(self.rejection()).collect();
            return self.record_unchecked(&why, acceptable, blockers, before);
        }
        let Checked {
            after,
            canary,
            tree_id: verified_tree_id,
            dirty_paths,
        } = self.check()?;
        let before = self.join_baseline_checks()?;
        if self.stop.is_asked() {
            // Checks that were told to stop failed for that reason alone.
            let why = "a stop was asked for while the checks ran";
            self.write_test_log(&before, &after, &canary.executions, Some(why))?;
            return self.record_unchecked(why, false, Vec::new(), before);
        }
        self.write_test_log(&before, &after, &canary.executions, None)?;
        for execution in after.iter().chain(&canary.executions) {
            if let Some((limit, allowed)) = &execution.limit {
                let blocker = Blocker::new(
                    BlockerCode::LimitExceeded,
                    "",
                    format!(
                        "`{}` went over {limit}, which is {allowed}",
                        shorten(&execution.line, 120)
                    ),
                );
                self.limit_hit(limit, *allowed, Step::Verification, blocker)?;
            }
        }
        let words = self.denial_words();
        let tried = |executions: &[Execution]| -> Vec<Attempt> {
            let all = executions.iter().flat_map(|e| &e.attempts);
            all.cloned().collect()
        };
        let with_canary = [tried(&after), tried(&canary.executions)].concat();
        for denial in words.of_checks(&tried(&before), &with_canary) {
            self.record(EventKind::SandboxDenied(denial))?;
        }
        let results = |executions: &[Execution]| {
            executions
                .iter()
                .map(|e| e.result.clone())
                .collect::<Vec<_>>()
        };
        let judgement = judge(
            &self.contract,
            results(&before),
            results(&after),
            canary.names,
            canary.canary,
        );
        let mut blockers = judgement.blockers;
        blockers.extend(self.rejection());
        if !dirty_paths.is_empty() {
            blockers.push(Blocker::new(
                BlockerCode::DirtyEndingTree,
                "",
                format!(
                    "the checks changed: {}",
                    shorten(&dirty_paths.join(", "), 400)
                ),
            ));
        }
        let patch_tree = self
            .state()
            .patch
            .as_ref()
            .and_then(|p| p.applied_tree_id.clone());
        if patch_tree.as_ref() != Some(&verified_tree_id) {
            blockers.push(Blocker::new(
                BlockerCode::VerifiedTreeMismatch,
                "",
                format!("tree {verified_tree_id} was checked, not the patch's"),
            ));
        }
        let data = VerificationCompleted {
            verification: judgement.verification,
            verified_tree_id: Some(verified_tree_id),
            dirty_paths,
            blockers,
        };
        self.record(EventKind::VerificationCompleted(data))?;
        Ok(Vec::new())
    }

    /// The backend's own reviewer counts for nothing but a rejection.
    fn rejection(&self) -> Option<Blocker> {
        let words = self.state().backend.as_ref()?.agent.as_ref()?;
        if words.review != Some(ReviewVerdict::Reject) {
            return None;
        }
        let note = words.review_note.as_deref().unwrap_or("without a reason");
        Some(Blocker::new(
            BlockerCode::ReviewerRejected,
            "",
            format!(
                "the backend's reviewer rejects the change: {}",
                shorten(note, 400)
            ),
        ))
    }

    /// Why nothing is checked: the sentence, whether that still lets the run pass, and what blocks it.
    fn reason_not_to_check(&self) -> Option<(String, bool, Vec<Blocker>)> {
        let state = self.state();
        let refused = state.patch.as_ref().is_none_or(|p| !p.blockers.is_empty())
            || state.diff.as_ref().is_none_or(|d| !d.blockers.is_empty())
            || self.parts.applied.is_none();
        if refused {
            return Some((
                "the change is not acceptable, so its code was not run".to_owned(),
                false,
                Vec::new(),
            ));
        }
        if !self.contract.verification_commands.is_empty() {
            return None;
        }
        Some(match &self.contract.no_test_rationale {
            Some(why) => (
                format!("not verified by tests: {}", shorten(why, 400)),
                true,
                Vec::new(),
            ),
            None => {
                let blocker = Blocker::new(
                    BlockerCode::MissingTestCommand,
                    "",
                    "verification is required and the contract names no command",
                );
                (
                    "no verification command was available".to_owned(),
                    false,
                    vec![blocker],
                )
            }
        })
    }

    fn record_unchecked(
        &mut self,
        why: &str,
        acceptable: bool,
        blockers: Vec<Blocker>,
        before: Vec<Execution>,
    ) -> StepResult {
        let baseline: Vec<_> = before.into_iter().map(|e| e.result).collect();
        let verified_tree_id = self
            .state()
            .patch
            .as_ref()
            .and_then(|p| p.applied_tree_id.clone())
            .filter(|_| acceptable);
        let verification = Verification {
            // Nothing that did not run has passed; with a rationale that is shown, not held against the change.
            passed: false,
            commands: Vec::new(),
            baseline_failed: (!baseline.is_empty()).then(|| baseline.iter().any(|r| !r.passed)),
            baseline,
            lost_tests: Vec::new(),
            canary: Canary {
                status: CanaryStatus::NotApplicable,
                runner: None,
                detail: why.to_owned(),
            },
            level: ClaimLevel::Absent,
            not_run: Some(why.to_owned()),
        };
        self.record(EventKind::VerificationCompleted(VerificationCompleted {
            verification,
            verified_tree_id,
            dirty_paths: Vec::new(),
            blockers,
        }))?;
        Ok(Vec::new())
    }

    /// Runs the commands on the tree of the patch while the canary runs on another one.
    fn check(&self) -> Result<Checked, StepError> {
        let io = |e: io::Error| environment(e.to_string());
        let prepared = self
            .parts
            .prepared
            .as_ref()
            .ok_or_else(|| missing("the workspace"))?;
        let applied = self
            .parts
            .applied
            .as_ref()
            .ok_or_else(|| missing("the checked copy"))?;
        let patch = self
            .parts
            .patch
            .as_ref()
            .ok_or_else(|| missing("the patch"))?;
        let work = &self.work;
        let token = to_hex(&clock::random::<8>().map_err(|e| environment(e.to_string()))?);
        let tree = match &applied.tree {
            AppliedTree::Layer(layer) => over(prepared, layer, self.work.join("checked")),
            AppliedTree::Copy(copy) => Tree::Copy(copy.path().to_owned()),
        };
        let bench = prepared.ground.bench("checked", tree).map_err(io)?;
        let (after, canary) = std::thread::scope(|scope| {
            let canary = scope.spawn(|| {
                let bench = canary_bench(prepared, applied, patch, work)?;
                prepared.checker.canary(&bench, &token)
            });
            let after = prepared.checker.after(&bench);
            let died = |_| Err(io::Error::other("the canary's thread died"));
            (after, canary.join().unwrap_or_else(died))
        });
        let dirty_paths = self.dirty_paths(&applied.tree, bench.upper())?;
        Ok(Checked {
            after: after.map_err(io)?,
            canary: canary.map_err(io)?,
            tree_id: applied.tree_id.clone(),
            dirty_paths,
        })
    }

    /// What the checks changed in the tree: tracked files, and new ones that the baseline does not ignore.
    fn dirty_paths(
        &self,
        applied: &AppliedTree,
        upper: Option<&Path>,
    ) -> Result<Vec<String>, StepError> {
        let prepared = self
            .parts
            .prepared
            .as_ref()
            .ok_or_else(|| missing("the workspace"))?;
        let since = match (applied, upper) {
            (AppliedTree::Copy(copy), _) => copy.changes_since(),
            (AppliedTree::Layer(layer), Some(upper)) => {
                upper_changes(upper, &layer.manifest, &ScanCaps::default())
            }
            (AppliedTree::Layer(_), None) => return Err(missing("the upper directory")),
        }
        .map_err(|e| environment(error_chain(&e)))?;
        let new = since.changes.iter().filter(|c| c.is_new()).map(|c| &c.path);
        let ignored = ignored(&prepared.git_dir, &prepared.baseline, new)
            .map_err(|e| environment(error_chain(&e)))?;
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

    pub(crate) fn join_baseline_checks(&mut self) -> Result<Vec<Execution>, StepError> {
        match self.parts.baseline_checks.take() {
            None => Ok(Vec::new()),
            Some(checks) => checks
                .join(&self.stop)
                .map_err(|e| environment(format!("the checks on the baseline could not run: {e}"))),
        }
    }

    fn write_test_log(
        &mut self,
        before: &[Execution],
        after: &[Execution],
        canary: &[Execution],
        not_run: Option<&str>,
    ) -> Result<(), StepError> {
        let failed = |source| StepError::Artifact {
            path: TEST_LOG.to_owned(),
            source,
        };
        let writer =
            PackWriter::open(&self.pack).map_err(|e| failed(io::Error::other(error_chain(&e))))?;
        let file = writer
            .create_new(TEST_LOG)
            .map_err(|e| failed(io::Error::other(error_chain(&e))))?;
        let mut log = io::BufWriter::new(file);
        let written: io::Result<()> = (|| {
            for execution in before {
                section(&mut log, "before the change", execution)?;
            }
            for execution in after {
                section(&mut log, "after the change", execution)?;
            }
            for execution in canary {
                section(
                    &mut log,
                    "after the change, with a planted test that must fail",
                    execution,
                )?;
            }
            if let Some(why) = not_run {
                writeln!(log, "=== after the change: nothing ran\n{why}")?;
            }
            log.flush()
        })();
        written.map_err(failed)?;
        self.book.note(TEST_LOG, FreshnessSource::Written);
        Ok(())
    }
}

/// A tree with the patch for the canary alone: nothing is copied when none will be planted.
fn canary_bench(
    prepared: &Prepared,
    applied: &Applied,
    patch: &Patch,
    work: &Path,
) -> io::Result<Bench> {
    let other = |e: &dyn std::error::Error| io::Error::other(error_chain(e));
    let place = work.join("canary");
    let tree = match &applied.tree {
        AppliedTree::Layer(layer) => over(prepared, layer, place),
        AppliedTree::Copy(_) if !prepared.checker.has_known_runner() => Tree::Copy(place),
        AppliedTree::Copy(_) => {
            let copy = WorkingCopy::make(&prepared.baseline, &place).map_err(|e| other(&e))?;
            apply_patch(&prepared.git_dir, &patch.path, &copy).map_err(|e| other(&e))?;
            if let Some(layer) = &prepared.git_layer {
                layer.copy_into(&copy).map_err(|e| other(&e))?;
            }
            Tree::Copy(place)
        }
    };
    prepared.ground.bench("canary", tree)
}

/// The patch over everything that lies below.
fn over(prepared: &Prepared, layer: &PatchedLayer, upper: PathBuf) -> Tree {
    let lowers = std::iter::once(&layer.path).chain(&prepared.below);
    Tree::Overlay {
        lowers: lowers.cloned().collect(),
        upper,
    }
}

pub(super) fn section(
    log: &mut impl io::Write,
    when: &str,
    execution: &Execution,
) -> io::Result<()> {
    let r = &execution.result;
    writeln!(log, "=== {when}: $ {}", execution.line)?;
    let length = copy_file(log, &execution.output)?;
    if length > 0 {
        writeln!(log)?;
    }
    let end = match (r.exit_code, r.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "did not run".to_owned(),
    };
    writeln!(
        log,
        "--- {end}, {:.3} s{}{}\n",
        r.seconds,
        if r.timed_out {
            ", over its wall clock"
        } else {
            ""
        },
        if r.output_capped {
            ", output capped"
        } else {
            ""
        }
    )
}

fn copy_file(out: &mut impl io::Write, path: &Path) -> io::Result<u64> {
    io::copy(&mut File::open(path)?, out)
}
