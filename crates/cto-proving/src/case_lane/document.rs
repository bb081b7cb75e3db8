//! `docs/case-faults.md`, from the rows.

use std::fmt::Write as _;

use cto_contract::blocker::Moment;
use cto_contract::words::RunStatus;

use super::checks::ADAPTER_CHECKS;
use super::faults::FAULTS;
use super::rows::{Row, Started};

const HEAD: &str = "\
# What becomes of a run of Case

Each row is a run of the lane `case` with its double and a scripted model, under confinement, at stage 2: all rows are in
one test, and `cto validate provider-adapter` makes the first table anywhere (`--only NAME` any row of either).

This page is made from the tables in the code (`cargo run -p cto-proving --example case-faults-page`), and a test compares
it with them.
";

/// The page.
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    for (title, name, rows) in [
        ("Checks of the adapter", "check", ADAPTER_CHECKS),
        ("Faults of Case, its roles and its model", "fault", FAULTS),
    ] {
        write!(
            page,
            "\n## {title}\n\n| {name} | what happens | verdict | Case started |\n| --- | --- | --- | --- |\n"
        )
        .ok();
        for row in rows {
            let started = match row.started {
                Started::Yes => "yes",
                Started::No => "no",
            };
            let (name, what) = (row.name, row.situation);
            writeln!(page, "| `{name}` | {what} | {} | {started} |", verdict(row)).ok();
        }
    }
    page
}

fn verdict(row: &Row) -> String {
    let Some(code) = row.blocker else {
        return RunStatus::Pass.to_string();
    };
    let status = row.status(match row.started {
        Started::No => Moment::BeforeStart,
        Started::Yes => Moment::AfterStart,
    });
    format!("{status}, `{code}`, {}", row.fault_class)
}
