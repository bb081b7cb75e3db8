//! `cto explain`: why a run was allowed, blocked or failed, from its pack alone.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use cto_contract::artifact::TEST_LOG;
use cto_contract::claim::{Claim, ClaimKind};
use cto_contract::eligibility::{EligibilityDecision, Fact, GateOutcome};
use cto_contract::event::Scope;
use cto_contract::outputs::{
    ExplainOutput, ExplainTag, ExplainedBlocker, ExplainedCheck, ExplainedClaim, ExplainedGate,
};
use cto_contract::report::Report;
use cto_contract::text::{one_line, shorten};
use cto_contract::words::{ClaimLevel, RunStatus};
use cto_evidence::pack::PackDir;
use cto_runner::pack_file;

use super::Outcome;
use super::run::status_word;
use super::show::result;
use crate::failure::Exit;
use crate::printer::{BAD, FAINT, GOOD, Page, STRONG, WARN};
use crate::session::Session;

/// Lines of a failed check's output that are shown.
const OUTPUT_LINES_MAX: usize = 20;
const OUTPUT_CHARS_MAX: usize = 200;
/// Longest line of test.log that is held.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Rows of a list that a person is shown; `--json` shows all.
const ROWS_MAX: usize = 40;

/// Say why a run was allowed, blocked or failed
///
/// Every gate with its value and where that came from, every blocker with what to do next, the check that failed with the
/// first lines of its output, the verdict on each changed path, and what would raise each claim. All of it comes from
/// the pack; `cto verify` says whether the pack can be believed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto explain latest
  cto explain ./20260601T105222Z-r1-string-slugify-k3v9qd --json | jq '.blockers[].hint'")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    let (_, report) = pack_file::report(&found.pack)?;
    let decision = pack_file::decision(&found.pack)?;
    let output = explain(report, &decision, &found.pack);
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let mut page = session.printer.page();
        shown(&mut page, &output, &decision);
        session.printer.show(&page)?;
    }
    Ok(Exit::DONE)
}

fn explain(report: Report, decision: &EligibilityDecision, pack: &Path) -> ExplainOutput {
    let sentence = sentence(&report);
    let verification = report.checks.verification.clone();
    let mut before = verification.baseline.into_iter();
    let checks = verification
        .commands
        .into_iter()
        .map(|result| {
            let (output, output_cut) = if result.passed {
                (Vec::new(), false)
            } else {
                printed(pack, &result.command)
            };
            ExplainedCheck {
                before: before.next(),
                result,
                output,
                output_cut,
            }
        })
        .collect();
    let claims = report
        .verdict
        .claims
        .iter()
        .map(|claim| ExplainedClaim {
            kind: claim.kind,
            claim: claim.kind.text().to_owned(),
            level: claim.level,
            basis: claim.basis_text(),
            raised_by: raised_by(claim, &report).map(str::to_owned),
        })
        .collect();
    ExplainOutput {
        schema_version: ExplainTag,
        run_id: report.run.run_id,
        case_id: report.run.case_id,
        backend: report.backend.backend,
        stage: report.authority.stage,
        status: report.verdict.status,
        sentence,
        gates: gate_rows(decision),
        blockers: report
            .verdict
            .blockers
            .into_iter()
            .map(|b| ExplainedBlocker {
                code: b.code,
                status: b.code.row().status,
                fault: b.code.row().fault,
                message: b.message,
                hint: b.hint,
            })
            .collect(),
        checks,
        checks_not_run: verification.not_run,
        paths: report.change.scopes,
        claims,
    }
}

fn sentence(report: &Report) -> String {
    let lane = report.backend.backend;
    let stage = report.authority.stage;
    let reason = report.verdict.failure_reason.as_deref().unwrap_or_default();
    match report.verdict.status {
        RunStatus::Pass => format!(
            "the {lane} lane was allowed at stage {stage}, changed only what it may, and the checks pass"
        ),
        RunStatus::Fail => {
            format!("the {lane} lane was allowed at stage {stage}, and the run failed: {reason}")
        }
        RunStatus::Blocked if report.backend.backend_process_started => {
            format!(
                "the {lane} lane was allowed at stage {stage}, and the run was blocked: {reason}"
            )
        }
        RunStatus::Blocked => format!("no backend was started: {reason}"),
    }
}

