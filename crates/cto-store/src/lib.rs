//! The index of runs and the ledger, both in `<home>/cto.db`.
//!
//! - The index is a projection of packs. It may be thrown away and rebuilt; nothing decides on it alone.
//! - The ledger is authoritative: append-only, hash-chained, never rebuilt. It takes every kind of record of
//!   [`cto_contract::ledger`] the same way; nothing here knows a kind but the index of runs.
//! - A record with a once-key enters once: the same again changes nothing, so that recovery may enter it again, and
//!   another under that key is refused. What a decision rests on is read in the transaction that appends it
//!   ([`Store::transact`]).
//! - A row of the index and its ledger record are written in one transaction or not at all.
//! - A database file appears complete, by one link, or not at all; it is never made in place.
//! - A commit is synced before the call returns: it outlives the process and a power cut.
//! - No clock and no randomness here: both come in as values.
//!
//! [`Store`] blocks. It must not be called from inside an async runtime.

mod cursor;
mod database;
mod entries;
mod error;
mod index;
mod ledger;
mod open;
mod outputs;
#[cfg(test)]
mod plans;
mod query;
mod run;
mod sql;
mod store;
mod transaction;
mod walk;

pub use cto_contract::ledger::RunCreated;
pub use cursor::{BadCursor, Cursor};
pub use error::StoreError;
pub use ledger::{Appended, Found, LedgerEntry, LedgerHead, LedgerInit, LedgerListing, LedgerPage};
pub use outputs::{IndexOutput, IndexTag, LiveRun, RefusedPack, RunsOutput, RunsTag};
pub use query::{Counts, Filter, Listing, OwnRuns, PAGE_ROWS_MAX, Page, Rebuilt, State};
pub use run::{RunRow, RunSealed};
pub use store::Store;
pub use transaction::LedgerTransaction;
pub use walk::{Break, BreakReason, LedgerCheck};
