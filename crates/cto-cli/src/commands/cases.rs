//! `cto cases`: what can be run.

use std::path::PathBuf;

use cto_runner::{Case, Catalog, list_cases, show_case};

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
    let output = list_cases(catalog)?;
    if session.printer.json {
        return session.printer.document(&output);
    }
    let cells: Vec<Vec<String>> = output
        .cases
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

fn one(case: &Case, session: &Session) -> Result<(), Failure> {
    let output = show_case(case)?;
    if session.printer.json {
        return session.printer.document(&output);
    }
    let contract = &output.contract;
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
    page.styled(crate::printer::STRONG, output.id.as_str())
        .text("  ")
        .line(&cto_contract::text::one_line(&contract.title));
    page.field(
        "from",
        if output.embedded {
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
        &if output.cheats.is_empty() {
            "none".to_owned()
        } else {
            output.cheats.join(", ")
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
