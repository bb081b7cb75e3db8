//! `cto run --plan`: what a run would begin with.

use cto_contract::outputs::PlanOutput;
use cto_contract::plan::LaunchPlan;
use cto_contract::text::{one_line, shorten};
use cto_contract::words::RunStatus;
use cto_rules::views::progress::warning;
use cto_runner::{Harness, RunRequest};

use super::Outcome;
use super::explain::gates;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, GOOD, Page, STRONG, WARN};
use crate::session::Session;

pub(crate) fn show(harness: &Harness, request: &RunRequest, session: &Session) -> Outcome {
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let output = harness.plan(request, &interrupt.stop)?;
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let mut page = session.printer.page();
        shown(&mut page, request, &output);
        session.printer.show(&page)?;
    }
    Ok(match interrupt.signal() {
        Some(signal) => Exit::signal(signal),
        None => Exit::verdict(output.status),
    })
}

fn shown(page: &mut Page, request: &RunRequest, output: &PlanOutput) {
    let (word, style) = if output.status == RunStatus::Pass {
        ("READY", GOOD)
    } else {
        ("BLOCKED", BAD)
    };
    page.styled(style, word)
        .text("  ")
        .styled(STRONG, &one_line(&request.task.contract().title))
        .end();
    for blocker in &output.blockers {
        page.field("blocker", &format!("{}: {}", blocker.code, blocker.message));
        page.field("next", &blocker.hint);
    }
    if let Some(decision) = &output.decision {
        page.heading("Gates");
        gates(page, &decision.facts);
    }
    if let Some(plan) = &output.plan {
        start(page, plan);
        trees(page, plan);
        caps(page, plan);
        confinement(page, plan);
    }
    page.end()
        .line("Nothing was started, and nothing is kept of this.");
}

fn start(page: &mut Page, plan: &LaunchPlan) {
    page.heading("What starts");
    let words: Vec<String> = plan.argv.iter().map(|a| shorten(a, 200)).collect();
    page.field("argv", &words.join(" "));
    page.field("in", &plan.working_directory);
    page.field("sees", &plan.environment_names.join(" "));
    for command in &plan.setup {
        page.field("setup", &shorten(command, 200));
    }
    for command in &plan.verification {
        page.field("check", &shorten(command, 200));
    }
    page.field("ladder", plan.ladder.as_str());
}

fn trees(page: &mut Page, plan: &LaunchPlan) {
    page.heading("Trees and mounts");
    page.field(
        "baseline",
        &format!("{}, {} files", plan.baseline_tree_id, plan.baseline_files),
    );
    page.field(
        "work in",
        &format!("{}; checks in {}", plan.workspace_kind, plan.checks_kind),
    );
    page.field("writable", &plan.sandbox.writable_roots.join(" "));
    for input in &plan.inputs {
        page.field(
            "input",
            &format!(
                "{} at {}, {} ({} files, {} bytes)",
                input.from, input.at, input.mode, input.files, input.bytes
            ),
        );
    }
    if let Some(source) = &plan.source {
        page.field(
            "source",
            &format!("commit {}, history {}", source.commit, source.history),
        );
        if source.withheld_count > 0 {
            page.field(
                "withheld",
                &format!(
                    "{} paths: {}",
                    source.withheld_count,
                    shorten(&source.withheld.join(" "), 200)
                ),
            );
        }
    }
}

fn caps(page: &mut Page, plan: &LaunchPlan) {
    page.heading("Caps");
    // Every cap has a name on the wire already; a second list of them here could only differ.
    let limits = serde_json::to_value(plan.limits).unwrap_or_default();
    for (name, value) in limits.as_object().into_iter().flatten() {
        let from = if name == "wall_seconds" {
            format!(" (from: {})", plan.wall_seconds_from)
        } else {
            String::new()
        };
        page.field(name, &format!("{value}{from}"));
    }
    page.field("network", plan.network.as_str());
}

fn confinement(page: &mut Page, plan: &LaunchPlan) {
    page.heading("Confinement");
    page.field(
        "class",
        &format!(
            "{} ({}, from: {})",
            plan.sandbox.class, plan.sandbox.provider, plan.sandbox.provider_from
        ),
    );
    if let Some(warning) = warning(plan.sandbox.class, plan.sandbox.provider_from) {
        page.styled(WARN, &warning).end();
    }
    for layer in &plan.sandbox.layers {
        let word = if layer.in_force { "in force" } else { "not" };
        page.field(
            word,
            &format!("{}: {}", layer.name.replace('_', " "), layer.detail),
        );
    }
}
