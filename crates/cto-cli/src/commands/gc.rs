//! `cto gc`: take away what nobody needs any more.

use cto_contract::outputs::{GcItem, GcKept, GcOutput, GcProblem, GcTag};
use cto_contract::text::path_text;
use cto_runner::{Home, Item, Problem};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

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
    let now = cto_runner::now();
    let survey = cto_runner::survey(&harness, now)?;
    let problems = if args.dry_run {
        Vec::new()
    } else {
        cto_runner::sweep(&harness, &survey, now)
    };
    let failed = !problems.is_empty();
    let output = GcOutput {
        schema_version: GcTag,
        dry_run: args.dry_run,
        bytes: survey.bytes(),
        items: survey
            .items
            .into_iter()
            .map(|i| item(&harness.home, i))
            .collect(),
        kept: survey
            .kept
            .into_iter()
            .map(|k| GcKept {
                run_id: k.run_id,
                reason: k.reason,
            })
            .collect(),
        problems: problems
            .into_iter()
            .map(|Problem { path, reason }| GcProblem {
                path: below(&harness.home, &path),
                reason,
            })
            .collect(),
    };
    if session.printer.json {
        session.printer.document(&output)?;
    } else if output.items.is_empty() && output.kept.is_empty() {
        session.printer.talk("nothing to remove");
    } else {
        let mut page = session.printer.page();
        shown(&mut page, &output);
        session.printer.show(&page)?;
    }
    Ok(if failed { Exit::FAILED } else { Exit::DONE })
}

fn below(home: &Home, path: &Path) -> String {
    let path = path.strip_prefix(home.root()).unwrap_or(path);
    path_text(path.as_os_str().as_bytes())
}

fn item(home: &Home, item: Item) -> GcItem {
    GcItem {
        kind: item.kind,
        path: below(home, &item.path),
        run_id: item.run_id,
        bytes: item.bytes,
        reason: item.reason,
    }
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
