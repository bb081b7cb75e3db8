//! `cto explain`: why a run was allowed, blocked or failed, from its pack alone.

use cto_contract::eligibility::{Fact, GateOutcome};
use cto_contract::event::Scope;
use cto_contract::outputs::{ExplainOutput, ExplainedClaim};
use cto_contract::text::{one_line, shorten};
use cto_contract::trust::Provenance;
use cto_contract::words::ClaimLevel;
use cto_runner::explain_pack;

use super::Outcome;
use super::run::status_word;
use super::show::result;
use crate::failure::Exit;
use crate::printer::{BAD, FAINT, GOOD, Page, STRONG, WARN};
use crate::session::Session;

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
    let output = explain_pack(&found)?;
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let mut page = session.printer.page();
        shown(&mut page, &output);
        session.printer.show(&page)?;
    }
    Ok(Exit::DONE)
}

fn shown(page: &mut Page, output: &ExplainOutput) {
    let (word, style) = status_word(output.status);
    page.styled(style, word)
        .text("  ")
        .styled(STRONG, &one_line(&output.sentence))
        .end();
    page.field("run", output.run_id.as_str());
    let provenance = Provenance {
        origin: output.origin,
        of_this_home: output.of_this_home,
    };
    page.field("origin", &provenance.text());
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
    gates(page, &output.gates);
    page.heading("Checks");
    checks(page, output);
    paths(page, output);
    page.heading("What is proven, and what would raise it");
    for ExplainedClaim { claim, raised_by } in &output.claims {
        let style = match claim.level {
            ClaimLevel::Verified => GOOD,
            ClaimLevel::Inferred => WARN,
            ClaimLevel::SelfReported | ClaimLevel::Absent => FAINT,
        };
        page.text("  ")
            .styled(style, &format!("{:<13}", claim.level))
            .text(" ")
            .line(claim.kind.text());
        if let Some(by) = raised_by {
            page.text("                ")
                .styled(FAINT, &format!("by {by}"))
                .end();
        }
    }
}

/// Every gate of a decision: its verdict, its value, and where that came from.
pub(crate) fn gates(page: &mut Page, facts: &[Fact]) {
    for fact in facts {
        let (word, style) = match fact.outcome {
            GateOutcome::Passed => ("passed", GOOD),
            GateOutcome::Missing => ("missing", BAD),
            GateOutcome::NotRequired => ("not required", FAINT),
            GateOutcome::Unknown => ("unknown", WARN),
        };
        page.text("  ")
            .styled(style, &format!("{word:<12}"))
            .text(&format!(" {:<18} ", fact.gate))
            .text(&shorten(
                fact.value.as_deref().unwrap_or("not looked at"),
                120,
            ))
            .text("  ")
            .styled(FAINT, &format!("({})", one_line(&fact.source)))
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
