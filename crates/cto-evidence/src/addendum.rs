//! Writing the signed records that come after the seal.

use cto_contract::addendum::{Addendum, Body, PAYLOAD_TYPE, ProofFile};
use serde_json::Value;

use crate::canonical::{CanonicalError, sha256, to_canonical};
use crate::dsse::{envelope_bytes, open_envelope, seal_envelope};
use crate::key::SigningKey;

/// Signs a record and gives the bytes of its file; the name is [`Addendum::file_name`].
///
/// `harness_public_key` is set to the key that signs, so that the two can't differ.
pub fn addendum_bytes(mut addendum: Addendum, key: &SigningKey) -> Result<Vec<u8>, CanonicalError> {
    addendum.harness_public_key = key.public_base64();
    envelope_bytes(&seal_envelope(PAYLOAD_TYPE, &to_canonical(&addendum)?, key))
}

/// Reads what a file of a record says. Whether it counts is for [`crate::verify`] to say.
pub fn read_addendum(bytes: &[u8]) -> Option<Addendum> {
    let opened = open_envelope(bytes, PAYLOAD_TYPE).ok()?;
    serde_json::from_slice(&opened.payload).ok()
}

/// What a record says of a stage proof, and the bytes of the plain file that lies beside it.
pub fn proof(file_name: ProofFile, payload: Value) -> Result<(Body, Vec<u8>), CanonicalError> {
    let plain = to_canonical(&payload)?;
    let body = Body::Proof {
        file_name,
        payload,
        payload_digest: sha256(&plain),
    };
    Ok((body, plain))
}
