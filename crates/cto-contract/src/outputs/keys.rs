//! `cto key` and `cto trust`: public halves only.

use crate::ids::Digest;
use crate::trust::TrustedKey;

outputs! {
    /// `cto key`.
    KeyOutput, KeyTag = "cto.key/v1" {
        pub keyid: Digest,
        /// Base64 of the raw public key: what `cto trust add` and `cto verify --key` take.
        pub public_key: String,
        pub public_key_pem: String,
        pub path: String,
        /// Made by this command.
        pub created: bool,
        /// Where the retired key was put aside.
        pub retired: Option<String>,
    }
    /// `cto trust add` and `cto trust revoke`.
    TrustOutput, TrustTag = "cto.trust-change/v1" {
        pub key: TrustedKey,
        pub path: String,
    }
    /// `cto trust list`.
    TrustListOutput, TrustListTag = "cto.trust-list/v1" {
        pub directory: String,
        pub keys: Vec<TrustedKey>,
    }
}
