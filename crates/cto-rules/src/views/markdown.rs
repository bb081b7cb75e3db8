//! The report for a person: `report.md`.

mod source;

use std::fmt::Write as _;

use cto_contract::event::DenialKind;
use cto_contract::report::Report;
use cto_contract::task::TaskContract;
use cto_contract::text::{one_line, shorten};
use cto_contract::verification::CommandResult;
use cto_contract::words::{ClaimLevel, RunStatus, SandboxClass};

/// Longest lists that a person is shown; the whole is in `report.json`.
const ROWS_MAX: usize = 40;
const CODE_CHARS_MAX: usize = 180;

/// Writes the page. Everything that came from outside is neutralised.
pub fn markdown(report: &Report, contract: Option<&TaskContract>) -> String {
    let mut page = Page(String::with_capacity(4096));
    verdict(&mut page, report);
    claims(&mut page, report);
    source::section(&mut page, report);
    scope(&mut page, report, contract);
    checks(&mut page, report);
    confinement(&mut page, report);
    cost(&mut page, report);
    check_it(&mut page, report);
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }

    fn heading(&mut self, text: &str) {
        let _ok = writeln!(self.0, "\n## {text}\n");
    }
}

/// Text for a table cell or a sentence: one line, no cell border, no raw HTML.
fn cell(text: &str) -> String {
    shorten(text, 200).replace('|', "\\|").replace('<', "&lt;")
}

/// Text as code, fenced by more backticks than it holds in a row, so that nothing in it ends the span.
fn code(text: &str) -> String {
    let text = one_line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    match longest {
        0 => format!("`{text}`"),
        _ => {
            let fence = "`".repeat(longest + 1);
            format!("{fence} {text} {fence}")
        }
    }
}

/// Code in a table cell. It is cut before it is fenced: an open span would let the rest of it speak.
fn code_cell(text: &str) -> String {
    code(&shorten(text, CODE_CHARS_MAX)).replace('|', "\\|")
}

fn verdict(page: &mut Page, report: &Report) {
    let mark = match report.verdict.status {
        RunStatus::Pass => "PASS",
        RunStatus::Fail => "FAIL",
        RunStatus::Blocked => "BLOCKED",
    };
    page.line(format!("# {mark}: {}", cell(&report.run.title)));
    page.line("");
    match report.verdict.status {
        RunStatus::Pass => page.line(format!(
            "The `{}` lane did the task within its bounds and every check passed. Nothing was landed; a person decides.",
            report.backend.backend
        )),
        RunStatus::Fail => page.line("The run finished and its change is **not acceptable**."),
        RunStatus::Blocked => page.line("The run was **refused**. Nothing was accepted."),
    }
    page.line("");
    page.line("| | |");
    page.line("| --- | --- |");
    page.line(format!("| run | `{}` |", report.run.run_id));
    page.line(format!("| case | `{}` |", report.run.case_id));
    page.line(format!(
        "| lane, stage | `{}`, {} ({}) |",
        report.backend.backend, report.authority.stage, report.authority.allowed_mutation_scope
    ));
    page.line(format!(
        "| started, finished | {}, {} |",
        report.run.run_started_at, report.run.run_finished_at
    ));
    if let Some(ladder) = report.authority.ladder {
        page.line(format!("| ladder | {ladder} |"));
    }
    if report.run.conformance {
        page.line("| conformance | yes: a validator's pack, never a real pass |");
    }
    if !report.verdict.blockers.is_empty() {
        page.heading("Why");
        for blocker in &report.verdict.blockers {
            page.line(format!(
                "- **`{}`**: {}",
                blocker.code,
                cell(&blocker.message)
            ));
            page.line(format!("  Next: {}.", cell(&blocker.hint)));
        }
    }
}

fn claims(page: &mut Page, report: &Report) {
    page.heading("Proven, and not proven");
    page.line("| claim | level | rests on |");
    page.line("| --- | --- | --- |");
    let mut sorted: Vec<_> = report.verdict.claims.iter().collect();
    sorted.sort_by_key(|c| std::cmp::Reverse(c.level));
    for claim in sorted {
        let level = match claim.level {
            ClaimLevel::Verified => "**verified**",
            ClaimLevel::Inferred => "inferred",
            ClaimLevel::SelfReported => "self-reported",
            ClaimLevel::Absent => "not proven",
        };
        page.line(format!(
            "| {} | {level} | {} |",
            claim.kind.text(),
            cell(&claim.basis_text())
        ));
    }
}

