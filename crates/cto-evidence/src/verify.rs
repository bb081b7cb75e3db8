//! Checks a pack with nothing but the pack: what is there, whether it is what was sealed, and whether it adds up.

mod addenda;
mod approval;
mod change;
mod claims;
mod derived;
mod documents;
mod eligibility;
mod files;
mod findings;
mod freshness;
mod origin;
mod receipt;
mod seal_read;
mod signatures;
mod statement;
mod verdict;

use std::io;
use std::path::{Path, PathBuf};

use cto_contract::artifact::{ATTESTATION, EVENTS, PATCH, REPORT_JSON, SHA256SUMS};
use cto_contract::ids::{Digest, Nonce, RunId};
use cto_contract::trust::{Origin, TrustedKey};
use cto_contract::verify::{
    Integrity, OperatorStanding, SignatureSeen, VerifyCheck, VerifyCode, VerifyReport, VerifySchema,
};
use cto_rules::lifecycle::replay;

use crate::key::PublicKey;
use crate::operators::PinnedOperators;
use crate::pack::PackDir;
use change::Patch;
use documents::{Documents, Facts};
use files::Files;
use findings::Findings;
use signatures::Signatures;
use statement::Signed;

pub use receipt::{RECEIPT_BYTES_MAX, verify_receipt};
pub use seal_read::{SealRead, read_seal};

/// What the caller knows and asks.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// Keys whose packs have a known origin.
    pub trusted: Vec<TrustedKey>,
    /// A key that the caller vouches for (`--key`).
    pub extra_key: Option<PublicKey>,
    /// Operators and their ledger, as the caller knows them from elsewhere: who else signed is a stranger.
    pub pinned: Option<PinnedOperators>,
    /// Do not ask who sealed it.
    pub integrity_only: bool,
    pub expect_run: Option<RunId>,
    pub expect_contract: Option<Digest>,
    pub expect_nonce: Option<Nonce>,
    /// The id or directory name that was asked for: must be the signed run id. See [`name_in_path`].
    pub asked_name: Option<String>,
    /// Where the addenda are; none means `<run_id>.addenda` beside the pack, if it is there.
    pub addenda_dir: Option<PathBuf>,
}

/// The name that a path asks for: its last component if that is a run id. Any other name claims nothing.
pub fn name_in_path(pack: &Path) -> Option<String> {
    let name = pack.file_name()?.to_str()?;
    name.parse::<RunId>().ok().map(|id| id.to_string())
}

/// Verifies a pack. Every error is collected; nothing is written, nothing panics, no link is followed.
pub fn verify(pack: &Path, options: &VerifyOptions) -> VerifyReport {
    let mut findings = Findings::default();
    let opened = match PackDir::open(pack) {
        Ok(opened) => opened,
        Err(error) => {
            let why = if error.kind() == io::ErrorKind::NotFound {
                "there is no such directory".to_owned()
            } else {
                error.to_string()
            };
            findings.whole(VerifyCode::NotAPack, format!("`{}`: {why}", pack.display()));
            return answer(findings, Checked::default());
        }
    };
    // Any directory can be named by mistake; one without a single file of ours is not read through.
    let is_there = |name: &&str| {
        opened
            .open_path(name)
            .is_ok_and(|file| file.metadata().is_ok_and(|meta| meta.is_file()))
    };
    if ![ATTESTATION, SHA256SUMS, REPORT_JSON, EVENTS]
        .iter()
        .any(is_there)
    {
        let why = "the directory holds no file of an evidence pack";
        findings.whole(VerifyCode::NotAPack, format!("`{}`: {why}", pack.display()));
        return answer(findings, Checked::default());
    }
    let mut files = Files::read(&opened, &mut findings);
    files.check_list(&mut findings);
    files.check_digests(&mut findings);
    let mut done = Checked {
        checks: vec![VerifyCheck::Files, VerifyCheck::Digests],
        ..Checked::default()
    };

    done.signed = files.bytes_of(ATTESTATION).and_then(|bytes| {
        done.checks.push(VerifyCheck::Attestation);
        statement::check(bytes, files.pack_digest.as_ref(), &mut findings)
    });
    let documents = Documents::read(&mut files, &mut findings);
    done.checks.push(VerifyCheck::Schema);
    let mut signatures = Signatures::new(options.pinned.as_ref());
    let granted = judge(
        &files,
        &documents,
        &mut signatures,
        &mut done,
        &mut findings,
    );

    if let (Some(signed), Some(pack_digest)) = (&done.signed, &files.pack_digest) {
        // By `..`, so that a pack named as `.` finds its neighbour too.
        let beside = || {
            pack.join("..")
                .join(format!("{}.addenda", signed.predicate.run_id))
        };
        let dir = options.addenda_dir.clone().unwrap_or_else(beside);
        let about = addenda::Pack {
            run_id: &signed.predicate.run_id,
            pack_digest,
            signer: &signed.signer,
            status: signed.predicate.status,
            granted: granted.as_ref(),
        };
        let asked_for = options.addenda_dir.as_deref();
        if addenda::check(
            (&dir, asked_for.is_some()),
            &about,
            options,
            &mut signatures,
            &mut findings,
        ) {
            done.checks.push(VerifyCheck::Addenda);
        }
        done.origin = origin::judge(&signed.signer, signed.predicate.run_finished_at, options);
        origin::check(done.origin, options, &mut findings);
        done.checks.push(VerifyCheck::Origin);
    }
    (done.operator, done.signatures) = signatures.finish(&mut findings);
    check_subject(&done, options, &mut findings);
    done.checks.push(VerifyCheck::Subject);

    done.claims = documents
        .report
        .as_ref()
        .map(|report| claims::lowered(report, &files, findings.is_integrity_broken()))
        .unwrap_or_default();
    done.files = files;
    answer(findings, done)
}

