//! The blocking face of the store.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cto_contract::ids::{Digest, RunId};
use cto_contract::ledger::{LedgerRecord, OnceKey, RecordKind, RunCreated};
use cto_contract::time::Utc;
use sqlx::Connection as _;
use tokio::runtime::{Builder, Runtime};

use crate::database::Database;
use crate::entries;
use crate::error::{StoreError, at};
use crate::ledger::{Appended, Found, LedgerHead, LedgerInit, LedgerListing, LedgerPage};
use crate::open::{open, open_to_read};
use crate::query::{Counts, Filter, Listing, OwnRuns, Page, Rebuilt};
use crate::run::{RunRow, RunSealed};
use crate::transaction::LedgerTransaction;
use crate::walk::LedgerCheck;

/// Rows that a rebuild holds in memory at once.
const REBUILD_CHUNK_ROWS: usize = 500;

/// One connection to the database. Several threads may share it; several processes open one each.
pub struct Store {
    runtime: Runtime,
    database: Mutex<Database>,
}

impl Store {
    /// Opens the database at `path`. `init` is what the ledger begins with when there is no database yet.
    pub fn open(path: &Path, init: LedgerInit) -> Result<Self, StoreError> {
        // Neither IO nor time: the driver has its own thread, so nothing but waking is needed.
        let runtime = Builder::new_current_thread()
            .build()
            .map_err(|source| StoreError::Runtime { source })?;
        let database = Mutex::new(runtime.block_on(open(path, &init))?);
        Ok(Self { runtime, database })
    }