fn gate_rows(decision: &EligibilityDecision) -> Vec<ExplainedGate> {
    let row = |fact: &Fact| ExplainedGate {
        gate: fact.gate,
        verdict: fact.outcome,
        value: fact.value.clone(),
        source: fact.source.clone(),
        checked_at: fact.checked_at,
        blocker: fact.refusal.clone(),
    };
    decision.facts.iter().map(row).collect()
}

/// The first lines that a check printed after the change, and whether there were more. A log that is withheld or can't be
/// read has none: the reason that the harness gives stands in the report.
fn printed(pack: &Path, command: &str) -> (Vec<String>, bool) {
    let Ok(file) = PackDir::open(pack).and_then(|dir| dir.open_path(TEST_LOG)) else {
        return (Vec::new(), false);
    };
    let mut log = BufReader::new(file);
    let first = command.lines().next().unwrap_or_default();
    let begin = format!("=== after the change: $ {first}");
    let skip = command.lines().count().saturating_sub(1);
    let mut next = || -> Option<String> {
        let mut line = Vec::new();
        let read = log
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        if read.ok()? == 0 {
            return None;
        }
        if line.last() != Some(&b'\n') {
            // The rest of a line that is too long to be held.
            log.skip_until(b'\n').ok()?;
        }
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    };
    while next().map(|line| line == begin) == Some(false) {}
    for _ in 0..skip {
        next();
    }
    let mut lines = Vec::new();
    while let Some(line) = next() {
        // What the check prints could look like the end too: then less of it is shown here, and all of it is in the log.
        if is_end(&line) {
            return (lines, false);
        }
        if lines.len() == OUTPUT_LINES_MAX {
            return (lines, true);
        }
        lines.push(shorten(&line, OUTPUT_CHARS_MAX));
    }
    (lines, false)
}

fn is_end(line: &str) -> bool {
    ["exit code ", "signal ", "did not run"].iter().any(|end| {
        line.strip_prefix("--- ")
            .is_some_and(|l| l.starts_with(end))
    })
}

/// What would give a claim a higher level.
fn raised_by(claim: &Claim, report: &Report) -> Option<&'static str> {
    if claim.level == ClaimLevel::Verified {
        return None;
    }
    let started = report.backend.backend_process_started;
    let inferred = claim.level == ClaimLevel::Inferred;
    Some(match claim.kind {
        ClaimKind::OperatorAccepted => {
            "an operator looks at the change and decides; no run can do that"
        }
        ClaimKind::BackendAccount if started => {
            "nothing: a backend's word about itself stays its word"
        }
        _ if !started => "a run whose backend starts: see the blockers",
        ClaimKind::BackendAccount => return None,
        ClaimKind::PathsWithinContract => {
            "a change of allowed paths only; `cto why PATH --run RUN` names the rule that refuses one"
        }
        ClaimKind::PatchGivesCheckedTree => {
            "a change that can be written as a patch, and checks that are reached"
        }
        ClaimKind::ChecksPass if inferred => {
            "a check that runs outside the process of the code under test: an oracle, which the backend never sees"
        }
        ClaimKind::ChecksPass => "a change on which all checks pass",
        ClaimKind::ChecksFailBefore if inferred => {
            "the same: an oracle outside the process of the code under test"
        }
        ClaimKind::ChecksFailBefore => {
            "a check that fails on the untouched baseline, and passes with the change; `must_fail_before: true` insists on it"
        }
        ClaimKind::SourceUnchanged => "a source that nobody changes while the run goes on",
        ClaimKind::NothingSurvived => {
            "a kernel that allows pid namespaces; `cto doctor` says what is missing"
        }
        ClaimKind::WritesConfined => {
            "confinement of class `full`; `cto doctor` says what this kernel refuses"
        }
    })
}

