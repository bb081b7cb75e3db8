//! Which keys count: one file a key under `<config>/trust/harness/`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::Digest;
use crate::time::Utc;

wire_const! {
    /// Schema tag of a trust file.
    pub struct TrustSchema: &'static str = "cto.trust/v1"
}

/// A harness key whose packs have a known origin while it is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustedKey {
    pub schema: TrustSchema,
    /// A name for people.
    pub name: String,
    /// SHA-256 of the raw public key.
    pub keyid: Digest,
    /// Base64 of the raw 32-byte ed25519 public key.
    pub public_key: String,
    pub valid_from: Utc,
    #[serde(default)]
    pub valid_until: Option<Utc>,
    #[serde(default)]
    pub revoked_at: Option<Utc>,
}

wire_enum! {
    /// What is known about who sealed a pack.
    pub enum Origin {
        /// Signed by a key that counts at the time of sealing.
        Known = "known",
        /// Signed by a key nobody here knows: integrity only.
        Unknown = "unknown",
        /// The key is known but did not count when the pack was sealed.
        Expired = "expired",
        /// The key was revoked.
        Revoked = "revoked",
    }
}

impl TrustedKey {
    /// Judges a pack that this key sealed at `sealed_at`.
    ///
    /// A revoked key vouches for nothing: whoever holds a stolen key can write any date.
    pub fn judge(&self, sealed_at: Utc) -> Origin {
        if self.revoked_at.is_some() {
            Origin::Revoked
        } else if sealed_at < self.valid_from
            || self.valid_until.is_some_and(|until| sealed_at > until)
        {
            Origin::Expired
        } else {
            Origin::Known
        }
    }
}

/// Whose a pack is, as a home knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance {
    /// By the key that sealed it; none while it is not sealed.
    pub origin: Option<Origin>,
    /// The ledger of this home created the run and knows this very pack of it.
    pub of_this_home: bool,
}

impl Provenance {
    /// The same for a person.
    pub fn text(self) -> String {
        let key = match self.origin {
            Some(Origin::Known) => "known",
            Some(Origin::Unknown) => "unknown (no key here knows its signer)",
            Some(Origin::Expired) => "expired (its key did not count when it was sealed)",
            Some(Origin::Revoked) => "revoked (its key was revoked)",
            None => "none yet (it is not sealed)",
        };
        let home = match self.of_this_home {
            true => "a run of this home",
            false => "not a run of this home",
        };
        format!("{key}; {home}")
    }
}
