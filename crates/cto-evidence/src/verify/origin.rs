//! Who sealed the pack, as far as the caller's keys tell.

use cto_contract::time::Utc;
use cto_contract::trust::{Origin, TrustedKey};
use cto_contract::verify::VerifyCode;

use super::VerifyOptions;
use super::findings::Findings;
use crate::key::PublicKey;

/// Judges a signer at the time it claims to have signed. A revocation outweighs everything else that is known.
pub(super) fn judge(signer: &PublicKey, at: Utc, options: &VerifyOptions) -> Origin {
    let is_signer =
        |key: &&TrustedKey| PublicKey::from_base64(&key.public_key).is_ok_and(|k| k == *signer);
    let judged: Vec<Origin> = options
        .trusted
        .iter()
        .filter(is_signer)
        .map(|key| key.judge(at))
        .collect();
    if judged.contains(&Origin::Revoked) {
        Origin::Revoked
    } else if judged.contains(&Origin::Known) || options.extra_key.as_ref() == Some(signer) {
        Origin::Known
    } else if judged.contains(&Origin::Expired) {
        Origin::Expired
    } else {
        Origin::Unknown
    }
}

/// Reports an origin that does not count, unless only integrity was asked for.
pub(super) fn check(origin: Origin, options: &VerifyOptions, findings: &mut Findings) {
    if options.integrity_only {
        return;
    }
    match origin {
        Origin::Known => {}
        Origin::Unknown => findings.whole(
            VerifyCode::OriginUnknown,
            "no known key signed this pack: it proves integrity, not origin",
        ),
        Origin::Expired => findings.whole(
            VerifyCode::OriginExpired,
            "the key that signed this pack did not count at that time",
        ),
        Origin::Revoked => findings.whole(
            VerifyCode::OriginRevoked,
            "the key that signed this pack was revoked",
        ),
    }
}
