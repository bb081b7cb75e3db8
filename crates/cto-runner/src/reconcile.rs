//! Index and ledger held against the packs, when there is reason to doubt them: after a start of the machine, and when the
//! ledger is shorter than it was.
//!
//! A sealed pack that verifies by a key of this home is evidence that the run took place here: it is entered again, and the
//! ledger says that it was. What left no such pack can't be known: that entries are lost is recorded, not what they said.

use std::fs::{self, File};
use std::io::{self, Write as _};

use cto_contract::artifact::ATTESTATION;
use cto_contract::ids::{Digest, RunId};
use cto_contract::ledger::{LedgerLost, Record, RunCreated, RunTakenUp};
use cto_contract::trust::Origin;
use cto_store::{RunSealed, StoreError};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::harness::{Harness, index_row};
use crate::home::{Home, LEDGER_MARK_DRAFT};
use crate::keyring::own_keyids;
use crate::provenance::ledger_digest;
use crate::reference;

/// Where the ledger stood when it was last written. Not synced: it may be older than the ledger, never newer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    boot_id: String,
    ledger: Digest,
    seq: u64,
    digest: Digest,
}

/// What a look at the packs brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Runs that were entered again.
    pub taken_up: Vec<RunId>,
    /// How many entries the ledger has lost, at least.
    pub entries_lost: u64,
    /// The ledger is another than the one that was written here last: all entries of that one are lost.
    pub is_another: bool,
}

impl Harness {
    /// Remembers where the ledger stands. What can't be written now costs a look at the packs later.
    pub(crate) fn mark_ledger(&self) {
        let mark = || -> Option<Mark> {
            let head = self.store().ledger_head().ok()?;
            Some(Mark {
                boot_id: clock::boot_id(),
                ledger: self.store().ledger_id().ok()?,
                seq: head.seq,
                digest: head.digest,
            })
        };
        if let Some(mark) = mark() {
            write(&self.home, &mark).ok();
        }
    }
}

fn write(home: &Home, mark: &Mark) -> io::Result<()> {
    let path = home.ledger_mark();
    let part = path.with_file_name(format!("{LEDGER_MARK_DRAFT}{}", std::process::id()));
    let mut file = File::create(&part)?;
    file.write_all(&serde_json::to_vec(mark)?)?;
    fs::rename(&part, path)
}

fn read(home: &Home) -> Option<Mark> {
    serde_json::from_slice(&fs::read(home.ledger_mark()).ok()?).ok()
}

/// Looks at the packs if there is reason to. Cheap when there is none.
pub(crate) fn reconcile(harness: &Harness) -> Result<Reconciled, StoreError> {
    let store = harness.store();
    let (head, ledger) = (store.ledger_head()?, store.ledger_id()?);
    let mark = read(&harness.home);
    let known = mark.as_ref().filter(|m| m.ledger == ledger);
    let entries_lost = match (&mark, known) {
        (_, Some(known)) => known.seq.saturating_sub(head.seq),
        (Some(other), None) => other.seq,
        (None, None) => 0,
    };
    if entries_lost == 0 && known.is_some_and(|m| m.boot_id == clock::boot_id()) {
        return Ok(Reconciled::default());
    }
    let is_another = mark.is_some() && known.is_none();
    if let Some(mark) = mark.filter(|_| entries_lost > 0) {
        store.append(&Record::LedgerLost(LedgerLost {
            at: clock::now(),
            ledger: mark.ledger,
            seq: mark.seq,
            digest: mark.digest,
        }))?;
    }
    let mut taken_up = Vec::new();
    for run_id in reference::packs(&harness.home).unwrap_or_default() {
        if take_up(harness, &run_id)? {
            taken_up.push(run_id);
        }
    }
    harness.mark_ledger();
    Ok(Reconciled {
        taken_up,
        entries_lost,
        is_another,
    })
}

/// Enters a run again, if its pack shows that it was here and ledger or index do not know it.
fn take_up(harness: &Harness, run_id: &RunId) -> Result<bool, StoreError> {
    let (home, store) = (&harness.home, harness.store());
    let pack = home.pack(run_id);
    // Asked before the ledger: whoever works on a run clears its directory after the entry.
    if home.work_of(run_id).exists() || !pack.join(ATTESTATION).exists() {
        return Ok(false);
    }
    let in_ledger = ledger_digest(store, run_id)?;
    let row = store.get(run_id)?;
    if in_ledger.is_some() && row.is_some_and(|row| row.status.is_some()) {
        return Ok(false);
    }
    let Ok(row) = index_row(harness, &pack) else {
        return Ok(false);
    };
    match in_ledger {
        Some(ledger) if ledger == row.pack_digest => {
            store.run_sealed(&row)?;
            Ok(true)
        }
        Some(_) => Ok(false),
        None if is_of_this_home(harness, run_id, &row) => {
            enter(harness, &row)?;
            Ok(true)
        }
        None => Ok(false),
    }
}

/// Whether a key of this home, which counts, sealed the pack of this very run. The key that seals now counts also where the
/// clock stood before the key was made: it may have been set back.
pub(crate) fn is_of_this_home(harness: &Harness, run_id: &RunId, row: &RunSealed) -> bool {
    let is_present_key = row.keyid == harness.key.keyid();
    let counts = match row.origin {
        Origin::Known => own_keyids(&harness.home).contains(&row.keyid),
        Origin::Expired => is_present_key,
        Origin::Unknown | Origin::Revoked => false,
    };
    row.run_id == *run_id && counts
}

fn enter(harness: &Harness, row: &RunSealed) -> Result<(), StoreError> {
    let store = harness.store();
    let created = RunCreated {
        run_id: row.run_id.clone(),
        case_id: row.case_id.clone(),
        backend: row.backend,
        stage: row.stage,
        started_at: row.started_at,
        title: row.title.clone(),
        conformance: row.conformance,
        fake_baseline: row.fake_baseline,
    };
    let known: Option<cto_store::Found<Record>> = store.find(&RunCreated::key(&row.run_id))?;
    match (known, &row.repository) {
        (Some(_), _) => {}
        (None, Some(repository)) => drop(store.run_created_on(&created, repository)?),
        (None, None) => drop(store.run_created(&created)?),
    }
    store.run_sealed(row)?;
    store.append(&Record::RunTakenUp(RunTakenUp {
        run_id: row.run_id.clone(),
        at: clock::now(),
        pack_digest: row.pack_digest.clone(),
        keyid: row.keyid.clone(),
    }))?;
    Ok(())
}
