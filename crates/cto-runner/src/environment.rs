//! The process environment as a value: read once, at the edge.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Names and values; a setting that is not UTF-8 counts as absent, but a place must not: see [`Environment::place`].
#[derive(Debug, Clone, Default)]
pub struct Environment {
    values: BTreeMap<String, String>,
    not_text: BTreeSet<String>,
}

/// A variable that names a place, in bytes that are not UTF-8.
#[derive(Debug, thiserror::Error)]
#[error("the value of {0} is not UTF-8")]
pub struct NotText(pub String);

impl Environment {
    /// Takes the pairs that the caller read.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            values: pairs.into_iter().collect(),
            not_text: BTreeSet::new(),
        }
    }

    /// Takes the pairs as the system has them.
    pub fn from_os(pairs: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut env = Self::default();
        for (name, value) in pairs {
            match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => drop(env.values.insert(name, value)),
                (Ok(name), Err(_)) => drop(env.not_text.insert(name)),
                (Err(_), _) => {}
            }
        }
        env
    }

    /// A path that is set. One in other bytes than UTF-8 is an error: another place would be taken in silence.
    pub fn place(&self, name: &str) -> Result<Option<&str>, NotText> {
        match self.not_text.contains(name) {
            true => Err(NotText(name.to_owned())),
            false => Ok(self.get(name)),
        }
    }

    /// Adds values for names that are not set: what the process was started with always wins.
    pub fn or_else(mut self, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        for (name, value) in pairs {
            self.values.entry(name).or_insert(value);
        }
        self
    }

    /// Sets values, whatever the process was started with.
    #[must_use]
    pub fn with(mut self, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        self.values.extend(pairs);
        self
    }

    /// The value, if it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values
            .get(name)
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    /// All of it, for the operator's own programs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Values that must never reach a pack: everything whose name speaks of a credential.
    pub fn secrets(&self) -> Vec<(String, Vec<u8>)> {
        let speaks = |name: &str| {
            let name = name.to_ascii_uppercase();
            [
                "TOKEN",
                "SECRET",
                "PASSWORD",
                "PASSWD",
                "API_KEY",
                "APIKEY",
                "PRIVATE_KEY",
                "ACCESS_KEY",
                "CREDENTIAL",
            ]
            .iter()
            .any(|w| name.contains(w))
        };
        // Short values and paths are settings, not credentials; redacting them would garble every log.
        self.values
            .iter()
            .filter(|(name, value)| speaks(name) && value.len() >= 12 && !value.starts_with('/'))
            .map(|(name, value)| (name.clone(), value.clone().into_bytes()))
            .collect()
    }
}

/// The system's list of accounts, and most bytes of it that are read.
const ACCOUNTS: &str = "/etc/passwd";
const ACCOUNTS_BYTES_MAX: u64 = 16 << 20;

/// The homes of who runs this, as they really lie: `HOME`, which a service or a build may have set to anything, and the one
/// that the system knows. Secrets lie in the second whatever the first says.
pub(crate) fn user_homes(env: &Environment) -> Vec<PathBuf> {
    let mut accounts = String::new();
    let read = std::fs::File::open(ACCOUNTS)
        .and_then(|file| file.take(ACCOUNTS_BYTES_MAX).read_to_string(&mut accounts));
    let own = read
        .ok()
        .and_then(|_| home_of(&accounts, rustix::process::geteuid().as_raw()));
    let named = env.get("HOME").map(PathBuf::from);
    let found = named.into_iter().chain(own);
    let real = found.filter_map(|home| std::fs::canonicalize(home).ok());
    let homes: BTreeSet<PathBuf> = real.filter(|home| home != Path::new("/")).collect();
    homes.into_iter().collect()
}

/// The home of an account, by the text of the list.
fn home_of(accounts: &str, uid: u32) -> Option<PathBuf> {
    let is_own = |fields: &Vec<&str>| fields.get(2).and_then(|id| id.parse().ok()) == Some(uid);
    let mut rows = accounts.lines().map(|line| line.split(':').collect());
    let home = rows.find(is_own)?.get(5).copied()?.to_owned();
    home.starts_with('/').then(|| PathBuf::from(home))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_of_an_account_is_found_by_its_number() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\n# odd\n\nyou:x:1000:1000::/home/you:/bin/sh\nsvc:x:7:7:::\n";
        let found = |uid| home_of(accounts, uid).map(|home| home.display().to_string());
        assert_eq!(found(1000).as_deref(), Some("/home/you"));
        assert_eq!(found(0).as_deref(), Some("/root"));
        assert_eq!((found(7), found(8)), (None, None));
    }
}
