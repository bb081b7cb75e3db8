//! Public keys of operators, in OpenSSH's form.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::wire::{Reader, Truncated, put_string};
use crate::key::{PublicKey, decode_base64};

/// A public key that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPublicKey {
    #[error("not one line `<type> <base64> [comment]`")]
    Line,
    #[error(
        "its type is none of ssh-ed25519, sk-ssh-ed25519@openssh.com, sk-ecdsa-sha2-nistp256@openssh.com"
    )]
    Kind,
    #[error("its bytes are not those of a key of its type")]
    Malformed,
}

impl From<Truncated> for BadPublicKey {
    fn from(_: Truncated) -> Self {
        Self::Malformed
    }
}

/// The types of key that an operator may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Ed25519,
    SkEd25519,
    SkEcdsa,
}

impl KeyKind {
    const ALL: [Self; 3] = [Self::Ed25519, Self::SkEd25519, Self::SkEcdsa];

    /// OpenSSH's name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ed25519 => "ssh-ed25519",
            Self::SkEd25519 => "sk-ssh-ed25519@openssh.com",
            Self::SkEcdsa => "sk-ecdsa-sha2-nistp256@openssh.com",
        }
    }

    /// Whether it lives in a security key, whose signatures carry flags and a counter.
    pub const fn is_security_key(self) -> bool {
        match self {
            Self::Ed25519 => false,
            Self::SkEd25519 | Self::SkEcdsa => true,
        }
    }
}

/// A public key that an operator may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SshPublicKey {
    Ed25519(PublicKey),
    SkEd25519 {
        public: PublicKey,
        application: String,
    },
    SkEcdsa {
        public: p256::ecdsa::VerifyingKey,
        application: String,
    },
}

impl SshPublicKey {
    pub const fn kind(&self) -> KeyKind {
        match self {
            Self::Ed25519(_) => KeyKind::Ed25519,
            Self::SkEd25519 { .. } => KeyKind::SkEd25519,
            Self::SkEcdsa { .. } => KeyKind::SkEcdsa,
        }
    }

    /// Reads the line of a `.pub` file; its comment is left out.
    pub fn from_openssh(line: &str) -> Result<Self, BadPublicKey> {
        let line = line.trim();
        if line.contains('\n') {
            return Err(BadPublicKey::Line);
        }
        let mut words = line.split(' ');
        let (Some(name), Some(base64)) = (words.next(), words.next()) else {
            return Err(BadPublicKey::Line);
        };
        let kind = KeyKind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or(BadPublicKey::Kind)?;
        let blob = decode_base64(base64).ok_or(BadPublicKey::Line)?;
        let key = Self::from_blob(&blob)?;
        if key.kind() == kind {
            Ok(key)
        } else {
            Err(BadPublicKey::Malformed)
        }
    }

    /// The line of a `.pub` file, without a comment.
    pub fn to_openssh(&self) -> String {
        format!("{} {}", self.kind().name(), STANDARD.encode(self.to_blob()))
    }

    /// Reads the bytes beneath the base64.
    pub fn from_blob(blob: &[u8]) -> Result<Self, BadPublicKey> {
        let mut reader = Reader(blob);
        let name = reader.string()?;
        let kind = KeyKind::ALL
            .into_iter()
            .find(|kind| kind.name().as_bytes() == name)
            .ok_or(BadPublicKey::Kind)?;
        let key = match kind {
            KeyKind::Ed25519 => Self::Ed25519(edwards(reader.string()?)?),
            KeyKind::SkEd25519 => Self::SkEd25519 {
                public: edwards(reader.string()?)?,
                application: application(reader.string()?)?,
            },
            KeyKind::SkEcdsa => {
                if reader.string()? != b"nistp256" {
                    return Err(BadPublicKey::Malformed);
                }
                let point = reader.string()?;
                // One spelling: OpenSSH writes points uncompressed.
                if point.len() != 65 {
                    return Err(BadPublicKey::Malformed);
                }
                Self::SkEcdsa {
                    public: p256::ecdsa::VerifyingKey::from_sec1_bytes(point)
                        .map_err(|_| BadPublicKey::Malformed)?,
                    application: application(reader.string()?)?,
                }
            }
        };
        reader.end()?;
        Ok(key)
    }

    /// The bytes beneath the base64.
    pub fn to_blob(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_string(&mut out, self.kind().name().as_bytes());
        match self {
            Self::Ed25519(public) => put_string(&mut out, public.raw()),
            Self::SkEd25519 {
                public,
                application,
            } => {
                put_string(&mut out, public.raw());
                put_string(&mut out, application.as_bytes());
            }
            Self::SkEcdsa {
                public,
                application,
            } => {
                put_string(&mut out, b"nistp256");
                put_string(&mut out, public.to_sec1_point(false).as_bytes());
                put_string(&mut out, application.as_bytes());
            }
        }
        out
    }

    /// OpenSSH's fingerprint: `SHA256:` and base64 without padding.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.to_blob());
        format!("SHA256:{}", STANDARD_NO_PAD.encode(digest))
    }
}

fn edwards(raw: &[u8]) -> Result<PublicKey, BadPublicKey> {
    let raw: &[u8; 32] = raw.try_into().map_err(|_| BadPublicKey::Malformed)?;
    PublicKey::from_raw(raw).map_err(|_| BadPublicKey::Malformed)
}

/// OpenSSH's applications are `ssh:` and what the owner adds; all of it printable.
fn application(bytes: &[u8]) -> Result<String, BadPublicKey> {
    let text = std::str::from_utf8(bytes).map_err(|_| BadPublicKey::Malformed)?;
    if text.len() <= 256 && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(BadPublicKey::Malformed)
    }
}