fn scope(page: &mut Page, report: &Report, contract: Option<&TaskContract>) {
    page.heading("What changed");
    if let Some(contract) = contract {
        let allowed: Vec<String> = contract
            .allowed_paths
            .iter()
            .map(|p| code(p.as_str()))
            .collect();
        page.line(format!(
            "Allowed: {}.",
            if allowed.is_empty() {
                "nothing".to_owned()
            } else {
                allowed.join(", ")
            }
        ));
        page.line("");
    }
    if report.change.changes.is_empty() {
        page.line("No path changed.");
    } else {
        page.line("| path | change | scope | decided by |");
        page.line("| --- | --- | --- | --- |");
        for change in report.change.changes.iter().take(ROWS_MAX) {
            let scope = report.change.scopes.iter().find(|s| s.path == change.path);
            page.line(format!(
                "| {} | {} | {} | {} |",
                code_cell(&change.path),
                change.change,
                scope.map_or("not checked", |s| s.scope.as_str()),
                scope.map_or_else(String::new, |s| cell(&s.decided_by)),
            ));
        }
        more(page, report.change.changes.len());
    }
    if let Some(clone) = &report.change.clone_check
        && clone.not_compared_count > 0
    {
        let first: Vec<String> = clone.not_compared.iter().take(5).map(|p| code(p)).collect();
        page.line(format!(
            "{} changed paths have attributes by which git converts when it writes them; a clone may hold other bytes than were checked: {}.",
            clone.not_compared_count,
            cell_long(&first.join(", "))
        ));
    }
    if report.change.residue.count > 0 {
        page.line("");
        page.line(format!(
            "Thrown away: {} ignored files (for example {}).",
            report.change.residue.count,
            report
                .change
                .residue
                .paths
                .first()
                .map_or_else(String::new, |p| code(p))
        ));
    }
    for oddity in report.change.oddities.iter().take(ROWS_MAX) {
        page.line(format!(
            "- {} {}: {}",
            if oddity.refused {
                "**Refused**"
            } else {
                "Noted"
            },
            code(&oddity.path),
            cell(&oddity.kind)
        ));
    }
}

fn more(page: &mut Page, total: usize) {
    if total > ROWS_MAX {
        page.line("");
        page.line(format!("… and {} more in `report.json`.", total - ROWS_MAX));
    }
}

fn checks(page: &mut Page, report: &Report) {
    page.heading("Checks");
    let v = &report.checks.verification;
    if let Some(why) = &v.not_run {
        page.line(format!("Not verified by tests: {}.", cell(why)));
        return;
    }
    page.line("| command | before the change | after the change | claim |");
    page.line("| --- | --- | --- | --- |");
    for command in &v.commands {
        let before = v.baseline.iter().find(|b| b.is_same_check(command));
        page.line(format!(
            "| {} | {} | {} | {} |",
            code_cell(command.line()),
            before.map_or_else(|| "not reached".to_owned(), result),
            result(command),
            command.level,
        ));
    }
    page.line("");
    for (command, canary) in v.canaries() {
        page.line(format!(
            "- Canary of {}: {} ({}).",
            code(command.line()),
            canary.status,
            cell(&canary.detail)
        ));
    }
    for command in super::checks::exit_code_only(v) {
        page.line(format!(
            "- {}: {}.",
            code(command),
            super::checks::EXIT_CODE_ONLY
        ));
    }
    for command in v.commands.iter().filter(|c| !c.passed) {
        if let Some(why) = &command.reason {
            page.line(format!("- {}: {}", code(command.line()), cell(why)));
        }
    }
    for (what, tests) in super::checks::changed_tests(v) {
        page.line(format!("- Tests: {what}: {}", cell(&tests)));
    }
}

fn result(command: &CommandResult) -> String {
    let how = match (command.exit_code, command.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "did not run".to_owned(),
    };
    let tests = command
        .tests
        .as_ref()
        .map_or_else(String::new, |t| format!(", {}/{} tests", t.passed, t.ran));
    format!(
        "{} ({how}{tests}, {:.2} s)",
        if command.passed { "passed" } else { "failed" },
        command.seconds
    )
}

fn confinement(page: &mut Page, report: &Report) {
    page.heading("Confinement");
    let section = &report.sandbox;
    let (Some(provider), Some(from), Some(class)) =
        (&section.provider, section.provider_from, section.class)
    else {
        page.line("The run ended before a sandbox was chosen.");
        return;
    };
    page.line(format!(
        "Provider `{}` (from: {from}), class `{class}`.",
        cell(provider)
    ));
    let started = section.no_survivors.is_some();
    match class {
        SandboxClass::None if started => {
            page.line("");
            page.line(
                "**No sandbox**: the backend could read and write whatever its operator could.",
            );
        }
        SandboxClass::Group | SandboxClass::Weak => {
            page.line("");
            page.line(format!(
                "**Less than a sandbox** (`{class}`): the backend saw the machine that it ran on."
            ));
        }
        SandboxClass::None | SandboxClass::Process | SandboxClass::Full => {}
    }
    let list = |in_force: bool| -> String {
        let names: Vec<String> = report
            .sandbox
            .layers
            .iter()
            .filter(|l| l.in_force == in_force)
            .map(|l| l.name.replace('_', " "))
            .collect();
        if names.is_empty() {
            "nothing".to_owned()
        } else {
            names.join(", ")
        }
    };
    if !report.sandbox.layers.is_empty() {
        page.line("");
        page.line(format!("- In force: {}.", cell_long(&list(true))));
        page.line(format!("- Not in force: {}.", cell_long(&list(false))));
    }
    for (what, paths) in super::hidden::seen_and_not(section, code) {
        page.line(format!("- {what}: {}.", cell_long(&paths)));
    }
    denials(page, report);
}

