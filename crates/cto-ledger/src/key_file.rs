//! Keys of people in files: how they are held, and a signature by `ssh-keygen`.
//!
//! The private key itself is never read into this process: `ssh-keygen` asks the person for the passphrase or for a touch,
//! on the terminal, and hands over the signature alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_evidence::sshsig::{BadPublicKey, NAMESPACE, SshPublicKey, SshSig, SshSigError};

use crate::program::{Program, ProgramError};

/// Largest key file that is read.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// A key file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("`{path}` is too large or no plain file")]
    Special { path: PathBuf },
    #[error("`{path}` is no public key that an operator may have")]
    Public { path: PathBuf, source: BadPublicKey },
    #[error("there is no public key beside `{path}` (expected `{path}.pub`)")]
    NoPublicHalf { path: PathBuf },
    #[error("`ssh-keygen` did not sign")]
    Program(#[from] ProgramError),
    #[error("what `ssh-keygen` gave is no signature that counts")]
    Signature(#[from] SshSigError),
}

impl KeyFileError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::Special { .. } => "key_file_unreadable",
            Self::Public { .. } | Self::NoPublicHalf { .. } => "public_key_invalid",
            Self::Program(_) | Self::Signature(_) => "not_signed",
        }
    }
}

/// How a private key file is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Encrypted: a passphrase opens it.
    Passphrase,
    /// Whoever reads the file can sign.
    None,
    /// Not OpenSSH's own format, or not a private key at all.
    Unknown,
}

/// Reads from its first bytes how an OpenSSH private key is held. What is encrypted is not looked at.
pub fn protection(pem: &str) -> Protection {
    const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
    const MAGIC: &[u8] = b"openssh-key-v1\0";
    let Some(body) = pem.trim_start().strip_prefix(BEGIN) else {
        return Protection::Unknown;
    };
    let digits = body.bytes().take_while(|b| *b != b'-');
    let digits = digits.filter(|b| !b.is_ascii_whitespace()).take(64);
    let Some(head) = decode_base64(&digits.collect::<Vec<u8>>()) else {
        return Protection::Unknown;
    };
    let Some(rest) = head.strip_prefix(MAGIC) else {
        return Protection::Unknown;
    };
    let Some((length, rest)) = rest.split_at_checked(4) else {
        return Protection::Unknown;
    };
    match (length, rest.get(..4)) {
        ([0, 0, 0, 4], Some(b"none")) => Protection::None,
        ([0, 0, 0, _], Some(_)) => Protection::Passphrase,
        _ => Protection::Unknown,
    }
}

/// Whole groups of four digits; a few dozen bytes, so no crate.
fn decode_base64(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut out = Vec::new();
    for group in digits.chunks_exact(4) {
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | u32::from(value(*digit)?);
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    Some(out)
}

fn read_small(path: &Path) -> Result<String, KeyFileError> {
    let failed = |source| KeyFileError::Read {
        path: path.to_owned(),
        source,
    };
    let found = fs::metadata(path).map_err(failed)?;
    if !found.is_file() || found.len() > KEY_BYTES_MAX {
        return Err(KeyFileError::Special {
            path: path.to_owned(),
        });
    }
    fs::read_to_string(path).map_err(failed)
}

/// A person's key: the public half, and where `ssh-keygen` finds the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    pub path: PathBuf,
    pub public: SshPublicKey,
    /// None where only the public half is here: then an agent or a security key has the rest.
    pub protection: Option<Protection>,
}

impl KeyFile {
    /// Takes the path of a private key or of its `.pub` file.
    pub fn open(path: &Path) -> Result<Self, KeyFileError> {
        let text = read_small(path)?;
        let is_private = text.trim_start().starts_with("-----BEGIN");
        let (public_path, protection) = if is_private {
            let mut name = path.as_os_str().to_owned();
            name.push(".pub");
            (PathBuf::from(name), Some(protection(&text)))
        } else {
            let private = path.with_extension("");
            let held = (path.extension().is_some_and(|e| e == "pub"))
                .then(|| read_small(&private).ok())
                .flatten();
            (path.to_owned(), held.map(|text| self::protection(&text)))
        };
        let line = match (is_private, read_small(&public_path)) {
            (_, Ok(line)) => line,
            (true, Err(_)) => {
                return Err(KeyFileError::NoPublicHalf {
                    path: path.to_owned(),
                });
            }
            (false, Err(error)) => return Err(error),
        };
        let public = SshPublicKey::from_openssh(&line).map_err(|source| KeyFileError::Public {
            path: public_path,
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            public,
            protection,
        })
    }

    /// Lets `ssh-keygen` sign: it asks on the terminal for the passphrase, or for a touch.
    ///
    /// It is never given another program to ask with, nor an agent: whoever wants the agent's key names the agent.
    pub fn sign(
        &self,
        message: &[u8],
        path: &str,
        environment: &[(String, String)],
    ) -> Result<SshSig, KeyFileError> {
        let mut program = Program::named("ssh-keygen", path)?
            .args(["-Y", "sign", "-q", "-n", NAMESPACE, "-f"])
            .args([self.path.as_os_str()])
            .env("SSH_ASKPASS_REQUIRE", "never");
        for (name, value) in environment {
            program = program.env(name, value);
        }
        let armour = program.feed_and_talk(message)?;
        Ok(SshSig::from_armour(&String::from_utf8_lossy(&armour))?)
    }
}
