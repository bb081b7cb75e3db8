//! The ledger with everything around it: where its files and its witnesses are.

use std::path::{Path, PathBuf};

use cto_contract::ids::Digest;
use cto_contract::trust::TrustedKey;
use cto_evidence::key::SigningKey;
use cto_store::Store;

use crate::authority::Authority;
use crate::checkpoints::SecondPlace;
use crate::error::LedgerError;
use crate::files::TrustFiles;

/// One home's ledger.
pub struct Ledger<'a> {
    pub store: &'a Store,
    /// Signs checkpoints. No decision is ever signed with it.
    pub key: &'a SigningKey,
    /// The home directory: what waits for a signature lies there.
    pub home: &'a Path,
    /// The config directory: files of trust and checkpoints.
    pub config: &'a Path,
    /// The harness keys of the config's files: all that is known of a ledger that was replaced.
    pub trusted: &'a [TrustedKey],
    /// Where checkpoints go besides.
    pub second: Option<SecondPlace>,
    /// The `PATH` of programs that are called.
    pub path: String,
}

impl Ledger<'_> {
    /// The digest of its genesis. A grant names it and is void elsewhere.
    pub fn id(&self) -> Result<Digest, LedgerError> {
        Ok(self.store.ledger_id()?)
    }

    /// Who decides here, and what they have decided: every signature is checked again.
    pub fn authority(&self) -> Result<Authority, LedgerError> {
        Authority::read(self.store)
    }

    /// The files that are written from the ledger.
    pub fn files(&self) -> TrustFiles<'_> {
        TrustFiles {
            config: self.config,
        }
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.config.join("checkpoints")
    }

    pub(crate) fn drafts(&self) -> PathBuf {
        self.home.join("signing")
    }
}
