//! Checks a receipt with nothing but the receipt: every link of the chain of custody names the one before it.

use cto_contract::approval::{ApprovalRequest, GrantStatement, RequesterStatement};
use cto_contract::attestation::Predicate;
use cto_contract::checkpoint::{Checkpoint, PAYLOAD_TYPE as CHECKPOINT};
use cto_contract::operator::Signed;
use cto_contract::receipt::Receipt;
use cto_contract::trust::Origin;
use cto_contract::verify::{
    Integrity, SignedKind, VerifyCheck, VerifyCode, VerifyReport, VerifySchema,
};
use cto_contract::words::RunStatus;
use cto_rules::approval::{needs_approval, policy_faults};
use cto_rules::operators::{floor, meets};
use cto_rules::views::approval::request_text;

use super::approval::Granted;
use super::findings::Findings;
use super::signatures::Signatures;
use super::{VerifyOptions, addenda, origin, statement};
use crate::canonical::{digest_of, sha256, to_canonical};
use crate::dsse::open_envelope;
use crate::key::PublicKey;

const APPROVAL: VerifyCode = VerifyCode::ApprovalInvalid;
const REQUEST: &str = "request";
const GRANT: &str = "grant";
const HEAD: &str = "ledger_head";

/// Largest receipt.
pub const RECEIPT_BYTES_MAX: u64 = 8 << 20;

/// Verifies a receipt. Its answer is that of a pack, without what only the pack itself can show.
pub fn verify_receipt(bytes: &[u8], options: &VerifyOptions) -> VerifyReport {
    let mut findings = Findings::default();
    let mut signatures = Signatures::new(options.pinned.as_ref());
    let receipt: Option<Receipt> = match serde_json::from_slice(bytes) {
        Ok(receipt) => Some(receipt),
        Err(e) => {
            findings.whole(VerifyCode::SchemaInvalid, format!("not a receipt: {e}"));
            None
        }
    };
    let attested = receipt.as_ref().and_then(|receipt| {
        let about = statement::subject_of(receipt.attestation.as_bytes());
        statement::check(
            receipt.attestation.as_bytes(),
            about.as_ref(),
            &mut findings,
        )
        .zip(about)
    });
    let mut judged = Origin::Unknown;
    if let (Some(receipt), Some((signed, pack_digest))) = (&receipt, &attested) {
        check_custody(receipt, &signed.predicate, &mut signatures, &mut findings);
        let files = receipt.addenda.iter();
        let granted = receipt.grant.clone().map(|grant| Granted {
            grant,
            is_used: signed.predicate.approval_id.is_some(),
        });
        let pack = addenda::Pack {
            run_id: &signed.predicate.run_id,
            pack_digest,
            signer: &signed.signer,
            status: signed.predicate.status,
            granted: granted.as_ref(),
        };
        addenda::check_records(
            files.map(|f| (f.name.clone(), Ok(f.content.clone().into_bytes()))),
            &pack,
            options,
            &mut signatures,
            &mut findings,
        );
        check_head(receipt, &signed.signer, options, &mut findings);
        judged = origin::judge(&signed.signer, signed.predicate.run_finished_at, options);
        origin::check(judged, options, &mut findings);
        if let Some(expected) = &options.expect_run {
            findings.need(
                *expected == signed.predicate.run_id,
                VerifyCode::ExpectationMismatch,
                "attestation",
                "is of another run than expected",
            );
        }
    }
    let (operator, signatures) = signatures.finish(&mut findings);
    let predicate = attested.as_ref().map(|(signed, _)| &signed.predicate);
    VerifyReport {
        schema_version: VerifySchema,
        ok: findings.is_empty(),
        integrity: if findings.is_integrity_broken() {
            Integrity::Broken
        } else {
            Integrity::Ok
        },
        origin: judged,
        operator,
        signatures,
        run_id: predicate.map(|p| p.run_id.clone()),
        status: predicate.map(|p| p.status),
        keyid: attested.as_ref().map(|(signed, _)| signed.signer.keyid()),
        pack_digest: attested.as_ref().map(|(_, digest)| digest.clone()),
        files: 1,
        bytes: bytes.len() as u64,
        checked: vec![
            VerifyCheck::Attestation,
            VerifyCheck::Schema,
            VerifyCheck::Approval,
            VerifyCheck::Addenda,
            VerifyCheck::Origin,
        ],
        errors: findings.into_errors(),
        claims: Vec::new(),
        withheld: Vec::new(),
    }
}