/// What is known at the end.
struct Checked {
    checks: Vec<VerifyCheck>,
    signed: Option<Signed>,
    origin: Origin,
    operator: OperatorStanding,
    signatures: Vec<SignatureSeen>,
    files: Files,
    claims: Vec<cto_contract::claim::Claim>,
}

impl Default for Checked {
    fn default() -> Self {
        Self {
            checks: Vec::new(),
            signed: None,
            origin: Origin::Unknown,
            operator: OperatorStanding::None,
            signatures: Vec::new(),
            files: Files::default(),
            claims: Vec::new(),
        }
    }
}

/// Everything that follows from the content: chain, order, approval, freshness, path policy, verdict. Gives the grant
/// of the log.
fn judge(
    files: &Files,
    documents: &Documents,
    signatures: &mut Signatures<'_>,
    done: &mut Checked,
    findings: &mut Findings,
) -> Option<approval::Granted> {
    let predicate = done.signed.as_ref().map(|s| &s.predicate);
    let report = documents.report.as_ref();
    if let Some(log) = &documents.log {
        if let Some(predicate) = predicate {
            verdict::check_head(log, predicate, findings);
        }
        done.checks.push(VerifyCheck::Chain);
    }
    let state = documents
        .log
        .as_ref()
        .and_then(|log| match replay(&log.events) {
            Ok(state) => Some(state),
            Err(error) => {
                findings.file(VerifyCode::EventOrder, EVENTS, error.to_string());
                None
            }
        });
    if let Some(state) = &state {
        verdict::check_order(state, report, findings);
        done.checks.push(VerifyCheck::Order);
    }
    let granted = documents.log.as_ref().and_then(|log| {
        done.checks.push(VerifyCheck::Approval);
        approval::check(&Facts::of(log), documents, signatures, findings)
    });
    let Some(report) = report else { return granted };
    let is_recovered = documents
        .log
        .as_ref()
        .is_some_and(|log| Facts::of(log).is_recovered);
    freshness::check(report, files, is_recovered, findings);
    done.checks.push(VerifyCheck::Freshness);
    verdict::check_index(report, documents.report_value.as_ref(), files, findings);
    if let Some(predicate) = predicate {
        verdict::check_predicate(report, predicate, findings);
    }
    let Some(log) = &documents.log else {
        return granted;
    };
    if let Some(state) = &state {
        claims::check(report, files, state, findings);
    }
    let facts = Facts::of(log);
    let contract = documents.contract.as_ref();
    if let Some(bytes) = files.bytes_of(PATCH) {
        change::check(report, &facts, contract, Patch::There(bytes), findings);
        done.checks.push(VerifyCheck::Policy);
    } else if let Some(digest) = files.digest_of_withheld(PATCH) {
        change::check(report, &facts, contract, Patch::Withheld(digest), findings);
    }
    verdict::check_story(report, log, &facts, documents, findings);
    eligibility::check(log, &facts, documents, findings);
    verdict::check_verdict(report, &facts, documents, findings);
    if let Some(state) = state.filter(|_| !findings.is_integrity_broken()) {
        derived::check(report, log, &state, files, findings);
    }
    done.checks.push(VerifyCheck::Verdict);
    granted
}

/// Checks that the pack is the one that was asked for.
fn check_subject(done: &Checked, options: &VerifyOptions, findings: &mut Findings) {
    let predicate = done.signed.as_ref().map(|s| &s.predicate);
    if let Some(asked) = &options.asked_name {
        let same = predicate.is_some_and(|p| p.run_id.as_str() == asked);
        if !same {
            let signed = predicate.map_or("no run that is signed for", |p| p.run_id.as_str());
            findings.whole(
                VerifyCode::SubjectMismatch,
                format!("asked for `{asked}`, the pack is of {signed}"),
            );
        }
    }
    let mut expect = |what: &str, expected: Option<&str>, found: Option<&str>| {
        if let Some(expected) = expected
            && found != Some(expected)
        {
            let found = found.unwrap_or("nothing that is signed for");
            findings.whole(
                VerifyCode::ExpectationMismatch,
                format!("expected the {what} {expected}, found {found}"),
            );
        }
    };
    expect(
        "run",
        options.expect_run.as_ref().map(RunId::as_str),
        predicate.map(|p| p.run_id.as_str()),
    );
    expect(
        "contract",
        options.expect_contract.as_ref().map(Digest::as_str),
        predicate.map(|p| p.contract_digest.as_str()),
    );
    expect(
        "nonce",
        options.expect_nonce.as_ref().map(Nonce::as_str),
        predicate.map(|p| p.nonce.as_str()),
    );
}

fn answer(findings: Findings, done: Checked) -> VerifyReport {
    let mut checked = done.checks;
    checked.sort_unstable();
    VerifyReport {
        schema_version: VerifySchema,
        ok: findings.is_empty(),
        integrity: if findings.is_integrity_broken() {
            Integrity::Broken
        } else {
            Integrity::Ok
        },
        origin: done.origin,
        operator: done.operator,
        signatures: done.signatures,
        run_id: done.signed.as_ref().map(|s| s.predicate.run_id.clone()),
        status: done.signed.as_ref().map(|s| s.predicate.status),
        keyid: done.signed.as_ref().map(|s| s.signer.keyid()),
        pack_digest: done.files.pack_digest,
        files: (done.files.paths.len() - done.files.withheld.len()) as u64,
        bytes: done.files.bytes,
        checked,
        errors: findings.into_errors(),
        claims: done.claims,
        withheld: done.files.withheld.into_iter().collect(),
    }
}
