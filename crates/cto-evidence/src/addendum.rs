//! Writing the signed records that come after the seal.

use cto_contract::addendum::{Addendum, PAYLOAD_TYPE};

use crate::canonical::{CanonicalError, to_canonical};
use crate::dsse::{envelope_bytes, seal_envelope};
use crate::key::SigningKey;

/// Signs a record and gives the bytes of its file; the name is [`Addendum::file_name`].
///
/// `harness_public_key` is set to the key that signs, so that the two can't differ.
pub fn addendum_bytes(mut addendum: Addendum, key: &SigningKey) -> Result<Vec<u8>, CanonicalError> {
    addendum.harness_public_key = key.public_base64();
    envelope_bytes(&seal_envelope(PAYLOAD_TYPE, &to_canonical(&addendum)?, key))
}
