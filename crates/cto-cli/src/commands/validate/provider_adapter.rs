//! `cto validate provider-adapter`: drive the lane `case` with its double, and check what each run leaves.

use cto_contract::outputs::{AdapterCheck, ValidateProviderAdapterOutput};
use cto_proving::case_lane::{self, ADAPTER_CHECKS, FAULTS, Options};
use cto_proving::failures::ValidateError;
use cto_proving::pool;
use cto_sandbox::Launcher;

use crate::commands::Outcome;
use crate::commands::run::status_word;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, GOOD, STRONG};
use crate::session::Session;
use crate::suggest;

/// Check the adapter of Case with a double of its program
///
/// Each check is a real run of the lane `case` at stage 2 on a shipped case, with a scripted model and this program as the
/// double of `ca`, in a home and a config of its own below `validation/` in home, where its pack stays to be read. No
/// vendor's program is needed, and nothing of yours is touched. Exit 1 when any check does not hold.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto validate provider-adapter
  cto validate provider-adapter --only qwen_loop_hides_endpoint
  cto validate provider-adapter --only 401 --only rejects-softly     faults of Case, by name
  cto validate provider-adapter --json | jq '.checked[].check'")]
pub(super) struct ProviderAdapterArgs {
    /// Run so many at once; without it as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Run this check, or this fault of Case; may be given again
    #[arg(long, value_name = "CHECK")]
    only: Vec<String>,
}

pub(super) fn provider_adapter(args: &ProviderAdapterArgs, session: &Session) -> Outcome {
    let program = std::env::current_exe()
        .map_err(|e| Failure::io("program_unknown", "this program can't find itself", &e))?;
    let options = Options {
        directory: session.home()?.validation(),
        env: session.env.clone(),
        launcher: Launcher::current_exe(),
        program,
        jobs: args.jobs.map_or_else(pool::cores, usize::from),
        only: args.only.clone(),
    };
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let output = {
        let bar = session.printer.progress();
        case_lane::validate(&options, &interrupt.stop, &mut |check| {
            let word = if check.passed { "ok" } else { "WRONG" };
            bar.line(&format!(
                "{word:<8} {} ({:.2} s)",
                check.check, check.seconds
            ));
        })
        .map_err(unknown_check)?
    };
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        show(&output, session)?;
    }
    Ok(match interrupt.signal() {
        Some(signal) => Exit::signal(signal),
        None if output.ok => Exit::DONE,
        None => Exit::FAILED,
    })
}

fn unknown_check(error: ValidateError) -> Failure {
    match &error {
        ValidateError::UnknownFixture(name) => {
            let names = ADAPTER_CHECKS.iter().chain(FAULTS).map(|row| row.name);
            let failure = Failure::new(
                Exit::USAGE,
                "check_unknown",
                format!("there is no check `{name}`"),
            );
            match suggest::nearest(name, names) {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure.hint("`cto validate provider-adapter` without `--only` runs all"),
            }
        }
        ValidateError::Directory { .. } | ValidateError::Random(_) | ValidateError::Name(_) => {
            error.into()
        }
    }
}

fn show(output: &ValidateProviderAdapterOutput, session: &Session) -> Result<(), Failure> {
    let mut page = session.printer.page();
    let rows: Vec<Vec<String>> = output.checked.iter().map(cells).collect();
    page.table(&["check", "status", "started", "holds", "seconds"], &rows);
    if !output.errors.is_empty() {
        page.heading("Errors");
        for error in &output.errors {
            page.text("  ").styled(BAD, "wrong").text("  ").line(error);
        }
    }
    page.end();
    if output.ok {
        page.styled(GOOD, "OK");
    } else {
        page.styled(BAD, "WRONG");
    }
    let good = output.checked.iter().filter(|check| check.passed).count();
    let sentence = format!("{good} of {} checks hold", output.checked.len());
    page.text("  ").styled(STRONG, &sentence);
    page.end();
    page.field("packs", &output.directory);
    session.printer.show(&page)
}

fn cells(check: &AdapterCheck) -> Vec<String> {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    vec![
        check.check.clone(),
        check.status.map_or("none", |s| status_word(s).0).to_owned(),
        check.case_process_started.map_or("?".to_owned(), yes),
        yes(check.passed),
        format!("{:.2}", check.seconds),
    ]
}
