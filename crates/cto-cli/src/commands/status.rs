//! `cto status`: the day on one screen.

use cto_contract::outputs::StatusOutput;

use super::Outcome;
use crate::failure::Exit;
use crate::printer::Page;
use crate::session::Session;

/// Show the day on one screen: what runs, what waits for a person, the last matrix, the ledger
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto status
  cto status --json")]
pub(crate) struct Args {
    /// Show at most so many of each that waits
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let output = harness.status(limit)?;
    if session.printer.json {
        session.printer.document(&output)?;
        return Ok(Exit::DONE);
    }
    let mut page = session.printer.page();
    told(&mut page, &output);
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}

fn told(page: &mut Page, output: &StatusOutput) {
    page.heading("running");
    if output.live.is_empty() {
        page.line("nothing");
    }
    for run in &output.live {
        let lane = run.backend.map_or("?", |lane| lane.as_str());
        let title = run.title.as_deref().unwrap_or("");
        page.line(&format!("{}  {lane}  {title}", run.run_id));
    }
    page.heading("waiting for a person");
    if output.requests.is_empty() && output.outcomes.is_empty() {
        page.line("nothing");
    }
    for row in &output.requests {
        let next = match row.standing.execution_allowed {
            true => format!("cto run --request {}", row.request_id),
            false => format!("cto approve {}", row.request_id),
        };
        page.line(&format!("{}  {}: `{next}`", row.title, row.standing.phase));
    }
    for pending in &output.outcomes {
        let run = &pending.run_id;
        page.line(&format!(
            "{run}  passed: `cto outcome {run} accepted|rejected`"
        ));
    }
    if output.more > 0 {
        page.line(&format!("and {} more: `cto inbox`", output.more));
    }
    page.heading("last matrix");
    match &output.last_matrix {
        None => page.line("none yet: `cto matrix`"),
        Some(matrix) => page.line(&format!(
            "{}  {} pass, {} fail, {} blocked, {} not run ({})",
            matrix.finished_at.minute(),
            matrix.pass,
            matrix.fail,
            matrix.blocked,
            matrix.error,
            matrix.engine
        )),
    };
    page.heading("ledger");
    let ledger = &output.ledger;
    let who = match ledger.governed {
        true => "operators decide",
        false => "no operator yet",
    };
    page.line(&format!(
        "{} entries, head {}, {who}",
        ledger.seq,
        ledger.head.short()
    ));
}
