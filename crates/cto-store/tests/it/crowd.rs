//! Many writers at once, from no database to a full one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use cto_contract::words::RunStatus;
use cto_store::{Appended, Filter, Found, Page, Store, StoreError};

use crate::sample::{created, home, init, sealed, store, time};
use crate::seam::{Dummy, Refused, admit, consume, consumed, grant};

const CROWD: u32 = 100;
const CHILD_PATH: &str = "CTO_STORE_TEST_PATH";
const CHILD_NUMBER: &str = "CTO_STORE_TEST_NUMBER";

/// What each of the crowd does.
fn enter_one_run(path: &Path, number: u32) {
    let store = Store::open(path, init()).unwrap();
    let run = created(number, i64::from(number));
    store.run_created(&run).unwrap();
    store.run_sealed(&sealed(&run, RunStatus::Pass)).unwrap();
}

fn everything_is_there(path: &Path) {
    let store = store(path);
    assert_eq!(store.counts().unwrap().pass, u64::from(CROWD));
    assert!(store.unsealed().unwrap().is_empty());
    let rows = store
        .list(&Filter::default(), &Page::first(1000))
        .unwrap()
        .rows;
    let numbers: BTreeSet<String> = rows.iter().map(|row| row.title.clone()).collect();
    assert_eq!(numbers.len(), CROWD as usize);
    let check = store.verify_ledger().unwrap();
    assert_eq!(
        (check.broken, check.entries),
        (None, 1 + 2 * u64::from(CROWD))
    );
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".new-"))
        .collect();
    assert!(left.is_empty(), "drafts are removed: {left:?}");
}

#[test]
fn a_hundred_threads_that_begin_with_no_database_lose_nothing() {
    let (_dir, path) = home();
    let start = Barrier::new(CROWD as usize);
    std::thread::scope(|scope| {
        for number in 0..CROWD {
            let (path, start) = (&path, &start);
            scope.spawn(move || {
                start.wait();
                enter_one_run(path, number);
            });
        }
    });
    everything_is_there(&path);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts itself again: locks between processes differ from those between threads"
)]
fn a_hundred_processes_that_begin_with_no_database_lose_nothing() {
    let (_dir, path) = home();
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..CROWD)
        .map(|number| {
            std::process::Command::new(&program)
                .args([
                    "--exact",
                    "crowd::one_process_enters_one_run",
                    "--nocapture",
                ])
                .env(CHILD_PATH, &path)
                .env(CHILD_NUMBER, number.to_string())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    everything_is_there(&path);
}

/// One of the processes above, and a test of its own when nobody says where.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test process has no other way to get its values"
)]
fn one_process_enters_one_run() {
    let (_dir, alone) = home();
    let path = std::env::var_os(CHILD_PATH).map_or(alone, PathBuf::from);
    let number = std::env::var(CHILD_NUMBER).map_or(0, |n| n.parse().unwrap());
    enter_one_run(&path, number);
}

/// Eight processes, ten grants: each process tries each grant 25 times, 2,000 tries in all.
const TAKERS: u32 = 8;
const GRANTS: u32 = 10;
const ROUNDS: u32 = 25;

fn give_grants(store: &Store) {
    let admitted = admit(store);
    for number in 0..GRANTS {
        grant(store, &format!("g{number}"), &admitted);
    }
}

/// Tries every grant again and again, each time as another run, and returns those that it won.
fn try_every_grant(store: &Store, taker: u32) -> Vec<(String, String)> {
    let mut won = Vec::new();
    for round in 0..ROUNDS {
        for number in 0..GRANTS {
            let grant = format!("g{}", (number + taker) % GRANTS);
            let run = format!("r-{taker}-{round}-{number}");
            match consume(store, &grant, &run, time(2)) {
                Ok(Appended::New(_)) => won.push((grant, run)),
                Err(Refused::Store(StoreError::Conflict { once, .. })) => {
                    assert_eq!(once, consumed(&grant));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    won
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts itself again: locks between processes differ from those between threads"
)]
fn of_thousands_of_tries_by_eight_processes_one_consumes_each_grant() {
    let (_dir, path) = home();
    let store = store(&path);
    give_grants(&store);
    let program = std::env::current_exe().unwrap();
    let mut children: Vec<_> = (0..TAKERS)
        .map(|taker| {
            std::process::Command::new(&program)
                .args([
                    "--exact",
                    "crowd::one_process_tries_every_grant",
                    "--nocapture",
                ])
                .env(CHILD_PATH, &path)
                .env(CHILD_NUMBER, taker.to_string())
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in &mut children {
        drop(child.stdin.take());
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut claimed = Vec::new();
    for taker in 0..TAKERS {
        let text = std::fs::read_to_string(wins(&path, taker)).unwrap();
        let won: Vec<(String, String)> = serde_json::from_str(&text).unwrap();
        claimed.extend(won);
    }
    claimed.sort();
    let entered: Vec<(String, String)> = (0..GRANTS)
        .map(|number| {
            let found: Found<Dummy> = store
                .find(&consumed(&format!("g{number}")))
                .unwrap()
                .unwrap();
            let Dummy::Consumed { grant, by, .. } = found.record else {
                panic!("{found:?}")
            };
            (grant, by)
        })
        .collect();
    assert_eq!(
        claimed, entered,
        "who thinks to have won is who stands in the ledger"
    );
    let walk = store.verify_ledger().unwrap();
    assert_eq!(
        (walk.broken, walk.entries),
        (None, 2 + 2 * u64::from(GRANTS))
    );
}

fn wins(path: &Path, taker: u32) -> PathBuf {
    path.with_file_name(format!("wins-{taker}"))
}

/// One of the processes above, and a test of its own when nobody says where.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test process has no other way to get its values"
)]
fn one_process_tries_every_grant() {
    let (_dir, alone) = home();
    let Some(path) = std::env::var_os(CHILD_PATH).map(PathBuf::from) else {
        let store = store(&alone);
        give_grants(&store);
        assert_eq!(try_every_grant(&store, 0).len(), GRANTS as usize);
        return;
    };
    let taker = std::env::var(CHILD_NUMBER).unwrap().parse().unwrap();
    let store = store(&path);
    // All begin when the test closes their input.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    let won = try_every_grant(&store, taker);
    let file = std::fs::File::create_new(wins(&path, taker)).unwrap();
    serde_json::to_writer(file, &won).unwrap();
}

#[test]
fn threads_may_share_one_store() {
    let (_dir, path) = home();
    let shared = store(&path);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let shared = &shared;
            scope.spawn(move || shared.run_created(&created(number, 0)).unwrap());
        }
    });
    assert_eq!(shared.unsealed().unwrap().len(), 8);
}
