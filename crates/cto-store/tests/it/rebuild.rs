//! The index made anew from packs.

use cto_contract::words::RunStatus;
use cto_store::{Filter, Page, Rebuilt, RunRow, RunSealed, Store};

use crate::sample::{created, home, raw, sealed, store, time};

fn rows(store: &Store) -> Vec<RunRow> {
    store
        .list(&Filter::default(), &Page::first(1000))
        .unwrap()
        .rows
}

/// Twelve runs, of which the last four go on; their packs.
fn twelve(store: &Store) -> Vec<RunSealed> {
    let mut packs = Vec::new();
    for number in 0..12 {
        let run = created(number, i64::from(number));
        store.run_created(&run).unwrap();
        if number < 8 {
            packs.push(sealed(
                &run,
                if number % 2 == 0 {
                    RunStatus::Pass
                } else {
                    RunStatus::Fail
                },
            ));
            store.run_sealed(packs.last().unwrap()).unwrap();
        }
    }
    packs
}

#[test]
fn a_rebuilt_index_equals_the_one_that_grew() {
    let (_dir, path) = home();
    let store = store(&path);
    let packs = twelve(&store);
    let grown = (
        rows(&store),
        store.counts().unwrap(),
        store.unsealed().unwrap(),
        store.ledger_head().unwrap(),
    );
    raw(&path, "DELETE FROM runs; DELETE FROM open_runs").unwrap();
    assert!(rows(&store).is_empty());
    let found = store.rebuild_index(packs, time(1000)).unwrap();
    assert_eq!(
        found,
        Rebuilt {
            runs: 12,
            running: 4,
            missing: 0,
            unknown: 0
        }
    );
    let rebuilt = (
        rows(&store),
        store.counts().unwrap(),
        store.unsealed().unwrap(),
        store.ledger_head().unwrap(),
    );
    assert_eq!(rebuilt, grown);
}

#[test]
fn a_rebuild_drops_what_has_no_pack_and_says_so() {
    let (_dir, path) = home();
    let store = store(&path);
    let mut packs = twelve(&store);
    let lost = packs.remove(3);
    let imported = sealed(&created(77, 40), RunStatus::Pass);
    packs.push(imported.clone());
    let found = store.rebuild_index(packs, time(1000)).unwrap();
    assert_eq!(
        found,
        Rebuilt {
            runs: 12,
            running: 4,
            missing: 1,
            unknown: 1
        }
    );
    assert_eq!(store.get(&lost.run_id).unwrap(), None);
    assert!(store.get(&imported.run_id).unwrap().is_some());
    assert_eq!(store.verify_ledger().unwrap().broken, None);
}

#[test]
fn a_sealed_pack_whose_seal_the_ledger_missed_is_still_for_recovery() {
    let (_dir, path) = home();
    let store = store(&path);
    let run = created(1, 0);
    store.run_created(&run).unwrap();
    let pack = sealed(&run, RunStatus::Pass);
    store.rebuild_index([pack.clone()], time(1000)).unwrap();
    assert_eq!(
        store.get(&run.run_id).unwrap().unwrap().status,
        Some(RunStatus::Pass)
    );
    assert_eq!(store.unsealed().unwrap(), [run.run_id]);
    store.run_sealed(&pack).unwrap();
    assert!(store.unsealed().unwrap().is_empty());
}

#[test]
fn what_others_enter_during_a_rebuild_is_kept() {
    let (_dir, path) = home();
    let (ours, other) = (store(&path), store(&path));
    let packs = twelve(&ours);
    let late = created(50, 50);
    // The packs are read one by one; halfway another process runs one of its own and seals an open one.
    let open = created(9, 9);
    let halfway = packs.into_iter().enumerate().map(|(i, pack)| {
        if i == 4 {
            other.run_created(&late).unwrap();
            other.run_sealed(&sealed(&late, RunStatus::Pass)).unwrap();
            other
                .run_sealed(&sealed(&open, RunStatus::Blocked))
                .unwrap();
        }
        pack
    });
    ours.rebuild_index(halfway, time(1000)).unwrap();
    assert_eq!(
        other.get(&late.run_id).unwrap().unwrap().status,
        Some(RunStatus::Pass)
    );
    assert_eq!(
        other.get(&open.run_id).unwrap().unwrap().status,
        Some(RunStatus::Blocked)
    );
    assert_eq!(other.counts().unwrap().total(), 13);
    assert_eq!(other.unsealed().unwrap().len(), 3);
}
