//! A contract as YAML with comments that teach. Only what a proposal sets is written.

use std::fmt::Write as _;

use cto_contract::path::PathPattern;
use cto_contract::task::{Limits, TaskContract, VerificationCommand};

pub(super) fn write(contract: &TaskContract) -> String {
    let mut page = Page(String::with_capacity(4096));
    page.line("# A task for `cto run --repo . --contract cto-task.yaml`: what is to change, within which bounds, and how");
    page.line("# it is checked. `cto contract check` reads it and warns; `cto why PATH --contract F` tells what a path may do.");
    page.field("schema", "cto.contract/v1");
    page.field("task_id", contract.task_id.as_str());
    page.field("title", &scalar(&contract.title));
    page.line("instruction: |");
    for line in contract.instruction.trim_end().split('\n') {
        page.line(format!("  {line}").trim_end());
    }
    page.line("");
    page.line("# What may change. A trailing `/` means everything below, `*` stays within a directory, `**` does not.");
    page.patterns("allowed_paths", &contract.allowed_paths);
    page.line("");
    page.line("# What may not, whatever is allowed above.");
    page.patterns("forbidden_paths", &contract.forbidden_paths);
    page.line("");
    page.line("# What judges the change and so stays as it is. Take tests out only if writing tests is the task.");
    page.patterns("frozen_paths", &contract.frozen_paths);
    page.line("");
    page.line("# How it is checked, offline, on the untouched tree and on the changed one.");
    page.list(
        "verification_commands",
        contract.verification_commands.iter().map(check),
    );
    page.line("");
    page.line("# What the checks need from outside the repository: `{ from: PATH, mode: read-only|copy }`.");
    let input = |i: &cto_contract::input::Input| {
        format!(
            "{{ from: {}, mode: {} }}",
            quoted(&i.from.to_string()),
            i.mode
        )
    };
    page.list("inputs", contract.inputs.iter().map(input));
    page.line(
        "# Run once in each copy before anything else, offline: code generators, native builds.",
    );
    page.list(
        "setup_commands",
        contract.setup_commands.iter().map(|c| scalar(c)),
    );
    page.line("");
    page.line("# At stage 3 a run works on a copy and lands nothing: you get a verified patch.");
    page.field("risk_class", contract.risk_class.as_str());
    if let Some(mode) = contract.mutation_mode {
        page.field("mutation_mode", mode.as_str());
    }
    page.line("forbidden_actions:");
    for action in &contract.forbidden_actions {
        page.line(&format!("  - {action}"));
    }
    page.field("network", contract.network.as_str());
    limits(&mut page, &contract.limits);
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn field(&mut self, name: &str, value: &str) {
        self.line(&format!("{name}: {value}"));
    }

    fn list(&mut self, name: &str, items: impl Iterator<Item = String>) {
        let mut items = items.peekable();
        if items.peek().is_none() {
            self.field(name, "[]");
            return;
        }
        self.line(&format!("{name}:"));
        for item in items {
            self.line(&format!("  - {item}"));
        }
    }

    fn patterns(&mut self, name: &str, patterns: &[PathPattern]) {
        self.list(name, patterns.iter().map(|p| scalar(p.as_str())));
    }
}

fn check(command: &VerificationCommand) -> String {
    let mut text = format!("run: {}", scalar(&command.run));
    if let Some(least) = command.expect.min_tests {
        let _ok = write!(
            text,
            "\n    expect: {{ exit: {}, min_tests: {least} }}",
            command.expect.exit
        );
    }
    text.push_str("\n    # must_fail_before: true   # when a test for the task is there already and fails today");
    text
}

fn limits(page: &mut Page, limits: &Limits) {
    let all = [
        ("wall_seconds", limits.wall_seconds),
        ("memory_mb", limits.memory_mb),
        ("processes", limits.processes),
        ("disk_mb", limits.disk_mb),
        ("output_mb", limits.output_mb),
    ];
    let set: Vec<String> = all
        .into_iter()
        .filter_map(|(name, limit)| limit.map(|n| format!("{name}: {n}")))
        .collect();
    page.field("limits", &format!("{{ {} }}", set.join(", ")));
}

/// Text as a YAML scalar: bare where that can't be mistaken for anything else.
fn scalar(text: &str) -> String {
    let is_bare = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.contains(['/', '.', ' '])
        && !text.ends_with(' ')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | ' ' | '_' | '-'));
    if is_bare {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Text in double quotes; everything that a reader of YAML could treat specially is escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => {
                let _ok = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}
