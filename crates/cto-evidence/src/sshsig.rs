//! Signatures of people: SSHSIG, the format of `ssh-keygen -Y sign`, parsed, built and verified.
//!
//! Invariants: nothing here does I/O, so that a stranger's verifier can use it offline. A signature has one spelling: the
//! blob is parsed to its last byte, and armour that is read from a record must be the armour that we would write. Flags and
//! counter of a security key are returned, not judged: stock tools accept a signature with flags 0, so whoever relies on
//! one has to look at [`Verified::state`].

mod public_key;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cto_contract::words::{Custody, Presence};
use p256::ecdsa::signature::Verifier as _;
use sha2::{Digest as _, Sha256, Sha512};

pub use public_key::{BadPublicKey, KeyKind, SshPublicKey};

use crate::key::SigningKey;
use wire::{Reader, Truncated, put_string};

/// The namespace of everything that an operator signs.
pub const NAMESPACE: &str = "cto-approval";

/// A person touched the key.
pub const FLAG_USER_PRESENT: u8 = 0x01;
/// The key knew the person: by PIN or fingerprint.
pub const FLAG_USER_VERIFIED: u8 = 0x04;
/// The key can be copied to other devices.
pub const FLAG_BACKUP_ELIGIBLE: u8 = 0x08;

/// Largest armoured signature that is read. One by a passkey has some 700 bytes.
pub const ARMOUR_BYTES_MAX: usize = 16 << 10;

const MAGIC: &[u8; 6] = b"SSHSIG";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// Columns of the base64 that `ssh-keygen` writes.
const ARMOUR_COLUMNS: usize = 70;
const WEBAUTHN: &[u8] = b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com";

/// A signature that is not even looked at, or does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshSigError {
    #[error("not an armoured SSH signature (`{BEGIN}` …)")]
    Armour,
    #[error("the armour is not in its one canonical spelling")]
    Spelling,
    #[error("the signature's bytes are not those of an SSHSIG of version 1")]
    Malformed,
    #[error("the key in the signature can't be used: {0}")]
    Key(#[from] BadPublicKey),
    #[error("the signature is by another key")]
    OtherKey,
    #[error("the signature is for another purpose: its namespace is not `{NAMESPACE}`")]
    Namespace,
    #[error("the signature uses a hash other than sha256 and sha512")]
    Hash,
    #[error("signatures of passkeys (webauthn) are not supported yet")]
    Webauthn,
    #[error("the signature does not hold for these bytes")]
    Invalid,
}

impl From<Truncated> for SshSigError {
    fn from(_: Truncated) -> Self {
        Self::Malformed
    }
}

/// What was hashed before it was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HashAlgorithm {
    Sha256,
    Sha512,
}

impl HashAlgorithm {
    const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn digest(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        }
    }
}

/// What a security key adds to a signature; it is signed too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecurityKeyState {
    pub flags: u8,
    pub counter: u32,
}

/// A parsed signature, not yet checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshSig {
    pub key: SshPublicKey,
    namespace: Vec<u8>,
    reserved: Vec<u8>,
    hash: HashAlgorithm,
    /// The signature proper: 64 bytes, `r || s` for ECDSA.
    raw: [u8; 64],
    /// Set exactly for keys of a security key.
    state: Option<SecurityKeyState>,
}

/// What a signature that holds shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Flags and counter; absent for a plain key.
    pub state: Option<SecurityKeyState>,
}

impl Verified {
    /// What the signature shows of a person. `claims_presence` is what the enrolment says of a plain key: that its file is
    /// held by a passphrase or its agent asks. A signature shows nothing of either.
    pub const fn presence(&self, claims_presence: bool) -> Presence {
        match self.state {
            Some(state) if state.flags & FLAG_USER_VERIFIED != 0 => Presence::Uv,
            Some(state) if state.flags & FLAG_USER_PRESENT != 0 => Presence::Up,
            Some(_) => Presence::None,
            None if claims_presence => Presence::Claimed,
            None => Presence::None,
        }
    }

