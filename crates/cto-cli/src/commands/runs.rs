//! `cto runs`: the index of runs, newest first.

use cto_contract::ids::CaseId;
use cto_contract::text::shorten;
use cto_runner::list_runs;
use cto_store::{Cursor, Filter, Page, RunRow, State};

use super::Outcome;
use super::run::parse_lane;
use crate::failure::Exit;
use crate::session::Session;

/// List runs, newest first
///
/// From the index of home, with the runs that go on now. Pages follow each other by `--after`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto runs --status fail --limit 5
  cto runs --json | jq -r .next        the cursor of the next page, for --after")]
pub(crate) struct Args {
    /// Show only runs in this state: running, pass, fail or blocked
    #[arg(long, value_name = "STATE")]
    status: Option<State>,
    /// Show only runs of this case
    #[arg(long, value_name = "CASE")]
    case: Option<CaseId>,
    /// Show only runs of this lane
    #[arg(long, value_name = "LANE")]
    engine: Option<String>,
    /// Show at most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Begin after this cursor: the `next` of the page before
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let backend = args.engine.as_deref().map(parse_lane).transpose()?;
    let filter = Filter {
        state: args.status,
        case_id: args.case.clone(),
        backend,
        prefix: None,
    };
    let page = Page {
        limit: args.limit,
        after: args.after.clone(),
    };
    let place = session.runs_home()?;
    let output = list_runs(&place, &filter, &page)?;
    let exit = match output.mismatched.is_empty() {
        true => Exit::DONE,
        false => Exit::EVIDENCE,
    };
    for run_id in &output.mismatched {
        session.printer.talk(&format!(
            "error: the pack of run {run_id} is not the one that the ledger knows"
        ));
    }
    if session.printer.json {
        session.printer.document(&output)?;
        return Ok(exit);
    }
    let rows: Vec<Vec<String>> = output
        .rows
        .iter()
        .map(|row| {
            let state = match row.status {
                Some(status) if output.removed.contains(&row.run_id) => {
                    format!("{status}, removed")
                }
                Some(status) if output.missing.contains(&row.run_id) => {
                    format!("{status}, missing")
                }
                Some(_) if output.mismatched.contains(&row.run_id) => "not the ledger's".to_owned(),
                Some(status) => status.to_string(),
                None => output
                    .live
                    .iter()
                    .find(|l| l.run_id == row.run_id)
                    .map_or_else(|| "crashed".to_owned(), |l| format!("running ({})", l.pid)),
            };
            let seconds = row
                .wall_seconds
                .map_or_else(String::new, |s| format!("{s:.2} s"));
            vec![
                row.run_id.to_string(),
                state,
                origin(row),
                row.backend.to_string(),
                seconds,
                shorten(row.failure_reason.as_deref().unwrap_or_default(), 60),
            ]
        })
        .collect();
    if rows.is_empty() {
        session
            .printer
            .talk("no runs yet: `cto run r1-string-slugify` makes one");
        return Ok(Exit::DONE);
    }
    let mut page = session.printer.page();
    page.table(
        &["run", "status", "origin", "lane", "time", "reason"],
        &rows,
    );
    session.printer.show(&page)?;
    if let Some(next) = &output.next {
        session
            .printer
            .talk(&format!("more: cto runs --after {next}"));
    }
    Ok(exit)
}

/// Whose a row is: what its key says, and whether it came from elsewhere.
fn origin(row: &RunRow) -> String {
    let key = row.origin.map_or("", |origin| origin.as_str());
    match row.of_this_home {
        true => key.to_owned(),
        false => format!("{key}, imported"),
    }
}
