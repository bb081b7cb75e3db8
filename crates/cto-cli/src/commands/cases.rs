//! `cto cases`: what can be run.

use std::path::PathBuf;

use cto_contract::outputs::{CaseOutput, CaseRow, CaseTag, CasesOutput, CasesTag};
use cto_runner::{Case, Catalog};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// List the cases, or show one in full
///
/// A case is a task with its own small workspace, the paths it may write, and the checks that judge it. Shipped
/// cases are inside the binary; `--cases DIR` adds yours, one directory each. Their cheats are changes that look
/// right and must not pass.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto cases
  cto cases r1-string-slugify       the whole contract
  cto cases --cases ./cases         with your own")]
pub(crate) struct Args {
    /// Show this case in full
    #[arg(value_name = "CASE")]
    case: Option<String>,
    /// Add a directory of your own cases
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let catalog = Catalog {
        extra: args.cases.clone(),
    };
    match &args.case {
        Some(id) => one(&catalog.find(id)?, session)?,
        None => all(&catalog, session)?,
    }
    Ok(Exit::DONE)
}

fn all(catalog: &Catalog, session: &Session) -> Result<(), Failure> {
    let rows: Vec<CaseRow> = catalog
        .ids()?
        .into_iter()
        .map(|id| row(catalog, id))
        .collect();
    if session.printer.json {
        return session.printer.document(&CasesOutput {
            schema_version: CasesTag,
            cases: rows,
        });
    }
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let from = if row.embedded { "shipped" } else { "own" };
            let title = row
                .title
                .clone()
                .or_else(|| row.problem.as_ref().map(|p| format!("can't be used: {p}")))
                .unwrap_or_default();
            vec![
                row.id.clone(),
                title,
                row.checks.to_string(),
                row.cheats.to_string(),
                from.to_owned(),
            ]
        })
        .collect();
    let mut page = session.printer.page();
    page.table(&["case", "title", "checks", "cheats", "from"], &cells);
    session.printer.show(&page)
}

/// One bad case of a directory does not hide the others.
fn row(catalog: &Catalog, id: String) -> CaseRow {
    let read = catalog
        .find(&id)
        .and_then(|case| Ok((case.cheats()?, case)));
    match read {
        Ok((cheats, case)) => CaseRow {
            id,
            title: Some(case.file.title.clone()),
            embedded: case.is_embedded(),
            allowed_paths: case
                .file
                .allowed_paths
                .iter()
                .map(ToString::to_string)
                .collect(),
            checks: case.file.verification_commands.len() as u64,
            cheats: cheats.len() as u64,
            problem: None,
        },
        Err(error) => {
            let failure = Failure::from(error);
            let problem = failure.causes.first().cloned().unwrap_or(failure.message);
            CaseRow {
                id,
                title: None,
                embedded: false,
                allowed_paths: Vec::new(),
                checks: 0,
                cheats: 0,
                problem: Some(problem),
            }
        }
    }
}

fn one(case: &Case, session: &Session) -> Result<(), Failure> {
    let contract = case.file.contract();
    let cheats = case.cheats()?;
    if session.printer.json {
        let output = CaseOutput {
            schema_version: CaseTag,
            id: case.file.id.clone(),
            embedded: case.is_embedded(),
            cheats,
            contract,
        };
        return session.printer.document(&output);
    }
    let list = |patterns: &[cto_contract::path::PathPattern]| {
        if patterns.is_empty() {
            "nothing".to_owned()
        } else {
            patterns
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        }
    };
    let mut page = session.printer.page();
    page.styled(crate::printer::STRONG, case.file.id.as_str())
        .text("  ")
        .line(&cto_contract::text::one_line(&contract.title));
    page.field(
        "from",
        if case.is_embedded() {
            "shipped with this binary"
        } else {
            "your own"
        },
    );
    page.field("allowed", &list(&contract.allowed_paths));
    page.field("forbidden", &list(&contract.forbidden_paths));
    page.field("frozen", &list(&contract.frozen_paths));
    page.field("network", contract.network.as_str());
    page.field(
        "cheats",
        &if cheats.is_empty() {
            "none".to_owned()
        } else {
            cheats.join(", ")
        },
    );
    page.heading("Instruction")
        .line(contract.instruction.trim_end());
    page.heading("Checks");
    for command in &contract.verification_commands {
        page.text("  ")
            .text(&cto_contract::text::one_line(&command.run));
        if command.must_fail_before {
            page.text("  (must fail before the change)");
        }
        page.end();
    }
    session.printer.show(&page)
}
