//! Retention: what `cto gc` takes away, and why each thing may go.
//!
//! A survey decides, a sweep removes exactly what the survey names. Nothing that a living process uses goes. A pack goes
//! only when the settings say so, the ledger knows it by the same digest and nothing rests on it, and it leaves a signed
//! tombstone: see [`tombstone`].

mod document;
mod in_use;
mod packs;
mod tombstone;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cto_contract::artifact::ATTESTATION;
use cto_contract::ids::{RunId, TreeId};
use cto_contract::outputs::ItemKind;
use cto_contract::time::Utc;
use cto_store::{BreakReason, StoreError};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::harness::Harness;
use crate::home::Home;
use crate::lock::{Holder, LOCK};
use crate::recover::recover_one;
use crate::reference::ReferenceError;

pub use document::{Sweeping, collect_garbage};
pub(crate) use in_use::note_use;
use in_use::{USED, is_in_use};
pub(crate) use tombstone::is_buried;
pub use tombstone::{Buried, TombstoneError, burial, buried};

/// How a name begins that is out of the way and waits for its removal.
const GONE: &str = ".gone-";
/// How deep a validator's home may lie below `validation/<stamp>/`.
const VALIDATION_DEPTH_MAX: usize = 6;
const DAY_SECONDS: i64 = 86_400;

/// One thing that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    pub kind: ItemKind,
    pub path: PathBuf,
    pub run_id: Option<RunId>,
    /// Of its files; what is freed can be more or less.
    pub bytes: u64,
    pub reason: String,
}

/// A pack that is old enough to go, and stays.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    pub run_id: RunId,
    pub reason: String,
}

/// What would go, in the order in which it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Survey {
    pub items: Vec<Item>,
    pub kept: Vec<Kept>,
}

impl Survey {
    fn bytes(&self) -> u64 {
        self.items.iter().map(|i| i.bytes).sum()
    }
}

/// Something that could not be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    pub path: PathBuf,
    pub reason: String,
}

/// Why nothing could be surveyed.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("the packs can't be listed")]
    Packs(#[from] ReferenceError),
    #[error("the ledger can't be read")]
    Store(#[from] StoreError),
    #[error(
        "record {seq} of the ledger does not hold ({reason}), so no pack can be compared with it"
    )]
    Ledger { seq: u64, reason: BreakReason },
}

/// Says what may go now. Removes nothing.
fn survey(harness: &Harness, now: Utc) -> Result<Survey, RetentionError> {
    let home = &harness.home;
    let settings = harness.config.harness.retention;
    let mut items = Vec::new();
    work(home, &mut items)?;
    leftovers(&home.runs(), &mut items)?;
    validation(home, before(now, settings.validation()), &mut items)?;
    baselines(home, before(now, settings.baselines()), &mut items)?;
    let (packs, kept) = match settings.packs_days {
        Some(days) => packs::survey(harness, now, days)?,
        None => Default::default(),
    };
    let going: BTreeSet<RunId> = packs.iter().filter_map(|i| i.run_id.clone()).collect();
    items.extend(packs);
    requests(home, &going, &mut items)?;
    Ok(Survey { items, kept })
}

/// Removes what a survey named, as far as that is still in order.
fn sweep(harness: &Harness, survey: &Survey, now: Utc) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut note = |path: &Path, done: Result<(), String>| {
        if let Err(reason) = done {
            problems.push(Problem {
                path: path.to_owned(),
                reason,
            });
        }
    };
    for item in &survey.items {
        let done = match item.kind {
            ItemKind::Work => clear_work(harness, item),
            ItemKind::Validation | ItemKind::Leftover => remove(&item.path),
            ItemKind::Request => fs::remove_file(&item.path).map_err(|e| e.to_string()),
            ItemKind::Pack => packs::remove(harness, item, now),
            // Together, below: nobody may choose one meanwhile.
            ItemKind::Baseline => continue,
        };
        note(&item.path, done);
    }
    let of_baselines = || survey.items.iter().filter(|i| i.kind == ItemKind::Baseline);
    if of_baselines().next().is_some() {
        match take_out(&harness.home, of_baselines()) {
            Ok(taken) => {
                for (path, done) in taken {
                    note(&path, done.and_then(|gone| remove(&gone)));
                }
            }
            Err(reason) => note(&harness.home.baselines(), Err(reason)),
        }
    }
    problems
}

/// The second since the epoch before which something is older than so many days.
fn before(now: Utc, days: u32) -> (i64, u32) {
    (now.millis() / 1000 - i64::from(days) * DAY_SECONDS, days)
}

fn remove(path: &Path) -> Result<(), String> {
    cto_checkout::remove_tree(path).map_err(|e| crate::error_chain(&e))
}

