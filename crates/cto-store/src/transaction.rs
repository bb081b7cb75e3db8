//! One write transaction on the ledger: look, decide, append.

use std::path::PathBuf;

use cto_contract::ids::Digest;
use cto_contract::ledger::{LedgerRecord, OnceKey, RecordKind, Subject};
use sqlx::{Sqlite, Transaction};
use tokio::runtime::Runtime;

use crate::database::Database;
use crate::entries;
use crate::error::{StoreError, at};
use crate::ledger::{Appended, Found, LedgerHead};

/// The ledger while nobody else can write to it. Given by [`crate::Store::transact`].
pub struct LedgerTransaction<'a> {
    runtime: &'a Runtime,
    path: PathBuf,
    tx: Transaction<'a, Sqlite>,
}

impl<'a> LedgerTransaction<'a> {
    pub(crate) fn begin(
        runtime: &'a Runtime,
        database: &'a mut Database,
    ) -> Result<Self, StoreError> {
        let path = database.path.clone();
        let tx = runtime.block_on(database.begin())?;
        Ok(Self { runtime, path, tx })
    }

    pub(crate) fn commit(self) -> Result<(), StoreError> {
        let committed = self.runtime.block_on(self.tx.commit());
        committed.map_err(at(&self.path))
    }

    /// Lets go of the write lock at once. A failure here can only mean that it is gone already.
    pub(crate) fn roll_back(self) {
        let _gone = self.runtime.block_on(self.tx.rollback());
    }

    /// Appends a record of any kind.
    ///
    /// Under a once-key that is taken, the same record changes nothing, and another is a [`StoreError::Conflict`]. What
    /// the record has to follow must be there already, else it is [`StoreError::TooEarly`].
    pub fn append(&mut self, record: &impl LedgerRecord) -> Result<Appended, StoreError> {
        self.runtime
            .block_on(entries::append(&mut self.tx, &self.path, record))
    }

    /// The record with this key.
    pub fn find<R: LedgerRecord>(
        &mut self,
        once: &OnceKey,
    ) -> Result<Option<Found<R>>, StoreError> {
        self.runtime
            .block_on(entries::find(&mut self.tx, &self.path, once))
    }

    /// The newest record of this kind about this subject: what a decision named is unchanged while it is this one.
    pub fn last<R: LedgerRecord>(
        &mut self,
        kind: &str,
        subject: &Subject,
    ) -> Result<Option<Found<R>>, StoreError> {
        self.runtime
            .block_on(entries::last(&mut self.tx, &self.path, kind, subject))
    }

    /// All records of these kinds, in their order. For kinds of which there are few: what people decide.
    pub fn of_kinds<R: LedgerRecord>(
        &mut self,
        kinds: &[RecordKind],
    ) -> Result<Vec<Found<R>>, StoreError> {
        self.runtime
            .block_on(entries::of_kinds(&mut self.tx, &self.path, kinds))
    }

    /// The digest of the genesis.
    pub fn id(&mut self) -> Result<Digest, StoreError> {
        self.runtime
            .block_on(entries::ledger_id(&mut self.tx, &self.path))
    }

    /// The last record.
    pub fn head(&mut self) -> Result<LedgerHead, StoreError> {
        self.runtime
            .block_on(entries::head(&mut self.tx, &self.path))
    }
}
