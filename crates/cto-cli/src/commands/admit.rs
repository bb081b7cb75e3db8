//! `cto admit`: take a record of a person in, signed where an operator decides.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use cto_contract::admission::{AdmissionKind, put_answer, questions};
use cto_contract::authority::{AdmissionStatement, AdmissionStatementSchema};
use cto_contract::outputs::{AdmitOutput, RecordState};
use cto_contract::words::{AdmissionSeal, Lane, Presence};
use cto_ledger::Slot;
use cto_rules::authority::admission_floor;
use cto_runner::{
    AdmitError, Harness, KeptRecord, admission_template, admit_signed, admit_unsigned,
    check_unopposed, read_filled_in, read_record_file, signed_admissions,
};
use serde_json::Value;

use super::Outcome;
use super::run::parse_lane;
use super::trust::is_governed;
use crate::failure::{Exit, Failure};
use crate::session::Session;
use crate::signing::{Question, SignArgs, decide, nothing_else};

/// How often a person may answer one question wrongly.
const TRIES_MAX: usize = 3;

/// Let a source, a binary, a model, a provider or a target in, by a record
///
/// A record is JSON or YAML and says who let in what, and until when. It holds no secret and no address. `--template` prints
/// a skeleton that admits nothing; fill it in and hand it back with `--file`. Without either the fields are asked for, one
/// after the other. Once there is an operator, he signs: the record enters the ledger, and its file in `admissions/` of the
/// config directory is written from there. Up to stage 3 a record counts unsigned too; from stage 4 on, and for a target
/// always, only a signed one does. Another record about the same is kept unless `--replace` says otherwise.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto admit model                             answer one question after the other
  cto admit model --template > model.json     a skeleton to fill in
  cto admit model --file model.json --key ~/.ssh/id_cto   let the pair in, signed
  cto admit binary --engine codex --template  with path and digest of the program that is installed
  cto admit model --file model.json --unsigned   good up to stage 3")]
pub(crate) struct Args {
    /// What is let in: source, binary, model, decision or target
    #[arg(value_name = "KIND")]
    kind: AdmissionKind,
    /// Take this record in
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print a skeleton that admits nothing
    #[arg(long, conflicts_with_all = ["file", "unsigned", "replace"])]
    template: bool,
    /// The lane that a skeleton, or a record that is asked for, is about
    #[arg(
        long,
        value_name = "LANE",
        default_value = "command",
        conflicts_with = "file"
    )]
    engine: String,
    /// Take the place of another record about the same
    #[arg(long)]
    replace: bool,
    /// Write the record without a signature, although an operator decides here: it counts up to stage 3
    #[arg(long, conflicts_with_all = ["sign_key", "sign_agent", "sign_signature", "sign_as"])]
    unsigned: bool,
    #[command(flatten)]
    sign: SignArgs,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    if args.template {
        let lane: Lane = parse_lane(&args.engine)?;
        let skeleton = admission_template(&session.env, args.kind, lane);
        session.printer.document(&skeleton)?;
        let kind = args.kind;
        session.printer.talk(&format!(
            "it admits nothing yet: fill it in, then `cto admit {kind} --file FILE`"
        ));
        return Ok(Exit::DONE);
    }
    let is_signed = !args.unsigned && is_governed(session)?;
    if !is_signed && says_how(&args.sign) {
        let message = "there is no operator here who could sign";
        return Err(Failure::new(Exit::USAGE, "no_operator", message)
            .hint("`cto operator add NAME KEY` makes you the first")
            .hint("or leave the signature out: the record counts unsigned up to stage 3"));
    }
    let kept = match &args.file {
        Some(file) => read_record_file(Some(args.kind), file)?,
        None => fill_in(args, session, is_signed)?,
    };
    if !is_signed {
        let (config, _) = session.config_place()?;
        let book = signed_admissions(&session.home_place()?.0)?;
        let output = admit_unsigned(&config, &kept, &book, args.replace)?;
        return tell(session, &output);
    }
    sign_record(
        session,
        &session.harness()?,
        &kept,
        args.replace,
        &args.sign,
    )
}

/// Whether the caller wants to sign, whoever decides here.
fn says_how(sign: &SignArgs) -> bool {
    sign.key.is_some() || sign.agent || sign.signature.is_some() || sign.operator.is_some()
}

/// Lets an operator stand for the record of a file, whatever it is about.
pub(super) fn sign_file(
    session: &Session,
    harness: &Harness,
    file: &Path,
    sign: &SignArgs,
) -> Outcome {
    let kept = read_record_file(None, file)?;
    sign_record(session, harness, &kept, true, sign)
}

/// Lets an operator stand for a record.
fn sign_record(
    session: &Session,
    harness: &Harness,
    kept: &KeptRecord,
    replace: bool,
    sign: &SignArgs,
) -> Outcome {
    if !replace {
        check_unopposed(&harness.config.dir, kept)?;
    }
    let record = serde_json::to_value(&kept.admission)
        .map_err(|e| Failure::of(Exit::FAULT, "record_not_encoded", &e))?;
    let (kind, about) = (kept.admission.kind(), kept.admission.about());
    let ledger = harness.ledger().id()?;
    let (digest, ledger) = (kept.digest.short(), ledger.short());
    let verb = if kept.admission.is_admitted() {
        "admit"
    } else {
        "do not admit"
    };
    let purpose = format!("{verb} the {kind} of record {digest}");
    let sentence = format!("I {verb} the {kind} of record {digest} in ledger {ledger}.");
    let question = Question {
        purpose: &purpose,
        sentence: &sentence,
        shown: "",
        floor: admission_floor(kind),
        first: None,
    };
    let make = |slot: Slot, signer| AdmissionStatement {
        schema: AdmissionStatementSchema,
        ledger: slot.ledger,
        admission: kind,
        about: about.clone(),
        digest: kept.digest.clone(),
        record: record.clone(),
        signer,
        slot: slot.nonce,
        at: slot.at,
    };
    if decide(session, harness, sign, &question, make, &nothing_else)?.is_none() {
        return Ok(Exit::WAITING);
    }
    tell(session, &admit_signed(harness, kept)?)
}

