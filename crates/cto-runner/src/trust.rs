//! Which keys make an origin known: trusted, listed, and trusted no more.

use cto_contract::ids::Digest;
use cto_contract::outputs::{TrustListOutput, TrustListTag, TrustOutput, TrustTag};
use cto_contract::text::shorten;
use cto_contract::time::Utc;
use cto_contract::trust::{TrustSchema, TrustedKey};
use cto_evidence::key::PublicKey;

use crate::config::Config;
use crate::keyring::{KeyringError, add_trusted};

/// A key whose trust can't be changed like that.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("the key would end before it begins to count")]
    PeriodEmpty,
    #[error("key {} was revoked", keyid.short())]
    Revoked { keyid: Digest },
    #[error("`{}` is not the beginning of one trusted key's id", shorten(text, 80))]
    Unknown { text: String },
    #[error(
        "`{}` is the beginning of more than one trusted key's id",
        shorten(text, 80)
    )]
    Ambiguous { text: String },
    #[error(transparent)]
    Keyring(#[from] KeyringError),
}

impl TrustError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::PeriodEmpty => "trust_period_empty",
            Self::Revoked { .. } => "trust_revoked",
            Self::Unknown { .. } => "key_unknown",
            Self::Ambiguous { .. } => "key_ambiguous",
            Self::Keyring(error) => error.code(),
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::PeriodEmpty => None,
            Self::Revoked { .. } => {
                Some("a revoked key stays revoked: whoever holds it can write any date".to_owned())
            }
            Self::Unknown { .. } | Self::Ambiguous { .. } => {
                Some("`cto trust list` shows them".to_owned())
            }
            Self::Keyring(error) => error.hint(),
        }
    }
}

/// A key to be trusted.
#[derive(Debug, Clone)]
pub struct NewTrust {
    pub key: PublicKey,
    /// For people.
    pub name: String,
    pub valid_from: Utc,
    pub valid_until: Option<Utc>,
}

/// Trusts a key, where nobody has to sign for it.
pub fn trust_key(config: &Config, new: NewTrust) -> Result<TrustOutput, TrustError> {
    save(config, new_trusted(config, new)?)
}

/// The record of a key to be trusted.
pub fn new_trusted(config: &Config, new: NewTrust) -> Result<TrustedKey, TrustError> {
    let keyid = new.key.keyid();
    if new.valid_until.is_some_and(|until| until <= new.valid_from) {
        return Err(TrustError::PeriodEmpty);
    }
    let mut known = config.trusted.iter();
    if known.any(|k| k.keyid == keyid && k.revoked_at.is_some()) {
        return Err(TrustError::Revoked { keyid });
    }
    Ok(TrustedKey {
        schema: TrustSchema,
        name: new.name,
        keyid,
        public_key: new.key.to_base64(),
        valid_from: new.valid_from,
        valid_until: new.valid_until,
        revoked_at: None,
    })
}

/// Trusts a key no more, where nobody has to sign for it: nothing that it ever sealed counts.
pub fn revoke_key(config: &Config, text: &str, now: Utc) -> Result<TrustOutput, TrustError> {
    let mut record = find_trusted(config, text)?;
    record.revoked_at = record.revoked_at.or(Some(now));
    save(config, record)
}

/// The trusted key with this id or a unique beginning of it.
pub fn find_trusted(config: &Config, text: &str) -> Result<TrustedKey, TrustError> {
    let named = |key: &&TrustedKey| !text.is_empty() && key.keyid.as_str().starts_with(text);
    let mut named = config.trusted.iter().filter(named);
    let text = text.to_owned();
    match (named.next(), named.next()) {
        (None, _) => Err(TrustError::Unknown { text }),
        (Some(_), Some(_)) => Err(TrustError::Ambiguous { text }),
        (Some(key), None) => Ok(key.clone()),
    }
}

/// Lists the keys that are trusted, and those that no longer are.
pub fn list_trust(config: &Config) -> TrustListOutput {
    TrustListOutput {
        schema_version: TrustListTag,
        directory: config.trust_dir().display().to_string(),
        keys: config.trusted.clone(),
    }
}

fn save(config: &Config, key: TrustedKey) -> Result<TrustOutput, TrustError> {
    let path = add_trusted(&key, &config.trust_dir())?;
    Ok(TrustOutput {
        schema_version: TrustTag,
        key,
        path: path.display().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use cto_evidence::key::SigningKey;

    use super::*;

    fn at(text: &str) -> Utc {
        text.parse().unwrap()
    }

    fn new(seed: u8) -> NewTrust {
        NewTrust {
            key: SigningKey::from_random(&[seed; 32]).public(),
            name: "somebody".to_owned(),
            valid_from: at("2026-01-01T00:00:00Z"),
            valid_until: None,
        }
    }

    #[test]
    fn a_revoked_key_stays_revoked_since_then() {
        let dir = tempfile::tempdir().unwrap();
        let load = || Config::load(&dir.path().join("config")).unwrap();
        let keyid = trust_key(&load(), new(1)).unwrap().key.keyid;
        let first = at("2026-02-01T00:00:00Z");
        for now in [first, at("2026-03-01T00:00:00Z")] {
            let revoked = revoke_key(&load(), keyid.short(), now).unwrap();
            assert_eq!(revoked.key.revoked_at, Some(first));
        }
        let again = trust_key(&load(), new(1)).unwrap_err();
        assert_eq!(again.code(), "trust_revoked");
        assert_eq!(list_trust(&load()).keys.len(), 1);
    }

    #[test]
    fn a_key_is_named_by_a_beginning_that_only_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let load = || Config::load(&dir.path().join("config")).unwrap();
        // With seventeen keys two ids begin with the same hexadecimal digit.
        for seed in 1..=17 {
            trust_key(&load(), new(seed)).unwrap();
        }
        let now = at("2026-02-01T00:00:00Z");
        let ids: Vec<String> = load().trusted.iter().map(|k| k.keyid.to_string()).collect();
        let count = |digit: &str| ids.iter().filter(|id| id.starts_with(digit)).count();
        let shared = ids
            .iter()
            .map(|id| &id[..1])
            .find(|d| count(d) > 1)
            .unwrap();
        let code = |text: &str| revoke_key(&load(), text, now).unwrap_err().code();
        assert_eq!(code(shared), "key_ambiguous");
        assert_eq!(code("x"), "key_unknown");
        assert_eq!(code(""), "key_unknown");
    }

    #[test]
    fn a_period_must_not_be_empty() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::load(&dir.path().join("config")).unwrap();
        let empty = NewTrust {
            valid_until: Some(at("2026-01-01T00:00:00Z")),
            ..new(1)
        };
        let refused = trust_key(&config, empty).unwrap_err();
        assert_eq!(refused.code(), "trust_period_empty");
        assert!(!config.trust_dir().exists());
    }
}
