//! `docs/failures.md`, from the table of blockers and the fixtures.

use std::fmt::Write as _;

use cto_contract::blocker::{BlockerCode, Row};

use super::table::{NOT_COVERED, fixtures};

const HEAD: &str = "\
# How a run is refused

Every reason that a run can be blocked or fail for, with what triggers it, where it is decided and what to do next. Exit
codes: 1 for `fail`, 3 for `blocked`. `cto validate failures` triggers each fixture for real and checks its pack in eight
ways: blocker, event, status, exit code, artifacts, digests, freshness, and that nothing outside the workspace changed.

This page is made from the tables in the code (`cargo run -p cto-proving --example failures-page`), and a test compares it
with them.

## What is triggered

";

const MIDDLE: &str = "
## What is not triggered yet

";

/// The whole page.
pub fn document() -> String {
    let mut text = HEAD.to_owned();
    text.push_str(
        "| blocker | status | decided at | marker | fixture | what happens | what to do |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for code in BlockerCode::ALL {
        let row = code.row();
        for fixture in fixtures().filter(|f| f.blocker == *code) {
            let cells = [
                format!("`{code}`"),
                row.status.to_string(),
                event(&row),
                marker(&row),
                format!("`{}`", fixture.name()),
                fixture.trigger.to_owned(),
                row.hint.to_owned(),
            ];
            line(&mut text, &cells);
        }
    }
    text.push_str(MIDDLE);
    text.push_str(
        "| blocker | status | decided at | marker | why not | what to do |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for (code, reason) in NOT_COVERED {
        let row = code.row();
        let cells = [
            format!("`{code}`"),
            row.status.to_string(),
            event(&row),
            marker(&row),
            (*reason).to_owned(),
            row.hint.to_owned(),
        ];
        line(&mut text, &cells);
    }
    text
}

fn event(row: &Row) -> String {
    row.event
        .map_or_else(|| "–".to_owned(), |e| format!("`{e}`"))
}

fn marker(row: &Row) -> String {
    row.marker
        .map_or_else(|| "–".to_owned(), |m| format!("`{m}`"))
}

fn line(text: &mut String, cells: &[String]) {
    for cell in cells {
        // Writing to a string can't fail.
        write!(text, "| {} ", cell.replace('|', "\\|")).ok();
    }
    text.push_str("|\n");
}
