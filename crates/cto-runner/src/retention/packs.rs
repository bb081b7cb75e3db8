//! Which packs may go. What is in doubt stays, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};

use cto_contract::artifact::{ATTESTATION, EVENTS};
use cto_contract::event::{EventKind, RunEvent};
use cto_contract::ids::RunId;
use cto_contract::ledger::{Record, Seal};
use cto_contract::time::Utc;
use cto_evidence::pack::PackDir;
use cto_store::RunSealed;

use super::{GONE, Item, ItemKind, Kept, RetentionError, item, remove as remove_tree, tombstone};
use crate::harness::{Harness, index_row};
use crate::open_run::sync_dir;
use crate::reference;

/// Longest first line of a log that is looked at for the parent.
const FIRST_LINE_BYTES_MAX: u64 = 1 << 20;

/// Finds the packs that go by `packs_days`, and those that are as old and stay.
pub(super) fn survey(
    harness: &Harness,
    now: Utc,
    days: u32,
) -> Result<(Vec<Item>, Vec<Kept>), RetentionError> {
    let cutoff = now.plus_seconds(-i64::from(days) * super::DAY_SECONDS);
    check_ledger(harness)?;
    let ids = reference::packs(&harness.home)?;
    let mut going = BTreeSet::new();
    let mut kept = Vec::new();
    for id in &ids {
        match judge(harness, id, cutoff) {
            Age::Young => {}
            Age::Old(Ok(())) => {
                going.insert(id.clone());
            }
            Age::Old(Err(reason)) => kept.push(Kept {
                run_id: id.clone(),
                reason,
            }),
        }
    }
    let parents: BTreeMap<&RunId, RunId> = ids
        .iter()
        .filter_map(|id| Some((id, parent(harness, id)?)))
        .collect();
    keep_parents(&parents, &mut going, &mut kept);
    kept.sort_by(|a, b| a.run_id.cmp(&b.run_id));
    let items = going
        .into_iter()
        .map(|id| {
            let reason = format!("finished longer ago than packs_days: {days}");
            item(ItemKind::Pack, harness.home.pack(&id), Some(id), reason)
        })
        .collect();
    Ok((items, kept))
}

enum Age {
    Young,
    /// Old enough, and what speaks against its removal.
    Old(Result<(), String>),
}

fn judge(harness: &Harness, id: &RunId, cutoff: Utc) -> Age {
    let home = &harness.home;
    // The id begins with when the run started: a pack that is younger need not be read.
    let is_young =
        id.as_str() > cutoff.basic().as_str() && !id.as_str().starts_with(&cutoff.basic());
    if is_young || !home.pack(id).join(ATTESTATION).exists() || home.work_of(id).exists() {
        return Age::Young;
    }
    let row = match index_row(harness, &home.pack(id)) {
        Ok(row) => row,
        Err(reason) => return Age::Old(Err(reason)),
    };
    if row.finished_at > cutoff {
        return Age::Young;
    }
    Age::Old(may_go(harness, id, &row))
}

fn may_go(harness: &Harness, id: &RunId, row: &RunSealed) -> Result<(), String> {
    if row.run_id != *id {
        return Err(format!("the pack in it is of run {}", row.run_id));
    }
    let seal = harness.store().find(&Seal::key(id));
    match seal.map_err(|e| crate::error_chain(&e))?.map(|s| s.record) {
        Some(Record::RunSealed(seal)) if seal.pack_digest == row.pack_digest => {}
        Some(_) => return Err("the ledger knows another pack of this run".to_owned()),
        None => return Err("the ledger does not know it".to_owned()),
    }
    if harness.home.addenda(id).symlink_metadata().is_ok() {
        return Err("it has addenda".to_owned());
    }
    Ok(())
}

/// Takes the parents of what stays out of what goes, and their parents in turn.
fn keep_parents(
    parents: &BTreeMap<&RunId, RunId>,
    going: &mut BTreeSet<RunId>,
    kept: &mut Vec<Kept>,
) {
    let mut changed = true;
    while changed {
        changed = false;
        for (child, parent) in parents {
            if !going.contains(*child) && going.remove(parent) {
                changed = true;
                kept.push(Kept {
                    run_id: parent.clone(),
                    reason: format!("run {child} is a new attempt of it"),
                });
            }
        }
    }
}

/// Packs are compared only with a ledger that holds.
fn check_ledger(harness: &Harness) -> Result<(), RetentionError> {
    match harness.store().verify_ledger()?.broken {
        Some(broken) => Err(RetentionError::Ledger {
            seq: broken.seq,
            reason: broken.reason,
        }),
        None => Ok(()),
    }
}

/// The run that this one is a new attempt of, as its log says.
fn parent(harness: &Harness, id: &RunId) -> Option<RunId> {
    let file = PackDir::open(&harness.home.pack(id))
        .and_then(|dir| dir.open_path(EVENTS))
        .ok()?;
    let mut line = Vec::new();
    BufReader::new(file.take(FIRST_LINE_BYTES_MAX))
        .read_until(b'\n', &mut line)
        .ok()?;
    let EventKind::RunStarted(started) = serde_json::from_slice::<RunEvent>(&line).ok()?.kind
    else {
        return None;
    };
    started.parent_run_id
}

/// Buries a pack: its tombstone is durable before it goes, and it goes by one rename.
pub(super) fn remove(harness: &Harness, item: &Item, now: Utc) -> Result<(), String> {
    let Some(id) = &item.run_id else {
        return Err("it has no run id".to_owned());
    };
    let home = &harness.home;
    let row = index_row(harness, &item.path)?;
    if row.run_id != *id || home.addenda(id).symlink_metadata().is_ok() {
        return Err("it is no longer what it was".to_owned());
    }
    tombstone::write(harness, &row, item, now).map_err(|e| crate::error_chain(&e))?;
    let gone = home.runs().join(format!("{GONE}{id}"));
    remove_tree(&gone)?;
    let moved = fs::rename(&item.path, &gone).and_then(|()| sync_dir(&home.runs()));
    moved.map_err(|e| e.to_string())?;
    remove_tree(&gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kept_run_descends_from_stays() {
        let id = |n: u8| -> RunId { format!("20260601T10522{n}Z-a-aaaaaa").parse().unwrap() };
        let ids: Vec<RunId> = (0..5).map(id).collect();
        // 0 <- 1 <- 2 (kept); 3 <- 4.
        let parents: BTreeMap<&RunId, RunId> = [(1, 0), (2, 1), (4, 3)]
            .map(|(child, parent)| (&ids[child], ids[parent].clone()))
            .into();
        let mut going: BTreeSet<RunId> = [0, 1, 3, 4].map(id).into();
        let mut kept = Vec::new();
        keep_parents(&parents, &mut going, &mut kept);
        assert_eq!(going, [3, 4].map(id).into());
        assert_eq!(kept.len(), 2);
    }
}
