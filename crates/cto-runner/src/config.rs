//! The authority's settings: `harness.yaml` and the trust files, from the config directory only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::config::HarnessConfig;
use cto_contract::document::{self, DocumentError};
use cto_contract::trust::TrustedKey;

use cto_rules::secrets::refuse_in_record;

use crate::environment::Environment;
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

/// Reads `.env` of the config directory: `NAME=value` lines, `#` comments, optional quotes. `${NAME}` stands for what the
/// environment or a line above says, but not between single quotes.
pub fn read_dotenv(dir: &Path, env: &Environment) -> Result<Vec<(String, String)>, ConfigError> {
    let Some(bytes) = read_if_there(&dir.join(".env"))? else {
        return Ok(Vec::new());
    };
    home::check_private(dir).map_err(ConfigError::Directory)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut pairs: Vec<(String, String)> = Vec::new();
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
        let unquoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
        let value = match unquoted('\'') {
            Some(literal) => literal.to_owned(),
            None => {
                let above = |name: &str| {
                    let mut above = pairs.iter().rev();
                    let above = above.find(|(of, _)| of == name);
                    let known = env.get(name).or(above.map(|(_, value)| value.as_str()));
                    known.map(str::to_owned)
                };
                expand(unquoted('"').unwrap_or(value), above).map_err(&refused)?
            }
        };
        if refuse_in_record(&value).is_some() {
            return Err(refused(format!(
                "the value of `{name}` looks like a secret, and secrets never go here"
            )));
        }
        if !value.is_empty() {
            pairs.push((name.to_owned(), value));
        }
    }
    Ok(pairs)
}

/// Replaces every `${NAME}`; a name that nobody knows is an error.
fn expand(text: &str, known: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let (name, behind) = after
            .split_once('}')
            .ok_or_else(|| "`${` has no `}`".to_owned())?;
        let shown = cto_contract::text::shorten(name, 60);
        let value = known(name).ok_or_else(|| {
            format!("`${{{shown}}}` is set neither in the environment nor in a line above")
        })?;
        out.push_str(&value);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, env: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        let dir = tempfile::tempdir().unwrap();
        crate::admissions::write_new(&dir.path().join(".env"), text.as_bytes()).unwrap();
        let env = env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        read_dotenv(dir.path(), &Environment::new(env)).map_err(|e| crate::error_chain(&e))
    }

    #[test]
    fn a_name_in_braces_stands_for_the_environment_and_for_lines_above() {
        let home = |text: &str, env: &[(&str, &str)]| read(text, env).unwrap().pop().unwrap().1;
        let users = "HERMES_HOME=/h\nCTO_HOME=${HERMES_HOME}/cto-planb\n";
        assert_eq!(home(users, &[]), "/h/cto-planb");
        assert_eq!(home(users, &[("HERMES_HOME", "/e")]), "/e/cto-planb");
        assert_eq!(
            home("CTO_HOME=\"${HOME}/a$b\"", &[("HOME", "/u")]),
            "/u/a$b"
        );
        assert_eq!(home("CTO_HOME='${HOME}'", &[]), "${HOME}");
    }

    #[test]
    fn an_unknown_name_and_a_secret_are_refused_with_their_line() {
        let refused = |text: &str| read(text, &[]).unwrap_err();
        let below = refused("CTO_HOME=${HERMES_HOME}/x\nHERMES_HOME=/h\n");
        assert!(
            below.contains(".env:1:1: `${HERMES_HOME}` is set neither"),
            "{below}"
        );
        assert!(refused("\nCTO_HOME=${HOME").contains(".env:2:1: `${` has no `}`"));
        let key = format!("sk-ant-api03-{}", "aB3dE5gH7j".repeat(9));
        let secret = refused(&format!("GITHUB_ORG={key}\n"));
        assert!(
            secret.contains("looks like a secret") && !secret.contains(&key),
            "{secret}"
        );
    }
}
