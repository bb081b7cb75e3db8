//! The ledger: entered once, never changed, and found out when it was.

use cto_contract::ids::Digest;
use cto_contract::ledger::{RecordKind, Seal};
use cto_contract::words::RunStatus;
use cto_store::{Break, BreakReason, LedgerPage, RunCreated, StoreError};

use crate::sample::{NO_TRIGGERS, created, home, raw, sealed, store};

#[test]
fn a_run_entered_twice_stands_in_the_ledger_once() {
    let (_dir, path) = home();
    let store = store(&path);
    let run = created(1, 0);
    let first = store.run_created(&run).unwrap();
    assert_eq!(first.seq, 2);
    assert_eq!(store.run_created(&run).unwrap(), first);
    assert_eq!(store.unsealed().unwrap(), std::slice::from_ref(&run.run_id));

    let pack = sealed(&run, RunStatus::Fail);
    let second = store.run_sealed(&pack).unwrap();
    assert_eq!(second.seq, 3);
    assert_eq!(store.run_sealed(&pack).unwrap(), second);
    assert_eq!(
        store.run_created(&run).unwrap(),
        first,
        "recovery may enter both again"
    );
    assert!(store.unsealed().unwrap().is_empty());
    assert_eq!(store.ledger_head().unwrap(), second);
    let row = store.get(&run.run_id).unwrap().unwrap();
    assert_eq!(
        (row.status, row.wall_seconds, row.changed_files),
        (Some(RunStatus::Fail), Some(3.25), Some(2))
    );
}

#[test]
fn a_run_is_created_once_and_sealed_once_and_in_this_order() {
    let (_dir, path) = home();
    let store = store(&path);
    let run = created(1, 0);
    let pack = sealed(&run, RunStatus::Pass);
    assert!(
        matches!(store.run_sealed(&pack), Err(StoreError::TooEarly { kind: "run.sealed", after, .. })
            if after == RunCreated::key(&run.run_id))
    );
    store.run_created(&run).unwrap();
    store.run_sealed(&pack).unwrap();

    let mut other = run.clone();
    other.conformance = true;
    assert!(matches!(
        store.run_created(&other),
        Err(StoreError::Conflict { once, seq: 2 }) if once == RunCreated::key(&run.run_id)
    ));
    let mut other = pack.clone();
    other.pack_digest = Digest::from_bytes(&[1; 32]);
    assert!(matches!(
        store.run_sealed(&other),
        Err(StoreError::Conflict { once, seq: 3 }) if once == Seal::key(&run.run_id)
    ));
    let mut other = pack;
    other.status = RunStatus::Blocked;
    assert!(matches!(
        store.run_sealed(&other),
        Err(StoreError::Conflict { once, seq: 3 }) if once == Seal::key(&run.run_id)
    ));

    assert_eq!(
        store.get(&run.run_id).unwrap().unwrap().status,
        Some(RunStatus::Pass),
        "the index kept the first"
    );
    assert_eq!(store.ledger_head().unwrap().seq, 3);
}

#[test]
fn raw_sql_cannot_change_the_ledger() {
    let (_dir, path) = home();
    let store = store(&path);
    let run = created(1, 0);
    store.run_created(&run).unwrap();
    let later = "'later', 's', NULL, '2026', '{}'";
    let again = "kind, subject, once, at, record";
    for attack in [
        "UPDATE ledger SET record = '{}' WHERE seq = 2".to_owned(),
        "DELETE FROM ledger WHERE seq = 2".to_owned(),
        "DELETE FROM ledger".to_owned(),
        format!("INSERT OR REPLACE INTO ledger VALUES (2, 'x', 'x', {later})"),
        format!("INSERT INTO ledger VALUES (9, 'x', 'x', {later})"),
        format!("INSERT INTO ledger VALUES (3, 'not the head', 'x', {later})"),
        format!(
            "INSERT OR REPLACE INTO ledger SELECT 3, digest, 'x', {again} FROM ledger WHERE seq = 2"
        ),
        format!("REPLACE INTO ledger SELECT 1, prev, digest, {again} FROM ledger WHERE seq = 2"),
    ] {
        let error = raw(&path, &attack).expect_err(&attack);
        assert!(
            error.to_string().contains("the ledger is append-only"),
            "{attack}: {error}"
        );
    }
    assert_eq!(store.verify_ledger().unwrap().broken, None);
    assert_eq!(store.ledger_head().unwrap().seq, 2);
}