    /// Where the key lives, as far as the signature shows.
    pub const fn custody(&self) -> Custody {
        match self.state {
            Some(state) if state.flags & FLAG_BACKUP_ELIGIBLE != 0 => Custody::Synced,
            Some(_) => Custody::Unattested,
            None => Custody::File,
        }
    }
}

/// The bytes that a key signs for a message in our namespace, with SHA-512 as `ssh-keygen` does.
pub fn to_be_signed(message: &[u8]) -> Vec<u8> {
    signed_blob(NAMESPACE.as_bytes(), b"", HashAlgorithm::Sha512, message)
}

fn signed_blob(namespace: &[u8], reserved: &[u8], hash: HashAlgorithm, message: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_string(&mut out, namespace);
    put_string(&mut out, reserved);
    put_string(&mut out, hash.name().as_bytes());
    put_string(&mut out, &hash.digest(message));
    out
}

/// What a security key signs: the application, its state and the digest of the bytes.
fn security_key_blob(application: &str, state: SecurityKeyState, signed: &[u8]) -> Vec<u8> {
    let mut out = Sha256::digest(application.as_bytes()).to_vec();
    out.push(state.flags);
    out.extend_from_slice(&state.counter.to_be_bytes());
    out.extend_from_slice(&Sha256::digest(signed));
    out
}

impl SshSig {
    /// Signs a message with a plain ed25519 key.
    pub fn sign(key: &SigningKey, message: &[u8]) -> Self {
        Self {
            key: SshPublicKey::Ed25519(key.public()),
            namespace: NAMESPACE.into(),
            reserved: Vec::new(),
            hash: HashAlgorithm::Sha512,
            raw: key.sign(&to_be_signed(message)),
            state: None,
        }
    }

    /// Wraps the answer of an ssh-agent to [`to_be_signed`] bytes.
    pub fn from_agent(key: SshPublicKey, signature: &[u8]) -> Result<Self, SshSigError> {
        let (raw, state) = read_signature(&key, signature)?;
        Ok(Self {
            key,
            namespace: NAMESPACE.into(),
            reserved: Vec::new(),
            hash: HashAlgorithm::Sha512,
            raw,
            state,
        })
    }

