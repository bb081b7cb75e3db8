//! `cto validate`: trigger every way to fail, try every way out, and check what each leaves behind.

mod provider_adapter;
mod redteam;
pub(crate) mod stages;

use clap::Subcommand;
use cto_contract::outputs::{CheckedRow, ValidateFailuresOutput};
use cto_contract::words::Stage;
use cto_proving::failures::{self, Options, ValidateError};
use cto_proving::pool;
use cto_sandbox::Launcher;

use super::Outcome;
use super::run::status_word;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, GOOD, STRONG};
use crate::session::Session;
use crate::suggest;

/// Prove that this harness refuses what it must
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Failures(FailuresArgs),
    ProviderAdapter(provider_adapter::ProviderAdapterArgs),
    Redteam(redteam::RedteamArgs),
    Stage1(stages::StageArgs),
    Stage2(stages::StageArgs),
    Stage3(stages::StageArgs),
}

/// Trigger every way to fail and check the pack of each
///
/// Every fixture gets a home, a config and a repository of its own below `validation/` in home, where its pack stays to
/// be read. A scripted program of this harness does what must be refused; then the sealed pack is checked in eight ways:
/// blocker, event, status, exit code, artifacts, digests, freshness, and that nothing outside the workspace changed.
/// Nothing of yours is touched. Exit 1 when any check does not hold.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto validate failures
  cto validate failures --only timeout --only no-diff
  cto validate failures --json | jq '.failure_reports'")]
struct FailuresArgs {
    /// Run so many at once; without it as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Run this fixture, or all of a row; may be given again
    #[arg(long, value_name = "FIXTURE")]
    only: Vec<String>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    match &args.what {
        What::Failures(args) => failures(args, session),
        What::ProviderAdapter(args) => provider_adapter::provider_adapter(args, session),
        What::Redteam(args) => redteam::redteam(args, session),
        What::Stage1(args) => stages::stage(args, Stage::FIRST, session),
        What::Stage2(args) => stages::stage(args, Stage::FIXTURE, session),
        What::Stage3(args) => stages::stage(args, Stage::COPIED_REPOSITORY, session),
    }
}

fn failures(args: &FailuresArgs, session: &Session) -> Outcome {
    let options = Options {
        directory: session.home()?.validation(),
        env: session.env.clone(),
        launcher: Launcher::current_exe(),
        jobs: args.jobs.map_or_else(pool::cores, usize::from),
        only: args.only.clone(),
    };
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let matrix = {
        let bar = session.printer.progress();
        failures::validate(&options, &interrupt.stop, &mut |row| {
            let word = if row.passed() { "ok" } else { "WRONG" };
            bar.line(&format!("{word:<8} {} ({:.2} s)", row.fixture, row.seconds));
        })?
    };
    if session.printer.json {
        session.printer.document(&matrix)?;
    } else {
        show(&matrix, session)?;
    }
    Ok(match interrupt.signal() {
        Some(signal) => Exit::signal(signal),
        None if matrix.ok => Exit::DONE,
        None => Exit::FAILED,
    })
}

impl From<ValidateError> for Failure {
    fn from(error: ValidateError) -> Self {
        match &error {
            ValidateError::UnknownFixture(name) => {
                let names: Vec<String> = failures::fixtures().map(|f| f.name()).collect();
                let failure = Self::of(Exit::USAGE, "fixture_unknown", &error);
                match suggest::nearest(name, names.iter().map(String::as_str)) {
                    Some(near) => failure.hint(format!("did you mean `{near}`?")),
                    None => failure.hint("docs/failures.md lists them"),
                }
            }
            ValidateError::Directory { .. } => {
                Self::of(Exit::FAULT, "validation_not_created", &error)
                    .hint("`cto doctor` looks at home and disk")
            }
            ValidateError::Random(_) => Self::of(Exit::FAULT, "no_randomness", &error),
            ValidateError::Name(_) => Self::of(Exit::FAULT, "validation_not_created", &error),
        }
    }
}

fn show(matrix: &ValidateFailuresOutput, session: &Session) -> Result<(), Failure> {
    let mut page = session.printer.page();
    let rows: Vec<Vec<String>> = matrix.checked.iter().map(cells).collect();
    page.table(
        &["fixture", "blocker", "status", "checks", "seconds"],
        &rows,
    );
    if !matrix.not_covered.is_empty() {
        page.heading("Not covered");
        for entry in &matrix.not_covered {
            page.line(&format!("  {}: {}", entry.blocker, entry.reason));
        }
    }
    if !matrix.errors.is_empty() {
        page.heading("Errors");
        for error in &matrix.errors {
            page.text("  ").styled(BAD, "wrong").text("  ").line(error);
        }
    }
    let good = matrix.checked.iter().filter(|row| row.passed()).count();
    page.end();
    if matrix.ok {
        page.styled(GOOD, "OK");
    } else {
        page.styled(BAD, "WRONG");
    }
    page.text("  ").styled(
        STRONG,
        &format!(
            "{good} of {} fixtures close as they must",
            matrix.checked.len()
        ),
    );
    page.end();
    page.field("packs", &matrix.directory);
    session.printer.show(&page)
}

fn cells(row: &CheckedRow) -> Vec<String> {
    let broken: Vec<&str> = row
        .checks
        .named()
        .into_iter()
        .filter(|(_, holds)| !holds)
        .map(|(name, _)| name)
        .collect();
    vec![
        row.fixture.clone(),
        row.blocker.to_string(),
        row.status.map_or("none", |s| status_word(s).0).to_owned(),
        if broken.is_empty() {
            "8 of 8".to_owned()
        } else {
            format!("not: {}", broken.join(", "))
        },
        format!("{:.2}", row.seconds),
    ]
}