#[test]
fn an_attacker_who_drops_the_triggers_is_found_by_number() {
    let check = |attack: &str| {
        let (_dir, path) = home();
        let store = store(&path);
        for number in 0..5 {
            let run = created(number, 0);
            store.run_created(&run).unwrap();
            store.run_sealed(&sealed(&run, RunStatus::Fail)).unwrap();
        }
        assert_eq!(store.verify_ledger().unwrap().broken, None);
        raw(&path, &format!("{NO_TRIGGERS} {attack}")).unwrap();
        let found = store.verify_ledger().unwrap();
        assert_eq!(found.head.map_or(0, |head| head.seq), found.entries);
        found.broken.map(|Break { seq, reason }| (seq, reason))
    };
    use BreakReason::{Digest, Genesis, Previous, Record, Sequence};
    assert_eq!(
        check("UPDATE ledger SET record = replace(record, 'fail', 'pass') WHERE seq = 5"),
        Some((5, Digest))
    );
    assert_eq!(
        check("UPDATE ledger SET digest = prev WHERE seq = 11"),
        Some((11, Digest))
    );
    assert_eq!(
        check("UPDATE ledger SET prev = digest WHERE seq = 6"),
        Some((6, Previous))
    );
    assert_eq!(
        check("UPDATE ledger SET subject = 'another' WHERE seq = 8"),
        Some((8, Digest))
    );
    assert_eq!(
        check("UPDATE ledger SET kind = 'run.other' WHERE seq = 4"),
        Some((4, Digest))
    );
    assert_eq!(
        check("UPDATE ledger SET record = x'00' WHERE seq = 4"),
        Some((4, Record))
    );
    assert_eq!(
        check("DELETE FROM ledger WHERE seq = 7"),
        Some((7, Sequence))
    );
    assert_eq!(
        check("DELETE FROM ledger WHERE seq = 1"),
        Some((1, Sequence))
    );
    assert_eq!(check("DELETE FROM ledger"), Some((1, Genesis)));
    assert_eq!(
        check(
            "INSERT INTO ledger SELECT -3, prev, digest, kind, subject, 'x', at, record FROM ledger WHERE seq = 2"
        ),
        Some((1, Sequence))
    );
    assert_eq!(
        check("UPDATE ledger SET seq = 'many' WHERE seq = 9"),
        Some((9, Sequence))
    );
    // What only a checkpoint kept elsewhere can show: the end was cut off.
    assert_eq!(check("DELETE FROM ledger WHERE seq > 9"), None);
}

#[test]
fn the_ledger_is_read_page_by_page() {
    let (_dir, path) = home();
    let store = store(&path);
    for number in 0..4 {
        store.run_created(&created(number, 0)).unwrap();
    }
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let page = store
            .ledger_entries(LedgerPage {
                kind: None,
                after,
                limit: 2,
            })
            .unwrap();
        assert!(page.entries.len() <= 2);
        seen.extend(page.entries);
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(
        seen.iter().map(|entry| entry.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    assert_eq!(seen[0].kind, "genesis");
    assert_eq!(seen[0].digest, store.ledger_id().unwrap());
    assert_eq!(seen[1].record["case_id"], "even");
    assert!(seen.windows(2).all(|pair| pair[1].prev == pair[0].digest));

    let pack = sealed(&created(2, 0), RunStatus::Pass);
    store.run_sealed(&pack).unwrap();
    let of_kind = |kind| {
        let page = LedgerPage {
            kind: Some(kind),
            after: 3,
            limit: 100,
        };
        let numbers = store.ledger_entries(page).unwrap().entries.into_iter();
        numbers.map(|entry| entry.seq).collect::<Vec<_>>()
    };
    assert_eq!(of_kind(RecordKind::RunCreated), [4, 5]);
    assert_eq!(of_kind(RecordKind::RunSealed), [6]);
}