fn tell(session: &Session, output: &AdmitOutput) -> Outcome {
    let printer = &session.printer;
    if printer.json {
        printer.document(output)?;
        return Ok(Exit::DONE);
    }
    let done = match output.written {
        true => "wrote",
        false => "the same record is there already:",
    };
    printer.talk(&format!("{done} {}", output.path));
    let subject = &output.subject;
    if output.state != RecordState::Admitted {
        let state = output.state;
        printer.talk(&format!("{subject} is {state}: the record lets nothing in"));
    }
    match (output.admission, &output.signature) {
        (AdmissionSeal::Signed, _) => {}
        (AdmissionSeal::Unsigned, Some(signature)) if signature.presence == Presence::None => {
            printer
                .talk("its signature shows nobody: from stage 4 on the record counts as unsigned");
        }
        (AdmissionSeal::Unsigned, _) if output.kind == AdmissionKind::Target => {
            printer
                .talk("it is unsigned: a target's record counts only with an operator's signature");
        }
        (AdmissionSeal::Unsigned, _) => {
            printer.talk("it is unsigned: it counts up to stage 3");
        }
    }
    Ok(Exit::DONE)
}

/// Asks a person for one field after the other.
fn fill_in(args: &Args, session: &Session, is_signed: bool) -> Result<KeptRecord, Failure> {
    let kind = args.kind;
    if !io::stdin().is_terminal() {
        let message = "the fields are asked for at a terminal, and there is none";
        return Err(
            Failure::new(Exit::USAGE, "no_terminal", message).hint(format!(
                "`cto admit {kind} --template` prints a skeleton; fill it in, then --file FILE"
            )),
        );
    }
    if is_signed && args.sign.key.is_none() && !args.sign.agent {
        let message = "an operator signs the record, and nothing says with which key";
        return Err(Failure::new(Exit::USAGE, "key_not_named", message)
            .hint("--key FILE or --agent; to sign elsewhere, use --template and --file"));
    }
    let lane = parse_lane(&args.engine)?;
    let skeleton = admission_template(&session.env, kind, lane);
    let mut record = serde_json::to_value(&skeleton)
        .map_err(|e| Failure::of(Exit::FAULT, "record_not_encoded", &e))?;
    begin(kind, &mut record);
    let printer = &session.printer;
    printer
        .ask("Answer each question; an empty line keeps what stands in brackets, `-` empties it.");
    for question in questions(kind) {
        if !question.applies(&record) {
            continue;
        }
        let mut tries = 0;
        loop {
            let held = question.held(&record);
            printer.ask(&format!(
                "{} ({}) [{held}]:",
                question.field, question.about
            ));
            let mut line = String::new();
            let read = io::stdin().read_line(&mut line);
            let read = read.map_err(|e| Failure::io("answer_not_read", "no answer", &e))?;
            let taken = put_answer(&mut record, question, &line);
            tries += 1;
            match taken {
                Ok(()) => break,
                Err(error) if read == 0 || tries == TRIES_MAX => {
                    return Err(Failure::of(Exit::USAGE, "record_invalid", &error));
                }
                Err(error) => printer.ask(&error.to_string()),
            }
        }
    }
    Ok(read_filled_in(kind, &record)?)
}

/// Whoever answers the questions means to let something in, now.
fn begin(kind: AdmissionKind, record: &mut Value) {
    let now = Value::from(cto_runner::now().to_string());
    let admitted = Value::from("admitted");
    match kind {
        AdmissionKind::Source | AdmissionKind::Binary => record["status"] = admitted,
        AdmissionKind::Model => {
            record["status"] = admitted;
            record["admission_timestamp"] = now;
        }
        AdmissionKind::Decision => {}
        AdmissionKind::Target => {
            record["admission_status"] = admitted;
            record["approval_timestamp"] = now;
            record["operator_outcome_required"] = Value::Bool(true);
        }
    }
}

impl From<AdmitError> for Failure {
    fn from(error: AdmitError) -> Self {
        match &error {
            AdmitError::Read { source, .. } => {
                let hint = if source.kind() == io::ErrorKind::NotFound {
                    "there is no such file: `cto admit KIND --template > FILE` writes a skeleton to fill in"
                } else {
                    "a record is a regular file of JSON or YAML that you can read"
                };
                Self::of(Exit::USAGE, "record_unreadable", &error).hint(hint)
            }
            AdmitError::Invalid(_) => Self::of(Exit::USAGE, "record_invalid", &error)
                .hint("`cto schema admission-<kind>` describes it, `--template` prints a skeleton"),
            AdmitError::Exists { .. } => Self::of(Exit::USAGE, "record_exists", &error)
                .hint("look at it, then say --replace if this one is to take its place"),
            AdmitError::Signed { .. } => Self::of(Exit::USAGE, "record_signed", &error)
                .hint("only a signed record takes its place: leave --unsigned out"),
            AdmitError::Directory(_) | AdmitError::Records(_) => {
                Self::of(Exit::USAGE, "config_unusable", &error)
            }
            AdmitError::Write { .. } | AdmitError::Random(_) => {
                Self::of(Exit::FAULT, "record_not_written", &error)
            }
        }
    }
}
