//! `cto gc`: take away what nobody needs any more.

use cto_contract::outputs::GcOutput;
use cto_runner::{Sweeping, collect_garbage};

use super::Outcome;
use crate::failure::Exit;
use crate::printer::{Page, STRONG};
use crate::session::Session;

/// Remove what the retention settings no longer keep
///
/// Scratch of runs that are sealed, homes of validators (7 days), baselines that no run used (30 days), and requests whose
/// pack is gone. Packs go only when `retention.packs_days` is set in harness.yaml, and never one that has addenda, that
/// a kept run is a new attempt of, that does not verify, or that the ledger does not know by the same digest. A pack that
/// goes leaves a signed tombstone: `cto runs` and the ledger still name the run, and `cto verify` says when it
/// went.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto gc --dry-run       what would go, and how much that is
  cto gc --json

In harness.yaml:
  retention: { packs_days: 180, baselines_days: 30, validation_days: 7 }")]
pub(crate) struct Args {
    /// Show what would go, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    let sweeping = if args.dry_run {
        Sweeping::DryRun
    } else {
        Sweeping::Remove
    };
    let output = collect_garbage(&harness, sweeping, cto_runner::now())?;
    if session.printer.json {
        session.printer.document(&output)?;
    } else if output.items.is_empty() && output.kept.is_empty() {
        session.printer.talk("nothing to remove");
    } else {
        let mut page = session.printer.page();
        shown(&mut page, &output);
        session.printer.show(&page)?;
    }
    Ok(if output.problems.is_empty() {
        Exit::DONE
    } else {
        Exit::FAILED
    })
}

fn shown(page: &mut Page, output: &GcOutput) {
    let rows: Vec<Vec<String>> = output
        .items
        .iter()
        .map(|i| {
            vec![
                i.kind.to_string(),
                i.path.clone(),
                size(i.bytes),
                i.reason.clone(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        page.table(&["kind", "path", "size", "reason"], &rows).end();
    }
    for kept in &output.kept {
        page.field("kept", &format!("{}: {}", kept.run_id, kept.reason));
    }
    for problem in &output.problems {
        page.field("failed", &format!("{}: {}", problem.path, problem.reason));
    }
    let word = if output.dry_run {
        "would go"
    } else {
        "removed"
    };
    let count = output.items.len().saturating_sub(output.problems.len());
    page.styled(STRONG, &format!("{count} {word}, {}", size(output.bytes)))
        .end();
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut unit = 0;
    #[expect(
        clippy::cast_precision_loss,
        reason = "one digit after the point is shown"
    )]
    let mut value = bytes as f64 / 1024.0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}
