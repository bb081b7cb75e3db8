//! A home as whoever looks at its runs sees it: one that can be written, or one that can only be read.

use cto_contract::ids::Digest;
use cto_contract::trust::TrustedKey;
use cto_store::{Store, StoreError};

use crate::config::Config;
use crate::harness::Harness;
use crate::home::Home;
use crate::keyring::show_key;

/// A home that holds runs.
pub enum RunsHome {
    Open(Box<Harness>),
    ReadOnly {
        home: Home,
        store: Store,
        config: Box<Config>,
    },
}

impl RunsHome {
    /// Opens a home that can't be written.
    pub fn read_only(home: Home, config: Config) -> Result<Self, StoreError> {
        Ok(Self::ReadOnly {
            store: Store::open_to_read(&home.database())?,
            home,
            config: Box::new(config),
        })
    }

    pub fn home(&self) -> &Home {
        match self {
            Self::Open(harness) => &harness.home,
            Self::ReadOnly { home, .. } => home,
        }
    }

    pub(crate) fn store(&self) -> &Store {
        match self {
            Self::Open(harness) => harness.store(),
            Self::ReadOnly { store, .. } => store,
        }
    }

    /// The keys that count here.
    pub fn trusted(&self) -> &[TrustedKey] {
        match self {
            Self::Open(harness) => &harness.config.trusted,
            Self::ReadOnly { config, .. } => &config.trusted,
        }
    }

    /// The key that seals for this home, as far as it can be read.
    pub(crate) fn keyid(&self) -> Option<Digest> {
        match self {
            Self::Open(harness) => Some(harness.public_key().keyid()),
            Self::ReadOnly { home, .. } => show_key(home).ok().map(|key| key.keyid),
        }
    }
}
