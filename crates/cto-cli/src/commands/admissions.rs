//! `cto admissions`: the records of people.

use cto_contract::outputs::AdmissionRow;
use cto_contract::words::AdmissionSeal;
use cto_runner::{list_admissions, signed_admissions};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// List the records that let something in
///
/// They are found by their content, whatever they are called, in the config directory and in `admissions/` below it. One that
/// can't be used is shown with file, line and reason; it lets nothing in. The seal says who signed for it: from stage 4 on,
/// and for targets always, only signed records count.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto admissions
  cto admissions --json | jq '.records[] | select(.state != \"admitted\")'")]
pub(crate) struct Args {
    /// Show at most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Begin after this file: the `next` of the page before
    #[arg(long, value_name = "FILE")]
    after: Option<String>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let (config, _) = session.config_place()?;
    let book = signed_admissions(&session.home_place()?.0)?;
    let page = (args.limit as usize, args.after.as_deref());
    let output = list_admissions(&config, &book, cto_runner::now(), page)
        .map_err(|e| Failure::of(Exit::USAGE, "records_unreadable", &e))?;
    if session.printer.json {
        session.printer.document(&output)?;
        return Ok(Exit::DONE);
    }
    if output.records.is_empty() {
        session
            .printer
            .talk("no records: `cto admit model --template` prints a skeleton of one");
        return Ok(Exit::DONE);
    }
    let rows: Vec<Vec<String>> = output
        .records
        .iter()
        .map(|row| {
            vec![
                row.kind.to_string(),
                row.subject.clone().unwrap_or_default(),
                row.state.to_string(),
                seal(row),
                row.file.clone(),
                row.why.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let mut page = session.printer.page();
    page.table(&["kind", "subject", "state", "seal", "file", "why"], &rows);
    session.printer.show(&page)?;
    if let Some(next) = &output.next {
        session
            .printer
            .talk(&format!("more: cto admissions --after {next}"));
    }
    Ok(Exit::DONE)
}

/// Who stands for a record, in few words.
fn seal(row: &AdmissionRow) -> String {
    let word = row.admission.map_or("", |seal| seal.as_str());
    match &row.signature {
        None => word.to_owned(),
        Some(by) if !by.key_counts => format!("{word}: the key of {} was revoked", by.signer),
        Some(by) if row.admission == Some(AdmissionSeal::Unsigned) => {
            format!("{word}: the signature of {} shows nobody", by.signer)
        }
        Some(by) => format!(
            "{word} by {} (presence: {}, custody: {}, entry {})",
            by.signer, by.presence, by.custody, by.seq
        ),
    }
}