/// Names in a directory with what they are, sorted; none when it is not there.
fn listed(dir: &Path) -> Result<Vec<(String, fs::Metadata)>, RetentionError> {
    let failed = |source| RetentionError::Read {
        path: dir.to_owned(),
        source,
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // A name that is no text is none of ours.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        match entry.metadata() {
            Ok(data) => found.push((name, data)),
            // Its owner removed it while we looked.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Bytes of all files below a path. What can't be looked at counts nothing: it may be an agent's.
fn bytes_below(path: &Path) -> u64 {
    let (mut bytes, mut open) = (0, vec![path.to_owned()]);
    while let Some(path) = open.pop() {
        let Ok(data) = fs::symlink_metadata(&path) else {
            continue;
        };
        if data.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            open.extend(entries.map(|e| e.path()));
        } else {
            bytes += data.len();
        }
    }
    bytes
}

fn item(kind: ItemKind, path: PathBuf, run_id: Option<RunId>, reason: String) -> Item {
    Item {
        kind,
        bytes: bytes_below(&path),
        path,
        run_id,
        reason,
    }
}

fn work(home: &Home, items: &mut Vec<Item>) -> Result<(), RetentionError> {
    for (name, _) in listed(&home.work())? {
        let path = home.work().join(&name);
        if let Ok(run_id) = name.parse::<RunId>() {
            // A run that is not sealed is recovery's to close.
            let is_sealed = home.pack(&run_id).join(ATTESTATION).exists();
            let is_held = Holder::read(&path.join(LOCK)).is_none_or(|h| h.is_alive());
            if is_sealed && !is_held {
                let reason = "its run is sealed and its process is gone".to_owned();
                items.push(item(ItemKind::Work, path, Some(run_id), reason));
            }
        } else if crate::recover::is_abandoned(&name) {
            let reason = "its process is gone".to_owned();
            items.push(item(ItemKind::Work, path, None, reason));
        }
    }
    Ok(())
}

fn clear_work(harness: &Harness, item: &Item) -> Result<(), String> {
    let name = item.path.file_name().unwrap_or_default().to_string_lossy();
    drop(recover_one(harness, &name));
    if item.path.symlink_metadata().is_ok() {
        return Err("it could not be cleared; `cto recover` says why".to_owned());
    }
    Ok(())
}

fn leftovers(dir: &Path, items: &mut Vec<Item>) -> Result<(), RetentionError> {
    for (name, _) in listed(dir)? {
        if name.starts_with(GONE) {
            let reason = "an earlier removal did not end".to_owned();
            items.push(item(ItemKind::Leftover, dir.join(name), None, reason));
        }
    }
    Ok(())
}

fn validation(
    home: &Home,
    (cutoff, days): (i64, u32),
    items: &mut Vec<Item>,
) -> Result<(), RetentionError> {
    for (name, data) in listed(&home.validation())? {
        let path = home.validation().join(name);
        if data.mtime() <= cutoff && !is_lived_in(&path, 0) {
            let reason = format!("older than validation_days: {days}");
            items.push(item(ItemKind::Validation, path, None, reason));
        }
    }
    Ok(())
}

/// Whether a living process works on a run of a home somewhere below.
fn is_lived_in(dir: &Path, depth: usize) -> bool {
    if dir.file_name().is_some_and(|n| n == "work") {
        let mut runs = fs::read_dir(dir).into_iter().flatten().flatten();
        return runs.any(|r| Holder::read(&r.path().join(LOCK)).is_some_and(|h| h.is_alive()));
    }
    depth < VALIDATION_DEPTH_MAX
        && fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .any(|e| e.file_type().is_ok_and(|t| t.is_dir()) && is_lived_in(&e.path(), depth + 1))
}

fn baselines(
    home: &Home,
    (cutoff, days): (i64, u32),
    items: &mut Vec<Item>,
) -> Result<(), RetentionError> {
    let dir = home.baselines();
    leftovers(&dir, items)?;
    for (name, data) in listed(&dir)? {
        let path = dir.join(&name);
        let (is_old, reason) = if name.parse::<TreeId>().is_ok() {
            let used = [USED, "manifest"]
                .iter()
                .find_map(|file| path.join(file).symlink_metadata().ok());
            let last = used.map_or(data.mtime(), |d| d.mtime());
            let reason = format!("not used for baselines_days: {days}");
            (last <= cutoff && !is_in_use(&path), reason)
        } else if name.starts_with(".listing-") || name.starts_with(".new-") {
            let reason = format!("older than baselines_days: {days}");
            (data.mtime() <= cutoff, reason)
        } else {
            continue;
        };
        if is_old {
            items.push(item(ItemKind::Baseline, path, None, reason));
        }
    }
    Ok(())
}

/// What became of each thing: the name under which it is out of the way, or why it stays.
type Taken = Vec<(PathBuf, Result<PathBuf, String>)>;

/// Moves baselines out of the way while no run chooses one. Removing them takes longer and needs no lock.
fn take_out<'a>(home: &Home, items: impl Iterator<Item = &'a Item>) -> Result<Taken, String> {
    let _alone = home
        .lock_baselines(FlockOperation::NonBlockingLockExclusive)
        .map_err(|e| {
            if e.raw_os_error() == Some(Errno::WOULDBLOCK.raw_os_error()) {
                "a run chooses its baseline just now; try again".to_owned()
            } else {
                e.to_string()
            }
        })?;
    let take = |item: &Item| {
        if is_in_use(&item.path) {
            return Err("a run uses it".to_owned());
        }
        let name = item.path.file_name().unwrap_or_default().to_string_lossy();
        let gone = home
            .baselines()
            .join(format!("{GONE}{}", name.trim_start_matches('.')));
        remove(&gone)?;
        fs::rename(&item.path, &gone).map_err(|e| e.to_string())?;
        Ok(gone)
    };
    Ok(items.map(|i| (i.path.clone(), take(i))).collect())
}

fn requests(
    home: &Home,
    going: &BTreeSet<RunId>,
    items: &mut Vec<Item>,
) -> Result<(), RetentionError> {
    for (name, _) in listed(&home.requests())? {
        let Some(run_id) = name.strip_suffix(".json").and_then(|n| n.parse().ok()) else {
            continue;
        };
        // A run that is just being made has its request and its work directory before its pack.
        let is_here = home.pack(&run_id).exists() || home.work_of(&run_id).exists();
        if !is_here || going.contains(&run_id) {
            let path = home.requests().join(name);
            let reason = "its pack is gone".to_owned();
            items.push(item(ItemKind::Request, path, Some(run_id), reason));
        }
    }
    Ok(())
}
