//! The index of runs, made new from the packs.

use std::cell::RefCell;

use cto_contract::artifact::ATTESTATION;
use cto_contract::ids::RunId;
use cto_store::{IndexOutput, IndexTag, RefusedPack, StoreError};

use crate::harness::{Harness, index_row};
use crate::reference::{self, ReferenceError};
use crate::retention::{burial, buried};

/// Why the index can't be made.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the packs can't be listed")]
    Packs(#[from] ReferenceError),
    #[error("the database can't be used")]
    Store(#[from] StoreError),
}

/// Makes the index new. Every pack is verified; one that does not is left out and named. Of a pack that was removed its
/// tombstone stands for it. The ledger is not touched.
pub fn rebuild_index(harness: &Harness) -> Result<IndexOutput, IndexError> {
    let sealed = reference::packs(&harness.home)?;
    let sealed = sealed
        .into_iter()
        .filter(|id| harness.home.pack(id).join(ATTESTATION).exists());
    let buried = buried(&harness.home)?;
    let refused = RefCell::new(Vec::new());
    let refuse = |id: &RunId, reason: String| {
        refused.borrow_mut().push(RefusedPack {
            name: id.to_string(),
            reason,
        });
    };
    let removed = buried.into_iter().filter_map(|id| {
        let buried = burial(&harness.home, &id, &harness.config.trusted);
        let buried = buried
            .map_err(|error| refuse(&id, error.to_string()))
            .ok()?;
        buried.map(|buried| buried.row())
    });
    let rows = sealed.filter_map(|id| {
        let row = index_row(harness, &harness.home.pack(&id)).and_then(|row| {
            if row.run_id == id {
                Ok(row)
            } else {
                Err(format!("the pack in it is of run {}", row.run_id))
            }
        });
        row.map_err(|reason| refuse(&id, reason)).ok()
    });
    let rebuilt = harness
        .store()
        .rebuild_index(rows.chain(removed), crate::clock::now())?;
    Ok(IndexOutput {
        schema_version: IndexTag,
        rebuilt,
        refused: refused.into_inner(),
    })
}
