//! The repository that a change was made for, and what was seen of it.

use cto_contract::report::Report;

use super::{Page, cell_long, code, result};
use crate::verdicts::can_be_proof;

pub(super) fn section(page: &mut Page, report: &Report) {
    let section = &report.source;
    let Some(source) = &section.source else {
        return;
    };
    page.heading("Where it was copied from");
    page.line(format!(
        "Commit `{}`, history {}. Nothing was written there{}.",
        source.commit,
        source.history,
        match &section.source_check {
            Some(check) if check.differences.is_empty() =>
                ": its fingerprint is the same before and after",
            Some(_) => " by the harness, but it **changed during the run**",
            None => ", but the run ended before that was checked",
        }
    ));
    let mut list = |what: &str, total: u64, paths: &[String]| {
        if total > 0 {
            let first: Vec<String> = paths.iter().take(5).map(|p| code(p)).collect();
            page.line(format!(
                "- {what}: {total} ({}).",
                cell_long(&first.join(", "))
            ));
        }
    };
    list(
        "Withheld from the workspace",
        source.withheld_count,
        &source.withheld,
    );
    list(
        "Uncommitted changes that are not part of it",
        source.dirty_count,
        &source.dirty_paths,
    );
    if let Some(check) = &section.source_check {
        list(
            "Changed during the run",
            check.differences.len() as u64,
            &check.differences,
        );
    }
    if !can_be_proof(source) {
        page.line(format!(
            "- The contract says `dirty_source: {}`: this run never counts as a proof.",
            source.dirty_source
        ));
    }
    if source.lfs_pointers > 0 {
        page.line(format!(
            "- {} files are LFS pointers, not their content.",
            source.lfs_pointers
        ));
    }
    for input in &section.inputs {
        page.line(format!(
            "- Input {} ({}, {} files) seen at {}.",
            code(&input.from.to_string()),
            input.mode,
            input.files,
            code(&input.at)
        ));
    }
    for command in &section.setup {
        page.line(format!(
            "- Setup {}: {}.",
            code(&command.command),
            result(command)
        ));
    }
}
