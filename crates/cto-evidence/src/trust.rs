//! Trust files: one JSON file a key in one directory; and files of operators.

use std::io::{self, Read as _};
use std::path::Path;

use cto_contract::trust::TrustedKey;

use crate::key::{KeyError, PublicKey};
use crate::operators::{OperatorsError, PinnedKey, parse_operators};
use crate::pack::PackDir;

/// Largest trust file, or file of operators.
const TRUST_BYTES_MAX: u64 = 1 << 20;

/// A trust directory that can't be used. A bad file is an error, never a key less.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The directory can't be read.
    #[error("could not read the trust directory `{dir}`")]
    Open { dir: String, source: io::Error },
    /// Something in it is no plain file.
    #[error("trust directory `{dir}`: `{file}` is {message}")]
    Unfit {
        dir: String,
        file: String,
        message: String,
    },
    /// A file can't be read.
    #[error("could not read the trust file `{file}`")]
    Read { file: String, source: io::Error },
    /// A file is not a trust file.
    #[error("trust file `{file}` is not of schema cto.trust/v1")]
    Schema {
        file: String,
        source: serde_json::Error,
    },
    /// The key in it is no key.
    #[error("trust file `{file}`: public_key")]
    Key { file: String, source: KeyError },
    /// The name of the key is another key's.
    #[error("trust file `{file}`: keyid is not the SHA-256 of public_key")]
    Keyid { file: String },
}

/// Reads every `*.json` of a directory, sorted by name. A directory that is not there holds no key.
pub fn read_trust(dir: &Path) -> Result<Vec<TrustedKey>, TrustError> {
    let shown = dir.display().to_string();
    let opened = match PackDir::open(dir) {
        Ok(opened) => opened,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(TrustError::Open { dir: shown, source }),
    };
    let listing = opened.walk();
    if let Some(problem) = listing.problems.into_iter().next() {
        return Err(TrustError::Unfit {
            dir: shown,
            file: problem.file.unwrap_or_default(),
            message: problem.message,
        });
    }
    let mut keys = Vec::new();
    for file in listing
        .files
        .iter()
        .filter(|f| f.path.ends_with(".json") && !f.path.contains('/'))
    {
        let name = || format!("{shown}/{}", file.path);
        let mut bytes = Vec::new();
        let reader = opened
            .open_path(&file.path)
            .map_err(|source| TrustError::Read {
                file: name(),
                source,
            })?;
        reader
            .take(TRUST_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|source| TrustError::Read {
                file: name(),
                source,
            })?;
        let key: TrustedKey =
            serde_json::from_slice(&bytes).map_err(|source| TrustError::Schema {
                file: name(),
                source,
            })?;
        let public = PublicKey::from_base64(&key.public_key).map_err(|source| TrustError::Key {
            file: name(),
            source,
        })?;
        if public.keyid() != key.keyid {
            return Err(TrustError::Keyid { file: name() });
        }
        keys.push(key);
    }
    Ok(keys)
}
/// Reads a file of operators.
pub fn read_operators(path: &Path) -> Result<Vec<PinnedKey>, OperatorsError> {
    let file = path.display().to_string();
    let unfit = || OperatorsError::Unfit { file: file.clone() };
    let failed = |source| OperatorsError::Read {
        file: file.clone(),
        source,
    };
    // Before it is opened: a pipe would make the caller wait.
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_file() || found.len() > TRUST_BYTES_MAX {
        return Err(unfit());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .map_err(failed)?
        .take(TRUST_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    parse_operators(&String::from_utf8(bytes).map_err(|_| unfit())?)
}