    /// Reads armour as people hand it over: line lengths, line ends and white space around it don't matter.
    pub fn from_armour(text: &str) -> Result<Self, SshSigError> {
        if text.len() > ARMOUR_BYTES_MAX {
            return Err(SshSigError::Armour);
        }
        let inner = text
            .trim()
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.strip_suffix(END))
            .ok_or(SshSigError::Armour)?;
        let base64: String = inner.split_ascii_whitespace().collect();
        let blob = STANDARD.decode(base64).map_err(|_| SshSigError::Armour)?;
        Self::from_blob(&blob)
    }

    /// Reads armour from a record: only the spelling that [`Self::to_armour`] gives.
    pub fn from_record(text: &str) -> Result<Self, SshSigError> {
        let read = Self::from_armour(text)?;
        if read.to_armour() == text {
            Ok(read)
        } else {
            Err(SshSigError::Spelling)
        }
    }

    /// Reads the bytes beneath the armour.
    pub fn from_blob(blob: &[u8]) -> Result<Self, SshSigError> {
        let mut reader = Reader(blob);
        if reader.take(MAGIC.len())? != MAGIC || reader.u32()? != 1 {
            return Err(SshSigError::Malformed);
        }
        let key = SshPublicKey::from_blob(reader.string()?)?;
        let namespace = reader.string()?.to_vec();
        let reserved = reader.string()?.to_vec();
        let hash = match reader.string()? {
            b"sha256" => HashAlgorithm::Sha256,
            b"sha512" => HashAlgorithm::Sha512,
            _ => return Err(SshSigError::Hash),
        };
        let (raw, state) = read_signature(&key, reader.string()?)?;
        reader.end()?;
        Ok(Self {
            key,
            namespace,
            reserved,
            hash,
            raw,
            state,
        })
    }

    /// The bytes beneath the armour.
    pub fn to_blob(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&1_u32.to_be_bytes());
        put_string(&mut out, &self.key.to_blob());
        put_string(&mut out, &self.namespace);
        put_string(&mut out, &self.reserved);
        put_string(&mut out, self.hash.name().as_bytes());
        put_string(&mut out, &write_signature(&self.key, &self.raw, self.state));
        out
    }

    /// The armour, as `ssh-keygen` writes it.
    pub fn to_armour(&self) -> String {
        let base64 = STANDARD.encode(self.to_blob());
        let mut out = format!("{BEGIN}\n");
        let mut rest = base64.as_str();
        while !rest.is_empty() {
            let (line, tail) = rest.split_at(rest.len().min(ARMOUR_COLUMNS));
            out.push_str(line);
            out.push('\n');
            rest = tail;
        }
        out.push_str(END);
        out.push('\n');
        out
    }

    /// Checks the signature: by this key, in our namespace, for this message.
    pub fn verify(&self, key: &SshPublicKey, message: &[u8]) -> Result<Verified, SshSigError> {
        if self.key != *key {
            return Err(SshSigError::OtherKey);
        }
        if self.namespace != NAMESPACE.as_bytes() {
            return Err(SshSigError::Namespace);
        }
        let signed = signed_blob(&self.namespace, &self.reserved, self.hash, message);
        let wrapped = |application: &str| {
            let state = self.state.ok_or(SshSigError::Malformed)?;
            Ok::<_, SshSigError>(security_key_blob(application, state, &signed))
        };
        let holds = match key {
            SshPublicKey::Ed25519(public) => public.verify(&signed, &self.raw),
            SshPublicKey::SkEd25519 {
                public,
                application,
            } => public.verify(&wrapped(application)?, &self.raw),
            SshPublicKey::SkEcdsa {
                public,
                application,
            } => {
                let raw = p256::ecdsa::Signature::from_slice(&self.raw)
                    .map_err(|_| SshSigError::Malformed)?;
                public.verify(&wrapped(application)?, &raw).is_ok()
            }
        };
        if holds {
            Ok(Verified { state: self.state })
        } else {
            Err(SshSigError::Invalid)
        }
    }
}

type SignatureParts = ([u8; 64], Option<SecurityKeyState>);

fn read_signature(key: &SshPublicKey, blob: &[u8]) -> Result<SignatureParts, SshSigError> {
    let mut reader = Reader(blob);
    let name = reader.string()?;
    if name == WEBAUTHN {
        return Err(SshSigError::Webauthn);
    }
    if name != key.kind().name().as_bytes() {
        return Err(SshSigError::Malformed);
    }
    let inner = reader.string()?;
    let raw = match key.kind() {
        KeyKind::Ed25519 | KeyKind::SkEd25519 => {
            inner.try_into().map_err(|_| SshSigError::Malformed)?
        }
        KeyKind::SkEcdsa => {
            let mut scalars = Reader(inner);
            let mut raw = [0; 64];
            let (r, s) = raw.split_at_mut(32);
            r.copy_from_slice(&scalars.scalar()?);
            s.copy_from_slice(&scalars.scalar()?);
            scalars.end()?;
            raw
        }
    };
    let state = if key.kind().is_security_key() {
        Some(SecurityKeyState {
            flags: reader.u8()?,
            counter: reader.u32()?,
        })
    } else {
        None
    };
    reader.end()?;
    Ok((raw, state))
}

fn write_signature(key: &SshPublicKey, raw: &[u8; 64], state: Option<SecurityKeyState>) -> Vec<u8> {
    let mut out = Vec::new();
    put_string(&mut out, key.kind().name().as_bytes());
    match key.kind() {
        KeyKind::Ed25519 | KeyKind::SkEd25519 => put_string(&mut out, raw),
        KeyKind::SkEcdsa => {
            let mut scalars = Vec::new();
            wire::put_scalar(&mut scalars, &raw[..32]);
            wire::put_scalar(&mut scalars, &raw[32..]);
            put_string(&mut out, &scalars);
        }
    }
    if let Some(state) = state {
        out.push(state.flags);
        out.extend_from_slice(&state.counter.to_be_bytes());
    }
    out
}