fn shown(page: &mut Page, output: &ExplainOutput, decision: &EligibilityDecision) {
    let (word, style) = status_word(output.status);
    page.styled(style, word)
        .text("  ")
        .styled(STRONG, &one_line(&output.sentence))
        .end();
    page.field("run", output.run_id.as_str());
    if !output.blockers.is_empty() {
        page.heading("What stood in the way");
        for blocker in &output.blockers {
            page.text("  ")
                .styled(BAD, blocker.code.as_str())
                .text(": ")
                .line(&one_line(&blocker.message));
            page.text("    fault: ").line(blocker.fault.as_str());
            page.text("    next: ").line(&one_line(&blocker.hint));
        }
    }
    page.heading("Gates");
    gates(page, decision);
    page.heading("Checks");
    checks(page, output);
    paths(page, output);
    page.heading("What is proven, and what would raise it");
    for claim in &output.claims {
        let style = match claim.level {
            ClaimLevel::Verified => GOOD,
            ClaimLevel::Inferred => WARN,
            ClaimLevel::SelfReported | ClaimLevel::Absent => FAINT,
        };
        page.text("  ")
            .styled(style, &format!("{:<13}", claim.level))
            .text(" ")
            .line(&one_line(&claim.claim));
        if let Some(by) = &claim.raised_by {
            page.text("                ")
                .styled(FAINT, &format!("by {by}"))
                .end();
        }
    }
}

/// Every gate of a decision: its verdict, its value, and where that came from.
pub(crate) fn gates(page: &mut Page, decision: &EligibilityDecision) {
    for row in gate_rows(decision) {
        let (word, style) = match row.verdict {
            GateOutcome::Passed => ("passed", GOOD),
            GateOutcome::Missing => ("missing", BAD),
            GateOutcome::NotRequired => ("not required", FAINT),
            GateOutcome::Unknown => ("unknown", WARN),
        };
        page.text("  ")
            .styled(style, &format!("{word:<12}"))
            .text(&format!(" {:<18} ", row.gate))
            .text(&shorten(
                row.value.as_deref().unwrap_or("not looked at"),
                120,
            ))
            .text("  ")
            .styled(FAINT, &format!("({})", one_line(&row.source)))
            .end();
    }
}

fn checks(page: &mut Page, output: &ExplainOutput) {
    if let Some(why) = &output.checks_not_run {
        page.line(&format!("  none ran: {}", one_line(why)));
    } else if output.checks.is_empty() {
        page.line("  none ran");
    }
    for check in &output.checks {
        let (word, style) = if check.result.passed {
            ("passed", GOOD)
        } else {
            ("failed", BAD)
        };
        page.text("  ")
            .styled(style, word)
            .text("  ")
            .line(&shorten(&check.result.command, 120));
        let before = check
            .before
            .as_ref()
            .map_or_else(|| "not reached".to_owned(), result);
        page.text("          ")
            .styled(
                FAINT,
                &format!("before: {before}; after: {}", result(&check.result)),
            )
            .end();
        if let Some(why) = check
            .result
            .reason
            .as_ref()
            .filter(|_| !check.result.passed)
        {
            page.text("          ").line(&one_line(why));
        }
        for line in &check.output {
            page.text("          | ").line(&one_line(line));
        }
        if check.output_cut {
            page.text("          ")
                .styled(FAINT, "… the rest is in test.log: `cto logs`")
                .end();
        }
    }
}

fn paths(page: &mut Page, output: &ExplainOutput) {
    page.heading("Changed paths");
    if output.paths.is_empty() {
        page.line("  none were judged");
    }
    for path in output.paths.iter().take(ROWS_MAX) {
        let style = if path.scope == Scope::Allowed {
            GOOD
        } else {
            BAD
        };
        page.text("  ")
            .styled(style, &format!("{:<15}", path.scope))
            .text(" ")
            .text(&one_line(&path.path))
            .text("  ")
            .styled(FAINT, &format!("by {}", one_line(&path.decided_by)))
            .end();
    }
    if output.paths.len() > ROWS_MAX {
        page.line(&format!("  … and {} more", output.paths.len() - ROWS_MAX));
    }
}
