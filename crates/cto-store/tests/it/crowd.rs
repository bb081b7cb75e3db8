//! Many writers at once, from no database to a full one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use cto_contract::words::RunStatus;
use cto_store::{Filter, Page, Store};

use crate::sample::{created, home, init, sealed, store};

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
