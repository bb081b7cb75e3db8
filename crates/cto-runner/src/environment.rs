//! The process environment as a value: read once, at the edge.

use std::collections::BTreeMap;

/// Names and values; what is not UTF-8 counts as absent.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Takes the pairs that the caller read.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// Adds values for names that are not set: what the process was started with always wins.
    pub fn or_else(mut self, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        for (name, value) in pairs {
            self.0.entry(name).or_insert(value);
        }
        self
    }

    /// The value, if it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    /// All of it, for the operator's own programs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
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
        self.0
            .iter()
            .filter(|(name, value)| speaks(name) && value.len() >= 12 && !value.starts_with('/'))
            .map(|(name, value)| (name.clone(), value.clone().into_bytes()))
            .collect()
    }
}
