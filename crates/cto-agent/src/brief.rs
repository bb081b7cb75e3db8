//! The brief: the task and its bounds, told to an agent in Markdown.
//!
//! It holds nothing but what the contract says about the work: no source path, no target, no input's place outside the
//! workspace, no other run. What the contract says is quoted, so that it can't pass for a bound that the harness set.

use std::fmt::Write as _;

use cto_contract::path::PathPattern;
use cto_contract::task::{Limits, TaskContract, VerificationCommand};
use cto_contract::text::{neutralise, one_line};
use cto_contract::words::NetworkClass;

/// What an agent is given to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brief {
    /// See [`brief`].
    pub markdown: String,
    /// The contract in its canonical form.
    pub contract_json: Vec<u8>,
}

/// Writes the brief of a contract.
pub fn brief(contract: &TaskContract) -> String {
    let mut page = Page(String::with_capacity(4096));
    page.line(&format!("# {}", one_line(&contract.title)));
    page.heading("Task");
    page.quote(&contract.instruction);
    if !contract.success_criteria.is_empty() {
        page.line("\nIt is done when:\n");
        page.items(contract.success_criteria.iter().map(|c| one_line(c)));
    }
    page.heading("Where you work");
    page.line(
        "Your working directory is a copy of the repository. Edit its files in place; nothing else you do counts. \
         The copy's `.git` is scratch: a commit is not needed and is not looked at.",
    );
    page.line(match contract.network {
        NetworkClass::None => "There is no network.",
        NetworkClass::Model => "There is no network but the model's endpoint.",
    });
    paths(&mut page, contract);
    actions(&mut page, contract);
    checks(&mut page, contract);
    limits(&mut page, &contract.limits);
    page.heading("What you may say");
    page.line(PROTOCOL);
    page.0
}

/// `cto.agent/v1` in short; docs/agent-protocol.md has it field by field.
const PROTOCOL: &str = "\
Everything you print is kept as it is. A line on stdout that is one of these JSON objects is shown to a person too; \
all are optional, none is evidence:

```json
{\"schema\":\"cto.agent/v1\",\"type\":\"plan\",\"steps\":[\"…\"]}
{\"schema\":\"cto.agent/v1\",\"type\":\"say\",\"text\":\"…\"}
{\"schema\":\"cto.agent/v1\",\"type\":\"review\",\"verdict\":\"accept|reject\",\"note\":\"…\"}
{\"schema\":\"cto.agent/v1\",\"type\":\"done\",\"summary\":\"…\"}
```";

struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn heading(&mut self, text: &str) {
        let _ok = writeln!(self.0, "\n## {text}\n");
    }

    fn items(&mut self, items: impl IntoIterator<Item = String>) {
        for item in items {
            self.line(&format!("- {item}"));
        }
    }

    /// Text of others, each line marked as such.
    fn quote(&mut self, text: &str) {
        for line in neutralise(text).trim_end().split('\n') {
            self.line(format!("> {line}").trim_end());
        }
    }
}

/// Text as inline code, with a fence longer than any run of backticks in it.
fn code(text: &str) -> String {
    let text = one_line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    if longest == 0 {
        return format!("`{text}`");
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence} {text} {fence}")
}

fn paths(page: &mut Page, contract: &TaskContract) {
    page.heading("What you may change");
    let list = |page: &mut Page, intro: &str, patterns: &[PathPattern]| {
        if !patterns.is_empty() {
            page.line(&format!("\n{intro}\n"));
            page.items(patterns.iter().map(|p| code(p.as_str())));
        }
    };
    if contract.allowed_paths.is_empty() {
        page.line("Nothing: the contract allows no path.");
    } else {
        page.items(contract.allowed_paths.iter().map(|p| code(p.as_str())));
    }
    list(
        page,
        "Never these, though allowed above:",
        &contract.forbidden_paths,
    );
    list(
        page,
        "Nor these, which judge the change:",
        &contract.frozen_paths,
    );
    page.line(
        "\nA trailing `/` means everything below. Creating, deleting, renaming and changing a mode all count as a \
         change of the path. Files that configure a test runner or steer an agent are out of bounds unless named above \
         one by one; a `.git` below the top and links that lead out of the repository always are. One change out of \
         bounds fails the whole run.",
    );
    page.line(if contract.diff_required {
        "A run that changes nothing fails."
    } else {
        "It is in order to change nothing."
    });
}

fn actions(page: &mut Page, contract: &TaskContract) {
    if contract.forbidden_actions.is_empty() {
        return;
    }
    page.heading("What you must not do");
    let names: Vec<String> = contract
        .forbidden_actions
        .iter()
        .map(|a| code(a.as_str()))
        .collect();
    page.line(&format!("{}.", names.join(", ")));
    page.line("An attempt is refused, recorded, and fails the run.");
}

fn checks(page: &mut Page, contract: &TaskContract) {
    page.heading("How it will be checked");
    if contract.verification_commands.is_empty() {
        page.line("No command checks it; a person will.");
        return;
    }
    page.line(
        "The harness takes the difference of your files to the copy you got, applies it to a fresh copy, and runs these \
         commands there. Your exit code and your words decide nothing in your favour.\n",
    );
    page.items(contract.verification_commands.iter().map(check));
}

fn check(command: &VerificationCommand) -> String {
    let mut text = code(&command.run);
    let expect = &command.expect;
    let mut wants = Vec::new();
    if expect.exit != 0 {
        wants.push(format!("exit code {}", expect.exit));
    }
    if let Some(least) = expect.min_tests {
        wants.push(format!("at least {least} tests passed"));
    }
    if !expect.tests.is_empty() {
        let names: Vec<String> = expect.tests.iter().map(|t| code(t)).collect();
        wants.push(format!("passed: {}", names.join(", ")));
    }
    if command.must_fail_before {
        wants.push("it fails without the change".to_owned());
    }
    if command.repeat > 1 {
        wants.push(format!("{} times in a row", command.repeat));
    }
    if !wants.is_empty() {
        let _ok = write!(text, " ({})", wants.join("; "));
    }
    text
}

fn limits(page: &mut Page, limits: &Limits) {
    let Limits {
        wall_seconds,
        cpu_seconds,
        memory_mb,
        processes,
        open_files,
        disk_mb,
        file_mb,
        output_mb,
        tokens,
        requests,
        cost,
    } = *limits;
    let counted = [
        (wall_seconds, "seconds of wall clock"),
        (cpu_seconds, "seconds of CPU"),
        (memory_mb, "MB of memory"),
        (processes, "processes"),
        (open_files, "open files"),
        (disk_mb, "MB of disk"),
        (file_mb, "MB in one file"),
        (output_mb, "MB of output"),
        (tokens, "tokens"),
        (requests, "requests to the model"),
    ];
    let mut shown: Vec<String> = counted
        .into_iter()
        .filter_map(|(limit, what)| limit.map(|n| format!("{n} {what}")))
        .collect();
    shown.extend(cost.map(|c| format!("a cost of {c}")));
    if !shown.is_empty() {
        page.heading("Limits");
        page.items(shown);
    }
}

#[cfg(test)]
mod tests;
