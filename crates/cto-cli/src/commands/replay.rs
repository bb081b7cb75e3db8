//! `cto replay`: fold the log again and compare.

use cto_contract::artifact::REPORT_JSON;
use cto_contract::outputs::{ReplayOutput, ReplayTag};
use cto_evidence::canonical::digest_of;
use cto_rules::lifecycle::{RunState, conclude, replay};
use cto_rules::views::progress::progress;
use cto_rules::views::report::{ReportInput, report};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::pack_file;
use crate::printer::{BAD, GOOD};
use crate::session::Session;

/// Replay the log of a run
///
/// Prints the same lines that were printed while it ran, makes the report from the log again, and compares it
/// with the sealed one. Exit 5 when they differ.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  cto replay latest")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    let events = pack_file::events(&found.pack)?;
    let state = replay(&events).map_err(|e| Failure::of(Exit::EVIDENCE, "log_broken", &e))?;
    let lines: Vec<String> = events.iter().filter_map(progress).collect();
    let differences = match pack_file::read(&found.pack, REPORT_JSON)? {
        Some(_) => Some(compare(&found.pack, &state)?),
        None => None,
    };
    let same = differences.as_ref().map(Vec::is_empty);
    if session.printer.json {
        session.printer.document(&ReplayOutput {
            schema_version: ReplayTag,
            run_id: state.run_id.clone(),
            events: events.len() as u64,
            progress: lines,
            status: state.completed.as_ref().map(|c| c.status),
            same,
            differences: differences.unwrap_or_default(),
        })?;
    } else {
        let mut page = session.printer.page();
        for line in &lines {
            page.line(line);
        }
        session.printer.show(&page)?;
        match (same, differences) {
            (Some(false), Some(fields)) => {
                let mut page = session.printer.page();
                page.styled(BAD, "differs").line(&format!(
                    ": the sealed report says otherwise about {}",
                    fields.join(", ")
                ));
                session.printer.show(&page)?;
            }
            (Some(true), _) if session.printer.verbose => {
                let mut page = session.printer.page();
                page.styled(GOOD, "same")
                    .line(": the sealed report follows from the log");
                session.printer.show(&page)?;
            }
            (Some(true), _) => session
                .printer
                .talk("same: the sealed report follows from the log"),
            (Some(false) | None, _) => session
                .printer
                .talk("not sealed: there is no report to compare with"),
        }
    }
    Ok(if same == Some(false) {
        Exit::EVIDENCE
    } else {
        Exit::DONE
    })
}

/// Fields of the report that do not follow from the log. The index of files and the clocks are the seal's own.
fn compare(pack: &std::path::Path, state: &RunState) -> Result<Vec<String>, Failure> {
    let (_, sealed) = pack_file::report(pack)?;
    let encode = |e: &dyn std::error::Error| Failure::of(Exit::FAULT, "report_not_encoded", e);
    let completed = state.completed.clone().unwrap_or_else(|| conclude(state));
    let contract_digest = match &state.contract {
        Some(created) => digest_of(&created.contract).map_err(|e| encode(&e))?,
        None => sealed.authority.contract_digest.clone(),
    };
    let input = ReportInput {
        contract_digest,
        identity_digest: (state.plan.as_ref())
            .map(|p| digest_of(&p.identity))
            .transpose()
            .map_err(|e| encode(&e))?,
        finished_at: sealed.run.run_finished_at,
        wall_seconds: sealed.resources.wall_seconds.unwrap_or_default(),
    };
    let mut again = report(state, &completed, &input);
    again.artifacts = sealed.artifacts.clone();
    let value = |r| serde_json::to_value(r).map_err(|e| encode(&e));
    let (again, sealed) = (value(&again)?, value(&sealed)?);
    let empty = serde_json::Map::new();
    let (again, sealed) = (
        again.as_object().unwrap_or(&empty),
        sealed.as_object().unwrap_or(&empty),
    );
    let mut names: Vec<String> = again
        .keys()
        .chain(sealed.keys())
        .filter(|k| again.get(*k) != sealed.get(*k))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}
