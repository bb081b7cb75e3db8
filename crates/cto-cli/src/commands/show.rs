//! `cto show`: the report, for a person.

use cto_contract::report::Report;
use cto_contract::text::{one_line, shorten};
use cto_contract::trust::Provenance;
use cto_contract::verification::CommandResult;
use cto_rules::views::checks::{EXIT_CODE_ONLY, changed_tests, exit_code_only};
use cto_rules::views::progress::warning;
use cto_runner::pack_file;

use super::Outcome;
use super::run::status_word;
use super::verify::claims;
use crate::failure::Exit;
use crate::printer::{BAD, FAINT, GOOD, Page, STRONG, WARN};
use crate::session::Session;

/// Rows of a list that a person is shown; the whole is in the report.
const ROWS_MAX: usize = 40;

/// Show the report of a run
///
/// The verdict, what is proven and what is not, what changed, how it was checked and confined. It shows what the
/// pack says; `cto verify` says whether the pack can be believed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto show latest
  cto show 20260601T1052 --json | jq .changed_files")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    if session.printer.json {
        session
            .printer
            .document(&pack_file::shown_report(&found)?)?;
        return Ok(Exit::DONE);
    }
    let (_, report) = pack_file::report(&found)?;
    let mut page = session.printer.page();
    verdict(&mut page, &report, found.provenance);
    page.heading("Proven, and not proven");
    claims(&mut page, &report.verdict.claims, session.printer.verbose);
    change(&mut page, &report);
    checks(&mut page, &report);
    confinement(&mut page, &report);
    page.heading("Where");
    page.field("pack", &found.pack.display().to_string());
    page.field("check it", &format!("cto verify {}", report.run.run_id));
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}

fn verdict(page: &mut Page, report: &Report, provenance: Provenance) {
    let (word, style) = status_word(report.verdict.status);
    page.styled(style, word)
        .text("  ")
        .styled(STRONG, &one_line(&report.run.title))
        .end();
    page.field("run", report.run.run_id.as_str());
    page.field("origin", &provenance.text());
    page.field("case", report.run.case_id.as_str());
    page.field(
        "lane",
        &format!(
            "{}, stage {} ({})",
            report.backend.backend, report.authority.stage, report.authority.allowed_mutation_scope
        ),
    );
    page.field("started", &report.run.run_started_at.to_string());
    page.field("finished", &report.run.run_finished_at.to_string());
    if report.run.conformance {
        page.field("note", "a conformance pack: it never counts as a real pass");
    }
    if let Some(reason) = &report.verdict.failure_reason {
        page.field("reason", reason);
    }
    if !report.verdict.blockers.is_empty() {
        page.heading("Why");
        for blocker in &report.verdict.blockers {
            page.text("  ")
                .styled(BAD, blocker.code.as_str())
                .text(": ")
                .line(&one_line(&blocker.message));
            page.text("    next: ").line(&one_line(&blocker.hint));
        }
    }
}

fn change(page: &mut Page, report: &Report) {
    page.heading("What changed");
    if report.change.changes.is_empty() {
        page.line("  nothing");
    }
    for change in report.change.changes.iter().take(ROWS_MAX) {
        let scope = report.change.scopes.iter().find(|s| s.path == change.path);
        page.text(&format!("  {:<12} ", change.change))
            .text(&one_line(&change.path))
            .text("  ");
        page.styled(FAINT, scope.map_or("not checked", |s| s.scope.as_str()))
            .end();
    }
    if report.change.changes.len() > ROWS_MAX {
        page.line(&format!(
            "  … and {} more",
            report.change.changes.len() - ROWS_MAX
        ));
    }
    if report.change.residue.count > 0 {
        page.line(&format!(
            "  thrown away: {} ignored files",
            report.change.residue.count
        ));
    }
    for oddity in report.change.oddities.iter().take(ROWS_MAX) {
        page.line(&format!(
            "  {} {}: {}",
            if oddity.refused { "refused" } else { "noted" },
            one_line(&oddity.path),
            one_line(&oddity.kind)
        ));
    }
}

fn checks(page: &mut Page, report: &Report) {
    page.heading("Checks");
    let verification = &report.checks.verification;
    if let Some(why) = &verification.not_run {
        page.line(&format!("  not verified by tests: {}", one_line(why)));
        return;
    }
    for command in &verification.commands {
        let (word, style) = if command.passed {
            ("passed", GOOD)
        } else {
            ("failed", BAD)
        };
        page.text("  ")
            .styled(style, word)
            .text("  ")
            .line(&shorten(command.line(), 120));
        let before = verification
            .baseline
            .iter()
            .find(|b| b.is_same_check(command))
            .map_or_else(|| "not reached".to_owned(), result);
        page.text("          ")
            .styled(
                FAINT,
                &format!(
                    "before: {before}; after: {}; claim {}",
                    result(command),
                    command.level
                ),
            )
            .end();
        if let Some(why) = command.reason.as_ref().filter(|_| !command.passed) {
            page.text("          ").line(&one_line(why));
        }
    }
    for (command, canary) in verification.canaries() {
        page.line(&format!(
            "  canary of `{}`: {} ({})",
            shorten(&one_line(command.line()), 60),
            canary.status,
            one_line(&canary.detail)
        ));
    }
    for command in exit_code_only(verification) {
        let command = shorten(&one_line(command), 60);
        page.line(&format!("  `{command}`: {EXIT_CODE_ONLY}"));
    }
    for (what, tests) in changed_tests(verification) {
        page.line(&format!("  {what}: {}", shorten(&one_line(&tests), 400)));
    }
}

pub(crate) fn result(command: &CommandResult) -> String {
    let how = match (command.exit_code, command.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "did not run".to_owned(),
    };
    let tests = command
        .tests
        .as_ref()
        .map_or_else(String::new, |t| format!(", {}/{} tests", t.passed, t.ran));
    format!("{how}{tests}, {:.2} s", command.seconds)
}

fn confinement(page: &mut Page, report: &Report) {
    page.heading("Confinement and cost");
    let names = |in_force: bool| {
        let list: Vec<String> = report
            .sandbox
            .layers
            .iter()
            .filter(|l| l.in_force == in_force)
            .map(|l| l.name.replace('_', " "))
            .collect();
        if list.is_empty() {
            "nothing".to_owned()
        } else {
            list.join(", ")
        }
    };
    let sandbox = &report.sandbox;
    let chosen = (sandbox.class.zip(sandbox.provider_from)).zip(sandbox.provider.as_ref());
    page.field(
        "class",
        &chosen.map_or_else(
            || "the run ended before a sandbox was chosen".to_owned(),
            |((class, from), provider)| format!("{class} ({provider}, from: {from})"),
        ),
    );
    // Where nothing ran, nothing had to be held.
    let warning =
        (sandbox.no_survivors.and(chosen)).and_then(|((class, from), _)| warning(class, from));
    if let Some(warning) = warning {
        page.styled(WARN, &warning).end();
    }
    page.field("in force", &names(true));
    page.field("not", &names(false));
    for denial in report.sandbox.denials.iter().take(ROWS_MAX) {
        page.field(
            "denied",
            &format!("{} {} by {}", denial.what, denial.target, denial.process),
        );
    }
    let seconds = |v: Option<f64>| v.map_or_else(|| "unknown".to_owned(), |s| format!("{s:.2} s"));
    let resources = &report.resources;
    page.field(
        "cost",
        &format!(
            "wall {}, backend {}, checks {}",
            seconds(resources.wall_seconds),
            seconds(resources.backend_seconds),
            seconds(resources.verification_seconds)
        ),
    );
}
