//! The harness key: an ed25519 pair, named by the SHA-256 of its public half.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cto_contract::ids::Digest;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
    KeypairBytes,
};
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};

use crate::canonical::sha256;

/// A key that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Not the PKCS #8 PEM of an ed25519 key.
    #[error("not the PKCS #8 PEM of an ed25519 private key")]
    SecretPem(#[source] ed25519_dalek::pkcs8::Error),
    /// The key could not be written as PEM.
    #[error("the key could not be written as PEM")]
    Encode(#[source] ed25519_dalek::pkcs8::Error),
    /// Not the SubjectPublicKeyInfo PEM of an ed25519 key.
    #[error("not the PEM of an ed25519 public key")]
    PublicPem(#[source] ed25519_dalek::pkcs8::spki::Error),
    /// Not base64 with the standard alphabet and padding.
    #[error("not 44 characters of padded base64")]
    Base64,
    /// 32 bytes that are no usable point of the curve.
    #[error("not an ed25519 public key: no point of the curve, or one of small order")]
    Point,
}

/// Decodes base64 and refuses every spelling but the one that encoding gives.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text).ok()?;
    (STANDARD.encode(&bytes) == text).then_some(bytes)
}

/// The secret half. It is wiped when dropped and never shown.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey")
            .field(&self.keyid().short())
            .finish()
    }
}

impl SigningKey {
    /// Makes a key of 32 random bytes.
    pub fn from_random(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// Reads PKCS #8 PEM.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        ed25519_dalek::SigningKey::from_pkcs8_pem(pem)
            .map(Self)
            .map_err(KeyError::SecretPem)
    }

    /// Writes PKCS #8 PEM, version 1: the form that every `openssl` reads.
    pub fn to_pem(&self) -> Result<SecretPem, KeyError> {
        let pair = KeypairBytes {
            secret_key: self.0.to_bytes(),
            public_key: None,
        };
        let pem = pair
            .to_pkcs8_pem(LineEnding::LF)
            .map_err(KeyError::Encode)?;
        Ok(SecretPem(pem))
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Base64 of the raw public key.
    pub fn public_base64(&self) -> String {
        self.public().to_base64()
    }

    /// SHA-256 of the raw public key.
    pub fn keyid(&self) -> Digest {
        self.public().keyid()
    }

    /// Signs bytes.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

/// PEM text of a secret key: wiped when dropped, never shown.
pub struct SecretPem(ed25519_dalek::pkcs8::spki::der::zeroize::Zeroizing<String>);

impl SecretPem {
    /// The text, for the one file that holds it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretPem(..)")
    }
}

/// The public half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads the raw 32 bytes.
    pub fn from_raw(raw: &[u8; 32]) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(raw).map_err(|_| KeyError::Point)?;
        // A key of small order signs anything.
        if key.is_weak() {
            Err(KeyError::Point)
        } else {
            Ok(Self(key))
        }
    }

    /// Reads base64 of the raw bytes.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        let bytes = decode_base64(text).ok_or(KeyError::Base64)?;
        let raw: [u8; 32] = bytes.try_into().map_err(|_| KeyError::Base64)?;
        Self::from_raw(&raw)
    }

    /// Reads the PEM that `openssl pkey -pubout` writes.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_public_key_pem(pem).map_err(KeyError::PublicPem)?;
        Self::from_raw(key.as_bytes())
    }

    /// Reads any of the forms in which a person hands over a key: PEM, or base64 alone.
    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if text.starts_with("-----BEGIN") {
            Self::from_pem(text)
        } else {
            Self::from_base64(text)
        }
    }

    /// Writes SubjectPublicKeyInfo PEM.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        self.0
            .to_public_key_pem(LineEnding::LF)
            .map_err(KeyError::PublicPem)
    }

    /// The raw 32 bytes.
    pub fn raw(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Base64 of the raw bytes.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.raw())
    }

    /// SHA-256 of the raw bytes.
    pub fn keyid(&self) -> Digest {
        sha256(self.raw())
    }

    /// Checks a signature by the strict rules: one message, one key, one valid spelling of the signature.
    pub fn verify(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0
            .verify_strict(message, &Signature::from_bytes(signature))
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_pem_and_never_shows_itself() {
        let key = SigningKey::from_random(&[7; 32]);
        let pem = key.to_pem().unwrap();
        assert!(pem.as_str().starts_with("-----BEGIN PRIVATE KEY-----\n"));
        let back = SigningKey::from_pem(pem.as_str()).unwrap();
        assert_eq!(back.keyid(), key.keyid());
        assert!(!format!("{key:?} {pem:?}").contains(pem.as_str().lines().nth(1).unwrap()));
        let public = PublicKey::from_text(&key.public().to_pem().unwrap()).unwrap();
        assert_eq!(public, PublicKey::from_text(&key.public_base64()).unwrap());
    }

    #[test]
    fn a_signature_holds_for_its_message_and_key_only() {
        let key = SigningKey::from_random(&[7; 32]);
        let other = SigningKey::from_random(&[8; 32]);
        let mut sig = key.sign(b"m");
        assert!(key.public().verify(b"m", &sig));
        assert!(!key.public().verify(b"n", &sig));
        assert!(!other.public().verify(b"m", &sig));
        sig[63] ^= 1;
        assert!(!key.public().verify(b"m", &sig));
    }

    #[test]
    fn keys_of_small_order_and_loose_base64_are_refused() {
        let mut identity = [0; 32];
        identity[0] = 1;
        assert!(matches!(
            PublicKey::from_raw(&identity),
            Err(KeyError::Point)
        ));
        let good = SigningKey::from_random(&[7; 32]).public_base64();
        for bad in [
            good.trim_end_matches('=').to_owned(),
            format!("{good}\n"),
            good.replace('=', "A=").clone(),
            String::new(),
        ] {
            assert!(PublicKey::from_base64(&bad).is_err(), "{bad}");
        }
    }
}
