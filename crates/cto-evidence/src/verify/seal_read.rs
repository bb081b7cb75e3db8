//! The seal of a pack alone: what it covers, whose it is. No other file is read.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use cto_contract::artifact::{ATTESTATION, SHA256SUMS};
use cto_contract::ids::{Digest, RunId};
use cto_contract::time::Utc;
use cto_contract::trust::{Origin, TrustedKey};
use cto_contract::verify::{VerifyCode, VerifyError};
use cto_contract::words::RunStatus;

use super::findings::Findings;
use super::{VerifyOptions, origin, statement};
use crate::canonical::sha256;
use crate::pack::{PackDir, finding};
use crate::read::JSON_BYTES_MAX;
use crate::sums::read_sums;

/// A seal whose signature holds and which is about the list of files beside it.
#[derive(Debug, Clone)]
pub struct SealRead {
    pub run_id: RunId,
    pub status: RunStatus,
    pub finished_at: Utc,
    pub keyid: Digest,
    pub origin: Origin,
    pub pack_digest: Digest,
    /// What every file of the pack must hash to.
    pub sums: BTreeMap<String, Digest>,
}

/// Reads list and attestation of a pack; none when it is not sealed.
pub fn read_seal(pack: &Path, trusted: &[TrustedKey]) -> Result<Option<SealRead>, VerifyError> {
    let dir = PackDir::open(pack).map_err(|e| {
        finding(
            VerifyCode::NotAPack,
            &pack.display().to_string(),
            e.to_string(),
        )
    })?;
    let Some(attestation) = small_file(&dir, ATTESTATION)? else {
        return Ok(None);
    };
    let sums = small_file(&dir, SHA256SUMS)?
        .ok_or_else(|| finding(VerifyCode::FileMissing, SHA256SUMS, "is missing"))?;
    let pack_digest = sha256(&sums);
    let mut findings = Findings::default();
    let signed = statement::check(&attestation, Some(&pack_digest), &mut findings);
    let first = findings.into_errors().into_iter().next();
    let (Some(signed), None) = (signed, &first) else {
        return Err(first.unwrap_or_else(|| {
            finding(
                VerifyCode::SignatureInvalid,
                ATTESTATION,
                "the signature does not hold",
            )
        }));
    };
    let sums = read_sums(&sums)
        .map_err(|e| finding(VerifyCode::SumsMalformed, SHA256SUMS, e.to_string()))?;
    let options = VerifyOptions {
        trusted: trusted.to_vec(),
        ..VerifyOptions::default()
    };
    let finished_at = signed.predicate.run_finished_at;
    Ok(Some(SealRead {
        origin: origin::judge(&signed.signer, finished_at, &options),
        keyid: signed.signer.keyid(),
        run_id: signed.predicate.run_id,
        status: signed.predicate.status,
        finished_at,
        pack_digest,
        sums,
    }))
}

fn small_file(dir: &PackDir, name: &str) -> Result<Option<Vec<u8>>, VerifyError> {
    let unreadable = |e: std::io::Error| finding(VerifyCode::FileUnreadable, name, e.to_string());
    let file = match dir.open_path(name) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unreadable(e)),
    };
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(finding(VerifyCode::FileSpecial, name, "is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(JSON_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > JSON_BYTES_MAX {
        return Err(finding(VerifyCode::FileOversized, name, "is too large"));
    }
    Ok(Some(bytes))
}
