//! `kill -9` before every write of a run, and before every write of the recovery that follows: whatever part of its
//! writes a process left, the next recovery ends with packs that verify and with nothing left to do.
//!
//! The places are found by following the process, not hand-picked. The ordinary tests draw a sample. `cargo xtask
//! campaign kills` takes every write of a run, and of the recoveries twenty writes for each file of a pack.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use cto_contract::artifact::{ATTESTATION, TASK_CONTRACT};
use serde_json::Value;

use crate::dice::{Dice, is_campaign};
use crate::place::sh;
use crate::test_home::{TINY, TestHome, files};
use crate::tracer::{Followed, follow};

/// Places drawn from all writes of a run, and from all writes of a recovery, outside of the campaign.
const SAMPLE: usize = 6;
/// The campaign kills this often around the first write to each file of a pack, and this often in the recovery after it.
const PER_FILE: usize = 20;
/// The campaign tells how far it is after so many kills.
const TOLD_EVERY: usize = 50;
/// Each is mostly waiting for its child.
const WORKERS: usize = 2;
/// What a home holds, all of it.
const LAYOUT: [&str; 12] = [
    "baselines",
    "cto.db",
    "cto.db-shm",
    "cto.db-wal",
    "harness-runs",
    "keys",
    "ledger-mark",
    "locks",
    "overlays",
    "requests",
    "rooms",
    "work",
];

/// How the change is made.
#[derive(Debug, Clone, Copy)]
enum Lane {
    Fake,
    Command,
}

impl Lane {
    const fn name(self) -> &'static str {
        match self {
            Self::Fake => "fake",
            Self::Command => "command",
        }
    }
}

fn run_of(test_home: &TestHome, lane: Lane) -> Command {
    let cases = test_home.cases();
    let mut args = vec!["run", TINY, "-q", "--cases", cases.to_str().unwrap()];
    if let Lane::Command = lane {
        args.extend(["--engine", "command", "--", "sh", "-c", "echo new > a.txt"]);
    }
    let mut command = test_home.command(&args);
    command
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "2");
    command
}

fn fresh() -> TestHome {
    let test_home = TestHome::new();
    test_home.tiny();
    test_home
}

/// Follows a run of a new home to the place where it is killed.
fn crashed(lane: Lane, at: usize) -> (TestHome, Followed) {
    let test_home = fresh();
    let followed = follow(&run_of(&test_home, lane), &test_home.path(), Some(at));
    (test_home, followed)
}

/// Another place with the same home and the same trust.
fn copy_of(test_home: &TestHome) -> TestHome {
    let copy = fresh();
    let copied = |dir: &str| {
        let (from, to) = (test_home.path().join(dir), copy.path());
        format!("cp -a '{}' '{}'", from.display(), to.display())
    };
    sh(
        &copy.path(),
        &format!("{} && {}", copied("home"), copied("config")),
    );
    copy
}

fn recovery_of(test_home: &TestHome) -> Command {
    test_home.command(&["recover"])
}

/// The first write to each file of the pack, by the file's path in it.
fn first_writes(test_home: &TestHome, lane: Lane, followed: &Followed) -> BTreeMap<PathBuf, usize> {
    let pack = test_home.pack(&test_home.run_of(lane.name()));
    let mut found = BTreeMap::new();
    for (n, write) in followed.writes.iter().enumerate() {
        let inside = write
            .file
            .as_ref()
            .and_then(|file| file.strip_prefix(&pack).ok());
        if let Some(inside) = inside {
            found.entry(inside.to_owned()).or_insert(n + 1);
        }
    }
    found
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| e.file_name().into_string().unwrap())
        .collect()
}

/// Recovers, and holds against the home all that must be true after a crash.
fn check(test_home: &TestHome, at: &str) {
    let (code, answer) = test_home.json(&["recover"]);
    assert_eq!(code, 0, "{at}: {answer}");
    let (code, again) = test_home.json(&["recover"]);
    assert_eq!(
        (code, &again["runs"]),
        (0, &Value::Array(Vec::new())),
        "{at}"
    );

    let home = test_home.home();
    let layout = LAYOUT.map(str::to_owned).into_iter().collect();
    let litter: Vec<_> = names(&home).difference(&layout).cloned().collect();
    assert!(litter.is_empty(), "{at}: {litter:?} in the home");
    for dir in ["work", "rooms"] {
        let left = names(&home.join(dir));
        assert!(left.is_empty(), "{at}: scratch is left in {dir}");
    }
    let keys = names(&home.join("keys"));
    assert!(
        keys.iter().all(|name| name == "harness.pem"),
        "{at}: {keys:?}"
    );

    // The home goes on as if nothing had been.
    let ran = run_of(test_home, Lane::Fake).output().unwrap();
    assert!(
        ran.status.success(),
        "{at}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let packs = test_home.packs();
    assert!((1..=3).contains(&packs.len()), "{at}: {packs:?}");
    let (_, listed) = test_home.json(&["runs"]);
    for run_id in packs {
        let (code, verified) = test_home.json(&["verify", &run_id]);
        assert_eq!(code, 0, "{at}: {verified}");
        assert!(listed.to_string().contains(&run_id), "{at}: {listed}");
    }
    let (code, ledger) = test_home.json(&["index", "rebuild"]);
    assert_eq!(
        (code, &ledger["refused"]),
        (0, &Value::Array(Vec::new())),
        "{at}: {ledger}"
    );
}

/// Takes every point, a few at a time.
#[expect(
    clippy::print_stderr,
    reason = "a campaign lasts minutes, and only its output can tell how far it is"
)]
fn each<T: Sync>(what: &str, points: &[T], act: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(number) else {
                        return;
                    };
                    act(point);
                    if is_campaign() && (number + 1).is_multiple_of(TOLD_EVERY) {
                        eprintln!("{what}: kill {} of {}", number + 1, points.len());
                    }
                }
            });
        }
    });
    eprintln!("{what}: {} kills", points.len());
}