fn denials(page: &mut Page, report: &Report) {
    let recorder = report.sandbox.layers.iter().find(|l| l.name == "recorder");
    let all = &report.sandbox.denials;
    if all.is_empty() {
        page.line(match recorder {
            Some(layer) if layer.in_force => "- Denials: none recorded.",
            Some(_) | None => "- Denials: no recorder was in force.",
        });
        return;
    }
    page.line("");
    page.line("| refused | what | on | by | attempt at |");
    page.line("| --- | --- | --- | --- | --- |");
    for denial in all.iter().take(ROWS_MAX) {
        page.line(format!(
            "| {} | {} | {} | {} | {} |",
            match denial.kind {
                DenialKind::Denied => "yes",
                DenialKind::Attempt if denial.what == "exec" => "tried",
                DenialKind::Attempt => "most likely",
                DenialKind::Killed => "killed",
            },
            cell(&denial.what),
            code_cell(&denial.target),
            format_args!(
                "{}{}",
                cell(&denial.process),
                match denial.count {
                    0 | 1 => String::new(),
                    count => format!(", {count} times"),
                }
            ),
            denial.action.map_or("-", |action| action.as_str()),
        ));
    }
    let more = all.len().saturating_sub(ROWS_MAX) as u64 + report.sandbox.drops.unwrap_or(0);
    if more > 0 {
        page.line("");
        page.line(format!("{more} more are counted and not listed here."));
    }
}

fn cell_long(text: &str) -> String {
    shorten(text, 2_000)
}

fn cost(page: &mut Page, report: &Report) {
    page.heading("Cost");
    let seconds = |v: Option<f64>| v.map_or_else(|| "unknown".to_owned(), |s| format!("{s:.2} s"));
    let r = &report.resources;
    page.line(format!(
        "Wall {} (backend {}, checks {}), backend CPU {}, peak memory {}, tokens {}, money {}.",
        seconds(r.wall_seconds),
        seconds(r.backend_seconds),
        seconds(r.verification_seconds),
        seconds(r.cpu_seconds),
        r.peak_memory_bytes.map_or_else(
            || "unknown".to_owned(),
            |b| format!("{} MiB", b.div_ceil(1 << 20))
        ),
        r.tokens
            .map_or_else(|| "unknown".to_owned(), |t| t.to_string()),
        r.cost
            .map_or_else(|| "unknown".to_owned(), |c| format!("{c:.4}")),
    ));
    let faults = r.model_traffic.iter().flat_map(|t| &t.faults);
    let faults: Vec<String> = faults.map(|(fault, n)| format!("{fault} {n}")).collect();
    if !faults.is_empty() {
        page.line(format!(
            "Faults of the model's provider: {}.",
            faults.join(", ")
        ));
    }
}

fn check_it(page: &mut Page, report: &Report) {
    page.heading("Check it yourself");
    page.line("```sh");
    page.line(format!("cto verify {}", report.run.run_id));
    page.line("cto-verify --integrity-only .    # in this directory, without cto");
    page.line("sha256sum -c SHA256SUMS          # without anything of ours");
    page.line("```");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_an_agent_named_stays_in_its_cell() {
        let table = [
            ("src/a.txt", "`src/a.txt`"),
            ("a`b", "`` a`b ``"),
            ("a``b", "``` a``b ```"),
            ("a|b", "`a\\|b`"),
            ("x\n| row", "`x\\n\\| row`"),
        ];
        for (text, wanted) in table {
            assert_eq!(code_cell(text), wanted);
        }
    }

    proptest! {
        #[test]
        fn no_text_ends_its_span_or_its_cell(text in "[`|<a\\n\\PC]{0,400}") {
            let cell = code_cell(&text);
            let fence: String = cell.chars().take_while(|c| *c == '`').collect();
            let inner = cell.strip_prefix(&fence).and_then(|rest| rest.strip_suffix(&fence));
            prop_assert!(!fence.is_empty());
            // Where the text is nothing the fence stands alone.
            let inner = inner.unwrap_or_default();
            prop_assert!(inner.split(|c| c != '`').all(|run| run.len() != fence.len()));
            prop_assert!(!cell.replace("\\|", "").contains('|'));
            prop_assert!(!cell.contains('\n'));
        }
    }
}
