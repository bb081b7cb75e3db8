//! `cto verify`: check a pack offline.

use std::io::Read as _;
use std::path::Path;

use cto_contract::ids::{Digest, Nonce, RunId};
use cto_contract::trust::Origin;
use cto_contract::verify::{
    Integrity, OperatorStanding, SignatureSeen, VerifyCode, VerifyReport, withheld_text,
};
use cto_contract::words::ClaimLevel;
use cto_evidence::key::PublicKey;
use cto_evidence::operators::{PinnedOperators, read_operators};
use cto_evidence::verify::{RECEIPT_BYTES_MAX, VerifyOptions, verify, verify_receipt};

use super::Outcome;
use super::gate::{self, PlaceArgs};
use crate::failure::{Exit, Failure};
use crate::printer::{BAD, FAINT, GOOD, Page, WARN};
use crate::session::Session;

/// Most errors that a person is shown.
const ERRORS_SHOWN: usize = 20;
/// Largest key file.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// Check a pack offline
///
/// Needs nothing but the pack: files and digests, signature, event chain and order, freshness, the path policy
/// recomputed from the patch itself, and the verdict. Whatever was asked for must be what was signed. A pack
/// carries its own key, so without a key that you know the answer is "integrity ok, origin unknown" and exit 5;
/// `--integrity-only` does not ask who sealed it. Signatures of operators (who asked, approved, denied, accepted) are checked
/// too; whose they are is known only by `--operators` and `--ledger`, which you got elsewhere.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto verify latest
  cto verify ./20260601T105222Z-r1-string-slugify-k3v9qd --key harness.pub
  cto verify --commit HEAD
  cto verify pack/ --key harness.pub --operators operators.allowed_signers --ledger SHA256
  cto verify latest --receipt > receipt.json
  cto verify receipt.json --key harness.pub --operators operators.allowed_signers --ledger SHA256
  cto verify pack/ --integrity-only --expect-run 20260601T105222Z-r1-string-slugify-k3v9qd

Exit codes: 0 it verifies, 5 it does not")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack or a receipt
    #[arg(value_name = "RUN", required_unless_present = "commit")]
    run: Option<String>,
    /// Say what the evidence is worth for this commit: exact, equivalent, none or unverifiable
    #[arg(long, value_name = "SHA", conflicts_with_all = ["run", "receipt", "operators", "ledger", "integrity_only", "expect_run", "expect_contract", "expect_nonce"])]
    commit: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print the receipt of a run of this home: its chain of custody in one JSON, which `cto-verify` checks without the pack
    #[arg(long, conflicts_with_all = ["operators", "ledger", "key", "integrity_only"])]
    receipt: bool,
    /// Take packs of this public key as known: a PEM file, or base64
    #[arg(long, value_name = "FILE_OR_BASE64")]
    key: Option<String>,
    /// Take the keys in this file as the operators': OpenSSH's allowed_signers format
    #[arg(long, value_name = "FILE", requires = "ledger")]
    operators: Option<std::path::PathBuf>,
    /// Take decisions of this ledger alone as the operators'
    #[arg(long, value_name = "ID", requires = "operators")]
    ledger: Option<Digest>,
    /// Do not ask who sealed it
    #[arg(long)]
    integrity_only: bool,
    /// Refuse the pack of any other run
    #[arg(long, value_name = "ID")]
    expect_run: Option<RunId>,
    /// Refuse a pack whose task contract has another digest
    #[arg(long, value_name = "SHA256")]
    expect_contract: Option<Digest>,
    /// Refuse a pack with another nonce
    #[arg(long, value_name = "HEX")]
    expect_nonce: Option<Nonce>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    if let Some(rev) = &args.commit {
        return gate::verify_commit(rev, &args.place, args.key.as_deref(), session);
    }
    let asked = args.run.as_deref().unwrap_or_default();
    if args.receipt {
        return receipt(asked, args, session);
    }
    if Path::new(asked).is_file() {
        return check_receipt(asked, args, session);
    }
    let (found, place) = session.locate(asked)?;
    let options = VerifyOptions {
        asked_name: found.run_id.as_ref().map(ToString::to_string),
        ..options(args, session)?
    };
    let report = verify(&found.pack, &options);
    if report.ok {
        // A good pack under the id of a run of this home must be the one that the ledger knows.
        session.open(found, place.as_ref())?;
    }
    tell(&report, args, session)
}

