//! How a run of a lane compares with the run of `fake` on the same case, through the evidence alone.
//!
//! Times, resources and the bytes of the patch are not compared: two good answers to one task may differ in them.

use std::collections::BTreeSet;

use cto_contract::artifact::REQUIRED;
use cto_contract::blocker::BlockerCode;
use cto_contract::comparison::{Agreement, BaselineComparison, Compared};
use cto_contract::event::EventType;
use cto_contract::report::Report;
use cto_contract::verification::CommandResult;

use crate::order;

/// One side of the comparison.
#[derive(Debug, Clone)]
pub struct Side<'a> {
    pub report: &'a Report,
    /// The types of its log, the last included.
    pub types: &'a [EventType],
    /// The files of its pack, those that the seal will make included.
    pub artifacts: BTreeSet<String>,
    /// Every file that a step left has its time under the run's own nonce.
    pub is_fresh: bool,
}

/// Whether the ruler can measure: it passed, or what stands against it is the contract's own doing and stands against every
/// lane alike.
pub fn can_measure(fake: &Report) -> bool {
    let of_the_contract = |code: BlockerCode| {
        matches!(
            code,
            BlockerCode::MissingTestCommand | BlockerCode::MissingRequiredEvent
        )
    };
    let mut blockers = fake.verdict.blockers.iter();
    blockers.all(|blocker| of_the_contract(blocker.code))
}

/// Compares a lane's run with the one of `fake`.
pub fn compare(fake: &Side<'_>, lane: &Side<'_>) -> BaselineComparison {
    let path = |side: &Side<'_>| format!("{}/report.json", side.report.artifacts.artifacts_dir);
    BaselineComparison {
        fake_report: path(fake),
        lane_report: path(lane),
        report_shape: same_set(
            "fields of the report",
            &fields(fake.report),
            &fields(lane.report),
        ),
        event_order: event_order(fake, lane),
        allowed_writes: same(
            "allowed writes",
            &passed(fake.report.change.allowed_writes_passed),
            &passed(lane.report.change.allowed_writes_passed),
        ),
        verification: verification(fake.report, lane.report),
        blockers: same_set("blockers", &blockers(fake.report), &blockers(lane.report)),
        artifact_digests: same_set("required files", &required(fake), &required(lane)),
        freshness: same("freshness", &fresh(fake), &fresh(lane)),
    }
}

/// The fields that every report has; one of another shape lacks some.
const ALWAYS: [&str; 45] = [
    "schema_version",
    "case_id",
    "run_id",
    "parent_run_id",
    "nonce",
    "status",
    "backend",
    "run_started_at",
    "run_finished_at",
    "backend_exit_code",
    "backend_completion",
    "artifacts_dir",
    "changed_files",
    "allowed_writes_passed",
    "approval_status",
    "verification",
    "tests_passed",
    "required_events_passed",
    "blockers",
    "failure_reason",
    "fault_class",
    "not_applicable",
    "artifact_paths",
    "artifact_digests",
    "freshness",
    "stage",
    "mutation_mode",
    "allowed_mutation_scope",
    "source_admission_status",
    "case_process_started",
    "runtime_workspace_root",
    "run_artifact_dir",
    "runtime_default_activation",
    "core_promotion_status",
    "identity",
    "resources",
    "sandbox",
    "residue",
    "claims",
    "operator_outcome",
    "contract_digest",
    "conformance",
    "harness_version",
    "title",
    "forbidden_actions_attempted",
];

fn fields(report: &Report) -> BTreeSet<String> {
    let value = serde_json::to_value(report).unwrap_or_default();
    let is_there = |name: &&&str| value.get(**name).is_some();
    let there = ALWAYS.iter().filter(is_there);
    there.map(ToString::to_string).collect()
}

fn event_order(fake: &Side<'_>, lane: &Side<'_>) -> Compared {
    let (one, other) = (order::spine(fake.types), order::spine(lane.types));
    let at = one.iter().zip(&other).position(|(a, b)| a != b);
    let at = at.unwrap_or(one.len().min(other.len()));
    let named = |events: &[EventType]| events.get(at).map_or("nothing", |e| e.as_str());
    if one == other {
        matches(format!("both logs have the same {} events", one.len()))
    } else {
        differs(format!(
            "event {} is `{}` in fake and `{}` in the lane",
            at + 1,
            named(&one),
            named(&other)
        ))
    }
}

fn verification(fake: &Report, lane: &Report) -> Compared {
    let result = |c: &CommandResult| {
        let word = if c.passed { "passed" } else { "did not pass" };
        format!("`{}` {word} ({})", c.line(), c.level)
    };
    let results = |report: &Report| -> Vec<String> {
        let commands = report.checks.verification.commands.iter();
        commands.map(result).collect()
    };
    let (one, other) = (results(fake), results(lane));
    let differing = one.iter().zip(&other).find(|(a, b)| a != b);
    match differing {
        Some((one, other)) => differs(format!("{one} in fake, {other} in the lane")),
        None if one.len() != other.len() => differs(format!(
            "{} checks ran in fake and {} in the lane",
            one.len(),
            other.len()
        )),
        None => matches(format!("the same {} checks gave the same", one.len())),
    }
}

fn blockers(report: &Report) -> BTreeSet<String> {
    let codes = report.verdict.blockers.iter();
    codes.map(|b| b.code.to_string()).collect()
}

fn required(side: &Side<'_>) -> BTreeSet<String> {
    let has = |name: &&&str| side.artifacts.contains(**name);
    REQUIRED
        .iter()
        .filter(has)
        .map(ToString::to_string)
        .collect()
}

fn passed(result: Option<bool>) -> String {
    match result {
        Some(true) => "passed".to_owned(),
        Some(false) => "did not pass".to_owned(),
        None => "nobody looked".to_owned(),
    }
}

fn fresh(side: &Side<'_>) -> String {
    match side.is_fresh {
        true => "every file is of its own run".to_owned(),
        false => "not every file is of its own run".to_owned(),
    }
}

fn same(what: &str, fake: &str, lane: &str) -> Compared {
    if fake == lane {
        matches(format!("{what}: {fake} in both"))
    } else {
        differs(format!("{what}: {fake} in fake, {lane} in the lane"))
    }
}

fn same_set(what: &str, fake: &BTreeSet<String>, lane: &BTreeSet<String>) -> Compared {
    if fake == lane {
        return matches(format!("both have the same {} {what}", fake.len()));
    }
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
        let missing: Vec<&str> = one.difference(other).map(String::as_str).collect();
        match missing.is_empty() {
            true => "none".to_owned(),
            false => missing.join(", "),
        }
    };
    differs(format!(
        "{what} only in fake: {}; only in the lane: {}",
        only(fake, lane),
        only(lane, fake)
    ))
}

fn matches(sentence: String) -> Compared {
    Compared {
        result: Agreement::Match,
        sentence,
    }
}

fn differs(sentence: String) -> Compared {
    Compared {
        result: Agreement::Differs,
        sentence,
    }
}

#[cfg(test)]
mod tests;
