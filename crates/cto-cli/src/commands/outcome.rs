//! `cto outcome`: an operator accepts or rejects a verified run.

use cto_contract::addendum::Outcome as RunOutcome;
use cto_contract::approval::{OutcomeSchema, OutcomeStatement};
use cto_contract::ids::RunId;
use cto_contract::ledger::{Record, Seal};
use cto_contract::operator::OperatorName;
use cto_contract::outputs::{OutcomeOutput, OutcomeTag};
use cto_contract::report::Report;
use cto_contract::words::{ClaimLevel, RunStatus, Stage};
use cto_evidence::canonical::sha256;
use cto_ledger::Slot;
use cto_rules::operators::floor;
use cto_rules::views::approval::{outcome_sentence, outcome_text};
use cto_runner::{Harness, LandError, RollbackPreview, pack_file};
use cto_store::Found;

use super::{Outcome, approve};
use crate::failure::{Exit, Failure};
use crate::session::Session;
use crate::signing::{Question, SignArgs, decide};

/// Accept or reject a run after its verification, signed
///
/// What a run showed stays as it was sealed. The outcome is put beside the pack, with a closeout that binds request, grant,
/// run and outcome; it authorises nothing further. A run has one outcome.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto outcome latest accepted --key ~/.ssh/id_ed25519_sk
  cto outcome 20260601T1052 rejected --note 'not what was meant' --key ~/.ssh/id_ed25519_sk")]
pub(crate) struct Args {
    /// A run of this home: its id, a unique prefix, `latest`, or the path to its pack
    #[arg(value_name = "RUN")]
    run: String,
    /// What becomes of it
    #[arg(value_name = "OUTCOME", value_parser = ["accepted", "rejected"])]
    outcome: String,
    /// Why; needed to accept a run that no test has verified
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Take the landed change back, exactly, or not at all
    #[arg(long)]
    rollback: bool,
    #[command(flatten)]
    sign: SignArgs,
}

fn refused(code: &'static str, why: impl Into<String>) -> Failure {
    Failure::new(Exit::USAGE, code, why)
}

/// Decides about a run that was just shown.
pub(super) fn decide_now(run: &str, outcome: &str, sign: SignArgs, session: &Session) -> Outcome {
    let args = Args {
        run: run.to_owned(),
        outcome: outcome.to_owned(),
        note: None,
        rollback: false,
        sign,
    };
    self::run(&args, session)
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let outcome: RunOutcome = args
        .outcome
        .parse()
        .map_err(|e| Failure::of(Exit::USAGE, "outcome_unknown", &e))?;
    if let Some(note) = &args.note {
        approve::check_note(note)?;
    }
    let found = session.find(&args.run)?;
    let harness = session.harness()?;
    session.recover(&harness)?;
    let run_id = found
        .run_id
        .clone()
        .ok_or_else(|| refused("run_unknown", "that is no run of this home"))?;
    let sealed: Option<Found<Record>> = harness.store().find(&Seal::key(&run_id))?;
    let Some(Record::RunSealed(seal)) = sealed.map(|found| found.record) else {
        return Err(refused(
            "run_not_of_this_home",
            format!("run {run_id} was not sealed in this home"),
        ));
    };
    let bytes = pack_file::sealed_report_bytes(&found.pack)?;
    let report: Report = serde_json::from_slice(&bytes)
        .map_err(|e| Failure::of(Exit::EVIDENCE, "report_unreadable", &e))?;
    let verified = cto_evidence::verify::verify(
        &found.pack,
        &cto_evidence::verify::VerifyOptions {
            trusted: harness.config.trusted.clone(),
            expect_run: Some(run_id.clone()),
            ..Default::default()
        },
    );
    if !verified.ok || verified.pack_digest.as_ref() != Some(&seal.pack_digest) {
        return Err(Failure::new(
            Exit::EVIDENCE,
            "pack_broken",
            format!(
                "the pack of run {run_id} does not verify, or is not the one that the ledger knows"
            ),
        ));
    }
    check(outcome, &report, args)?;
    let landed = harness.landed_commit(&run_id)?;
    let lands = report.authority.stage >= Stage::DISPOSABLE;
    if outcome == RunOutcome::Accepted && lands && landed.is_none() {
        return Err(refused(
            "nothing_landed",
            format!("nothing of run {run_id} landed, so there is nothing to accept"),
        ));
    }
    let rollback = rollback(
        &harness,
        &run_id,
        outcome,
        (args.rollback, landed.is_some()),
    )?;
    // One that was decided before and not written beside the pack is finished first.
    harness.finish_addenda()?;
    let mut shown = outcome_text(&report, &seal.pack_digest, outcome, args.note.as_deref());
    if let Some(commit) = &landed {
        shown.push_str(&format!("landed commit: {commit}\n"));
    }
    if let Some(preview) = &rollback {
        shown.push_str(&preview_text(preview, args.rollback));
    }
    let make = |slot: Slot, signer: OperatorName| OutcomeStatement {
        schema: OutcomeSchema,
        ledger: slot.ledger,
        run_id: run_id.clone(),
        pack_digest: seal.pack_digest.clone(),
        outcome,
        note: args.note.clone(),
        rollback: args.rollback,
        shown_digest: sha256(shown.as_bytes()),
        signer,
        slot: slot.nonce,
        at: slot.at,
    };
    if harness.ledger().outcome(&run_id)?.is_some() {
        return Err(refused(
            "outcome_recorded",
            format!("run {run_id} has its outcome already"),
        ));
    }
    let purpose = format!("outcome {outcome} of {run_id}");
    let sentence = outcome_sentence(outcome, &report);
    let question = Question {
        purpose: &purpose,
        sentence: &sentence,
        shown: &shown,
        floor: floor(report.authority.stage, None),
        first: None,
    };
    let entered = decide(
        session,
        &harness,
        &args.sign,
        &question,
        make,
        &crate::signing::nothing_else,
    )?;
    let Some(entered) = entered else {
        return Ok(Exit::WAITING);
    };
    let written = harness.write_addenda(&run_id)?;
    let output = OutcomeOutput {
        schema_version: OutcomeTag,
        run_id,
        outcome,
        operator: entered.signer,
        presence: entered.presence,
        custody: entered.custody,
        note: args.note.clone(),
        pack_digest: seal.pack_digest,
        ledger_seq: entered.seq,
        addenda: written.addenda,
        rollback: args.rollback,
        rollback_blocker: written.rollback,
    };
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let mut page = session.printer.page();
        page.line(&format!("run {} is {}", output.run_id, output.outcome));
        page.field("beside", &output.addenda.join(", "));
        if let Some(blocker) = &output.rollback_blocker {
            page.field(
                "not taken back",
                &format!("{}: {}", blocker.code, blocker.message),
            );
        }
        session.printer.show(&page)?;
    }
    Ok(match output.rollback_blocker {
        Some(_) => Exit::BLOCKED,
        None => Exit::DONE,
    })
}