fn options(args: &Args, session: &Session) -> Result<VerifyOptions, Failure> {
    Ok(VerifyOptions {
        trusted: session.config()?.trusted,
        extra_key: args.key.as_deref().map(read_key).transpose()?,
        pinned: pinned(args.operators.as_deref(), args.ledger.as_ref())?,
        integrity_only: args.integrity_only,
        expect_run: args.expect_run.clone(),
        expect_contract: args.expect_contract.clone(),
        expect_nonce: args.expect_nonce.clone(),
        ..VerifyOptions::default()
    })
}

fn check_receipt(asked: &str, args: &Args, session: &Session) -> Outcome {
    let unreadable = |e: &std::io::Error| {
        let message = format!("`{asked}` could not be read");
        Failure::io("receipt_unreadable", message, e)
    };
    let mut bytes = Vec::new();
    std::fs::File::open(asked)
        .and_then(|file| file.take(RECEIPT_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|e| unreadable(&e))?;
    if bytes.len() as u64 > RECEIPT_BYTES_MAX {
        let message = format!("`{asked}` is too large for a receipt");
        return Err(Failure::new(Exit::USAGE, "receipt_too_large", message));
    }
    tell(
        &verify_receipt(&bytes, &options(args, session)?),
        args,
        session,
    )
}

/// Prints the receipt of a run of this home, once its pack verifies and the receipt itself does.
fn receipt(asked: &str, args: &Args, session: &Session) -> Outcome {
    let found = session.find(asked)?;
    let options = options(args, session)?;
    let report = verify(&found.pack, &options);
    let (true, Some(run_id)) = (report.ok, &found.run_id) else {
        return tell(&report, args, session);
    };
    let harness = session.harness()?;
    session.recover(&harness)?;
    let receipt = harness.receipt(run_id, &found.pack)?;
    let bytes = serde_json::to_vec(&receipt)
        .map_err(|e| Failure::of(Exit::FAULT, "output_not_encoded", &e))?;
    let checked = verify_receipt(&bytes, &options);
    if !checked.ok {
        return tell(&checked, args, session);
    }
    session.printer.document(&receipt)?;
    Ok(Exit::DONE)
}

impl From<cto_runner::ReceiptError> for Failure {
    fn from(error: cto_runner::ReceiptError) -> Self {
        Self::of(Exit::EVIDENCE, error.code(), &error)
    }
}

fn tell(report: &VerifyReport, args: &Args, session: &Session) -> Outcome {
    if session.printer.json {
        session.printer.document(report)?;
    } else {
        let mut page = session.printer.page();
        answer(
            &mut page,
            report,
            args.integrity_only,
            session.printer.verbose,
        );
        session.printer.show(&page)?;
    }
    Ok(if report.ok {
        Exit::DONE
    } else {
        Exit::EVIDENCE
    })
}

/// The operators and the ledger that the caller names.
pub(crate) fn pinned(
    operators: Option<&std::path::Path>,
    ledger: Option<&Digest>,
) -> Result<Option<PinnedOperators>, Failure> {
    let (Some(file), Some(ledger)) = (operators, ledger) else {
        return Ok(None);
    };
    let keys = read_operators(file).map_err(|e| {
        Failure::of(Exit::USAGE, "operators_unreadable", &e)
            .under(format!("`{}` can't be used as a file of operators", file.display()))
            .hint("one line a key: `NAME namespaces=\"cto-approval\" TYPE BASE64`, as in operators.allowed_signers")
    })?;
    Ok(Some(PinnedOperators {
        keys,
        ledger: ledger.clone(),
    }))
}

/// Reads a public key from base64 or from a file.
pub(crate) fn read_key(text: &str) -> Result<PublicKey, Failure> {
    if let Ok(key) = PublicKey::from_base64(text) {
        return Ok(key);
    }
    let shown = cto_contract::text::shorten(text, 200);
    let mut held = String::new();
    std::fs::File::open(text)
        .and_then(|file| file.take(KEY_BYTES_MAX).read_to_string(&mut held))
        .map_err(|e| {
            let mut failure = Failure::new(
                Exit::USAGE,
                "key_unreadable",
                format!("`{shown}` is neither base64 of a public key nor a file that can be read"),
            );
            failure.causes.push(e.to_string());
            failure
        })?;
    PublicKey::from_text(&held).map_err(|e| {
        Failure::of(Exit::USAGE, "key_malformed", &e)
            .under(format!("`{shown}` holds no public key"))
    })
}

fn answer(page: &mut Page, report: &VerifyReport, integrity_only: bool, verbose: bool) {
    if report.ok {
        page.styled(GOOD, "VERIFIED").end();
    } else {
        page.styled(BAD, "NOT VERIFIED").end();
    }
    let note = match report.origin {
        Origin::Unknown if integrity_only => " (not asked for)",
        Origin::Unknown => " (no key here knows its signer: --key, or `cto trust add`)",
        Origin::Known => " (signed by a key that is trusted here)",
        Origin::Expired => " (the key did not count when it was sealed)",
        Origin::Revoked => " (the key was revoked)",
    };
    page.field("integrity", report.integrity.as_str());
    page.field("origin", &format!("{}{note}", report.origin));
    let whose = match report.operator {
        OperatorStanding::None => " (nobody signed a decision)",
        OperatorStanding::Unknown => " (signatures hold; --operators and --ledger say whose)",
        OperatorStanding::Known => " (operators and ledger as you named them)",
    };
    page.field("operator", &format!("{}{whose}", report.operator));
    for seen in &report.signatures {
        page.field("signed", &signature_text(seen));
    }
    if let Some(run) = &report.run_id {
        page.field("run", run.as_str());
    }
    if let Some(status) = report.status {
        page.field("status", status.as_str());
    }
    if let Some(keyid) = &report.keyid {
        page.field("key", keyid.as_str());
    }
    if let Some(digest) = &report.pack_digest {
        page.field(
            "pack",
            &format!(
                "sha256:{digest}, {} files, {} bytes",
                report.files, report.bytes
            ),
        );
    }
    if let Some(withheld) = withheld_text(&report.withheld) {
        page.field("withheld", &withheld);
    }
    let checked: Vec<&str> = report.checked.iter().map(|c| c.as_str()).collect();
    page.field("checked", &checked.join(", "));
    if !report.errors.is_empty() {
        page.heading("What is wrong");
        for error in report.errors.iter().take(ERRORS_SHOWN) {
            page.text("  ").styled(BAD, error.code.as_str());
            if let Some(file) = &error.file {
                page.text(" ").text(&cto_contract::text::one_line(file));
            }
            page.text(": ")
                .line(&cto_contract::text::one_line(&error.message));
        }
        let more = report.errors.len().saturating_sub(ERRORS_SHOWN);
        if more > 0 {
            page.line(&format!("  … and {more} more; --json shows all"));
        }
        page.field("next", next_for(report));
    }
    if !report.claims.is_empty() {
        page.heading("What it proves");
        claims(page, &report.claims, verbose);
    }
}

/// One signature in one line.
pub(crate) fn signature_text(seen: &SignatureSeen) -> String {
    format!(
        "{} by {} at {} (presence: {}, custody: {})",
        seen.signed, seen.operator, seen.at, seen.presence, seen.custody
    )
}

/// Claims with their levels, the best supported first.
pub(crate) fn claims(page: &mut Page, claims: &[cto_contract::claim::Claim], verbose: bool) {
    let mut sorted: Vec<_> = claims.iter().collect();
    sorted.sort_by_key(|c| std::cmp::Reverse(c.level));
    for claim in sorted {
        let style = match claim.level {
            ClaimLevel::Verified => GOOD,
            ClaimLevel::Inferred => WARN,
            ClaimLevel::SelfReported | ClaimLevel::Absent => FAINT,
        };
        page.text("  ")
            .styled(style, &format!("{:<13}", claim.level))
            .text(" ")
            .line(claim.kind.text());
        if verbose {
            page.text("                ")
                .styled(FAINT, &cto_contract::text::one_line(&claim.basis_text()))
                .end();
        }
    }
}

/// What a person can do about a pack that does not verify.
fn next_for(report: &VerifyReport) -> &'static str {
    let origin_only = report.integrity == Integrity::Ok;
    let has = |code: VerifyCode| report.errors.iter().any(|e| e.code == code);
    if has(VerifyCode::NotAPack) {
        "name a run id, `latest`, or the directory of a pack; `cto runs` lists yours"
    } else if has(VerifyCode::NotSealed) {
        "a live run is not sealed yet (`cto watch`); one that crashed is sealed by `cto recover`"
    } else if origin_only && has(VerifyCode::OperatorUnknown) {
        "do not take it for approved: its signatures are not by the operators, or not of the ledger, that you named"
    } else if origin_only && report.origin != Origin::Known {
        "get the signer's key by another way, then --key or `cto trust add`; --integrity-only asks for less"
    } else {
        "do not rely on it; get another copy from where it was sealed"
    }
}
