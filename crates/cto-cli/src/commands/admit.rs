//! `cto admit`: take a record of a person in.

use std::path::PathBuf;

use cto_contract::admission::AdmissionKind;
use cto_contract::outputs::RecordState;
use cto_contract::words::Lane;
use cto_runner::{AdmitError, admission_template, admit_file};

use super::Outcome;
use super::run::parse_lane;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Let a source, a binary, a model, a provider or a target in, by a record
///
/// A record is JSON or YAML and says who let in what, and until when. It holds no secret and no address. `--template` prints
/// a skeleton that admits nothing; fill it in and hand it back with `--file`. Records lie in `admissions/` of the config
/// directory; another record about the same is kept unless `--replace` says otherwise.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto admit model --template > model.json     a skeleton to fill in
  cto admit model --file model.json           let the pair in
  cto admit binary --engine codex --template  with path and digest of the program that is installed")]
pub(crate) struct Args {
    /// What is let in: source, binary, model, decision or target
    #[arg(value_name = "KIND")]
    kind: AdmissionKind,
    /// Take this record in
    #[arg(long, value_name = "FILE", required_unless_present = "template")]
    file: Option<PathBuf>,
    /// Print a skeleton that admits nothing
    #[arg(long, conflicts_with = "file")]
    template: bool,
    /// The lane that a skeleton is about
    #[arg(
        long,
        value_name = "LANE",
        default_value = "command",
        requires = "template"
    )]
    engine: String,
    /// Take the place of another record about the same
    #[arg(long, requires = "file")]
    replace: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let Some(file) = &args.file else {
        let lane: Lane = parse_lane(&args.engine)?;
        let skeleton = admission_template(&session.env, args.kind, lane);
        session.printer.document(&skeleton)?;
        let kind = args.kind;
        session.printer.talk(&format!(
            "it admits nothing yet: fill it in, then `cto admit {kind} --file FILE`"
        ));
        return Ok(Exit::DONE);
    };
    let (config, _) = session.config_place()?;
    let output = admit_file(&config, args.kind, file, args.replace).map_err(failure)?;
    if session.printer.json {
        session.printer.document(&output)?;
        return Ok(Exit::DONE);
    }
    let done = match output.written {
        true => "wrote",
        false => "the same record is there already:",
    };
    session.printer.talk(&format!("{done} {}", output.path));
    if output.state != RecordState::Admitted {
        let (subject, state) = (&output.subject, output.state);
        session
            .printer
            .talk(&format!("{subject} is {state}: the record lets nothing in"));
    }
    Ok(Exit::DONE)
}

fn failure(error: AdmitError) -> Failure {
    match &error {
        AdmitError::Read { .. } => Failure::of(Exit::USAGE, "record_unreadable", &error),
        AdmitError::Invalid(_) => Failure::of(Exit::USAGE, "record_invalid", &error)
            .hint("`cto schema admission-<kind>` describes it, `--template` prints a skeleton"),
        AdmitError::Exists { .. } => Failure::of(Exit::USAGE, "record_exists", &error)
            .hint("look at it, then say --replace if this one is to take its place"),
        AdmitError::Directory(_) => Failure::of(Exit::USAGE, "config_unusable", &error),
        AdmitError::Write { .. } | AdmitError::Random(_) => {
            Failure::of(Exit::FAULT, "record_not_written", &error)
        }
    }
}