/// Prepares the rollback of what landed, to be shown; done only where it was asked for.
fn rollback(
    harness: &Harness,
    run_id: &RunId,
    outcome: RunOutcome,
    (is_asked_for, is_landed): (bool, bool),
) -> Result<Option<RollbackPreview>, Failure> {
    if is_asked_for && outcome == RunOutcome::Accepted {
        return Err(refused(
            "rollback_of_accepted",
            "what is accepted is not taken back",
        ));
    }
    if is_asked_for && !is_landed {
        return Err(refused(
            "nothing_landed",
            format!("nothing of run {run_id} landed, so there is nothing to take back"),
        ));
    }
    if outcome == RunOutcome::Accepted || !is_landed {
        return Ok(None);
    }
    match harness.preview_rollback(run_id)? {
        Ok(preview) => Ok(Some(preview)),
        Err(blocker) if is_asked_for => {
            Err(
                Failure::new(Exit::BLOCKED, blocker.code.as_str(), blocker.message)
                    .hint(blocker.hint),
            )
        }
        Err(_) => Ok(None),
    }
}

/// What the rollback does, or would do.
fn preview_text(preview: &RollbackPreview, is_asked_for: bool) -> String {
    let begins = match is_asked_for {
        true => "rollback: will be done",
        false => "rollback: prepared, and not done without --rollback",
    };
    let mut text = format!(
        "{begins}\nrollback commit: {} on {}\nrollback paths:\n",
        preview.rollback_commit, preview.branch
    );
    for path in &preview.paths {
        text.push_str(&format!("  - {}\n", cto_contract::text::one_line(path)));
    }
    text
}

impl From<LandError> for Failure {
    fn from(error: LandError) -> Self {
        Self::of(Exit::FAULT, error.code(), &error).hint("`cto recover` goes on with it")
    }
}

/// What can't be accepted, whoever signs.
fn check(outcome: RunOutcome, report: &Report, args: &Args) -> Result<(), Failure> {
    if outcome == RunOutcome::Rejected {
        return Ok(());
    }
    if report.verdict.status != RunStatus::Pass {
        return Err(refused(
            "not_a_pass",
            format!(
                "a run that is `{}` can't be accepted",
                report.verdict.status
            ),
        ));
    }
    let untested = report.verdict.claims.iter().all(|claim| {
        claim.kind != cto_contract::claim::ClaimKind::ChecksPass
            || claim.level == ClaimLevel::Absent
    });
    if untested && args.note.is_none() {
        return Err(refused(
            "note_needed",
            "no test has verified this run: say in a note why it is accepted",
        )
        .hint("--note TEXT"));
    }
    Ok(())
}
