//! A security key in software: it makes SSHSIG signatures with any flags and any counter, as no honest one would.
//!
//! Written apart from the product's own code, so that a mistake there is not made here too.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that fails here fails the test"
)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::signature::Signer as _;
use sha2::{Digest as _, Sha256, Sha512};

enum Secret {
    Ed25519(ed25519_dalek::SigningKey),
    SkEd25519(ed25519_dalek::SigningKey),
    SkEcdsa(Box<p256::ecdsa::SigningKey>),
}

/// A key of one of the types that an operator may have.
pub struct SoftKey(Secret);

/// A touch and a PIN.
pub const UP_UV: u8 = 0x05;

const APPLICATION: &[u8] = b"ssh:";

fn string(bytes: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    out.extend_from_slice(bytes);
    out
}

fn number(digits: &[u8]) -> Vec<u8> {
    let first = digits.iter().position(|b| *b != 0).unwrap();
    let mut out = vec![0; usize::from(digits[first] >= 0x80)];
    out.extend_from_slice(&digits[first..]);
    string(&out)
}

impl SoftKey {
    pub fn ed25519(seed: u8) -> Self {
        Self(Secret::Ed25519(ed25519_dalek::SigningKey::from_bytes(
            &[seed; 32],
        )))
    }

    pub fn sk_ed25519(seed: u8) -> Self {
        Self(Secret::SkEd25519(ed25519_dalek::SigningKey::from_bytes(
            &[seed; 32],
        )))
    }

    pub fn sk_ecdsa(seed: u8) -> Self {
        Self(Secret::SkEcdsa(Box::new(
            p256::ecdsa::SigningKey::from_slice(&[seed; 32]).unwrap(),
        )))
    }

    /// One of each type.
    pub fn each(seed: u8) -> [Self; 3] {
        [
            Self::ed25519(seed),
            Self::sk_ed25519(seed),
            Self::sk_ecdsa(seed),
        ]
    }

    fn kind(&self) -> &'static str {
        match &self.0 {
            Secret::Ed25519(_) => "ssh-ed25519",
            Secret::SkEd25519(_) => "sk-ssh-ed25519@openssh.com",
            Secret::SkEcdsa(_) => "sk-ecdsa-sha2-nistp256@openssh.com",
        }
    }

    fn blob(&self) -> Vec<u8> {
        let name = string(self.kind().as_bytes());
        match &self.0 {
            Secret::Ed25519(key) => [name, string(key.verifying_key().as_bytes())].concat(),
            Secret::SkEd25519(key) => [
                name,
                string(key.verifying_key().as_bytes()),
                string(APPLICATION),
            ]
            .concat(),
            Secret::SkEcdsa(key) => [
                name,
                string(b"nistp256"),
                string(key.verifying_key().to_sec1_point(false).as_bytes()),
                string(APPLICATION),
            ]
            .concat(),
        }
    }

    /// The line of its `.pub` file.
    pub fn public_line(&self) -> String {
        format!("{} {}", self.kind(), STANDARD.encode(self.blob()))
    }

    /// Signs, as armour. A plain key has neither flags nor counter and leaves them out.
    pub fn sign(&self, namespace: &str, message: &[u8], flags: u8, counter: u32) -> String {
        let mut signed = b"SSHSIG".to_vec();
        signed.extend(string(namespace.as_bytes()));
        signed.extend(string(b""));
        signed.extend(string(b"sha512"));
        signed.extend(string(&Sha512::digest(message)));

        let state = [&[flags][..], &counter.to_be_bytes()].concat();
        let wrapped = [
            Sha256::digest(APPLICATION).to_vec(),
            state.clone(),
            Sha256::digest(&signed).to_vec(),
        ]
        .concat();
        let name = string(self.kind().as_bytes());
        let signature = match &self.0 {
            Secret::Ed25519(key) => [name, string(&key.sign(&signed).to_bytes())].concat(),
            Secret::SkEd25519(key) => {
                [name, string(&key.sign(&wrapped).to_bytes()), state].concat()
            }
            Secret::SkEcdsa(key) => {
                let made: p256::ecdsa::Signature = key.sign(&wrapped);
                let raw = made.to_bytes();
                let inner = [number(&raw[..32]), number(&raw[32..])].concat();
                [name, string(&inner), state].concat()
            }
        };
        let blob = [
            b"SSHSIG".to_vec(),
            1_u32.to_be_bytes().to_vec(),
            string(&self.blob()),
            string(namespace.as_bytes()),
            string(b""),
            string(b"sha512"),
            string(&signature),
        ]
        .concat();
        let base64 = STANDARD.encode(blob).into_bytes();
        let lines: Vec<_> = base64.chunks(70).map(String::from_utf8_lossy).collect();
        format!(
            "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n",
            lines.join("\n")
        )
    }
}
