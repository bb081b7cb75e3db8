//! The signed records beside a pack: numbered, chained, about this pack, by a key that counts.

use std::io::{self, Read as _};
use std::path::Path;

use cto_contract::addendum::{Addendum, PAYLOAD_TYPE};
use cto_contract::ids::{Digest, RunId};
use cto_contract::text;
use cto_contract::trust::Origin;
use cto_contract::verify::VerifyCode;

use super::VerifyOptions;
use super::findings::Findings;
use super::{origin, statement};
use crate::canonical::{sha256, to_canonical};
use crate::dsse::open_envelope;
use crate::key::PublicKey;
use crate::pack::PackDir;

const CODE: VerifyCode = VerifyCode::AddendumInvalid;
/// Most addenda of one pack.
const ADDENDA_MAX: usize = 9999;
/// Largest addendum.
const ADDENDUM_BYTES_MAX: u64 = 1 << 20;

/// What every addendum must agree with.
pub(super) struct Pack<'a> {
    pub(super) run_id: &'a RunId,
    pub(super) pack_digest: &'a Digest,
    pub(super) signer: &'a PublicKey,
}

/// Checks a directory of addenda. One that was not asked for by name may be absent. True when there was one.
pub(super) fn check(
    dir: &Path,
    is_asked_for: bool,
    pack: &Pack<'_>,
    options: &VerifyOptions,
    findings: &mut Findings,
) -> bool {
    let opened = match PackDir::open(dir) {
        Ok(opened) => opened,
        Err(e) if e.kind() == io::ErrorKind::NotFound && !is_asked_for => return false,
        Err(e) => {
            findings.file(CODE, &dir.to_string_lossy(), e.to_string());
            return true;
        }
    };
    let listing = opened.walk();
    for problem in listing.problems {
        findings.file(
            CODE,
            problem.file.as_deref().unwrap_or("."),
            problem.message,
        );
    }
    if listing.files.len() > ADDENDA_MAX {
        findings.file(CODE, ".", format!("more than {ADDENDA_MAX} addenda"));
        return true;
    }
    let mut previous: Option<Digest> = None;
    for (at, file) in listing.files.iter().enumerate() {
        let read = || -> Result<Vec<u8>, String> {
            if file.size > ADDENDUM_BYTES_MAX {
                return Err(format!(
                    "{} bytes, more than {ADDENDUM_BYTES_MAX}",
                    file.size
                ));
            }
            let mut bytes = Vec::new();
            let reader = opened.open_listed(file).map_err(|e| e.message)?;
            reader
                .take(ADDENDUM_BYTES_MAX)
                .read_to_end(&mut bytes)
                .map_err(|e| e.to_string())?;
            Ok(bytes)
        };
        let outcome = read().and_then(|bytes| {
            let digest = sha256(&bytes);
            let expected = previous.replace(digest);
            check_one(&file.path, &bytes, at + 1, expected.as_ref(), pack, options)
        });
        if let Err(message) = outcome {
            findings.file(CODE, &file.path, message);
        }
    }
    true
}

fn check_one(
    name: &str,
    bytes: &[u8],
    number: usize,
    previous: Option<&Digest>,
    pack: &Pack<'_>,
    options: &VerifyOptions,
) -> Result<(), String> {
    let opened = open_envelope(bytes, PAYLOAD_TYPE).map_err(|e| statement::describe(&e))?;
    let addendum: Addendum = serde_json::from_slice(&opened.payload)
        .map_err(|e| format!("not an addendum: {}", text::shorten(&e.to_string(), 300)))?;
    if !to_canonical(&addendum).is_ok_and(|again| again == opened.payload) {
        return Err("the record is not the canonical form of what it says".to_owned());
    }
    let signer = PublicKey::from_base64(&addendum.harness_public_key)
        .map_err(|e| format!("harness_public_key: {e}"))?;
    if !opened.is_signed_by(&signer) {
        return Err("the signature does not hold, or keyid is not that of the key".to_owned());
    }
    let same_key = signer == *pack.signer;
    if !same_key && origin::judge(&signer, addendum.at, options) != Origin::Known {
        return Err("signed by a key that is neither the pack's nor known".to_owned());
    }
    if usize::try_from(addendum.number) != Ok(number) || addendum.file_name() != name {
        return Err(format!(
            "expected addendum {number} under its own name, found {} in this file",
            addendum.number
        ));
    }
    if addendum.previous.as_ref() != previous {
        return Err("does not name the addendum before it".to_owned());
    }
    if addendum.run_id != *pack.run_id || addendum.pack_digest != *pack.pack_digest {
        return Err("is about another pack".to_owned());
    }
    Ok(())
}
