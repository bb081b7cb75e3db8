//! The attestation: its envelope, its signature, and what it is about.

use cto_contract::artifact::{ATTESTATION, SHA256SUMS};
use cto_contract::attestation::{PAYLOAD_TYPE, Predicate, Statement};
use cto_contract::ids::Digest;
use cto_contract::text;
use cto_contract::verify::VerifyCode;

use super::findings::Findings;
use crate::canonical::to_canonical;
use crate::dsse::{EnvelopeError, open_envelope};
use crate::key::PublicKey;

/// A predicate whose signature holds, and the key that made it.
#[derive(Debug)]
pub(super) struct Signed {
    pub(super) predicate: Predicate,
    pub(super) signer: PublicKey,
}

/// The list that a statement says it is about, whether or not it is signed: for who has the statement alone.
pub(super) fn subject_of(bytes: &[u8]) -> Option<Digest> {
    let opened = open_envelope(bytes, PAYLOAD_TYPE).ok()?;
    let statement: Statement = serde_json::from_slice(&opened.payload).ok()?;
    let subject = statement.subject.into_iter().next()?;
    Some(subject.digest.sha256)
}

/// Checks the attestation's file; none when its signature does not hold.
pub(super) fn check(
    bytes: &[u8],
    pack_digest: Option<&Digest>,
    findings: &mut Findings,
) -> Option<Signed> {
    let opened = match open_envelope(bytes, PAYLOAD_TYPE) {
        Ok(opened) => opened,
        Err(error) => {
            let code = if error.is_spelling() {
                VerifyCode::EnvelopeNotCanonical
            } else {
                VerifyCode::EnvelopeMalformed
            };
            findings.file(code, ATTESTATION, describe(&error));
            return None;
        }
    };
    let statement: Statement = match serde_json::from_slice(&opened.payload) {
        Ok(statement) => statement,
        Err(e) => {
            findings.file(
                VerifyCode::SchemaInvalid,
                ATTESTATION,
                format!(
                    "not a statement about a pack: {}",
                    text::shorten(&e.to_string(), 300)
                ),
            );
            return None;
        }
    };
    // A reader that knows fewer fields or other spellings of a value must not see another statement than this one.
    if !to_canonical(&statement).is_ok_and(|again| again == opened.payload) {
        findings.file(
            VerifyCode::EnvelopeNotCanonical,
            ATTESTATION,
            "the statement is not the canonical form of what it says",
        );
    }
    let signer = match PublicKey::from_base64(&statement.predicate.harness_public_key) {
        Ok(key) => key,
        Err(error) => {
            findings.file(
                VerifyCode::SchemaInvalid,
                ATTESTATION,
                format!("harness_public_key: {error}"),
            );
            return None;
        }
    };
    if signer.keyid() != opened.keyid {
        findings.file(
            VerifyCode::KeyidMismatch,
            ATTESTATION,
            "keyid is not the SHA-256 of the public key in the statement",
        );
        return None;
    }
    if !opened.is_signed_by(&signer) {
        findings.file(
            VerifyCode::SignatureInvalid,
            ATTESTATION,
            "the signature does not hold",
        );
        return None;
    }
    let is_about_this = match statement.subject.as_slice() {
        [subject] => subject.name == SHA256SUMS && pack_digest == Some(&subject.digest.sha256),
        _ => false,
    };
    if !is_about_this {
        findings.file(
            VerifyCode::StatementMismatch,
            ATTESTATION,
            "the statement is not about this SHA256SUMS",
        );
    }
    Some(Signed {
        predicate: statement.predicate,
        signer,
    })
}

/// An error with the layer below it, in one line.
pub(super) fn describe(error: &EnvelopeError) -> String {
    use std::error::Error as _;
    error
        .source()
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
