//! The authority's settings: `harness.yaml` and the trust files, from the config directory only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::config::HarnessConfig;
use cto_contract::document::{self, DocumentError};
use cto_contract::trust::TrustedKey;

use crate::home::{self, HomeError};

/// Config that passed its checks.
#[derive(Debug, Clone)]
pub struct Config {
    pub dir: PathBuf,
    pub harness: HarnessConfig,
    /// Whether `harness.yaml` was there.
    pub has_file: bool,
    pub trusted: Vec<TrustedKey>,
}

/// Config that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the config directory can't be used")]
    Directory(#[source] HomeError),
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("invalid configuration")]
    Invalid(#[source] DocumentError),
    #[error("`{path}` names key {named} but holds key {held}")]
    KeyId {
        path: PathBuf,
        named: String,
        held: String,
    },
}

impl Config {
    /// Reads the directory; one that is not there is an empty config.
    pub fn load(dir: &Path) -> Result<Self, ConfigError> {
        let mut config = Self {
            dir: dir.to_owned(),
            harness: HarnessConfig::default(),
            has_file: false,
            trusted: Vec::new(),
        };
        if !dir.exists() {
            return Ok(config);
        }
        home::check_private(dir).map_err(ConfigError::Directory)?;
        let path = dir.join("harness.yaml");
        if let Some(bytes) = read_if_there(&path)? {
            config.harness =
                HarnessConfig::read("harness.yaml", &bytes).map_err(ConfigError::Invalid)?;
            config.has_file = true;
        }
        config.trusted = read_trust(&config.trust_dir())?;
        Ok(config)
    }

    pub fn trust_dir(&self) -> PathBuf {
        self.dir.join("trust/harness")
    }
}

/// Names that `.env` of the config directory may set. It holds places and names, never a secret.
const DOTENV_NAMES: [&str; 5] = [
    "HERMES_HOME",
    "CTO_HOME",
    "GITHUB_ORG",
    "DEFAULT_SANDCASTLE_PROVIDER",
    "SANDCASTLE_REPO",
];

/// Reads `.env` of the config directory: `NAME=value` lines, `#` comments, optional quotes.
pub fn read_dotenv(dir: &Path) -> Result<Vec<(String, String)>, ConfigError> {
    let Some(bytes) = read_if_there(&dir.join(".env"))? else {
        return Ok(Vec::new());
    };
    home::check_private(dir).map_err(ConfigError::Directory)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut pairs = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let refused = |message: String| {
            ConfigError::Invalid(DocumentError {
                name: ".env".to_owned(),
                line: number,
                column: 1,
                message,
            })
        };
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| refused("expected NAME=value".to_owned()))?;
        let name = name.trim();
        if !DOTENV_NAMES.contains(&name) {
            let shown = cto_contract::text::shorten(name, 60);
            return Err(refused(format!(
                "`{shown}` can't be set here; only {} can",
                DOTENV_NAMES.join(", ")
            )));
        }
        let value = value.trim();
        let unquoted = ['"', '\'']
            .iter()
            .find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q))
            .unwrap_or(value);
        if !unquoted.is_empty() {
            pairs.push((name.to_owned(), unquoted.to_owned()));
        }
    }
    Ok(pairs)
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, ConfigError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ConfigError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Reads every `*.json` of a trust directory. A bad file is an error, not a key less.
pub(crate) fn read_trust(dir: &Path) -> Result<Vec<TrustedKey>, ConfigError> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    home::check_private(dir).map_err(ConfigError::Directory)?;
    let failed = |source| ConfigError::Read {
        path: dir.to_owned(),
        source,
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    // A file that is gone by now was the draft of another process's key: it never counted.
    let read = paths.iter().map(|path| match read_trusted_key(path) {
        Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        read => Some(read),
    });
    read.flatten().collect()
}

/// Reads one trust file and checks that its id is that of its key.
pub fn read_trusted_key(path: &Path) -> Result<TrustedKey, ConfigError> {
    let bytes = fs::read(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    let name = path.display().to_string();
    let key: TrustedKey = document::read(&name, &bytes).map_err(ConfigError::Invalid)?;
    let held = cto_evidence::key::PublicKey::from_base64(&key.public_key)
        .map_err(|e| ConfigError::Invalid(DocumentError::whole(&name, format!("public_key: {e}"))))?
        .keyid();
    if held != key.keyid {
        return Err(ConfigError::KeyId {
            path: path.to_owned(),
            named: key.keyid.to_string(),
            held: held.to_string(),
        });
    }
    Ok(key)
}
