//! `cto doctor`: is everything there that a run needs?

use cto_contract::outputs::{DoctorCheck, Health};
use cto_contract::text::one_line;
use cto_rules::doctor::diagnose;
use cto_runner::machine_facts;

use super::Outcome;
use crate::failure::Exit;
use crate::printer::{BAD, FAINT, GOOD, Page, WARN};
use crate::session::Session;

/// Check that this machine can run
///
/// Looks at home, config, key, database, disk, git, python3 and what the kernel allows for confinement. Each
/// finding says what to do. Exit 1 when something fails.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  cto doctor")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, session: &Session) -> Outcome {
    let facts = machine_facts(
        session.home_flag.as_deref(),
        session.config_flag.as_deref(),
        &session.env,
    );
    let output = diagnose(&facts);
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let mut page = session.printer.page();
        for check in &output.checks {
            show(&mut page, check);
        }
        session.printer.show(&page)?;
    }
    Ok(if output.ok { Exit::DONE } else { Exit::FAILED })
}

fn show(page: &mut Page, check: &DoctorCheck) {
    let style = match check.state {
        Health::Ok => GOOD,
        Health::Warn => WARN,
        Health::Fail => BAD,
    };
    page.styled(style, &format!("{:<5}", check.state))
        .text(&format!("{:<12} ", check.name))
        .line(&one_line(&check.detail));
    if let Some(remedy) = &check.remedy {
        page.text("                  ")
            .styled(FAINT, &format!("→ {}", one_line(remedy)))
            .end();
    }
}
