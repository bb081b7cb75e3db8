//! `cto inbox`: what waits for a person.

use cto_contract::outputs::{ApprovalPhase, InboxOutput, InboxTag, RequestRow};

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// Show what waits for a person: requests to decide, runs to accept or reject
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto inbox
  cto inbox --all --json     every request, whatever became of it")]
pub(crate) struct Args {
    /// Also show requests that are decided, used up or expired
    #[arg(long)]
    all: bool,
    /// Show at most so many requests, the newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    harness.finish_addenda()?;
    let waits = |row: &RequestRow| {
        let phase = row.standing.phase;
        args.all || matches!(phase, ApprovalPhase::Requested | ApprovalPhase::Granted)
    };
    let states = harness.requests()?;
    let rows = states.iter().map(|state| harness.request_row(state));
    let mut requests: Vec<RequestRow> = rows.filter(waits).collect();
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let more = requests.len().saturating_sub(limit) as u64;
    requests.truncate(limit);
    let output = InboxOutput {
        schema_version: InboxTag,
        requests,
        outcomes: harness.pending_outcomes()?,
        more,
    };
    if session.printer.json {
        session.printer.document(&output)?;
        return Ok(Exit::DONE);
    }
    let mut page = session.printer.page();
    if output.requests.is_empty() && output.outcomes.is_empty() {
        page.line("nothing waits for a person");
    }
    if !output.requests.is_empty() {
        let cells = |row: &RequestRow| {
            vec![
                row.request_id.to_string(),
                row.standing.phase.to_string(),
                row.task_id.clone(),
                format!("{}/{}", row.lane, row.model),
                row.target_id.clone(),
                row.stage.to_string(),
                row.expires_at.minute(),
                row.title.clone(),
            ]
        };
        let rows: Vec<Vec<String>> = output.requests.iter().map(cells).collect();
        let header = [
            "request", "state", "task", "by", "on", "stage", "until", "title",
        ];
        page.table(&header, &rows);
    }
    for pending in &output.outcomes {
        page.line(&format!(
            "run {} passed and waits for an outcome: `cto outcome {} accepted`",
            pending.run_id, pending.run_id
        ));
    }
    if output.more > 0 {
        page.line(&format!("and {} more: --limit N", output.more));
    }
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}