    /// Opens a database in a place that can't be written, to read what is in it. There must be one.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread()
            .build()
            .map_err(|source| StoreError::Runtime { source })?;
        let database = Mutex::new(runtime.block_on(open_to_read(path))?);
        Ok(Self { runtime, database })
    }

    /// Waits until the file is closed; the last one to close it folds the write-ahead log into it.
    ///
    /// For whoever copies or moves the file next. A command that ends just drops the store: that waits for no disk,
    /// loses nothing, and leaves the log for the next one to go on with.
    pub fn close(self) -> Result<(), StoreError> {
        let database = self
            .database
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        self.runtime
            .block_on(database.conn.close())
            .map_err(at(&database.path))
    }

    /// A panic in another thread leaves no transaction open, so its lock can be taken over.
    fn database(&self) -> MutexGuard<'_, Database> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a run: index row and ledger record. Entering it again changes nothing.
    pub fn run_created(&self, run: &RunCreated) -> Result<LedgerHead, StoreError> {
        self.runtime
            .block_on(self.database().run_created(run, None))
    }

    /// Enters a run that was started on a repository; the index remembers which.
    pub fn run_created_on(
        &self,
        run: &RunCreated,
        repository: &Digest,
    ) -> Result<LedgerHead, StoreError> {
        self.runtime
            .block_on(self.database().run_created(run, Some(repository)))
    }

    /// Enters the seal of a run that was created. Entering it again refreshes the row of the index only.
    pub fn run_sealed(&self, run: &RunSealed) -> Result<LedgerHead, StoreError> {
        self.runtime.block_on(self.database().run_sealed(run))
    }

    /// Puts a pack that came just now into the index. The ledger tells of this home's runs only.
    pub fn index_pack(&self, run: &RunSealed, now: Utc) -> Result<(), StoreError> {
        self.runtime.block_on(self.database().index_pack(run, now))
    }

    pub fn get(&self, run_id: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.runtime.block_on(self.database().get(run_id))
    }

    /// Run ids that begin with `prefix`, the greatest first. Two are enough to know that it is not unique.
    pub fn find_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<RunId>, StoreError> {
        self.runtime
            .block_on(self.database().find_prefix(prefix, limit))
    }

    /// Runs that the ledger of this home created, the last first, each with its place there. `before` is the place of
    /// the last one of the answer before.
    pub fn own_runs(
        &self,
        which: &OwnRuns,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<(u64, RunId)>, StoreError> {
        self.runtime
            .block_on(self.database().own_runs(which, before, limit))
    }

    /// One page of the index, newest first.
    pub fn list(&self, filter: &Filter, page: &Page) -> Result<Listing, StoreError> {
        self.runtime.block_on(self.database().list(filter, page))
    }

    /// Runs in the ledger that were created and not sealed: going on, or waiting for recovery.
    pub fn unsealed(&self) -> Result<Vec<RunId>, StoreError> {
        self.runtime.block_on(self.database().unsealed())
    }

    pub fn counts(&self) -> Result<Counts, StoreError> {
        self.runtime.block_on(self.database().counts())
    }

    /// Replaces the whole index by these packs, and by what the ledger knows of runs without one.
    ///
    /// Packs are collected aside, so other processes can write meanwhile, and what they enter is kept. Of two packs
    /// with the same run id the first counts.
    pub fn rebuild_index(
        &self,
        packs: impl IntoIterator<Item = RunSealed>,
        now: Utc,
    ) -> Result<Rebuilt, StoreError> {
        let mut database = self.database();
        let begun = self.runtime.block_on(database.rebuild_begin())?;
        let mut packs = packs.into_iter();
        loop {
            let chunk: Vec<RunSealed> = packs.by_ref().take(REBUILD_CHUNK_ROWS).collect();
            if chunk.is_empty() {
                return self.runtime.block_on(database.rebuild_swap(begun));
            }
            self.runtime
                .block_on(database.rebuild_collect(&chunk, now))?;
        }
    }

    /// Does `work` in one write transaction: what it finds stays true until what it appends is in. If it fails,
    /// nothing of it stays.
    ///
    /// Every other writer waits meanwhile, so `work` only looks and appends; it must not call the store itself.
    pub fn transact<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut LedgerTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut database = self.database();
        let mut transaction = LedgerTransaction::begin(&self.runtime, &mut database)?;
        match work(&mut transaction) {
            Ok(done) => {
                transaction.commit()?;
                Ok(done)
            }
            Err(error) => {
                transaction.roll_back();
                Err(error)
            }
        }
    }

    /// Appends one record of any kind.
    pub fn append(&self, record: &impl LedgerRecord) -> Result<Appended, StoreError> {
        self.transact(|ledger| ledger.append(record))
    }

    /// The record with this key.
    pub fn find<R: LedgerRecord>(&self, once: &OnceKey) -> Result<Option<Found<R>>, StoreError> {
        let database = &mut *self.database();
        self.runtime
            .block_on(entries::find(&mut database.conn, &database.path, once))
    }

    /// The digest of the genesis.
    pub fn ledger_id(&self) -> Result<Digest, StoreError> {
        self.runtime.block_on(self.database().ledger_id())
    }

    /// The last record.
    pub fn ledger_head(&self) -> Result<LedgerHead, StoreError> {
        let database = &mut *self.database();
        self.runtime
            .block_on(entries::head(&mut database.conn, &database.path))
    }

    /// All records of these kinds, in their order. For kinds of which there are few: what people decide.
    pub fn ledger_of_kinds<R: LedgerRecord>(
        &self,
        kinds: &[RecordKind],
    ) -> Result<Vec<Found<R>>, StoreError> {
        let database = &mut *self.database();
        self.runtime
            .block_on(entries::of_kinds(&mut database.conn, &database.path, kinds))
    }

    /// Where the entry with this number stands; none where there is none.
    pub fn ledger_entry_at(&self, seq: u64) -> Result<Option<LedgerHead>, StoreError> {
        let database = &mut *self.database();
        self.runtime
            .block_on(entries::entry_at(&mut database.conn, &database.path, seq))
    }

    pub fn ledger_entries(&self, page: LedgerPage) -> Result<LedgerListing, StoreError> {
        self.runtime.block_on(self.database().ledger_entries(page))
    }

    /// Walks the chain from the genesis and names the first record that does not hold.
    pub fn verify_ledger(&self) -> Result<LedgerCheck, StoreError> {
        self.runtime.block_on(self.database().verify_ledger())
    }
}