/// One of the lanes; the campaign takes both.
fn lanes(dice: &mut Dice) -> Vec<Lane> {
    let mut lanes = vec![Lane::Fake, Lane::Command];
    if !is_campaign() {
        lanes.swap_remove(dice.roll(2));
    }
    lanes
}

/// So many different numbers from 1 up to `last`, or all if there are fewer.
fn places(count: usize, last: usize, dice: &mut Dice) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    while found.len() < count.min(last) {
        found.insert(1 + dice.roll(last));
    }
    found
}

fn killed_runs_recover(lane: Lane, dice: &mut Dice) {
    let whole = fresh();
    let followed = follow(&run_of(&whole, lane), &whole.path(), None);
    assert_eq!(followed.code, Some(0), "{lane:?}");
    let last = followed.writes.len();
    let at_files = first_writes(&whole, lane, &followed);
    let pack = whole.pack(&whole.run_of(lane.name()));
    for file in files(&pack) {
        let file = file.strip_prefix(&pack).unwrap();
        // The contract is written before the pack has its name; the attestation gets its own by a rename.
        let is_renamed = [TASK_CONTRACT, ATTESTATION]
            .iter()
            .any(|name| file == Path::new(name));
        assert!(
            is_renamed || at_files.contains_key(file),
            "{lane:?}: {}",
            file.display()
        );
    }

    let count = if is_campaign() { last } else { SAMPLE };
    let mut points = places(count, last, dice);
    for first in at_files.values() {
        let tries = if is_campaign() { PER_FILE } else { 1 };
        points.extend(*first..(first + tries).min(last));
    }
    let points: Vec<usize> = points.into_iter().collect();
    each(&format!("{lane:?} runs"), &points, |point| {
        let (test_home, followed) = crashed(lane, *point);
        let last = followed.writes.last().and_then(|write| write.file.clone());
        check(
            &test_home,
            &format!("{lane:?} run, write {point}, {last:?}"),
        );
    });
}

fn killed_recoveries_recover(lane: Lane, dice: &mut Dice) {
    let whole = fresh();
    let followed = follow(&run_of(&whole, lane), &whole.path(), None);
    let at_files: Vec<usize> = first_writes(&whole, lane, &followed)
        .into_values()
        .collect();
    let crashes = match is_campaign() {
        true => at_files,
        false => vec![at_files[dice.roll(at_files.len())]],
    };
    for crash in crashes {
        let (dead, _) = crashed(lane, crash);
        let example = copy_of(&dead);
        let recovery = follow(&recovery_of(&example), &example.path(), None);
        assert_eq!(recovery.code, Some(0), "{lane:?} run, write {crash}");
        let count = if is_campaign() { PER_FILE } else { SAMPLE };
        let points = places(count, recovery.writes.len(), dice);
        let points: Vec<usize> = points.into_iter().collect();
        let what = format!("{lane:?} run, write {crash}; recoveries");
        each(&what, &points, |point| {
            let test_home = copy_of(&dead);
            let followed = follow(&recovery_of(&test_home), &test_home.path(), Some(*point));
            let last = followed.writes.last().and_then(|write| write.file.clone());
            let at = format!("{lane:?} run, write {crash}; recovery, write {point}, {last:?}");
            check(&test_home, &at);
        });
    }
}

#[test]
fn a_run_that_is_killed_before_any_of_its_writes_is_recovered() {
    let mut dice = Dice::thrown();
    for lane in lanes(&mut dice) {
        killed_runs_recover(lane, &mut dice);
    }
}

#[test]
fn a_recovery_that_is_killed_before_any_of_its_writes_is_done_by_the_next() {
    let mut dice = Dice::thrown();
    for lane in lanes(&mut dice) {
        killed_recoveries_recover(lane, &mut dice);
    }
}