fn check_custody(
    receipt: &Receipt,
    predicate: &Predicate,
    signatures: &mut Signatures<'_>,
    findings: &mut Findings,
) {
    let approval_id = predicate.approval_id.as_deref();
    match (&receipt.request, &receipt.grant) {
        (None, None) => {
            findings.need(
                approval_id.is_none() && receipt.asked.is_none(),
                APPROVAL,
                GRANT,
                "the run used an approval that the receipt does not hold",
            );
        }
        (Some(request), Some(grant)) => {
            let asked = receipt.asked.as_deref();
            check_grant(request, grant, asked, findings);
            let bound = &grant.statement.bindings;
            // A harness that died may have used it up and not said so.
            let is_cut = approval_id.is_none() && predicate.status != RunStatus::Pass;
            let same = (is_cut || approval_id == Some(request.request_id.as_str()))
                && predicate.contract_digest == bound.contract_digest
                && predicate.identity_digest.as_ref() == Some(&bound.identity_digest)
                && predicate.case_id == bound.task_id
                && predicate.backend == bound.lane;
            findings.need(
                same,
                APPROVAL,
                "attestation",
                "the run is not the one that was approved",
            );
            if let Some(asked) = asked {
                signatures.take(SignedKind::Requester, asked, (APPROVAL, REQUEST), findings);
            }
            signatures.take(SignedKind::Grant, grant, (APPROVAL, GRANT), findings);
        }
        (Some(_), None) | (None, Some(_)) => findings.file(
            APPROVAL,
            GRANT,
            "request and grant belong together, and one of them is missing",
        ),
    }
}

/// The grant is for this request, as it was shown, and by somebody who could give it.
fn check_grant(
    request: &ApprovalRequest,
    grant: &Signed<GrantStatement>,
    asked: Option<&Signed<RequesterStatement>>,
    findings: &mut Findings,
) {
    let statement = &grant.statement;
    let digest = digest_of(request).ok();
    let shown = sha256(request_text(request).as_bytes());
    let contract = &request.contract;
    let mut need = |holds: bool, file: &str, what: &str| findings.need(holds, APPROVAL, file, what);
    need(
        digest.as_ref() == Some(&statement.request_digest)
            && statement.request_id == request.request_id
            && statement.ledger == request.ledger,
        GRANT,
        "is for another request",
    );
    need(
        statement.shown_digest == shown,
        GRANT,
        "the operator was shown something else",
    );
    need(
        statement.bindings == request.bindings
            && statement.expires_at == request.expires_at
            && statement.requester == request.requester
            && statement.records == request.records
            && statement.sentence == request.sentence,
        GRANT,
        "binds other things than its request",
    );
    need(
        statement.sentence == statement.bindings.sentence(statement.expires_at),
        GRANT,
        "the sentence is not that of what the grant binds",
    );
    need(
        statement.at < statement.expires_at,
        GRANT,
        "was given after it had expired",
    );
    let bound = &request.bindings;
    need(
        digest_of(contract).ok().as_ref() == Some(&bound.contract_digest)
            && digest_of(&request.identity).ok().as_ref() == Some(&bound.identity_digest)
            && contract.task_id == bound.task_id
            && needs_approval(contract, bound.stage),
        REQUEST,
        "binds another contract or identity than it shows",
    );
    let by = asked.map(|asked| &asked.statement);
    need(
        by.is_none_or(|by| {
            Some(&by.request_digest) == digest.as_ref()
                && by.request_id == request.request_id
                && by.shown_digest == shown
        }),
        REQUEST,
        "the operator who asked signed for another request",
    );
    need(
        statement.self_approved == by.is_none_or(|by| by.signer == statement.signer),
        GRANT,
        "self_approved is not what the signatures show",
    );
    let policy = contract.approval_policy.as_ref();
    for fault in policy_faults(policy, &statement.signer, by.map(|by| &by.signer)) {
        need(false, GRANT, &fault.to_string());
    }
    need(
        meets(grant.signature.presence, floor(bound.stage, None)),
        GRANT,
        "shows less presence than its stage needs",
    );
}

/// How far the ledger had come, by the word of a harness key that counts as the pack's does.
fn check_head(
    receipt: &Receipt,
    signer: &PublicKey,
    options: &VerifyOptions,
    findings: &mut Findings,
) {
    let read = || -> Result<Checkpoint, String> {
        let bytes = receipt.ledger_head.as_bytes();
        let opened = open_envelope(bytes, CHECKPOINT).map_err(|e| statement::describe(&e))?;
        let head: Checkpoint =
            serde_json::from_slice(&opened.payload).map_err(|e| e.to_string())?;
        if !to_canonical(&head).is_ok_and(|again| again == opened.payload) {
            return Err("is not the canonical form of what it says".to_owned());
        }
        let key = PublicKey::from_base64(&head.harness_public_key).map_err(|e| e.to_string())?;
        if !opened.is_signed_by(&key) {
            return Err("the signature does not hold, or keyid is not that of the key".to_owned());
        }
        if key != *signer && origin::judge(&key, head.at, options) != Origin::Known {
            return Err("signed by a key that is neither the pack's nor known".to_owned());
        }
        Ok(head)
    };
    let head = match read() {
        Ok(head) => head,
        Err(why) => {
            findings.file(VerifyCode::AddendumInvalid, HEAD, why);
            return;
        }
    };
    let granted = receipt.grant.as_ref().map(|grant| &grant.statement.ledger);
    findings.need(
        granted.is_none_or(|ledger| *ledger == head.ledger),
        APPROVAL,
        HEAD,
        "is of another ledger than the grant",
    );
    let pinned = options.pinned.as_ref().map(|pinned| &pinned.ledger);
    findings.need(
        pinned.is_none_or(|ledger| *ledger == head.ledger),
        VerifyCode::OperatorUnknown,
        HEAD,
        "is of another ledger than the one that was named",
    );
}
