//! A survey or a sweep, as every face shows it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use cto_contract::outputs::{GcItem, GcKept, GcOutput, GcProblem, GcTag};
use cto_contract::text::path_text;
use cto_contract::time::Utc;

use crate::harness::Harness;
use crate::home::Home;

use super::{RetentionError, survey, sweep};

/// Whether what may go does go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweeping {
    /// Say what would go.
    DryRun,
    Remove,
}

/// Takes away what the retention settings no longer keep, or says what would go.
pub fn collect_garbage(
    harness: &Harness,
    sweeping: Sweeping,
    now: Utc,
) -> Result<GcOutput, RetentionError> {
    let survey = survey(harness, now)?;
    let problems = match sweeping {
        Sweeping::DryRun => Vec::new(),
        Sweeping::Remove => sweep(harness, &survey, now),
    };
    let home = &harness.home;
    Ok(GcOutput {
        schema_version: GcTag,
        dry_run: sweeping == Sweeping::DryRun,
        bytes: survey.bytes(),
        items: survey
            .items
            .into_iter()
            .map(|item| GcItem {
                kind: item.kind,
                path: below(home, &item.path),
                run_id: item.run_id,
                bytes: item.bytes,
                reason: item.reason,
            })
            .collect(),
        kept: survey
            .kept
            .into_iter()
            .map(|kept| GcKept {
                run_id: kept.run_id,
                reason: kept.reason,
            })
            .collect(),
        problems: problems
            .into_iter()
            .map(|problem| GcProblem {
                path: below(home, &problem.path),
                reason: problem.reason,
            })
            .collect(),
    })
}

fn below(home: &Home, path: &Path) -> String {
    let path = path.strip_prefix(home.root()).unwrap_or(path);
    path_text(path.as_os_str().as_bytes())
}
